"""Accessibility of the widgets in the light and the dark theme: contrasts of WCAG, and the rules of axe.

The tool axe checks texts and names. Drawings, patterns and the edges of fields, which axe does not check, are measured here from
the computed colours.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import ToolCall, ToolResult, assistant, tool
from harness.experiment.progress import RunProgress
from harness.session.spec import SessionSpec
from harness.widgets.agent import AgentWidget
from harness.widgets.assets import load_style
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.grid import GridWidget
from harness.widgets.grid_form import GridForm
from harness.widgets.inspector import SessionInspector
from harness.widgets.message_channel import SHARED_SENDER, MessageSender
from tests.experiment.records import record
from tests.widgets.linked import Linked, Theme
from tests.widgets.test_explorer import hostile_session
from tests.widgets.test_grid import GRID
from tests.widgets.test_inspector import compacted_session

pytestmark = pytest.mark.browser

THEMES = Path(sys.prefix) / "share" / "jupyter" / "lab" / "themes" / "@jupyterlab"
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
TEXT, GRAPHIC = 4.5, 3.0
"""Minimum contrasts of WCAG 2.2, success criteria 1.4.3 and 1.4.11."""

Marks = list[tuple[str, str]]
"""Drawn elements: a selector and the property with their colour; the drawn element is in front of its parents' backgrounds."""
FIELDS: Marks = [("input:not([type=range]), select, textarea", "borderTopColor")]
MEANINGS = ("blue", "orange", "green", "red", "purple", "accent", "faint")
"""Colours of patterns, swatches and the focus outline, as variables of the style."""

MEASURE = """marks => {
    const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
    const context = canvas.getContext('2d', {willReadFrequently: true});
    const rgba = colour => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (front, back) => [0, 1, 2].map(at => front[at] * front[3] + back[at] * (1 - front[3])).concat(1);
    const behind = el => !el ? [255, 255, 255, 1] : over(rgba(getComputedStyle(el).backgroundColor), behind(el.parentElement));
    const opacity = el => !el ? 1 : Number(getComputedStyle(el).opacity) * opacity(el.parentElement);
    const light = colour => {
        const [r, g, b] = colour.map(one => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => {
        const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const shown = selector => [...document.querySelectorAll(selector)].filter(el => el.checkVisibility());
    return marks.map(([selector, property]) => shown(selector).map(el => {
        const [back, front] = [behind(el.parentElement), rgba(getComputedStyle(el)[property])];
        front[3] *= opacity(el) * (Number(getComputedStyle(el)[`${property}Opacity`]) || 1);
        return ratio(over(front, back), back);
    }));
}"""
OTHERS = """([targets, selectors]) => targets.filter(
    target => ![...document.querySelectorAll(target)].every(one => selectors.some(selector => one.matches(selector)))
)"""
"""Return the number of elements that match none of the selectors."""
VARIABLES = """names => {
    const elements = names.map(name => Object.assign(document.createElement('i'), {className: `colour-${name}`}));
    elements.forEach((el, at) => { el.style.color = `var(--h-${names[at]})`; el.textContent = 'x'; });
    document.querySelector('.harness-surface').append(...elements);
}"""
SIDE_BY_SIDE = """([selector, classes]) => {
    const one = document.querySelector(selector);
    for (const name of classes) {
        const other = one.cloneNode(true);
        other.classList.forEach(old => /^[ag]-(is-|s\\d|empty|partial)/.test(old) && other.classList.remove(old));
        other.classList.add(name);
        one.after(other);
    }
}"""
"""Place copies of an element beside it, one for every form that it can take."""


def agent(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show one row of each kind, the details of a compaction, files, and every kind of error."""
    panel = AgentWidget.from_session(SessionSpec(request="x", policy=KeepLast(), journal=folder / "unused.sqlite"))
    panel.session._control.state = "working"
    linked = Linked(page, panel, SHARED_SENDER, theme)
    for entry in compacted_session().entries:
        panel._listen(entry)
    wrong = ToolCall(call_id="c9", name="execute_command", arguments_json='{"command": "make"}')
    failed = ToolResult(call_id="c9", name=wrong.name, output="no rule", status="error")
    panel._listen(Entry(90, MessageAdded(message=assistant("I make it.", wrong), step=4)))
    panel._listen(Entry(91, MessageAdded(message=tool(failed), step=4)))
    page.wait_for_timeout(300)
    linked.settle()
    gauge = {"tokens": 900, "window": 2_000, "reserved": 600, "threshold": 700, "messages": 5, "rule": "0.5 of what is free"}
    panel.channel.update_state(gauge=gauge, curve=[[1, 300], [2, 900]])
    panel.channel.update_state(queued=["and a README"], question="Three times the same call.", failure="The disk is full.")
    linked.settle()
    page.locator(".a-rounds button").first.click()
    kinds = ("added", "modified", "deleted")
    files = [{"path": f"{kind}.txt", "kind": kind, "added": 3, "removed": 1} for kind in kinds]
    page.evaluate("message => fromKernel(message)", {"kind": "files", "files": files, "count": 9, "whole": False})
    linked.settle()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(
        "document.querySelectorAll('.a-alarm').forEach(one => { one.hidden = false; one.textContent ||= 'No answer.'; })"
    )
    linked.settle()
    page.add_style_tag(
        content=".a-root .a-details { max-height: none; }"
    )  # axe cannot judge texts that are scrolled out of sight
    page.evaluate(SIDE_BY_SIDE, [".a-phase", forms("agent", "a-is-")])
    panel.close()


def new_agent(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show a session that has not started."""
    panel = AgentWidget.from_session(SessionSpec(request="x", policy=KeepLast(), journal=folder / "unused.sqlite"))
    Linked(page, panel, SHARED_SENDER, theme)
    assert page.locator(".a-hint").is_visible()
    panel.close()


def grid(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show a grid with a trial for each kind of end, every shade, and an alarm."""
    widget = GridWidget(GRID, folder / "output")
    linked = Linked(page, widget, SHARED_SENDER, theme)
    standing = RunProgress(experiment="e", total_trials=6, running_trials=("policy.keep_last=2 seed=1",))
    for cell, status in zip(GRID.grid, ("completed", "crashed", "completed"), strict=False):
        standing = standing.with_record(
            record(trial_id=cell.trial.trial_id, arm=cell.arm, status=status, success=False, reason="killed", error="Traceback")
        )
        widget._show_progress(standing)
    linked.settle()
    page.locator("details").evaluate("one => one.open = true")
    page.locator(".g-alarm").evaluate("one => { one.hidden = false; one.textContent = 'The kernel does not answer.'; }")
    page.evaluate(SIDE_BY_SIDE, [".g-state", forms("grid", "g-is-")])
    page.evaluate(SIDE_BY_SIDE, [".g-cell", ["g-empty", "g-partial", *(f"g-s{shade}" for shade in range(8))]])


def explorer(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show a policy that masks and summarizes, all of its controls, and the text of a message."""
    linked = Linked(page, CompactionExplorer(hostile_session(), window_tokens=3_000, sender=post), post, theme)
    page.locator(".h-more").evaluate_all("all => all.forEach(one => one.open = true)")
    page.locator(".h-row").first.click()
    linked.settle()


def inspector(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show the step after a compaction."""
    widget = SessionInspector(compacted_session(), sender=post)
    widget.show_step(2)
    linked = Linked(page, widget, post, theme)
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    page.locator(".h-row").first.click()
    linked.settle()


def form(page: Page, post: MessageSender, folder: Path, theme: Theme) -> None:
    """Show the summary of a form with a warning, code and plan."""
    grid_form = GridForm(GRID.base, seeds=(0, 1), output=folder / "output")
    grid_form._summary.channel.update_state(refusal="The grid cannot start.", wrong=["threshold"])
    Linked(page, grid_form._summary, SHARED_SENDER, theme)
    page.locator("details").evaluate("one => one.open = true")


def forms(name: str, prefix: str) -> list[str]:
    """Return the classes of a style that begin with a prefix."""
    return sorted(set(re.findall(rf"\.({prefix}\w+)", load_style(name))))


SHOWN: dict[str, tuple[Callable[[Page, MessageSender, Path, Theme], None], Marks]] = {
    "agent": (
        agent,
        [
            *((f".a-{name}", "fill") for name in ("used", "reserved", "threshold", "mark")),
            *((f".a-{name}", "stroke") for name in ("line", "limit")),
            *((f".a-{name}", "borderLeftColor") for name in ("alarm", "question", "queue li")),
            *FIELDS,
        ],
    ),
    "new_agent": (new_agent, FIELDS),
    "grid": (grid, [(".g-alarm", "borderLeftColor"), (".g-partial.g-empty", "borderTopColor")]),
    "explorer": (
        explorer,
        [
            *((f".h-{name}", "stroke") for name in ("curve", "threshold", "window", "cursor", "whole", "mark")),
            (".h-tick", "color"),
            *FIELDS,
        ],
    ),
    "form": (form, []),
    "inspector": (inspector, [(".h-curve", "stroke"), (".h-tick", "color"), (".h-compaction", "borderLeftColor")]),
}
TEXTS: dict[str, Marks] = {
    "agent": [(".a-curve text", "fill")],
    "explorer": [
        (".h-row > :not(.h-swatch)", "color"),
        (".h-name-threshold", "color"),
        (".h-name-window", "color"),
        (".h-levels span", "color"),
    ],
    "inspector": [(".h-row > *", "color"), (".h-levels span", "color")],
}
"""Texts in drawings, which axe cannot judge."""


@pytest.mark.parametrize("colours", ["plain", "jupyterlab"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", SHOWN)
def test_texts_drawings_and_fields_of_a_widget_can_be_seen_named_and_reached(page, post, tmp_path, name, theme, colours):
    show, marks = SHOWN[name]
    show(page, post, tmp_path, theme)
    if colours == "jupyterlab":
        page.add_style_tag(path=THEMES / f"theme-{theme}-extension" / "index.css")
    page.evaluate(VARIABLES, MEANINGS)
    results = Axe().run(page, ".harness-surface", RULES)
    assert results.violations_count == 0, results.generate_report()
    measured = [*((GRAPHIC, mark) for mark in marks), *((TEXT, mark) for mark in TEXTS.get(name, []))]
    measured += [(GRAPHIC, (f".colour-{meaning}", "color")) for meaning in MEANINGS]
    doubtful = [target for one in results.response["incomplete"] for node in one["nodes"] for target in node["target"]]
    assert page.evaluate(OTHERS, [doubtful, [selector for _, (selector, _) in measured]]) == []
    ratios = page.evaluate(MEASURE, [mark for _, mark in measured])
    assert all(ratios), [mark for (_, mark), one in zip(measured, ratios, strict=True) if not one]
    low = {mark: min(one) for (least, mark), one in zip(measured, ratios, strict=True) if min(one) < least}
    assert low == {}
