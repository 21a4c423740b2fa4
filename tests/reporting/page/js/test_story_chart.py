"""First screen of the page in a browser: the loss and its consequence, and the way from a number to its trials and queries."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from harness.analysis.loss_story import find_loss_story
from harness.reporting.page.document import write_page
from tests.notebooks.test_contrast import RULES
from tests.reporting.page.experiments import run_losses, write_experiment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run_losses(tmp_path_factory.mktemp("losses"))


@pytest.fixture(scope="module")
def story_page(results, tmp_path_factory):
    return write_page(results, tmp_path_factory.mktemp("page") / "report.html")


def tell(results):
    """Return the story of results that have one."""
    story = find_loss_story(results)
    assert story is not None
    return story


@pytest.fixture
def open_page(browser):
    faults = []
    opened = []

    def open_one(path, **options):
        page = browser.new_context(**{"viewport": {"width": 1300, "height": 1000}, **options}).new_page()
        opened.append(page)
        page.on("request", lambda one: None if one.url == path.as_uri() else faults.append(f"request {one.url[:200]}"))
        page.on("pageerror", lambda error: faults.append(f"error {error}"))
        page.on("console", lambda one: faults.append(f"console {one.text}") if one.type == "error" else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_one
    for page in opened:
        page.context.close()
    assert faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_loss_its_consequence_and_both_verdicts_are_on_the_first_screen(open_page, story_page, results, scheme):
    page = open_page(story_page, color_scheme=scheme)
    story = tell(results)
    box = page.locator(".p-story-card")
    text = " ".join(box.inner_text().split())
    for words in (story.lost.use, story.kept.use, story.check, "✕ check failed", "● check passed", "no evidence"):
        assert words in text
    drawing = box.locator("svg").bounding_box()
    assert drawing["y"] + drawing["height"] <= 1000
    assert Axe().run(page, options=RULES).response["violations"] == []


def test_the_pointer_shows_step_and_tokens_of_the_line_below_it(open_page, story_page, results):
    page = open_page(story_page)
    area = page.locator(".p-story .p-hit").first.bounding_box()
    page.mouse.move(area["x"] + area["width"] - 1, area["y"] + 30)
    story = tell(results)
    steps = results.steps[results.steps["trial_id"] == story.lost.trial_id].sort_values("step")
    step, tokens = steps.iloc[-1][["step", "view_tokens"]]
    assert page.locator(".p-story-readout").first.text_content() == f"step {step}: {tokens:,} tokens"
    page.mouse.move(1, 1)
    assert page.locator(".p-story-readout").first.text_content() == ""


def test_the_failed_session_opens_at_the_compaction_that_lost_the_fact_by_keyboard_alone(open_page, story_page, results):
    page = open_page(story_page)
    story = tell(results)
    page.locator(".p-story-open button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('.p-transcript :text("rests on facts lost here"), .p-transcript :text("rest on facts lost here")')
    transcript = page.locator(".p-transcript").inner_text()
    assert f"Compaction {story.lost.round} of" in transcript
    assert f"wrong at step {story.lost.use_step}" in transcript


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    experiment = write_experiment(folder)
    return experiment, write_page(experiment, folder / "report.html")


def test_a_row_of_the_report_leads_to_its_trials_and_to_queries_that_return_its_numbers(open_page, written):
    results, path = written
    page = open_page(path)
    assert page.locator(".p-story-card").is_hidden()
    page.locator("button.p-source:visible", has_text="b").first.press("Enter")
    assert page.locator(".p-trials h2").inner_text() == "Trials of b"
    assert page.locator(".p-trials tbody tr").count() == 6
    page.locator(".p-queries summary").press("Enter")
    items = page.locator(".p-queries li").all()
    queries = {item.locator("b").inner_text().strip(" :"): item.locator("code").inner_text() for item in items}
    trials = results.trials[results.trials["arm"] == "b"]
    ((score,),) = results.sql(queries["score, mean over tasks"]).to_numpy().tolist()
    assert score == pytest.approx(trials.groupby("task")["score"].mean().mean())
    assert Axe().run(page, options=RULES).response["violations"] == []


def test_a_difference_leads_to_the_trials_of_both_arms_and_to_the_query_of_the_difference(open_page, written):
    results, path = written
    page = open_page(path)
    page.locator(".p-controls select[name=metric]").select_option("score")
    page.locator(".p-controls select[name=baseline]").select_option(label="a")
    row = page.locator(".p-arms tr").filter(has=page.get_by_role("button", name="c", exact=True))
    row.locator("button.p-number").click()
    assert page.locator(".p-trials h2").inner_text() == "Trials of c against a"
    assert page.locator(".p-trials tbody tr").count() == 12
    page.locator(".p-queries summary").click()
    item = page.locator(".p-queries li").filter(has=page.locator("b", has_text="score"))
    ((difference,),) = results.sql(item.locator("code").inner_text()).to_numpy().tolist()
    assert difference == pytest.approx(0.4)


@pytest.mark.parametrize("width", [600, 400])
def test_a_narrow_screen_shows_the_story_without_scrolling_sideways(open_page, story_page, width):
    page = open_page(story_page, viewport={"width": width, "height": 1400})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawing = page.locator(".p-story-card svg").bounding_box()
    assert drawing["width"] <= width
    for note in page.locator(".p-story-note, .p-story-end").all():
        box = note.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
