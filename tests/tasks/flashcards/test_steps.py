"""The script of `flashcards` contains no value, and the evidence of each step shows exactly the steps that are done."""

import re
from string import Template

import pytest

from harness.conversation import transcript
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.transcript import RECEIPT
from harness.task import DIFFICULTIES, CallTemplate
from harness.tasks.flashcards import make_flashcards

TASK = make_flashcards(1)
FACTS, STEPS = TASK.facts, TASK.script.steps
NON_IDEMPOTENT = {"reserve_release", "feed_first_rows", "feed_other_rows", "changelog"}


def placeholders(says: str, calls: tuple[CallTemplate, ...]) -> set[str]:
    texts = [says, *(text for call in calls for _, text in call.arguments)]
    return {name for text in texts for name in Template(text).get_identifiers()}


def receipts(lines: list[str]) -> list[tuple[str, str]]:
    matches = (RECEIPT.match(line) for line in lines)
    return [(match[1], match[2]) for match in matches if match and match[3] in {"ok", "exit code 0"}]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_script_facts_and_checks_depend_on_the_structure_seed_and_not_on_the_values(difficulty):
    one, other = (make_flashcards(seed, difficulty=difficulty, structure_seed=3) for seed in (1, 2))
    assert (one.script, one.facts, one.checks) == (other.script, other.facts, other.checks)
    assert one.values != other.values
    elsewhere = make_flashcards(1, difficulty=difficulty, structure_seed=4)
    assert elsewhere.script != one.script
    shared = elsewhere.values.keys() & one.values.keys()
    assert {name: elsewhere.values[name] for name in shared} == {name: one.values[name] for name in shared}


def test_instances_differ_in_the_order_and_number_of_their_steps():
    scripts = [[step.name for step in make_flashcards(seed).script.steps] for seed in range(20)]
    assert len({tuple(names) for names in scripts}) == 20
    assert len({len(names) for names in scripts}) > 10
    orders = {tuple(names.index(f"test_{part}") for part in ("importer", "generator", "stats", "backup")) for names in scripts}
    assert len({tuple(sorted(range(4), key=order.__getitem__)) for order in orders}) > 5


@pytest.mark.parametrize("seed", range(30))
def test_every_part_comes_after_those_it_needs(seed):
    names = [step.name for step in make_flashcards(seed).script.steps]
    for first, later in (
        *(("write_ids", "write_importer"), ("write_ids", "write_generator"), ("write_generator", "write_review")),
        *(("write_review", "test_archive"), ("test_backup", "write_cli"), ("reserve_release", "write_about")),
    ):
        assert names.index(first) < names.index(later)
    if "feed_other_rows" in names:
        needed = ("feed_first_rows", "test_review", "test_exporter")
        assert max(map(names.index, needed)) < names.index("feed_other_rows")


def test_a_higher_difficulty_means_longer_scripts():
    steps = {
        level: sum(len(make_flashcards(seed, difficulty=level).script.steps) for seed in range(10)) for level in DIFFICULTIES
    }
    assert steps["easy"] < steps["standard"] < steps["hard"]


def test_all_placeholders_are_needed_and_all_needs_are_facts():
    names = {fact.name for fact in FACTS}
    for step in STEPS:
        assert placeholders(step.text, step.calls) == set(step.required_facts) <= names, step.name
        for repair in step.repairs:
            assert placeholders(repair.text, repair.calls) <= set(repair.required_facts) <= names


def test_the_templates_are_whole():
    """Every text is a valid template, since a stray dollar sign would fail only when placeholders are filled."""
    for step in STEPS:
        for text in (step.text, *(text for call in step.calls for _, text in call.arguments)):
            assert Template(text).is_valid()


def test_every_fact_is_needed_by_a_call_and_those_of_the_prompt_only_late():
    wanted = {fact.name: [index for index, step in enumerate(STEPS) if fact.name in step.required_facts] for fact in FACTS}
    assert [name for name, steps in wanted.items() if not steps] == []
    assert min(index for fact in FACTS if fact.said_in == "prompt" for index in wanted[fact.name]) >= 20
    far = [name for name, steps in wanted.items() if steps[-1] - steps[0] >= 20]
    assert len(far) >= 10, "many facts are needed again long after their first use"


def test_a_session_has_the_size_that_makes_a_default_policy_compact(reference):
    assert 75 <= len(STEPS) <= 100
    counter = QuarterOfCharacters()
    assert 55_000 <= sum(counter.count(message) for message in reference.messages) <= 75_000
    assert max(counter.count(message) for message in reference.messages) <= 2_700, "no output fills a window by itself"


def test_only_planted_mistakes_fail_and_each_is_mended(reference):
    assert reference.failures == []
    assert reference.repaired == ["test_scheduler", "check_storage", "test_review", "test_cli"]


def test_planted_failures_match_their_repairs(reference):
    outputs = [result.output for message in reference.messages for result in message.results]
    outputs = [output for output in outputs if re.match(r"exit code [^0]", output)]
    for step in STEPS:
        for repair in step.repairs:
            assert len([output for output in outputs if re.search(repair.error_pattern, output, re.MULTILINE)]) == 1
    assert len(outputs) == sum(len(step.repairs) for step in STEPS)


@pytest.fixture(scope="module")
def transcript_parts(reference):
    """Return the lines of the transcript before and up to the end of each step, by step."""
    ends = [reference.ends[step.name] for step in STEPS]
    starts = [2, *ends[:-1]]
    messages = reference.messages
    return {
        step.name: (list(transcript.iter_lines(messages[:start])), list(transcript.iter_lines(messages[:end])))
        for step, start, end in zip(STEPS, starts, ends, strict=True)
    }


@pytest.mark.slow
def test_receipts_show_a_step_after_it_and_never_before(transcript_parts):
    for step in STEPS:
        before, after = map(receipts, transcript_parts[step.name])
        shown = [
            [any(tool == name and re.search(key, receipt_key) for name, receipt_key in seen) for tool, key in step.done.receipts]
            for seen in (before, after)
        ]
        assert all(shown[1]), f"{step.name} is not shown by {step.done.receipts}"
        assert not all(shown[0]), f"{step.name} seems done before it was"


@pytest.mark.slow
def test_no_line_tells_of_a_step_as_done_before_it_was(transcript_parts):
    for step in STEPS:
        if step.done.summary_pattern:
            early = [line for line in transcript_parts[step.name][0] if re.search(step.done.summary_pattern, line)]
            assert early == [], step.name


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("write_scheduler", "- Created `flashcards/scheduler.py` with SM-2"),
        ("write_scheduler", "flashcards/scheduler.py: written, tests pass"),
        ("test_scheduler", "* tests.test_scheduler: 9 run, all pass"),
        ("test_scheduler", "result: tests.test_scheduler 9 run, 0 failed"),
        ("check_storage", "storage is fit"),
        ("reserve_release", "Reserved release R-1234."),
        ("feed_first_rows", "20 of 45 rows fed; feed the rest of the deck with --resume 0a1b2c"),
        ("feed_other_rows", "45 of 45 rows are in the catalogue"),
        ("changelog", "- Changelog entry added for the release"),
    ],
)
def test_a_summary_may_tell_of_a_step_in_its_own_words(step, line):
    (done,) = [one.done for one in STEPS if one.name == step]
    assert re.search(done.summary_pattern, line, re.MULTILINE)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("write_scheduler", "Next: flashcards/scheduler.py"),
        ("test_scheduler", "result: tests.test_scheduler 9 run, 1 failed"),
        ("check_storage", "storage is NOT fit: mend the journal mode"),
        ("feed_other_rows", "20 of 45 rows are in the catalogue"),
        ("changelog", "make one entry in the change log"),
    ],
)
def test_plans_and_failures_are_no_evidence(step, line):
    (done,) = [one.done for one in STEPS if one.name == step]
    assert not re.search(done.summary_pattern, line, re.MULTILINE)


def test_files_that_stand_for_a_step_exist_only_after_it(reference):
    for step in STEPS:
        for path in step.done.listed_paths:
            assert path not in dict(TASK.workspace)
            assert (reference.root / path).is_file()


def test_listings_show_the_steps_that_write_files_and_no_step_that_must_not_be_repeated():
    listed = {step.name for step in STEPS if step.done.listed_paths}
    paths = {step.name: [path for call in step.calls for name, path in call.arguments if name == "path"] for step in STEPS}
    writing = {step.name for step in STEPS if any(call.tool == "write_file" for call in step.calls)}
    assert listed == {name for name in writing if not set(paths[name]) & dict(TASK.workspace).keys()}
    assert not listed & NON_IDEMPOTENT


@pytest.mark.slow
def test_a_session_shows_the_same_in_another_folder(reference, tmp_path):
    """Outputs are reproducible: no times, absolute paths or hash-table orders."""
    from tests.tasks.flashcards.reference import Agent

    task = make_flashcards(1)
    assert Agent(task, tmp_path, task.values).finish().messages == reference.messages
