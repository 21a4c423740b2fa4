"""Numbers of a policy between which cost and eviction must be traded on one's own sessions, chosen on half of the projects.

A setting is on the front if no other costs less and evicts less. The front is chosen on one half of the projects, and what is
shown of it is measured on the other half, so that no setting looks good because it was chosen for these very sessions.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.policies import resolve_policy
from harness.replay.bills import OWN, REREAD_TOKENS
from harness.replay.chains import Numbers
from harness.replay.choice import MIN_GROUPS, split_halves
from harness.replay.sessions import REREAD_COLUMNS, Replay, replay_sessions
from harness.replay.settings import AS_IT_WAS, ReplaySetting, list_settings

TUNED_THRESHOLDS = (40_000, 60_000, 80_000, 100_000, 125_000, 150_000, 200_000, 300_000)
_FACTORS = (0.5, 1, 2)
"""Factors on the default of a number that says how much is kept."""
_TRIGGER = "trigger_tokens"
"""Field of policies whose threshold is a number of tokens and does not follow from the window."""


class AgentSetting(NamedTuple):
    """Documented setting of an agent that moves its threshold.

    Args:
        text: Setting with a place for the threshold: `tokens`, or `share` or `percent` of the window of 200,000 tokens.
        source: Documentation that names it.
    """

    text: str
    source: str


AGENT_WINDOW_TOKENS = 200_000
"""Window for which an agent's setting in percent is computed."""
AGENT_SETTINGS: Mapping[str, AgentSetting] = {
    "claude-code": AgentSetting(
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE={percent:.0f} in the environment; it can only lower the threshold",
        "documentation of Claude Code, page Environment variables",
    ),
    "codex": AgentSetting(
        "model_auto_compact_token_limit = {tokens} in ~/.codex/config.toml",
        "documentation of Codex, page Configuration reference",
    ),
    "goose": AgentSetting(
        "GOOSE_AUTO_COMPACT_THRESHOLD={share:.2f} in the environment", "documentation of goose, page Smart Context Management"
    ),
    "gemini-cli": AgentSetting(
        "model.compressionThreshold = {share:.2f} in ~/.gemini/settings.json", "documentation of Gemini CLI, page Configuration"
    ),
}
"""Settings by the name of the policy that is modelled on the agent, without its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Front of a policy's numbers, returned by `tune_policy`.

    Attributes:
        front: One row per setting on the front of the first half, the cheapest first: `setting`, `change` (cost on the other half
            against what was run there), `chosen_change` (the same on the half that chose), `evicted_tokens` and `compactions` on
            the other half, and `on_other_front` (whether the setting is on the front of the other half, too).
        settings: Settings by name.
        rule: Price rule.
        groups: Number of groups in both halves.
        group_kind: Kind of the groups: `project`, `day` or `session`.
        reread_tokens: Tokens that are assumed to be read again after each compaction.
        replay: Replay from which the front was chosen.
    """

    front: pd.DataFrame
    settings: Mapping[str, ReplaySetting]
    rule: str
    groups: int
    group_kind: str
    reread_tokens: float
    replay: Replay


def tune_policy(
    folder: str | os.PathLike[str] | Sequence[Path],
    policy: str,
    thresholds: Sequence[int] = TUNED_THRESHOLDS,
    *,
    variations: Mapping[str, Sequence[int]] | None = None,
    rule: str = OWN,
    file: Path | None = None,
    reread_tokens: Sequence[float] | Literal["simulated"] | None = None,
    workers: int | None = None,
    cache_folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Return the front of a policy's numbers between cost and evicted tokens on recorded sessions.

    The agent's actions are taken as recorded (level L2-open), so nothing is said about success.

    Args:
        folder: Folder with recordings or journals, a single file, or several of them.
        policy: Name of the policy.
        thresholds: Numbers of tokens above which it compacts. Default: `TUNED_THRESHOLDS`.
        variations: Values of its fields. Default: half, once and twice the default of each number that says how much is kept.
        rule: Price rule, as in `replay_sessions`. Default: that of each session's provider.
        file: TOML file with further rules. Default: none.
        reread_tokens: Low end, middle and high end of the tokens read again after each compaction. Default: as in a replay.
        workers: Number of processes. Default: one for each processor.
        cache_folder: Folder for replays of files. Default: the user's cache folder.
        on_progress: Function that is called with the number of files done and of all files.

    Raises:
        UsageError: There are fewer than four groups with a cost, or as in `replay_sessions`.

    Example::

        from harness.replay.tuning import tune_policy
        tune_policy("~/.claude/projects", "claude-code").front
    """
    varied = list_variations(policy, thresholds) if variations is None else variations
    replay = replay_sessions(
        folder,
        [policy],
        thresholds,
        [rule],
        file=file,
        reread_tokens=reread_tokens,
        variations=varied,
        workers=workers,
        cache_folder=cache_folder,
        on_progress=on_progress,
    )
    settings, _ = list_settings([policy], thresholds, varied)
    names = [AS_IT_WAS, *(setting.name for setting in settings)]
    costs = replay.costs.assign(usd=_price_rereading(replay))
    tables = {
        column: costs.pivot_table(index="group", columns="setting", values=column, aggfunc="sum").reindex(columns=names)
        for column in ("usd", "evicted_tokens", "compactions")
    }
    base = tables["usd"][AS_IT_WAS]
    groups = base.index[base > 0]
    if len(groups) < MIN_GROUPS:
        raise UsageError(
            f"a front needs at least {MIN_GROUPS} {replay.group_kind}s with a cost, so that one half can be judged by what the "
            f"other half chose; there are {len(groups)}"
        )
    is_first = split_halves(base[groups].to_numpy(np.float64))
    halves = [{name: table.loc[groups[chosen]].sum() for name, table in tables.items()} for chosen in (is_first, ~is_first)]
    fronts = [find_front(half["usd"].to_numpy(), half["evicted_tokens"].to_numpy()) for half in halves]
    rows = [
        {
            "setting": names[place],
            "change": _compare(halves[1]["usd"], names[place]),
            "chosen_change": _compare(halves[0]["usd"], names[place]),
            "evicted_tokens": int(halves[1]["evicted_tokens"][names[place]]),
            "compactions": int(halves[1]["compactions"][names[place]]),
            "on_other_front": bool(fronts[1][place]),
        }
        for place in np.argsort(halves[0]["usd"].to_numpy(), kind="stable")
        if fronts[0][place]
    ]
    return Tuning(
        front=pd.DataFrame(rows),
        settings={setting.name: setting for setting in settings},
        rule=rule,
        groups=len(groups),
        group_kind=replay.group_kind,
        reread_tokens=replay.band.middle_tokens,
        replay=replay,
    )


def list_variations(policy: str, thresholds: Sequence[int] = TUNED_THRESHOLDS) -> dict[str, tuple[int, ...]]:
    """Return values of a policy's fields to try: of each number that says how much is kept, and of a threshold in tokens.

    Raises:
        UsageError: There is no such policy.
    """
    default: Any = resolve_policy(policy)
    numbers = {field.name: getattr(default, field.name) for field in fields(default)}
    whole = {name: value for name, value in numbers.items() if isinstance(value, int) and not isinstance(value, bool)}
    kept = {
        name: tuple(dict.fromkeys(max(1, round(factor * value)) for factor in _FACTORS))
        for name, value in whole.items()
        if name.startswith("keep") and value > 0 and name != "keep_idle_results"
    }
    return {**({_TRIGGER: tuple(thresholds)} if _TRIGGER in whole else {}), **kept}


def find_front(costs: Numbers, evicted: Numbers) -> NDArray[np.bool_]:
    """Return which of several settings are on the front.

    No other setting costs at most as much and evicts at most as much, with less of either. Of equal settings, the first counts.

    Args:
        costs: Cost of each setting.
        evicted: Number of tokens that it evicts.
    """
    at_most = (costs[:, None] <= costs) & (evicted[:, None] <= evicted)
    is_earlier = np.arange(len(costs))[:, None] < np.arange(len(costs))
    less = (costs[:, None] < costs) | (evicted[:, None] < evicted) | is_earlier
    front: NDArray[np.bool_] = np.logical_not(np.logical_and(at_most, less).any(axis=0))
    return front


def write_plan_line(setting: ReplaySetting) -> str:
    """Return the lines of a plan that give a trial a setting."""
    changes = "".join(f", {field} = {value}" for field, value in setting.changes)
    lines = [f'policy = {{ kind = "{setting.policy}"{changes} }}']
    if setting.window_tokens is not None:
        lines.append(f"window_tokens = {setting.window_tokens}")
    return "\n".join(lines)


def describe_agent_setting(setting: ReplaySetting) -> str:
    """Return the documented setting with which the agent itself compacts at the same size; empty if none is known."""
    known = AGENT_SETTINGS.get(setting.policy.partition("@")[0])
    if known is None or setting.threshold_tokens is None:
        return ""
    share = setting.threshold_tokens / AGENT_WINDOW_TOKENS
    if share > 1 and "{tokens}" not in known.text:
        return ""
    text = known.text.format(tokens=setting.threshold_tokens, share=share, percent=100 * share)
    window = "" if "{tokens}" in known.text else f", for a window of {AGENT_WINDOW_TOKENS:,} tokens"
    return f"{text}{window} ({known.source})"


def _price_rereading(replay: Replay) -> Numbers:
    """Return the cost of each row of a replay's costs in USD, with the middle of the band read again."""
    usd = replay.costs[list(REREAD_COLUMNS)].to_numpy(np.float64)
    place = int(np.clip(np.searchsorted(REREAD_TOKENS, replay.band.middle_tokens, side="right") - 1, 0, len(REREAD_TOKENS) - 2))
    low, high = REREAD_TOKENS[place], REREAD_TOKENS[place + 1]
    share = (replay.band.middle_tokens - low) / (high - low)
    priced: Numbers = (1 - share) * usd[:, place] + share * usd[:, place + 1]
    return priced


def _compare(usd: pd.Series, name: str) -> float:
    return float(usd[name] / usd[AS_IT_WAS] - 1)
