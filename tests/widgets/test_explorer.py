"""The explorer: every slider and key takes effect at once, and hostile texts stay texts."""

from dataclasses import replace

import pytest

import harness
from harness.conversation import codec
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.errors import UnknownName, UsageError
from harness.experiment.plan import read_plan
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log, run_on_sample
from harness.policies import Codex, KeepLast, OracleRetention, find_public_name, resolve_policy
from harness.text import format_percent
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.explorer.exploration import MAX_BAR_PARTS, _group_runs
from harness.widgets.grid import GridWidget
from harness.widgets.harness_widget import MAX_SENT_ROWS
from tests.inspection.test_counterfactual import finished
from tests.inspection.test_session_task import store

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
SAID_TOKENS = 30_000
LONG_SAID_TOKENS = 170_000
WINDOW_TOKENS = 24_000


@pytest.fixture(scope="module")
def session():
    return RecordedSession(name="a session", entries=build_sample_log(SAID_TOKENS))


@pytest.fixture(scope="module")
def long_session():
    return RecordedSession(name="a long session", entries=build_sample_log(LONG_SAID_TOKENS))


@pytest.fixture
def explorer(session, post):
    return CompactionExplorer(session, window_tokens=WINDOW_TOKENS, sender=post)


def hostile_session():
    """A session in which every foreign text is an attack: request, answer, tool name, file name, output."""
    events = [MessageAdded(message=message, step=0) for message in (system("s"), user(f"task {HOSTILE}" * 30))]
    for step in range(1, 12):
        call = ToolCall(call_id=f"c{step}", name=f"read {HOSTILE}", arguments_json=f'{{"path": "{HOSTILE}.py"}}')
        result = ToolResult(call_id=call.call_id, name=call.name, output=f"{HOSTILE} " * 50)
        events += [MessageAdded(message=one, step=step) for one in (assistant(HOSTILE, call), tool(result))]
        events.append(finished(step))
    return RecordedSession(name=HOSTILE, entries=tuple(Entry(seq, event) for seq, event in enumerate(events, 1)))


def shown(page, name):
    """Return messages and tokens in view of a disposition, as shown in the page's table."""
    row = page.locator(".h-sums tbody tr").filter(has_text=name).first
    count, _, tokens = (int(text.replace(",", "")) for text in row.locator("td").all_inner_texts())
    return count, tokens


def test_the_table_says_what_became_of_every_message(explorer):
    table = explorer.to_dataframe()
    assert set(table["disposition"]) == {"kept", "summarized"}
    assert (
        table.loc[table["disposition"] == "kept", "tokens_before"] == table.loc[table["disposition"] == "kept", "tokens_after"]
    ).all()
    assert (table.loc[table["disposition"] == "summarized", "since_step"] > 0).all()
    assert list(table["message"]) == list(range(len(table)))


def test_step_policy_and_fields_can_be_changed_by_name(explorer):
    explorer.change_settings(step=3)
    assert set(explorer.to_dataframe()["disposition"]) == {"kept"}
    explorer.change_settings(policy="drop-all", step=explorer.step_count)
    assert "dropped" in set(explorer.to_dataframe()["disposition"])
    explorer.change_settings(threshold=0.3)
    assert "threshold=0.3" in explorer.render_text()
    explorer.change_settings(policy="keep-last")
    assert "threshold" not in explorer.render_text().split("budget")[0]


def test_a_policy_with_fields_of_its_own_is_taken_as_it_is(session):
    explorer = CompactionExplorer(session, policy=KeepLast(threshold=0.4, keep_last=3), window_tokens=WINDOW_TOKENS)
    assert "threshold=0.4" in explorer.render_text()
    assert "keep_last=3" in explorer.render_text()


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        ({"step": 0}, "step: must be at least 1"),
        ({"step": 10**6}, "this session has"),
        ({"window_tokens": 0}, "window_tokens: must be at least 1"),
        ({"window_tokens": 100}, "leave nothing of the window"),
        ({"threshold": 7}, "threshold=7"),
        ({"no_such_field": 7}, "unknown field policy.no_such_field"),
        ({"policy": "keep-lost"}, "did you mean 'keep-last'"),
        ({"policy": "oracle"}, "needs a forecast of the messages"),
    ],
)
def test_invalid_settings_are_refused_and_the_view_does_not_change(explorer, change, explanation):
    before = explorer.render_text()
    with pytest.raises(UsageError, match=explanation):
        explorer.change_settings(**{"nominal_window_tokens": None, **change})
    assert explorer.render_text() == before


def test_a_session_that_is_not_there_is_refused():
    with pytest.raises(UnknownName, match="no such file or folder"):
        CompactionExplorer("no/such/file")


@pytest.mark.parametrize(
    "message",
    [
        *({}, {"kind": "look"}, {"kind": "look", "look": {"policy": 7}}, {"kind": "read", "message": "x"}),
        *({"kind": "rows", "rows": rows} for rows in (None, "x", [3], [5, 2], [-1, 9], [0.5, 2], [10**30, 10**31])),
    ],
)
def test_a_page_may_say_anything(explorer, message):
    before = explorer.render_text()
    explorer._handle_page_message(message)
    assert explorer.render_text() == before


def test_the_fallback_tells_the_same_and_is_escaped(post):
    explorer = CompactionExplorer(hostile_session(), window_tokens=3_000, sender=post)
    assert "<img" not in explorer.render_html()
    assert "<script" not in explorer.render_html()
    assert "&lt;img src=x" in explorer.render_html()
    for word in ("summarized", "before step", "in view"):
        assert word in explorer.render_html()


@pytest.fixture
def lossy(tmp_path, post):
    """Explorer of a trial whose compaction removed a port that the agent then wrote wrong, under a policy that keeps it."""
    location = store(tmp_path / "journal.sqlite")
    return CompactionExplorer(location.journal, session_id=location.session_id, policy="none", window_tokens=16_000, sender=post)


def test_the_facts_that_another_policy_keeps_are_counted(lossy):
    assert lossy._exploration.describe_kept() == [
        "Compaction 1 of the recorded session, before step 2, lost 1 of 1 fact; this policy would have kept 1 of the 1."
    ]
    lossy.change_settings(policy="keep-last", trigger_tokens=20, keep_last=1, summary_tokens=1)
    run = lossy._exploration.build_run()
    assert [attempt.status for attempt in run["attempts"]] == ["no-op", "applied"]
    lossy.show_autopsy(1)
    (row,) = lossy.channel._state["autopsy"]["rows"]
    assert (row["name"], row["kept"], row["outcome"], row["lines"][0]) == ("port", False, "needed", "needed at step 2")
    with pytest.raises(UsageError, match="only number 1"):
        lossy.show_autopsy(2)
    lossy.change_settings(policy="none")
    assert lossy.channel._state["autopsy"] is None


@pytest.mark.browser
def test_the_strip_and_the_autopsy_are_those_of_the_shown_policy(link, lossy, page):
    linked = link(lossy)
    assert "would have kept 1 of the 1" in page.locator(".x-kept").inner_text()
    assert page.locator(".s-track").get_attribute("aria-label") == "port: in view at steps 1 to 2; needed at 2"
    lossy.change_settings(policy="keep-last", trigger_tokens=20, keep_last=1, summary_tokens=1)
    linked.settle()
    assert "would have kept 0 of the 1" in page.locator(".x-kept").inner_text()
    page.locator(".h-tick.h-applied").click()
    linked.settle()
    assert "needed at step 2" in page.locator(".u-row").inner_text()
    page.get_by_role("button", name="close the autopsy").click()
    linked.settle()
    assert page.locator(".u-autopsy").is_hidden()


@pytest.mark.browser
def test_the_page_shows_what_the_table_says(link, explorer, page):
    link(explorer)
    table = explorer.to_dataframe()
    for disposition in ("kept", "masked", "summarized", "dropped"):
        rows = table[table["disposition"] == disposition]
        assert shown(page, disposition) == (len(rows), rows["tokens_after"].sum())
    first = page.locator(".h-row").first
    assert first.locator(".h-disposition").inner_text() == table["disposition"][0]
    assert page.locator(".h-tick.h-applied").count() == explorer._exploration.shown.view.rounds


def drag(page, slider):
    """Drag a slider to the left with the mouse, in small moves."""
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for share in (0.7, 0.6, 0.5, 0.4):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()


@pytest.mark.browser
def test_dragging_the_threshold_redraws_everything(link, explorer, page):
    linked = link(explorer)
    before = page.locator(".h-curve").get_attribute("points")
    slider = page.get_by_role("slider", name="threshold", exact=True)
    drag(page, slider)
    linked.settle()
    assert 0.35 < explorer._exploration.settings.fields["threshold"] < 0.45
    assert f"{explorer._exploration.settings.fields['threshold']:.2f}" in page.locator(".h-knob").filter(has=slider).inner_text()
    assert page.locator(".h-curve").get_attribute("points") != before
    table = explorer.to_dataframe()
    assert shown(page, "summarized")[0] == (table["disposition"] == "summarized").sum()


@pytest.mark.browser
def test_sliders_and_rows_are_moved_by_keys(link, explorer, page):
    linked = link(explorer)
    page.get_by_role("slider", name="keep last").focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    linked.settle()
    assert explorer._exploration.settings.fields == {"keep_last": 6}
    page.get_by_role("slider", name="step", exact=True).focus()
    page.keyboard.press("Home")
    linked.settle()
    assert explorer._exploration.settings.step == 1
    assert shown(page, "summarized") == (0, 0)
    page.keyboard.press("End")
    linked.settle()
    page.get_by_role("listbox").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    linked.settle()
    assert page.locator(".h-row[aria-selected=true]").inner_text().startswith("summarized")
    texts = page.locator(".h-texts").inner_text()
    assert explorer._exploration.read_message(1)["logged"].splitlines()[0] in texts
    assert "stands in for a line of the summary" in texts
    page.keyboard.press("End")
    linked.settle()
    assert int(page.locator(".h-row[aria-selected=true]").get_attribute("aria-posinset")) == len(explorer.to_dataframe())


@pytest.mark.browser
def test_the_buttons_and_the_timeline_lead_to_compactions_and_steps(link, explorer, page):
    linked = link(explorer)
    steps = [attempt.step for attempt in explorer._exploration.list_attempts()]
    page.get_by_role("button", name="previous compaction").click()
    linked.settle()
    assert explorer._exploration.settings.step in steps
    assert f"before step {explorer._exploration.settings.step}:" in page.locator(".h-said").inner_text()
    page.locator(".h-plot svg").click(position={"x": 5, "y": 60})
    linked.settle()
    assert explorer._exploration.settings.step == 1
    page.get_by_role("button", name="next compaction").click()
    linked.settle()
    assert explorer._exploration.settings.step == steps[0]


def with_policy(run):
    """Return the session of a run on the sample with its policy in the log, as in a session of a task."""
    first, *rest = run.entries
    started = replace(first.event, policy_json=codec.to_canonical_json(run.policy))
    return RecordedSession(name="with a policy", entries=(Entry(first.seq, started), *rest))


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "window_tokens"), [(KeepLast(threshold=0.6), 48_000), (Codex(), 90_000)])
def test_a_session_with_a_policy_is_shown_with_its_own_policy_window_and_threshold(policy, window_tokens):
    run = run_on_sample(policy, window_tokens, max_compactions=2)
    explorer = CompactionExplorer(with_policy(run))
    assert explorer._exploration.settings.policy == find_public_name(policy.kind)
    budget = explorer._exploration.run.budget
    assert (budget.window_tokens, budget.threshold_tokens) == (run.budget.window_tokens, run.budget.threshold_tokens)
    first = next(attempt for attempt in explorer._exploration.list_attempts() if attempt.status == "applied")
    assert (first.step, first.tokens_before) == (
        run.applied_attempts[0].event.step,
        run.applied_attempts[0].event.tokens_before,
    )
    share = format_percent(budget.threshold_tokens / window_tokens)
    words = f"{budget.threshold_tokens:,} tokens, {share} of the window of {window_tokens:,}"
    assert f"threshold {words}" in explorer.render_text()


def test_a_session_whose_policy_cannot_be_applied_is_shown_with_keep_last():
    run = run_on_sample(OracleRetention(), 60_000, max_compactions=1)
    explorer = CompactionExplorer(with_policy(run))
    assert explorer._exploration.settings.policy == "keep-last"
    assert explorer._exploration.settings.window_tokens == 60_000


def test_a_policy_is_offered_and_kept_under_its_public_name_also_if_its_kind_is_another():
    explorer = CompactionExplorer("sample", policy=resolve_policy("seed-gemini"))
    settings = explorer._exploration.settings
    assert settings.policy == "gemini-cli-simplified"
    assert settings.policy in explorer._build_constants()["offered"]["policies"]
    explorer.change_settings(policy="seed-gemini", threshold=0.6)
    explorer.change_settings(policy="gemini-cli-simplified", keep_share=0.2)
    assert {"threshold": 0.6, "keep_share": 0.2}.items() <= explorer._exploration.settings.fields.items()


def test_two_policies_are_compared_over_the_same_session(explorer):
    with pytest.raises(UsageError, match="no policy is pinned"):
        explorer.compare()
    explorer.pin()
    pinned = explorer.to_dataframe()
    explorer.change_settings(policy="none")
    table = explorer.compare()
    assert list(table.loc["policy"]) == ["none", "keep-last"]
    assert table.loc["compactions", "shown"] == "0"
    tokens = [int(text.replace(",", "")) for text in table.loc["tokens sent in all requests"]]
    assert tokens[0] == sum(explorer._exploration.uncompacted_tokens) > tokens[1]
    oversized = sum(one > WINDOW_TOKENS for one in explorer._exploration.uncompacted_tokens)
    assert list(table.loc["requests that exceed the window"]) == [f"{oversized}", "0"]
    assert oversized > 0
    explorer.change_settings(policy="keep-last")
    assert explorer.to_dataframe().equals(pinned)
    assert table.columns.tolist() == ["shown", "pinned"]
    assert (explorer.compare()["shown"] == explorer.compare()["pinned"]).all()
    explorer.unpin()
    with pytest.raises(UsageError, match="no policy is pinned"):
        explorer.compare()


def test_the_chosen_values_equal_those_of_the_trial_the_code_and_the_plan(explorer, tmp_path):
    explorer.change_settings(threshold=0.65, keep_last=7)
    trial = explorer.to_trial("flashcards")
    assert trial.max_steps is None
    assert (trial.policy, trial.window_tokens) == (KeepLast(threshold=0.65, keep_last=7), WINDOW_TOKENS)
    names: dict[str, object] = {"harness": harness}
    exec(explorer._exploration.format_code(), names)
    assert names["base"] == trial
    (tmp_path / "plan.toml").write_text(explorer._exploration.format_plan())
    assert read_plan(tmp_path).base == trial


@pytest.mark.browser
def test_the_button_opens_a_form_with_the_chosen_values_unless_a_grid_still_runs(link, explorer, page):
    linked = link(explorer)
    explorer.change_settings(threshold=0.65, keep_last=7)
    page.get_by_role("button", name="use in a grid").focus()
    page.keyboard.press("Enter")
    linked.settle()
    first = explorer.form
    assert first is not None
    assert first.experiment.base == explorer.to_trial("flashcards")
    assert (first.fields["threshold"].value, first.fields["keep_last"].value) == ("0.65", "7")
    explorer.change_settings(policy="codex", nominal_window_tokens=200_000)
    second = explorer.open_form("rename-sweep")
    assert explorer.form is second
    assert first.comm is None, "the earlier form is closed"
    assert second.experiment.base == explorer.to_trial("rename-sweep")
    grid = GridWidget(second.experiment)
    second.set_trait("grid", grid)
    grid.set_trait("state", "running")
    page.get_by_role("button", name="use in a grid").click()
    linked.settle()
    assert explorer.form is second
    assert page.get_by_role("alert").inner_text().startswith("the grid of the form below is still running")
    explorer.close()
    assert second.comm is None
    explorer.close()


DISTANCES = """() => {
    const [one, other] = [...document.querySelectorAll('.h-limits span')].map(name => name.getBoundingClientRect());
    return [Math.max(one.left - other.right, other.left - one.right), Math.max(one.top - other.bottom, other.top - one.bottom)];
}"""
"""Return the distances of two names across and down, negative where they overlap."""


@pytest.mark.browser
@pytest.mark.parametrize("threshold", [0.3, 0.9, 0.99])
def test_the_names_of_threshold_and_window_never_overlap(link, session, post, page, threshold):
    linked = link(CompactionExplorer(session, policy=Codex(threshold=threshold), window_tokens=WINDOW_TOKENS, sender=post))
    linked.settle()
    assert {name.split()[0] for name in page.locator(".h-limits span").all_inner_texts()} == {"threshold", "window"}
    assert max(page.evaluate(DISTANCES)) >= 0


@pytest.mark.browser
def test_the_line_of_the_conversation_ends_where_it_leaves_the_chart_and_all_lines_are_explained(link, post, page):
    session = RecordedSession(name="s", entries=build_sample_log(120_000))
    explorer = CompactionExplorer(session, window_tokens=WINDOW_TOKENS, sender=post)
    link(explorer)
    places = [point.split(",") for point in page.locator(".h-whole").get_attribute("points").split()]
    assert [height for _, height in places].count("0.0") == 1
    assert float(places[-1][0]) < 900
    total = f"{explorer._exploration.uncompacted_tokens[-1]:,}"
    key = (
        f"Solid line: tokens in view; dotted: the whole conversation, {total} tokens at the end, above the chart; ▼ compactions."
    )
    assert page.locator(".h-key").inner_text() == key


@pytest.mark.browser
def test_in_a_narrow_cell_of_a_wide_window_rows_show_their_text_and_long_names_are_wrapped(link, post, page):
    explorer = CompactionExplorer(RecordedSession(name="n" * 500, entries=build_sample_log(SAID_TOKENS)), sender=post)
    link(explorer)
    surface = page.locator(".harness-surface")
    surface.evaluate("one => { one.parentElement.style.width = '400px'; }")
    assert page.locator(".h-row .h-label").first.bounding_box()["width"] > 60
    assert page.locator(".h-texts").bounding_box()["width"] > 300
    assert surface.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    assert page.locator(".h-texts").inner_text() == "select a message in the list to read its text"


@pytest.mark.browser
def test_a_policy_is_pinned_and_requests_that_exceed_the_window_are_marked(link, explorer, page):
    linked = link(explorer)
    assert page.locator(".h-oversized").count() == 0
    assert not page.locator(".h-comparison").is_visible()
    page.get_by_role("button", name="pin to compare").click()
    linked.settle()
    page.get_by_label("policy").select_option("none")
    linked.settle()
    heads = page.locator(".h-comparison thead th").all_inner_texts()
    assert heads == ["", "shown: none", "pinned (dashed line): keep-last"]
    assert page.locator(".h-oversized").count() == 1
    assert page.locator(".h-said").inner_text().startswith("This request exceeds the window by ")
    assert page.locator(".h-pinned").get_attribute("points") != page.locator(".h-curve").get_attribute("points")
    page.locator(".h-use summary").focus()
    page.keyboard.press("Enter")
    assert "policies.NoCompaction()" in page.get_by_label("Python code").inner_text()
    page.get_by_role("slider", name="step", exact=True).focus()
    page.keyboard.press("Home")
    linked.settle()
    assert "exceeds" not in page.locator(".h-said").inner_text()
    page.get_by_role("button", name="unpin").click()
    linked.settle()
    assert not page.locator(".h-comparison").is_visible()
    assert page.locator(".h-pinned").get_attribute("points") == ""


@pytest.mark.browser
def test_the_comparison_lists_what_differs_and_the_facts_kept_and_the_description_names_the_values_set(link, lossy, page):
    lossy.pin()
    lossy.change_settings(policy="keep-last", trigger_tokens=20, keep_last=1, summary_tokens=1)
    link(lossy)
    rows = dict(line.split("\t", 1) for line in page.locator(".h-comparison tbody").inner_text().splitlines() if "\t" in line)
    assert rows["facts kept"] == "0 of 1 in view at the end, 1 loss\t1 of 1 in view at the end, 0 losses"
    assert rows["compactions"] == "1\t0"
    assert all(len(set(cells.split("\t"))) == 2 for cells in rows.values())
    assert "equal in both: requests that exceed the window" in page.locator(".h-comparison").inner_text()
    sentence = page.locator(".h-sentence").inner_text()
    assert "Here: " in sentence
    assert "keep last 1 instead of 10" in sentence
    lossy.change_settings(policy="none")
    assert lossy.channel._state["picture"]["values"] == "These are its default values."


@pytest.mark.parametrize("rows", [[0, 5], [190, 10**9], [100, 150]])
def test_a_page_gets_the_rows_that_it_asks_for_but_never_all_of_a_long_session(long_session, rows):
    explorer = CompactionExplorer(long_session, window_tokens=WINDOW_TOKENS)
    block = explorer._build_rows(rows)
    table = explorer.to_dataframe()
    end = min(rows[1], rows[0] + MAX_SENT_ROWS)
    assert (block["first"], block["count"]) == (rows[0], len(table))
    assert [row[2] for row in block["rows"]] == list(table["disposition"][rows[0] : end])
    assert [row[1] for row in block["rows"]] == list(table["text"][rows[0] : end])


def test_a_bar_of_a_thousand_messages_has_a_bounded_number_of_parts_and_every_token():
    messages = [(index % 2, 1 + index % 7) for index in range(20_000)]
    parts = _group_runs(messages)
    assert len(parts) <= MAX_BAR_PARTS
    for disposition in (0, 1):
        assert sum(tokens for part, tokens in parts if part == disposition) == sum(
            tokens for message, tokens in messages if message == disposition
        )
    assert _group_runs([(0, 1), (0, 2), (1, 0), (0, 5)]) == [(0, 3), (1, 0), (0, 5)]
    assert sum(tokens for _, tokens in _group_runs([(index % 2, 0) for index in range(5_000)])) == 0


@pytest.mark.browser
def test_rows_come_as_they_are_scrolled_into_sight_and_follow_the_step(link, long_session, post, page):
    explorer = CompactionExplorer(long_session, window_tokens=WINDOW_TOKENS, sender=post)
    linked = link(explorer)
    table = explorer.to_dataframe()
    assert len(table) > 2 * MAX_SENT_ROWS
    page.get_by_role("listbox").focus()
    for key, place in (("End", len(table)), ("Home", 1)):
        page.keyboard.press(key)
        linked.settle()
        row = page.locator(f".h-row[aria-posinset='{place}']")
        assert row.locator(".h-disposition").inner_text() == table["disposition"][place - 1]
        assert row.locator(".h-label").inner_text()[:20] == table["text"][place - 1][:20]
    page.locator(".h-rows").evaluate("list => { list.scrollTop = 24 * 300; }")
    linked.settle()
    explorer.change_settings(step=explorer.step_count - 5, threshold=0.3)
    linked.settle()
    dispositions = explorer.to_dataframe()["disposition"]
    rows = page.locator(".h-row").all()
    places = [int(row.get_attribute("aria-posinset")) for row in rows]
    assert 301 in places
    assert [row.locator(".h-disposition").inner_text() for row in rows] == [dispositions[place - 1] for place in places]


@pytest.mark.browser
def test_any_policy_can_be_chosen_and_brings_its_own_sliders(link, explorer, page):
    linked = link(explorer)
    offered = page.get_by_label("policy").locator("option").all_inner_texts()
    assert "oracle" not in offered  # nobody knows this session's future
    assert len(offered) > 25
    page.get_by_label("policy").select_option("roo-code")
    linked.settle()
    sentence = page.locator(".h-sentence").inner_text()
    assert "by one summary. The policy is modelled on the original, without a test beside it. " in sentence
    page.get_by_label("policy").select_option("swe-agent")
    linked.settle()
    sentence = page.locator(".h-sentence").inner_text()
    assert "the newest 5 by a line that gives their length. " in sentence
    assert sentence.endswith("These are its default values.")
    assert page.get_by_role("slider", name="keep results").is_visible()
    assert page.get_by_role("slider", name="threshold", exact=True).count() == 0
    assert shown(page, "masked")[0] == (explorer.to_dataframe()["disposition"] == "masked").sum() > 0
    masked = explorer.to_dataframe().query("disposition == 'masked'")["message"].iloc[0]
    page.locator(".h-row").nth(masked).click()
    linked.settle()
    assert page.locator(".h-texts h4").all_inner_texts() == ["in view", "tool, as logged"]


@pytest.mark.browser
def test_an_invalid_setting_is_reported_and_cleared_by_the_next_move(link, explorer, page):
    linked = link(explorer)
    page.get_by_label("window", exact=True).select_option("8192")
    linked.settle()
    assert "leave nothing of the window of 8,192" in page.get_by_role("alert").inner_text()
    page.get_by_role("checkbox", name="constants scaled").click()
    linked.settle()
    assert page.get_by_role("alert").inner_text() == ""
    assert explorer._exploration.settings.window_tokens == 8192


@pytest.mark.browser
def test_python_and_page_look_at_the_same(link, explorer, page):
    linked = link(explorer)
    explorer.change_settings(policy="drop-all", threshold=0.5, step=10)
    linked.settle()
    assert page.get_by_label("policy").input_value() == "drop-all"
    assert page.get_by_role("slider", name="threshold", exact=True).input_value() == "0.5"
    assert page.get_by_role("slider", name="step", exact=True).input_value() == "10"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_hostile_texts_stay_texts(link, post, page, theme):
    explorer = CompactionExplorer(hostile_session(), window_tokens=3_000, sender=post)
    linked = link(explorer, theme)
    for index in range(1, 6):
        page.locator(".h-row").nth(index).click()
        linked.settle()
        assert HOSTILE in page.locator(".h-texts").inner_text()
    explorer.change_settings(policy="swe-agent")
    linked.settle()
    assert page.locator("img, .harness-surface script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"


IN_JUPYTER = """\
from harness import CompactionExplorer
from tests.widgets.test_explorer import hostile_session

explorer = CompactionExplorer(hostile_session(), window_tokens=3_000)
explorer
"""
INSPECTOR = """\
from harness import SessionInspector
from tests.widgets.test_inspector import compacted_session

SessionInspector(compacted_session())
"""


@pytest.mark.browser
@pytest.mark.slow
def test_in_notebook_one_explores_and_inspects_and_the_saved_notebook_is_inert_and_readable(open_notebook, page, tmp_path):
    notebook = open_notebook(IN_JUPYTER, "explorer.render_text().splitlines()[1]", INSPECTOR, app="notebook")
    for cell in (0, 2):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    explores(page, notebook)
    page.screenshot(path=tmp_path / "explorer.png")
    inspects(page)
    page.screenshot(path=tmp_path / "inspector.png")
    assert page.evaluate("typeof window.hacked") == "undefined"
    notebook.reopen()
    page.locator(".jp-OutputArea td").get_by_text("summarized").first.wait_for()
    page.locator(".jp-OutputArea td").get_by_text(f"full {HOSTILE}").first.wait_for()
    assert page.locator(".jp-OutputArea img[src=x], .jp-OutputArea-output script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []


def explores(page, notebook):
    """Select a message, drag a slider and move it with a key; check that the kernel has followed."""
    root = page.get_by_role("region", name="Compaction explorer")
    root.locator(".h-row").nth(1).click()
    root.locator(".h-texts").get_by_text(HOSTILE).first.wait_for()
    slider = root.get_by_role("slider", name="threshold", exact=True)
    slider.scroll_into_view_if_needed()
    drag(page, slider)
    dragged = float(slider.input_value())
    assert 0.3 < dragged < 0.5
    page.keyboard.press("ArrowLeft")
    now = f"{dragged - 0.01:.2g}"
    root.get_by_text(f"{now} × (3,000").wait_for()  # the kernel has answered
    notebook.start_cell(1)
    notebook.finish_cell(1)
    outputs = "jupyterapp.shell.currentWidget.content.widgets[1].model.outputs.toJSON()"  # out of sight it is not in the page
    assert f"threshold={now}" in page.evaluate(f"() => JSON.stringify({outputs})")


def inspects(page):
    """Go to the compaction with keys that the notebook also uses, and read a message."""
    root = page.get_by_role("region", name="Session inspector")
    root.scroll_into_view_if_needed()
    root.focus()
    for key in ("PageDown", "x", "m"):  # x would cut the cell, m would make text of it
        page.keyboard.press(key)
    root.locator(".h-compacted").get_by_text("900 → 60 tokens").wait_for()
    root.locator(".h-row").nth(1).click()
    root.locator(".h-texts").get_by_text(f"summary {HOSTILE}").wait_for()
    assert root.locator("img, script").count() == 0
