"""Requests of a session as chains of blocks: what a prompt cache and a bill need to know of them, without their text.

A block is a part of a prompt that is sent whole or not at all: the definitions of the tools, the system prompt, a message. Each
request says how many blocks at its beginning the request before it had, too, and lists only the blocks that follow, so that the
chain of a long session stays short.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.conversation.tokens import Usage


class Block(NamedTuple):
    """Part of a prompt.

    Args:
        digest: Digest of the text; blocks with equal digests have equal texts.
        tokens: Number of tokens, estimated or counted.
        kind: What the block is, such as `system` or `tool`.
    """

    digest: Hashable
    tokens: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request to a model, as its difference from the request before it."""

    kept_blocks: int
    """Number of blocks at the beginning that the request before it begins with, too; 0 for the first request."""
    blocks: tuple[Block, ...]
    """Blocks that follow them."""
    fixed_blocks: int = 0
    """Number of blocks at the beginning that all requests of the session share: definitions of tools and system prompt."""
    at_seconds: float | None = None
    """Time at which the request was sent, in seconds on any clock of the session; None if it is unknown."""
    answer_seconds: float = 0.0
    """Duration of the answer in seconds. What the request used is held for a lifetime from the end of its answer."""
    prompt_tokens: int | None = None
    """Number of tokens of the whole prompt, which gives new blocks their sizes; None means that their estimates are taken."""
    reported: Usage | None = None
    """Usage that the provider reported; None if it reported none."""
    hour_write_tokens: int = 0
    """Part of the reported cache writes that the provider keeps for an hour."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Part of the output tokens that the model used for reasoning."""


def iter_chains(requests: Sequence[Request]) -> Iterator[list[Block]]:
    """Yield all blocks of each request.

    Raises:
        ValueError: A request keeps more blocks than the request before it has.
    """
    chain: list[Block] = []
    for number, request in enumerate(requests, 1):
        if not 0 <= request.kept_blocks <= len(chain):
            raise ValueError(f"request {number} keeps {request.kept_blocks} blocks, but the request before it has {len(chain)}")
        chain = [*chain[: request.kept_blocks], *request.blocks]
        yield chain


def build_requests(chains: Sequence[Sequence[Block]]) -> list[Request]:
    """Return requests without times or usage from all blocks of each request."""
    requests: list[Request] = []
    previous: Sequence[Block] = ()
    for chain in chains:
        kept = count_shared_blocks(previous, chain)
        requests.append(Request(kept_blocks=kept, blocks=tuple(chain[kept:])))
        previous = chain
    return requests


def count_shared_blocks(first: Sequence[Block], second: Sequence[Block]) -> int:
    """Return how many blocks two requests have in common at their beginning."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one.digest != other.digest:
            return position
    return min(len(first), len(second))
