"""What the order of this task settles and no page says: each constraint in one sentence, and its story."""

from harness.tasks.kit.prompts import Constraint

CONSTRAINTS = (
    Constraint(
        "The program calls itself `${program_name}`: in its usage line, in `about`, in the papers.",
        "Two stations already have a program called cards, one for time sheets and one for fuel, and crews have booked diesel "
        "under a knot.",
    ),
    Constraint(
        "No card stays away for more than ${max_interval_days} days, whatever SM-2 says.",
        "Every crew is examined once a year, and a card that comes back after the examination has helped nobody.",
    ),
    Constraint(
        "A card's id starts with `${id_prefix}`.",
        "The stations exchange lists of cards by radio, and an operator must hear from the first sounds that an id follows.",
    ),
    Constraint(
        "A watch sees ${new_per_day} new cards on one day at most.",
        "In the pilot an eager coxswain took on ninety cards during one night of calm and never opened the program again.",
    ),
    Constraint(
        "The ticket of this work is ${ticket}.",
        "The treasurer pays by ticket and has sent back the invoice of the paint shop three times.",
    ),
    Constraint(
        "The exit status is ${idle_status} when nothing is due.",
        "The screen in the mess room starts the program every morning and must know whether to wake somebody.",
    ),
    Constraint(
        "Between the fields of an exported deck stands the character `${export_separator}`.",
        "The oldest plotter of the fleet prints the decks on labels and takes commas for the end of a label.",
    ),
    Constraint(
        "Whatever a generator makes carries the tag `${draft_mark}` and is not shown before a person has approved it.",
        "A machine once explained a flare as a signal of joy, and the instructor who found it wants to see everything first.",
    ),
    Constraint(
        "The goal is version ${goal_version} of the program.",
        "The association numbers its programs by the year's plan, which was printed before anybody asked the builders.",
    ),
    Constraint(
        "A session that is over says `${farewell}` and nothing else.",
        "The crews voted on the last line of the screen, in four rounds, and the result hangs framed in the boathouse.",
    ),
    Constraint(
        "Whatever the page on numbers says, a card is called mature after ${mature_days} days from this order on.",
        "The instructors have looked at the pilot's figures again and found the old line too kind to lazy learners.",
    ),
)
