"""Law 10: a fresh process for every call of the model answers as the session did."""

from collections.abc import Iterator

from harness.errors import UsageError
from harness.testing.fresh_answers import Asked, answered_afresh, plain
from harness.testing.laws.again.repeating import about_answer
from harness.testing.laws.findings import Finding
from harness.testing.laws.sessions import DEFAULT, Sessions
from harness.testing.laws.simulation import ATTENTIVE


def law_10(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Two requests of a compacted session, each sent to a process of its own that draws the task itself.

    A template that no other process can find is not asked.
    """
    if not sessions.name:
        return
    run = sessions.compacted(seed, DEFAULT)
    asked = Asked(sessions.name, seed, *ATTENTIVE, sessions.tight(seed).window_tokens)
    compacted = run.compactions[0].step - 1 if run.compactions else 0
    for at in sorted({(compacted + len(run.requests) - 1) // 2, compacted}, reverse=True):
        request, reply = run.requests[at]
        try:
            same = answered_afresh(asked, request) == plain(reply)
        except UsageError as error:
            yield Finding(words=str(error), seed=seed)
            return
        if not same:
            yield about_answer(sessions.task(seed), run, at, "in a process of its own", seed)
