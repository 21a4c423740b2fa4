"""Tests of `harness policies`: both lists, of which the long one is measured on a sample session, and the drawing of a policy."""

import re
import subprocess
import sys

import pytest

from harness.policies import PRESETS, find_public_name
from tests.cli.command import harness, within


@pytest.fixture(scope="module")
def listed():
    """Entries of the long list, by the name of the policy."""
    shown = within("policies", "--full")
    assert shown.exit_code == 0, shown.stderr
    return {block.split()[0]: block for block in shown.stdout.strip().split("\n\n")}


def test_the_short_list_has_one_line_for_each_policy_and_says_where_to_read_more():
    *lines, _, hint = within("policies").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(map(find_public_name, PRESETS))
    sentences = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in lines}
    assert sentences["swe-agent"].startswith("Before every step, replaces all tool results but the newest 5")
    assert sentences["none"].startswith("No compaction: the session goes on")
    assert all(text[0].isupper() and text.endswith("]") and not text.startswith("Policy") for text in sentences.values())
    assert sentences["codex"].endswith(" [modelled, openai/codex 009bd870, read 2026-11-29]")
    assert sentences["langchain-summary"].endswith(" [differential, 1.4.7, read 2026-11-23]")
    assert "harness policies NAME" in hint


@pytest.mark.slow
def test_the_short_list_loads_neither_sessions_nor_models_nor_sandboxes():
    listing = "import sys; from harness.cli import main; main(['policies'], standalone_mode=False); "
    program = listing + "print(*{name.split('.')[1] for name in sys.modules if name.startswith('harness.')})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "policies" in loaded
    assert not loaded & {"inspection", "metrics", "models", "sandboxes", "session", "store", "tasks"}


@pytest.mark.slow
def test_a_name_shows_the_entry_of_the_long_list_alone(listed):
    assert within("policies", "keep-last").stdout.strip() == listed["keep-last"].strip()
    refused = within("policies", "keep-lst")
    assert refused.exit_code == 2
    assert "unknown policy 'keep-lst'; did you mean 'keep-last'?" in refused.stderr


@pytest.mark.slow
def test_every_preset_is_listed_with_source_stages_fields_and_what_it_does(listed):
    assert set(listed) == set(map(find_public_name, PRESETS))
    for name, block in listed.items():
        rows = re.findall(r"^  (\w+) ", block, re.MULTILINE)
        assert rows == ["source", "origin", "situations", *["stage"] * rows.count("stage"), "fields", "sample"], name


@pytest.mark.slow
def test_the_list_says_what_acts_in_a_session_of_one_prompt(listed):
    assert re.search(r"sample +active: \d+ compactions? in \d+ steps", listed["keep-last"])
    assert "control: the policy never compacts" in listed["none"]
    assert "Summarize(Middle(LastMessages(count=10)), SixSections" in listed["keep-last"]
    assert "this project (docs/sources.md)" in listed["keep-last"]
    assert "threshold=0.8 keep_last=10" in listed["keep-last"]


@pytest.mark.slow
def test_a_policy_is_drawn_with_what_it_keeps_and_summarizes():
    shown = harness("policies", "show", "keep-last", "--set", "keep_last=4", "--window", "40000", "--rounds", "1").stdout
    assert "0.8 × (40,000 − 11,000 reserved) = 23,200 tokens" in shown
    assert "LastMessages(count=4)" in shown
    before, after = re.findall(r"^  (?:before|after) +([█░▓]+)  ([\d,]+) tokens, (\d+) messages$", shown, re.MULTILINE)
    assert int(before[1].replace(",", "")) > int(after[1].replace(",", ""))
    assert (len(before[0]), "░" in before[0], after[2]) == (72, True, "6")
    assert re.search(r"█ kept unchanged +5 +[\d,]+ tokens +2 assistant, 2 tool, 1 system", shown)
    assert re.search(r"▓ summary \(inserted\) +1 +[\d,]+ tokens +1 assistant", shown)
    assert re.search(r"and \d+ more compactions?, the last before step \d+", shown)


def test_masked_and_dropped_messages_have_signs_of_their_own():
    masked = within("policies", "show", "opencode-simplified", "--set", "protect_tokens=4000", "--window", "20000").stdout
    assert re.search(r"▒ masked \(shortened\) +\d+ +[\d,]+ → [\d,]+ tokens +\d+ tool", masked)
    dropped = within("policies", "show", "drop-all", "--window", "30000").stdout
    assert re.search(r"· dropped +\d+", dropped)


def test_the_warnings_of_a_policy_are_shown():
    shown = within("policies", "show", "message-window", "--set", "preserve_last_n=100", "--window", "20000").stdout
    assert re.search(r"^  warning +\S", shown, re.MULTILINE)
    late = within("policies", "show", "anthropic-clear-tool-uses", "--window", "20000").stdout
    assert re.search(r"^  warning +it acts at 100,000 tokens at the earliest", late, re.MULTILINE)


def test_a_field_of_a_wrong_type_is_refused_in_words():
    refused = within("policies", "show", "pi", "--set", "keep_recent_tokens=some")
    assert refused.exit_code != 0
    assert "policy.keep_recent_tokens: must be a whole number (got 'some')" in refused.stderr


def test_constants_are_scaled_where_that_is_asked():
    shown = within("policies", "show", "reserve-recent", "--window", "32768", "--nominal-window", "131072").stdout
    assert "reserve_tokens=4096" in shown
    assert "32,768 − 4,096 reserved = 28,672 tokens" in shown


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (("keep-lst",), "unknown policy 'keep-lst'; did you mean 'keep-last'? `harness policies` describes each policy"),
        (("keep-last", "--set", "keep_lst=3"), "did you mean 'keep_last'"),
        (("keep-last", "--set", "keep_last=0"), "keep_last=0 must be at least 1"),
        (("keep-last", "--window", "9000"), "leave nothing of the window of 9,000"),
        (("keep-last", "--set", "keep_last"), "write FIELD=VALUE"),
    ],
)
def test_an_invalid_policy_or_field_is_refused_with_advice(arguments, explanation):
    refused = within("policies", "show", *arguments)
    assert refused.exit_code == 2
    assert explanation in refused.stderr
