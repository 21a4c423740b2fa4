"""Defaults of every preset, copied from their sources and not from the code, so that a change of a policy fails a test.

A row is a kind of policy. `SHARED` holds the fields of all presets: `clip_characters` (S0.9) and the choice of a summarizer.
"""

from dataclasses import MISSING, fields

import pytest

from harness.compaction.presets.cline import SizeTarget
from harness.conversation.tokens import Window
from harness.conversation.view import View
from harness.policies import PRESETS

SHARED: dict[str, object] = {"clip_characters": 10_000, "summarizer": "same", "when": ()} | {
    "preserve": (),
    "preserve_tokens": 20_000,
    "focus": "",
}

CALIBRATED: dict[str, object] = {"measure": "calibrated", "least_saved_share": 0.05}
"""Way in which the policies of this project count tokens (S0.3, S3.4)."""

KEEP_LAST: dict[str, object] = {
    **CALIBRATED,
    "threshold": 0.8,
    "trigger_tokens": None,
    "system_reserve_tokens": 2_000,
    "output_reserve_tokens": 4_000,
    "safety_reserve_tokens": 5_000,
    "context_window": None,
}
"""Trigger and budget rule of `keep-last` and of the bounds (S0.4)."""

DEFAULTS: dict[str, dict[str, object]] = {
    "drop-all": KEEP_LAST,
    # S0.5, S0.6
    "keep-last": {**KEEP_LAST, "keep_last": 10, "summary_max_tokens": 800, "summarizer_input_tokens": None},
    # inspect-ai 0.3.285
    "inspect-edit": {
        "threshold": 0.9,
        "context_window": None,
        "keep_results": 3,
        "exempt_tools": (),
        "stub": "(Tool result removed)",
    },
    "inspect-summary": {"threshold": 0.9, "context_window": None, "summary_max_tokens": 4_096},
    "inspect-trim": {"threshold": 0.9, "context_window": None, "preserve": 0.8},
    # anthropic-sdk-python 009b0353; Anthropic SDK 009b0353
    "anthropic-clear-tool-uses": {
        "trigger_tokens": 100_000,
        "keep_results": 3,
        "least_saved_tokens": 0,
        "clear_arguments": False,
        "exempt_tools": (),
        "stub": "[cleared]",
    },
    # deepagents 0.7.32, `compute_summarization_defaults`
    "deepagents": {
        "threshold": 0.85,
        "keep_share": 0.1,
        "argument_characters": 2_000,
        "short_characters": 20,
        "summary_max_tokens": 4_096,
    },
    # LangChain 1.4.7
    "langchain-clear-tool-uses": {
        "trigger_tokens": 100_000,
        "keep_results": 3,
        "enough_tokens": 0,
        "clear_arguments": False,
        "exempt_tools": (),
        "stub": "[cleared]",
    },
    "langchain-summary": {
        "trigger_share": 0.8,
        "trigger_tokens": None,
        "trigger_messages": None,
        "keep_messages": 20,
        "keep_tokens": None,
        "keep_share": None,
        "trim_tokens": 4_000,
        "summary_max_tokens": 4_096,
    },
    # openhands-sdk 1.58.0 (`default_condenser`), OpenHands V0 at 156d0686
    "openhands": {
        "max_size": 80,
        "max_tokens": None,
        "keep_first": 4,
        "minimum_progress": 0.1,
        "event_characters": 500,
        "full_events": False,
        "summary_max_tokens": 4_096,
    },
    "openhands-v0": {"max_size": 120, "keep_first": 4, "event_characters": 10_000, "summary_max_tokens": 4_096},
    # S4.1, S4.3, S4.5
    "message-window": {
        **CALIBRATED,
        "max_messages": 100,
        "preserve_first_n": 1,
        "preserve_last_n": 20,
        "summarize_on_trim": False,
        "summary_max_tokens": 1_024,
        "least_saved_share": 0.0,
    },
    # Strands Agents 1.62.0
    "strands-summary": {"threshold": 0.7, "summary_share": 0.3, "keep_messages": 10, "summary_max_tokens": 4_096},
    # SWE-agent 3ea751c0 and The Complexity Trap
    "mini-swe-agent": {},
    "none": {},
    "oracle": {**KEEP_LAST, "keep_share": 0.5},
    "random": {**KEEP_LAST, "keep_share": 0.5, "seed": 0},
    # S1.6
    "ratio": {**CALIBRATED, "threshold": 0.8, "keep_share": 0.3, "summary_max_tokens": 1_000},
    # S2.1, S2.2
    "reserve-recent": {
        **CALIBRATED,
        "enabled": True,
        "context_window": None,
        "reserve_tokens": 16_384,
        "keep_recent_tokens": 20_000,
        "summary_max_tokens": 13_107,
    },
    # S1.7
    "seed-gemini": {"threshold": 0.5, "keep_share": 0.3, "summary_max_tokens": 1_000},
    "seed-opencode": {"threshold": 0.8, "protect_tokens": 40_000, "keep_share": 0.3, "summary_max_tokens": 1_000},
    # S3.1 to S3.3, S3.15
    "three-tiers": {
        **CALIBRATED,
        "truncate": True,
        "truncate_lines": 2_000,
        "truncate_bytes": 50 * 1024,
        "truncate_keep": "head",
        "prune": True,
        "prune_at": "turn",
        "protect_tokens": 40_000,
        "prune_minimum_tokens": 20_000,
        "protect_turns": 2,
        "preserve": ("skill_execution", "subtask_invocation"),
        "preserve_failures": False,
        "preserve_requested": False,
        "preserve_steps": 0,
        "preserve_explorations": True,
        "auto": True,
        "max_output_tokens": 32_000,
        "input_limit_tokens": None,
        "auto_continue": True,
        "lazy": False,
        "differential": False,
        "agent": "coding",
        "summary_max_tokens": 2_000,
    },
    # Cline 21cb8d25, and 01cfde0d before its SDK
    "cline": {
        "threshold": 0.9,
        "input_share": 0.9,
        "target_share": 0.7,
        "long_target_share": 0.5,
        "long_answers": 5,
        "keep_recent_tokens": 20_000,
        "result_characters": 2_000,
        "summary_max_tokens": 4_096,
    },
    "cline-basic": {
        "threshold": 0.9,
        "input_share": 0.9,
        "target_share": 0.7,
        "long_target_share": 0.5,
        "long_answers": 5,
    },
    "cline-classic": {"enough_share": 0.3, "half_share": 0.5, "spare_tokens": 40_000, "spare_share": 0.8},
    # documentation of Claude Code, 2026-10-19
    # pull request 102 of yoagent: 30 turns, ratio 0.7 at most and 0.15 at least; trigger and first messages are ours
    "adaptive-headroom": {
        "threshold": 0.9,
        "headroom_steps": 30,
        "most_share": 0.7,
        "least_share": 0.15,
        "keep_first": 2,
    },
    # pull request 4956 of vscode-copilot-chat
    "copilot-inline": {"threshold": 0.85, "summary_max_tokens": 4_096},
    # lost-in-compaction 08bfd88e: watermarks, 6 messages, half of the target
    "frozen-ranked": {
        "threshold": 0.9,
        "target_share": 0.6,
        "summary_share": 0.5,
        "keep_messages": 6,
        "summary_max_tokens": 4_096,
    },
    # ours
    "handoff": {"threshold": 0.8, "summary_max_tokens": 4_096},
    # the scorecard of 2026-09-19 of hermes-agent, and notes on its parameters
    "hermes-lean": {
        "threshold": 0.75,
        "tail_tokens": 10_000,
        "tail_share": 0.025,
        "most_tail_tokens": 25_000,
        "summary_share": 0.2,
        "least_summary_tokens": 2_000,
        "summary_max_tokens": 10_000,
        "input_characters": 160_000,
        "most_identifiers": 200,
    },
    # kimi-code d723cc47, `strategy.ts` and `handoff.ts`
    "kimi": {
        "threshold": 0.85,
        "reserve_tokens": 50_000,
        "keep_user_tokens": 20_000,
        "keep_head_tokens": 2_000,
        "summary_max_tokens": 4_096,
    },
    # maf-compaction 0.9.0; the ceiling is a parameter without a default there
    "maf-anchored": {
        "threshold": 0.8,
        "head_groups": 3,
        "tail_groups": 4,
        "band_share": 0.25,
        "min_gain_share": 0.23,
    },
    # openai-agents-python 7f7a44f8: dynamic policy
    "openai-agents": {"threshold": 0.9, "trigger_tokens": None, "summary_max_tokens": 4_096},
    # openai-agents-python 204b71a7
    "openai-trimmer": {"recent_turns": 2, "max_characters": 500, "preview_characters": 200, "trimmed_tools": ()},
    # sdk-python 0cd91bb2
    "strands-window": {"window_messages": 40, "keep_characters": 200, "every_step": False},
    # ours; the pull request names no numbers
    "verbatim-lines": {"threshold": 0.8, "keep_last": 10, "delete_share": 0.6, "summary_max_tokens": 4_096},
    "claude-code": {
        "threshold": 0.835,
        "most_files": 5,
        "file_tokens": 5_000,
        "files_tokens": 25_000,
        "skill_tools": ("skill",),
        "skill_tokens": 5_000,
        "skills_tokens": 25_000,
        "idle_minutes": None,
        "keep_idle_results": 5,
        "summary_max_tokens": 4_096,
    },
    # Codex 6ad6d5c9; the length of a summary is ours where the source sets none, there and below
    "codex@2025": {"threshold": 0.9, "compact_at_tokens": None, "keep_user_tokens": 20_000, "summary_max_tokens": 4_096},
    # openai/codex 009bd870, `compact_remote_v2.rs`
    "codex@2026": {
        "threshold": 0.9,
        "compact_at_tokens": None,
        "keep_user_tokens": 64_000,
        "retries": 2,
        "summary_max_tokens": 4_096,
    },
    # SWE-agent 3ea751c0 and The Complexity Trap
    "complexity-trap-mask": {"keep_results": 10, "polling": 1},
    "complexity-trap-summary": {
        "turns": 21,
        "keep_turns": 10,
        "latest_only": False,
        "mask_results": None,
        "summary_max_tokens": 4_096,
    },
    # crush 37f36e93
    "crush": {"left_share": 0.2, "left_tokens": 20_000, "large_window_tokens": 200_000, "summary_max_tokens": 4_096},
    # dexto ea2b1863
    "dexto": {
        "threshold": 0.9,
        "window_cap_tokens": None,
        "protect_tokens": 40_000,
        "least_saved_tokens": 20_000,
        "keep_turns": 2,
        "keep_share": 0.2,
        "keep_least_messages": 3,
        "least_messages": 5,
        "text_characters": 2_000,
        "result_characters": 500,
        "summary_max_tokens": 2_000,
    },
    # Gemini CLI 5411f113
    "gemini-cli": {
        "adapted": False,
        "threshold": 0.5,
        "keep_share": 0.3,
        "protect_tokens": 50_000,
        "result_characters": 40_000,
        "summary_max_tokens": 4_096,
    },
    # Gemini CLI 25137857
    "gemini-masking": {
        "protect_tokens": 50_000,
        "prune_minimum_tokens": 30_000,
        "preview_characters": 250,
        "exempt_tools": (),
    },
    # goose 006bd233
    "goose": {"adapted": False, "threshold": 0.8, "summary_max_tokens": 4_096},
    # Letta 56ba9c25
    "letta": {
        "threshold": 0.9,
        "sliding_share": 0.3,
        "step_share": 0.1,
        "summary_clip_characters": 50_000,
        "result_characters": 2_000,
        "summary_max_tokens": 4_096,
    },
    # opencode 975d7312
    # anomalyco/opencode 031a4a9c
    "opencode@v2": {
        "max_output_tokens": 32_000,
        "buffer_tokens": 20_000,
        "input_limit_tokens": None,
        "keep_tokens": 15_000,
        "result_characters": 2_000,
        "summary_max_tokens": 4_096,
    },
    "opencode@v1": {
        "max_output_tokens": 32_000,
        "input_limit_tokens": None,
        "input_reserve_tokens": 20_000,
        "tail_turns": 2,
        "tail_share": 0.25,
        "tail_least_tokens": 2_000,
        "tail_most_tokens": 8_000,
        "result_characters": 2_000,
        "summary_max_tokens": 4_096,
    },
    "opencode-prune": {
        "adapted": False,
        "protect_tokens": 40_000,
        "least_saved_tokens": 20_000,
        "keep_turns": 2,
        "exempt_tools": ("skill",),
    },
    # ours; summary and cut as in S0.5
    "paced": {
        **CALIBRATED,
        "every_steps": 20,
        "threshold": None,
        "summarize": True,
        "keep_request": False,
        "pins": (),
        "keep_last": 10,
        "summary_max_tokens": 800,
    },
    # pi 83378aad
    "pi": {
        "enabled": True,
        "fixed": True,
        "reserve_tokens": 16_384,
        "keep_recent_tokens": 20_000,
        "summary_max_tokens": 13_107,
        "turn_summary_max_tokens": 8_192,
        "result_characters": 2_000,
    },
    # pydantic-ai-harness 0.62.0; the triggers are those of its documentation
    "pydantic-clear": {
        "trigger_share": None,
        "trigger_tokens": 100_000,
        "trigger_messages": None,
        "keep_results": 3,
        "least_saved_tokens": None,
        "clear_arguments": False,
        "exempt_tools": (),
        "stub": "[tool result cleared]",
    },
    "pydantic-summary": {
        "trigger_share": 0.9,
        "trigger_tokens": None,
        "trigger_messages": None,
        "keep_messages": 20,
        "keep_tokens": None,
        "keep_request": True,
        "incremental": True,
        "result_characters": 500,
        "summary_max_tokens": 4_096,
    },
    "pydantic-window": {
        "trigger_share": None,
        "trigger_tokens": None,
        "trigger_messages": 80,
        "keep_messages": 40,
        "keep_tokens": None,
        "keep_request": True,
    },
    # Roo Code cb836567
    "roo-code": {
        "max_output_tokens": 8_192,
        "hard_share": 0.9,
        "drop_share": 0.5,
        "condense_share": 1.0,
        "least_messages": 2,
        "summary_max_tokens": 4_096,
    },
    "roo-sliding": {"max_output_tokens": 8_192, "hard_share": 0.9, "drop_share": 0.5},
    # SWE-agent 3ea751c0 and The Complexity Trap
    "swe-agent": {"keep_results": 5, "polling": 1},
}


def defaults_of(kind: str) -> dict[str, object]:
    values = {field.name: field.default for field in fields(PRESETS[kind]) if field.name != "kind"}
    assert MISSING not in values.values(), "every field of a preset has a default"
    return values


@pytest.mark.parametrize("kind", PRESETS)
def test_the_defaults_of_a_preset_are_those_of_its_source(kind: str) -> None:
    values = defaults_of(kind)
    expected = {name: value for name, value in SHARED.items() if name in values} | DEFAULTS[kind]
    assert values == expected


UNKNOWN = Window(tokens=0, source="unknown")


@pytest.mark.parametrize(
    ("kind", "fields_set", "threshold_tokens"),
    [
        ("cline", {}, 115_200),
        ("cline-basic", {}, 115_200),
        ("cline", {"input_share": 1.0}, 115_200),
        ("inspect-edit", {}, 115_200),
        ("inspect-summary", {"threshold": 0.5}, 64_000),
        ("inspect-trim", {}, 115_200),
        ("inspect-trim", {"context_window": 10_000}, 9_000),
        ("pydantic-summary", {}, 180_000),
        ("pydantic-window", {}, None),
        ("pydantic-window", {"trigger_share": 0.5}, 100_000),
        ("pydantic-clear", {}, 100_000),
    ],
)
def test_for_an_unknown_window_a_policy_assumes_what_its_original_assumes(kind, fields_set, threshold_tokens):
    """Cline: an input of 128,000 tokens; Inspect: a window of 128,000; pydantic-ai-harness: a window of 200,000."""
    policy = PRESETS[kind](**fields_set)
    assert policy.budget(UNKNOWN).threshold_tokens == threshold_tokens
    known = policy.budget(Window(tokens=1_000_000, source="registry"))
    assert "context_window" in fields_set or known.window_tokens == 1_000_000


def test_the_target_of_cline_follows_the_assumed_input():
    policy = PRESETS["cline"]()
    target = SizeTarget(input_share=policy.input_share, trigger_share=0.7, long_share=0.5, long_answers=0)
    assert target.compute_tokens(View(), policy.budget(UNKNOWN)) == 64_000
