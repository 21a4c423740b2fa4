"""What the order of this task settles and no page says: each constraint in one sentence, and its story."""

from harness.tasks.kit.prompts import Constraint

CONSTRAINTS = (
    Constraint(
        "To the depot the client introduces itself as `${client_name}`.",
        "Last year somebody's trial program used the name of the invoicing robot, and for a week the depot throttled both.",
    ),
    Constraint(
        "Every environment variable begins with `${env_prefix}_`.",
        "The machines of the halls run a dozen programs in one environment, and two of them already fight over a variable "
        "called URL.",
    ),
    Constraint(
        "The client waits ${timeout_seconds} seconds for an answer and no longer.",
        "The clerks were asked how long they look at a frozen screen before they restart the machine; the answer was averaged.",
    ),
    Constraint(
        "However many the depot would take, one batch carries ${batch_size} parcels at most.",
        "A whole lorry was once refused because of a single wrong label, and the office wants a refusal to cost less than that.",
    ),
    Constraint(
        "In logs a secret is shown as `${redaction_mark}`.",
        "The auditors search the logs with a script of their own, which knows one mark only and takes anything else for a leak.",
    ),
    Constraint(
        "The exit status is ${unavailable_status} when the depot cannot be reached.",
        "At night the scheduler calls a person for every failure but one, and that one must be told by its number.",
    ),
    Constraint(
        "All this runs under the ticket ${ticket}.",
        "The office pays by ticket and sends back what carries none, as the team of the labels found out in spring.",
    ),
    Constraint(
        "The list of tariffs is kept for ${cache_minutes} minutes.",
        "The depot complained that every single parcel fetched it again, and the traders that a price of the morning was "
        "still shown in the evening.",
    ),
    Constraint(
        "Our clocks may differ by ${skew_seconds} seconds from the depot's, in both directions.",
        "The halls have no time server of their own, and the one in the cellar drifts whenever the heating is on.",
    ),
    Constraint(
        "The goal is version ${goal_version} of the client.",
        "Two teams have numbered their programs as they liked, and the contract's annex now refers to a version that this "
        "work has to reach.",
    ),
    Constraint(
        "Whatever the page on authentication says, a signature is good for ${signature_seconds} seconds from now on.",
        "After the break-in at the eastern halls the depot changed its mind about old signatures, faster than its pages.",
    ),
)
