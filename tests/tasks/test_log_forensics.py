"""The task `log-forensics`: logs, messages to be found, and grader."""

import re
import shutil
import time

import pytest

from harness.tasks.log_forensics import make_log_forensics
from harness.tasks.log_forensics.facts import FACTS, SEARCHES
from tests.tasks.workshop import act, built, failed, grade, lay, rewritten, run

EFFECTS = r"tools/(open_case|seal)|sed -i|> report/people"
CLIP = 10_000
"""Maximum number of characters of one output."""
RESTING = {
    fact.name: {check.name for check in make_log_forensics(1).checks if fact.name in check.required_facts} for fact in FACTS
}
NEEDLES = [fact for fact in FACTS if fact.said_in == "output" and fact.recover]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Return the workspace of seed 1 after the whole script."""
    return built(make_log_forensics(1), tmp_path_factory.mktemp("answered"), make_log_forensics(1).values, EFFECTS)


@pytest.mark.parametrize("seed", [2])
def test_what_the_script_leaves_passes_every_check(seed, tmp_path):
    task = make_log_forensics(seed)
    assert failed(grade(task, built(task, tmp_path, task.values, EFFECTS))) == set()


def test_the_untouched_workspace_fails_every_check(tmp_path):
    task = make_log_forensics(1)
    assert failed(grade(task, lay(task, tmp_path))) == {check.name for check in task.checks}


@pytest.mark.parametrize("fact", [fact.name for fact in FACTS])
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, answered, tmp_path):
    task, root = make_log_forensics(1), tmp_path / "copy"
    prior = next(one.prior for one in FACTS if one.name == fact)
    shutil.copytree(answered, root)
    if not rewritten(task, root, fact, prior):
        root = built(task, tmp_path / "again", {**task.values, fact: prior}, EFFECTS)
    assert RESTING[fact]
    assert failed(grade(task, root)) >= RESTING[fact]


def test_every_fact_carries_a_check():
    assert {name for check in make_log_forensics(1).checks for name in check.required_facts} == {fact.name for fact in FACTS}


@pytest.mark.parametrize("seed", range(4))
def test_every_needle_stands_once_in_megabytes(seed):
    task = make_log_forensics(seed)
    texts = {path: text for path, text in task.workspace if path.startswith(("logs/", "dumps/"))}
    assert 2_000_000 < sum(map(len, texts.values())) < 5_000_000
    for fact in (fact for fact in NEEDLES if fact.name != "damage_offset"):
        found = [value for text in texts.values() for value in re.findall(fact.patterns[0], text, re.MULTILINE)]
        assert found == [task.values[fact.name]], fact.name
    assert texts["logs/queue.log"].count("segment damaged beyond repair") == 1


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_shows_its_needles_whole_and_costs_something(search, answered):
    task = make_log_forensics(1)
    shown = run(answered, SEARCHES[search].command).output
    facts = [fact for fact in NEEDLES if fact.recover and fact.recover.arguments[0][1] == SEARCHES[search].command]
    assert facts
    assert len(shown) <= CLIP
    assert search == "damage" or len(shown) > 1_500
    for fact in facts:
        assert re.findall(fact.patterns[0], shown, re.MULTILINE) == [task.values[fact.name]]


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
    task = make_log_forensics(1)
    offset = int(task.values["damage_offset"])
    assert dict(task.workspace)["logs/queue.log"].encode()[offset:].startswith(b"segment damaged")


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("python3 tools/open_case.py", "one_case"),
        ("python3 tools/seal.py --count 1", "sealed_once"),
        ("echo mirror = db-3 >> config/ledger.conf", "correction"),
        ("grep -h 'seen in two' logs/auth.log >> notes/auth.md", "people"),
    ],
)
def test_what_must_not_be_done_fails_its_check(command, check, answered, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(answered, root)
    run(root, command)
    assert check in failed(grade(make_log_forensics(1), root))
