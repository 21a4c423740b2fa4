"""What is said of an experiment: its tables and sentences as sections of plain strings, before anything is laid out.

No estimate stands here without its interval or range and its n. What must be known to believe a number (exposure, repeats, the
placebo check, what so many pairs can show) is part of every report and cannot be left out.
"""

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from harness.analysis.alerts import alert_sections
from harness.analysis.arms import ArmSummary, Spread, by_axis, in_order, set_aside, summarize
from harness.analysis.comparison import Arms, Comparison
from harness.analysis.formatting import Section, bounds, level_in_words, points, short_names, short_number, usd
from harness.analysis.metrics_sections import behaviour_sections
from harness.analysis.paired_estimates import PairedRatio
from harness.analysis.statistics import holm, minimum_detectable_effect, smallest_p, what_pairs_can_show
from harness.analysis.tables import Tables
from harness.analysis.validity import pooled, repeats, run_again
from harness.errors import counted


def sections(results: Tables, against: str | None = None) -> Iterator[Section]:
    """The sections of a report on results of one fidelity level.

    Args:
        results: of one level.
        against: the arm that the others are compared with; None = each arm without compaction and each arm that was
            repeated, or else the first arm.

    Raises:
        UnknownName: no such arm.
    """
    arms = summarize(results)
    yield _outcomes(arms)
    yield _efforts(arms)
    yield from _axes(results)
    baselines = [against] if against is not None else _baselines(results)
    comparable = Arms(results)
    contrasts = {name: _contrasts(comparable, arms, name) for name in baselines}
    for name, comparisons in contrasts.items():
        if comparisons:
            yield _against(name, arms, comparisons)
    yield from behaviour_sections(results)
    yield from alert_sections(results)
    yield _trust(results, [one for comparisons in contrasts.values() for one in comparisons])


def _outcomes(arms: Sequence[ArmSummary]) -> Section:
    heading, names = short_names([one.arm for one in arms])
    counts = {
        "never fired": [one.never_fired for one in arms],
        "no effect": [one.no_effect for one in arms],
        "never asked": [one.never_asked for one in arms],
        "treatment missed": [one.untreated for one in arms],
        "step limit": [one.at_step_limit for one in arms],
        "overflow": [one.overflowed for one in arms],
        "set aside": [one.set_aside for one in arms],
    }
    there = {name: column for name, column in counts.items() if any(column)}
    return Section(
        heading=f"How the trials ended ({level_in_words(arms[0].level)})",
        columns=(heading, "n", "success, 95 % Wilson", "score, mean and range", "exposed", *there),
        rows=tuple(
            (
                names[one.arm],
                str(one.success.trials),
                str(one.success),
                _mean(one.score),
                f"{one.exposure.successes}/{one.exposure.trials}",
                *(str(column[place]) for column in there.values()),
            )
            for place, one in enumerate(arms)
        ),
        notes=(
            "Success = every check passed; score = share of checks passed; exposed = at least one compaction was applied.",
            *_inertness(arms),
            *([f"In no arm: {', '.join(name for name in counts if name not in there)}."] if len(there) < len(counts) else []),
        ),
    )


INERT = {
    "never_fired": "the policy was never due, so this is a control under another name",
    "no_effect": "the policy was due and never changed the view, so this is a control under another name",
    "never_asked": "its summarizer was never asked, so this says nothing about summaries",
}
"""What is said of an arm all of whose trials were like that."""


def _inertness(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """A sentence for each way in which whole arms were not what they are called, with their names."""
    for name, said in INERT.items():
        found = [one.arm for one in arms if one.success.trials and getattr(one, name) == one.success.trials]
        if found:
            yield f"Inert in every trial: {', '.join(found)}: {said}."


def _efforts(arms: Sequence[ArmSummary]) -> Section:
    heading, names = short_names([one.arm for one in arms])
    return Section(
        heading="What the trials took: median [least–most] per trial, and total cost",
        columns=(heading, "n", "rounds", "steps", "prompt tokens", "agent USD", "summarizer USD", "total USD"),
        rows=tuple(
            (
                names[one.arm],
                str(one.success.trials),
                _range(one.rounds),
                _range(one.steps),
                _range(one.prompt_tokens),
                usd(one.cost_usd.total),
                usd(one.summarizer_cost_usd.total),
                usd(one.cost_usd.total + one.summarizer_cost_usd.total),
            )
            for one in arms
        ),
        notes=(
            "Rounds = applied compactions; tokens by the provider's (or the scripted model's) tokenizer; ? = price not known.",
        ),
    )


def _axes(results: Tables) -> Iterator[Section]:
    rows = by_axis(results.trials)
    if rows.empty:
        return
    yield Section(
        heading="By axis, over everything else",
        columns=("axis", "value", "success, 95 % Wilson", "rounds", "prompt tokens"),
        rows=tuple(
            (str(one.axis), str(one.value), str(one.success), _range(one.rounds), _range(one.prompt_tokens))
            for one in rows.itertuples()
        ),
        notes=_shared_blocks(results, most=int(rows["trials"].max())),
    )


def _shared_blocks(results: Tables, most: int) -> tuple[str, ...]:
    if most <= len(results.trials[["task", "seed"]].drop_duplicates()):
        return ()
    return ("One task and seed stands in many of these trials, which resemble each other: the intervals are too narrow.",)


def _baselines(results: Tables) -> list[str]:
    """Arms without compaction, and arms that were run again; without any the first arm."""
    trials = results.trials
    controls = trials[trials["policy"] == "none"]["arm"]
    return list(dict.fromkeys([*controls, *run_again(trials)["arm_a"]])) or in_order(trials)[:1]


def _contrasts(comparable: Arms, arms: Sequence[ArmSummary], against: str) -> list[Comparison]:
    others = [one.arm for one in arms if one.arm != against]
    return [found for arm in others if (found := comparable.compare(arm, against)).counts.pairs]


def _against(name: str, arms: Sequence[ArmSummary], comparisons: Sequence[Comparison]) -> Section:
    adjusted = holm([one.p_value for one in comparisons])
    overflowed = sum(one.overflowed for one in arms if one.arm == name)
    of_control = (
        f"{counted(overflowed, 'trial')} of {name!r} ended because the window was full: differences to it say what any "
        "compaction is worth at this window, not which one."
    )
    heading, names = short_names([one.arm for one in arms])
    return Section(
        heading=f"On the same task and seed, against: {name}",
        columns=(heading, "pairs", "split", "points, 95 % Newcombe", "p", "Holm", "score", "tokens", "cost"),
        rows=tuple((names[one.a], *_contrast(one, p)) for one, p in zip(comparisons, adjusted, strict=True)),
        notes=(
            "Split: pairs in which both succeeded · only this arm · only that one · neither. Points: difference of rates.",
            f"p: exact McNemar. Holm: p adjusted for {counted(len(comparisons), 'comparison')} in this table.",
            "Score: mean difference, 95 % Student's t over tasks (seeds, when there is one task).",
            "Tokens, cost: ratio of totals, interval from resampled tasks; * = too few tasks for it to be trusted.",
            *([of_control] if overflowed else []),
        ),
    )


def _contrast(one: Comparison, adjusted: float) -> tuple[str, ...]:
    counts, ratios = one.counts, {ratio.metric: ratio for ratio in one.ratios}
    return (
        str(counts.pairs),
        f"{counts.both}·{counts.only_a}·{counts.only_b}·{counts.neither}",
        f"{100 * one.difference:+.0f} {points(one.interval)}",
        f"{one.p_value:.3g}",
        f"{adjusted:.3g}",
        f"{one.score.mean:+.2f}{bounds(one.score.interval)}",
        _ratio(ratios["prompt_tokens"]),
        _ratio(ratios["total_cost_usd"]),
    )


def _trust(results: Tables, comparisons: Sequence[Comparison]) -> Section:
    return Section(
        heading="What may be believed",
        notes=(
            str(repeats(results)),
            _placebo(comparisons),
            *_power(comparisons),
            *_lost(results.trials),
            *_meaning(str(results.trials["level"].iloc[0])),
        ),
    )


def _placebo(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return "placebo check: no two arms ran the same task and seed"
    return str(pooled([one.placebo for one in comparisons]))


def _power(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if not comparisons:
        return
    pairs = max(one.counts.pairs for one in comparisons)
    yield f"With {counted(pairs, 'pair')} the least p that is possible is {smallest_p(pairs):.2g}. {what_pairs_can_show(pairs)}"
    found = {share: minimum_detectable_effect(pairs, share) for share in (0.16, 0.26, 0.5)}
    said = [f"{100 * effect:.0f} points if {100 * share:.0f} % of pairs differ" for share, effect in found.items() if effect]
    if said:
        yield f"Smallest true difference found in 4 of 5 studies of this size (5 % level): {'; '.join(said)}."
    yield "An interval that contains 0 is not evidence of equality."


def _lost(trials: pd.DataFrame) -> Iterator[str]:
    lost = set_aside(trials)
    if len(lost):
        reasons = ", ".join(f"{count} × {reason}" for reason, count in lost["reason"].value_counts().items())
        yield f"{len(lost)} of {counted(len(trials), 'trial')} were lost by the machinery and are in no number above: {reasons}."


def _meaning(level: str) -> Iterator[str]:
    if level == "L0":
        yield (
            "Simulated: model and summarizer are scripted. These numbers say what a policy does to a session that depends on "
            "what it can see; they are no success rates of a real agent."
        )
    elif level == "L1":
        yield "The agent is scripted, only the summarizer is real: read what summaries keep, not how often a real agent succeeds."
    elif level == "L2-open":
        yield "Open-loop replay: the recorded actions assume the whole history. Read sizes and costs only, never success."


def _mean(spread: Spread) -> str:
    if isnan(spread.mean):
        return "–"
    return f"{spread.mean:.2f} [{spread.low:.2f}–{spread.high:.2f}]"


def _range(spread: Spread) -> str:
    if isnan(spread.median):
        return "–"
    number = short_number if spread.high >= 1000 else "{:g}".format
    return f"{number(spread.median)} [{number(spread.low)}–{number(spread.high)}]"


def _ratio(ratio: PairedRatio) -> str:
    if not ratio.pairs:
        return "–"
    return f"{ratio.of_totals:.2f}{bounds(ratio.of_totals_interval)}{'*' if ratio.warning else ''}"
