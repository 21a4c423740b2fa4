"""Distinctive words of sessions without facts: what became of them after a compaction, and how many survive it."""

from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, Text, ToolCall, assistant, user
from harness.conversation.tokens import QuarterOfCharacters
from harness.inspection.autopsy import build_autopsy
from harness.inspection.autopsy_page import encode_compaction
from harness.inspection.distinctive_words import (
    ALL_KINDS,
    WORD_KINDS,
    WordFinder,
    count_survival,
    find_phrases,
    find_words,
    follow_words,
    write_extract,
)
from tests.replay.test_later_use import Log

TEXTS = st.lists(
    st.sampled_from(["src/one.py", "9999", "backup_host", "plain", "must keep the database small", "\n"]), max_size=12
)


@given(texts=st.lists(st.text(alphabet="aB_./-1 2éx,\n", max_size=60), max_size=4))
def test_words_are_those_that_the_patterns_match_in_the_whole_text(texts):
    finder = WordFinder()
    for text in texts:
        assert finder.find_in_text(text) == {kind: set(pattern.findall(text)) for kind, pattern in WORD_KINDS.items()}


def build_log() -> Log:
    log = Log()
    log.read("src/first.py", "port 4711, backup_host, limit 9999, other_name, kept_name")
    log.compact("The summary names kept_name.")
    log.read("src/a.py", "limit 9999", say="The port is 4711.")
    log.read("src/b.py", "", say="So 9999 it is, as kept_name says.")
    return log


def test_each_word_is_used_later_seen_again_unused_or_kept():
    [words] = follow_words(build_log().entries, QuarterOfCharacters()).values()
    assert {fate.word: (fate.fate, fate.step) for fate in words.fates} == {
        "4711": ("used later", 2),
        "9999": ("seen again", 2),
        "backup_host": ("unused", None),
        "other_name": ("unused", None),
        "kept_name": ("kept", None),
    }
    assert [fate.fate for fate in words.fates] == ["used later", "seen again", "unused", "unused", "kept"]
    used = words.fates[0]
    assert (used.before.text_before, used.before.word, used.action, used.after) == ("port ", "4711", "summarized", None)
    assert words.fates[-1].after is not None
    assert words.fates[-1].after.label == "summary of compaction 1"


def test_a_session_without_facts_shows_words_in_its_autopsy():
    autopsy = build_autopsy(build_log().entries, None, QuarterOfCharacters())
    shown = encode_compaction(autopsy, autopsy.compactions[0])
    assert shown["subject"] == "word"
    assert shown["says"].startswith("4 of 5 distinctive words left the view; 1 of them were used later, the first at step 2")
    assert [row["lines"] for row in shown["rows"]][:2] == [["used later at step 2"], ["seen again at step 2"]]
    assert ["identifiers", 3, 0, 0, 1] in [list(row) for row in shown["survival"]]
    assert not any(word in str(shown) for word in ("harm", "lost"))


def test_commands_decisions_and_constraints_are_found_where_they_are_written():
    call = ToolCall(call_id="c", name="Bash", arguments_json='{"command": "pytest -q tests/unit && rm log"}')
    decision = Text(text="I'll change the database schema first. Fine.")
    assert find_phrases(Message(role="assistant", parts=(decision, call))) == {
        "command": ("pytest -q tests/unit",),
        "decision": ("I'll change the database schema first.",),
        "user constraint": (),
    }
    assert find_phrases(user("You must never touch the database schema. Thanks."))["user constraint"] == (
        "You must never touch the database schema.",
    )


@given(TEXTS, TEXTS, TEXTS)
def test_survival_lies_between_a_summary_that_keeps_nothing_and_one_that_keeps_everything(evicted, kept, summary):
    messages = [user(" ".join(evicted)), assistant(" ".join(reversed(evicted)))]
    rows = count_survival(messages, [user(" ".join(kept))], [user(" ".join(summary))])
    assert [row.kind for row in rows] == list(ALL_KINDS)
    for row in rows:
        assert 0 <= row.nothing <= row.native <= row.evicted
        assert row.nothing <= row.extractive <= row.evicted
    whole = count_survival(messages, [], messages)
    assert all(row.native == row.evicted for row in whole)


@given(TEXTS, st.integers(1, 200))
def test_an_extract_is_as_long_as_asked_and_writes_no_word_of_its_own(texts, characters):
    extract = write_extract([user(text) for text in texts], characters)
    assert len(extract) <= characters
    assert all(line in text or not line for line in extract.split("\n") for text in ["\n".join(texts)])


def test_an_escaped_line_break_is_no_letter_of_a_word():
    call = ToolCall(call_id="c", name="write", arguments_json='{"text": "one\\nTestAll and\\nmy_name\\tsrc/a.py"}')
    words = find_words(Message(role="assistant", parts=(call,)))
    assert words == {"path": {"src/a.py"}, "number": frozenset(), "identifier": {"TestAll", "my_name"}}
