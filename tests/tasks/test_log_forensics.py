"""The task `log-forensics`: instances differ, logs contain each message once, and forgotten facts fail checks."""

import re
import shutil
import time

import pytest

from harness.task import DIFFICULTIES
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.log_forensics import make_log_forensics
from harness.tasks.log_forensics.facts import make_search
from harness.tasks.log_forensics.logs import MISLEADING
from harness.tasks.log_forensics.structure import (
    COMPONENTS,
    FINDINGS_BY_PAGE,
    LOG_BY_SEARCH,
    MISLEADING_COUNT,
    SEARCH_BY_FINDING,
    draw_structure,
)
from tests.tasks.workshop import act, built, failed, grade, lay, rewritten, run

EFFECTS = r"tools/(open_case|seal)|sed -i|> report/people"
CLIP = 10_000
"""Maximum number of characters of one output."""
SEED = 16
"""Seed whose instance has most pages."""
TASK = make_log_forensics(SEED)
NEEDLES = [fact for fact in TASK.facts if fact.name in SEARCH_BY_FINDING]


def structure_of(seed, difficulty="standard"):
    return draw_structure(StructureDraws("log-forensics", seed, difficulty))


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Return the workspace after the whole script."""
    return built(TASK, tmp_path_factory.mktemp("answered"), TASK.values, EFFECTS)


def test_instances_differ_in_logs_pages_times_searches_and_papers():
    structures = [structure_of(seed) for seed in range(60)]
    assert {log for structure in structures for log in structure.logs} == set(COMPONENTS)
    assert {page for structure in structures for page in structure.page_names} == set(FINDINGS_BY_PAGE)
    assert {len(structure.pages) for structure in structures} == {6, 7, 8, 9}
    assert (
        {structure.first_portion > 0 for structure in structures}
        == {structure.open_after > 0 for structure in structures}
        == {True, False}
    )
    for distinct in ("logs", "pages", "looks", "contexts", "filing_facts", "handover_facts", "misleading", "sheets"):
        assert len({getattr(structure, distinct) for structure in structures}) > 4, distinct
    assert len(MISLEADING) == MISLEADING_COUNT


def test_a_page_is_due_when_its_findings_are_known():
    for structure in map(structure_of, range(60)):
        for page, due in structure.pages:
            logs = {LOG_BY_SEARCH.get(SEARCH_BY_FINDING[finding]) for finding in FINDINGS_BY_PAGE[page]} - {None}
            assert logs <= set(structure.logs[:due])


def test_harder_instances_have_more_pages_more_of_them_due_last_and_longer_output():
    def measure(difficulty):
        structures = [structure_of(seed, difficulty) for seed in range(60)]
        late = [due == len(structure.logs) for structure in structures for _, due in structure.pages]
        lines = sum(count for structure in structures for _, count in structure.contexts)
        return sum(len(structure.pages) for structure in structures), sum(late) / len(late), lines

    easy, standard, hard = map(measure, DIFFICULTIES)
    assert all(low < middle < high for low, middle, high in zip(easy, standard, hard, strict=True))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_work_of_the_scripted_agent_passes_every_check(difficulty, tmp_path):
    task = make_log_forensics(2, difficulty=difficulty)
    assert failed(grade(task, built(task, tmp_path, task.values, EFFECTS))) == set()


def test_the_untouched_workspace_fails_every_check(tmp_path):
    assert failed(grade(TASK, lay(TASK, tmp_path))) == {check.name for check in TASK.checks}


@pytest.mark.slow
@pytest.mark.parametrize("fact", [fact.name for fact in TASK.facts])
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, answered, tmp_path):
    root = tmp_path / "copy"
    prior = next(one.prior for one in TASK.facts if one.name == fact)
    shutil.copytree(answered, root)
    if not rewritten(TASK, root, fact, prior):
        root = built(TASK, tmp_path / "again", {**TASK.values, fact: prior}, EFFECTS)
    resting = {check.name for check in TASK.checks if fact in check.required_facts}
    assert resting
    assert failed(grade(TASK, root)) >= resting


def test_every_fact_carries_a_check():
    for seed in range(10):
        task = make_log_forensics(seed)
        assert {name for check in task.checks for name in check.required_facts} == {fact.name for fact in task.facts}


@pytest.mark.parametrize("seed", range(4))
def test_every_needle_stands_once_in_megabytes(seed):
    task = make_log_forensics(seed)
    texts = {path: text for path, text in task.workspace if path.startswith(("logs/", "dumps/"))}
    assert 2_000_000 < sum(map(len, texts.values())) < 5_000_000
    for fact in (fact for fact in task.facts if fact.name in {*SEARCH_BY_FINDING} - {"damage_offset"}):
        values = [value for text in texts.values() for value in re.findall(fact.patterns[0], text, re.MULTILINE)]
        assert values == [task.values[fact.name]], fact.name
    assert texts["logs/queue.log"].count("segment damaged beyond repair") == 1


@pytest.mark.parametrize("search", dict.fromkeys(SEARCH_BY_FINDING[fact.name] for fact in NEEDLES))
def test_a_search_shows_its_needles_whole_and_costs_something(search, answered):
    command = make_search(structure_of(SEED), search).command
    shown = run(answered, command).output
    facts = [fact for fact in NEEDLES if fact.recover and fact.recover.arguments[0][1] == command]
    assert facts
    assert len(shown) <= CLIP
    assert search == "damage" or len(shown) > 900
    for fact in facts:
        assert re.findall(fact.patterns[0], shown, re.MULTILINE) == [TASK.values[fact.name]]


@pytest.mark.parametrize("log", ["gateway", "app", "ledger", "auth", "queue"])
def test_a_log_and_its_errors_are_longer_than_one_output_shows(log, answered):
    assert len(act(answered, "read_file", {"path": f"logs/{log}.log"}).output) > 30 * CLIP
    shown = run(answered, f"grep -n ' ERROR ' logs/{log}.log").output
    assert len(shown) > CLIP
    assert not any(re.search(fact.patterns[0], shown, re.MULTILINE) for fact in NEEDLES), "no error is a needle"


def test_making_the_task_is_cheap_and_repeats():
    started = time.process_time()
    first = make_log_forensics.__wrapped__(77)
    assert time.process_time() - started < 1.0
    assert make_log_forensics.__wrapped__(77) == first


def test_the_offset_is_where_a_search_finds_it(answered):
    offset = int(TASK.values["damage_offset"])
    assert dict(TASK.workspace)["logs/queue.log"].encode()[offset:].startswith(b"segment damaged")


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("python3 tools/open_case.py", "one_case"),
        ("python3 tools/seal.py --count 1", "sealed_once"),
        ("echo mirror = db-3 >> config/ledger.conf", "correction"),
        ("grep -h 'seen in two' logs/auth.log >> notes/auth.md", "people"),
    ],
)
def test_each_forbidden_action_fails_its_check(command, check, answered, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(answered, root)
    run(root, command)
    assert check in failed(grade(TASK, root))
