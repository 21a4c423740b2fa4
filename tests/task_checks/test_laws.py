"""A good task passes every law, and each kind of bad task gets a finding that names its step, fact or check.

The good task is the skeleton that `harness task new` writes; a bad task is the skeleton with one defect.
"""

import importlib.resources
import os
import re
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.messages import assistant
from harness.sandboxes.backends import SandboxChoice
from harness.task import Evidence, Grader, LaterMessage, Repair
from harness.task_checks.bounds import PARTIAL_SUMMARIES
from harness.task_checks.laws import LAWS, check_laws
from harness.task_checks.simulation import (
    HUGE_WINDOW_TOKENS,
    NO_COMPACTION,
    PRESETS,
    SUMMARIZING_POLICIES,
    SessionCache,
    SmallWindow,
)
from harness.tasks import load_task
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.facts import make_output_fact, make_prompt_fact
from tests.cli.command import within

LOCAL = SandboxChoice(backend="local")
"""Sandbox that works wherever the tests run; the commands of the skeleton are harmless."""
SKELETON = importlib.resources.files("harness.cli").joinpath("task_skeleton.py.tmpl").read_text(encoding="utf-8")
BY_NAME = {law.name: law for law in LAWS}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    file: Path = tmp_path_factory.mktemp("skeleton") / "mine.py"
    assert within("task", "new", file).exit_code == 0
    return load_task(f"{file}:greeting")


def find(template, law):
    return list(BY_NAME[law].find(SessionCache(template, sandbox=LOCAL), 1, "extractive"))


def about(findings):
    """Return step, fact and check of each finding."""
    return {(finding.step, finding.fact, finding.check) for finding in findings}


def changed_step(task, which, /, **changes):
    steps = tuple(replace(step, **changes) if step.name == which else step for step in task.script.steps)
    return replace(task, script=replace(task.script, steps=steps))


def without_steps(task, *names):
    steps = tuple(step for step in task.script.steps if step.name not in names)
    return replace(task, script=replace(task.script, steps=steps))


def changed_fact(task, name, **changes):
    return replace(task, facts=tuple(replace(fact, **changes) if fact.name == name else fact for fact in task.facts))


def changed_check(task, name, **changes):
    return replace(task, checks=tuple(replace(check, **changes) if check.name == name else check for check in task.checks))


def changed_verdict(task, change):
    """Return the task with another verdict on the number of lines, computed from verdict, lines and submission."""

    def judge(submission):
        lines = submission.read_text("out.txt").splitlines()
        for name, passed, detail in task.grader.judge(submission):
            yield name, change(passed, lines, submission) if name == "times" else passed, detail

    return replace(task, grader=replace(task.grader, judge=judge))


def doing(task, name, command):
    """Return the task with another command in a step."""
    receipts = (("execute_command", "^" + re.escape(command)),)
    return changed_step(task, name, calls=(run(command.replace("$", "$$")),), done=Evidence(receipts=receipts))


def shown_by(task, name, key):
    """Return the task with a step that counts as done after a matching command."""
    return changed_step(task, name, done=Evidence(receipts=(("execute_command", key),)))


def content_with(task, condition):
    """Return the task with a check of the number of lines that also accepts another condition on lines and submission."""
    return changed_verdict(task, lambda passed, lines, submission: passed or condition(lines, submission))


def with_constant(task):
    """Return the task with the value of a fact in its script."""
    task = replace(task, values={**task.values, "times": "23"}, prompt="Greet 23 times.\n")
    return changed_step(task, "write", text="Greet 23 times with `${greeting}`.")


def with_idle_fact(task):
    """Return the task with a fact that is stated and mentioned but has no effect."""
    colour = task.values["greeting"].lower()
    fact = make_prompt_fact("colour", "preference", "red", r"cook likes (\w+)\.$")
    task = replace(task, facts=(*task.facts, fact), values={**task.values, "colour": colour})
    task = changed_check(task, "times", required_facts=("times", "colour"))
    task = replace(task, prompt=f"{task.prompt}\nThe cook likes {colour}.")
    return changed_step(task, "try", text="I keep ${colour} in mind.", required_facts=("colour",))


def with_idle_print(task):
    """Return the task with a fact without effect that is in a file and that only a command shows."""
    colour = task.values["greeting"].lower()
    fact = make_output_fact("colour", "value", "cat colour.txt", "red", r"^The cook likes (\w+)\.$", source="colour.txt")
    task = replace(task, facts=(*task.facts, fact), values={**task.values, "colour": colour})
    task = replace(
        changed_check(task, "times", required_facts=("times", "colour")),
        workspace=(*task.workspace, ("colour.txt", f"The cook likes {colour}.\n")),
    )
    return changed_step(
        doing(task, "guests_7", "cat colour.txt"), "try", text="I keep ${colour} in mind.", required_facts=("colour",)
    )


def around_the_prompt(task):
    """Return the task with a fact of the prompt that is also in a file, which a command uses."""
    task = replace(task, workspace=(*task.workspace, ("times.txt", f"{task.values['times']}\n")))
    command = 'for i in $(seq $(cat times.txt)); do echo "echo x $i"; done > out.sh'
    return changed_step(doing(task, "write", command), "write", text="Do it.", required_facts=("times", "greeting"))


def early(task):
    """Return the task with steps in an order that finishes the work before anything can be evicted."""
    steps = {step.name: step for step in task.script.steps}
    first = [steps.pop(name) for name in ("style", "write", "try")]
    return replace(task, script=replace(task.script, steps=(*first, *steps.values())))


def unseen(task):
    """Return the task without the step that reads the page, and without a recovering call."""
    return changed_fact(without_steps(task, "style"), "greeting", recover=None)


def seeded(task):
    return changed_step(task, "try", text=f"Try it with {task.values['times']}.")


TOLD_LATER = (LaterMessage(step=3, text="Greet 2 times, no more."),)
UNDECLARED = Repair(error_pattern="x", text="${times}", calls=(run("true"),))
NOISE = "od -N 8 -An -t x1 /dev/urandom"
NUMBER = "od -N 2 -An -t u2 /dev/urandom"  # greeting more often would take seconds
GUESTS = tuple(f"guests_{number}" for number in range(8))

# what is bad: the law that it breaks, how it comes about, (step, fact, check) of the finding, and some of its words
BAD: dict[str, tuple[Any, ...]] = {
    "does not declare a placeholder": (
        *("names", lambda task: changed_step(task, "write", required_facts=("greeting",))),
        *(("write", "times", ""), "not declared"),
    ),
    "does not declare a placeholder of a repair": (
        *("names", lambda task: changed_step(task, "try", repairs=(UNDECLARED,))),
        *(("try", "times", ""), "not declared"),
    ),
    "needs what is no fact": (
        *("names", lambda task: changed_step(task, "style", required_facts=("tone",))),
        *(("style", "tone", ""), "not a fact"),
    ),
    "writes a bare dollar": (
        *("names", lambda task: changed_step(task, "try", text="5 $ each")),
        *(("try", "", ""), r"write `\$\$`"),
    ),
    "calls a tool that there is not": (
        *("names", lambda task: changed_step(task, "try", calls=(replace(run("x"), tool="bash"),))),
        *(("try", "", ""), "no tool 'bash'"),
    ),
    "reads a value with two groups": (
        *("names", lambda task: changed_fact(task, "times", patterns=(r"(Greet) (\d+)",))),
        *(("", "times", ""), "2 groups"),
    ),
    "has a pattern that is none": (
        *("names", lambda task: changed_fact(task, "times", patterns=("(",))),
        *(("", "times", ""), "not a regular expression"),
    ),
    "counts steps by a pattern that is none": (
        *("names", lambda task: changed_step(task, "try", done=Evidence(count_pattern="(", minimum_count=1))),
        *(("try", "", ""), r"'\(' is not a regular expression"),
    ),
    "counts steps by a pattern without a group": (
        *("names", lambda task: changed_step(task, "try", done=Evidence(count_pattern="done", minimum_count=1))),
        *(("try", "", ""), "0 groups"),
    ),
    "recovers a fact by a tool that there is not": (
        *("names", lambda task: changed_fact(task, "greeting", recover=replace(read("style.md"), tool="bash"))),
        *(("", "greeting", ""), "its recovering call: there is no tool 'bash'"),
    ),
    "recovers a fact by the value of another": (
        *("names", lambda task: changed_fact(task, "greeting", recover=run("sed -n ${times}p style.md"))),
        *(("", "greeting", ""), "contains a placeholder"),
    ),
    "has two steps of one name": (
        *("names", lambda task: changed_step(task, "try", name="write")),
        *(("", "", ""), "2 steps have the name 'write'"),
    ),
    "rests a check on what is no fact": (
        *("names", lambda task: changed_check(task, "times", required_facts=("times", "tone"))),
        *(("", "tone", "times"), "'tone', which is not a fact"),
    ),
    "rests no check on a fact": (
        *("names", lambda task: changed_check(task, "times", required_facts=())),
        *(("write", "times", ""), "no check requires the fact"),
    ),
    "has a prior that can be right": (
        *("values", lambda task: changed_fact(task, "greeting", prior="Ahoi")),
        *(("", "greeting", ""), "'Ahoi' equals its value"),
    ),
    "writes a value into its script": (*("values", with_constant), *(("write", "times", ""), "'23' for every seed")),
    "has no value of a fact": (
        *("values", lambda task: replace(task, values={"times": task.values["times"]})),
        *(("", "greeting", ""), "no value"),
    ),
    "has a script that follows the seed": (*("values", seeded), *(("try", "", ""), "differs between the seeds")),
    "has facts that follow the seed": (
        *("values", lambda task: changed_fact(task, "times", patterns=(rf"Greet ({task.values['times']}) times",))),
        *(("", "times", ""), "differs between the seeds"),
    ),
    "tells a value in other words than its pattern": (
        *("patterns", lambda task: changed_fact(task, "times", patterns=(r"Greet them (\d+) times",))),
        *(("write", "times", ""), "do not read the value from the prompt"),
    ),
    "reads another value out of a file": (
        *("patterns", lambda task: replace(task, workspace=(*task.workspace, ("old.md", "Begin with `Ave`.\n")))),
        *(("write", "greeting", ""), "'Ave' from old.md"),
    ),
    "reads another value out of a later message": (
        *("patterns", lambda task: replace(task, later_messages=TOLD_LATER)),
        *(("write", "times", ""), "'2' from the message of step 3"),
    ),
    "has a prompt that fills the window": (
        *("fits", lambda task: replace(task, prompt="word " * 20_000)),
        *(("", "", ""), "20,"),
    ),
    "has a grader that says nothing": (
        *("succeeds", lambda task: replace(task, grader=Grader(judge=lambda _: ()))),
        *(("write", "times", "times"), "no verdict"),
    ),
    "lays a file outside of the workspace": (
        *("files", lambda task: replace(task, workspace=(*task.workspace, ("../guests.txt", "x")))),
        *(("", "", ""), r"'\.\./guests\.txt' cannot be written: .* outside of /workspace"),
    ),
    "lays a file below a file": (
        *("files", lambda task: replace(task, workspace=(*task.workspace, ("style.md/x", "x")))),
        *(("", "", ""), "'style.md/x' cannot be written"),
    ),
    "recovers a fact from a file that is not there": (
        *("recovery", lambda task: changed_fact(task, "greeting", recover=read("stile.md"), source="stile.md")),
        *(("write", "greeting", ""), "before this step: its source 'stile.md' does not exist"),
    ),
    "recovers a fact by a call that shows something else": (
        *("recovery", lambda task: changed_fact(task, "greeting", recover=run("head -c 9 style.md"))),
        *(("write", "greeting", ""), "do not read .* from what execute_command 'head -c 9 style.md' shows: 'exit code 0"),
    ),
    "fails perfect work": (
        *("succeeds", lambda task: changed_verdict(task, lambda passed, lines, _: len(lines) == 1 + int(task.values["times"]))),
        *(("write", "times", "times"), r"fails although nothing was evicted: out.txt has \d+ lines"),
    ),
    "does not end": (*("succeeds", lambda task: shown_by(task, "guests_5", "^less")), *(("guests_5", "", ""), "max_steps")),
    "reads a value that nothing showed": (*("sight", unseen), *(("write", "greeting", ""), "prior")),
    "reads a value in words that are never said": (
        *("sight", lambda task: changed_fact(task, "times", patterns=(r"^Good: (\d+)$",))),
        *(("write", "times", ""), "prior"),
    ),
    "reads another value out of an output": (
        *("readings", lambda task: doing(task, "guests_3", "echo 'Greet 99 times'")),
        *(("guests_3", "times", ""), "'99'"),
    ),
    "never shows a step done": (
        *("evidence", lambda task: shown_by(task, "guests_5", "^less")),
        *(("guests_5", "", ""), r"taken \d\d times"),
    ),
    "shows two steps done by one receipt": (
        *("evidence", lambda task: shown_by(task, "guests_5", "^sed")),
        *(("guests_5", "", ""), "evidence of the step 'guests_0'"),
    ),
    "passes when nothing was done": (
        *("idle", lambda task: content_with(task, lambda lines, _: not lines)),
        *(("write", "times", "times"), "nothing was done"),
    ),
    "passes in an empty workspace": (
        *("idle", lambda task: content_with(task, lambda _, submission: "guests.txt" not in submission.list_files("."))),
        *(("write", "times", "times"), "passes in an empty workspace; "),
    ),
    "prints something else each time": (
        *("repeats", lambda task: doing(task, "guests_5", NOISE)),
        *(("guests_5", "", ""), "differ"),
    ),
    "prints another value each time": (
        *("repeats", lambda task: doing(task, "guests_5", f"echo Greet $({NUMBER}) times")),
        *(("guests_5", "times", ""), "the tool outputs differ"),
    ),
    "prints something else each time before it takes a value": (
        *(
            "repeats",
            lambda task: doing(changed_step(task, "try", required_facts=("greeting",)), "try", f"{NOISE}; sh out.sh > out.txt"),
        ),
        *(("try", "greeting", ""), "the tool outputs differ"),
    ),
    "leaves something else each time": (
        *("repeats", lambda task: doing(task, "guests_5", f"{NOISE} > noise")),
        *(("guests_5", "", ""), "'noise' differs"),
    ),
    "leaves another value each time": (
        *("repeats", lambda task: doing(task, "guests_5", f"echo Greet $({NUMBER}) times > noise")),
        *(("guests_5", "times", ""), "'noise' differs"),
    ),
    "leaves something else each time in a folder that it goes into": (
        *("repeats", lambda task: doing(task, "guests_5", f"mkdir -p new && cd new && {NOISE} > noise")),
        *(("guests_5", "", ""), "'new/noise' differs"),
    ),
    "does not repeat when compacted": (
        *("law-6-bytes", lambda task: doing(task, "guests_0", NOISE)),
        *(("guests_0", "", ""), r"differ when a compacted session \(extractive\) is run again"),
    ),
    "shows another value each time when compacted": (
        *("law-6-bytes", lambda task: doing(task, "guests_0", f"echo Greet $({NUMBER}) times")),
        *(("guests_0", "times", ""), "the tool outputs differ"),
    ),
    "is too short to be compacted": (
        *("law-2", lambda task: without_steps(task, *GUESTS, "write", "try")),
        *(("", "", ""), "never fills a window"),
    ),
    "has a pattern over two lines": (
        *("law-3", lambda task: changed_fact(task, "times", patterns=(r"by page\.\nGreet (\d+) times",))),
        *(("write", "times", "times"), "although summaries keep"),
    ),
    "looks up a value again whose pattern reads two lines": (
        *("law-3", lambda task: changed_fact(task, "greeting", patterns=(r"Style\n\nBegin with `(\w+)`",))),
        *(("", "", ""), r"the agent makes the call list_directory '\.' instead of write_file 'out\.sh'"),
    ),
    "needs nothing after the first compaction": (*("law-4", early), *(("", "times", ""), "before the first compaction")),
    "does not notice what was forgotten": (
        *("law-4", lambda task: content_with(task, lambda lines, _: len(lines) in {0, 1})),
        *(("", "times", "times"), "the check passes"),
    ),
    "has a fact that changes nothing": (
        *("law-5-told", with_idle_fact),
        *(("", "colour", ""), "no check that requires it fails|changes nothing"),
    ),
    "has a fact in a file that a command prints and that changes nothing": (
        *("law-5-told", with_idle_print),
        *(("", "colour", ""), "no check that requires it fails|changes nothing"),
    ),
    "has a fact that no call takes": (*("law-5-told", around_the_prompt), *(("", "times", ""), "the fact changes nothing")),
    "has a check that is content with anything": (
        *("law-5-told", lambda task: content_with(task, lambda lines, _: bool(lines))),
        *(("", "times", ""), "no check that requires it fails"),
    ),
    "gets a value behind the prompt's back": (
        *("law-5-blank", around_the_prompt),
        *(("", "times", "times"), "passes with the prior"),
    ),
    "makes nothing with a prior": (*("law-5-blank", around_the_prompt), *(("", "greeting", ""), "is not used either")),
    "reads a value that nobody told": (
        *("law-5-blank", lambda task: doing(task, "guests_7", "echo Greet 57 times")),
        *(("", "times", ""), "becomes '57', not its prior '1'"),
    ),
    "passes on the prior": (
        *("law-5-blank", lambda task: content_with(task, lambda lines, _: len(lines) == 1)),
        *(("", "times", "times"), "passes with the prior"),
    ),
}


@pytest.mark.slow
def test_the_skeleton_keeps_every_law(good):
    sessions = SessionCache(good, sandbox=LOCAL)
    results = {ruling.law.name: ruling.findings for ruling in check_laws(sessions, [1], PRESETS)}
    assert results == {**dict.fromkeys(BY_NAME, ()), "other-day": None}
    assert len(sessions.run_compacted(1, "extractive").compactions) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD)
def test_a_faulty_task_is_reported_by_the_law_that_it_breaks(kind, good):
    law, spoil, about, words = BAD[kind]
    findings = find(lambda seed: spoil(good(seed)), law)
    named = [finding.message for finding in findings if (finding.step, finding.fact, finding.check) == about]
    assert any(re.search(words, finding) for finding in named), [str(finding) for finding in findings]


def test_a_template_that_raises_is_reported_with_its_seed_and_line(good):
    def raising(seed):
        return good(seed) if seed != 7 else good(seed).values["nothing"]

    (finding,) = find(raising, "template")
    assert finding.seed == 7
    assert "KeyError: 'nothing'" in finding.message
    assert "of test_laws.py" in finding.message


def test_a_template_that_returns_no_task_is_reported():
    (finding,) = find(lambda seed: "a task", "template")
    assert "'str', expected a Task" in finding.message


def test_a_template_with_state_outside_its_seed_is_reported(good):
    numbers = count()
    (finding,) = find(lambda seed: replace(good(seed), title=f"Number {next(numbers)}"), "template")
    assert finding.message.startswith("`title` differs")


def test_a_random_template_is_reported_with_its_facts_and_steps(good):
    numbers = count(3)

    def random(seed):
        task, number = good(seed), str(next(numbers))
        task = replace(task, values={**task.values, "times": number}, prompt=f"Greet {number} times.")
        return changed_step(task, "try", text=f"Try it {number} times.")

    findings = find(random, "template")
    assert about(findings) == {("", "times", ""), ("try", "", ""), ("", "", "")}
    assert [finding.message.split()[0] for finding in findings if not finding.step and not finding.fact] == ["`prompt`"]
    assert all("when the template is called again" in finding.message for finding in findings)


def hashing(folder, spoiled, law="template"):
    """Return the template of the skeleton in a file, with some texts replaced by others that depend on the hash of a text."""
    file = folder / "mine.py"
    text = SKELETON.replace("NAME_OF_TASK", "greeting")
    for old, new in spoiled.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    name = f"{file}:greeting"
    return list(BY_NAME[law].find(SessionCache(load_task(name), name=name, sandbox=LOCAL), 1, "extractive"))


@pytest.mark.slow
def test_a_template_that_depends_on_hashes_is_reported_with_its_facts(tmp_path):
    drawn = "    times, greeting ="
    findings = hashing(tmp_path, {drawn: f'    values["times"] = str(hash(f"times {{task_seed}}") % 10**9)\n{drawn}'})
    assert about(findings) == {("", "times", ""), ("", "", "")}
    assert {finding.message.split()[0] for finding in findings if not finding.fact} == {"`prompt`", "`grader`"}
    assert all("in another process" in finding.message and finding.seed == 0 for finding in findings)


@pytest.mark.slow
def test_a_template_that_depends_on_hashes_is_reported_with_its_steps(tmp_path):
    (finding,) = hashing(tmp_path, {'"Try it."': 'f"Try it, {hash(NAME)}."', "FACTS = (": 'NAME = "x"\nFACTS = ('})
    assert (finding.step, finding.fact) == ("try", "")


@pytest.mark.slow
def test_an_answer_that_depends_on_hashes_is_reported_with_its_step(tmp_path):
    findings = hashing(tmp_path, {"Page {n} of": "Page {n} {hash('x')} of"}, "law-10")
    assert findings
    assert all(one.step in GUESTS and one.message.endswith("gets another answer in a new process") for one in findings)


@pytest.mark.slow
def test_a_session_is_answered_alike_in_other_processes(tmp_path):
    assert hashing(tmp_path, {}, "law-10") == []


@pytest.mark.slow
def test_a_model_that_works_in_one_process_only_is_reported(tmp_path):
    here_only = f'    if __import__("os").getpid() != {os.getpid()}: 1 / 0\n'
    (finding,) = hashing(tmp_path, {"    choices = {": f"{here_only}    choices = {{"}, "law-10")
    assert finding.message.startswith("in a new process the model gives no answer: ")


@pytest.mark.slow
def test_a_template_that_prints_makes_the_same_task_in_another_process(tmp_path):
    assert hashing(tmp_path, {"    choices = {": '    print("drawing")\n    choices = {'}) == []


@pytest.mark.slow
def test_a_template_that_works_in_one_process_only_is_reported(tmp_path):
    here_only = f'    if __import__("os").getpid() != {os.getpid()}: 1 / 0\n'
    (finding,) = hashing(tmp_path, {"    choices = {": f"{here_only}    choices = {{"})
    assert finding.message == "in a new process the template makes no task: ZeroDivisionError: division by zero"


def test_a_template_that_exits_is_reported_with_its_seed(good):
    (finding,) = find(lambda seed: sys.exit(f"no seed {seed}"), "template")
    assert (finding.seed, "SystemExit: no seed 0" in finding.message) == (0, True)


@pytest.mark.slow
def test_two_processes_make_all_seeds(tmp_path):
    name = f"{tmp_path / 'mine.py'}:greeting"
    assert hashing(tmp_path, {}) == []
    starts = tmp_path / "starts"
    with (tmp_path / "mine.py").open("a") as file:
        file.write(f"with open({str(starts)!r}, 'a') as starts:\n    starts.write('x')\n")
    sessions = SessionCache(load_task(name), name=name, sandbox=LOCAL)
    assert [list(BY_NAME["template"].find(sessions, seed, "extractive")) for seed in (1, 2, 3)] == [[], [], []]
    assert starts.read_text() == "xxx"  # here, in other circumstances, and under observation


def test_a_verdict_that_changes_is_reported(good, tmp_path):
    """The judge counts its runs and accepts a result only at every second run."""
    numbers = count(1)

    def flips(passed, *_):
        return passed and next(numbers) % 2 == 1

    (finding,) = find(lambda seed: changed_verdict(good(seed), flips), "repeats")
    assert ((finding.step, finding.fact, finding.check), "verdict" in finding.message) == (("write", "times", "times"), True)


def test_a_fact_without_a_value_is_reported_by_one_law_and_stops_no_other(good):
    sessions = SessionCache(lambda seed: replace(good(seed), values={"times": good(seed).values["times"]}), sandbox=LOCAL)
    findings_by_law = {ruling.law.name: ruling.findings for ruling in check_laws(sessions, [1])}
    assert [name for name, findings in findings_by_law.items() if findings] == ["values"]
    assert findings_by_law["patterns"] == ()


@pytest.mark.parametrize(("path", "is_shown"), [("once.txt", True), ("style.md", False)])
def test_a_fact_is_got_again_from_where_it_stands_when_a_step_needs_it(good, path, is_shown):
    """The page becomes another file before the step that needs it; `$$` is a dollar sign in a recovering call."""

    def moving(seed):
        task = changed_fact(good(seed), "greeting", recover=run(f"cat {path} $$NOTHING"), source=path)
        return doing(task, "guests_7", "mv style.md once.txt")

    findings = find(moving, "recovery")
    assert about(findings) == (set() if is_shown else {("write", "greeting", "")})
    assert all("cannot be recovered any more before this step: its source 'style.md'" in finding.message for finding in findings)


@pytest.mark.parametrize(("maker", "is_shown"), [("write", True), ("try", False)])
def test_a_step_may_need_a_fact_too_early_only_if_it_makes_the_source_itself(good, maker, is_shown):
    """The greeting is recovered from a copy, which is made by the step that needs the greeting or by a later step."""

    def copying(seed):
        task = changed_fact(good(seed), "greeting", recover=read("copy.md"), source="copy.md")
        (calls,) = (step.calls for step in task.script.steps if step.name == maker)
        return changed_step(task, maker, calls=(*calls, run("cp style.md copy.md")))

    assert about(find(copying, "recovery")) == (set() if is_shown else {("write", "greeting", "")})


def test_laws_of_later_stages_are_not_tried_on_a_task_that_breaks_an_earlier_one(good):
    sessions = SessionCache(lambda seed: changed_fact(good(seed), "times", patterns=("(",)), sandbox=LOCAL)
    tried = {ruling.law.name: ruling.findings for ruling in check_laws(sessions, [1])}
    assert {name for name, findings in tried.items() if findings is not None} == {"template", "names"}
    assert tried["names"]


class Careless(SessionCache):
    """Sessions under policies without reserves."""

    def choose_small_window(self, seed):
        free = KeepLast(system_reserve_tokens=0, output_reserve_tokens=0, safety_reserve_tokens=0)
        return SmallWindow(window_tokens=super().choose_small_window(seed).window_tokens, scaled_preset=free)


@pytest.mark.slow
def test_a_policy_that_lets_the_window_overflow_is_reported(good):
    findings = list(BY_NAME["law-7"].find(Careless(good, sandbox=LOCAL), 1, "late-extractive"))
    assert findings
    assert all(finding.message.startswith("overflow at request") for finding in findings), (
        "also if a compaction saved the session"
    )


class Forgetting(SessionCache):
    """Sessions whose requests lack the newest message of the user."""

    def run_compacted(self, *choice, **options):
        done = super().run_compacted(*choice, **options)
        (first, reply), *others = done.requests
        return replace(done, requests=((replace(first, messages=first.messages[:1]), reply), *others))


@pytest.mark.slow
def test_a_request_without_the_user_message_is_reported(good):
    assert list(BY_NAME["law-13"].find(SessionCache(good, sandbox=LOCAL), 1, "extractive")) == []
    (finding,) = BY_NAME["law-13"].find(Forgetting(good, sandbox=LOCAL), 1, "extractive")
    assert finding.message.startswith("request 1 does not contain the message of the user before it, ")


class Endless(SessionCache):
    """Sessions that end at their maximum number of steps: after the first half, each step repeats the first one."""

    def run_compacted(self, *choice, **options):
        done = super().run_compacted(*choice, **options)
        repeated = done.requests[:1] * (len(done.requests) + 2)
        return replace(done, requests=done.requests + repeated, outcome=replace(done.outcome, reason="max_steps"))


@pytest.mark.slow
def test_a_session_that_repeats_its_work_until_its_last_step_is_reported(good):
    assert list(BY_NAME["law-14"].find(SessionCache(good, sandbox=LOCAL), 1, "extractive")) == []
    (finding,) = BY_NAME["law-14"].find(Endless(good, sandbox=LOCAL), 1, "extractive")
    assert "steps repeat work that was done" in finding.message


@pytest.mark.slow
def test_perfect_summaries_are_tried_under_every_policy_whose_summarizer_reads_all(good):
    def hide_the_value(seed):
        return changed_fact(good(seed), "times", patterns=(r"by page\.\nGreet (\d+) times",))

    assert find(good, "law-3-presets") == []
    assert find(hide_the_value, "law-3-presets")
    assert PARTIAL_SUMMARIES.keys() <= set(SUMMARIZING_POLICIES)


class Compacting(SessionCache):
    """Sessions in which a policy acts although it should not."""

    def run(self, seed, policy=NO_COMPACTION, window_tokens=HUGE_WINDOW_TOKENS, *, is_graded=True):
        if isinstance(policy, KeepLast):
            policy = replace(policy, context_window=14_000, threshold=0.5)
        return super().run(seed, policy, window_tokens, is_graded=is_graded)


def test_a_policy_that_acts_in_a_large_window_is_reported(good):
    words = [one.message for one in BY_NAME["law-1"].find(Compacting(good, sandbox=LOCAL), 1, "empty")]
    assert words[0].startswith("compacted ")
    assert "the agent made other calls although nothing was compacted" in words


class Moody(SessionCache):
    """Sessions that end two calls early when run again; compacted sessions have other answers to all requests."""

    def watch(self, seed, values_seed=None):
        done = super().watch(seed, values_seed)
        return replace(done, run=replace(done.run, requests=done.run.requests[:-2]))

    def run_compacted(self, seed, preset="extractive", summarizer=None, *, is_graded=True):
        done = super().run_compacted(seed, preset, summarizer, is_graded=is_graded)
        requests = tuple(
            (request, replace(reply, message=assistant(f"Well. {reply.message.text}", *reply.message.calls)))
            for request, reply in done.requests
        )
        return replace(done, requests=requests)


def test_another_course_is_reported_with_its_step_and_the_fact_that_the_step_needs(good):
    moody = Moody(lambda seed: changed_step(good(seed), "try", required_facts=("greeting",)), sandbox=LOCAL)
    moody.run(1)
    (finding,) = BY_NAME["repeats"].find(moody, 1, "extractive")
    assert (finding.step, finding.fact) == ("try", "greeting")
    assert finding.message.startswith("the agent makes other calls")


def test_another_answer_is_reported_with_its_step_and_the_fact_that_the_step_needs(good):
    findings = list(BY_NAME["law-6-answers"].find(Moody(good, sandbox=LOCAL), 1, "extractive"))
    assert ("write", "times", "") in about(findings)
    assert all("another answer" in one.message for one in findings)


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("command", "about", "words"),
    [
        (NOISE, ("guests_5", "", ""), "differ when a cold action cache answers commands"),
        (f"echo Greet $({NUMBER}) times", ("guests_5", "times", ""), "differ when a cold action cache answers commands"),
        ("sleep 600 > /dev/null 2>&1 &", ("", "", ""), "commands were executed again although the action cache was warm"),
    ],
)
def test_a_session_that_the_action_cache_cannot_repeat_is_reported(good, command, about, words):
    findings = list(BY_NAME["law-9"].find(SessionCache(lambda seed: doing(good(seed), "guests_5", command)), 1, "extractive"))
    assert about in {(one.step, one.fact, one.check) for one in findings}
    assert any(words in one.message for one in findings)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_session_comes_from_the_action_cache_unless_its_task_says_that_it_does_not(good):
    assert list(BY_NAME["law-9"].find(SessionCache(good), 1, "extractive")) == []
    unkept = SessionCache(lambda seed: replace(doing(good(seed), "guests_5", NOISE), cacheable=False))
    assert list(BY_NAME["law-9"].find(unkept, 1, "extractive")) == []
