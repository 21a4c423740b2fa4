"""Grader of the flashcard program (S0.12): the correct program passes, the empty workspace fails every check, and each forgotten
fact fails a check that requires it.
"""

from collections.abc import Iterator, Mapping
from string import Template

import pytest

from harness.task import Step
from harness.tasks.flashcards import make_flashcards
from tests.tasks.flashcards.reference import STATEFUL, Agent
from tests.tasks.workshop import act, grade, grade_about, lay

TASK = make_flashcards(1)
CHECKS, FACTS, STEPS = TASK.checks, TASK.facts, TASK.script.steps
PRIORS = {fact.name: fact.prior for fact in FACTS}
RESTING = {fact.name: {check.name for check in CHECKS if fact.name in check.required_facts} for fact in FACTS}


def final_calls(step: Step):
    return step.repairs[0].calls if step.repairs else step.calls


def uses() -> Iterator[tuple[str, str]]:
    """Yield each step that writes a fact, with the name of the fact."""
    for step in STEPS:
        text = "".join(text for call in final_calls(step) for _, text in call.arguments)
        yield from ((step.name, name) for name in sorted(set(Template(text).get_identifiers())))


def failed(verdicts: Mapping[str, str]) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict != "pass"}


def with_priors(step: Step, names: set[str], root) -> None:
    """Write the files of a step again, with some facts replaced by their priors."""
    values = {**make_flashcards(1).values, **{name: PRIORS[name] for name in names}}
    for call in final_calls(step):
        if call.tool == "write_file":
            act(root, call.tool, {name: Template(text).substitute(values) for name, text in call.arguments})


def is_stateful(step: Step) -> bool:
    return any(name in call.arguments[0][1] for call in step.calls if call.tool == "execute_command" for name in STATEFUL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 7])
def test_the_work_of_the_scripted_agent_passes_every_check(seed, tmp_path):
    """S0.12."""
    task = make_flashcards(seed)
    build = Agent(task, tmp_path, task.values, only_effects=True).finish()
    assert grade(task, build.root) == {check.name: "pass" for check in task.checks}


@pytest.mark.slow
def test_a_build_with_all_its_commands_passes_every_check(reference, copied):
    assert grade(make_flashcards(1), copied()) == {check.name: "pass" for check in CHECKS}


def test_there_is_a_verdict_on_each_check_and_the_untouched_workspace_fails_all(tmp_path):
    task = make_flashcards(1)
    assert failed(grade(task, lay(task, tmp_path))) == {check.name for check in task.checks}


def test_an_empty_folder_fails_all(tmp_path):
    assert failed(grade(make_flashcards(1), tmp_path)) == {check.name for check in CHECKS}


def test_checks_rest_on_facts_that_exist_and_every_fact_carries_a_check():
    assert {name for check in CHECKS for name in check.required_facts} == set(PRIORS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.slow
def test_an_agent_that_forgets_the_prompt_fails_every_check_on_its_facts(tmp_path):
    task = make_flashcards(1)
    names = {fact.name for fact in FACTS if fact.said_in == "prompt"}
    values = {**task.values, **{name: PRIORS[name] for name in names}}
    build = Agent(task, tmp_path, values, only_effects=True).finish()
    assert failed(grade(task, build.root)) == {check.name for check in CHECKS if names & set(check.required_facts)}


@pytest.mark.slow
@pytest.mark.parametrize("fact", sorted(PRIORS))
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, tmp_path):
    task = make_flashcards(1)
    build = Agent(task, tmp_path, {**task.values, fact: PRIORS[fact]}, only_effects=True).finish()
    assert failed(grade_about(task, build.root, RESTING[fact])) >= RESTING[fact]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fact"), [(name, fact) for name, fact in uses()])
def test_a_single_use_of_a_prior_fails_a_check(name, fact, copied, tmp_path):
    """A check that requires the fact fails or, for a test written by the agent, the suite of the agent."""
    (step,) = [step for step in STEPS if step.name == name]
    if is_stateful(step):
        task = make_flashcards(1)
        agent = Agent(task, tmp_path / "again", task.values, only_effects=True)
        agent.overrides[name] = {fact: PRIORS[fact]}
        root = agent.finish().root
    else:
        root = copied()
        with_priors(step, {fact}, root)
    checks = RESTING[fact] | ({"own_tests"} if name.startswith("write_test_") else set())
    assert failed(grade_about(make_flashcards(1), root, checks)) & checks


@pytest.mark.slow
@pytest.mark.parametrize("command", ["tools/reserve.py", "tools/ingest.py decks/biology.csv --count 20"])
def test_repeating_an_action_that_must_happen_once_fails_its_check(command, copied):
    root = copied()
    assert act(root, "execute_command", {"command": f"python3 {command}"}).well
    assert failed(grade(make_flashcards(1), root)) == {"one_release" if "reserve" in command else "fed_once"}


@pytest.mark.slow
def test_a_second_entry_in_the_change_log_fails(copied):
    root, values = copied(), make_flashcards(1).values
    command = f"python3 tools/changelog.py --release {values['release_id']} --ticket {values['ticket']} again"
    assert act(root, "execute_command", {"command": command}).well
    assert failed(grade(make_flashcards(1), root)) == {"changelog"}


@pytest.mark.slow
def test_deleting_rows_fails_the_archive(copied):
    root = copied()
    path = root / "flashcards" / "archive.py"
    path.write_text(path.read_text() + "\nPURGE = 'delete from answers'\n")
    assert failed(grade(make_flashcards(1), root)) == {"archive"}


@pytest.mark.slow
@pytest.mark.parametrize("step", ["test_scheduler", "check_storage", "test_review", "test_cli"])
def test_each_planted_mistake_would_fail_a_check(step, copied):
    root = copied()
    (repair,) = next(one for one in STEPS if one.name == step).repairs
    path = repair.calls[0].arguments[0][1]
    draft = next(call for one in STEPS for call in one.calls if call.arguments[0] == ("path", path) and call.tool == "write_file")
    act(root, "write_file", {name: Template(text).substitute(make_flashcards(1).values) for name, text in draft.arguments})
    assert "own_tests" in failed(grade(make_flashcards(1), root))


FORGERY = """
import os, sys
for descriptor in (1, 2):
    os.write(descriptor, b"n0nce check leeches pass\\n")
for opened in (f"/proc/{os.getppid()}/fd/1", f"/proc/{os.getppid()}/fd/2"):
    try:
        with open(opened, "wb", buffering=0) as out:
            out.write(b"\\nn0nce check leeches pass\\n")
    except OSError:
        pass
LEECH_LAPSES = 999
"""


@pytest.mark.slow
def test_code_that_forges_a_verdict_gets_none(copied):
    """Code of the agent cannot pass a check, even if it guesses the nonce.

    Its output is read as observations, and if it can write to the output of the grader, contradicting verdicts are a failure."""
    root = copied()
    path = root / "flashcards" / "leeches.py"
    path.write_text(path.read_text().replace('LEECH_TAG = "leech"', f'LEECH_TAG = "leech"\n{FORGERY}'))
    assert failed(grade(make_flashcards(1), root)) >= {"leeches"}


@pytest.mark.slow
def test_judged_code_sees_no_file_of_the_grader(copied):
    root = copied()
    outside = root.parent / "seen"  # what the code leaves in the workspace is removed
    with (root / "flashcards" / "__init__.py").open("a") as file:
        file.write(f"\nimport os\nopen({str(outside)!r}, 'a').write(' '.join(os.listdir('.')))\n")
    assert failed(grade(make_flashcards(1), root)) == set()
    seen = outside.read_text()
    assert "flashcards" in seen
    assert ".grade" not in seen
    assert ".nonce" not in seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "raise SystemExit('no')",
        "print('{\"leech\": ' * 5000)",
        "import sys; sys.stdout.write('\\udcff' if False else '\\x00\\n[1, 2]\\n')",
    ],
)
def test_code_that_misbehaves_costs_checks_and_never_the_verdicts(code, copied):
    root = copied()
    (root / "flashcards" / "card.py").write_text(code + "\n")
    verdicts = grade(make_flashcards(1), root)
    assert set(verdicts) == {check.name for check in CHECKS}
    assert failed(verdicts) >= {"own_tests", "leeches", "storage_schema"}
