"""Driver of the tool output trimmer and of the compaction threshold of the OpenAI Agents SDK.

The trimmer is a filter of the prompt: it sees the whole conversation before each call and changes nothing that is stored.
"""

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from agents.extensions import ToolOutputTrimmer
from agents.run_config import ModelInputData
from agents.sandbox.capabilities.compaction import Compaction, CompactionModelInfo, DynamicCompactionPolicy

from tests.peers.drivers.serving import Shown, calls_of, serve

_CUT = re.compile(r"\A\[Trimmed: (.*) output — (\d+) chars → (\d+) char preview\]\n", re.DOTALL)


def items_of(conversation: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the input items of a conversation, each with the number of its message; the system message is no item."""
    items: list[tuple[int, dict[str, Any]]] = []
    for at, message in enumerate(conversation):
        if at == 0 and message["role"] == "system":
            continue
        if message["role"] == "tool":
            items.append((at, {"type": "function_call_output", "call_id": message["call_id"], "output": message["text"]}))
            continue
        items.append((at, {"role": message["role"], "content": message["text"]}))
        for call in message.get("calls", ()):
            fields = {"call_id": call["id"], "name": call["name"], "arguments": call["json"]}
            items.append((at, {"type": "function_call", **fields}))
    return items


def name_cut(text: str) -> str:
    """Return a text with the mark of a cut in the words of the test."""
    return _CUT.sub(lambda match: f"<{match[1]} {match[3]}/{match[2]}>", text)


def trim(conversation: list[dict[str, Any]], arguments: dict[str, Any]) -> list[Any]:
    """Return the prompts that have other cut outputs than the prompt before, as views."""
    trimmer, acts, cut_before = ToolOutputTrimmer(**arguments), [], 0
    for point in calls_of(conversation):
        items = items_of(conversation[:point])
        data = SimpleNamespace(model_data=ModelInputData(input=[item for _, item in items], instructions=None))
        filtered = trimmer(data).input
        view: list[Shown] = []
        for (at, item), shown in zip(items, filtered, strict=True):
            if item.get("type") == "function_call":
                assert shown == item
                continue
            same = shown == item
            view.append([at, None if same else name_cut(shown["output"]), None])
        cut = sum(row[1] is not None for row in view)
        if cut != cut_before:
            acts.append({"call": point, "view": view, "told": None})
        cut_before = cut
    return acts


def find_threshold(window: int, share: float | None) -> int:
    """Return the number of tokens at which the provider is asked to compact; None as share uses the default of unknown models."""
    policy = None if share is None else DynamicCompactionPolicy(
        model_info=CompactionModelInfo(context_window=window), threshold=share
    )  # fmt: skip
    (management,) = Compaction(policy=policy).sampling_params({"model": "a model that nobody knows"})["context_management"]
    return int(management["compact_threshold"])


def drop(conversation: list[dict[str, Any]], compaction_items: list[int]) -> list[int]:
    """Return the messages that stay if compaction items stand before some of the messages; -k is the k-th compaction item."""
    context: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for at, item in items_of(conversation):
        if at in compaction_items and at not in numbers.values():
            compaction = {"type": "compaction", "encrypted_content": ""}
            numbers[id(compaction)] = -1 - compaction_items.index(at)
            context.append(compaction)
        numbers[id(item)] = at
        context.append(item)
    return [numbers[id(item)] for item in Compaction().process_context(context)]


if __name__ == "__main__":
    serve({"trim": trim, "threshold": find_threshold, "drop": drop})
