import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, Text, ToolCall, ToolResult, assistant, user
from harness.errors import UsageError
from harness.models.scripted.statements import list_clauses
from harness.models.scripted.tolerant import (
    TolerantStatements,
    compile_tolerant_statements,
    extract_words,
    find_group,
)
from harness.models.scripted.visible_state import FactReader
from harness.task import Fact, Task
from harness.tasks import SUITE, make_task
from tests.models.scripted.paraphrases import OTHERS, PACKAGES, REVISIONS, STATEMENTS, list_misleading, write

SPECIAL = re.compile(r"^[\w.:\[\]-]+(?: [A-Z][a-z]+)?$")
"""Values without characters that a text marks up, such as `=blank=` or `<withheld>`."""
tasks = st.builds(make_task, st.sampled_from(sorted(SUITE)), st.integers(0, 40))


def fact(name: str, pattern: str, **changes: object) -> Fact:
    plain = Fact(name=name, kind="value", said_in="prompt", patterns=(pattern,), prior="none")
    return replace(plain, **changes)  # type: ignore[arg-type]


PORT = fact("server_port", r"server listens on port (\d+)\b")
TICKET = fact("ticket", r"ticket is ([A-Z]{2}-\d{4})\b")
LICENCE = fact("licence", r"handed on under the licence `([\w.-]+)`")
DELAY = fact("max_delay_seconds", r"waits at most (\d+) seconds")
MARK = fact("env_mark", r"variable begins with `([A-Z]+)_`")


def read(text: str, *facts: Fact) -> dict[str, str]:
    """Return the newest value of each fact in a text."""
    return {match.name: match.value for match in TolerantStatements(facts or (PORT, TICKET, LICENCE, DELAY, MARK)).find(text)}


def test_several_words_in_a_row_are_no_value():
    client = fact("client_name", r"client introduces itself as `([a-z-]+)`")
    assert read("The client itself: announce, list, ask for one.", client) == {}
    assert read("Client name: stowaway, as stated.", client) == {"client_name": "stowaway"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The server's port is 8443.", {"server_port": "8443"}),
        ("- Port of the server: 8443 (agreed)", {"server_port": "8443"}),
        ("| server port | 8443 |", {"server_port": "8443"}),
        ("Server port was 8080, now 8443.", {"server_port": "8443"}),
        ("The server port changed from 8080 to 8443.", {"server_port": "8443"}),
        ("The server port is 8443, not 8080.", {"server_port": "8443"}),
        ("Ticket AB-1234 and server port 8443; licence: `MIT`", {"ticket": "AB-1234", "server_port": "8443", "licence": "MIT"}),
        ("**Licence**: Apache-2.0", {"licence": "Apache-2.0"}),
        ("It waits no more than 30 seconds (max delay).", {"max_delay_seconds": "30"}),
        ("Max delay: 30 seconds", {"max_delay_seconds": "30"}),
        ("Delay must not be more than 30 seconds, the maximum delay.", {"max_delay_seconds": "30"}),
        ("The environment mark (env mark) is `ABC_`.", {"env_mark": "ABC"}),
        ("Max delay: 30 minutes", {"max_delay_seconds": "1800"}),
        ("Max delay: two minutes", {"max_delay_seconds": "120"}),
        ("Max delay: 30 metres", {}),
        ("Max delay: 30 servers", {}),
        ("Max delay: 30 working seconds", {}),
        ("Max delay: 30 working days", {}),
        ("Licence: every", {}),
        ("`MIT` is the licence.", {"licence": "MIT"}),
        ("The `compat` module keeps the licence.", {}),
        ("Room 4 has 20 seats and a server port.", {}),
        ("8443 stands for the server's port.", {"server_port": "8443"}),
        ("The server port is not 8080.", {}),
        ("The former ticket AB-1234 is closed.", {}),
        ("The ticket of the ferry is AB-1234.", {}),
        ("The ticket AB-1234 is closed.", {}),
        ("Is the ticket AB-1234?", {}),
        ("Tickets AB-1234 and CD-1234", {}),
        ("Licence: to be decided", {}),
        ("Licence: unknown", {}),
        ("The licence is important", {}),
        ("`server_port` is `8443`", {"server_port": "8443"}),
        ("`env_mark` is `ABC_`", {"env_mark": "ABC"}),
        ("stop: castle\nserver port: 8443\nlicence: MIT\n", {}),
        ("stop: castle\nlicence: MIT\nticket: AB-1234\n", {}),
        ("licence: MIT\nticket: AB-1234\n", {"licence": "MIT", "ticket": "AB-1234"}),
        ("- stop: castle\n- licence: MIT\n", {"licence": "MIT"}),
        ("See section 8443 on server ports.", {}),
        ("Server port: see `docs/8443.md`", {}),
        ("| licence | The one called `MIT` hangs in the hall. |", {}),
        ("| licence | All of it is under `MIT` for the time being. |", {"licence": "MIT"}),
        ("| licence | Licence `MIT` covers all of it. |", {"licence": "MIT"}),
    ],
)
def test_a_statement_needs_the_subject_and_one_value_of_the_type_in_a_clause(text: str, values: dict[str, str]) -> None:
    assert read(text) == values


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{\n  "server_port": 8443,\n  "other": 1\n}\n```',
        '{"facts": [{"name": "server port", "value": 8443}]}',
        '{"settings": {"server_port": {"value": 8443}}}',
        '{"serverPort": "8443"}',
        "facts:\n  server_port: 8443\n",
        "facts:\n  - name: server port\n    value: 8443\n",
        "facts:\n  server_port:\n    value: 8443\n",
        "### Server port\n8443\n",
        "Server port\n-----------\n\n8443\n",
        "**Server port**\n8443\n",
        "- **Server port:**\n  - `8443`\n",
        "- `server_port`: 8443\n",
        "- `server_port = 8443`\n",
        "SERVER_PORT=8443\n",
        "- Server port: 8080 → 8443 (changed)\n",
        "| server port | ~~8080~~ 8443 |\n",
        "The server port is eight thousand four hundred and forty-three.\n",
        "The server port was 8080. It is now 8443.\n",
        "At first, the server port was 8080. The user has changed it to 8443.\n",
        "The user decided that the server port is 8443.\n",
        "We confirm that the server port is 8443.\n",
        "The server port changed: 8080 before, 8443 now.\n",
        "The server port moved from 8080 to 8443.\n",
        "Server port: 8443. Ignore the 8080 in the request.\n",
        "1. **Key Technical Decisions**\n   - Server port: 8443\n",
        '{"setting": "server port", "value": 8443}',
        "| No. | Name | Value | Where it came from |\n|--|--|--|--|\n| F2 | server port | 8443 | the first words |\n",
        "- Server port: _8443_ (do not change)\n",
        "Parameter\tValue\nServer port\t8443\n",
        "Settings that are fixed: `ticket` (`none`), `server_port` (`8443`).",
        "Known values: server_port=8443; other=1.",
        "handover, short:\n- server port 8443\n",
        "1. Request:\n   Go on.\n2. Things that must not be lost:\n   - Server port: 8443.\n",
        'Facts, one JSON object per line:\n{"name": "server_port", "current": 8443}\n',
        '{"memory": {"setting": "on", "serverPort": 8443}}',
        "__Server port__: 8443",
        "The server port used to be 8080, but it is 8443 now.",
        "The user replaced the server port 8080 with 8443.",
    ],
)
def test_statements_in_other_styles_are_read(text: str) -> None:
    assert read(text) == {"server_port": "8443"}


@pytest.mark.parametrize(
    "text",
    [
        "Do not use 8443 as the server port.",
        "I must not set the server port to 8443.",
        "A colleague suggested 8443 as the server port.",
        "8443 was considered as the server port.",
        "If the server port were 8443, the tests would fail.",
        "Suppose that the server port is 8443.",
        "The competitor uses 8443 as the server port.",
        "In the other project, the server port is 8443.",
        "Another team's server port is 8443.",
        "It is open whether the server port is 8443.",
        "The server port could have been 8443.",
        "The attempt with the server port 8443 failed.",
        "Server port: not 8443",
        "The server port is 8443 or something else, which must be checked.",
        "We still have to confirm that the server port is 8443.",
        "As long as the server port is 8443, this works.",
        "Waiting for the user to say that the server port is 8443.",
        "The server port in the file said 8443.",
        "Is it the server port 8443",
        "Most projects have 8443 as the server port.",
        "The factory setting of the server port is 8443.",
        "The next version sets the server port to 8443.",
        "There are plans to make the server port 8443.",
        "The server port is over 8443.",
        "Change the server port from 8443.",
        "Server port != 8443",
        "- The vendor's values:\n  - Server port: 8443\n",
        "- Rejected options:\n  - Server port: 8443\n",
        "The server port falls back to 8443.",
        "Soon the server port will become 8443.",
        "The server port used to be 8443.",
        "Rejected values: server_port=8443; other=1.",
        "In the sister project: `ticket` (`none`), `server_port` (`8443`).",
    ],
)
def test_a_value_that_is_refused_supposed_or_of_others_is_not_read(text: str) -> None:
    assert read(text) == {}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The ticket is AB-1234.", {"ticket": "AB-1234"}),
        ("- ticket | Our ticket is AB-1234", {"ticket": "AB-1234"}),
        ("We agreed that the ticket is AB-1234.", {"ticket": "AB-1234"}),
        ("On the staging server the ticket is AB-1234.", {}),
        ("My guess for the ticket is AB-1234.", {}),
        ("As long as the ticket is AB-1234, this works.", {}),
        ("Is it true that the ticket is AB-1234?", {}),
        ("It was suggested that the text is handed on under the licence `MIT`", {}),
    ],
)
def test_a_sentence_that_contains_the_words_of_the_task_must_state_them(text: str, values: dict[str, str]) -> None:
    reader = FactReader((TICKET, LICENCE), "tolerant")
    assert {match.name: match.value for match in reader.find_newest(user(text))} == values


def test_values_that_are_words_of_negation_or_of_age_are_values() -> None:
    word = fact("deny_word", r"line of the list begins with the word `(\w+)`")
    name = fact("old_name", r"function to be renamed is `(\w+)`")
    for value in ("Never", "deny", "old_slots", "Neighbours"):
        assert read(f"- `deny_word`: `{value}`\n", word) == {"deny_word": value}
        assert read(f"The deny word is `{value}`.", word) == {"deny_word": value}
        assert read(f"**Old name**\n`{value}`\n", name) == {"old_name": value}


def test_a_place_that_only_other_facts_name_is_elsewhere() -> None:
    suspect = fact("suspect", r"customer blames the stage `(\w+)`")
    assert read("On staging the server port is 8443.", PORT, suspect) == {}
    assert read("The server port is 8443.", PORT, suspect) == {"server_port": "8443"}


def test_a_label_of_words_of_the_fact_names_it() -> None:
    launch = fact("launch_day", r"result is announced on day (\d+) of the quarter")
    assert read("Announcement day: 24", launch) == {"launch_day": "24"}
    assert read("Second day: 24", launch) == {}


def test_without_is_the_negation_of_the_fact_itself() -> None:
    rest = fact("rest_day", r"there is no service on (\w+day)\b")
    assert read("- Day without service: Monday\n", rest) == {"rest_day": "Monday"}
    assert read("- Server port without tests: 8443\n", PORT) == {}


def test_a_string_of_json_has_no_marks_of_emphasis() -> None:
    gap = fact("gap_mark", r"gap of a card is written `([^`\n]+)`")
    assert read('{"a": {"gap_mark": "_blank_"}}', gap) == {"gap_mark": "_blank_"}


def test_the_newest_statement_counts() -> None:
    assert read("Server port: 8080\n\nThe server port is 8443.") == {"server_port": "8443"}


@pytest.mark.parametrize(
    "end",
    [
        "| server port 8443 | The server port 84",
        "| licence | MI",
        "Licence: `MI",
        "Server port: 84",
        "The server port was 84, now",
    ],
)
def test_the_last_words_of_a_text_that_may_be_cut_off_are_not_read(end: str) -> None:
    assert read(f"Ticket: AB-1234\n{end}") == {"ticket": "AB-1234"}


@pytest.mark.parametrize("end", ["Server port: 84.", "Server port: 84\n", "| server port | 84 |", "Server port: `84`"])
def test_the_last_words_of_a_text_are_read_where_something_closes_them(end: str) -> None:
    assert read(f"Ticket: AB-1234\n{end}") == {"ticket": "AB-1234", "server_port": "84"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Renamed the function to `berth_of`", {}),
        ("The old name is replaced by `berth_of`.", {}),
        ("Renamed the function from `slot_of` to `berth_of`", {"old_name": "slot_of"}),
        ("- Old name: `slot_of` → `berth_of`", {"old_name": "slot_of"}),
    ],
)
def test_a_new_value_is_not_read_as_the_old_one(text: str, values: dict[str, str]) -> None:
    assert read(text, fact("old_name", r"function to be renamed is `(\w+)`")) == values


def test_words_in_quotes_do_not_say_what_another_quoted_value_is_about() -> None:
    draft_tag = fact("draft_tag", r"card of a generator carries the tag `([\w-]+)`")
    assert read("drafts: the tag `draft` in `tags`", draft_tag) == {}
    assert read("| drafts | the tag `draft` in `tags` |", draft_tag) == {}
    assert read("The `draft_tag` is `raw`.", draft_tag) == {"draft_tag": "raw"}


@pytest.mark.slow
def test_a_long_enumeration_states_no_value() -> None:
    words = " ".join(f"`word-{number}`" for number in range(10_000))
    assert read(f"The licence is one of {words}") == {}
    assert read(f"The licence is one of {words}.\nThe licence is `MIT`.") == {"licence": "MIT"}


@pytest.mark.slow
def test_a_few_labels_can_precede_a_value() -> None:
    assert read("note: project: licence: `MIT`") == {"licence": "MIT"}
    assert read("chapter: " * 10_000 + "licence: `MIT`") == {}


def test_a_task_can_declare_key_words_and_a_form_of_the_value() -> None:
    text = "The daemon is reached at `8443`. Author: Tanaka"
    assert read(text, PORT, fact("reviewer", r"signed by (\w+)")) == {}
    declared = replace(PORT, subjects=("daemon reached",)), fact("reviewer", r"signed by (\w+)", subjects=("author",))
    assert read(text, *declared) == {"server_port": "8443", "reviewer": "Tanaka"}
    lower = replace(declared[1], value_pattern=r"[A-Z][a-z]+")
    assert read("Author: unsure", declared[1]) == {"reviewer": "unsure"}
    assert read("Author: unsure", lower) == {}


def test_tool_outputs_and_arguments_of_calls_are_read_exactly() -> None:
    reader = FactReader((TICKET,), "tolerant")
    text = "Ticket: AB-1234"
    call = ToolCall(call_id="c", name="write_file", arguments_json='{"path": "a", "content": "Ticket: AB-1234"}')
    output = Message(role="tool", parts=(ToolResult(call_id="c", name="write_file", output=text, status="completed"),))
    assert reader.find_values(user(text)) == {"ticket": ("AB-1234",)}
    assert reader.find_values(assistant("", call)) == reader.find_values(output) == {}
    exact = "The ticket is CD-1234; Ticket: AB-1234"
    assert reader.find_values(user(exact)) == {"ticket": ("CD-1234", "CD-1234", "AB-1234")}
    assert [match.value for match in reader.find_newest(user(exact))] == ["AB-1234"]
    assert FactReader((TICKET,), "exact").find_values(user(exact)) == {"ticket": ("CD-1234",)}


def test_positions_are_those_of_the_value_in_the_whole_message() -> None:
    message = Message(role="user", parts=(Text(text="first part"), Text(text="- **Ticket**: `AB-1234`")))
    (match,) = FactReader((TICKET,), "tolerant").find_newest(message)
    assert "first part\n- **Ticket**: `AB-1234`"[match.offset :].startswith("AB-1234`")


@pytest.mark.slow
@given(tasks, st.sampled_from(STATEMENTS), st.data())
def test_a_paraphrase_is_read_as_its_fact(task: Task, form: str, data: st.DataObject) -> None:
    stated = data.draw(st.sampled_from([fact for fact in task.facts if SPECIAL.match(task.values.get(fact.name, ""))]))
    matches = compile_tolerant_statements(task.facts).find(write(form, stated, task.values[stated.name]))
    assert {match.value for match in matches if match.name == stated.name} == {task.values[stated.name]}
    assert all(match.value == task.values[stated.name] for match in matches), "another fact is read from it"


@pytest.mark.slow
@given(tasks, st.integers(100, 140), st.sampled_from(REVISIONS), st.data())
def test_the_new_value_of_a_revised_statement_is_read(task: Task, seed: int, form: str, data: st.DataObject) -> None:
    older = make_task(task.name, seed).values
    named = [
        fact for fact in task.facts if SPECIAL.match(task.values.get(fact.name, "")) and SPECIAL.match(older.get(fact.name, ""))
    ]
    # the reader takes the word "old" or "former" in the name of a fact for a sign that the value is outdated
    revisable = [
        one for one in named if not one.name.startswith(("old_", "former_")) and task.values[one.name] != older[one.name]
    ]
    stated = data.draw(st.sampled_from(revisable))
    text = write(form, stated, task.values[stated.name], older[stated.name])
    matches = compile_tolerant_statements(task.facts).find(text)
    assert {match.value for match in matches} == {task.values[stated.name]}


@pytest.mark.slow
@given(tasks, st.integers(100, 140), st.sampled_from(OTHERS), st.data())
def test_a_value_of_something_else_is_not_read(task: Task, seed: int, form: str, data: st.DataObject) -> None:
    older = make_task(task.name, seed).values
    stated = data.draw(st.sampled_from([fact for fact in task.facts if fact.name in older and "former" not in fact.name]))
    text = write(form, stated, "", older[stated.name])
    assert compile_tolerant_statements(task.facts).find(text) == ()


@pytest.mark.slow
@given(st.sampled_from(sorted(PACKAGES)), st.integers(0, 40))
def test_neither_reader_reads_a_misleading_sentence_as_a_fact(name: str, seed: int) -> None:
    task = make_task(name, seed)
    reader = compile_tolerant_statements(task.facts)
    texts = tuple(list_misleading(name, task.values))
    assert [(text, match) for text in texts for match in reader.find(text)] == []
    patterns = [pattern for fact in task.facts for pattern in fact.patterns]
    assert [(text, pattern) for text in texts for pattern in patterns if re.search(pattern, text)] == []


@pytest.mark.slow
@given(st.sampled_from(sorted(SUITE)), st.integers(0, 60))
def test_from_a_request_no_value_is_read_that_the_exact_reader_does_not_read(name: str, seed: int) -> None:
    task = make_task(name, seed)
    exact, tolerant = (FactReader(task.facts, reader).find_values(user(task.prompt)) for reader in ("exact", "tolerant"))
    assert {one: {*values} for one, values in tolerant.items()} == {one: {*values} for one, values in exact.items()}


@given(st.text(alphabet="ab |:*`-()\n.,1?", max_size=60))
def test_clauses_are_parts_of_the_text_at_their_positions(text: str) -> None:
    for clause in list_clauses(text):
        assert text[clause.offset :].startswith(clause.text)


def test_group_and_words_of_a_pattern() -> None:
    assert find_group(r"a \(b\) ([)(]\)|c)+ (d)") == (8, 18)
    assert extract_words(r"[Aa]fter week (\d+) nothing may be changed").split() == [
        "after",
        "week",
        "nothing",
        "may",
        "be",
        "changed",
    ]
    with pytest.raises(UsageError, match="needs a group"):
        find_group("(?:a)")
