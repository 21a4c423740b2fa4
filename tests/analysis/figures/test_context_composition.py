"""Composition of the context: the tokens of all kinds add up to the view of a step."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from harness.analysis.figures import context_composition
from harness.analysis.figures.context_composition import KINDS
from harness.analysis.tables import Selection
from harness.errors import UsageError
from tests.analysis.selections import results


def message(step, role, tokens, left=None, origin="added", trial_id="t"):
    return {"trial_id": trial_id, "step": step, "role": role, "origin": origin, "tokens": tokens, "compacted_before_step": left}


@dataclass(frozen=True)
class Source:
    """Tables of results that have messages."""

    tables: Selection
    message_sizes: pd.DataFrame

    def __getattr__(self, name):
        return getattr(self.tables, name)


def make_selection(messages, trials, compactions=()):
    frame = pd.DataFrame(messages).astype({"compacted_before_step": "Int64"})
    return Source(results(trials, compactions=compactions), frame)


def test_a_message_is_in_view_from_the_next_step_up_to_the_compaction_that_removes_it():
    messages = [
        message(0, "system", 100),
        message(0, "user", 50),
        message(1, "assistant", 7, left=3),
        message(1, "tool", 200, left=3),
        message(3, "user", 30, origin="inserted"),
    ]
    table = context_composition.table(make_selection(messages, [{"trial_id": "t", "steps": 4}]))
    by_step = table.pivot_table(index="step", columns="kind", values="tokens")
    assert by_step["system"].tolist() == [100] * 4
    assert by_step["tool results"].tolist() == [0, 200, 0, 0]
    assert by_step["assistant"].tolist() == [0, 7, 0, 0]
    assert by_step["summaries"].tolist() == [0, 0, 30, 30]
    assert set(by_step) <= set(KINDS)


def test_one_long_session_does_not_stretch_the_chart():
    trials = [
        {"trial_id": name, "seed": seed, "steps": steps} for seed, (name, steps) in enumerate({"a": 2, "b": 2, "c": 90}.items())
    ]
    messages = [message(0, "user", 10, trial_id=name) for name in "abc"]
    table = context_composition.table(make_selection(messages, trials))
    assert table["step"].max() == 2
    assert set(table["tokens"]) == {10}


def test_a_saw_tooth_reaches_the_threshold_at_which_its_sessions_are_compacted():
    """Sessions are compacted at different steps, so that a mean over them would stay far below the threshold."""
    sessions = {"early": 4, "middle": 6, "late": 8}
    messages = [
        message(step, "tool", 500, left=at if step < at else None, trial_id=name)
        for name, at in sessions.items()
        for step in range(12)
    ]
    trials = [{"trial_id": name, "seed": seed, "steps": 11 + seed} for seed, name in enumerate(sessions)]
    peaks = {name: 500 * at for name, at in sessions.items()}
    drops = [
        {"trial_id": name, "step": at, "round": 1, "status": "applied", "tokens_before": peaks[name], "tokens_after": 0}
        for name, at in sessions.items()
    ]
    table = context_composition.table(make_selection(messages, trials, drops))
    assert set(table["trial_id"]) == {"middle"}
    before = table[table["moment"] == "before compaction"]
    assert before["step"].unique().tolist() == [6]
    assert before["tokens"].sum() == peaks["middle"]
    assert table["high"].max() > peaks["middle"]


def test_a_panel_shows_threshold_and_window():
    figure: Any = context_composition.draw(
        context_composition.table(make_selection([message(0, "user", 10)], [{"trial_id": "t", "steps": 3}]))
    )
    (ax,) = (ax for ax in figure.axes if ax.get_visible())
    limits = [line for line in ax.lines if line.get_transform() == ax.get_yaxis_transform()]
    assert {line.get_ydata()[0] for line in limits} == {17414, 32768}
    assert ax.get_xlabel() == "step (number)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["user", "threshold of the policy", "context window"]


def test_the_legend_leaves_out_a_threshold_that_no_panel_shows():
    trial = {"trial_id": "t", "steps": 3, "policy": "none", "threshold_tokens": None}
    figure: Any = context_composition.draw(context_composition.table(make_selection([message(0, "user", 10)], [trial])))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["user", "context window"]


def test_results_without_messages_have_no_composition():
    with pytest.raises(UsageError, match="no message of a valid trial"):
        context_composition.draw(context_composition.table(results([{}])))
