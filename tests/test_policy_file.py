"""A policy may be a function or a class in a Python file; each mistake of such a function is an error that names it."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.compaction.function_policy import FunctionBudget
from harness.conversation.codec import to_plain
from harness.errors import IllegalPlan, UnknownName, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm, Grid
from harness.experiment.trial import Trial, from_stored
from harness.inspection.timeline import find_counter
from harness.integrations import compact
from harness.policies import KeepLast, policy_from_plain, policy_from_stored, resolve_policy
from harness.reporting.experiment_report import report
from harness.testing import PolicyContract
from tests.integrations.test_compaction import FULL

SOURCE = '''
from dataclasses import dataclass
from harness.policies import KeepLast

def newest(messages, budget):
    """Keep the newest messages."""
    kept = messages[1:][-6:]
    while kept and kept[0]["role"] == "tool":
        kept = kept[1:]
    return [messages[0], *kept]

@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(KeepLast):
    keep_last: int = 3

one = 1
def lonely(messages):
    return messages
async def slow(messages, budget):
    return messages
class Loose:
    pass
@dataclass(frozen=True)
class Empty:
    pass
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def keep_newest(messages, budget):
    kept = messages[1:][-6:]
    while kept and kept[0]["role"] == "tool":
        kept = kept[1:]
    return [messages[0], *kept]


class TestFunction(PolicyContract):
    policy = resolve_policy(keep_newest)


def test_a_function_a_name_and_a_table_are_one_policy(file):
    by_name = resolve_policy(f"{file}:newest")
    assert by_name == policy_from_plain({"kind": f"{file}:newest"})
    assert by_name != policy_from_plain({"kind": f"{file}:newest", "threshold": 0.5})
    assert pickle.loads(pickle.dumps(by_name)) == by_name
    mine: Any = policy_from_plain({"kind": f"{file}:Mine", "threshold": 0.5})
    assert (mine.keep_last, mine.threshold, mine.kind) == (3, 0.5, f"{file}:Mine")
    assert isinstance(mine, KeepLast)
    own = Trial(task="flashcards", policy=keep_newest)
    assert own.policy_kind == "tests/test_policy_file.py:keep_newest"
    assert own.trial_id == Trial(task="flashcards", policy="tests/test_policy_file.py:keep_newest").trial_id


def test_a_changed_file_is_another_trial(file):
    before = Trial(task="flashcards", policy=f"{file}:newest")
    digest = before.revisions[f"policy {file}:newest"]
    id_before = before.trial_id
    file.write_text(SOURCE.replace("-6", "-4"))
    after = Trial(task="flashcards", policy=f"{file}:newest")
    assert after.trial_id != id_before
    assert after.revisions[f"policy {file}:newest"] != digest
    assert len(compact(FULL, after.policy, window_tokens=32_000).removed) == len(FULL) - 5


def test_stored_data_runs_no_file(tmp_path):
    mark, path = tmp_path / "ran", tmp_path / "evil.py"
    path.write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ndef run(messages, budget): return messages\n")
    stored = {"kind": f"{path}:run"}
    with pytest.raises(UsageError, match="stored data may not run a file"):
        policy_from_stored(stored)
    with pytest.raises(UsageError, match=r"trial.policy: .* may not run a file"):
        from_stored({"task": "flashcards", "policy": stored})
    started = compact(FULL, "none", window_tokens=32_000).state.entries[0]  # type: ignore[union-attr]
    find_counter([started._replace(event=replace(started.event, policy_json=json.dumps(stored)))])
    assert not mark.exists()
    resolve_policy(f"{path}:run")
    assert mark.exists()
    policy_from_stored(stored)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nothing", r"unknown policy: function or class of .*mine.py 'nothing'"),
        ("one", "expected a function"),
        ("lonely", r"must take \(messages, budget\), its parameters are \(messages\)"),
        ("slow", "is a coroutine function"),
        ("Loose", "must be a frozen dataclass"),
        ("Empty", "is not a policy: it has no budget"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_place(file, name, error):
    with pytest.raises((UsageError, UnknownName), match=error):
        policy_from_plain({"kind": f"{file}:{name}"})


def test_a_file_that_cannot_be_loaded_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no policy file"):
        resolve_policy(f"{tmp_path}/none.py:f")
    (tmp_path / "bad.py").write_text("x = 1\n1 / 0\n")
    with pytest.raises(UsageError, match=r"the policy file '.*bad.py' cannot be loaded \(line 2\): ZeroDivisionError"):
        resolve_policy(f"{tmp_path}/bad.py:f")


def test_a_function_without_a_file_works_in_this_process_only():
    result = compact(FULL, lambda messages, budget: [messages[0], *messages[-3:]], window_tokens=32_000)
    assert len(result.removed) == len(FULL) - 4
    with pytest.raises(UsageError, match="no file defines it; write it into a file"):
        Trial(task="flashcards", policy=lambda messages, budget: messages)


def test_a_function_is_a_value_of_an_axis_and_of_an_arm_as_of_a_trial():
    """Not a word about JSON: what a trial refuses, the axis and the arm refuse with the same advice."""
    name, other = "tests/test_policy_file.py:keep_newest", KeepLast(threshold=0.5)
    base = Trial(task="flashcards", policy="none")

    def plan(function: object) -> Experiment:
        axes: dict[str, list[object]] = {"policy": [function, other], "seed": [0, 1]}
        return Experiment(name="own", base=base, axes=axes, arms=(Arm(name="small", trial={"policy": function, "max_steps": 9}),))

    cells = list(plan(keep_newest).grid)
    assert cells == list(plan(name).grid)
    assert Trial(task="flashcards", policy=keep_newest).trial_id in {cell.trial_id for cell in cells}
    assert plan(keep_newest).grid.arms == (f"policy={name}", "policy=keep-last", "small")
    assert "policy: keep_newest, " in plan(keep_newest)._repr_html_()
    refused = {
        KeepLast: r"policy: expected a policy, got the class KeepLast; write KeepLast\(...\)",
        (lambda messages, budget: messages): "policy: worker processes cannot find the function .*<lambda>.*write it into a file",
        (lambda messages: messages): r"policy: the function .* must take \(messages, budget\)",
    }
    for function, error in refused.items():
        with pytest.raises(UsageError, match=rf"axes\.{error}"):
            Grid(base, {"policy": [function]})
        with pytest.raises(UsageError, match=rf"arms\.small\.{error}"):
            Arm(name="small", trial={"policy": function})


def mutate(messages, budget):
    messages[3]["content"] = "short"
    return messages


def pop(messages, budget):
    messages.pop()
    return messages


def fail(messages, budget):
    raise KeyError("x")


CALL = {"id": "n", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (mutate, r"changed messages\[3\] in place; return a new dict"),
        (pop, "changed the list of messages in place"),
        (fail, r"raised KeyError: 'x' \(.*test_policy_file.py, line \d+\)"),
        (lambda messages, budget: None, "returned None; it must return a list"),
        (lambda messages, budget: "text", "returned 'text'"),
        (lambda messages, budget: messages[1:], "lost the system message"),
        (lambda messages, budget: [], "lost the system message"),
        (lambda messages, budget: [messages[0], "x"], "returned 'x' as message 1"),
        (lambda messages, budget: [messages[0], {"role": "robot"}], r"an invalid message: messages\[1\]: the role"),
        (lambda messages, budget: [messages[0], messages[3], messages[2]], r"messages\[2\] twice or behind a later message"),
        (lambda messages, budget: [messages[0], {"role": "tool", "tool_call_id": "n", "content": ""}], "not given"),
        (lambda messages, budget: [messages[0], {"role": "assistant", "content": "", "tool_calls": [CALL]}], "not given"),
    ],
)
def test_a_function_that_breaks_the_rules_is_refused_with_the_message(function: Callable[..., object], error):
    with pytest.raises(IllegalPlan, match=error):
        compact(FULL, function, window_tokens=32_000)  # type: ignore[arg-type]


def test_half_a_tool_pair_is_refused_and_growth_is_not_applied():
    call = {**CALL, "id": "a"}
    answer = {"role": "tool", "tool_call_id": "a", "content": "x"}
    raws = [*FULL, {"role": "assistant", "content": None, "tool_calls": [call]}, answer]
    with pytest.raises(IllegalPlan, match="call 'a'"):
        compact(raws, lambda messages, budget: [messages[0], messages[-1]], window_tokens=32_000)
    grown = compact(FULL, lambda messages, budget: [*messages, {"role": "user", "content": "more"}], window_tokens=32_000)
    assert (grown.status, grown.messages) == ("no-op", FULL)
    same = compact(FULL, lambda messages, budget: [dict(message) for message in messages], window_tokens=32_000)
    assert (same.status, "changed nothing" in same.reason) == ("no-op", True)


def test_the_log_shows_what_the_function_replaced_evicted_and_summarized():
    raws = [*FULL[:2]]
    for number in range(12):
        raws.append({"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": f"c{number}"}]})
        raws.append({"role": "tool", "tool_call_id": f"c{number}", "content": "x" * 8_000, "x_key": number})

    def shorten(messages: list[dict[str, Any]], budget: FunctionBudget) -> list[dict[str, Any]]:
        assert budget.count(*messages) == budget.tokens
        note = {"role": "user", "content": "Twelve files were read."}
        return [messages[0], note, *messages[4:-1], {**messages[-1], "content": "short"}]

    result = compact(raws, shorten, window_tokens=32_000)
    assert result.removed == (1, 2, 3)
    assert result.edited == (len(raws) - 1,)
    assert result.summary == "Twelve files were read."
    assert result.messages[-1] == {**raws[-1], "content": "short"}
    assert result.events[0].patch.insert[0].stands_for != ()


def split_pairs(messages, budget):
    newest = max(number for number, message in enumerate(messages) if message["role"] == "tool")
    return [*messages[:2], *messages[newest:]]


@pytest.mark.slow
def test_a_report_says_that_a_function_failed_and_not_that_it_did_nothing(tmp_path, capsys):
    """Workers find both functions, and the arm of the broken one is not called a control."""
    base = Trial(task="flashcards", policy="none", window_tokens=32_768, max_steps=40)
    axes: dict[str, list[object]] = {"policy": [split_pairs, keep_newest], "seed": [0, 1]}
    results = Experiment(name="own", base=base, axes=axes).run(tmp_path, workers=2, progress="plain")
    broken, working = (
        results.trials[results.trials["policy"] == f"tests/test_policy_file.py:{name}"] for name in ("split_pairs", "keep_newest")
    )
    assert broken["reason"].tolist() == ["illegal_plan"] * 2
    assert (working["compactions"] > 0).all()
    error = broken["error"].iloc[0]
    sentence = f"Every trial of policy={broken['policy'].iloc[0]} ended by an error of the policy, the first by: {error}."
    short, table, *_ = report(results).sections
    assert sentence in short.notes[0]
    assert [row[table.columns.index("policy error")] for row in table.rows] == ["0", "2"]
    text = report(results).render_markdown()
    assert not any(wrong in text for wrong in ("changed nothing in any trial", "Without effect", "the arm is a control"))
    assert "Found in no trial: the policy was never triggered; the policy changed nothing;" in text
    shown = [line for line in "".join(capsys.readouterr()).splitlines() if "failed: illegal_plan" in line]
    assert [error in line for line in shown] == [True, False]


@pytest.mark.slow
def test_workers_run_a_policy_of_a_file(file, tmp_path, monkeypatch):
    base = Trial(task="flashcards", policy=f"{file}:newest", window_tokens=32_768, max_steps=40)
    policies = [f"{file}:newest", {"kind": f"{file}:Mine", "threshold": 0.3}]
    monkeypatch.chdir(tmp_path)
    results = Experiment(name="own", base=base, axes={"policy": policies}).run(workers=2)
    assert sorted(results.trials["policy"]) == [f"{file}:Mine", f"{file}:newest"]
    assert (results.trials["compactions"] > 0).all()
    assert to_plain(base.policy)["kind"] == f"{file}:newest"
