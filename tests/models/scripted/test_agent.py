"""The scripted model's answers depend only on the visible messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.errors import ContextOverflow, UnknownName
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import look_up_profile
from harness.protocols import Request
from harness.task import CallTemplate, Evidence, Fact, Repair, Script, Step


def command(text: str) -> CallTemplate:
    return CallTemplate(tool="execute_command", arguments=(("command", text),))


def writes(path: str, content: str) -> CallTemplate:
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", content)))


FACTS = (
    Fact(name="port", kind="constraint", said_in="prompt", patterns=(r"port must be (\d+)",), prior="8080"),
    Fact(
        name="table",
        kind="value",
        said_in="file",
        patterns=(r"table is called (\w+)",),
        prior="cards",
        recover=CallTemplate(tool="read_file", arguments=(("path", "docs/db.md"),)),
        source="docs/db.md",
    ),
)
STEPS = (
    Step(
        name="look",
        text="Looking around.",
        calls=(CallTemplate(tool="list_directory", arguments=(("path", "docs"),)),),
        done=Evidence(receipts=(("list_directory", r"^docs$"),)),
    ),
    Step(
        name="write",
        text="Writing for table ${table}.",
        calls=(writes("app.py", "PORT = ${port}\nTABLE = '${table}'\n"),),
        required_facts=("port", "table"),
        done=Evidence(receipts=(("write_file", r"^app\.py$"),), listed_paths=("app.py",), summary_pattern=r"(?i)created app\.py"),
    ),
    Step(
        name="test",
        text="Testing.",
        calls=(command("sh test.sh"),),
        done=Evidence(receipts=(("execute_command", r"^sh test\.sh$"),)),
        repairs=(Repair(error_pattern=r"missing brace", text="A brace is missing.", calls=(writes("fix.py", "}"),)),),
    ),
)
SCRIPT = Script(steps=STEPS, final_text="Served on ${port}.")
START = (system("Be good."), user("Build it. The port must be 4711."))


def model(seed: int = 0, window_tokens: int = 32_768) -> ScriptedModel:
    return ScriptedModel(
        name="scripted/small:attentive", facts=FACTS, script=SCRIPT, profile=look_up_profile("attentive"), seed=seed,
        window_tokens=window_tokens,
    )  # fmt: skip


def answer(messages: tuple[Message, ...], seed: int = 0) -> Message:
    return model(seed).reply(Request(messages=messages)).message


def asked(message: Message) -> list[tuple[str, str]]:
    return [(call.name, next(iter(json.loads(call.arguments_json).values()))) for call in message.calls]


def results(message: Message, *outputs: str) -> tuple[Message, ...]:
    pairs = zip(message.calls, outputs, strict=True)
    return (message, *(tool(ToolResult(call_id=call.call_id, name=call.name, output=output)) for call, output in pairs))


LISTED = "file  db.md  120"


def looked() -> tuple[Message, ...]:
    return START + results(answer(START), LISTED)


def read() -> tuple[Message, ...]:
    return looked() + results(answer(looked()), "The table is called decks.")


def written() -> tuple[Message, ...]:
    return read() + results(answer(read()), "wrote 30 bytes to app.py")


def test_the_scripted_agent_takes_the_first_step_without_visible_evidence() -> None:
    assert asked(answer(START)) == [("list_directory", "docs")]


def test_a_fact_that_is_not_visible_is_looked_up_where_its_source_is_known() -> None:
    assert asked(answer(looked())) == [("read_file", "docs/db.md")]


def test_values_are_those_that_the_text_says() -> None:
    call = answer(read()).calls[0]
    assert json.loads(call.arguments_json) == {"path": "app.py", "content": "PORT = 4711\nTABLE = 'decks'\n"}


def test_when_the_source_is_not_in_view_it_is_looked_for_first() -> None:
    summary = assistant("[list_directory] docs -> ok")
    assert asked(answer((*START, summary))) == [("list_directory", "docs")]


def test_a_forgotten_fact_that_cannot_be_got_again_becomes_the_prior() -> None:
    forgotten = (START[0], user("(compacted)"), *read()[2:])
    assert "PORT = 8080" in json.loads(answer(forgotten).calls[0].arguments_json)["content"]


def test_a_recovering_call_that_did_not_help_is_not_repeated_at_once() -> None:
    blank = looked() + results(answer(looked()), "nothing here")
    assert "TABLE = 'cards'" in json.loads(answer(blank).calls[0].arguments_json)["content"]


def test_a_fact_in_a_masked_result_is_looked_up_again_only_once() -> None:
    masked = (*looked(), *results(answer(looked()), "[Old tool result content cleared]"), assistant("On to the application."))
    again = answer(masked)
    assert asked(again) == [("read_file", "docs/db.md")]
    assert (
        "TABLE = 'decks'"
        in json.loads(answer(masked + results(again, "The table is called decks.")).calls[0].arguments_json)["content"]
    )
    assert "TABLE = 'cards'" in json.loads(answer(masked + results(again, "[cleared]")).calls[0].arguments_json)["content"]


def test_the_newest_visible_value_counts() -> None:
    revised = (*read(), user("Sorry: the port must be 9999."))
    assert "PORT = 9999" in json.loads(answer(revised).calls[0].arguments_json)["content"]


@pytest.mark.parametrize(
    "sign",
    ["[write_file] app.py -> ok", "- [write_file] app.py -> ok", "I created app.py.", "| app.py | [x] | Created app.py |"],
)
def test_a_summary_that_names_a_step_stands_for_it(sign: str) -> None:
    shortened = (START[0], user("go on"), assistant(f"[list_directory] docs -> ok\n{sign}"))
    assert asked(answer(shortened)) == [("execute_command", "sh test.sh")]


def test_a_directory_listing_that_shows_its_files_stands_for_a_step() -> None:
    listing = ToolCall(call_id="l", name="list_directory", arguments_json='{"path": "."}')
    seen = looked() + results(assistant("", listing), "dir  docs\nfile  app.py  30")
    assert asked(answer(seen)) == [("execute_command", "sh test.sh")]


def test_a_receipt_that_stands_in_a_file_is_not_believed() -> None:
    cat = ToolCall(call_id="l", name="read_file", arguments_json='{"path": "notes"}')
    fooled = looked() + results(assistant("", cat), "[write_file] app.py -> ok\ncreated app.py")
    assert asked(answer(fooled)) == [("read_file", "docs/db.md")]


def test_a_known_error_is_repaired_and_then_the_step_is_tried_again() -> None:
    failed = written() + results(answer(written()), "exit code 1\nmissing brace in line 1")
    assert asked(answer(failed)) == [("write_file", "fix.py")]
    mended = failed + results(answer(failed), "wrote 1 bytes to fix.py")
    assert asked(answer(mended)) == [("execute_command", "sh test.sh")]
    again = mended + results(answer(mended), "exit code 1\nmissing brace in line 2")
    assert asked(answer(again)) == [("write_file", "fix.py")]


def test_a_step_that_failed_twice_without_a_known_repair_is_left_behind() -> None:
    once = written() + results(answer(written()), "exit code 2\nno idea")
    assert asked(answer(once)) == [("execute_command", "sh test.sh")]
    twice = once + results(answer(once), "exit code 2\nno idea")
    assert answer(twice).text.endswith("Served on 4711.")
    assert answer(twice).calls == ()


def test_the_last_answer_has_no_call() -> None:
    done = written() + results(answer(written()), "exit code 0\nfine")
    assert answer(done).calls == ()


@given(st.data())
def test_the_scripted_answer_depends_only_on_visible_messages(data: st.DataObject) -> None:
    """One model that answers many conversations in any order gives the answers of a new model for each."""
    pool = [START, looked(), read(), written(), (*START, assistant("[list_directory] docs -> ok")), read()[:5]]
    memoised = model()
    for index in data.draw(st.lists(st.integers(0, len(pool) - 1), max_size=12)):
        messages = pool[index]
        assert memoised.reply(Request(messages=messages)).message == answer(messages)


def test_call_ids_never_repeat_within_what_is_visible() -> None:
    messages: tuple[Message, ...] = START
    for _ in range(40):
        reply = answer(messages)
        assert not {call.call_id for call in reply.calls} & {call.call_id for m in messages for call in m.calls}
        messages = (*START, *results(reply, "exit code 1\nmissing brace"), *messages[2:14])


def test_two_seeds_use_different_words_for_the_same_actions() -> None:
    texts = {answer(START, seed).text for seed in range(20)}
    acts = {tuple(asked(answer(START, seed))) for seed in range(20)}
    assert len(texts) > 1
    assert len(acts) == 1


def test_a_prompt_beyond_the_window_is_refused_with_both_numbers() -> None:
    small = model(window_tokens=10)
    with pytest.raises(ContextOverflow) as caught:
        small.reply(Request(messages=START))
    assert caught.value.window_tokens == 10
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 10


def test_usage_is_counted_by_a_real_tokenizer() -> None:
    short = model().reply(Request(messages=(system("a"), user("hello hello hello")))).usage
    longer = model().reply(Request(messages=(system("a"), user("hello hello hello hello")))).usage
    assert longer.input_tokens - short.input_tokens == 1


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UnknownName, match="attentive"):
        look_up_profile("atentive")


def counting() -> ScriptedModel:
    steps = tuple(
        Step(
            name=f"step-{number}",
            text=f"Step {number}.",
            calls=(command(f"sh walk.sh {number}"),),
            done=Evidence(count_pattern=r"^post (\d+) is reached", minimum_count=number),
        )
        for number in range(50)
    )
    script = Script(steps=steps, final_text="Done.")
    return ScriptedModel(name="s", facts=(), script=script, profile=look_up_profile("attentive"), seed=0, window_tokens=32_768)


@pytest.mark.parametrize("text", ["post 41 is reached", "post 7 is reached\npost 41 is reached\npost 9 is reached"])
def test_a_number_that_counts_steps_stands_for_all_of_them(text: str) -> None:
    """Whether a summary or a tool output reports the step."""
    shortened = (START[0], user("go on"), assistant(text))
    assert asked(counting().reply(Request(messages=shortened)).message) == [("execute_command", "sh walk.sh 42")]
    walked = START + results(counting().reply(Request(messages=START)).message, f"exit code 0\n{text}")
    assert asked(counting().reply(Request(messages=walked)).message) == [("execute_command", "sh walk.sh 42")]
