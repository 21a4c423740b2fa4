"""The task `bug-hunt`: an invoice program computes wrong amounts; find the module with outdated prices, repair it, and report.

The program computes electricity invoices in twelve stages: one module for each item on an invoice. A fix is submitted with a tool
that accepts or refuses it and counts the attempts.

Phases of the work, and the information from each phase that the agent needs later:

| phase | what the agent looks at | what the agent must remember |
| --- | --- | --- |
| symptom | failing tests and three long logs | the day of the first error; the stage that the operator suspects |
| code | ten modules, their tests, and a decree on prices | a limit in the decree that is needed twice, much later |
| suspects | the output of tools that test single stages | which stage is ruled out, and which stage has the bug |
| first fix | the rate on the documentation page of the stage | that this fix was refused, and the correct rate in the refusal |
| other stages | modules and tests of all stages | that the first fix must not be submitted again |
| second fix | rounding rules and old minutes | limit, rate, rounding mode, a tag from the prompt; the id of the attempt |
| documents | regression test, change log, announcement, report, hand-over | nearly all of the above once more |

The first fix is plausible and wrong, because the page of the stage states a provisional rate. Only the refusal states the correct
rate. An agent that forgets the refusal submits the first fix again; the attempt is counted, and the refusal shows the rate once
more. Facts in files and in the agent's own notes can be read again; other forgotten facts are lost.

The workspace is a working package of forty modules. The seed decides which of six stages has the bug, the prices, and the names.
"""

from harness.task import Check, Task
from harness.tasks.bug_hunt.facts import FACTS, draw_values
from harness.tasks.bug_hunt.grader import build_grader
from harness.tasks.bug_hunt.steps import build_script
from harness.tasks.bug_hunt.workspace import build_workspace
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import draw_prompt

CHECKS: tuple[Check, ...] = (
    make_check("suite", "all tests pass, those that were there unchanged, and there are new ones", "final_rate", "culprit"),
    make_check("fixed", "the stage computes with the figures in force", "culprit", "decree_tier", "final_rate", "rounding"),
    make_check("only_one_module", "the module with the bug was changed, and no other one", "culprit"),
    make_check("owner_tag", "the changed module says who answers for it", "owner_tag", "culprit"),
    make_check(
        *("regression_test", "the regression test is as ordered and fails without the fix"),
        *("test_prefix", "entry_point", "complaint", "culprit"),
    ),
    make_check(
        "tries", "the bench accepted one patch and was never asked twice for the same", "final_rate", "decree_tier", "rounding"
    ),
    make_check("notes", "the notes tell what was ruled out and since when it drifts", "suspect", "drift_since"),
    make_check("changelog", "the change log has exactly one new entry, with channel and ticket", "channel", "ticket"),
    make_check("announced", "the fix was announced once, at the right desk", "desk", "severity", "ticket"),
    make_check(
        *("report", "the report names what it must"),
        *("ticket", "severity", "complaint", "drift_since", "culprit"),
        *("ruled_out", "provisional_rate", "final_rate", "attempt_id"),
    ),
    make_check(
        *("handover", "the hand-over states what holds"), *("ticket", "attempt_id", "desk", "entry_point", "frozen", "drift_goal")
    ),
)


def make_bug_hunt(task_seed: int) -> Task:
    """Make the task `bug-hunt` for a seed, which decides the values that the agent must remember."""
    values = draw_values(task_seed)
    files = build_workspace(values, task_seed)
    return Task(
        name="bug-hunt",
        title="Find the stage whose figures are stale, and close the case",
        tags=("errors", "artifacts", "decisions", "constraints", "large outputs"),
        prompt=draw_prompt(__package__, "bug-hunt", task_seed, values),
        workspace=files,
        checks=CHECKS,
        grader=build_grader(values, dict(files), task_seed),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
