"""Values for the tests of experiments."""

from harness.store.records import TrialRecord


def record(**changes):
    """Return the record of an unremarkable finished trial."""
    plain = {
        "trial_id": "t",
        "session_id": "s",
        "experiment": "e",
        "arm": "a",
        "task": "flashcards",
        "seed": 0,
        "replicate": 0,
        "model": "scripted",
        "policy": "none",
        "policy_json": "{}",
        "config_json": "{}",
        "axes_json": "{}",
        "window_tokens": 0,
        "max_steps": 1,
        "level": "L0",
        "status": "completed",
        "reason": "replied",
        "success": False,
        "score": 0.5,
        "steps": 1,
        "compactions": 0,
        "prompt_tokens": 1,
        "output_tokens": 1,
        "cost_usd": None,
        "peak_context_tokens": 1,
        "treatment": "as planned",
        "sandbox": "bubblewrap",
        "started_at_ms": 0,
        "wall_seconds": 1.0,
    }
    return TrialRecord(**{**plain, **changes})
