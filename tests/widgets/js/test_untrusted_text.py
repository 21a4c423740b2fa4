"""Texts that reach the pages of widgets and reports, run with Bun: characters that turn or hide text are shown as their codes."""

import json
import subprocess

import pytest

from harness.text import escape_control_characters
from harness.widgets.harness_widget import render_preformatted, render_table

ODD_CHARACTERS = "\u202e\u2066\u200b\u200f\u00ad\ufeff\x1b\x07\x00\x9b\u2028\U000e0041"
TEXT = f"a{ODD_CHARACTERS}b\tc\nd é 漢 😀 <b>"

DELIVER = """
import { connect } from KERNEL;
globalThis.requestAnimationFrame = (act) => { act(); return 0; };
globalThis.cancelAnimationFrame = () => {};
const listeners = [];
const model = { on: (_event, listener) => listeners.push(listener), off: () => {}, send: () => {} };
const received = [];
const end = connect(model, { items: (items) => received.push(items), state: (changed) => received.push(changed) });
const text = TEXT;
listeners.forEach((listener) => listener({
  kind: "batch", number: 1, whole: true, from: 1, oldest: 1,
  items: [{ rows: [[1, text, null]] }], state: { name: text, count: 2 },
}));
end();
console.log(JSON.stringify(received));
"""


@pytest.mark.bun
def test_a_message_of_the_kernel_reaches_a_page_without_characters_that_turn_or_hide_text(checkout, tmp_path):
    kernel = checkout / "harness" / "widgets" / "js" / "kernel.js"
    (tmp_path / "page.js").write_text(DELIVER.replace("TEXT", json.dumps(TEXT)).replace("KERNEL", json.dumps(str(kernel))))
    run = subprocess.run(["bun", "run", tmp_path / "page.js"], capture_output=True, text=True, check=True, timeout=100)
    items, state = json.loads(run.stdout)
    shown = items[0]["rows"][0][1]
    assert state == {"name": shown, "count": 2}
    assert items == [{"rows": [[1, shown, None]]}]
    assert not set(ODD_CHARACTERS) & set(shown)
    assert shown.startswith("a\\u202e\\u2066\\u200b")
    assert shown.endswith("b\tc\nd é 漢 😀 <b>")


def test_static_html_shows_invisible_characters_as_their_codes():
    for rendered in (render_preformatted(TEXT), render_table((TEXT,), [(TEXT, 1)])):
        assert not set(ODD_CHARACTERS) & set(rendered)
        assert "a\\u202e\\u2066\\u200b" in rendered
        assert "&lt;b&gt;" in rendered
    assert "\n" in render_preformatted(TEXT)


def test_the_codes_are_those_of_the_command_line():
    assert escape_control_characters(ODD_CHARACTERS[:4]) == "\\u202e\\u2066\\u200b\\u200f"
