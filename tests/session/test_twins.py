"""Tests of twins: real continuations of real sessions, in sandboxes of their own, graded by the checks of the task."""

from dataclasses import replace

import pytest

from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished
from harness.conversation.messages import user
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import find_violation, fold, fold_all
from harness.errors import UnknownName, UsageError
from harness.models.scripted.visible_state import FactReader
from harness.policies import policy_from_plain
from harness.session.history import list_dropped_facts
from harness.session.live_session import LiveSession
from harness.session.put_back import FILLER, find_lost_facts, put_back, write_filler
from harness.session.twins import TABLE_COLUMNS, TWIN_ARMS
from harness.tasks import make_task
from tests.session.test_execution import session

pytestmark = pytest.mark.slow

SECONDS = 300
FORGETFUL = {"kind": "keep-last", "summarizer": "scripted/empty", "threshold": 0.5, "keep_last": 2}


def run_session(**changes):
    live = LiveSession(session(**{"policy": policy_from_plain(FORGETFUL), "window_tokens": 16_000, **changes})).start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    return live


def list_compactions(entries):
    return [entry for entry in entries if isinstance(entry.event, Compaction) and entry.event.status == "applied"]


def list_digests(entries, after_step=0):
    steps = [entry.event for entry in entries if isinstance(entry.event, StepFinished)]
    return [step.request_digest for step in steps if step.step > after_step]


@pytest.fixture(scope="module")
def forgetful():
    return run_session(model="scripted:typical")


def test_a_twin_as_it_was_repeats_the_session_from_its_compaction_on_request_for_request(forgetful):
    count = len(list_compactions(forgetful.entries))
    assert count >= 2
    for number in (1, count):
        twins = forgetful.twins(number, ["as it was"], repetitions=1, later_compactions=True)
        twin = twins.runs[0]
        assert list_digests(twin.entries) == list_digests(forgetful.entries)
        assert twin.compactions == count - number


def test_with_the_policy_on_a_compaction_that_is_left_out_comes_at_the_next_step_at_the_earliest(forgetful):
    twin = forgetful.twins(1, ["not compacted"], repetitions=1, later_compactions=True).runs[0]
    left_out, first = list_compactions(forgetful.entries)[0].event, list_compactions(twin.entries)[0].event
    assert first.step > left_out.step


def test_only_the_twins_that_see_the_lost_fact_pass_the_check_that_needs_it(forgetful):
    twins = forgetful.twins(1, TWIN_ARMS, repetitions=2)
    assert twins.fact_names == ("port",)
    assert list(twins.table.columns) == list(TABLE_COLUMNS)
    passed = twins.table.groupby("arm")["passed"].agg(["min", "max", "size"])
    assert passed.to_dict("index") == {
        arm: {"min": is_seen, "max": is_seen, "size": 2}
        for arm, is_seen in (
            ("as it was", False),
            ("as it was again", False),
            ("control text", False),
            ("facts put back", True),
            ("not compacted", True),
            ("newest messages", False),
        )
    }
    assert set(twins.table["compactions"]) == {0}
    assert [cause.name for cause in twins.list_causes() if cause.is_failed_by_loss] == ["port"]
    lines = twins.render_text().splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith("control text")]
    assert lines[row + 1].lower() == "  failed checks: the port is written down (2)"


def test_arms_have_equal_seeds_except_the_noise_arm_and_the_first_is_that_of_the_session(forgetful):
    twins = forgetful.twins(1, ["as it was", "control text", "as it was again"], repetitions=2)
    seeds = {arm: [run.seed for run in twins.runs if run.arm == arm] for arm in dict.fromkeys(twins.table["arm"])}
    assert seeds["as it was"] == seeds["control text"]
    assert seeds["as it was"][0] == forgetful.spec.seed
    assert len({*seeds["as it was"], *seeds["as it was again"]}) == 4


def test_the_newest_messages_of_as_many_tokens_replace_what_the_compaction_left(forgetful):
    twins = forgetful.twins(1, ["as it was", "newest messages"], repetitions=2)
    assert [run.seed for run in twins.runs[:2]] == [run.seed for run in twins.runs[2:]]
    boundary = list_compactions(forgetful.entries)[0].event
    control = list_compactions(twins.runs[2].entries)[0].event
    assert (control.step, control.tokens_before) == (boundary.step, boundary.tokens_before)
    assert not control.patch.insert
    assert not control.patch.replace
    evicted = sorted(item.event for item in control.patch.forget)
    entries = forgetful.entries[: list_compactions(forgetful.entries)[0].seq - 1]
    before = [item.item_id.event for item in fold_all(entries, forgetful.spec.policy.counter).items]
    behind = [event for event in before if event not in evicted]
    assert behind[-1] == before[-1]
    assert [event for event in before if evicted[0] <= event <= evicted[-1]] == evicted
    newest = before[before.index(evicted[-1]) + 1 :]
    assert control.tokens_after <= boundary.tokens_after or len(newest) <= 2


def test_another_policy_compacts_the_same_messages_in_its_own_way(forgetful):
    other = policy_from_plain({"kind": "keep-last", "summarizer": "scripted/oracle", "threshold": 0.5, "keep_last": 2})
    twins = forgetful.twins(1, ["as it was", other], repetitions=1)
    assert list(twins.table["passed"]) == [False, True]
    boundary = list_compactions(forgetful.entries)[0]
    own = list_compactions(twins.runs[1].entries)[0]
    assert (own.event.step, own.event.tokens_before) == (boundary.event.step, boundary.event.tokens_before)


def test_running_twins_changes_neither_the_session_nor_its_journal(tmp_path):
    path = tmp_path / "j.sqlite"
    live = run_session(journal=path)
    entries, content = live.entries, path.read_bytes()
    live.twins(1, ["facts put back"], repetitions=1)
    again = LiveSession.reopen(path, live.session_id, spec=live.spec).twins(1, ["facts put back"])
    assert again.table["passed"].tolist() == [True]
    assert (live.entries, path.read_bytes()) == (entries, content)


def test_a_model_without_chance_gets_one_twin_and_a_note_about_copies(tmp_path):
    live = run_session()
    assert len(live.twins(1, ["as it was"]).runs) == 1
    twins = live.twins(1, ["as it was"], repetitions=2)
    assert "would be copies" in twins.notice
    assert "scripted:typical" in twins.notice


def test_later_messages_of_a_person_are_sent_again(forgetful):
    live = LiveSession(session(policy=policy_from_plain(FORGETFUL), window_tokens=16_000)).start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.send("Which port was it?")
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    twin = live.twins(1, ["as it was"], later_compactions=True).runs[0]
    texts = [event.message.text for _, event in twin.entries if isinstance(event, MessageAdded) and event.message.role == "user"]
    assert texts[-1] == "Which port was it?"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compaction": 99}, "no compaction of round 99; it has"),
        ({"compaction": "1"}, "must be the number of a compaction"),
        ({"compaction": 1, "arms": []}, "must be a list of arms"),
        ({"compaction": 1, "arms": "as it was"}, "must be a list of arms"),
        ({"compaction": 1, "arms": ["as it was", "as it was"]}, "occurs twice"),
        ({"compaction": 1, "repetitions": 0}, "repetitions: must be a whole number, at least 1"),
        ({"compaction": 1, "facts": ["colour"]}, "did not lose colour; choose from the facts that it lost: port"),
    ],
)
def test_wrong_arguments_are_refused_in_words(forgetful, arguments, message):
    with pytest.raises(UsageError, match=message):
        forgetful.twins(**arguments)


def test_an_unknown_arm_is_refused_with_the_arms_that_exist(forgetful):
    with pytest.raises(UnknownName, match="facts put back"):
        forgetful.twins(1, ["facts put bak"])


def test_a_session_without_snapshots_is_refused_with_the_setting_that_takes_them():
    with pytest.raises(UsageError, match=r"its workspaces were not saved; run the session with snapshots = True"):
        run_session(snapshots=False).twins(1)


def test_facts_cannot_be_put_back_without_a_task(forgetful):
    bare = LiveSession(replace(forgetful.spec, task=None, model="openai/gpt-4o"))
    bare._control = forgetful._control
    with pytest.raises(UsageError, match=r"only known in a session with a task.*SessionSpec\.task"):
        bare.twins(1, ["facts put back"])


POLICIES = [
    FORGETFUL,
    {"kind": "complexity-trap-mask"},
    {"kind": "message-window"},
    {"kind": "drop-all"},
]


@pytest.mark.parametrize("fields", POLICIES, ids=lambda fields: fields["kind"])
def test_put_back_facts_are_in_view_again_and_the_control_adds_as_many_characters(fields):
    """Summaries, masked results and evicted messages: facts from prompts, tool results and the agent's own calls."""
    task, policy = make_task("log-forensics", 2), policy_from_plain(fields)
    entries = run_session(request=task.prompt, task=task, policy=policy, window_tokens=24_000, model="scripted:typical").entries
    counter, losses = policy.counter, 0
    for entry in list_compactions(entries):
        lost = find_lost_facts(entries, task, entry.seq, counter)
        restored, control = (
            put_back(entry.event, entry.seq, lost, counter, is_control=is_control) for is_control in (False, True)
        )
        views = [fold(lost.before, Entry(entry.seq, event), counter) for event in (entry.event, restored, control)]
        assert all(find_violation(view.messages) is None for view in views)
        before, without, with_facts, with_filler = (find_values(view, task) for view in (lost.before, *views))
        assert set(lost.fact_names) == set(list_dropped_facts(entries, task, entry.seq, counter))
        assert {name: with_facts[name] for name in lost.fact_names} == {name: before[name] for name in lost.fact_names}
        assert with_filler == without
        assert views[1].tokens == views[2].tokens == restored.tokens_after
        assert len(views[1].items) == restored.messages_after
        losses += len(lost.fact_names)
    assert losses


def find_values(view, task):
    """Return the newest value in view of each fact."""
    reader = FactReader(task.facts, "exact")
    return {match.name: match.value for message in view.messages for match in reader.find_newest(message)}


def test_filler_has_the_length_of_every_line_and_states_nothing():
    text = "short\n\n" + "x" * 500
    assert [len(line) for line in write_filler(text).split("\n")] == [5, 0, 500]
    assert not any(character.isdigit() for character in FILLER)
    assert QuarterOfCharacters().count(user(write_filler(text))) == QuarterOfCharacters().count(user(text))


ORACLE = policy_from_plain({"kind": "keep-last", "summarizer": "scripted/oracle", "threshold": 0.5, "keep_last": 2})


@pytest.mark.parametrize(
    ("arm", "is_visible", "passes"),
    [
        ("as it was", False, False),
        ("facts put back", True, False),  # until the next compaction of the policy, which stays active
        ("not compacted", True, True),
        (ORACLE, True, True),
    ],
    ids=["as it was", "facts put back", "not compacted", "another policy"],
)
def test_a_fork_at_a_compaction_goes_on_with_the_effect_that_was_chosen(forgetful, arm, is_visible, passes):
    fork = forgetful.fork_at_compaction(1, arm)
    assert ("port" in find_values(fork.view, forgetful.spec.task)) is is_visible
    fork.start()
    assert fork.wait(SECONDS) == "idle", fork.failure
    fork.resume()
    assert fork.wait(SECONDS) == "idle", fork.failure
    graded = {graded.check.name: graded.passed for graded in fork.close().checks}
    assert graded["port"] is passes
    assert bool(list_compactions(fork.entries)) is (arm != "not compacted")


def test_a_fork_with_facts_needs_a_task(forgetful):
    bare = LiveSession(replace(forgetful.spec, task=None, model="openai/gpt-4o"))
    bare._control = forgetful._control
    with pytest.raises(UsageError, match="only known in a session with a task"):
        bare.fork_at_compaction(1, "facts put back")
