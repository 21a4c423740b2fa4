"""The scripted model's answers depend only on the visible messages."""

import json
from dataclasses import replace

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


WHERE = command("sh where.sh")


def counting(*status_calls: CallTemplate) -> ScriptedModel:
    steps = tuple(
        Step(
            name=f"step-{number}",
            text=f"Step {number}.",
            calls=(command(f"sh walk.sh {number}"),),
            done=Evidence(count_pattern=r"^post (\d+) is reached", minimum_count=number),
        )
        for number in range(50)
    )
    script = Script(steps=steps, final_text="Done.", status_calls=status_calls)
    return ScriptedModel(name="s", facts=(), script=script, profile=look_up_profile("attentive"), seed=0, window_tokens=32_768)


@pytest.mark.parametrize("text", ["post 41 is reached", "post 7 is reached\npost 41 is reached\npost 9 is reached"])
def test_a_number_in_a_tool_output_stands_for_all_steps_up_to_it(text: str) -> None:
    walked = START + results(counting().reply(Request(messages=START)).message, f"exit code 0\n{text}")
    assert asked(counting().reply(Request(messages=walked)).message) == [("execute_command", "sh walk.sh 42")]


def test_a_number_in_a_summary_stands_for_its_own_step_only() -> None:
    shortened = (START[0], user("go on"), assistant("post 41 is reached\npost 0 is reached"))
    assert asked(counting().reply(Request(messages=shortened)).message) == [("execute_command", "sh walk.sh 0")]


def test_without_a_visible_result_the_agent_asks_once_how_far_the_work_is() -> None:
    shortened = (START[0], user("go on"), assistant("post 41 is reached"))
    status = counting(WHERE).reply(Request(messages=shortened)).message
    assert asked(status) == [("execute_command", "sh where.sh")]
    shown = shortened + results(status, "exit code 0\npost 17 is reached")
    assert asked(counting(WHERE).reply(Request(messages=shown)).message) == [("execute_command", "sh walk.sh 18")]
    masked = shortened + results(status, "[output removed]")
    assert asked(counting(WHERE).reply(Request(messages=masked)).message) == [("execute_command", "sh walk.sh 0")]


FOLDER = CallTemplate(tool="list_directory", arguments=(("path", "."),))


def building() -> ScriptedModel:
    """Return a model that reads a page, writes four modules and tests them."""

    def write(name: str) -> Step:
        done = Evidence(
            receipts=(("write_file", rf"^{name}\.py$"),), listed_paths=(f"{name}.py",), summary_pattern=f"wrote {name}"
        )
        return Step(name=name, text=f"I write {name}.", calls=(writes(f"{name}.py", "x"),), done=done)

    page = Step(
        name="page",
        text="The page on tables.",
        calls=(CallTemplate(tool="read_file", arguments=(("path", "docs/db.md"),)),),
        done=Evidence(receipts=(("read_file", r"^docs/db\.md$"),)),
        effect="look",
    )
    tests = Step(
        name="tests",
        text="The tests.",
        calls=(command("sh test.sh"),),
        done=Evidence(receipts=(("execute_command", r"^sh test\.sh$"),)),
        effect="test",
    )
    last = Step(
        name="last",
        text="The table ${table} is noted.",
        calls=(writes("last.py", "${table}"),),
        done=Evidence(receipts=(("write_file", r"^last\.py$"),), listed_paths=("last.py",)),
        required_facts=("table",),
    )
    steps = (page, write("a"), write("b"), write("c"), tests, last)
    script = Script(steps=steps, final_text="Done.", status_calls=(FOLDER,))
    facts = (replace(FACTS[1], source=""),)
    profile = look_up_profile("attentive")
    return ScriptedModel(name="s", facts=facts, script=script, profile=profile, seed=0, window_tokens=32_768)


def build_next(*messages: Message) -> list[tuple[str, str]]:
    return asked(building().reply(Request(messages=(START[0], user("go on"), *messages))).message)


def call_with_result(tool_name: str, argument: str, output: str, text: str = "") -> tuple[Message, Message]:
    name = {"execute_command": "command"}.get(tool_name, "path")
    call = ToolCall(call_id=f"{tool_name}-{argument}", name=tool_name, arguments_json=json.dumps({name: argument}))
    return assistant(text, call), tool(ToolResult(call_id=call.call_id, name=tool_name, output=output))


B_WRITTEN = call_with_result("write_file", "b.py", "wrote 1 bytes to b.py")


@pytest.mark.parametrize("result", [B_WRITTEN, call_with_result("write_file", "b.py", "[result removed]")])
def test_steps_before_a_success_in_view_are_not_repeated(result: tuple[Message, ...]) -> None:
    assert build_next(*result) == [("write_file", "c.py")]


def test_prose_marks_the_step_that_it_names_and_none_before_it() -> None:
    status = call_with_result("list_directory", ".", "dir  docs  0")
    assert build_next(assistant("I wrote a and b."), *status) == [("read_file", "docs/db.md")]
    assert build_next(assistant("Next I write c."), *B_WRITTEN) == [("write_file", "c.py")]
    assert build_next(assistant("I wrote c."), *B_WRITTEN) == [("execute_command", "sh test.sh")]


def test_a_file_that_a_listing_does_not_show_is_written_again() -> None:
    status = call_with_result("list_directory", ".", "dir  docs  0\nfile  b.py  1")
    assert build_next(*status) == [("write_file", "a.py")]
    assert build_next(*status, *call_with_result("write_file", "a.py", "wrote 1 bytes to a.py")) == [("write_file", "c.py")]


def test_a_listing_from_before_the_work_shows_no_file_as_missing() -> None:
    before = call_with_result("list_directory", ".", "dir  docs  0")
    assert build_next(*before, *B_WRITTEN) == [("write_file", "c.py")]


def test_a_cut_listing_shows_no_file_as_missing() -> None:
    status = call_with_result("list_directory", ".", "file  b.py  1\n[12 lines omitted]")
    assert build_next(*status) == [("write_file", "c.py")]


def test_tests_whose_result_is_not_in_view_are_run_again() -> None:
    status = call_with_result("list_directory", ".", "file  a.py  1\nfile  b.py  1\nfile  c.py  1")
    assert build_next(*status) == [("execute_command", "sh test.sh")]


def test_a_look_up_shows_no_progress() -> None:
    """Reading a page again is the first step of the script, but proves nothing if it was a look-up."""
    status = call_with_result("list_directory", ".", "dir  docs  0")
    text = "I need the table for this and no longer have it in view; looking it up."
    looked_up = call_with_result("read_file", "docs/db.md", "The table is called decks.", text)
    assert build_next(*looked_up) == [("list_directory", ".")]
    assert build_next(*status, *looked_up) == [("write_file", "a.py")]


def test_a_look_before_the_frontier_is_made_only_for_a_fact_that_a_step_needs() -> None:
    tested = call_with_result("execute_command", "sh test.sh", "exit code 0")
    assert build_next(*tested) == [("read_file", "docs/db.md")]
