"""Constants of presets that are not fields, copied from their sources, so that a change of a policy fails a test.

The constants are those of the stages that a preset builds. Fields are checked in `test_defaults`; a value that is also the value
of a field is left out here, so the tables contain only constants that nobody can configure. Texts are checked in `test_texts`.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass

import pytest

from harness import compaction
from harness.compaction.description import resolve_default, walk_parts
from harness.compaction.pipeline import Preset
from harness.policies import PRESETS
from harness.session import compactor

Numbers = dict[str, tuple[float, ...]]
Choices = dict[str, tuple[bool | str, ...]]


def constants(kind: str, wanted: Callable[[object], bool]) -> dict[str, tuple[object, ...]]:
    """Return the constants in stages, budget rule and counter of a preset by class and field, without the values of its fields.

    Booleans are always included, because half of all fields have the same value.
    """
    preset = PRESETS[kind]()
    held = (value for field in fields(preset) for value in flat(getattr(preset, field.name)))
    own = {value for value in held if wanted(value) and not isinstance(value, bool)}
    values_by_field: defaultdict[str, set[object]] = defaultdict(set)
    for part in walk_parts(preset.pipeline):
        if not is_dataclass(part):
            continue
        for field in fields(part):
            value, usual = getattr(part, field.name), resolve_default(field)
            for one in flat(value):
                if wanted(one) and field.name != "kind" and one not in own and (usual is MISSING or value != usual):
                    values_by_field[f"{type(part).__name__}.{field.name}"].add(one)
    return {name: tuple(sorted(values)) for name, values in sorted(values_by_field.items())}  # type: ignore[type-var]


def flat(value: object) -> list[object]:
    return [one for inner in value for one in flat(inner)] if isinstance(value, tuple) else [value]


def number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def choice(value: object) -> bool:
    """Return whether a value is a boolean or a short name."""
    return isinstance(value, bool) or (isinstance(value, str) and bool(re.fullmatch("[a-z_-]+", value)))


UNRESERVED: Numbers = {"Reserves.output_tokens": (0,), "Reserves.safety_tokens": (0,), "Reserves.system_tokens": (0,)}
"""Constants of a budget rule of the whole window."""

CONSTANTS: dict[str, Numbers] = {
    # Cline 21cb8d25: characters / 3, the last three texts, 0.9 of 0.9 of the window
    "cline": {**UNRESERVED, "Digest.texts": (3,), "JsonCharacters.characters_of_token": (3,), "ShareOfAvailable.share": (0.81,)},
    "cline-basic": {
        **UNRESERVED,
        "Digest.texts": (3,),
        "JsonCharacters.characters_of_token": (3,),
        "ShareOfAvailable.share": (0.81,),
    },
    # Cline 01cfde0d
    "cline-classic": {
        "WindowTable.thresholds": (37000, 64000, 98000, 128000, 160000, 200000),
        "ForgetHalf.excluded_messages": (2,),
        "ForgetHalf.keep_first": (3,),
    },
    "claude-code": {**UNRESERVED, "LastMessages.count": (0,)},
    "strands-summary": UNRESERVED,
    "strands-window": {"SlideWindow.keep_characters": (0,)},  # results are cut after an overflow only
    "adaptive-headroom": UNRESERVED,
    "copilot-inline": {**UNRESERVED, "LastMessages.count": (0,)},
    "frozen-ranked": UNRESERVED,
    "handoff": {**UNRESERVED, "LastMessages.count": (0,)},
    "hermes-lean": UNRESERVED,
    "kimi": UNRESERVED,
    "maf-anchored": UNRESERVED,
    "openai-agents": {**UNRESERVED, "LastMessages.count": (0,)},
    "verbatim-lines": UNRESERVED,
    "codex@2025": UNRESERVED,
    "codex@2026": UNRESERVED,
    # SWE-agent 3ea751c0 and The Complexity Trap: N + M
    "complexity-trap-summary": {"TurnsSinceSummary.count": (31,)},
    # langchain 1.4.7 `_overflow_retry_prompt`: half, a quarter of it from the beginning
    "deepagents": {
        **UNRESERVED,
        "LastOfWindow.least_messages": (0,),
        "WithoutMiddle.head_share": (0.25,),
        "WithoutMiddle.share": (0.5,),
    },
    "dexto": UNRESERVED,
    # the newest message alone
    "drop-all": {"LastMessages.count": (1,)},
    # Gemini CLI 5411f113: first 20 % of a clipped result; 1.5 tokens for a character beyond ASCII
    "gemini-cli": {**UNRESERVED, "ClipOldResults.head_share": (0.2,), "WeightedCharacters.other_tokens": (1.5,)},
    # Gemini CLI 25137857: at least 30,000 tokens; a result must be longer than twice 250 characters and the line between them;
    # the latest message stays
    "gemini-masking": {
        "Offload.keep_steps": (1,),
        "Offload.least_characters": (800,),
        "Offload.least_saved_tokens": (29_999,),
        "WeightedCharacters.other_tokens": (1.5,),
    },
    # goose 006bd233
    "goose": {**UNRESERVED, "LastMessages.count": (0,), "WithoutResults.shares": (0.1, 0.2, 0.5, 1.0)},
    "inspect-edit": UNRESERVED,
    "inspect-summary": {**UNRESERVED, "LastMessages.count": (0,), "Middle.head_messages": (2,)},
    # Inspect AI 0.3.285: the first pass and up to three more
    "inspect-trim": {**UNRESERVED, "LastShare.excluded_messages": (2,), "Middle.head_messages": (2,), "Repeat.max_passes": (4,)},
    "langchain-summary": {**UNRESERVED, "WithoutMiddle.head_share": (0.25,), "WithoutMiddle.share": (0.5,)},
    # Letta 56ba9c25
    "letta": {**UNRESERVED, "LastMessages.count": (0,), "UpToShare.goal_share": (0.7,)},
    # S4.1: the cap beside the system message
    "message-window": {"LastMessages.count": (99,), "Middle.head_messages": (2,), "MoreThan.count": (101,)},
    # opencode 975d7312: characters / 4
    "opencode@v1": {"JsonCharacters.characters_of_token": (4,)},
    "opencode@v2": {"JsonCharacters.characters_of_token": (4,)},
    # openhands-sdk 1.58.0: half of the tokens, of the events, and 0.8 of the length at each reset
    "openhands": {
        **UNRESERVED,
        "LastBelowThreshold.share": (0.5,),
        "LastEvents.count": (-5, 35),
        "LastEvents.share": (0.5,),
        "LastMessages.count": (0,),
        "ShareOfAvailable.share": (1.0,),
        "ShorterEvents.share": (0.8,),
    },
    # OpenHands V0 156d0686: half of the view after a refused prompt
    "openhands-v0": {"LastEvents.count": (-1, 55), "LastEvents.share": (0.5,), "Middle.head_messages": (2,)},
    "pydantic-summary": UNRESERVED,
    "ratio": UNRESERVED,
    # everything that must go after an overflow
    "reserve-recent": {"LastMessages.count": (0,)},
    "roo-code": {**UNRESERVED, "LastMessages.count": (0,)},
    # Roo Code cb836567: all but the first message
    "roo-sliding": {"ForgetHalf.excluded_messages": (1,), "ForgetHalf.keep_first": (1,)},
    "seed-gemini": UNRESERVED,
    "seed-opencode": UNRESERVED,
}


ABOVE: Choices = {"Full.above": (True,)}
"""Constants of a trigger that must be exceeded."""
SINCE: Choices = {"Full.measure": ("reported-and-since",)}
"""Constants of a trigger by the last report and an estimate of later messages."""
REPORTED: Choices = {"Full.measure": ("reported",)}
"""Constants of a trigger by the last report."""
FITTED: Choices = {"SummaryProcedure.fits_window": (True,)}
"""Constants of a prompt for a summarizer that is shortened to the summarizer's window."""
REFUSED: Choices = {"Rule.hook": ("overflow",)}
"""Constants of a rule for a refused prompt."""
RETOLD: Choices = {"Summarize.former": ("among",)}
"""Constants of a summary that treats a former summary as one of the messages."""
BY_ASSISTANT: Choices = {"Summarize.role": ("assistant",)}

CHOICES: dict[str, Choices] = {
    # Anthropic SDK 009b0353 and LangChain 1.4.7: on a copy of what was said, for every request
    "anthropic-clear-tool-uses": {
        **ABOVE,
        "Full.measure": ("unedited",),
        "Mask.exempt_count": (True,),
        "Rule.quiet": (True,),
    },
    # Cline 21cb8d25: file lists go on; an empty summary is skipped; an overflow is for the basic strategy
    "cline": {**REFUSED, "Brief.files": (True,), "SummaryProcedure.skips_empty": (True,)},
    "cline-basic": REFUSED,
    "cline-classic": {**REPORTED, "ForgetHalf.place": ("in-answer",)},
    # Codex 6ad6d5c9: the session itself and one more message; `no summary available`
    "claude-code": {**SINCE, **REFUSED, "Brief.layout": ("session",), "Summarize.former": ("among",)},
    "strands-summary": {**SINCE, **REFUSED, "Brief.layout": ("session",), "Summarize.former": ("among",)},
    "strands-window": {"Rule.hook": ("overflow", "turn")},
    "adaptive-headroom": REFUSED,
    "copilot-inline": {**SINCE, **REFUSED, **RETOLD, "Brief.layout": ("session",)},
    "frozen-ranked": {**SINCE, **REFUSED},
    "handoff": {**SINCE, **REFUSED, **RETOLD},
    "hermes-lean": {**SINCE, **REFUSED},
    "kimi": {**SINCE, **REFUSED, "Brief.layout": ("session",)},
    "maf-anchored": {**REFUSED, "Rule.quiet": (True,)},
    "openai-agents": {**SINCE, **REFUSED, **RETOLD, "Brief.layout": ("session",)},
    "openai-trimmer": {"Rule.quiet": (True,)},
    "verbatim-lines": {**SINCE, **REFUSED, **RETOLD},
    "codex@2025": {**SINCE, "Brief.layout": ("session",)},
    "codex@2026": {**SINCE, "Brief.layout": ("session",), "SummaryProcedure.shorter_for": ("failed",)},
    # SWE-agent 3ea751c0 and The Complexity Trap: before every model call
    "complexity-trap-mask": {"Rule.quiet": (True,)},
    "complexity-trap-summary": {"SummarizeOldestTurns.latest_only": (False,)},
    # crush 37f36e93
    "crush": {**REPORTED, **RETOLD, "Brief.layout": ("session",), "WithClosingMessage.when": ("interrupted",)},
    # deepagents 0.7.32: the arguments of calls that write files, before every request
    "deepagents": {
        **REFUSED,
        **RETOLD,
        "CharactersAndOverhead.with_system": (True,),
        "Full.measure": ("reported", "rescaled", "unedited"),
        "Rule.quiet": (True,),
        "ShortenArguments.tools": ("edit_file", "write_file"),
    },
    # dexto ea2b1863: names of the called tools only
    "dexto": {**ABOVE, **SINCE, "CapTexts.hides_arguments": (True,), "Rule.quiet": (True,)},
    # Gemini CLI 5411f113
    "gemini-cli": {
        **RETOLD,
        "Brief.drops": ("scratchpad",),
        "Full.measure": ("prompt",),
        "Message.role": ("assistant",),
    },
    # Gemini CLI 25137857: as if nothing had been due where there is too little
    "gemini-masking": {"Rule.quiet": (True,)},
    # goose 006bd233: the transcript is in the system prompt
    "goose": {
        **ABOVE,
        **REPORTED,
        **RETOLD,
        "Brief.files": (True,),
        "Brief.layout": ("system",),
        "Message.role": ("assistant",),
        "Rule.hook": ("overflow", "turn"),
    },
    # Inspect AI 0.3.285
    "inspect-edit": {**ABOVE, **SINCE, **REFUSED},
    "inspect-summary": {**ABOVE, **SINCE, **REFUSED, **RETOLD, "Sections.with_task": (True,)},
    "inspect-trim": {**ABOVE, **SINCE, **REFUSED, "Snap.direction": ("forward",)},
    # S0.5
    "drop-all": REFUSED,
    "keep-last": {**BY_ASSISTANT, **REFUSED, **FITTED},
    # LangChain 1.4.7
    "langchain-clear-tool-uses": {**ABOVE, "Full.measure": ("unedited",), "Mask.exempt_count": (True,), "Rule.quiet": (True,)},
    "langchain-summary": {**RETOLD, "Full.measure": ("reported", "rescaled")},
    # Letta 56ba9c25
    "letta": {**ABOVE, **REPORTED, **REFUSED, **RETOLD},
    # S4.1
    "message-window": {**REFUSED, "Forget.keep_summaries": (True,), "Middle.shrinks_head": (True,), "Rule.quiet": (True,)},
    # opencode 975d7312: question of the user, answer of the assistant
    "opencode@v2": {**SINCE, **REFUSED},
    "opencode@v1": {**REPORTED, **REFUSED, **BY_ASSISTANT, "Message.role": ("user",)},
    "opencode-prune": {
        "Mask.completed_only": (True,),
        "Mask.stop_at_summary": (True,),
        "Rule.hook": ("turn",),
        "Rule.quiet": (True,),
    },
    # OpenHands SDK 1.58.0: the strictest reason, both ends snapped forward; an empty summary is taken
    "openhands": {
        **ABOVE,
        **REFUSED,
        **RETOLD,
        "EventList.instructs_in_system": (True,),
        "SummaryProcedure.shorter_for": ("failed",),
        "MoreThan.unit": ("events",),
        "Snap.direction": ("forward",),
        "Summarize.in_events": (True,),
    },
    # OpenHands V0 156d0686: half of a text from its head, half from its tail
    "openhands-v0": {
        **REFUSED,
        "EventList.middle_out": (True,),
        "EventList.with_arguments": (True,),
        "MoreThan.unit": ("events",),
        "Snap.direction": ("forward",),
    },
    # as S0.5
    "oracle": REFUSED,
    "paced": {**BY_ASSISTANT, **REFUSED, **FITTED},
    "random": REFUSED,
    # pi 83378aad
    "pi": {**ABOVE, **SINCE, **REFUSED, "Brief.files": (True,)},
    # pydantic-ai-harness 0.62.0
    "pydantic-clear": {**ABOVE, **SINCE, "Mask.exempt_count": (True,)},
    "pydantic-summary": {
        **ABOVE,
        **SINCE,
        "SummarizeExceptRequest.keep_request": (True,),
        "SummarizeExceptRequest.only_news": (False,),
        "SummarizeExceptRequest.updates": (True,),
    },
    "pydantic-window": {**ABOVE, **SINCE, "ForgetExceptRequest.keep_request": (True,)},
    # S1.6
    "ratio": {**REFUSED, **FITTED, "Summarize.role": ("system",)},
    # S2.1, S2.4
    "reserve-recent": {**ABOVE, **REFUSED, **FITTED, "Checkpoint.part_of_turn": (True,)},
    # Roo Code cb836567
    "roo-code": {
        **SINCE,
        **REFUSED,
        **RETOLD,
        "Brief.drops": ("analysis",),
        "ForgetHalf.place": ("behind",),
        "FullBy.measure": ("reported-and-since",),
        "Rule.on_request": (False,),
    },
    "roo-sliding": {**SINCE, **REFUSED, "ForgetHalf.place": ("behind",)},
    # S1.7
    "seed-gemini": {"LastShare.unit": ("characters",), "Snap.direction": ("forward",)},
    "seed-opencode": {"Full.measure": ("prompt",), "Mask.stop_at_summary": (True,), "Summarize.role": ("system",)},
    # SWE-agent 3ea751c0 and The Complexity Trap
    "swe-agent": {"Rule.quiet": (True,)},
    # S3.2, S3.3, S3.8
    "three-tiers": {
        **ABOVE,
        **FITTED,
        **REFUSED,
        **RETOLD,
        **BY_ASSISTANT,
        "Mask.completed_only": (True,),
        "Mask.exempt_tools": ("explore",),
        "Mask.stop_at_summary": (True,),
        "Message.role": ("user",),
        "Rule.quiet": (True,),
    },
}


@pytest.mark.parametrize("kind", PRESETS)
def test_the_constants_of_a_preset_are_those_of_its_source(kind: str) -> None:
    assert constants(kind, number) == CONSTANTS.get(kind, {})


@pytest.mark.parametrize("kind", PRESETS)
def test_the_choices_of_a_preset_are_those_of_its_source(kind: str) -> None:
    assert constants(kind, choice) == CHOICES.get(kind, {})


SHARED: dict[str, float] = {
    # two attempts without effect, then a pause until the view has grown by a tenth
    "compactor.FRUITLESS_IN_A_ROW": 2,
    "compactor.GROWTH_BEFORE_NEXT": 1.1,
    # how much of an invalid answer of a function an error shows
    "function_policy._SHOWN_CHARACTERS": 80,
    # where a cut stays as it is unless a preset says otherwise
    "presets.openhands.LastEvents.share": 0,
    "presets.langchain.LastOfWindow.least_messages": 1,
    "cuts.LastShare.excluded_messages": 0,
    "cuts.LastTokens.least_messages": 0,
    # dexto ea2b1863: dexto's list for a summary that did not come
    "presets.dexto.RequestsAndTools.request_characters": 100,
    "presets.dexto.RequestsAndTools.requests": 3,
    "presets.dexto.RequestsAndTools.task_characters": 500,
    # S0.6
    "summary_formats.SixSections.max_tokens": 800,
    # Cline 21cb8d25: what cline's basic digest shows of a command and of a text
    "presets.cline.COMMAND_CHARACTERS": 100,
    "presets.cline.SAID_CHARACTERS": 500,
    # ours: no stub of an observation is longer, no pointer to what was offloaded
    "presets.swe_agent.MAX_STUB_CHARACTERS": 60,
    "presets.gemini.Offload.preview_characters": 0,
    "presets.gemini.POINTER_CHARACTERS": 300,
    # Cline 21cb8d25
    "presets.cline.NOTICE_TEXTS": 3,
    "presets.cline.DEFAULT_INPUT_TOKENS": 128_000,
    # Inspect AI 0.3.285: its default window, the messages of its input, and passes of its trimming
    "presets.inspect_ai.DEFAULT_WINDOW_TOKENS": 128_000,
    "presets.inspect_ai.INPUT_MESSAGES": 2,
    "presets.inspect_ai.MAX_PASSES": 4,
    # pydantic-ai-harness 0.62.0
    "presets.pydantic_ai.DEFAULT_WINDOW_TOKENS": 200_000,
    # LangChain 1.4.7
    "presets.langchain.CharactersAndOverhead.characters_per_token": 4,
    "presets.langchain.CharactersAndOverhead.image_tokens": 85,
    "presets.langchain.CharactersAndOverhead.overhead_tokens": 3,
    # OpenHands V0 156d0686: what OpenHands does with a prompt that is too long for its summarizer
    "presets.openhands.RESET_ATTEMPTS": 5,
    "presets.openhands.RESET_SHARE": 0.8,
    # S4.4, S4.6
    "presets.window.WARNING_SHARE": 0.8,
    "presets.window.SUMMARY_EVERY_MESSAGES": 10,
    # ours: no receipt counts as more to the clairvoyant bound
    "presets.bounds.RECEIPT_CHARACTERS": 100,
    "scaling.FittedPolicy.scale": 1,
    # a mask protects and asks nothing unless a preset says so; a middle begins behind the request
    "stages.Mask.enough_tokens": 0,
    "stages.Mask.keep_results": 0,
    "stages.Mask.keep_steps": 0,
    "stages.Mask.keep_tokens": 0,
    "stages.Mask.keep_turns": 0,
    "stages.Mask.least_characters": 0,
    "stages.Mask.least_saved_tokens": 0,
    "stages.Middle.head_events": 0,
    "stages.Middle.head_messages": 1,
    "stages.Summarize.least_share": 0,
    # this project: conditions; the lifetime is that of Anthropic's cache, the ceilings and shares are choices of this project
    "conditions.AtBoundary.ceiling": 0.9,
    "conditions.Background.start": 0.8,
    "conditions.CumulativeWork.work_tokens": 2_000_000,
    "conditions.IdleCold.ceiling": 0.9,
    "conditions.IdleCold.lifetime_seconds": 300.0,
    # LangChain: a provider's report corrects its count by a quarter at most
    "triggers.MAX_RESCALE_FACTOR": 1.25,
    # this project: the limits of a compaction after a refused prompt
    "overflow.FORCED_SHARE": 0.5,
    "overflow.USUAL_SHARE": 0.75,
    "pipeline.LEAST_SAVED_SHARE": 0.05,
    # a warning of this project, no behaviour of a policy
    "policy_checks.MAX_RESERVED_SHARE": 0.5,
    # this project: steps over which growth is measured, length of an identifier; characters for each token as in the counter
    "presets.adaptive_headroom.GROWTH_STEPS": 30,
    "presets.hermes.MAX_IDENTIFIER_CHARACTERS": 120,
    "presets.kimi.CHARACTERS_OF_TOKEN": 4,
    "presets.maf.CHARACTERS_OF_TOKEN": 4,
    "presets.openai_agents.CHARACTERS_OF_TOKEN": 4,
    # documentation of Claude Code, 2026-10-19; characters for each token as in the counter
    "reinjection.CHARACTERS_OF_TOKEN": 4,
    "reinjection.ReInject.file_tokens": 5_000,
    "reinjection.ReInject.files_tokens": 25_000,
    "reinjection.ReInject.most_files": 5,
    "reinjection.ReInject.result_tokens": 5_000,
    "reinjection.ReInject.results_tokens": 25_000,
    # S0.4
    "triggers.Reserves.output_tokens": 4_000,
    "triggers.Reserves.safety_tokens": 5_000,
    "triggers.Reserves.system_tokens": 2_000,
    "triggers.UsableInput.input_reserve_tokens": 0,
}
"""Constants that several presets share: constants of modules, and defaults of stages."""


def shared() -> Iterator[tuple[str, object]]:
    names = [info.name for info in pkgutil.walk_packages(compaction.__path__, f"{compaction.__name__}.")]
    for module_name in [*names, compactor.__name__]:
        module = importlib.import_module(module_name)
        place = module_name.removeprefix(f"{compaction.__name__}.").removeprefix("harness.session.")
        for name in assigned(inspect.getsource(module)):
            yield f"{place}.{name}", getattr(module, name)
        for name, kind in vars(module).items():
            own = inspect.isclass(kind) and kind.__module__ == module_name and is_dataclass(kind)
            if own and not issubclass(kind, Preset):
                declared = (field for field in fields(kind) if field.name in inspect.get_annotations(kind))
                yield from ((f"{place}.{name}.{field.name}", field.default) for field in declared)


def assigned(source: str) -> set[str]:
    """Return the names that a module assigns."""
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign))
    targets = (target for node in nodes for target in (node.targets if isinstance(node, ast.Assign) else [node.target]))
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def test_the_numbers_that_presets_share_are_those_of_their_sources() -> None:
    assert {name: value for name, value in shared() if number(value)} == SHARED
