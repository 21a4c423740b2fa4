"""Tests of the setup of a session, which is restored from its journal when the session is reopened."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.conversation.events import SessionForked, SessionResumed
from harness.errors import UnknownName, UsageError
from harness.models.cassette import Cassette
from harness.policies import KeepLast, policy_from_plain
from harness.protocols import SandboxLimits
from harness.sandboxes.backends import SandboxChoice
from harness.session.grading import grade_workspace
from harness.session.live_session import LiveSession
from harness.session.preflight import check_spec
from harness.session.spec import (
    STORED_FIELDS,
    UNSTORED_FIELDS,
    SessionSpec,
    choose_nominal_tokens,
    decode_setup,
    encode_setup,
    find_setup,
)
from harness.store.journal import Journal
from harness.tasks import make_task
from harness.testing.fakes import MemorySandbox
from harness.widgets.agent import AgentWidget
from tests.experiment.tiny_task import tiny
from tests.models.openai_stub import Say, serving
from tests.session.test_execution import session
from tests.session.test_live_session import SECONDS, living, stopped_after
from tests.store.samples import started

__all__ = ["living"]

OTHER = {
    "policy": policy_from_plain({"kind": "keep-last", "keep_last": 3, "threshold": 0.25}),
    "model": "scripted/tiny:attentive",
    "task": tiny(7),
    "seed": 5,
    "window_tokens": 17_000,
    "instructions": "Speak plainly.\n\x1b[31mÄ",
    "tool_calls": "text",
    "cassette": Cassette(path=Path("tape.jsonl"), mode="replay"),
    "take": 2,
    "stall_seconds": 7.5,
    "nominal_window_tokens": 200_000,
    "output_limit_scale": 0.25,
    "max_steps": 7,
    "parallel_tools": True,
    "command_timeout_seconds": 5.0,
    "runtime": "bun",
    "sandbox": SandboxChoice(backend="docker", image="mine:1", limits=SandboxLimits(network=True, pids=17)),
    "snapshots": False,
    "explore": True,
    "explore_model": "scripted:typical",
    "reader": "tolerant",
    "notes": True,
    "summarizer_seed": 3,
    "gaps": "claude-code",
    "repeated": "stop",
}
"""A value other than the default for each stored field."""


def test_steps_and_parallel_tools_are_stored_as_in_version_0_1():
    text = encode_setup(SessionSpec(request="", policy="none", max_steps=7, parallel_tools=True))
    assert '"limits":{"max_steps":7,"parallel_tools":true}' in text
    assert (decode_setup(text)["max_steps"], decode_setup(text)["parallel_tools"]) == (7, True)
    with pytest.raises(UnknownName, match=r"unknown field in setup\.limits: 'max_stesp'; did you mean 'max_steps'"):
        decode_setup(text.replace("max_steps", "max_stesp"))


def test_the_step_limit_is_that_of_the_task_unless_the_session_sets_one():
    task = make_task("changing-requirements", 0)
    steps = len(task.script.steps)
    assert SessionSpec(request="", policy="none", task=task).step_limit == task.step_limit == 3 * steps + 30 > 300
    assert SessionSpec(request="", policy="none", task=task, max_steps=2).step_limit == 2
    assert SessionSpec(request="Tidy up.", policy="none").step_limit == 50
    unscripted = replace(task, script=replace(task.script, steps=()))
    assert unscripted.step_limit == 50


def test_a_stored_session_keeps_the_step_limit_of_its_task_or_its_own():
    spec = SessionSpec(request="", policy="none", task=tiny(0))
    for limit in (None, 50):
        restored = decode_setup(encode_setup(replace(spec, max_steps=limit)))
        assert restored["max_steps"] == limit
        assert SessionSpec(request="", **restored).step_limit == (limit or tiny(0).step_limit)


def test_every_field_of_a_session_is_stored_or_listed_as_not_stored():
    assert {one.name for one in fields(SessionSpec)} == {*STORED_FIELDS, "policy"} | UNSTORED_FIELDS
    assert {*STORED_FIELDS, "policy"} == OTHER.keys()
    assert STORED_FIELDS.keys().isdisjoint(UNSTORED_FIELDS)


def test_a_setting_that_version_0_1_did_not_have_is_stored_only_where_it_is_set():
    plain = session()
    later = [one.name for one in fields(SessionSpec) if one.metadata.get("added_later")]
    assert "take" in later
    assert not [name for name in later if f'"{name}"' in encode_setup(plain)]
    assert decode_setup(encode_setup(replace(plain, take=3)))["take"] == 3


def logged(path, given):
    """Return a session that has begun, with the setup in its journal."""
    with Journal.open(path) as journal:
        event = replace(started("s1", given.request), setup_json=encode_setup(given), sandbox=given.sandbox.backend)
        journal.open_session_log("s1", created_at_ms=0, clock=lambda: 0.0).append((event,))


def test_a_model_for_sub_agents_that_the_agent_cannot_send_is_refused():
    """S3.20."""
    with pytest.raises(UsageError, match="explore_model: has no effect unless explore is true"):
        session(explore_model="scripted:typical")


def test_the_models_of_sub_agents_are_among_those_of_the_session():
    """S3.20: local models are served and keys are checked for all of them."""
    policy = policy_from_plain({"kind": "keep-last", "summarizer": "same"})
    assert session(model="a/b", policy=policy, explore=True).models == ("a/b",)
    assert session(model="a/b", policy=policy, explore=True, explore_model="c/d").models == ("a/b", "c/d")
    assert session(model="a/b", policy=policy).sub_agent_model is None


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER)
def test_each_field_of_a_session_spec_comes_back_from_the_journal(tmp_path, name):
    needed = {"explore": True} if name == "explore_model" else {}
    given = session(**{"task": None, "request": "Build it.", **needed, name: OTHER[name]})
    logged(tmp_path / "j.sqlite", given)
    cassette = given.cassette
    again = LiveSession.reopen(tmp_path / "j.sqlite", "s1", cassette=cassette).spec
    assert getattr(again, name) == OTHER[name] != getattr(session(task=None), name)
    assert again == replace(given, journal=tmp_path / "j.sqlite", unsafe_local=False)
    panel = AgentWidget.reopen(tmp_path / "j.sqlite", "s1", cassette=cassette, unsafe_local=True)
    try:
        assert panel.session.spec == replace(again, unsafe_local=True)
    finally:
        panel.close()


def test_a_reopened_session_keeps_its_stored_configuration(living, tmp_path):
    policy = policy_from_plain({"kind": "keep-last", "summarizer": "scripted/extractive", "keep_last": 4})
    task = tiny(3)
    own = {"request": task.prompt, "task": task, "seed": 3, "policy": policy}
    own |= {"window_tokens": 16_000, "nominal_window_tokens": 32_000}
    live = stopped_after(living, 4, **own, explore=True, instructions="Be brief.", max_steps=30)
    live.close()
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id))
    assert replace(again.spec, unsafe_local=True) == live.spec
    again.spec = replace(again.spec, unsafe_local=True)
    again.start()
    assert again.wait(SECONDS) == "idle", again.failure
    assert again.budget == live.budget
    again.resume()
    assert again.wait(SECONDS) == "idle", again.failure
    assert [check.passed for check in again.close().checks] == [True, True]
    [resumed] = [entry.event for entry in again.entries if isinstance(entry.event, SessionResumed)]
    assert resumed.setup_json == "", "as before"
    assert resumed.policy_json == live.entries[0].event.policy_json


def test_a_session_without_leave_does_not_run_without_walls_though_it_once_did(living, tmp_path):
    live = stopped_after(living, 2)
    live.close()
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id)).start()
    assert again.wait(SECONDS) == "failed"
    assert "unsafe" in again.failure


def test_a_specification_given_on_reopening_is_stored_for_the_next_time(living, tmp_path):
    live = stopped_after(living, 2)
    live.close()
    longer = replace(live.spec, max_steps=77, explore=True)
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=longer)).start()
    assert again.wait(SECONDS) == "idle", again.failure
    again.close()
    third = LiveSession.reopen(tmp_path / "j.sqlite", live.session_id).spec
    assert (third.max_steps, third.explore) == (77, True)


def test_a_fork_goes_on_as_its_original_or_as_it_was_given(living, tmp_path):
    live = stopped_after(living, 3, explore=True)
    path = tmp_path / "j.sqlite"
    as_it_was, other = live.fork(2), live.fork(2, spec=replace(live.spec, max_steps=77))
    assert LiveSession.reopen(path, as_it_was.session_id).spec == replace(live.spec, unsafe_local=False)
    assert LiveSession.reopen(path, other.session_id).spec.max_steps == 77
    setups = [
        [one.event.setup_json for one in fork.entries if isinstance(one.event, SessionForked)] for fork in (as_it_was, other)
    ]
    assert setups[0] == [""]
    assert find_setup(other.entries) == setups[1][0] == encode_setup(other.spec)


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "a policy needs a kind"),
        ('{"policy": {"kind": "none"}, "seed": "x"}', "setup.seed"),
        ('{"policy": {"kind": "of another package"}}', "of another package"),
    ],
)
def test_a_setup_that_cannot_be_read_is_refused_with_what_is_wrong(tmp_path, text, explanation):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        journal.open_session_log("s1", created_at_ms=0, clock=lambda: 0.0).append((replace(started("s1", "x"), setup_json=text),))
    with pytest.raises(UsageError, match=explanation):
        LiveSession.reopen(tmp_path / "j.sqlite", "s1")


STRANGERS_FILE = """
import pathlib

pathlib.Path(__file__).with_name("imported").touch()

def judge(submission):
    yield "port", True, ""
    yield "note", True, ""
"""


def stored_with_judge(path, name):
    """Return a stored session whose task names a judge, as a stranger could write it."""
    setup = json.loads(encode_setup(session(task=tiny(7), request="Build it.")))
    setup["task"]["grader"]["judge"] = name
    event = replace(started("s1", "Build it."), setup_json=json.dumps(setup), sandbox="local")
    with Journal.open(path) as journal:
        journal.open_session_log("s1", created_at_ms=0, clock=lambda: 0.0).append((event,))


def reopened_task(folder, **given):
    task = LiveSession.reopen(folder / "j.sqlite", "s1", **given).spec.task
    assert task is not None
    return task


@pytest.mark.parametrize("name", ["strangers_module:judge", "{folder}/strangers_module.py:judge", "os:system"])
def test_no_module_or_file_is_loaded_because_a_session_names_it(tmp_path, monkeypatch, name):
    (tmp_path / "strangers_module.py").write_text(STRANGERS_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    stored_with_judge(tmp_path / "j.sqlite", name.format(folder=tmp_path))
    task = reopened_task(tmp_path)
    graded = grade_workspace(task, MemorySandbox())
    assert not (tmp_path / "imported").exists()
    assert [check.passed for check in graded] == [False, False]
    assert {check.detail.partition(";")[0] for check in graded} == {
        "no verdict: pass the session's task again, by --task or task="
    }
    assert "no verdict" not in str(grade_workspace(reopened_task(tmp_path, task=tiny(7)), MemorySandbox()))


def test_the_judge_of_a_task_file_is_known_once_the_user_has_given_the_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom harness.task import Grader\nfrom tests.experiment.tiny_task import tiny\n"
        "def judge(_):\n    yield 'port', True, ''\n"
        "def mine(seed):\n    return replace(tiny(seed), grader=Grader(judge=judge))\n"
    )
    stored_with_judge(tmp_path / "j.sqlite", f"{tmp_path}/mine.py:judge")
    task = reopened_task(tmp_path)
    assert [check.passed for check in grade_workspace(task, MemorySandbox())] == [False, False]
    make_task(f"{tmp_path}/mine.py:mine", 1)
    assert [check.passed for check in grade_workspace(task, MemorySandbox())] == [True, False]


@pytest.mark.slow
def test_the_judge_of_a_built_in_task_is_known_in_a_new_process(tmp_path):
    stored_with_judge(tmp_path / "j.sqlite", "harness.tasks.spec_api.grader:judge")
    code = (
        "import sys\nfrom harness import LiveSession\nfrom harness.session.grading import grade_workspace\n"
        "from harness.testing.fakes import MemorySandbox\n"
        "print(grade_workspace(LiveSession.reopen(sys.argv[1], 's1').spec.task, MemorySandbox()))"
    )
    run = [sys.executable, "-c", code, tmp_path / "j.sqlite"]
    assert "pass the session's task again" not in subprocess.run(run, check=True, capture_output=True, text=True).stdout


def test_a_cassette_is_opened_only_if_it_is_passed_again(tmp_path):
    cassette = Cassette(path=tmp_path / "tape.jsonl", mode="record")
    logged(tmp_path / "j.sqlite", session(task=None, request="Build it.", cassette=cassette))
    with pytest.raises(UsageError, match=r"used the cassette .*tape\.jsonl'; pass the file again, by --record FILE or cassette="):
        LiveSession.reopen(tmp_path / "j.sqlite", "s1")
    own = Cassette(path=tmp_path / "own.jsonl", mode="replay")
    assert LiveSession.reopen(tmp_path / "j.sqlite", "s1", cassette=own).spec.cassette == own
    assert not (tmp_path / "tape.jsonl").exists()


SERVED = SessionSpec(request="look", policy=KeepLast(), model="hosted_vllm/stub", window_tokens=50_000)


@pytest.mark.slow  # the library of real models takes its time to load
@pytest.mark.bubblewrap
def test_two_sessions_of_one_process_call_two_servers(tmp_path, monkeypatch):
    monkeypatch.delenv("HOSTED_VLLM_API_BASE", raising=False)
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
    with serving(Say(pieces=("left",)), Say(pieces=("left again",))) as left, serving(Say(pieces=("right",))) as right:
        journal = tmp_path / "session.sqlite"
        sessions = [LiveSession(replace(SERVED, api_base=stub.base, journal=journal)).start() for stub in (left, right)]
        assert [session.wait(120) for session in sessions] == ["idle", "idle"]
        assert [session.view.items[-1].message.text for session in sessions] == ["left", "right"]
        for session in sessions:
            session.close()
        assert left.base.encode() not in journal.read_bytes()
        again = LiveSession.reopen(journal, sessions[0].session_id, spec=replace(SERVED, api_base=left.base, journal=journal))
        again.start().send("and now?")
        assert again.wait(120) == "idle"
        again.close()
        assert [len(stub.asked) for stub in (left, right)] == [2, 1]


def test_an_address_with_credentials_is_neither_printed_nor_logged():
    spec = replace(SERVED, api_base="http://me:planted-secret@127.0.0.1:1/v1")
    assert "planted-secret" not in repr(spec)
    assert "planted-secret" not in repr(spec.wiring)
    assert "planted-secret" not in encode_setup(spec)
    assert "api_base" not in decode_setup(encode_setup(spec))


@pytest.mark.parametrize("model", ["scripted", "local/smollm2-135m"])
def test_a_model_without_a_server_to_choose_refuses_an_address(model):
    with pytest.raises(UsageError, match="api_base: the model"):
        replace(SERVED, model=model, api_base="http://127.0.0.1:1/v1")


def test_the_default_policy_fits_every_local_model(monkeypatch):
    monkeypatch.setattr("harness.models.local.weights.check", lambda _: None)  # the weights need not be installed
    model = "local/smollm2-135m"
    local = SessionSpec(request="look", policy=KeepLast(), model=model)
    with pytest.raises(UsageError, match="the reserves of 11,000 tokens leave nothing"):
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
