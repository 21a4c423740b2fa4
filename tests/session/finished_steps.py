"""Events at the end of steps, apart from the tests because worker processes import them too."""

from harness.conversation.events import StepFinished
from harness.conversation.tokens import Estimated


def step(usage, cost_usd=0.5, number=1):
    return StepFinished(
        step=number,
        view_tokens=Estimated(1),
        view_messages=1,
        usage=usage,
        cost_usd=cost_usd,
        request_digest="",
        kept_prefix_messages=0,
        kept_prefix_tokens=Estimated(0),
        calls=0,
        call_errors=0,
        model_seconds=0.0,
        tool_seconds=0.0,
    )
