"""The report page as HTML: one document with its styles, scripts and data, which fetches nothing.

Text from models, tools and plans is hostile. In the document itself it is escaped. Everything else is data in base64, which the
scripts show only as text. The content security policy allows exactly the inlined script and style, by their hashes.
"""

import base64
import hashlib
import html
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from harness.analysis.arms import drop_earlier_plans, select_outcomes
from harness.analysis.families import find_withheld, read_families
from harness.analysis.loss_story import find_loss_story
from harness.analysis.other_models import split_other_models
from harness.analysis.tables import Tables, read_report_tables, split_by_level
from harness.conversation.events import Entry
from harness.errors import StoreError, format_count
from harness.experiment.interim_analyses import find_interim_analysis
from harness.inspection.session_task import SessionTask, find_session_task
from harness.protocols import ignore
from harness.reporting.claims import PROGRESS_HEADING
from harness.reporting.experiment_report import Report, report, report_progress
from harness.reporting.headlines import HEADLINES
from harness.reporting.page.session_blocks import MAX_SESSIONS, build_blocks, choose_sessions, compress
from harness.reporting.page.values import build_parts, build_progress_parts
from harness.reporting.section import Section
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.results import JoinedResults, Results, shorten_path
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.tasks import make_shared_task
from harness.text import escape_control_characters, escape_html, replace_surrogates

BUNDLES_FOLDER = Path(__file__).parent / "bundles"
MAX_LEAD_CHARACTERS = 100
"""Maximum length of the beginning of a line that is shown in bold."""
MAX_TASKS = 32
"""Number of tasks that are kept while a page is made, since its sessions of one task do not stand together; some have 3 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """Data of a report page: the report, the values that its scripts show, and the sessions."""

    document: Report
    values: Mapping[str, Any]
    blocks: Sequence[str] = ()
    """Sessions as compressed JSON in base64; the values refer to them by their index."""


def write_page(
    results: Results,
    path: str | os.PathLike[str],
    *,
    against: str | None = None,
    max_sessions: int = MAX_SESSIONS,
    document: Report | None = None,
) -> Path:
    """Write the report on an experiment as one HTML page with transcripts, and return its path.

    On the page, arms can be filtered and sorted, the metric and the baseline chosen, and the sessions of trials read. The page
    fetches nothing.

    Of a large experiment, the page contains a sample of sessions: those with the lowest, the highest and the median score of each
    arm, then those of trials with a failed check, then others at random with a fixed seed.

    If the plan declares contrasts but no interim analyses of the results, the page shows only the progress until all trials have
    finished.

    Args:
        results: Results of one experiment, as returned by `harness.load`. Required.
        path: File to write. Required.
        against: Arm that is the baseline at first; None for the arm that most declared contrasts name as `b`, or else an arm
            without compaction or a repeated arm. Default: `None`.
        max_sessions: Maximum number of sessions in the page. Default: `200`.
        document: Report that was built already; None builds it. Default: `None`.

    Example::

        harness.write_page(harness.load("experiments/quickstart"), "report.html")

    Raises:
        UsageError: No trial has finished yet, or there are only sessions outside of experiments, which have no outcomes.
        UnknownName: The arm `against` does not exist.
        StoreError: The file cannot be written.
    """
    target = check_page_path(path)
    return write_document(
        render_page(collect_page(results, against=against, max_sessions=max_sessions, document=document)), target
    )


def check_page_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page that can be written, before the work that its content takes.

    Raises:
        StoreError: The path is a folder.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise StoreError(f"cannot write the page {str(target)!r}: it is a folder; name a file")
    return target


def write_document(text: str, target: Path) -> Path:
    """Write a page in one step, and return its path.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(target) as unfinished:
            unfinished.write_bytes(text.encode("utf-8"))
    except OSError as error:
        message = f"cannot write the page {str(target)!r}: {error.strerror or error}; name another file"
        raise StoreError(message) from error
    return target


def collect_page(
    results: Results,
    *,
    against: str | None = None,
    max_sessions: int = MAX_SESSIONS,
    document: Report | None = None,
    takes_interim_analyses: bool = True,
    on_stage: Callable[[str], None] = ignore,
) -> PageData:
    """Return everything that a report page shows: the report, the values for its scripts, and the chosen sessions.

    If the plan declares contrasts and trials are missing, the page shows only the progress. It shows outcomes before the last
    trial only if the plan declares interim analyses of the results.

    Args:
        results: Results of one experiment.
        against: Arm with which the page compares the others at first; None chooses one.
        max_sessions: Maximum number of sessions in the page; 0 if a server sends them on demand.
        document: Report that was built already; None builds it.
        takes_interim_analyses: Whether the page may take a declared interim analysis; if False, it shows interim outcomes only if
            they were seen before.
        on_stage: Listener for what is done next, in words, once the tables are read.
    """
    tables = read_report_tables(results)
    on_stage("comparing the arms")
    current = drop_earlier_plans(select_outcomes(tables))
    own_results, others = split_other_models(current)
    is_shown = takes_interim_analyses or find_interim_analysis(results.output, current.trials["trial_id"]).is_recorded
    withheld = find_withheld(tables, allows_interim_analysis=is_shown)
    document = document or (report(results, against) if withheld is None else report_progress(tables, withheld.family))
    stories = [find_loss_story(part) for part in split_by_level(own_results)] if withheld is None else []
    shown = [side.trial_id for story in stories if story for side in (story.lost, story.kept)]
    session_ids = choose_sessions(current.trials, max_sessions, by_score=withheld is None, first=shown) if max_sessions else []
    blocks = _read_blocks(results, session_ids, shows_checks=withheld is None)
    on_stage("collecting the values of the page")
    values = {
        "parts": build_parts(own_results, against, list(blocks), document.claims, others, stories)
        if withheld is None
        else build_progress_parts(current, list(blocks)),
        "standing": _describe_standing(current, is_withheld=withheld is not None),
        "is_withheld": withheld is not None,
        "planned": 0 if withheld is None else withheld.family.planned_trials,
        "headlines": list_headlines(document),
        "inspect_command": f"harness inspect --in {shlex.quote(str(shorten_path(results.output)))}",
        "view_command": f"harness view {shlex.quote(str(shorten_path(results.output)))}",
        "explain_command": f"harness report {shlex.quote(str(shorten_path(results.output)))} --explain",
        "served": False,
        "digest": results.digest,
        "sessions": len(blocks),
    }
    return PageData(document=document, values=values, blocks=tuple(blocks.values()))


def _describe_standing(results: Tables, *, is_withheld: bool) -> str:
    """Return a sentence on which numbers of a page can be claimed; empty if the page shows no outcomes."""
    if is_withheld:
        return ""
    if any(family.contrasts for family in read_families(results)):
        return "The plan declares contrasts: the report below tests them, and everything else on this page is exploratory."
    return "Exploratory: the plan declares no contrasts, so nothing on this page can be claimed."


def _read_blocks(results: Results, session_ids: Sequence[str], *, shows_checks: bool) -> Mapping[str, str]:
    journals: dict[str, Journal] = {}
    make_task = lru_cache(MAX_TASKS)(make_shared_task)
    with ExitStack() as stack:
        for part in results.parts if isinstance(results, JoinedResults) else (results,):
            path = part.output / JOURNAL_FILE
            if session_ids and path.is_file():
                journal = stack.enter_context(Journal.open(path, read_only=True))
                journals = dict.fromkeys(part.report_tables.trials["session_id"], journal) | journals

        def find_task(session_id: str, entries: Sequence[Entry]) -> SessionTask:
            known = find_session_task(entries, journals[session_id], session_id, make_task)
            return known if shows_checks else replace(known, checks=None)

        return build_blocks(
            [session_id for session_id in session_ids if session_id in journals],
            lambda session_id, known: journals[session_id].read_entries(session_id, known),
            lambda session_id: journals[session_id].list_saved_outputs(session_id),
            find_task,
        )


def build_served_values(data: PageData) -> dict[str, Any]:
    """Return the values of a page that a server sends again when trials have finished, with the texts outside the scripts."""
    sections = [asdict(section) for section in list_sections(data.document)]
    return {**data.values, "served": True, "about_sessions": _describe_sessions(data, served=True), "sections": sections}


def list_sections(document: Report) -> list[Section]:
    """Return the sections of a report that stand below its first lines, with visible control characters."""
    return [
        replace(
            section,
            heading=escape_control_characters(section.heading),
            columns=tuple(map(escape_control_characters, section.columns)),
            rows=tuple(tuple(map(escape_control_characters, row)) for row in section.rows),
            notes=tuple(map(escape_control_characters, section.notes)),
        )
        for section in document.sections
        if section.heading != HEADLINES
    ]


def list_headlines(document: Report) -> list[tuple[str, str]]:
    """Return the first lines of a report, each as its beginning, which is shown in bold, and the rest."""
    arms = [str(arm) for arm in document.results.trials["arm"].unique()]
    leading = (section for section in document.sections if section.heading in (HEADLINES, PROGRESS_HEADING))
    notes = (note for section in leading for note in section.notes)
    return [split_headline(escape_control_characters(note), arms) for note in notes]


def split_headline(line: str, arms: Iterable[str]) -> tuple[str, str]:
    """Split a line of a report after the first colon that is not part of the name of an arm.

    The first part is empty if there is no such colon, or if the text before it is long or more than one sentence.

    Args:
        line: Line of a report.
        arms: Names of the arms, which may contain colons.
    """
    masked = line
    for arm in sorted(arms, key=len, reverse=True):
        masked = masked.replace(arm, "-" * len(arm))
    lead, colon, _ = masked.partition(":")
    end = len(lead) + 1 if colon and len(lead) < MAX_LEAD_CHARACTERS and ". " not in lead else 0
    return line[:end], line[end:]


def render_page(data: PageData, *, served: bool = False) -> str:
    """Return the page as HTML.

    Args:
        data: Data of the page.
        served: Whether a server sends sessions and newer values on demand, so that the page may connect to it.
    """
    title, headlines = escape(data.document.title), "".join(map(_render_headline, list_headlines(data.document)))
    standing = f'<span id="standing">{escape(data.values["standing"])}</span>'
    sessions = f'<span id="sessions">{escape(_describe_sessions(data, served=served))}</span>'
    body = "\n".join(
        [
            '<main class="p-page">',
            f"<h1>{title}</h1>",
            f'<p class="h-faint">{sessions} {standing}</p>',
            '<div id="progress" class="p-progress" hidden></div>',
            '<section class="p-card p-short" aria-label="in short"><h2>In short</h2>',
            f'<ul id="headlines" class="p-headlines">{headlines}</ul></section>',
            '<div id="explorer"><p>This part needs JavaScript; the report is below.</p></div>',
            '<section class="p-card p-report" aria-label="report"><h2>Report</h2>',
            *map(_render_section, list_sections(data.document)),
            "</section>",
            "</main>",
        ]
    )
    values = {**data.values, "served": served}
    blocks = [embed("values", base64.b64encode(compress(values)).decode("ascii"))]
    blocks += [embed(f"block-{index}", text) for index, text in enumerate(data.blocks)]
    return render_document(data.document.title, body, load_page_script(), load_page_style(), blocks, connects=served)


def render_document(title: str, body: str, script: str, style: str, blocks: Sequence[str] = (), *, connects: bool = False) -> str:
    """Return an HTML document with its styles, script and data, which fetches nothing but from its own server.

    Args:
        title: Title, not escaped.
        body: HTML of the body.
        script: Module that runs at the end; the content security policy allows it and nothing else.
        style: Style sheet.
        blocks: Elements with data.
        connects: Whether the script may connect to the server that sent the page.
    """
    policy = {
        "default-src": "'none'",
        "script-src": f"'sha256-{_hash(script)}'",
        "style-src": f"'sha256-{_hash(style)}'",
        "connect-src": "'self'" if connects else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    page = "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(map(" ".join, policy.items()))}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            '<body class="harness-surface harness-looking">',
            body,
            *blocks,
            f'<script type="module">{script}</script>',
            "</body>",
            "</html>",
        ]
    )
    return replace_surrogates(page)


def escape(text: str) -> str:
    """Escape a text for HTML; control characters, such as those for the direction of text, become visible."""
    return escape_html(text)


@cache
def load_page_script(name: str = "page") -> str:
    """Return the script of a page, built from the module of this name in `js`, as one module that imports nothing."""
    return (BUNDLES_FOLDER / f"{name}.js").read_text("utf-8")


@cache
def load_page_style(name: str = "page") -> str:
    """Return the style of a page: the styles that its modules import."""
    return (BUNDLES_FOLDER / f"{name}.css").read_text("utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def embed(name: str, text: str) -> str:
    """Return an element with data that the script of a page reads, given as base64."""
    return f'<script type="application/octet-stream" id="{name}">{text}</script>'


_SHOW_ALL = "The command “harness view” shows all."


def _describe_sessions(data: PageData, *, served: bool) -> str:
    parts = data.values["parts"]
    count = format_count(sum(len(part["trials"]["id"]) for part in parts), "trial")
    text = _describe_transcripts(data, count, served=served)
    if len(parts) < 2:
        return text
    kinds = "; ".join(f"{len(part['trials']['id']):,} ran with {part['ran']}" for part in parts)
    return f"{text} Of these, {kinds}. Choices, charts and tables show one of these at a time."


def _describe_transcripts(data: PageData, count: str, *, served: bool) -> str:
    """Return how many trials there are, and from where their transcripts come."""
    if served:
        return f"{count}; transcripts are read from the journal when a trial is opened."
    if len(data.blocks) == sum(len(part["trials"]["id"]) for part in data.values["parts"]):
        return f"{count}, all with their transcripts in this file."
    if data.values["is_withheld"]:
        return f"{count}, of which {len(data.blocks)} have their transcripts in this file, chosen at random (seed 0). {_SHOW_ALL}"
    return (
        f"{count}, of which {len(data.blocks)} have their transcripts in this file: those with the "
        "lowest, the highest and the median score of each arm first, then others at random (seed 0). "
        f"{_SHOW_ALL}"
    )


def _render_headline(line: tuple[str, str]) -> str:
    lead, rest = map(html.escape, line)
    return f"<li><b>{lead}</b>{rest}</li>" if lead else f"<li>{rest}</li>"


def _render_section(section: Section) -> str:
    columns = (section.columns[0], "share", *section.columns[1:]) if section.bars else section.columns
    rows = "".join(_render_row(section, place) for place in range(len(section.rows)))
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    label = html.escape(section.heading)
    table = (
        f'<div class="p-scroll" tabindex="0" role="region" aria-label="{label}"><table class="p-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    parts: Iterable[str] = [table if section.columns else "", *(f"<p>{html.escape(note)}</p>" for note in section.notes)]
    state = "" if section.is_detail else " open"
    return f"<details{state}><summary>{label}</summary>{''.join(parts)}</details>"


def _render_row(section: Section, place: int) -> str:
    """Return a row of a table with its bar; its name is a button that lists the trials and queries behind it."""
    first, *rest = section.rows[place]
    name = html.escape(first)
    if section.sources:
        source = html.escape(section.sources[place])
        name = f'<button type="button" class="p-link p-source" data-row="{source}">{name}</button>'
    bar = f"<td>{_render_bar(section.bars[place])}</td>" if section.bars else ""
    cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
    return f'<tr><th scope="row">{name}</th>{bar}{cells}</tr>'


def _render_bar(share: float) -> str:
    """Return a bar from 0 to 100 % as a drawing; the number stands in the next cell."""
    return (
        '<svg class="p-share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="p-share-all" width="100" height="10"/>'
        f'<rect class="p-share-part" width="{100 * share:.1f}" height="10"/></svg>'
    )
