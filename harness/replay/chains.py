"""Chains of calls as sizes and times: all that the cost of a trigger depends on, if the agent's calls are taken as recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from harness.prices.requests import Request

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChain:
    """Calls of a session of which each continues the prompt of the one before.

    The arrays have one value for each call.
    """

    fixed_tokens: float
    """Tokens of tool definitions and system prompt, which no compaction removes."""
    new_tokens: Numbers
    """Tokens that each call adds to the prompt; of the first call, its whole prompt without the fixed tokens."""
    output_tokens: Numbers
    gap_seconds: Numbers
    """Seconds between the request of a call and the answer before; 0 for the first call."""

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.new_tokens)


def split_chains(requests: Sequence[Request], *, fixed_tokens: float, least_shared: float = 0.5) -> list[CallChain]:
    """Return the chains of a session: a call begins a new one if it shares too little of the prompt before.

    Sizes are those of the blocks, scaled to the reported length of each prompt. A prompt that drops less than the share adds what
    is new and keeps the length of what it dropped, since the trace does not say why it went.

    Args:
        requests: Requests of one session, in order.
        fixed_tokens: Tokens of tool definitions and system prompt.
        least_shared: Share of the blocks of the prompt before that a call must begin with to continue its chain.

    Raises:
        ValueError: A request keeps more blocks than the request before it has.
    """
    chains: list[CallChain] = []
    rows: list[tuple[float, float, float]] = []
    ends, before_blocks, before_seconds, answered_seconds = list[int](), 0, 0.0, 0.0
    for number, request in enumerate(requests, 1):
        kept = request.kept_blocks
        if not 0 <= kept <= before_blocks:
            raise ValueError(f"request {number} keeps {kept} blocks, but the request before it has {before_blocks}")
        del ends[kept:]  # tokens up to the end of each block: a long prompt is not summed up again for each call
        kept_tokens = ends[-1] if ends else 0
        ends += list(accumulate((block.tokens for block in request.blocks), initial=kept_tokens))[1:]
        estimate = float(ends[-1]) if ends else 0.0
        size = estimate if request.prompt_tokens is None else float(request.prompt_tokens)
        seconds = before_seconds if request.at_seconds is None else request.at_seconds
        continues = bool(rows) and kept >= least_shared * before_blocks
        if not continues and rows:
            chains.append(_make_chain(rows, fixed_tokens))
            rows = []
        if continues:
            new_tokens = (estimate - kept_tokens) * (size / estimate if estimate else 0.0)
            rows.append((new_tokens, float(request.output_tokens), max(0.0, seconds - answered_seconds)))
        else:
            rows.append((max(0.0, size - fixed_tokens), float(request.output_tokens), 0.0))
        before_blocks, before_seconds, answered_seconds = len(ends), seconds, seconds + request.answer_seconds
    return [*chains, _make_chain(rows, fixed_tokens)] if rows else chains


def _make_chain(rows: Sequence[tuple[float, float, float]], fixed_tokens: float) -> CallChain:
    new, output, gaps = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return CallChain(fixed_tokens=fixed_tokens, new_tokens=new, output_tokens=output, gap_seconds=gaps)
