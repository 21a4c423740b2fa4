"""Formatting of numbers and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.formatting import describe_agent, describe_what_ran, format_label, format_short_number, format_usd


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (12.5, "12.5"), (900, "900"), (1234, "1.23k"), (32768, "32.8k"), (2.5e6, "2.5M")]
)
def test_counts_are_short(value, text):
    assert format_short_number(value) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0.00"), (1.234, "1.23"), (0.00012, "0.00012"), (float("nan"), "?")])
def test_dollars_are_never_rounded_to_nothing(amount, text):
    assert format_usd(amount) == text


@pytest.mark.parametrize(
    ("level", "model", "words"),
    [
        ("L0", "scripted", "a simulated agent and a simulated summarizer (level L0)"),
        ("L0", "", "a simulated agent and a simulated summarizer (level L0)"),
        (
            *("L1", "scripted:typical"),
            "a simulated agent that overlooks some visible facts (scripted:typical) and a real summarizer (level L1)",
        ),
        ("L3", "openai/gpt-5", "the real model openai/gpt-5 (level L3)"),
        ("L3", "a/b, c/d", "agents of several models (a/b, c/d) (level L3)"),
    ],
)
def test_what_ran_is_said_in_words_with_the_names_in_parentheses(level, model, words):
    assert describe_what_ran(level, model) == words


def test_the_options_of_a_simulated_agent_are_said_too():
    assert describe_agent("scripted+notes") == "a simulated agent that writes notes (scripted+notes)"
    assert describe_agent("scripted:overlooks-0.3+tolerant") == (
        "a simulated agent that overlooks visible facts with a probability of its own and also finds facts in other words "
        "(scripted:overlooks-0.3+tolerant)"
    )


@given(st.text())
def test_no_name_can_steer_a_terminal(text):
    assert format_label(text, 20).isprintable()
    assert len(format_label(text, 20)) <= 20
