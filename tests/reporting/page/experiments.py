"""Small experiments in real journals, with sessions whose every text can be given, for the tests of the report page."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation import codec
from harness.conversation.events import Compaction, Insert, ItemId, MessageAdded, Patch, SessionEnded, SessionStarted
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated
from harness.experiment.contrasts import Contrast, Family
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.store.journal import Journal
from harness.store.results import Results
from harness.task import World
from tests.experiment.records import record
from tests.inspection.test_counterfactual import finished

PLAIN = "plain text"


def run_losses(folder: Path) -> Results:
    """Run two summarizers on one seed of a task, of which the lossy one loses a fact that a check needs."""
    policy = KeepLast(threshold=0.8, keep_last=10)
    base = Trial(task="flashcards", world=World(difficulty="easy"), policy=policy, window_tokens=32_768, max_steps=300)
    axes: dict[str, Sequence[object]] = {"policy.summarizer": ["scripted/extractive", "scripted/lossy-0.8"], "seed": [3]}
    return Experiment(name="losses", base=base, axes=axes, folder=folder).run(progress="off", workers=1)


def declare(planned_trials: int, looks: int = 1) -> str:
    """Return the provenance of a trial whose plan declares a contrast of the arms a and b."""
    family = Family(contrasts=(Contrast(a="a", b="b", metric="score"),), planned_trials=planned_trials, looks=looks)
    return json.dumps({"family": codec.to_plain(family)})


def make_events(session_id: str, text: str, name: str = "read_file"):
    """Return the events of a session of three steps with a compaction before the second, all of whose texts are given."""
    call = ToolCall(call_id="c1", name=name, arguments_json=json.dumps({"path": text}))
    output = ToolResult(call_id="c1", name=name, output=text, status="error")
    summary = Insert(message=user(f"summary {text}"), after=ItemId(2), stands_for=(ItemId(3), ItemId(4), ItemId(5)))
    compaction = Compaction(
        round=1,
        step=2,
        moment="step",
        status="applied",
        reason=f"full {text}",
        patch=Patch(forget=(ItemId(3), ItemId(4), ItemId(5)), insert=(summary,)),
        tokens_before=Estimated(900),
        tokens_after=Estimated(60),
        messages_before=4,
        messages_after=2,
        summary=f"summary {text}",
    )
    start = SessionStarted(
        session_id=session_id,
        task=text,
        model=text,
        policy_json=json.dumps({"kind": text}),
        window_tokens=2_000,
        threshold_tokens=900,
        budget_rule=text,
        sandbox="local",
    )
    return [
        start,
        *(MessageAdded(message=one, step=1) for one in (system("s"), user(text), assistant(text, call), tool(output))),
        finished(1),
        compaction,
        MessageAdded(message=assistant(f"second {text}"), step=2),
        finished(2),
        MessageAdded(message=assistant("third"), step=3),
        finished(3),
        SessionEnded(status="failed", reason="replied", detail=text),
    ]


def write_trial(journal: Journal, text: str = PLAIN, *, name: str = "read_file", **changes) -> None:
    """Write the record of a trial and its session to a journal."""
    trial = record(**{"status": "failed", "error": text, **changes})
    with closing(journal.open_session_log(trial.session_id, created_at_ms=0, clock=lambda: 0.0)) as log:
        log.append(make_events(trial.session_id, text, name))
    journal.record_trial(trial, ())


def write_experiment(folder: Path, *, arms=("a", "b", "c"), tasks=("t1", "t2"), seeds=3, text: str = PLAIN, **changes) -> Results:
    """Write a finished experiment and return its results: score and cost grow with the number of the arm."""
    folder.mkdir(parents=True, exist_ok=True)
    with Journal.open(folder / "journal.sqlite") as journal:
        for place, arm in enumerate(arms):
            for number, task in enumerate(tasks):
                for seed in range(seeds):
                    trial_id = f"{place}-{number}-{seed}"
                    plain = {
                        "arm": arm,
                        "task": task,
                        "seed": seed,
                        "score": 0.1 + 0.2 * place + 0.05 * seed,
                        "experiment": "made",
                    }
                    plain |= {"cost_usd": 1.0 + place + 0.1 * seed + number}
                    plain |= {"compactions": 1, "policy": "keep-last"}
                    policy = json.dumps({"kind": "keep-last", "threshold": 0.5 + place / 10, "keep_last": 4, "summarizer": text})
                    plain |= {"trial_id": trial_id, "session_id": f"s{trial_id}", "policy_json": policy}
                    write_trial(journal, text, **{**plain, **changes})
    return load(folder)
