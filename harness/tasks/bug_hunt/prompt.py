"""The request: nine things that stand on no page."""

from collections.abc import Mapping

from harness.tasks.bug_hunt.workspace import load_template
from harness.tasks.facts import make_rng
from harness.tasks.kit import prompts as orders
from harness.tasks.kit.prompts import Constraint

CONSTRAINTS = (
    Constraint(
        sentence="The ticket is ${ticket}; change log, report and hand-over name it.",
        story="The desk of complaints closes a case only when it finds its number in every paper, and the desk is "
        "known to send whole folders back to the cellar because of one sheet without it.",
    ),
    Constraint(
        sentence="The complaint is about invoice ${complaint}, which was audited.",
        story="A retired teacher computed her bill by hand, three times, and came to another sum than the computer; "
        "she has since taught the method to her bridge club, so more letters are on their way.",
    ),
    Constraint(
        sentence="Partners import the function `${entry_point}` of the package; its name must not change, and the "
        "regression test goes through it.",
        story="Two municipal works have built their own programs around ours, and nobody there may touch them "
        "before summer, because the only person who could is at sea and writes one letter a month.",
    ),
    Constraint(
        sentence="The module that was fixed says who answers for it: its docstring begins with the tag `${owner_tag}`.",
        story="After the last audit it took a week to find out who had changed a figure, while the auditors sat in "
        "the corridor and drank up the coffee of the third floor.",
    ),
    Constraint(
        sentence="The class of a regression test begins with `${test_prefix}`.",
        story="The auditors list such tests by the name of the class, and take no other for one, however good it "
        "may be; a whole quarter of good tests was once thrown out on that ground.",
    ),
    Constraint(
        sentence="The entry of the change log goes to the channel `${channel}`.",
        story="Customers of different regions hear of changes on different days, which was a lawyer's idea, and has "
        "led to four lists of addresses of which only one is right on any given day.",
    ),
    Constraint(
        sentence="The severity of the case is called `${severity}`, in the announcement and in the report.",
        story="The desks gave up numbers and words like urgent, because everything was urgent, and took to colours, "
        "which at least look pretty on the board in the entrance hall.",
    ),
    Constraint(
        sentence="The module `${frozen}` is frozen until the audit is over; the hand-over says so.",
        story="An auditor is reading the package line by line and has just come to one of its files, where he "
        "pencils remarks into the margin that must still fit the lines in autumn.",
    ),
    Constraint(
        sentence="The case counts as closed at a drift of at most ${drift_goal} cents a year; the hand-over states that goal.",
        story="The customer's desk has computed from which sum on a letter costs more than the money it returns, "
        "stamps and the hour of the clerk who folds it included, and rounds in nobody's favour.",
    ),
)


def render_prompt(values: Mapping[str, str], task_seed: int) -> str:
    """The prompt under a seed."""
    return orders.render_prompt(load_template("agent/prompt.md"), CONSTRAINTS, make_rng("bug-hunt", task_seed, "order"), values)
