"""Texts of messages: counts with their nouns, and names that a user may write in place of those of this project."""

import pytest

from harness.errors import OTHER_NAMES, UnknownName, format_count
from harness.experiment.trial import Trial, from_plain
from harness.policies import PRESETS, policy_from_plain


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (2, "step", "2 steps"),
        (1200, "message", "1,200 messages"),
        (1, "entry", "1 entry"),
        (3, "entry", "3 entries"),
    ],
)
def test_counts_have_the_right_singular_or_plural(count, noun, text):
    assert format_count(count, noun) == text


NAMES_OF_DESIGNS = {
    "trial": {
        "max_conversation_messages": "'message-window' has the field 'max_messages'",
        "conversation": "did you mean 'policy'?",
        "compaction": "did you mean 'policy'?",
        "maxSteps": "did you mean 'max_steps'?",
        "max_iterations": "did you mean 'max_steps'?",
        "MODEL_CONTEXT_LIMIT": "did you mean 'window_tokens'?",
        "context_window": "did you mean 'window_tokens'?",
        "threshold": "'keep-last' has the field 'threshold'",
        "enabled": "'reserve-recent' has the field 'enabled'",
    },
    "keep-last": {
        "keepLast": "did you mean 'keep_last'?",
        "SYSTEM_RESERVE": "did you mean 'system_reserve_tokens'?",
        "OUTPUT_RESERVE": "did you mean 'output_reserve_tokens'?",
        "SAFETY_BUFFER": "did you mean 'safety_reserve_tokens'?",
        "COMPACTION_THRESHOLD_PERCENT": "did you mean 'threshold'?",
        "summarization_model": "did you mean 'summarizer'?",
        "reserve_tokens": "'reserve-recent' has the field 'reserve_tokens'",
        "max_conversation_messages": "'message-window' has the field 'max_messages'",
    },
    "ratio": {"preserveRatio": "did you mean 'keep_share'?", "PRESERVE_RATIO": "did you mean 'keep_share'?"},
    "reserve-recent": {"keepRecentTokens": "did you mean 'keep_recent_tokens'?"},
    "three-tiers": {
        "PRUNE_PROTECT": "did you mean 'protect_tokens'?",
        "PRUNE_MINIMUM": "did you mean 'prune_minimum_tokens'?",
        "PROTECTED_TOOLS": "did you mean 'preserve'?",
        "PRESERVE_TOOL_OUTPUTS": "did you mean 'preserve'?",
        "compactionStrategy": "did you mean 'agent'?",
        "MAX_LINES": "did you mean 'truncate_lines'?",
        "MAX_BYTES": "did you mean 'truncate_bytes'?",
    },
    "message-window": {"max_conversation_messages": "did you mean 'max_messages'?"},
}
"""Answer to each setting of the designs that the policies follow, by the table of a plan in which a user writes the setting."""


@pytest.mark.parametrize(
    ("place", "name", "answer"),
    [(place, name, answer) for place, names in NAMES_OF_DESIGNS.items() for name, answer in names.items()],
)
def test_a_setting_of_a_design_is_answered_with_its_name_here(place, name, answer):
    trial = {"task": "flashcards", "policy": "none", name: 1}
    with pytest.raises(UnknownName) as refused:
        from_plain(trial) if place == "trial" else policy_from_plain({"kind": place, name: 1})
    assert answer in str(refused.value)


def test_every_field_that_answers_a_setting_exists():
    kinds = {name: set(preset.__dataclass_fields__) for name, preset in PRESETS.items()} | {None: set(Trial.__dataclass_fields__)}
    for field, owner in OTHER_NAMES.values():
        kind = owner.split("'")[1] if "'" in owner else None
        assert field in kinds[kind], owner
