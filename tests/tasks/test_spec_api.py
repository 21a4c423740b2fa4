"""The task `spec-api`: pages, client, and grader."""

import re
import shutil

import pytest

from harness.tasks.spec_api import make_spec_api
from harness.tasks.spec_api.facts import FACTS, READ_END_COMMAND
from tests.tasks.workshop import act, built, failed, grade, lay, rewritten, run

EFFECTS = r"tools/(enroll|push|conform|changelog)"
CLIP = 10_000
"""Maximum number of characters of one output."""
RESTING = {fact.name: {check.name for check in make_spec_api(1).checks if fact.name in check.required_facts} for fact in FACTS}


def pages(seed):
    return {path: text for path, text in make_spec_api(seed).workspace if path.startswith("spec/") and path != "spec/README.md"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return the workspace of seed 1 with the client that the script builds."""
    return built(make_spec_api(1), tmp_path_factory.mktemp("client"), make_spec_api(1).values, EFFECTS)


@pytest.mark.parametrize("seed", [2])
def test_what_the_script_builds_passes_every_check(seed, tmp_path):
    task = make_spec_api(seed)
    assert failed(grade(task, built(task, tmp_path, task.values, EFFECTS))) == set()


def test_the_untouched_workspace_fails_every_check(tmp_path):
    task = make_spec_api(1)
    assert failed(grade(task, lay(task, tmp_path))) == {check.name for check in task.checks}


@pytest.mark.parametrize("fact", [fact.name for fact in FACTS])
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, client, tmp_path):
    task, root = make_spec_api(1), tmp_path / "copy"
    prior = next(one.prior for one in FACTS if one.name == fact)
    shutil.copytree(client, root)
    if not rewritten(task, root, fact, prior):
        root = built(task, tmp_path / "again", {**task.values, fact: prior}, EFFECTS)
    assert RESTING[fact]
    assert failed(grade(task, root)) >= RESTING[fact]


def test_every_fact_carries_a_check_and_all_kinds_of_facts_are_there():
    assert {name for check in make_spec_api(1).checks for name in check.required_facts} == {fact.name for fact in FACTS}
    assert len({fact.kind for fact in FACTS}) == 10


@pytest.mark.parametrize("seed", range(5))
def test_pages_are_long_and_hold_each_value_in_one_place(seed):
    values, found = make_spec_api(seed).values, pages(seed)
    assert len(found) == 11
    assert all(6_000 <= len(text) <= 13_500 for text in found.values())
    for fact in (fact for fact in FACTS if fact.said_in == "file"):
        (pattern,) = fact.patterns
        places = [(path, value) for path, text in found.items() for value in re.findall(pattern, text, re.MULTILINE)]
        assert places == [(fact.source, values[fact.name])]


@pytest.mark.parametrize("seed", range(5))
def test_what_one_output_does_not_show_is_shown_by_the_end_of_the_page(seed, tmp_path):
    task = make_spec_api(seed)
    (field,) = (fact for fact in FACTS if fact.name == "weight_field")
    page = dict(task.workspace)[field.source]
    shown = run(lay(task, tmp_path), READ_END_COMMAND).output
    assert len(shown) <= CLIP
    assert not re.search(field.patterns[0], page[:CLIP], re.MULTILINE)
    assert re.findall(field.patterns[0], shown, re.MULTILINE) == [task.values["weight_field"]]


def test_pages_still_hold_the_values_that_are_out_of_date():
    found, priors = pages(1), {fact.name: fact.prior for fact in FACTS if fact.kind == "superseded"}
    assert f"signatures aged within {priors['signature_seconds']} seconds" in found["spec/02-authentication.md"]
    assert f"clients tried {priors['attempts']} times" in found["spec/05-reliability.md"]


@pytest.mark.parametrize(
    ("command", "check"),
    [("enroll.py", "one_key"), ("push.py --count 3", "pushed_once"), ("changelog.py --version 1 --ticket A again", "changelog")],
)
def test_what_must_be_done_once_fails_when_done_twice(command, check, client, tmp_path):
    task, root = make_spec_api(1), tmp_path / "copy"
    shutil.copytree(client, root)
    assert run(root, f"python3 tools/{command}").well
    assert failed(grade(task, root)) == {check}


@pytest.mark.parametrize(
    ("module", "tests"), [("retry", "tools/run_tests.py tests.test_retry"), ("money", "tools/check_money.py")]
)
def test_a_first_cut_really_fails_and_the_mended_one_does_not(module, tests, client):
    steps = {step.name: step for step in make_spec_api(1).script.steps}
    (call,) = steps[f"write_{module}"].calls
    right = (client / f"depot/{module}.py").read_text()
    values = make_spec_api(1).values
    first = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], call.arguments[1][1])
    repair = next(
        step.repairs[0] for step in steps.values() if step.repairs and step.repairs[0].calls[0].arguments[0] == call.arguments[0]
    )
    try:
        act(client, "write_file", {"path": f"depot/{module}.py", "content": first})
        broken = run(client, f"python3 {tests}")
        assert not broken.well
        assert re.search(repair.error_pattern, broken.output)
    finally:
        act(client, "write_file", {"path": f"depot/{module}.py", "content": right})
    assert run(client, f"python3 {tests}").well
