"""The server of the page: only with the token, only under its own name, only GET, only on this machine."""

import http.client
import json
import re
import socket
import sqlite3
import threading
import time
import zlib
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from harness.errors import StoreError
from harness.reporting.page.document import collect_page
from harness.reporting.page.live_results import LiveResults
from harness.reporting.page.server import serve_page
from harness.store.journal import Journal
from tests.reporting.page.experiments import declare, write_experiment, write_trial


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    write_experiment(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with serve_page(LiveResults(folder)) as address:
        yield address


def ask(address, path="", *, method="GET", host=None, **headers):
    """Send a request to a path below the address, or to an absolute path, and return status, headers and body."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    try:
        connection.putrequest(method, path if path.startswith("/") else parts.path + path, skip_host=True)
        connection.putheader("Host", parts.netloc if host is None else host)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.slow
def test_page_values_progress_and_sessions_are_served(address):
    status, headers, body = ask(address)
    assert status == 200
    assert b"connect-src 'self'" in body
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert json.loads(zlib.decompress(ask(address, "values")[2]))["served"] is True
    assert json.loads(ask(address, "progress")[2])["finished"] == 18
    assert json.loads(zlib.decompress(ask(address, "session/s0-1-2")[2]))["session"]["name"] == "s0-1-2"


@pytest.mark.slow
def test_a_page_in_preparation_says_what_it_waits_for_and_then_appears(folder, monkeypatch):
    results, may_read, seen = LiveResults(folder), threading.Event(), list[str]()
    monkeypatch.setattr(
        "harness.reporting.page.live_results.collect_page",
        lambda *given, **more: may_read.wait(60) and collect_page(*given, **more),
    )
    with serve_page(results) as address:
        reading = threading.Thread(target=results.prepare, args=(seen.append,))
        reading.start()
        while not results.describe_preparation():
            time.sleep(0.01)
        status, headers, body = ask(address)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert re.search(rb"reading the tables of 18 trials, \d+ s so far", body)
        assert b'http-equiv="refresh"' in body
        may_read.set()
        reading.join()
        assert b"connect-src 'self'" in ask(address)[2]
    assert seen == ["reading the tables of 18 trials", "comparing the arms", "collecting the values of the page"]


def test_addresses_are_random_and_on_the_loopback_interface(address, folder):
    with serve_page(LiveResults(folder)) as other:
        assert urlsplit(other).path != urlsplit(address).path
    assert urlsplit(address).hostname == "127.0.0.1"
    assert len(urlsplit(address).path) >= 32


@pytest.mark.parametrize("path", ["/", "/x", "/wrong-token/", "/wrong-token/values", "/%2e%2e/", "//"])
def test_a_wrong_token_is_refused(address, path):
    status, _, body = ask(address, path)
    assert status == 403
    assert body == b"403 Forbidden\n"


def test_part_of_the_token_is_refused(address):
    path = urlsplit(address).path
    assert ask(address, path[:-2] + "/")[0] == 403
    assert ask(address, path[:-1] + "x/")[0] == 403
    assert ask(address, "/%ff/")[0] == 400


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:80", "127.0.0.1", "localhost", "127.0.0.1.evil.example", "[::1]"]
)
def test_another_host_is_refused(address, host):
    """A page of another origin whose name resolves to this machine (DNS rebinding) sends its own name."""
    assert ask(address, host=host)[0] in (400, 403)
    assert ask(address, host=f"localhost:{urlsplit(address).port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
def test_only_get_is_served(address, method):
    assert ask(address, method=method)[0] == 405


def test_no_other_origin_may_read_an_answer(address):
    for path in ("", "values", "progress", "session/s0-0-0"):
        _, headers, _ = ask(address, path, Origin="https://evil.example")
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Server" not in headers


@pytest.mark.parametrize("path", ["other", "session/", "session/nothing", "session/../../../etc/passwd", "values/x", "%00"])
def test_other_paths_are_answered_with_404(address, path):
    assert ask(address, path)[0] == 404


def test_a_port_in_use_is_an_error(folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StoreError, match=f"cannot listen on port {port}"), serve_page(LiveResults(folder), port=port):
            pass


def is_fault(message):
    return message.type == "error" and "Failed to load resource" not in message.text  # the icon; the server once it has ended


@pytest.fixture
def open_served(browser):
    """`open_served(address)`: open a served page; an error of its scripts fails the test."""
    faults, opened = [], []

    def open_one(address):
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        opened.append(page)
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda one: faults.append(one.text) if is_fault(one) else None)
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_one
    for page in opened:
        page.close()
    assert faults == []


def add_trial(folder, **changes):
    with Journal.open(folder / "journal.sqlite") as journal:
        write_trial(journal, **{"trial_id": "new", "session_id": "new", "experiment": "made", "task": "t1"} | changes)


def read_choices(page):
    """Return the baseline, the heading of the list of trials, and the trial whose row is marked."""
    baseline = page.locator("select[name=baseline] option:checked").all_inner_texts()
    return baseline, page.locator(".p-trials h2").inner_text(), page.locator(".p-trials tr.p-current th").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize("declares_contrasts", [False, True])
def test_a_new_arm_changes_no_choice_of_the_reader(open_served, tmp_path, declares_contrasts):
    changes = {"provenance_json": declare(30)} if declares_contrasts else {}
    write_experiment(tmp_path, **changes)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        if not declares_contrasts:
            page.locator("select[name=baseline]").select_option(label="b")
        page.locator(".p-arms .p-link", has_text="b").click()
        page.locator(".p-trials .p-link").nth(1).click()
        page.locator(".p-transcript .h-row").first.wait_for()
        before = read_choices(page)
        assert before == ([] if declares_contrasts else ["b"], "Trials of b", "t1, seed 1")
        add_trial(tmp_path, arm="A", **changes)  # first in the order of the arms
        page.locator(".p-arms .p-link").nth(3).wait_for()
        assert page.locator(".p-arms .p-link").all_inner_texts() == ["A", "a", "b", "c"]
        assert read_choices(page) == before


FOCUSED = "document.activeElement.dataset.key ?? document.activeElement.name"


@pytest.mark.browser
def test_a_new_trial_takes_neither_the_focus_nor_the_caret(open_served, tmp_path):
    write_experiment(tmp_path)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        page.locator(".p-arms .p-link", has_text="b").click()
        targets = {
            "filter": "input[name=filter]",
            "choice baseline": "select[name=baseline]",
            "sort score": ".p-sort:text-is('score')",
            "arm b": ".p-arms .p-link:text-is('b')",
            'cell ["","b","t1"]': ".p-grid tr:has(th:text-is('b')) button >> nth=0",
            "trial 1-0-1": ".p-trials .p-link >> nth=1",
        }
        for number, (key, target) in enumerate(targets.items()):
            page.locator(target).focus()
            if key == "filter":
                page.keyboard.type("b")
                page.keyboard.press("Home")
            name = f"new-{number}"
            add_trial(tmp_path, trial_id=name, session_id=name, arm="b" if number % 2 else f"b {name}", seed=100 + number)
            page.get_by_text(f"{19 + number} of {19 + number} trials finished").wait_for()
            page.get_by_text(re.compile(rf"arms? of {4 + number // 2} shown")).wait_for()
            assert page.evaluate(FOCUSED) == key
            if key == "filter":
                page.keyboard.type("=")
                assert page.locator(target).input_value() == "=b", "the caret stays before the text"
                page.locator(target).fill("")


@pytest.mark.browser
def test_a_new_trial_does_not_shorten_the_list_of_trials(open_served, tmp_path):
    write_experiment(tmp_path, arms=("a",), tasks=("t1",), seeds=62)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        page.locator(".p-arms .p-link").click()
        rows = page.locator(".p-trials tbody tr")
        assert rows.count() == 60
        page.get_by_role("button", name="show all 62").click()
        assert rows.count() == 62
        add_trial(tmp_path, arm="a", seed=99)
        rows.nth(62).wait_for()
        assert rows.count() == 63


DESCRIBE_REPORT = """() => [
    document.getElementById("sessions").parentElement.textContent,
    ...[...document.querySelectorAll(".p-report > *")].map((one) => `${one.open} ${one.textContent}`),
]"""


@pytest.mark.browser
def test_the_report_follows_the_trials_and_keeps_the_sections_of_the_reader(open_served, tmp_path):
    write_experiment(tmp_path)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        first = page.evaluate(DESCRIBE_REPORT)
        assert first[0].startswith("18 trials;")
        with Journal.open(tmp_path / "journal.sqlite") as journal:
            write_trial(journal, trial_id="new", session_id="new", arm="\x1b[2J<b>", experiment="made", task="t1", seed=9)
        page.get_by_text("19 of 19 trials finished").wait_for()
        page.locator("#sessions", has_text="19 trials;").wait_for()
        second = page.evaluate(DESCRIBE_REPORT)
        assert second == open_served(address).evaluate(DESCRIBE_REPORT)
        assert second != first
        assert "<b>" in "".join(second)
        summary = page.locator(".p-report summary").nth(1)
        is_open = summary.locator("..").evaluate("one => one.open")
        summary.focus()
        page.keyboard.press("Enter")
        add_trial(tmp_path, trial_id="newer", session_id="newer", arm="b", seed=9)
        page.locator("#sessions", has_text="20 trials;").wait_for()
        assert summary.locator("..").evaluate("one => one.open") is not is_open
        assert page.evaluate("document.activeElement.textContent") == summary.inner_text()


@pytest.mark.browser
def test_scripts_and_document_show_the_same_report(browser, open_served, tmp_path):
    write_experiment(tmp_path, arms=("\x1b[2J<b>", "b"))
    with serve_page(LiveResults(tmp_path)) as address:
        with_scripts = open_served(address).evaluate(DESCRIBE_REPORT)
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(address)
        without_scripts = page.evaluate(DESCRIBE_REPORT)
        context.close()
    assert with_scripts == without_scripts


@pytest.mark.browser
def test_a_page_without_a_baseline_stays_without_one(open_served, tmp_path):
    write_experiment(tmp_path)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        page.locator("select[name=baseline]").select_option("-1")
        add_trial(tmp_path, arm="new arm")
        page.locator(".p-arms .p-link", has_text="new arm").wait_for()
        assert page.locator("select[name=baseline] option:checked").inner_text() == "none"


@pytest.mark.browser
def test_an_arm_that_a_new_plan_drops_is_no_longer_chosen(open_served, tmp_path):
    write_experiment(tmp_path)
    with serve_page(LiveResults(tmp_path)) as address:
        page = open_served(address)
        page.locator("select[name=baseline]").select_option(label="c")
        page.locator(".p-arms .p-link", has_text="c").click()
        with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as database, database:
            database.execute("UPDATE trial SET arm = 'c (earlier plan 0a1b2c)' WHERE arm = 'c'")
        add_trial(tmp_path, arm="a", seed=9)
        page.locator(".p-arms .p-link").nth(2).wait_for(state="detached")
        assert page.locator("select[name=baseline] option:checked").inner_text() == "none"
        assert page.locator(".p-trials").is_hidden()


@pytest.mark.browser
def test_a_page_shows_progress_new_trials_and_sessions(browser, tmp_path):
    write_experiment(tmp_path)
    with serve_page(LiveResults(tmp_path)) as address:
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        faults, requests = [], []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
        page.on("request", lambda one: requests.append(one.url))
        page.goto(address)
        page.get_by_text("18 of 18 trials finished").wait_for()
        page.get_by_label("filter arms").fill("new")
        assert page.locator(".p-arms .p-link").count() == 0
        with Journal.open(tmp_path / "journal.sqlite") as journal:
            write_trial(journal, "words of the new trial", trial_id="new", session_id="new %?&#1", arm="new arm")
        page.locator(".p-arms .p-link", has_text="new arm").click(timeout=30_000)
        page.get_by_text("19 of 19 trials finished").wait_for()
        page.locator(".p-trials .p-link").first.click()
        page.locator(".p-transcript .h-row").first.wait_for()
        page.close()
    assert faults == []
    assert all(url.startswith(address) or url.endswith("favicon.ico") for url in requests)
