"""The autopsy of a compaction in widgets: reached from a mark or a failed check, with mouse and keyboard, in both themes."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from harness.errors import UsageError
from harness.widgets.inspector import SessionInspector
from tests.inspection.test_session_task import store
from tests.notebooks.test_contrast import RULES
from tests.widgets.test_inspector import compacted_session


@pytest.fixture
def lossy(tmp_path, post):
    """Inspector of a trial whose compaction removed the port that a failed check needs."""
    location = store(tmp_path / "journal.sqlite")
    return SessionInspector(location.journal, session_id=location.session_id, sender=post)


def test_the_autopsy_is_that_of_the_session_and_refuses_other_numbers(lossy):
    lossy.show_autopsy(1)
    shown = lossy.channel._state["autopsy"]
    assert (shown["title"], shown["count"], shown["place"]) == ("Compaction 1 of 1, before step 2", 1, 2)
    assert [(row["name"], row["outcome"], row["before"][2]) for row in shown["rows"]] == [("port", "wrong", "4003")]
    with pytest.raises(UsageError, match="only number 1"):
        lossy.show_autopsy(2)
    with pytest.raises(UsageError, match="must be the number of a compaction"):
        lossy._open_autopsy("1")
    assert lossy.channel._state["autopsy"] == shown
    lossy.show_autopsy(None)
    assert lossy.channel._state["autopsy"] is None


@pytest.mark.browser
def test_a_click_on_a_compaction_shows_what_it_lost_and_leads_to_the_wrong_step(link, lossy, page):
    linked = link(lossy)
    page.locator(".h-tick.h-applied").click()
    linked.settle()
    assert page.locator(".u-says").inner_text().startswith("1 of 1 fact lost; 1 later used wrong, at step 2.")
    row = page.locator(".u-row")
    assert row.locator("mark").inner_text() == "4003"
    assert "used 8080, right is 4003" in row.inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Compaction 1 of 1, before step 2"
    page.get_by_role("button", name="transcript: port wrong at step 2").click()
    linked.settle()
    assert lossy._step_number == 2
    page.get_by_role("button", name="close the autopsy").click()
    linked.settle()
    assert page.locator(".u-autopsy").is_hidden()


@pytest.mark.browser
def test_a_failed_check_leads_to_its_compaction_by_keyboard(link, lossy, page):
    linked = link(lossy)
    page.locator(".h-checks summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "compaction 1"
    page.keyboard.press("Enter")
    linked.settle()
    assert page.locator(".u-asked").inner_text() == (
        "Failed check “The port is written down” needs port: lost by compaction 1, used wrong at step 2."
    )


@pytest.mark.browser
def test_the_strip_has_a_row_for_each_fact_on_the_axis_of_the_curve(link, lossy, page):
    link(lossy)
    label = page.locator(".s-track").get_attribute("aria-label")
    assert label == "port: in view at steps 1 to 1; used wrong at 2"
    track, plot = (page.locator(name).bounding_box() for name in (".s-track", ".h-plot"))
    assert abs(track["x"] - plot["x"]) < 2
    assert abs(track["width"] - plot["width"]) < 2
    cut = page.locator(".s-cut").bounding_box()
    assert abs(cut["x"] - track["x"] - track["width"] / 2) < 2  # before the second of two steps
    page.locator(".h-plot svg").hover(position={"x": 0.75 * plot["width"], "y": 40})
    assert page.locator(".h-readout").inner_text().startswith("step 2: ")
    assert page.locator(".s-pointer").is_visible()
    track = page.locator(".s-track").first
    size = track.bounding_box()
    track.hover(position={"x": 0.25 * size["width"], "y": 6})
    assert page.locator(".h-readout").inner_text().endswith("; port: in view")
    track.hover(position={"x": 0.9 * size["width"], "y": 6})
    assert page.locator(".h-readout").inner_text().endswith("; port: not in view; used wrong, value 8080")
    assert page.locator(".h-pointer").is_visible()
    page.locator(".h-keys").hover()
    assert page.locator(".h-readout").inner_text() == ""
    assert page.locator(".s-pointer").is_hidden()


@pytest.mark.browser
@pytest.mark.parametrize("width", [600, 400])
def test_in_a_narrow_widget_no_name_of_a_fact_is_cut_and_the_axis_stays_the_same(link, post, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    link(SessionInspector("flashcards", sender=post))
    page.get_by_role("button", name="show all").click()
    names = page.locator(".s-name")
    assert max(len(text) for text in names.all_inner_texts()) > 15
    assert all(names.evaluate_all("all => all.map(one => one.scrollWidth <= one.clientWidth)"))
    track, plot = (page.locator(name).first.bounding_box() for name in (".s-track", ".h-plot"))
    assert abs(track["x"] - plot["x"]) < 2
    assert abs(track["width"] - plot["width"]) < 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_a_session_without_facts_shows_messages_and_says_why(link, post, page):
    inspector = SessionInspector(compacted_session(), sender=post)
    linked = link(inspector)
    assert page.locator(".s-strip").is_hidden()
    page.locator(".h-tick.h-applied").click()
    linked.settle()
    assert "so the view shows distinctive words instead of facts" in page.locator(".u-notice").inner_text()
    assert page.locator(".u-row").count() == 5
    assert page.locator(".u-row .u-chip").all_inner_texts() == ["kept", "summarized", "summarized", "summarized", "inserted"]
    assert page.locator("img").count() == 0


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1060, 600, 400])
def test_no_rule_of_axe_is_violated_by_the_autopsy(link, lossy, page, theme, width):
    page.set_viewport_size({"width": width, "height": 900})
    linked = link(lossy, theme)
    page.locator(".h-checks summary").click()
    page.locator(".h-tick.h-applied").click()
    linked.settle()
    violations = Axe().run(page, ".harness-surface", RULES).response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
