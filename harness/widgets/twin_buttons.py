"""Buttons on a compaction that continue the session from there with another effect of the compaction, as data for pages."""

from collections.abc import Mapping
from typing import Any

from harness.conversation.events import Compaction, WorkspaceSaved
from harness.errors import UsageError
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.stored_twins import TRIAL_ADVICE
from harness.policies import list_policy_names
from harness.session.spec import find_setup
from harness.session.twin_run import SESSION_ADVICE

FACTS_ARM = "facts put back"
NO_COMPACTION_ARM = "not compacted"
SHOWN_POLICY = "as shown here"
"""Choice of an explorer, among the other policies, of the policy with the values that it shows."""
NO_FACTS = "the facts that it lost are only known in a session with a task"
NO_JOURNAL = "this session has no stored workspace from which it could continue"


def encode_buttons(*, has_facts: bool, refusal: str = "", can_compare: bool = False) -> dict[str, Any]:
    """Return what a page needs for the buttons of a compaction.

    Args:
        has_facts: Whether the facts of the session are known.
        refusal: Reason why the session cannot be continued at all; empty if it can.
        can_compare: Whether the page has a button that runs the twins of the compaction.
    """
    buttons = [
        {"arm": FACTS_ARM, "text": "fork here with the facts put back", "why": refusal or ("" if has_facts else NO_FACTS)},
        {"arm": NO_COMPACTION_ARM, "text": "fork here without compaction", "why": refusal},
    ]
    if can_compare:
        buttons.append({"arm": "", "text": "compare twins", "why": refusal or ("" if has_facts else NO_FACTS)})
    return {"buttons": buttons, "policies": list(list_policy_names()), "why": refusal}


def read_request(message: Mapping[str, Any]) -> tuple[int, str]:
    """Return the number of a compaction and the arm that a page asks for.

    Raises:
        UsageError: The request has another form, or the arm is unknown.
    """
    number, arm = message.get("round"), message.get("arm")
    if not isinstance(number, int) or isinstance(number, bool):
        raise UsageError(f"compaction: must be the number of a compaction (got {number!r:.40})")
    if arm not in (FACTS_ARM, NO_COMPACTION_ARM, *list_policy_names()):
        raise UsageError(f"arm: must be {FACTS_ARM!r}, {NO_COMPACTION_ARM!r} or the name of a policy (got {arm!r:.40})")
    return number, str(arm)


def find_refusal(session: RecordedSession) -> str:
    """Return the reason why a finished session cannot be continued from its compactions; empty if it can."""
    if session.journal is None:
        return NO_JOURNAL
    events = [event for _, event in session.entries]
    is_saved = any(isinstance(event, WorkspaceSaved) or (isinstance(event, Compaction) and event.tree_id) for event in events)
    if is_saved:
        return ""
    return f"its workspaces were not saved; {SESSION_ADVICE if find_setup(session.entries) else TRIAL_ADVICE}"
