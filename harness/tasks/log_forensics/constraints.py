"""What the order of this task settles and no paper says: each constraint in one sentence, and its story."""

from harness.tasks.kit.prompts import Constraint

CONSTRAINTS = (
    Constraint(
        "The report is headed `${heading}`.",
        "The customer's spokesman promised a paper of that name on the radio before anybody knew what would stand in it.",
    ),
    Constraint(
        "The report is written for the ${audience} and nobody else.",
        "The last report tried to please four parties at once, was sent to all of them, and was believed by none.",
    ),
    Constraint(
        "All this work is booked on the ticket ${ticket}.",
        "Changes without a ticket are how the whole thing began, as the head of the desk says at every occasion.",
    ),
    Constraint(
        "Every time of the timeline ends with `${time_suffix}`.",
        "Two offices argued for a week about an hour that one of them had counted twice, and now want to see it written out.",
    ),
    Constraint(
        "The columns of the timeline are separated by `${separator}`.",
        "It is read by a program of the customer that was written by somebody who has left, and takes one character only.",
    ),
    Constraint(
        "Each line of the block-list begins with the word `${deny_word}`.",
        "The new gateways speak another dialect than the old ones, and a list in the wrong one is loaded without a complaint "
        "and does nothing.",
    ),
    Constraint(
        "An account is never named but shown as `${person_mark}/` and its last three digits.",
        "The officer for privacy reads every paper of this desk before it leaves the house, with a marker in hand.",
    ),
    Constraint(
        "A suspect that was ruled out is called `${cleared_word}`.",
        "Words have consequences: a team that was once called innocent in a report asked who had thought otherwise.",
    ),
    Constraint(
        "Evidence is kept for ${keep_days} days.",
        "The lawyers and the people who pay for disks met three times, and this is the number on which they could agree.",
    ),
)
