"""The page in a browser: it fetches nothing, shows the values, opens transcripts, and no text of an experiment becomes code."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from harness.errors import StoreError, UnknownName
from harness.inspection.loading import load
from harness.reporting.page.document import load_page_script, load_page_style, split_headline, write_page
from tests.inspection.test_session_task import store
from tests.notebooks.test_contrast import RULES
from tests.reporting.page.experiments import declare, write_experiment

FLAG = "window.hacked = (window.hacked || 0) + 1"
INJECTIONS = (
    f"<script>{FLAG}</script>",
    f"</script><script>{FLAG}</script>",
    f"</title></style></textarea></noscript><script>{FLAG}</script>",
    f"<img src=x onerror='{FLAG}'>",
    f'"><svg onload="{FLAG}">',
    f"' onmouseover='{FLAG}' autofocus onfocus='{FLAG}' x='",
    f'" style="background:url(https://evil.example/a)" onclick="{FLAG}',
    f'<a href="javascript:{FLAG}">click</a>',
    f"javascript:{FLAG}",
    f'<iframe srcdoc="<script>parent.{FLAG}</script>"></iframe>',
    "<link rel=stylesheet href=https://evil.example/b><style>@import 'https://evil.example/c'</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/d'>",
    "<base href=https://evil.example/><form action=https://evil.example/e><button>x</button></form>",
    f"`${{{FLAG}}}`",
    f"{{{{constructor.constructor('{FLAG}')()}}}}",
    f"<!--<script>{FLAG}//-->",
    f"\u2028{FLAG}\u2029//",
    f"\ufeff+ADw-script+AD4-{FLAG}+ADw-/script+AD4-",
    f"<math><mtext><table><mglyph><style><img src=x onerror='{FLAG}'>",
    f"<template><script>{FLAG}</script></template><details open ontoggle='{FLAG}'>",
    f"<object data='data:text/html,<script>{FLAG}</script>'></object><embed src='https://evil.example/f'>",
    "\u202eright to left\u202c \u2066isolated\u2069 \u200bzero width",
    "\x1b[2J\x1b[31mescape\x07\x00\x9b31m",
    "]]><![CDATA[ &lt;script&gt; &amp;#60;img src=x&amp;#62; \\u003cscript\\u003e \\x3cscript\\x3e",
    "\U0001f9e8 beyond the basic plane, \ufffe and \uffff",
    "<" * 30_000 + f"<script>{FLAG}</script>",
)
"""Texts that would run a script, fetch something or confuse a parser if a text of an experiment became part of the document."""


def decode(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_page(write_experiment(folder), folder / "report.html")


@pytest.fixture
def open_page(browser, tmp_path, has_failed):
    """`open_page(path, **options)`: open a page; every request beyond the file and every error of a script fails the test."""
    faults: list[str] = []
    opened = []

    def open_one(path, **options):
        page = browser.new_context(**{"viewport": {"width": 1300, "height": 1000}, **options}).new_page()
        opened.append(page)
        page.set_default_timeout(20_000)
        page.on("request", lambda one: None if one.url == path.as_uri() else faults.append(f"request {one.url[:200]}"))
        page.on("pageerror", lambda error: faults.append(f"error {error}"))
        page.on("console", lambda one: faults.append(f"console {one.text}") if one.type == "error" else None)
        page.on("dialog", lambda one: faults.append(f"dialog {one.message}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_one
    for page in opened:
        if has_failed():
            page.screenshot(path=tmp_path / "page.png", full_page=True)
        page.context.close()
    assert faults == []


class Tags(HTMLParser):
    """Every element of a document with its attributes."""

    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def list_tags(path):
    parser = Tags()
    parser.feed(decode(path))
    return parser.tags


@pytest.mark.slow
def test_the_policy_allows_exactly_the_script_and_the_style(written):
    text = decode(written)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    hashes = {
        name: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for name, content in (("script", load_page_script()), ("style", load_page_style()))
    }
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{hashes['script']}'",
        f"style-src 'sha256-{hashes['style']}'",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


def test_the_document_refers_to_nothing_outside(written):
    tags = list_tags(written)
    assert not [tag for tag, _ in tags if tag in {"link", "img", "iframe", "object", "embed", "base", "form", "a"}]
    assert not [attributes for _, attributes in tags if {"src", "href", "style", "action", "srcdoc"} & attributes.keys()]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("script", [load_page_script()])
def test_the_scripts_never_make_code_or_markup_of_a_text(script):
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
    assert not re.findall(rf"{markup}|\beval\(|new Function|setTimeout\(\s*['\"`]", script)
    assert "</script" not in script.lower()


@pytest.mark.slow
def test_hostile_names_are_escaped_in_the_document(tmp_path):
    results = write_experiment(tmp_path, arms=INJECTIONS[:6], tasks=("t1",), seeds=1, text=INJECTIONS[0], task=INJECTIONS[1])
    tags = list_tags(write_page(results, tmp_path / "report.html"))
    assert [attributes.get("type") for tag, attributes in tags if tag == "script"][-1] == "module"
    assert not [tag for tag, _ in tags if tag in {"svg", "img", "a", "iframe"}]
    assert sum(tag == "script" and attributes["type"] == "module" for tag, attributes in tags) == 1
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


@pytest.mark.slow
def test_a_page_with_a_sample_says_which_sessions_it_has(tmp_path, written):
    results = write_experiment(tmp_path)
    text = decode(write_page(results, tmp_path / "report.html", max_sessions=5))
    assert "18 trials, of which 5 have their transcripts in this file" in text
    assert len(re.findall('id="block-', text)) == 5
    assert "all with their transcripts" in decode(written)


@pytest.mark.slow
def test_an_unknown_baseline_and_a_folder_that_cannot_be_written_are_refused(tmp_path):
    results = write_experiment(tmp_path / "made")
    with pytest.raises(UnknownName):
        write_page(results, tmp_path / "report.html", against="nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write the page"):
        write_page(results, tmp_path / "file" / "report.html")


def test_a_page_is_not_written_to_a_folder(tmp_path, monkeypatch):
    results = write_experiment(tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, "."):
        with pytest.raises(StoreError, match="it is a folder; name a file"):
            write_page(results, path)


@pytest.mark.slow
def test_two_pages_of_the_same_results_are_equal(tmp_path, written):
    again = write_page(load(written.parent), tmp_path / "again.html")
    assert again.read_bytes() == written.read_bytes()


@pytest.mark.browser
def test_no_text_of_an_experiment_becomes_code(open_page, tmp_path):
    """Every field that a plan, a model or a tool can write has a hostile text, and everything is opened."""
    folder = tmp_path / "made"
    for place, text in enumerate(INJECTIONS):
        safe = text.replace("/", "∕")  # a session id has no slash
        write_experiment(
            folder,
            arms=(f"{text[:2_000]} {place}",),
            tasks=(text[:2_000],),
            seeds=1,
            text=text,
            name=text,
            experiment=text,
            trial_id=f"{place} {text[:200]}",
            session_id=f"{place} {safe[:200]}",
            reason="max_steps",
        )
    page = open_page(write_page(load(folder), folder / "report.html"))
    for metric in ("cost", "success", "retention", "score"):
        page.get_by_label("metric").select_option(metric)
    names = page.locator(".p-arms .p-link")
    assert names.count() == len(INJECTIONS)
    for place in range(len(INJECTIONS)):
        names.nth(place).click()
        page.locator(".p-trials .p-link").first.click()
        page.locator(".p-transcript .h-row").first.wait_for()
        page.get_by_role("button", name="next step").click()
        page.locator(".p-transcript .h-compaction").wait_for()
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # draws the rows
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        rows = page.locator(".p-transcript .h-row")
        for row in range(rows.count()):
            rows.nth(row).click()
        page.wait_for_timeout(50)
        page.mouse.move(400, 400)
    assert page.locator("img, iframe, object, embed, link, a, base").count() == 0
    assert page.evaluate("document.querySelectorAll('main script, main style, main form[action]').length") == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.evaluate("[...document.querySelectorAll('*')].every(el => [...el.attributes].every(a => !/^on/i.test(a.name)))")


@pytest.mark.browser
def test_the_keyboard_filters_and_sorts_arms_and_opens_transcripts(open_page, written):
    page = open_page(written)
    headers = [text.strip(" ▲▼") for text in page.locator(".p-arms thead th").all_inner_texts()]
    assert headers[:5] == ["arm", "trials", "score", "minus baseline", "cost ratio"]
    assert page.locator(".p-arms tbody tr").count() == 3
    page.get_by_label("filter arms").focus()
    page.keyboard.type("b")
    assert page.locator(".p-arms .p-link").all_inner_texts() == ["b"]
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.locator(".p-sort", has_text="cost, USD").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator(".p-arms .p-link").all_inner_texts() == ["c", "b", "a"]
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.get_by_label("baseline").select_option(label="b")
    assert "baseline" in page.locator(".p-arms tbody tr").nth(1).locator(".p-badge").all_inner_texts()
    page.locator(".p-arms .p-link", has_text="c").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Trials of c"
    page.locator(".p-trials .p-link").first.focus()
    page.keyboard.press("Enter")
    page.locator(".p-transcript .h-row").first.wait_for()
    assert page.evaluate("document.activeElement.textContent").startswith("Transcript of c, t1, seed 0")
    assert page.locator(".p-transcript .h-tick.h-applied").count() == 1
    page.locator(".p-transcript .harness-surface").focus()
    page.keyboard.press("PageDown")
    page.locator(".h-compaction").wait_for()
    assert "900 → 60 tokens" in page.locator(".h-compacted").inner_text()
    page.get_by_role("listbox").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.get_by_text("sent, user").wait_for()
    assert page.locator(".h-texts pre").inner_text() == "summary plain text"


@pytest.mark.browser
def test_cells_and_points_list_their_trials(open_page, written):
    page = open_page(written)
    page.locator(".g-cell button").nth(3).click()
    assert page.locator(".p-trials h2").inner_text() == "Trials of b on t2"
    assert page.locator(".p-trials tbody tr").count() == 3
    page.locator(".p-hit").nth(2).click(force=True)
    assert page.locator(".p-trials h2").inner_text() == "Trials of c"
    assert page.locator(".p-trials tbody tr").count() == 6


@pytest.mark.browser
def test_arms_have_the_marks_of_the_figures_in_chart_and_tables(open_page, written):
    page = open_page(written)
    marks = ["h-arm-blue", "h-arm-vermilion", "h-arm-green"]  # of arms a, b and c, the first of the palette
    for place in (".p-point .h-arm-mark", ".p-arms .h-arm-mark", ".g-name .h-arm-mark"):
        classes = page.locator(place).evaluate_all("marks => marks.map((mark) => mark.getAttribute('class').split(' ')[1])")
        assert classes == marks
    colours = page.locator(".p-point .h-arm-fill").evaluate_all("marks => marks.map((mark) => getComputedStyle(mark).fill)")
    assert len(set(colours)) == 3


@pytest.mark.browser
def test_names_that_begin_alike_have_different_labels_in_the_chart(open_page, tmp_path):
    arms = [f"a policy with a long name that says much, threshold {share}" for share in (0.5, 0.8, 0.95)]
    page = open_page(write_page(write_experiment(tmp_path, arms=arms), tmp_path / "report.html"))
    labels = page.locator(".p-label").evaluate_all(
        "labels => labels.map((label) => [...label.children].map((line) => line.textContent).join(' '))"
    )
    assert sorted(labels) == arms


@pytest.mark.browser
def test_colours_of_cells_do_not_show_differences_within_the_intervals(open_page, written):
    page = open_page(written)
    page.locator("select[name=baseline]").select_option("-1")
    page.locator(".p-grid .p-how summary").click()
    ends = page.locator(".p-grid .p-key").inner_text()
    low, high = (float(end) for end in re.findall(r"(?:Dark|yellow): (\d\.\d+)", ends))
    intervals = [re.findall(r"\[([\d.]+), ([\d.]+)\]", text) for text in page.locator(".g-cell button").all_inner_texts()]
    widest = max(float(most) - float(least) for bounds in intervals for least, most in bounds)
    assert high - low >= widest - 0.02  # both are rounded


@pytest.mark.browser
def test_cells_show_values_or_with_a_baseline_the_differences_on_the_task(open_page, written):
    page = open_page(written)
    cells = page.locator(".g-cell button")
    signs = [text[0] for text in page.locator(".g-cell b").all_inner_texts()]
    assert signs == ["0", "0", "+", "+", "+", "+"]
    assert cells.nth(3).inner_text().endswith("n 3")
    page.locator("select[name=baseline]").select_option(label="c")
    assert [text[0] for text in page.locator(".g-cell b").all_inner_texts()] == ["-", "-", "-", "-", "0", "0"]
    page.locator("select[name=baseline]").select_option("-1")
    assert [text[0] for text in page.locator(".g-cell b").all_inner_texts()] == ["0"] * 6


@pytest.mark.browser
def test_a_trial_without_a_transcript_says_how_to_read_it(open_page, tmp_path):
    page = open_page(write_page(write_experiment(tmp_path), tmp_path / "report.html", max_sessions=0))
    page.locator(".p-arms .p-link").first.click()
    page.locator(".p-trials .p-link").first.click()
    page.get_by_text("This page does not contain the session").wait_for()
    commands = page.locator(".p-transcript pre").last.inner_text().splitlines()
    assert commands[0].startswith(f"harness view {tmp_path}")
    assert commands[1].startswith(f"harness inspect --in {tmp_path}")


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_no_rule_of_axe_is_violated(open_page, written, theme, width):
    page = open_page(written, color_scheme=theme, viewport={"width": width, "height": 900})
    page.locator(".p-arms .p-link").first.click()
    page.locator(".p-trials .p-link").first.click()
    page.locator(".p-transcript .h-row").first.wait_for()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    violations = Axe().run(page, options=RULES).response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in violations] == []


@pytest.mark.browser
def test_the_page_fits_into_a_narrow_window(open_page, written):
    page = open_page(written, viewport={"width": 400, "height": 900})
    page.locator(".p-arms .p-link").first.click()
    page.locator(".p-trials .p-link").first.click()
    page.locator(".p-transcript .h-row").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def read_values(path):
    (text,) = re.findall(r'id="values">([^<]*)<', decode(path))
    return json.loads(zlib.decompress(base64.b64decode(text)))


@pytest.mark.slow
def test_the_page_of_an_incomplete_plan_with_declared_contrasts_contains_no_outcome(tmp_path):
    results = write_experiment(tmp_path, provenance_json=declare(20), reason="max_steps", error="")
    withheld = write_page(results, tmp_path / "withheld.html", max_sessions=6)
    values = read_values(withheld)
    (part,) = values["parts"]
    assert values["is_withheld"]
    assert set(part) == {"level", "ran", "metrics", "baselines", "arms", "trials"}
    assert set(part["arms"][0]) == {"name", "mark", "settings", "finished", "excluded"}
    assert set(part["trials"]["outcome"]) == {"finished"}
    assert not set(part["trials"]) & {"score", "success", "cost", "tokens", "steps", "retention", "compactions"}
    assert "lowest" not in decode(withheld), "the choice of the transcripts follows no outcome"
    for planned, looks in ((18, 1), (20, 2)):
        shown = write_experiment(tmp_path / f"{planned}", provenance_json=declare(planned, looks))
        values = read_values(write_page(shown, tmp_path / "shown.html"))
        assert not values["is_withheld"]
        assert values["standing"].startswith("The plan declares contrasts")
        assert "effects" in values["parts"][0]


def test_the_page_of_a_plan_without_contrasts_is_labelled_exploratory(written):
    assert '<span id="standing">Exploratory: the plan declares no contrasts' in decode(written)


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("incomplete")
    return write_page(write_experiment(folder, provenance_json=declare(20), error=""), folder / "report.html")


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_progress_and_transcripts_of_an_incomplete_plan_are_shown(open_page, incomplete, theme):
    page = open_page(incomplete, color_scheme=theme)
    assert "Progress only: the plan declares contrasts" in page.locator("#headlines").inner_text()
    assert "`looks = 2` under [experiment]" in page.locator("#headlines").inner_text()
    assert "18 of 20 planned trials finished; no outcomes are shown." in page.locator(".p-arms").inner_text()
    assert page.locator(".p-chart, .p-grid").evaluate_all("all => all.every(one => !one.checkVisibility())")
    assert page.locator(".p-arms thead th").all_inner_texts() == ["arm", "finished", "excluded"]
    page.get_by_label("filter arms").fill("b")
    page.locator(".p-arms .p-link").focus()
    page.keyboard.press("Enter")
    assert page.locator(".p-trials thead th").all_inner_texts() == ["trial", "state", "transcript"]
    assert {row.split("\t")[1] for row in page.locator(".p-trials tbody tr").all_inner_texts()} == {"finished"}
    page.locator(".p-trials .p-link").first.focus()
    page.keyboard.press("Enter")
    page.locator(".p-transcript .h-row").first.wait_for()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    violations = Axe().run(page, options=RULES).response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in violations] == []


def test_a_headline_is_split_behind_a_colon_that_is_no_part_of_a_name():
    arms = ["early", "early: 0.5", "base"]
    assert split_headline("No worse than early: 0.5: base, at 4 USD", arms) == ("No worse than early: 0.5:", " base, at 4 USD")
    assert split_headline("Question: is early: 0.5 good?", arms) == ("Question:", " is early: 0.5 good?")
    assert split_headline("Success is 0. Highest score: base", arms) == ("", "Success is 0. Highest score: base")
    assert split_headline("No colon", arms) == ("", "No colon")


@pytest.mark.browser
def test_all_sections_are_open_while_the_page_is_printed(open_page, written):
    page = open_page(written)
    closed = page.locator(".p-report > details:not([open])")
    count = closed.count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (count > 0, closed.count()) == (True, 0)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert closed.count() == count


@pytest.mark.browser
def test_print_shows_all_arms_without_controls(open_page, written):
    page = open_page(written)
    page.emulate_media(media="print")
    assert not page.locator(".p-controls").is_visible()
    assert page.locator(".p-arms tbody tr").count() == 3
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.browser
def test_a_failed_check_leads_to_the_lost_fact_and_to_the_wrong_step_in_two_clicks(open_page, tmp_path):
    store(tmp_path / "journal.sqlite")
    page = open_page(write_page(load(tmp_path), tmp_path / "report.html"))
    page.locator(".p-arms .p-link").first.click()
    page.locator(".p-trials").get_by_role("button", name="The port is written down").click()
    page.locator(".u-asked").wait_for()
    assert "port: lost by compaction 1, used wrong at step 2" in page.locator(".u-asked").inner_text()
    assert page.locator(".u-row.u-wrong mark").inner_text() == "4003"
    page.get_by_role("button", name="transcript: port wrong at step 2").click()
    page.get_by_text("step 2 of 2").wait_for()
    assert "port=8080" in page.locator(".p-transcript .h-texts").inner_text()


@pytest.mark.browser
def test_the_link_of_a_failed_trial_opens_the_first_consequence(open_page, tmp_path):
    store(tmp_path / "journal.sqlite")
    page = open_page(write_page(load(tmp_path), tmp_path / "report.html"))
    page.locator(".p-arms .p-link").first.click()
    box = page.get_by_label("only trials with a failed check")
    box.check()
    count = page.locator(".p-failed-only").inner_text().strip().split(": ")[1].split(" of ")[0]
    assert str(page.locator(".p-trials tbody tr").count()) == count
    page.locator(".p-trials tbody th .p-link").first.click()
    page.locator(".u-asked").wait_for()
    assert "used wrong at step 2" in page.locator(".u-asked").inner_text()
    page.get_by_text("step 2 of 2").wait_for()


def test_a_page_that_withholds_outcomes_names_no_failed_check(tmp_path):
    store(tmp_path / "journal.sqlite", provenance_json=declare(planned_trials=20))
    values = read_values(write_page(load(tmp_path), tmp_path / "report.html"))
    assert values["is_withheld"]
    text = decode(tmp_path / "report.html")
    (block,) = re.findall(r'id="block-0">([^<]*)<', text)
    session = json.loads(zlib.decompress(base64.b64decode(block)))
    assert session["session"]["autopsy"]["checks"] is None
    assert "The port is written down" not in json.dumps([values, session])
