"""Replay of all sessions in a folder: tables of their cost, and of the cost of each setting under each price rule."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import platformdirs

from harness.errors import UsageError, format_count
from harness.inspection.distinctive_words import ALL_KINDS, Survival
from harness.inspection.recording_folder import NO_RECORDING, find_files
from harness.prices.rules import load_rules
from harness.prices.terms import parse_rule_name
from harness.replay.bills import OWN, REREAD_TOKENS, choose_terms
from harness.replay.chains import Numbers
from harness.replay.choice import MIN_GROUPS, CrossFit, cross_fit, estimate_saving
from harness.replay.later_use import KINDS, BoundaryCounts, ExtraReading, estimate_reading
from harness.replay.session_files import FileReplay, replay_files
from harness.replay.session_replay import PaidParts, ReplayPlan, SessionReplay
from harness.replay.settings import AS_IT_WAS, BY_HAND, DEFAULT_POLICIES, DEFAULT_THRESHOLDS, ReplaySetting, list_settings

DEFAULT_RULES = (OWN, f"{OWN}:1h", "anthropic-2026-10:1h")
"""Rules of a replay if none are named: the provider's own, its own with a cache of an hour, and one with cheap reads."""
ASSUMED_REREAD_TOKENS = (0.0, 10_000.0, 20_000.0)
"""Low end, middle and high end of the tokens read again after each compaction, if the recordings do not say more."""
SIMULATED = "simulated"
"""Word that chooses the band of the simulated source."""
SIMULATED_REREAD_SHARES = (0.0, 0.07, 0.11)
"""Low end, middle and high end of the tokens read again per evicted token, in simulated sessions.

From the results of `experiments/reacquisition_tax` (480 trials, level L0), policy *sliding* at a compression of 5×: none, half
and all of what the agent needs can be read again. Real agents read more than what they need.
"""
MIN_COVERED_SHARE = 0.5
"""Smallest share of the dollars that the replay must cover for a headline."""
PAID_COLUMNS = tuple(PaidParts.__dataclass_fields__)
BILL_COLUMNS = ("read_usd", "new_usd", "rewarmed_usd", "edited_usd", "uncached_usd", "output_usd", "summary_usd")
REREAD_COLUMNS = tuple(f"reread_{tokens}_usd" for tokens in REREAD_TOKENS)
LEVEL = "L2-open"
"""Level of evidence: recorded sessions under another setting, with the recorded actions."""


class RereadBand(NamedTuple):
    """Tokens that an agent reads again after a compaction.

    Args:
        low_tokens: Low end.
        middle_tokens: Number with which settings are chosen.
        high_tokens: High end.
        source: Where the numbers come from, in words.
    """

    low_tokens: float
    middle_tokens: float
    high_tokens: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay of the sessions in a folder, as pandas tables; returned by `replay_sessions`.

    Attributes:
        sessions: One row per session: file, ids, agent, model, group, times, calls, the paid cost by part, its part that the
            replay covers, and the modelled cost of the covered part, in USD.
        costs: One row per session, setting and rule: the modelled bill by part if nothing is read again, and its sum for each
            number of tokens read again after each compaction (`reread_10000_usd`), in USD.
        settings: One row per setting and rule, with what was run (`as it was`) first and compactions by hand before pauses
            last: cost in USD and change against what was really run at the low end, the middle and
            the high end of the band, with a 95 % interval, the number of groups that get dearer, and the number of tokens read
            again at which nothing is saved (`break_even_tokens`; None if there is no such number up to 40,000).
        boundaries: One row per compaction of an agent (`is_real`) and per shifted boundary, at which nothing was compacted:
            evicted tokens, repeated calls among the next 20 with the tokens of their results, calls on the same path, numbers of
            distinctive words by kind that were evicted, of these used later before they were seen again, and surviving in view;
            `later_use_of_evicted` is the share of all evicted words that was used later.
        survival: One row per kind of word, over all compactions of the agents: words in the evicted messages, and those of them
            that stand in the view if a summary keeps `nothing`, under an `extractive` stand-in (the beginnings of the evicted
            messages, cut to the length of the agent's summary), and under the agents' `native` compactions.
        reading: What was read again after the agents' own compactions, less chance; None without enough compactions.
        choices: For each rule, the saving of settings that one half of the groups chose for the other.
        rules: Names of the rules.
        group_kind: Kind of the groups: `project`, `day` or `session`.
        band: Tokens read again after each compaction.
        refused: Files that could not be read, each with the reason.
        other_files: Number of files that hold no session.
        notes: Settings that are not possible, each with the reason.
        tried: Settings that were tried, in the order of `settings`.
    """

    sessions: pd.DataFrame
    costs: pd.DataFrame
    settings: pd.DataFrame
    boundaries: pd.DataFrame
    survival: pd.DataFrame
    reading: ExtraReading | None
    choices: Mapping[str, CrossFit | None]
    rules: tuple[str, ...]
    group_kind: str
    band: RereadBand
    refused: tuple[tuple[str, str], ...]
    other_files: int
    notes: tuple[str, ...]
    tried: tuple[ReplaySetting, ...]

    @property
    def paid_usd(self) -> float:
        """Paid cost of all calls whose usage and price are known, at list price."""
        return float(self.sessions["paid_usd"].sum())

    @property
    def covered_share(self) -> float:
        """Share of the paid cost that the replay covers; 0 if nothing was paid."""
        paid_usd = self.paid_usd
        return float(self.sessions["covered_usd"].sum()) / paid_usd if paid_usd else 0.0

    def find_setting(self, setting: str, rule: str) -> "pd.Series[Any]":
        """Return the row of `settings` for a setting and a rule."""
        rows = self.settings[(self.settings["setting"] == setting) & (self.settings["rule"] == rule)]
        return rows.iloc[0]


def replay_sessions(
    folder: str | os.PathLike[str] | Sequence[Path],
    policies: Sequence[str] = DEFAULT_POLICIES,
    thresholds: Sequence[int] = DEFAULT_THRESHOLDS,
    rules: Sequence[str] | None = None,
    *,
    file: Path | None = None,
    reread_tokens: Sequence[float] | Literal["simulated"] | None = None,
    variations: Mapping[str, Sequence[int]] | None = None,
    bill_only: bool = False,
    workers: int | None = None,
    cache_folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Return what recorded sessions would have cost under other compaction settings and price rules.

    The agent's actions are taken as recorded (level L2-open), so a saving says nothing about success. Each stretch between two
    compactions of the agent is a session of its own, on which each policy runs with each threshold. Nothing is sent anywhere, and
    files that did not change since the last replay are not opened again.

    Args:
        folder: Folder with recordings of any known format or with journals, a single file, or several of them.
        policies: Names of policies. Default: `claude-code`, `codex`, `keep-last` and `anthropic-clear-tool-uses`.
        thresholds: Numbers of tokens above which they compact. Default: 50,000 to 200,000.
        rules: Names of price rules, each with an optional lifetime, such as `anthropic-2026-10:1h`. `own` is the rule of each
            session's provider with the prices of its model. The first rule is the one under which the setting is chosen. Default:
            `DEFAULT_RULES`, and only the first of them for the bill alone.
        file: TOML file with further rules, see `harness.prices.rules.load_rules`. Default: none.
        reread_tokens: Low end, middle and high end of the tokens read again after each compaction. Default: 0, 10,000 and 20,000,
            an assumption. `simulated` takes the shares of evicted tokens that simulated agents read again
            (`SIMULATED_REREAD_SHARES`), of the mean eviction of all settings.
        variations: Values of fields of the policies, each combination of which is a setting of its own. Default: their defaults.
        bill_only: Whether to try no setting and to look for nothing behind compactions, which takes a fraction of the time: the
            replay then has what was paid and what the rules make of it. Default: False.
        workers: Number of processes. Default: one for each processor.
        cache_folder: Folder for replays of files. Default: the user's cache folder.
        on_progress: Function that is called with the number of files done and of all files.

    Raises:
        UsageError: There is no such folder or no session in it, a policy, threshold, rule or lifetime is unknown, or no setting
            is possible.

    Example::

        from harness.replay import replay_sessions
        replay = replay_sessions("~/.claude/projects", thresholds=[80_000, 150_000])
        replay.settings[["setting", "rule", "change", "low_change", "high_change"]]
    """
    places = list(folder) if isinstance(folder, Sequence) and not isinstance(folder, str) else [Path(folder).expanduser()]
    for place in places:
        if not place.exists():
            raise UsageError(f"there is no folder {str(place)!r}; pass a folder with recordings or journals, or one file")
    if reread_tokens is not None and reread_tokens != SIMULATED:
        _check_band(reread_tokens)
    known_rules = load_rules(file)
    if rules is None:
        rules = DEFAULT_RULES[:1] if bill_only else DEFAULT_RULES
    _check_rules(rules, dict(known_rules))
    settings, notes = ((), ()) if bill_only else list_settings(policies, thresholds, variations)
    plan = ReplayPlan(settings=settings, rules=tuple(dict.fromkeys(rules)), known_rules=known_rules)
    paths = sorted({path for place in places for path in find_files(place)})
    default = platformdirs.user_cache_path("harness") / "replays"
    files = replay_files(paths, plan, Path(cache_folder) if cache_folder else default, workers=workers, on_progress=on_progress)
    if reread_tokens is None:
        band = RereadBand(*ASSUMED_REREAD_TOKENS, "an assumption")
    elif reread_tokens == SIMULATED:
        band = _simulate_band(files)
    else:
        band = RereadBand(*_check_band(reread_tokens), "given with the command")
    return build_replay(files, plan, band, notes, places)


def _check_rules(rules: Sequence[str], known: dict[str, object]) -> None:
    if not rules:
        raise UsageError("name at least one price rule, such as own")
    for name in rules:
        base, lifetime = parse_rule_name(name)
        if base != OWN:
            choose_terms(name, "", known)  # type: ignore[arg-type]
        elif lifetime and not any(lifetime in rule.lifetimes_seconds for rule in load_rules().values()):
            raise UsageError(f"no rule of a provider has the lifetime {lifetime!r} of {name!r}; write own:1h, for example")


def _simulate_band(files: Sequence[FileReplay]) -> RereadBand:
    """Return the band of simulated sessions for the mean eviction of all settings."""
    costs = [cost for file in files for session in file.sessions for cost in session.costs]
    compactions = sum(cost.compactions for cost in costs)
    evicted = sum(cost.evicted_tokens for cost in costs) / compactions if compactions else 0.0
    low, middle, high = (min(share * evicted, REREAD_TOKENS[-1]) for share in SIMULATED_REREAD_SHARES)
    return RereadBand(low, middle, high, "simulated, see experiments/reacquisition_tax")


def _check_band(reread_tokens: Sequence[float] | str) -> tuple[float, float, float]:
    if isinstance(reread_tokens, str):
        raise UsageError(f"reread tokens {reread_tokens!r}: expected three numbers, or {SIMULATED!r}")
    if len(reread_tokens) != 3 or not 0 <= reread_tokens[0] <= reread_tokens[1] <= reread_tokens[2] <= REREAD_TOKENS[-1]:
        raise UsageError(
            f"reread tokens {list(reread_tokens)!r}: expected low end, middle and high end, such as 0, 10000 and 20000, "
            f"up to {REREAD_TOKENS[-1]:,}"
        )
    low, middle, high = map(float, reread_tokens)
    return low, middle, high


class _Row(NamedTuple):
    path: str
    session: SessionReplay


def build_replay(
    files: Sequence[FileReplay], plan: ReplayPlan, band: RereadBand, notes: Sequence[str], places: Sequence[Path]
) -> Replay:
    """Return the tables of the replays of some files.

    Raises:
        UsageError: There is no session.
    """
    rows = sorted(
        (_Row(file.path, session) for file in files for session in file.sessions),
        key=lambda row: (row.session.started_at_ms or 0, row.path),
    )
    refused = tuple((file.path, file.refusal) for file in files if file.refusal not in {"", NO_RECORDING})
    if not rows:
        names = ", ".join(repr(str(place)) for place in places)
        reasons = f" ({format_count(len(refused), 'file')} refused, the first: {refused[0][1]})" if refused else ""
        raise UsageError(f"there is no session in {names}{reasons}; pass a folder with recordings or journals")
    kinds = _group(rows, places)
    copies = _find_copies(rows)
    numbered = [(row, group, number in copies) for number, (row, group) in enumerate(zip(rows, kinds.groups, strict=True))]
    sessions = pd.DataFrame([_build_session_row(row, group, is_copy) for row, group, is_copy in numbered])
    costs = pd.DataFrame(
        [cost for row, group, is_copy in numbered if not is_copy for cost in _list_cost_rows(row, group)],
        columns=[
            "session_id",
            "group",
            "setting",
            "rule",
            "compactions",
            "evicted_tokens",
            "largest_tokens",
            *BILL_COLUMNS,
            *REREAD_COLUMNS,
        ],
    )
    setting_names = [AS_IT_WAS, *(setting.name for setting in plan.settings), BY_HAND] if plan.settings else [AS_IT_WAS]
    matrices = {rule: _Matrix(costs[costs["rule"] == rule], setting_names) for rule in plan.rules}
    settings = pd.DataFrame([row for rule in plan.rules for row in _list_setting_rows(rule, matrices[rule], setting_names, band)])
    impossible = Counter(text.partition(": ")[0] for row in rows for text in row.session.impossible)
    failures = tuple(f"{name} did not work in {format_count(count, 'session')}" for name, count in impossible.items())
    return Replay(
        sessions=sessions,
        costs=costs,
        settings=settings,
        survival=_sum_survival([one for row, _, is_copy in numbered if not is_copy for one in row.session.boundaries]),
        boundaries=pd.DataFrame(
            [_build_boundary_row(row, one) for row, _, is_copy in numbered if not is_copy for one in row.session.boundaries]
        ),
        reading=estimate_reading([row.session.boundaries for row, _, is_copy in numbered if not is_copy]),
        choices={rule: one.choose(band.middle_tokens, setting_names) for rule, one in matrices.items()},
        rules=plan.rules,
        group_kind=kinds.kind,
        band=band,
        refused=refused,
        other_files=sum(file.refusal == NO_RECORDING for file in files),
        notes=(*notes, *failures),
        tried=plan.settings,
    )


class _Groups(NamedTuple):
    kind: str
    groups: list[str]


def _group(rows: Sequence[_Row], places: Sequence[Path]) -> _Groups:
    """Return the group of each session: its project, which is the folder of its file; its day; or itself.

    The first of these of which there are enough with a price is taken. A sub-agent belongs to the group of its parent.
    """
    ids = {row.session.session_id: number for number, row in enumerate(rows) if row.session.session_id}
    tops = [ids.get(row.session.parent_id, number) for number, row in enumerate(rows)]
    choices = {
        "project": [name_project(Path(rows[top].path), places) for top in tops],
        "day": [_name_day(rows[top].session) for top in tops],
        "session": [f"{rows[top].path} {rows[top].session.session_id}" for top in tops],
    }
    for kind, names in choices.items():
        if len({name for name, row in zip(names, rows, strict=True) if row.session.covered_usd > 0}) >= MIN_GROUPS:
            return _Groups(kind, names)
    return _Groups("session", choices["session"])


def name_project(path: Path, places: Sequence[Path]) -> str:
    """Return the name of the project of a file: its folder below the place that was read, with the home folder masked."""
    place = next((place for place in places if place in path.parents), path.parent)
    home = str(Path.home())
    return str(path.parent.relative_to(place)).replace(home, "~").replace(home.replace("/", "-"), "~")


def _name_day(session: SessionReplay) -> str:
    return "?" if session.started_at_ms is None else f"{pd.to_datetime(session.started_at_ms, unit='ms', utc=True):%Y-%m-%d}"


def _find_copies(rows: Sequence[_Row]) -> set[int]:
    """Return the sessions, in order of time, with a call that an earlier session made: resumed and forked ones."""
    seen: set[str] = set()
    copies = set()
    for number, row in enumerate(rows):
        keys = set(row.session.request_keys)
        if keys & seen or row.session.copied_calls:
            copies.add(number)
        seen |= keys
    return copies


def _build_session_row(row: _Row, group: str, is_copy: bool) -> Mapping[str, object]:
    session = row.session
    as_it_was = next((cost for cost in session.costs if cost.setting == AS_IT_WAS), None)
    return {
        "file": row.path,
        "session_id": session.session_id,
        "parent_id": session.parent_id,
        "agent": session.agent,
        "model": session.model,
        "group": group,
        "started_at": pd.to_datetime(session.started_at_ms, unit="ms", utc=True),
        "ended_at": pd.to_datetime(session.ended_at_ms, unit="ms", utc=True),
        "calls": session.calls,
        "calls_without_usage": session.calls_without_usage,
        "unpriced_calls": session.unpriced_calls,
        "reports_cache": session.reports_cache,
        "has_times": session.has_times,
        "long_pauses": session.long_pauses,
        "has_copied_calls": is_copy,
        **{name: 0.0 if is_copy else getattr(session.paid, name) for name in PAID_COLUMNS},
        "paid_usd": 0.0 if is_copy else session.paid.total_usd,
        "covered_usd": 0.0 if is_copy else session.covered_usd,
        "modelled_usd": 0.0 if is_copy or as_it_was is None else as_it_was.bill.total_usd,
    }


def _list_cost_rows(row: _Row, group: str) -> list[Sequence[object]]:
    return [
        (
            row.session.session_id,
            group,
            cost.setting,
            cost.rule,
            cost.compactions,
            cost.evicted_tokens,
            cost.largest_tokens,
            *(getattr(cost.bill, name) for name in BILL_COLUMNS),
            *cost.reread_usd,
        )
        for cost in row.session.costs
    ]


def _sum_survival(boundaries: Sequence[BoundaryCounts]) -> pd.DataFrame:
    rows = [row for one in boundaries for row in one.survival]
    table = pd.DataFrame(rows, columns=list(Survival._fields))
    return table.groupby("kind").sum().reindex(list(ALL_KINDS), fill_value=0).reset_index()


def _build_boundary_row(row: _Row, counts: BoundaryCounts) -> Mapping[str, object]:
    return {
        "file": row.path,
        "session_id": row.session.session_id,
        "is_real": counts.is_real,
        "step": counts.step,
        "evicted_tokens": counts.evicted_tokens,
        "later_use_of_evicted": counts.later_use_of_evicted,
        "repeated_calls": counts.repeated_calls,
        "repeated_tokens": counts.repeated_tokens,
        "same_target_calls": counts.same_target_calls,
        "same_target_tokens": counts.same_target_tokens,
        **{f"evicted_{kind}s": counts.evicted_words[kind] for kind in KINDS},
        **{f"used_{kind}s": counts.used_words[kind] for kind in KINDS},
        **{f"surviving_{kind}s": counts.surviving_words[kind] for kind in KINDS},
    }


class _Matrix:
    """Costs of the groups under one rule: groups × settings × tokens read again."""

    def __init__(self, costs: pd.DataFrame, names: Sequence[str]) -> None:
        self.compactions = costs.groupby("setting")["compactions"].sum()
        sums = costs.groupby(["group", "setting"], sort=True)[list(REREAD_COLUMNS)].sum()
        is_paid = (costs["setting"] == AS_IT_WAS) & (costs[REREAD_COLUMNS[0]] > 0)
        self.groups = sorted(costs.loc[is_paid, "group"].unique())
        index = pd.MultiIndex.from_product([self.groups, names])
        self.usd = sums.reindex(index).to_numpy(np.float64).reshape(len(self.groups), len(names), len(REREAD_COLUMNS))

    def price(self, tokens: float) -> Numbers:
        """Return the costs of groups × settings if so many tokens are read again after each compaction."""
        place = int(np.clip(np.searchsorted(REREAD_TOKENS, tokens, side="right") - 1, 0, len(REREAD_TOKENS) - 2))
        low, high = REREAD_TOKENS[place], REREAD_TOKENS[place + 1]
        share = (tokens - low) / (high - low)
        costs: Numbers = (1 - share) * self.usd[:, :, place] + share * self.usd[:, :, place + 1]
        return costs

    def choose(self, tokens: float, names: Sequence[str]) -> CrossFit | None:
        """Return the saving of the settings that the halves of the groups choose for each other; None if none was tried."""
        costs, tried = self.price(tokens), names[:-1]  # by hand is no setting of an agent
        return cross_fit(costs[:, :-1], costs[:, 0], tried) if len(costs) and tried else None


def _list_setting_rows(rule: str, matrix: _Matrix, names: Sequence[str], band: RereadBand) -> list[Mapping[str, object]]:
    rows = list[Mapping[str, object]]()
    low, middle, high = (matrix.price(tokens) for tokens in (band.low_tokens, band.middle_tokens, band.high_tokens))
    for place, name in enumerate(names):
        base = middle[:, 0]
        whole = float(base.sum())
        saving, low_saving, high_saving = estimate_saving(middle[:, place], base) if len(base) else (0.0, 0.0, 0.0)
        rows.append(
            {
                "setting": name,
                "rule": rule,
                "usd": float(middle[:, place].sum()),
                "low_usd": float(low[:, place].sum()),
                "high_usd": float(high[:, place].sum()),
                "change": -saving / whole if whole else float("nan"),
                "low_change": float(low[:, place].sum()) / whole - 1 if whole else float("nan"),
                "high_change": float(high[:, place].sum()) / whole - 1 if whole else float("nan"),
                "saving_usd": saving,
                "saving_low_usd": low_saving,
                "saving_high_usd": high_saving,
                "dearer_groups": int((middle[:, place] > 1.005 * base).sum()),
                "groups": len(base),
                "compactions": int(matrix.compactions.get(name, 0)),
                "break_even_tokens": find_break_even(matrix.usd[:, place].sum(axis=0), whole)
                if matrix.compactions.get(name, 0)
                else None,
            }
        )
    return rows


def find_break_even(cost_usd: Numbers, as_it_was_usd: float) -> float | None:
    """Return the tokens read again after each compaction at which a setting costs what was really run.

    Args:
        cost_usd: Cost in USD for each number of `REREAD_TOKENS`, which only grows.
        as_it_was_usd: Cost of what was really run in USD.

    Returns:
        Number of tokens, 0 if the setting is not cheaper even if nothing is read again; None if it is cheaper at all numbers.
    """
    if not len(cost_usd) or cost_usd[0] >= as_it_was_usd:
        return 0.0
    if cost_usd[-1] < as_it_was_usd:
        return None
    return float(np.interp(as_it_was_usd, np.maximum.accumulate(cost_usd), REREAD_TOKENS))
