"""`harness inspect`: what a session came to, or what was sent at one of its steps (S3.18)."""

from pathlib import Path

import click

from harness.cli.sessions.layout import DEFAULT_TIMELINE_ROWS, build_overview, build_shares_table, draw_timeline, render_step
from harness.cli.sessions.lookup import IN_OPTION, load_session, resolve_session
from harness.cli.tasks import print_renderables
from harness.cli.terminal_text import replace_control_characters
from harness.inspection.requests import reconstruct_request
from harness.inspection.timeline import inspect_session
from harness.session.diffs import join_patches
from harness.session.storage import load_patches


@click.command("inspect")
@click.argument("session", default="")
@IN_OPTION
@click.option("--step", type=click.IntRange(min=1), help="Show what was sent at this step, and what came back.")
@click.option("--patch", is_flag=True, help="Show what it, or --step, changed in its workspace, line by line.")
@click.option("--whole", is_flag=True, help="With --step: show long messages to their end.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=DEFAULT_TIMELINE_ROWS, show_default=True, help="Of the timeline, at most."
)
def command(session: str, given: tuple[Path, ...], step: int | None, patch: bool, whole: bool, rows: int) -> None:
    """Show what SESSION came to: totals, what is compacted, where its tokens are, and its timeline.

    SESSION is the id of a session or a trial, or its beginning; or a journal file with one session, or the recorded session of
    another agent. A session that still runs shows what it has. All sizes in tokens are estimates by its policy's counter,
    except where it says measured.
    """
    if patch:
        click.echo(
            replace_control_characters(join_patches(load_patches(resolve_session(session, given), step)))
            or "nothing was changed",
            nl=False,
        )
        return
    log, draft = load_session(session, given)
    if step is not None:
        print_renderables(*render_step(reconstruct_request(log, step), whole=whole))
        return
    inspection = inspect_session(log)
    print_renderables(build_overview(inspection, draft), "", build_shares_table(inspection), "", *draw_timeline(inspection, rows))
