"""Whether a policy can do anything at all with a budget: what cannot be is refused before a session starts.

A policy that keeps as many tokens as its threshold finds nothing to do when it is due, and works far above the threshold that
it is named for if it works at all. In a window smaller than its constants were made for this is easily overlooked.
"""

from dataclasses import fields, is_dataclass

from harness.compaction.cuts import LastTokens
from harness.compaction.describing import parts
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.triggers import Full
from harness.errors import UsageError
from harness.tokens import Budget


def check_feasible(policy: object, budget: Budget) -> None:
    """Refuse a policy all of whose rules keep more than its threshold leaves.

    Rules that are due for another reason than the threshold, or keep by other measures than tokens, may always find something.

    Args:
        policy: as it will run; one that is no pipeline of stages is not looked into.
        budget: that it made of the window.

    Raises:
        UsageError: names what is kept, the threshold and how it came to be.
    """
    pipeline, threshold = getattr(policy, "pipeline", None), budget.threshold_tokens
    if not isinstance(pipeline, Pipeline) or threshold is None or not pipeline.rules:
        return
    kept = [_kept_tokens(rule) for rule in pipeline.rules]
    least = min((tokens for tokens in kept if tokens is not None), default=0)
    if None in kept or least < threshold:
        return
    raise UsageError(
        f"policy {getattr(policy, 'kind', type(policy).__name__)!r} keeps {least} tokens{_by(policy, least)} and is due at "
        f"{threshold} ({budget.rule}), so nothing would lie before what it keeps; lower what it keeps, raise window_tokens, or "
        "set nominal_window_tokens to the window that its constants were made for"
    )


def _kept_tokens(rule: Rule) -> int | None:
    """Tokens that a rule keeps at least when the threshold makes it due; None = there is no such number."""
    if not any(isinstance(part, Full) for part in parts(rule.trigger)):
        return None
    held = list(parts(rule.reducer))
    kept = [part.tokens for part in held if isinstance(part, LastTokens)]
    kept += [part.keep_tokens for part in held if isinstance(getattr(part, "keep_tokens", None), int)]  # type: ignore[attr-defined]
    return min(kept, default=None)


def _by(policy: object, tokens: int) -> str:
    """The field that says so, if one does."""
    if not is_dataclass(policy):
        return ""
    names = [field.name for field in fields(policy) if field.name.endswith("_tokens") and getattr(policy, field.name) == tokens]
    return f" ({names[0]})" if names else ""
