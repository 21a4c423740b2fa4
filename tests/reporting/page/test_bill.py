"""Page of a replay: complete without network, hostile names stay text, and the slider shows what Python computed."""

import re
from dataclasses import replace

import pytest

from harness.errors import StoreError
from harness.replay import replay_sessions
from harness.replay.changes import list_changes
from harness.reporting.page.bill import render_bill_page, write_bill_page
from harness.text import format_percent
from tests.replay.recorded import write_recording

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    place = tmp_path_factory.mktemp("projects")
    for number in range(4):
        write_recording(place / f"project-{number}<b>" / f"session-{number}.jsonl", 16, pauses=[8, 14])
    cache = tmp_path_factory.mktemp("cache")
    band = (0, 2_000, 4_000)
    return replay_sessions(
        place, ["claude-code", "keep-last"], [40_000, 60_000], workers=1, cache_folder=cache, reread_tokens=band
    )


def test_the_page_has_all_parts_and_fetches_nothing(replay):
    page = render_bill_page(replay)
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        "In short",
        "What you paid for",
        "What you can change",
        "What another setting would have cost",
        "What your agents&#x27; own compactions dropped",
        "Project by project",
        "What was not counted",
    ]
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=", page)
    assert "http" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL).replace("http-equiv", "")
    assert "project-0&lt;b&gt;" in page
    assert "<b>/" not in page


def test_no_text_of_a_session_is_on_the_page(replay):
    page = render_bill_page(replay)
    assert "Read all files of the project" not in page
    assert "value_1" not in page


def test_changes_have_an_effect_and_a_grade(replay):
    changes = list_changes(replay)
    assert {change.grade for change in changes} <= {"measured", "modelled", "needs a test"}
    assert any(change.text.startswith("Keep the cache for 1h") for change in changes)
    assert any(change.text == "Compact by hand before a pause" for change in changes)
    assert [change.saving_usd for change in changes] == sorted((change.saving_usd for change in changes), reverse=True)


def test_each_policy_is_one_change_so_that_no_threshold_is_called_best_beside_a_better_one(replay):
    settings = [
        change.text.removeprefix("Set ").partition(",")[0] for change in list_changes(replay) if change.text.startswith("Set ")
    ]
    policies = [name.partition(" at ")[0] for setting in settings for name in setting.split(" or ")]
    assert sorted(set(policies)) == sorted(policies) != []


def test_a_replay_without_a_cost_has_a_page_too(tmp_path):
    write_recording(tmp_path / "s" / "session.jsonl", 3, has_usage=False)
    empty = replay_sessions(tmp_path / "s", ["claude-code"], [40_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    page = render_bill_page(empty)
    assert "No call has both usage and a known price." in page


def test_a_folder_is_refused_as_a_page(replay, tmp_path):
    with pytest.raises(StoreError, match="it is a folder"):
        write_bill_page(replay, tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1100])
def test_the_slider_moves_the_lines_and_the_cells(browser, replay, tmp_path, width):
    path = write_bill_page(replace(replay), tmp_path / "bill.html")
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    place = replay.settings[replay.settings["rule"] == "own"]["setting"].tolist().index("claude-code at 40K") - 1
    before, line = page.text_content(f'td[data-rule="0"][data-setting="{place}"]'), page.get_attribute("polyline", "points")
    page.evaluate("const s = document.getElementById('again'); s.value = 40; s.dispatchEvent(new Event('input'));")
    after = page.text_content(f'td[data-rule="0"][data-setting="{place}"]')
    costs = replay.costs[(replay.costs["rule"] == "own") & (replay.costs["setting"] == "claude-code at 40K")]
    as_it_was = replay.costs[(replay.costs["rule"] == "own") & (replay.costs["setting"] == "as it was")]
    expected = costs["reread_40000_usd"].sum() / as_it_was["reread_0_usd"].sum() - 1
    assert after == format_percent(expected, signed=True)
    assert after != before
    assert page.get_attribute("polyline", "points") != line
    assert problems == []
    page.close()
