"""Changes that a user can make, each with its effect on the bill and how certain the effect is."""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from harness.errors import format_count
from harness.replay.bills import OWN
from harness.replay.choice import estimate_saving
from harness.replay.sentences import describe_choice, format_usd
from harness.replay.sessions import Replay
from harness.replay.settings import AS_IT_WAS, BY_HAND
from harness.text import format_percent

Grade: TypeAlias = Literal["measured", "modelled", "needs a test"]
"""How sure the effect of a change is.

* `measured`: it follows from reported usage.
* `modelled`: it follows from the rules of the cache, if the agent acts as recorded.
* `needs a test`: it depends on what the agent must read again, which only a run of tasks can show.
"""


class Change(NamedTuple):
    """Change of a setting or a habit.

    Args:
        text: Change, in words.
        saving_usd: Saving in USD; negative if it costs more.
        low_usd: Lower end of the 95 % interval.
        high_usd: Upper end of the interval.
        meaning: What it means, in words.
        grade: How sure it is.
    """

    text: str
    saving_usd: float
    low_usd: float
    high_usd: float
    meaning: str
    grade: Grade

    def format_saving(self) -> str:
        """Return the effect on the bill with its interval, such as `−$96 [−$118, −$71]`."""
        effect = f"{'−' if self.saving_usd >= 0 else '+'}{format_usd(self.saving_usd)}"
        ends = sorted((-self.high_usd, -self.low_usd))
        return f"{effect} [{', '.join([('−' if end < 0 else '+') + format_usd(end) for end in ends])}]"


def list_changes(replay: Replay) -> list[Change]:
    """Return what a user can change under the first rule of a replay, the largest saving first."""
    rule = replay.rules[0]
    changes = [*_list_settings(replay, rule), *_list_lifetimes(replay, rule), *_list_compactions_by_hand(replay, rule)]
    return sorted(changes, key=lambda change: -change.saving_usd)


def _list_settings(replay: Replay, rule: str) -> list[Change]:
    choice = replay.choices[rule]
    changes = []
    if choice is not None and choice.chosen != (AS_IT_WAS, AS_IT_WAS):
        meaning = f"{choice.dearer} of {format_count(choice.groups, replay.group_kind)} would have cost more"
        if not choice.dearer and min(choice.low_usd, choice.high_usd) < 0:
            meaning += "; the interval is wider, because other halves can choose a dearer setting"
        text = f"Set {describe_choice(choice.chosen)}, chosen on the other half"
        changes.append(Change(text, choice.saving_usd, choice.low_usd, choice.high_usd, meaning, "needs a test"))
    rows = replay.settings[(replay.settings["rule"] == rule) & (replay.settings["compactions"] > 0)]
    rows = rows[~rows["setting"].isin([AS_IT_WAS, BY_HAND])]
    chosen = [_name_policy(name) for name in choice.chosen] if choice else []
    rows = rows.assign(policy=[_name_policy(name) for name in rows["setting"]])
    rows = rows[~rows["policy"].isin(chosen)].sort_values("usd").drop_duplicates("policy").head(3)
    for row in rows.itertuples():
        meaning = f"best threshold of this policy in hindsight; {_describe_even(row.break_even_tokens)}"
        changes.append(
            Change(f"Set {row.setting}", row.saving_usd, row.saving_low_usd, row.saving_high_usd, meaning, "needs a test")
        )
    return changes


def _name_policy(setting: str) -> str:
    return str(setting).partition(" at ")[0]


def _describe_even(tokens: float | None) -> str:
    if tokens is None or np.isnan(tokens):
        return "cheaper even if 40,000 tokens are read again"
    return "never cheaper" if tokens == 0 else f"cheaper if fewer than {tokens:,.0f} tokens are read again"


def _list_lifetimes(replay: Replay, rule: str) -> list[Change]:
    """Return the effect of each other lifetime of the first rule's cache on what was run."""
    base = rule.partition(":")[0]
    own = _sum_groups(replay.costs, rule)
    changes = []
    for other in replay.rules[1:]:
        name, _, lifetime = other.partition(":")
        if name != base or not lifetime or not len(own):
            continue
        saving, low, high = estimate_saving(
            _sum_groups(replay.costs, other).reindex(own.index).to_numpy(np.float64), own.to_numpy()
        )
        pauses = int(replay.sessions["long_pauses"].sum())
        share = pauses / max(1, int(replay.sessions["calls"].sum()))
        meaning = f"{format_count(pauses, 'pause')} of more than five minutes, before {format_percent(share, 1)} of your calls"
        said = f"Keep the cache for {lifetime}" + (" where the provider offers it" if base == OWN else "")
        changes.append(Change(said, saving, low, high, meaning, "modelled"))
    return changes


def _list_compactions_by_hand(replay: Replay, rule: str) -> list[Change]:
    row = replay.find_setting(BY_HAND, rule)
    if not row["compactions"]:
        return []
    meaning = f"before {format_count(int(row['compactions']), 'pause')} after which the prompt had more than twice what stays"
    return [
        Change(
            "Compact by hand before a pause",
            float(row["saving_usd"]),
            float(row["saving_low_usd"]),
            float(row["saving_high_usd"]),
            meaning,
            "needs a test",
        )
    ]


def _sum_groups(costs: pd.DataFrame, rule: str) -> "pd.Series[float]":
    rows = costs[(costs["rule"] == rule) & (costs["setting"] == AS_IT_WAS) & (costs["reread_0_usd"] > 0)]
    return rows.groupby("group")["reread_0_usd"].sum()
