"""Tests of recency controls: they retain the newest messages, with as many tokens as the controlled policy would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.recency import count_kept_tokens, find_protected, select_older
from harness.conversation.codec import to_plain
from harness.conversation.messages import user
from harness.conversation.plan import CompactionPlan
from harness.conversation.view import find_violation, fold_all
from harness.errors import UnknownName, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.plan import Settings
from harness.experiment.trial import Trial
from harness.policies import Codex, KeepLast, OracleRetention, Pi, Recency, SweAgent, policy_from_plain, policy_from_stored
from harness.testing.strategies import logs
from tests.compaction.conversations import Room, lengthened, view_of, window, work

SMALL = KeepLast(system_reserve_tokens=0, output_reserve_tokens=0, safety_reserve_tokens=0, summary_max_tokens=500, keep_last=4)


@pytest.mark.slow
@given(log=logs().map(lengthened), kept_tokens=st.integers(0, 2_000))
def test_a_control_keeps_the_newest_whole_pairs_that_fit(log, kept_tokens: int) -> None:
    view = fold_all(log)
    plan = CompactionPlan(reason="due")
    protected = find_protected(plan, view)
    gone = set(select_older(view, kept_tokens, protected))
    kept = [item for item in view.items if item.item_id not in gone]
    assert find_violation([item.message for item in kept]) is None
    assert protected <= {item.item_id for item in kept}
    others = [item for item in view.items if item.item_id not in protected]
    flags = [item.item_id in gone for item in others]
    assert flags == sorted(flags, reverse=True), "a message is gone although an older one stays"
    newest = next((index for index in range(len(others) - 1, -1, -1) if others[index].message.role != "tool"), 0)
    if any(item.item_id not in gone for item in others[:newest]):
        assert sum(item.tokens for item in kept) <= kept_tokens
    if gone:
        next_block = sum(item.tokens for item in others[_start_block(others, sum(flags) - 1) : sum(flags)])
        is_newest_alone = _start_block(others, len(others) - 1) == sum(flags)
        assert sum(item.tokens for item in kept) + next_block > kept_tokens or is_newest_alone


def _start_block(items, index: int) -> int:
    while index > 0 and items[index].message.role == "tool":
        index -= 1
    return index


def test_a_control_acts_when_its_policy_does_and_keeps_as_many_tokens_with_the_summary_at_its_maximum() -> None:
    control = Recency(of=SMALL)
    assert control.budget(window(4_000)) == SMALL.budget(window(4_000))
    short = view_of(user("build it"), *work(1, 20), policy=SMALL)
    assert Room(control, 4_000).ask(short) is None
    assert Room(SMALL, 4_000).ask(short) is None
    view = view_of(user("build it"), *work(1, 35), policy=SMALL)
    plan, room = SMALL.plan(view, SMALL.budget(window(4_000)), None), Room(control, 4_000)
    assert plan is not None
    event = room.ask(view)
    assert event is not None
    kept_tokens = count_kept_tokens(plan, view, SMALL.counter)
    assert (event.status, event.summary, room.summarizer.requests) == ("applied", "", [])
    assert event.tokens_after <= kept_tokens < event.tokens_after + 105, "one more pair of 105 tokens would fit"
    rest = sum(item.tokens for item in view.items if item.item_id not in plan.forget)
    assert kept_tokens == rest + 500
    assert "the newest messages instead of what 'keep-last' keeps" in event.reason


def test_a_request_stays_only_if_the_policy_keeps_it() -> None:
    view = view_of(user("build it"), *work(1, 35), policy=SMALL)
    request = view.items[1].item_id
    for policy, stays in ((SMALL, False), (SweAgent(), True)):
        plan = policy.plan(view, policy.budget(window(4_000)), None)
        assert plan is not None
        assert (request in find_protected(plan, view)) == stays


def test_a_control_is_stored_and_read_with_the_policy_that_it_controls() -> None:
    control = policy_from_plain({"kind": "recency", "of": {"kind": "codex", "threshold": 0.5}})
    assert control == Recency(of=Codex(threshold=0.5))
    assert policy_from_stored(to_plain(control)) == control
    assert policy_from_plain({"kind": "recency", "of": "pi"}) == Recency(of=Pi())
    old = policy_from_stored({"kind": "recency", "of": {"kind": "codex"}})
    assert old.of.kind == "codex@2025"  # type: ignore[attr-defined]
    trials = [Trial(task="flashcards", policy=Recency(of=policy)) for policy in (Codex(), Codex(threshold=0.5), Pi())]
    assert len({trial.trial_id for trial in trials}) == 3
    assert trials[0].revisions["policy codex@2026"] == 0


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("none", "policy 'none' never compacts"),
        ({"kind": "recency"}, "'recency' cannot be the control of itself"),
        ("oracle", "policy 'oracle' needs an oracle"),
        ({"kind": "pi", "keep_tokens": 1}, "unknown field policy.of.keep_tokens of policy 'pi'"),
        ({"kind": "codex@2019"}, "unknown version of a policy in policy.of: 'codex@2019'"),
        (2.5, "of: expected a policy"),
    ],
)
def test_a_policy_that_cannot_be_controlled_is_refused(of, message: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=message):
        policy_from_plain({"kind": "recency", "of": of})


def test_controls_add_an_arm_beside_each_arm_that_compacts() -> None:
    base = Trial(task="flashcards", policy="none", window_tokens=32_768)
    values = ["none", "keep-last", OracleRetention(), Recency(of=Pi())]
    axes: dict[str, list[object]] = {"policy": values, "seed": [0, 1]}
    plain = Experiment(name="e", base=base, axes=axes)
    controlled = Experiment(name="e", base=base, axes=axes, settings=Settings(controls=True))
    assert set(controlled.grid.arms) - set(plain.grid.arms) == {"recency@tokens of policy=keep-last"}
    ids = {cell.trial_id for cell in plain.grid}
    assert ids < {cell.trial_id for cell in controlled.grid}
    added = [cell for cell in controlled.grid if cell.trial_id not in ids]
    assert [cell.trial for cell in added] == [
        Trial(task="flashcards", policy=Recency(of=KeepLast()), window_tokens=32_768, seed=seed) for seed in (0, 1)
    ]
    with pytest.raises(UsageError, match=r"experiment\.controls: no arm has a policy that compacts"):
        Experiment(name="e", base=base, axes={"seed": [0]}, settings=Settings(controls=True))
