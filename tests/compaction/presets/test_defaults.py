"""Every default of a preset, written down from its source and not from the code: whoever changes one changes a policy.

A row is a kind; fields of all presets that come from S0.9 (`clip_characters`) and the choice of a summarizer stand in `SHARED`.
"""

from dataclasses import MISSING, fields

import pytest

from harness.compaction.presets import PRESETS

SHARED: dict[str, object] = {"clip_characters": 10_000, "summarizer": "same"}

KEEP_LAST: dict[str, object] = {
    "threshold": 0.8,
    "system_reserve_tokens": 2_000,
    "output_reserve_tokens": 4_000,
    "safety_reserve_tokens": 5_000,
    "context_window": None,
}
"""S0.4: trigger and division of `keep-last` and of the bounds beside it."""

DEFAULTS: dict[str, dict[str, object]] = {
    "drop-all": KEEP_LAST,
    # S0.5, S0.6
    "keep-last": {**KEEP_LAST, "keep_last": 10, "summary_max_tokens": 800, "summarizer_input_tokens": None},
    # S4.1, S4.3, S4.5
    "message-window": {
        "max_messages": 100,
        "preserve_first_n": 1,
        "preserve_last_n": 20,
        "summarize_on_trim": False,
        "summary_max_tokens": 1_024,
    },
    "none": {},
    "oracle": {**KEEP_LAST, "keep_share": 0.5},
    "random": {**KEEP_LAST, "keep_share": 0.5, "seed": 0},
    # S1.6
    "ratio": {"threshold": 0.8, "keep_share": 0.3, "summary_max_tokens": 1_000},
    # S2.1, S2.2
    "reserve-recent": {
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
        "auto": True,
        "max_output_tokens": 32_000,
        "input_limit_tokens": None,
        "auto_continue": True,
        "lazy": False,
        "differential": False,
        "agent": "coding",
        "summary_max_tokens": 2_000,
    },
}


def defaults_of(kind: str) -> dict[str, object]:
    found = {field.name: field.default for field in fields(PRESETS[kind]) if field.name != "kind"}
    assert MISSING not in found.values(), "every field of a preset has a default"
    return found


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_defaults_of_a_preset_are_those_of_its_source(kind: str) -> None:
    found = defaults_of(kind)
    expected = {name: value for name, value in SHARED.items() if name in found} | DEFAULTS[kind]
    assert found == expected
