"""Importer of anonymised traces in the form of the kv-cache-tester, which have token counts and block digests but no texts.

Properties of the format:

- `in` and `out` are the tokens of the whole prompt and of the answer. `hash_ids` has a number for each block of the prompt; equal
  beginnings of two lists are equal beginnings of two prompts.
- A request of type `n` or `s` is a model call, answered at once or in a stream. A request of type `subagent` has the requests of
  a sub-agent, whose blocks share the numbers of the session.
- The file says nothing about the cache. A block counts as read from the cache if an earlier call of the same model sent it at the
  same place within `CACHE_SECONDS` of its answer, which took `api_time`.

Source: callanjfox/kv-cache-tester at 94f6046d (`README.md`, `docs/trace_replay_tester.md`, `trace_replay_tester.py`, `traces/`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.conversation.messages import Text
from harness.prices.requests import Block, Request
from harness.prices.rules import find_rule
from harness.recordings.blocks import build_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import SubAgentLink

if TYPE_CHECKING:
    from harness.prices.cache import PromptCache

CACHE_SECONDS = 300.0
"""Time for which a block stays in the cache after the answer that used it last; the default of Anthropic."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a trace of the kv-cache-tester, recognised by its blocks and requests."""
    return is_object_with(document.single_value, "id", "block_size", "hash_id_scope", "requests")


def read(document: Document) -> Iterator[Draft]:
    """Yield the session of a trace as an unfinished recording, and then the sessions of its sub-agents."""
    whole = document.read_root()
    main = Draft(session_id=whole.read_text("id"), has_texts=False)
    caches = _Caches(whole.read_count("block_size"))
    children: list[Draft] = []
    for request in whole.read_objects("requests"):
        if request.read_text("type") == "subagent":
            name = request.read_text("agent_id") or f"agent-{len(children) + 1}"
            child = Draft(session_id=f"{main.session_id}.{name}", parent_id=main.session_id, has_texts=False)
            main.sub_agents.append(SubAgentLink(session_id=child.session_id, call_id=""))
            children.append(child)
            start_seconds = request.read_amount("t") or 0.0
            for inner in request.read_objects("requests"):
                _read_request(inner, child, caches, start_seconds)
        else:
            _read_request(request, main, caches, 0.0)
    for draft in (main, *children):
        draft.warn("", "the trace has no texts: its calls can be priced, and no policy can be tried on it")
        draft.warn("", "tokens read from the cache follow from the digests of blocks; writes are counted as plain input")
    yield main
    yield from (child for child in children if child.turns)


def _read_request(request: Fields, draft: Draft, caches: "_Caches", start_seconds: float) -> None:
    if request.read_text("type") not in {"n", "s"} or not request.has("in"):
        draft.count_dropped(f"request of type {request.read_text('type')!r}, which is not read")
        return
    prompt, output, model = request.read_count("in"), request.read_count("out"), request.read_text("model")
    blocks = request.values.get("hash_ids")
    blocks = [block for block in blocks if isinstance(block, int)] if isinstance(blocks, list) else []
    sent_seconds, answer_seconds = start_seconds + (request.read_amount("t") or 0.0), request.read_amount("api_time") or 0.0
    held_tokens = caches.send(model, blocks, sent_seconds, answer_seconds)
    inputs, outputs = (", ".join(request.read_texts(name)) or "nothing" for name in ("input_types", "output_types"))
    draft.add_message("user", [Text(text=f"({inputs})")], request.place)
    read = min(prompt, held_tokens)
    draft.add_answer([Text(text=f"({outputs})")], request.place, model=model, usage=build_usage(prompt - read, output, read=read))


class _Caches:
    """Prompt caches of the models of a session, in which equal beginnings of lists of blocks are equal beginnings of prompts."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._rule = replace(find_rule("ideal"), lifetimes_seconds={"5m": CACHE_SECONDS})
        self._caches: dict[str, tuple[PromptCache, list[int]]] = {}
        """Cache of each model, with the blocks of the last prompt."""

    def send(self, model: str, blocks: Sequence[int], at_seconds: float, answer_seconds: float) -> int:
        """Send a prompt to a model and return how many of its first tokens are in the cache; all are afterwards."""
        from harness.prices.cache import PromptCache  # noqa: PLC0415 - loads numpy, which no other format needs

        cache, before = self._caches.setdefault(model, (PromptCache(self._rule), []))
        pairs = enumerate(zip(before, blocks, strict=False))
        kept = next((place for place, (old, new) in pairs if old != new), min(len(before), len(blocks)))
        before[kept:] = blocks[kept:]
        added = tuple(Block(block, self._block_tokens, "user") for block in blocks[kept:])
        sent = Request(kept_blocks=kept, blocks=added, at_seconds=at_seconds, answer_seconds=answer_seconds)
        return cache.send(sent).read_tokens
