"""Synthetic results with the stored columns: growing sessions with compactions, and successes drawn from a seed."""

import hashlib
import json
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.tables import Selection
from harness.store.columns import TABLES
from harness.store.records import TrialRecord

Row: TypeAlias = dict[str, Any]

WINDOW_TOKENS, RESERVED_TOKENS = 32768, 11000
HELPFUL = {"scripted/oracle": 0.97, "scripted/extractive": 0.6, "scripted/empty": 0.12}


def trial(**changes):
    """Return one row of the trials table, with defaults for all columns that a test does not set."""
    seed, arm, replicate = changes.get("seed", 0), changes.get("arm", "a"), changes.get("replicate", 0)
    plain = {
        "trial_id": f"{arm}/{changes.get('task', 'flashcards')}/{seed}/{replicate}",
        "session_id": "s",
        "experiment": "made",
        "arm": arm,
        "task": "flashcards",
        "seed": seed,
        "replicate": replicate,
        "model": "scripted",
        "policy": "keep-last",
        "policy_json": json.dumps({"kind": "keep-last", "threshold": 0.8, "keep_last": 10, "summarizer": "same"}),
        "config_json": '{"max_steps": 300}',
        "axes_json": "{}",
        "window_tokens": WINDOW_TOKENS,
        "threshold_tokens": 17414,
        "max_steps": 300,
        "level": "L0",
        "status": "completed",
        "reason": "declared",
        "success": True,
        "score": 1.0,
        "steps": 80,
        "compactions": 1,
        "prompt_tokens": 900_000,
        "output_tokens": 20_000,
        "cost_usd": 3.0,
        "sub_agent_cost_usd": 0.0,
        "peak_context_tokens": 20_000,
        "treatment": "as planned",
        "sandbox": "bubblewrap",
        "started_at_ms": 0,
        "wall_seconds": 4.0,
    }
    beside = {name: changes.pop(name) for name in list(changes) if name not in TrialRecord.__dataclass_fields__}
    return asdict(TrialRecord(**(plain | changes))) | beside


def results(trials, steps=(), compactions=(), probes=()):
    """Return results made of the given rows; request digests and compactions are empty unless given."""
    return Selection(
        trials=frame("trials", [trial(**one) for one in trials]),
        steps=frame("steps", steps),
        compactions=frame("compactions", compactions),
        probes=frame("probes", probes),
    )


def frame(name, rows):
    """Return rows as a table with exactly the stored columns; missing values are 0, empty or NA."""
    return _build_frame(name, rows) if rows else _build_blank_frame(name).copy()


def _build_frame(name, rows):
    blank = {"str": "", "bool": False, "int64": 0, "Int64": None, "float64": 0.0}
    columns = {
        # arrays, since a Series of each column would take twice as long
        column.name: pd.array([row.get(column.name, blank.get(column.dtype)) for row in rows], dtype=column.dtype)
        for column in TABLES[name]
    }
    return pd.DataFrame(columns)


@cache
def _build_blank_frame(name):
    return _build_frame(name, ())


def arms(a, b, **changes):
    """Return results of two arms from their successes by seed."""
    rows = [{"arm": "a", "seed": seed, "success": won} | changes for seed, won in enumerate(a)]
    rows += [{"arm": "b", "seed": seed, "success": won} | changes for seed, won in enumerate(b)]
    return results(rows)


def name_writers(selection):
    """Return results whose compactions name the summarizer of their policy as the one that wrote."""
    summarizers = dict(
        zip(
            selection.trials["trial_id"],
            (json.loads(text).get("summarizer", "") for text in selection.trials["policy_json"]),
            strict=True,
        )
    )
    return replace(
        selection, compactions=selection.compactions.assign(summarizer=selection.compactions["trial_id"].map(summarizers))
    )


@cache
def grid(thresholds=(0.5, 0.8, 0.95), keeps=(4, 10, 20), summarizers=tuple(HELPFUL), seeds=(0, 1)):
    """Return a grid like that of the quickstart, with a control and an A/A arm."""
    cells = [
        (
            {"policy.threshold": t, "policy.keep_last": k, "policy.summarizer": s},
            f"keep_last={k} summarizer={s} threshold={t:g}",
            0,
        )
        for t, k, s in product(thresholds, keeps, summarizers)
    ]
    cells += [({"policy.threshold": 0.8, "policy.keep_last": 10, "policy.summarizer": summarizers[-1]}, "A/A", 1)]
    trials, steps, compactions = [], [], []
    for seed in seeds:
        for axes, arm, replicate in cells:
            one, its_steps, its_drops = session(arm, seed, axes, replicate)
            trials.append(one)
            steps += its_steps
            compactions += its_drops
        one, its_steps, _ = session("no compaction", seed, None, 0)
        trials.append(one)
        steps += its_steps
    return results(trials, steps, compactions)


def session(arm: str, seed: int, axes: dict[str, Any] | None, replicate: int) -> tuple[Row, list[Row], list[Row]]:
    """Return a session that grows by amounts drawn from its seed until it is compacted, finished, or larger than the window."""
    policy: Row = {"kind": "none"} if axes is None else {"kind": "keep-last"} | {k.split(".")[1]: v for k, v in axes.items()}
    threshold = None if axes is None else int((WINDOW_TOKENS - RESERVED_TOKENS) * policy["threshold"])
    grow = np.random.default_rng(seed)
    luck = np.random.default_rng([seed, *hashlib.sha256(json.dumps(policy).encode()).digest()[:4]])
    trial_id = f"{arm}/{seed}"
    lengths, tokens = [2600], 2600
    steps: list[Row] = []
    drops: list[Row] = []
    needed, compacted, reason = 95 + seed * 7, False, "declared"
    digest = hashlib.sha256(f"task {seed}".encode())
    for step in range(1, 200):
        if threshold and tokens >= threshold:
            kept = sum(lengths[-policy["keep_last"] :]) + 2600 + 640
            if kept < tokens:
                drops.append(
                    {"trial_id": trial_id, "round": len(drops) + 1, "step": step, "status": "applied"}
                    | {"tokens_before": tokens, "tokens_after": kept}
                )
                needed += int(luck.integers(2, 14) * (1.2 - HELPFUL.get(policy["summarizer"], 1)))
                lengths, tokens, compacted = [kept - 2600], kept, True
                digest.update(json.dumps(policy).encode())
        if tokens > WINDOW_TOKENS:
            reason = "overflow"
            break
        steps.append({"trial_id": trial_id, "step": step, "view_tokens": tokens, "request_digest": digest.hexdigest()})
        if step >= needed:
            break
        length = int(grow.lognormal(5.55, 0.9))
        lengths.append(length)
        tokens += length
        digest.update(bytes([step]))
    helpful = HELPFUL.get(policy.get("summarizer", ""), 1.0)
    score = 0.0 if reason == "overflow" else 1.0 if not compacted or luck.random() < helpful else round(luck.uniform(0.2, 0.9), 2)
    prompt = sum(row["view_tokens"] for row in steps)
    row = {
        "trial_id": trial_id,
        "arm": arm,
        "seed": seed,
        "replicate": replicate,
        "policy": policy["kind"],
        "policy_json": json.dumps(policy),
        "axes_json": json.dumps(
            {"policy.keep_last": None, "policy.summarizer": None, "policy.threshold": None, "seed": seed} | (axes or {})
        ),
        "threshold_tokens": threshold,
        "status": "failed" if reason == "overflow" else "completed",
        "reason": reason,
        "success": score == 1.0,
        "score": score,
        "steps": len(steps),
        "compactions": len(drops),
        "prompt_tokens": prompt,
        "cost_usd": prompt * 3e-6,
        "summarizer_cost_usd": len(drops) * 0.06,
        "sub_agent_cost_usd": 0.0,
    }
    return row, steps, drops
