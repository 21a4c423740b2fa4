"""Page of a replay, *Your sessions, your bill*, as one HTML file that fetches nothing.

Everything is computed and drawn here; the script moves the lines when the reader chooses how much is read again. The page has no
texts of sessions unless excerpts are given, and names projects by their folders below the folder that was read.
"""

import base64
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harness.analysis.view_agreement import HEADS, NOTE, describe_asking, tabulate_probe
from harness.errors import format_count
from harness.inspection.distinctive_words import SURVIVAL_HEADS, SURVIVAL_NOTE
from harness.replay.bills import REREAD_TOKENS
from harness.replay.changes import list_changes
from harness.replay.excerpts import Excerpt
from harness.replay.later_use import KINDS
from harness.replay.probe import Probe
from harness.replay.probe_requests import SAYS_SOMETHING
from harness.replay.sentences import (
    PART_NAMES,
    build_headline,
    describe_agreement,
    describe_break_even,
    describe_method,
    describe_privacy,
    describe_reading,
    describe_rule_name,
    format_usd,
    list_uncounted,
    sum_paid,
)
from harness.replay.sessions import BILL_COLUMNS, REREAD_COLUMNS, Replay
from harness.replay.settings import AS_IT_WAS, format_thousands
from harness.reporting.page.document import (
    check_page_path,
    embed,
    escape,
    load_page_script,
    load_page_style,
    render_document,
    write_document,
)
from harness.reporting.page.session_blocks import compress
from harness.text import format_percent

STOPS = tuple(range(0, REREAD_TOKENS[-1] + 1, 1_000))
"""Numbers of tokens read again that the slider of the page offers."""
WIDTH, HEIGHT = 340, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 34
LOWEST, HIGHEST = -0.6, 0.6
"""Ends of the axis of changes, beyond which lines are cut off."""
MODELLED_NAMES = {
    "output_usd": "output",
    "read_usd": PART_NAMES["read_usd"],
    "new_usd": PART_NAMES["new_usd"],
    "rewarmed_usd": PART_NAMES["after_pauses_usd"],
    "edited_usd": PART_NAMES["after_edits_usd"],
    "uncached_usd": "not cached",
    "summary_usd": "summaries",
}
LINE_STYLES = 5
"""Number of styles of lines in the style sheet."""
MAX_PROJECTS = 30
MAX_EVENTS = 40


def write_bill_page(
    replay: Replay, path: str | os.PathLike[str], excerpts: Sequence[Excerpt] = (), probe: Probe | None = None
) -> Path:
    """Write the page of a replay as one HTML file, and return its path.

    Args:
        replay: Replay, as returned by `harness.replay.replay_sessions`.
        path: File to write.
        excerpts: Masked excerpts, as `harness.replay.excerpts.list_excerpts` returns them. Default: none.
        probe: Answers of a boundary probe. Default: none.

    Raises:
        StoreError: The file cannot be written.
    """
    return write_document(render_bill_page(replay, excerpts, probe), check_page_path(path))


def render_bill_page(replay: Replay, excerpts: Sequence[Excerpt] = (), probe: Probe | None = None) -> str:
    """Return the page of a replay as HTML."""
    changes = _compute_changes(replay)
    values = {"stops": STOPS, "changes": changes, "places": _place_thresholds(replay), "frame": _describe_frame()}
    body = "\n".join(
        [
            '<main class="p-page b-page">',
            "<h1>Your sessions, your bill</h1>",
            f'<p class="h-faint">{escape(_describe_sessions(replay, probe))}</p>',
            _render_card("In short", [f'<p class="b-say">{escape(line)}</p>' for line in build_headline(replay)]),
            _render_card("What you paid for", _render_paid(replay)),
            _render_card("What you can change", _render_changes(replay)),
            _render_card("What another setting would have cost", _render_settings(replay, changes)),
            _render_card("What your agents' own compactions dropped", [*_render_boundaries(replay), *_render_excerpts(excerpts)]),
            *([_render_card("What a model does with the compacted view", _render_probe(probe))] if probe else []),
            _render_card("Project by project", _render_projects(replay)),
            _render_card("What was not counted", _render_uncounted(replay, probe)),
            "</main>",
        ]
    )
    blocks = [embed("values", base64.b64encode(compress(values)).decode("ascii"))]
    return render_document("Your sessions, your bill", body, load_page_script("bill"), load_page_style("bill"), blocks)


def _describe_sessions(replay: Replay, probe: Probe | None) -> str:
    paid = replay.sessions[replay.sessions["paid_usd"] > 0]
    groups = format_count(paid["group"].nunique(), replay.group_kind)
    agents = ", ".join(sorted(paid["agent"].unique()))
    privacy = describe_privacy(probe.hosts if probe else ())
    said = f"{privacy[0].lower()}{privacy[1:]}"
    return f"Sessions of {agents or 'no agent with a known cost'} · {groups} · {said}"


def _render_card(heading: str, parts: Iterable[str]) -> str:
    return f'<section class="p-card" aria-label="{escape(heading)}"><h2>{escape(heading)}</h2>{"".join(parts)}</section>'


def _render_paid(replay: Replay) -> list[str]:
    """Return the bar of the paid cost by part, and the table of measured and modelled parts."""
    paid = sum_paid(replay)
    total = paid.total_usd
    if not total:
        return ["<p>No call has both usage and a known price.</p>"]
    named = [(name.removesuffix("_usd"), text, getattr(paid, name)) for name, text in PART_NAMES.items()]
    shown = [(kind, text, usd) for kind, text, usd in named if usd > 0]
    x, bars = 0.0, []
    for kind, text, usd in shown:
        width = 1000 * usd / total
        bars.append(
            f'<rect class="b-{kind}" x="{x:.1f}" width="{max(1.0, width - 2):.1f}" height="34"><title>{text}</title></rect>'
        )
        x += width
    frame = 'viewBox="0 0 1000 34" preserveAspectRatio="none" role="img" aria-label="Parts of the bill"'
    bar = f'<svg class="b-bar" {frame}>{"".join(bars)}</svg>'
    key = "".join(
        f"<li>{_draw_swatch('rect', 'b-' + kind)}{escape(text)} <b>{format_usd(usd)}</b> ({format_percent(usd / total)})</li>"
        for kind, text, usd in shown
    )
    again = paid.after_pauses_usd + paid.after_edits_usd + paid.unexplained_usd
    shares = [
        f"{format_percent(usd / total)} {what}"
        for usd, what in (
            (paid.read_usd, "for reading from the cache what had been sent before"),
            (again, "for writing to the cache again what had been in it"),
            (paid.output_usd, "for output"),
        )
        if usd > 0
    ]
    sentence = f"<p>Of {format_usd(total)}, you paid {', '.join(shares)}.</p>" if shares else ""
    return [sentence, bar, f'<ul class="b-key">{key}</ul>', _render_agreement(replay)]


def _draw_swatch(tag: str, kind: str) -> str:
    """Return the sign of a key: a filled square, or a piece of a line."""
    place = 'width="12" height="12"' if tag == "rect" else 'x1="0" x2="12" y1="6" y2="6"'
    return f'<svg class="b-swatch" viewBox="0 0 12 12" aria-hidden="true"><{tag} class="{kind}" {place}/></svg>'


def _render_agreement(replay: Replay) -> str:
    sentence = describe_agreement(replay)
    if not sentence:
        return ""
    rule = replay.rules[0]
    as_it_was = replay.costs[(replay.costs["setting"] == AS_IT_WAS) & (replay.costs["rule"] == rule)]
    sums = as_it_was[list(BILL_COLUMNS)].sum()
    paid = sum_paid(replay)
    measured = {
        "output_usd": paid.output_usd,
        "read_usd": paid.read_usd,
        "new_usd": paid.new_usd,
        "rewarmed_usd": paid.after_pauses_usd,
        "edited_usd": paid.after_edits_usd,
        "summary_usd": paid.summary_usd,
    }
    rows = [
        (text, format_usd(measured[name]) if name in measured else "–", format_usd(float(sums[name])))
        for name, text in MODELLED_NAMES.items()
        if float(sums[name]) > 0 or measured.get(name, 0.0) > 0
    ]
    rows += [
        (PART_NAMES[name], format_usd(getattr(paid, name)), "–")
        for name in ("unexplained_usd", "uncached_usd", "other_usd")
        if getattr(paid, name) > 0
    ]
    rows.append(("all", format_usd(paid.total_usd), format_usd(float(sums.sum()))))
    table = _render_table("Measured and modelled", ("part", "measured", f"modelled, {describe_rule_name(rule)}"), rows)
    return f"<p>{escape(sentence)}</p><details><summary>Measured against modelled, by part</summary>{table}</details>"


def _compute_changes(replay: Replay) -> list[list[list[float | None]]]:
    """Return the change of cost for each rule, each setting and each stop of the slider, as a share."""
    tables = []
    for rule in replay.rules:
        rows = replay.costs[replay.costs["rule"] == rule]
        sums = rows.groupby("setting")[list(REREAD_COLUMNS)].sum()
        base = float(sums.loc[AS_IT_WAS, REREAD_COLUMNS[0]]) if AS_IT_WAS in sums.index else 0.0
        table: list[list[float | None]] = []
        for name in _list_names(replay):
            if not base or name not in sums.index:
                table.append([None] * len(STOPS))
                continue
            costs = np.interp(STOPS, REREAD_TOKENS, sums.loc[name].to_numpy(np.float64))
            table.append([round(float(cost) / base - 1, 4) for cost in costs])
        tables.append(table)
    return tables


def _list_names(replay: Replay) -> list[str]:
    rows = replay.settings[replay.settings["rule"] == replay.rules[0]]
    return [str(name) for name in rows["setting"] if name != AS_IT_WAS]


def _list_lines(replay: Replay) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return for each policy with thresholds the thresholds in tokens with the place of the setting in the list of names."""
    lines: dict[str, list[tuple[int, int]]] = {}
    for place, name in enumerate(_list_names(replay)):
        policy, at, threshold = name.rpartition(" at ")
        if at:
            lines.setdefault(policy, []).append((round(float(threshold.removesuffix("K")) * 1000), place))
    return list(lines.items())


def _place_thresholds(replay: Replay) -> list[list[tuple[float, int]]]:
    """Return for each line the place of each threshold on the axis, and the place of its setting in the list of names."""
    thresholds = sorted({threshold for _, points in _list_lines(replay) for threshold, _ in points})
    return [[(_place_x(threshold, thresholds), place) for threshold, place in points] for _, points in _list_lines(replay)]


def _place_x(threshold: int, thresholds: Sequence[int]) -> float:
    """Return the place of a threshold on an axis in proportion to its logarithm."""
    low, high = np.log(thresholds[0]), np.log(thresholds[-1])
    share = (np.log(threshold) - low) / (high - low) if high > low else 0.5
    return round(float(LEFT + 8 + share * (WIDTH - LEFT - RIGHT - 24)), 1)


def _place_y(change: float) -> float:
    share = (min(max(change, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _describe_frame() -> dict[str, float]:
    return {"top": TOP, "bottom": HEIGHT - BOTTOM, "lowest": LOWEST, "highest": HIGHEST}


def _render_settings(replay: Replay, changes: Sequence[Sequence[Sequence[float | None]]]) -> list[str]:
    lines = _list_lines(replay)
    band = replay.band
    if not lines or not replay.paid_usd:
        return ["<p>No setting with a threshold was tried on sessions with a known cost.</p>"]
    start = min(range(len(STOPS)), key=lambda stop: abs(STOPS[stop] - band.middle_tokens))
    slider = (
        '<p class="p-field b-slider"><label for="again">Tokens read again after each compaction: '
        f'<output id="again-value" for="again">{STOPS[start]:,}</output></label>'
        f'<input id="again" type="range" min="0" max="{len(STOPS) - 1}" value="{start}" step="1"></p>'
    )
    panels = "".join(_render_panel(replay, number, rule, changes[number], start) for number, rule in enumerate(replay.rules))
    key = "".join(
        f"<li>{_draw_swatch('line', f'b-line b-line{number % LINE_STYLES}')}{escape(policy)}</li>"
        for number, (policy, _) in enumerate(lines)
    )
    numbers = " to ".join(format_thousands(round(tokens)) for tokens in (band.low_tokens, band.high_tokens))
    note = (
        f"Change of the cost against what you ran; below the line is cheaper. Shaded: the policy with the cheapest setting, with "
        f"{numbers} tokens read again ({band.source}), at most what a compaction removed. Lines are cut off at ±60 %. The slider "
        "moves the lines and the table of all settings."
    )
    return [
        slider,
        f'<div class="b-panels">{panels}</div>',
        f'<ul class="b-key">{key}</ul>',
        f'<p class="h-faint">{escape(note)}</p>',
        _render_all(replay, changes, start),
    ]


def _render_panel(replay: Replay, number: int, rule: str, changes: Sequence[Sequence[float | None]], start: int) -> str:
    lines = _list_lines(replay)
    thresholds = sorted({threshold for _, points in lines for threshold, _ in points})
    parts = []
    for tick in (-0.6, -0.3, 0.0, 0.3, 0.6):
        y = _place_y(tick)
        kind = "b-zero" if tick == 0 else "p-rule"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text class="p-tick" x="{LEFT - 5}" y="{y + 4}" text-anchor="end">{format_percent(tick, signed=True)}</text>'
        )
    for threshold in thresholds:
        x = _place_x(threshold, thresholds)
        parts.append(f'<text class="p-tick" x="{x}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{threshold / 1000:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="p-axis" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">threshold, thousand tokens</text>')
    parts.append(_render_band(replay, lines, thresholds, changes))
    for line, (policy, points) in enumerate(lines):
        places = " ".join(
            f"{_place_x(threshold, thresholds)},{_place_y(changes[place][start] or 0.0)}" for threshold, place in points
        )
        parts.append(
            f'<polyline class="b-line b-line{line % LINE_STYLES}" data-rule="{number}" data-line="{line}" points="{places}">'
            f"<title>{escape(policy)}</title></polyline>"
        )
    label = f"Change of cost by threshold under {describe_rule_name(rule)}; the table below has the same values"
    return (
        f'<figure class="b-panel"><figcaption>{escape(describe_rule_name(rule))}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg></figure>'
    )


def _render_band(
    replay: Replay,
    lines: Sequence[tuple[str, list[tuple[int, int]]]],
    thresholds: Sequence[int],
    changes: Sequence[Sequence[float | None]],
) -> str:
    """Return the band of the policy that has the cheapest setting in the middle of the band."""
    stops = [min(range(len(STOPS)), key=lambda stop: abs(STOPS[stop] - tokens)) for tokens in replay.band[:3]]

    def find_cheapest(line: tuple[str, list[tuple[int, int]]]) -> float:
        return min(changes[place][stops[1]] or 0.0 for _, place in line[1])

    points = min(lines, key=find_cheapest)[1]
    low = [f"{_place_x(threshold, thresholds)},{_place_y(changes[place][stops[0]] or 0.0)}" for threshold, place in points]
    high = [f"{_place_x(threshold, thresholds)},{_place_y(changes[place][stops[2]] or 0.0)}" for threshold, place in points]
    return f'<polygon class="b-band" points="{" ".join([*low, *reversed(high)])}"/>'


def _render_all(replay: Replay, changes: Sequence[Sequence[Sequence[float | None]]], start: int) -> str:
    """Return the table of all settings, whose changes the script updates."""
    heads = [f"change, {describe_rule_name(rule)}" for rule in replay.rules]
    rows = []
    for place, name in enumerate(_list_names(replay)):
        cells = []
        for number in range(len(replay.rules)):
            value = changes[number][place][start]
            text = "" if value is None else format_percent(value, signed=True)
            cells.append(f'<td data-rule="{number}" data-setting="{place}">{text}</td>')
        row = replay.find_setting(name, replay.rules[0])
        even = describe_break_even(row["break_even_tokens"]) if row["compactions"] else "never compacts"
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}<td>{int(row["compactions"]):,}</td><td>{even}</td>'
            f"<td>{int(row['dearer_groups'])} of {int(row['groups'])}</td></tr>"
        )
    head = "".join(
        f'<th scope="col">{escape(text)}</th>'
        for text in (
            "setting",
            *heads,
            "its compactions",
            "cheaper below (tokens read again)",
            f"{replay.group_kind}s that get dearer",
        )
    )
    table = f'<table class="p-table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return (
        "<details><summary>All settings</summary>"
        f'<div class="p-scroll" tabindex="0" role="region" aria-label="All settings">{table}</div></details>'
    )


def _render_changes(replay: Replay) -> list[str]:
    changes = list_changes(replay)
    if not changes:
        return ["<p>No change has an effect that can be computed here.</p>"]
    kinds = {"measured": "p-good", "modelled": "", "needs a test": "b-needs"}
    rows = "".join(
        f'<tr><th scope="row">{escape(change.text)}</th><td>{change.format_saving()}</td>'
        f'<td class="p-text">{escape(change.meaning)}</td>'
        f'<td class="p-text"><span class="p-badge {kinds[change.grade]}">{change.grade}</span></td></tr>'
        for change in changes
    )
    kinds_of_columns = {"change": "", "cost [95 % interval]": "", "meaning": "p-text", "how sure": "p-text"}
    head = "".join(f'<th scope="col" class="{kind}">{text}</th>' for text, kind in kinds_of_columns.items())
    again = format_thousands(replay.band.middle_tokens)
    note = (
        f"Costs under {describe_rule_name(replay.rules[0])}, with {again} tokens read again after each compaction "
        f"({replay.band.source}). Only the setting that was chosen on the other half is judged where it was not chosen; "
        "its interval repeats the choice on drawn groups. Each row stands alone: savings do not add up. Modelled: it follows "
        "from the price rule and your pauses. Needs a test: it depends on what the agent must read again, which only a run of "
        "tasks can show. Compacting by hand leaves 10,000 tokens beside system prompt and tools."
    )
    table = f'<table class="p-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    box = f'<div class="p-scroll" tabindex="0" role="region" aria-label="What you can change">{table}</div>'
    return [box, f'<p class="h-faint">{escape(note)}</p>']


def _render_boundaries(replay: Replay) -> list[str]:
    """Return what was used again after the compactions of the agents, beside the same counts where nothing was compacted."""
    sentence = f"<p>{escape(describe_reading(replay))}</p>"
    if not len(replay.boundaries) or not replay.boundaries["is_real"].any():
        return ["<p>None of these sessions has a compaction whose evicted messages the file holds.</p>"]
    real = replay.boundaries[replay.boundaries["is_real"]]
    shifted = replay.boundaries[~replay.boundaries["is_real"]]
    kinds = []
    for kind in KINDS:
        evicted, used, kept = (int(real[f"{what}_{kind}s"].sum()) for what in ("evicted", "used", "surviving"))
        chance = shifted[f"used_{kind}s"].sum() / max(1, shifted[f"evicted_{kind}s"].sum()) if len(shifted) else float("nan")
        kinds.append(
            (
                f"{kind}s",
                f"{evicted + kept:,}",
                format_percent(kept / max(1, evicted + kept), 1),
                f"{used:,} ({format_percent(used / max(1, evicted), 2)})",
                "–" if np.isnan(chance) else format_percent(chance, 2),
            )
        )
    words = ("kind", "in evicted messages", "still in view", "of the others used later", "without a compaction")
    events = [
        (
            f"{Path(str(row.file)).name}, step {row.step}",
            f"{row.evicted_tokens:,}",
            f"{row.repeated_calls} ({row.repeated_tokens:,} tokens)",
            f"{row.same_target_calls}",
            f"{sum(int(getattr(row, f'used_{kind}s')) for kind in KINDS):,}",
        )
        for row in real.sort_values("evicted_tokens", ascending=False).head(MAX_EVENTS).itertuples()
    ]
    columns = ("compaction", "evicted tokens", "calls repeated among the next 20", "on the same path", "words used later")
    note = (
        "Used later: a distinctive word of an evicted message, not first written by the agent, that the agent wrote although it "
        "stood nowhere in view and had not been seen again. Without a compaction (the chance level): the same where nothing "
        "was compacted, so the word was still in view. Neither is harm: an agent may do without. Words are found by patterns in "
        "the first 8,000 characters of a text, at most 400 of a kind for each boundary."
    )
    table = _render_table("Compactions", columns, events)
    return [
        sentence,
        _render_table("Words", words, kinds),
        f'<p class="h-faint">{escape(note)}</p>',
        *_render_survival(replay),
        f"<details><summary>{format_count(len(real), 'compaction')}</summary>{table}</details>",
    ]


def _render_survival(replay: Replay) -> list[str]:
    """Return the table of the words that stand in view behind the agents' compactions and behind stand-ins of them."""
    rows = [
        (
            f"{row.kind}s",
            f"{row.evicted:,}",
            *(format_percent(n / row.evicted, 1) for n in (row.nothing, row.extractive, row.native)),
        )
        for row in replay.survival.itertuples()
        if row.evicted
    ]
    if not rows:
        return []
    note = (
        f"{SURVIVAL_NOTE} Here, words that the agent wrote first count, too. A command stands in view word for word; a decision "
        "of the agent or a constraint of the user if one message has 60 % of its words of four letters or more."
    )
    return [_render_table("Survival by kind", SURVIVAL_HEADS, rows), f'<p class="h-faint">{escape(note)}</p>']


def _render_excerpts(excerpts: Sequence[Excerpt]) -> list[str]:
    """Return the words used later with the text around them; nothing without excerpts."""
    if not excerpts:
        return []
    rows = [
        (f"{one.file}, step {one.compaction_step}", one.kind, one.word, f"{one.place}: {one.text}", f"{one.used_step}")
        for one in excerpts
    ]
    table = _render_table("Excerpts", ("compaction", "kind", "word", "where it had stood", "used at step"), rows)
    return [f"<details><summary>{format_count(len(rows), 'word')} used later, with excerpts</summary>{table}</details>"]


def _render_probe(probe: Probe) -> list[str]:
    """Return how far the model's next actions with the compacted views agree with those with the full views."""
    boundaries = [
        (
            f"{Path(row.file).name}, step {row.step}",
            row.setting,
            f"{row.full_tokens:,} → {row.compacted_tokens:,}",
            *(tool or SAYS_SOMETHING for tool in (row.full_tool, row.again_tool, row.compacted_tool)),
            "same call" if row.same_call else "same tool" if row.same_tool else "another action",
        )
        for row in probe.answers.head(MAX_EVENTS).itertuples()
    ]
    columns = ("boundary", "setting", "tokens", "full view", "full view again", "compacted view", "agreement")
    more = f"<p>and {len(probe.answers) - MAX_EVENTS} more</p>" if len(probe.answers) > MAX_EVENTS else ""
    table = _render_table("Boundaries", columns, boundaries)
    return [
        _render_table("Boundary probe", HEADS, tabulate_probe(probe)),
        *(f"<p>{escape(line)}</p>" for line in describe_asking(probe)),
        f'<p class="h-faint">{escape(NOTE)}</p>',
        f"<details><summary>{format_count(len(probe.answers), 'boundary')}</summary>{table}{more}</details>",
    ]


def _render_projects(replay: Replay) -> list[str]:
    rows = replay.sessions[replay.sessions["paid_usd"] > 0].groupby("group")
    table = pd.DataFrame(
        {
            "sessions": rows.size(),
            "calls": rows["calls"].sum(),
            "paid": rows["paid_usd"].sum(),
            "modelled": rows["modelled_usd"].sum(),
            "covered": rows["covered_usd"].sum(),
        }
    )
    table = table.sort_values("paid", ascending=False)
    cells = [
        (
            str(name) if replay.group_kind != "session" else Path(str(name).partition(" ")[0]).name,
            f"{int(row['sessions']):,}",
            f"{int(row['calls']):,}",
            format_usd(row["paid"]),
            format_percent(row["modelled"] / row["covered"] - 1, 1, signed=True) if row["covered"] else "–",
        )
        for name, row in table.head(MAX_PROJECTS).iterrows()
    ]
    more = f"<p>and {len(table) - MAX_PROJECTS} more</p>" if len(table) > MAX_PROJECTS else ""
    columns = (replay.group_kind, "sessions", "calls", "paid", "modelled less paid")
    shown = _render_table("Projects", columns, cells)
    return [f"<details><summary>{format_count(len(table), replay.group_kind)}</summary>{shown}{more}</details>"]


def _render_uncounted(replay: Replay, probe: Probe | None) -> list[str]:
    items = "".join(f"<li>{escape(line)}</li>" for line in list_uncounted(replay)) or "<li>Everything was counted.</li>"
    method = escape(describe_method(replay, probe.hosts if probe else ()))
    return [f'<ul class="p-list">{items}</ul>', f'<p class="h-faint">{method}</p>']


def _render_table(label: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        f'<div class="p-scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f'<table class="p-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
