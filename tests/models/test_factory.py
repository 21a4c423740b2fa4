"""Models are created from their names in a plan, and unknown names are refused with advice."""

from pathlib import Path

import pytest

from harness.conversation.events import Waiting
from harness.errors import HarnessError, MissingKey, UnknownName, UsageError
from harness.models.cassette import Cassette, CassetteModel
from harness.models.factory import SCRIPTED_WINDOW_TOKENS, Wiring, open_model, open_summarizer, with_wait_listener
from harness.models.litellm_model import LitellmModel
from harness.models.scripted.profiles import is_scripted
from harness.models.text_calls import RESULT_OPEN, TextCallModel
from harness.protocols import Model
from harness.task import Task
from harness.tasks import load_task
from harness.testing.fakes import FakeModel

TASK = load_task("flashcards")(1)


def agent(name: str = "scripted", task: Task | None = TASK, window_tokens: int | None = None) -> Model:
    return open_model(name, task=task, seed=1, window_tokens=window_tokens)


@pytest.mark.parametrize("name", ["scripted", "scripted/flashcards", "scripted/flashcards:attentive", "scripted:attentive"])
def test_a_scripted_agent_is_named_by_task_and_profile(name: str) -> None:
    assert agent(name).name == "scripted/flashcards:attentive"
    assert agent(name).window.tokens == SCRIPTED_WINDOW_TOKENS
    assert agent(name, window_tokens=9_000).window.tokens == 9_000


@pytest.mark.parametrize(
    ("name", "error", "explanation"),
    [
        ("scripted/flashcard", UnknownName, "scripted/flashcards:attentive"),
        ("scripted/flashcards:atentive", UnknownName, "did you mean 'attentive'"),
        ("scripted:typcal", UnknownName, "did you mean 'typical'"),
        ("scripted:overlook-0.1", UnknownName, "overlooks-P"),
        ("scripted:overlooks-2", UsageError, "a probability from 0 to 1"),
        ("scripted:overlooks-", UsageError, "a probability from 0 to 1"),
        ("scripted/other:typical", UnknownName, "scripted/flashcards:typical"),
        ("scripted/oracle", UsageError, "cannot be the agent"),
    ],
)
def test_a_wrong_scripted_name_says_what_would_be_right(name: str, error: type[Exception], explanation: str) -> None:
    with pytest.raises(error, match=explanation):
        agent(name)


def test_a_name_that_only_begins_like_a_scripted_one_is_that_of_a_real_model() -> None:
    names = ("scripted", "scripted:typicl", "scripted/nothing", "scripted-mine", "scripted-mine/x:1", "gpt/scripted")
    assert [is_scripted(name) for name in names] == [True, True, True, False, False, False]


@pytest.mark.parametrize("profile", ["typical", "overlooks-0", "overlooks-0.1", "overlooks-1"])
def test_the_name_of_the_model_chooses_the_reader(profile: str) -> None:
    for name in (f"scripted:{profile}", f"scripted/flashcards:{profile}"):
        assert agent(name).name == f"scripted/flashcards:{profile}"


def test_a_scripted_agent_needs_its_task() -> None:
    with pytest.raises(UsageError, match="add --task"):
        agent(task=None)


def test_a_scripted_agent_summarizes_by_the_extractive_summarizer_and_others_by_themselves() -> None:
    assert summarizer("same").name == "scripted/extractive"
    puppet = FakeModel([])
    assert open_summarizer("same", agent=puppet, task=TASK, seed=1, window_tokens=None) is puppet


def test_an_unknown_summarizer_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="scripted/extractive"):
        summarizer("scripted/extractiv")


def summarizer(name: str) -> Model:
    return open_summarizer(name, agent=agent(), task=TASK, seed=1, window_tokens=None)


@pytest.mark.parametrize("name", ["scripted/lossy-0", "scripted/lossy-0.25", "scripted/lossy-1", "scripted/lossy-1.0"])
def test_the_loss_of_a_summarizer_stands_in_its_name(name: str) -> None:
    assert summarizer(name).name == name
    with pytest.raises(UsageError, match="cannot be the agent"):
        agent(name)


@pytest.mark.parametrize("share", ["", "P", "2", "1.5", "-0.1", ".5", "nan", "1e-3", "0.5 "])
def test_a_loss_that_is_no_probability_is_refused(share: str) -> None:
    with pytest.raises(UsageError, match="a probability from 0 to 1"):
        summarizer(f"scripted/lossy-{share}")


def test_a_mistyped_loss_is_refused_with_the_right_form() -> None:
    with pytest.raises(UnknownName, match="scripted/lossy-P"):
        summarizer("scripted/losy-0.5")


def test_a_real_model_without_its_key_is_refused_by_the_name_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY"):
        agent("anthropic/claude-sonnet-4-5")


def test_a_scripted_summarizer_reads_what_its_agent_reads():
    for window_tokens, read in ((32_768, 128_000), (200_000, 200_000)):
        agent = FakeModel([], window_tokens=window_tokens)
        summarizer = open_summarizer("scripted/extractive", agent=agent, task=None, seed=0, window_tokens=None)
        assert summarizer.window.tokens == read


def test_the_window_of_a_scripted_summarizer_can_be_set() -> None:
    model = open_summarizer("scripted/empty", agent=agent(), task=None, seed=0, window_tokens=9_000)
    assert model.window.tokens == 9_000


def test_the_oracle_needs_its_task() -> None:
    with pytest.raises(UsageError, match="no task was given"):
        open_summarizer("scripted/oracle", agent=agent(), task=None, seed=0, window_tokens=None)


def test_calls_in_text_are_for_real_models_which_stop_where_a_result_would_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    in_text = Wiring(tool_calls="text")
    model = open_model("hosted_vllm/mine", task=None, seed=0, window_tokens=None, wiring=in_text)
    assert isinstance(model, TextCallModel)
    assert isinstance(model.model, LitellmModel)
    assert model.model.stop == (RESULT_OPEN,)
    with pytest.raises(UsageError, match="tool_calls = 'text' applies to real models"):
        open_model("scripted", task=TASK, seed=0, window_tokens=None, wiring=in_text)


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-4-5", "local/smollm2-135m"])
def test_a_replayed_model_needs_neither_key_nor_weights(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    replayed, recorded = (Wiring(cassette=Cassette(path=tmp_path / "c.jsonl", mode=mode)) for mode in ("replay", "record"))
    assert open_model(name, task=None, seed=0, window_tokens=None, wiring=replayed).name == name
    with pytest.raises(HarnessError):
        open_model(name, task=None, seed=0, window_tokens=None, wiring=recorded)


def test_waits_of_the_wrapped_model_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    wiring = Wiring(tool_calls="text", cassette=Cassette(path=tmp_path / "c.jsonl", mode="record"))
    heard: list[Waiting] = []
    inside: Model = with_wait_listener(
        open_model("hosted_vllm/mine", task=None, seed=0, window_tokens=None, wiring=wiring), heard.append
    )
    while isinstance(inside, TextCallModel | CassetteModel):
        inside = inside.model
    assert isinstance(inside, LitellmModel)
    assert inside.on_wait == heard.append
    assert with_wait_listener(scripted := agent(), heard.append) is scripted
