"""Addresses of model servers that belong to one session, and reserves that fit small local models."""

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.policies import KeepLast
from harness.session.live_session import LiveSession
from harness.session.preflight import check_spec
from harness.session.spec import SessionSpec, choose_nominal_tokens, decode_setup, encode_setup
from tests.models.openai_stub import Say, serving

SPEC = SessionSpec(request="look", policy=KeepLast(), model="hosted_vllm/stub", window_tokens=50_000)


@pytest.mark.slow  # the library of real models takes its time to load
@pytest.mark.bubblewrap
def test_two_sessions_of_one_process_call_two_servers(tmp_path, monkeypatch):
    monkeypatch.delenv("HOSTED_VLLM_API_BASE", raising=False)
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
    with serving(Say(pieces=("left",)), Say(pieces=("left again",))) as left, serving(Say(pieces=("right",))) as right:
        journal = tmp_path / "session.sqlite"
        sessions = [LiveSession(replace(SPEC, api_base=stub.base, journal=journal)).start() for stub in (left, right)]
        assert [session.wait(120) for session in sessions] == ["idle", "idle"]
        assert [session.view.items[-1].message.text for session in sessions] == ["left", "right"]
        for session in sessions:
            session.close()
        assert left.base.encode() not in journal.read_bytes()
        again = LiveSession.reopen(journal, sessions[0].session_id, spec=replace(SPEC, api_base=left.base, journal=journal))
        again.start().send("and now?")
        assert again.wait(120) == "idle"
        again.close()
        assert [len(stub.asked) for stub in (left, right)] == [2, 1]


def test_an_address_with_credentials_is_neither_printed_nor_logged():
    spec = replace(SPEC, api_base="http://me:planted-secret@127.0.0.1:1/v1")
    assert "planted-secret" not in repr(spec)
    assert "planted-secret" not in repr(spec.wiring)
    assert "planted-secret" not in encode_setup(spec)
    assert "api_base" not in decode_setup(encode_setup(spec))


@pytest.mark.parametrize("model", ["scripted", "local/smollm2-135m"])
def test_a_model_without_a_server_to_choose_refuses_an_address(model):
    with pytest.raises(UsageError, match="api_base: the model"):
        replace(SPEC, model=model, api_base="http://127.0.0.1:1/v1")


def test_the_default_policy_fits_every_local_model(monkeypatch):
    monkeypatch.setattr("harness.models.local.weights.check", lambda _: None)  # the weights need not be installed
    model = "local/smollm2-135m"
    local = SessionSpec(request="look", policy=KeepLast(), model=model)
    with pytest.raises(UsageError, match="the reserves of 11000 tokens leave nothing"):
        check_spec(local)
    check_spec(replace(local, nominal_window_tokens=choose_nominal_tokens(model, None)))


@pytest.mark.parametrize(
    ("model", "window_tokens", "nominal_tokens"),
    [
        ("local/smollm2-135m", None, 32_768),
        ("local/qwen2.5-coder-1.5b", None, 32_768),
        ("local/qwen2.5-coder-1.5b", 32_768, None),
        ("scripted", 8_192, None),
        ("openai/gpt-5", None, None),
    ],
)
def test_only_small_local_models_scale_the_default_policy(model, window_tokens, nominal_tokens):
    assert choose_nominal_tokens(model, window_tokens) == nominal_tokens
