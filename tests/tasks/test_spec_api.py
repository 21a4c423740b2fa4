"""The task `spec-api`: pages, client, and grader."""

import re
import shutil

import pytest

from harness.task import DIFFICULTIES
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.spec_api import make_spec_api
from harness.tasks.spec_api.program import PROGRAM
from tests.tasks.workshop import act, built, failed, grade, grade_about, lay, rewritten, run

EFFECTS = r"tools/(enroll|push|conform|changelog)"
CLIP = 10_000
"""Maximum number of characters of one output."""
SEED = next(seed for seed in range(1, 20) if "push_mark" in make_spec_api(seed).values)
"""Seed of an instance in which samples are pushed."""
TASK = make_spec_api(SEED)
FACTS = TASK.facts
RESTING = {fact.name: {check.name for check in TASK.checks if fact.name in check.required_facts} for fact in FACTS}


def pages(seed):
    workspace = make_spec_api(seed).workspace
    return {path: text for path, text in workspace if path.startswith("spec/") and path != "spec/README.md"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return the workspace of `SEED` with the client that the script builds."""
    return built(TASK, tmp_path_factory.mktemp("client"), TASK.values, EFFECTS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_the_work_of_the_scripted_agent_passes_every_check(seed, tmp_path):
    task = make_spec_api(seed)
    assert failed(grade(task, built(task, tmp_path, task.values, EFFECTS))) == set()


def test_the_untouched_workspace_fails_every_check(tmp_path):
    task = TASK
    assert failed(grade(task, lay(task, tmp_path))) == {check.name for check in task.checks}


@pytest.mark.slow
@pytest.mark.parametrize("fact", [fact.name for fact in FACTS])
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, client, tmp_path):
    task, root = TASK, tmp_path / "copy"
    prior = next(one.prior for one in FACTS if one.name == fact)
    shutil.copytree(client, root)
    if not rewritten(task, root, fact, prior):
        root = built(task, tmp_path / "again", {**task.values, fact: prior}, EFFECTS)
    assert RESTING[fact]
    assert failed(grade_about(task, root, RESTING[fact])) >= RESTING[fact]


def test_every_fact_carries_a_check_and_all_kinds_of_facts_are_there():
    assert {name for check in TASK.checks for name in check.required_facts} == {fact.name for fact in FACTS}
    assert len({fact.kind for fact in FACTS}) == 10


@pytest.mark.parametrize("seed", range(5))
def test_pages_are_long_and_hold_each_value_in_one_place(seed):
    values, texts = make_spec_api(seed).values, pages(seed)
    assert len(texts) == 11
    assert all(6_000 <= len(text) <= 13_500 for text in texts.values())
    for fact in (fact for fact in FACTS if fact.said_in == "file" and fact.source in texts):
        (pattern,) = fact.patterns
        places = [(path, value) for path, text in texts.items() for value in re.findall(pattern, text, re.MULTILINE)]
        assert places == [(fact.source, values[fact.name])]


@pytest.mark.parametrize("seed", range(5))
def test_a_fact_cut_from_one_output_is_shown_by_reading_the_end_of_the_page(seed, tmp_path):
    task = make_spec_api(seed)
    (field,) = (fact for fact in FACTS if fact.name == "weight_field")
    assert field.recover is not None
    page = dict(task.workspace)[field.source]
    shown = run(lay(task, tmp_path), field.recover.arguments[0][1]).output
    assert len(shown) <= CLIP
    assert not re.search(field.patterns[0], page[:CLIP], re.MULTILINE)
    assert re.findall(field.patterns[0], shown, re.MULTILINE) == [task.values["weight_field"]]


def test_pages_still_hold_the_values_that_are_out_of_date():
    texts, priors = pages(1), {fact.name: fact.prior for fact in FACTS if fact.kind == "superseded"}
    assert f"signatures aged within {priors['signature_seconds']} seconds" in texts["spec/02-authentication.md"]
    assert f"clients tried {priors['attempts']} times" in texts["spec/05-reliability.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "check"),
    [("enroll.py", "one_key"), ("push.py --count 3", "pushed_once"), ("changelog.py --version 1 --ticket A again", "changelog")],
)
def test_repeating_an_action_that_must_happen_once_fails_its_check(command, check, client, tmp_path):
    task, root = TASK, tmp_path / "copy"
    shutil.copytree(client, root)
    assert run(root, f"python3 tools/{command}").well
    assert failed(grade(task, root)) == {check}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "tests"), [("retry", "tools/run_tests.py tests.test_retry"), ("money", "tools/check_money.py")]
)
def test_a_first_cut_really_fails_and_the_mended_one_does_not(module, tests, client):
    steps = {step.name: step for step in TASK.script.steps}
    (call,) = steps[f"write_{module}"].calls
    right = (client / f"depot/{module}.py").read_text()
    values = TASK.values
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


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_script_facts_and_checks_depend_on_the_structure_seed_and_not_on_the_values(difficulty):
    one, other = (make_spec_api(seed, difficulty=difficulty, structure_seed=3) for seed in (1, 2))
    assert (one.script, one.facts, one.checks) == (other.script, other.facts, other.checks)
    assert one.values != other.values
    assert make_spec_api(1, difficulty=difficulty, structure_seed=4).script != one.script


def test_instances_differ_in_the_order_of_their_parts_and_each_part_comes_after_those_it_needs():
    orders = [PROGRAM.draw_structure(StructureDraws("spec-api", seed)).work.parts for seed in range(30)]
    assert len(set(orders)) > 20
    for parts in orders:
        for part, needed in PROGRAM.choices.prerequisites.items():
            assert all(parts.index(first) < parts.index(part) for first in needed)


@pytest.mark.parametrize("seed", range(10))
def test_the_request_names_the_parts_in_the_order_of_the_script(seed):
    task = make_spec_api(seed)
    (order,) = (line for line in task.prompt.splitlines() if line.startswith("- Errors and headers come first"))
    names = [step.name for step in task.script.steps]
    by_words = {
        "parcel numbers": "write_identifiers",
        "money": "write_money",
        "retries": "write_retry",
        "signatures": "write_signing",
    }
    spoken = sorted(by_words, key=lambda words: order.index(f" {words};"))
    assert spoken == sorted(by_words, key=lambda words: names.index(by_words[words]))
    assert ("push_first" in names) == ("tools/push.py" in task.prompt) == any(c.name == "pushed_once" for c in task.checks)
