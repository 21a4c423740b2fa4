"""Excerpts of a replay: none without the option, and with it no key and no home folder."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.replay import replay_sessions
from harness.replay.excerpts import MASK, Excerpt, mask_text
from harness.reporting.page.bill import render_bill_page
from tests.replay.recorded import write_recording

LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
BEGIN_KEY = "-----BEGIN PRIVATE " + "KEY-----"
"""First line of a key, in two parts, so that no file of the project looks as if it had a key."""
SECRETS = st.tuples(
    st.sampled_from(
        [
            "sk-ant-{}",
            "ghp_{}",
            "AKIA{}",
            "password = {}",
            'export API_KEY="{}"',
            '{{"access_token": "{}"}}',
            '{{\\"client_secret\\": \\"{}\\"}}',
            "Authorization: Bearer {}",
            "https://person:{}@example.org/a",
            f"{BEGIN_KEY.replace('BEGIN', 'BEGIN RSA')}\n{{}}\n{BEGIN_KEY.replace('BEGIN', 'END RSA')}",
            f"{BEGIN_KEY}\n{{}}",
        ]
    ),
    st.text(LETTERS + "0123456789", min_size=20, max_size=60),
)
HOMES = st.tuples(
    st.sampled_from(["/home/{}/src", "/Users/{}/x.py", "C:\\Users\\{}\\x", "C:\\\\Users\\\\{}\\\\x", "-Users-{}-project"]),
    st.text(LETTERS, min_size=6, max_size=12),
)
NOISE = st.text("abc <>&\"'/\\\n`{}:=,;é😀\x00\u202e", max_size=40)


@given(NOISE, SECRETS, NOISE)
def test_no_planted_key_is_left(before, secret, after):
    form, key = secret
    masked = mask_text(f"{before} {form.format(key)} {after}")
    assert key not in masked
    assert MASK in masked
    assert not any(key[start : start + 12] in masked for start in range(len(key) - 12))


@given(NOISE, HOMES, NOISE)
def test_no_planted_home_is_left(before, home, after):
    form, name = home
    assert name not in mask_text(f"{before} {form.format(name)} {after}")


@given(st.text(max_size=200))
def test_masking_twice_changes_nothing_more_of_keys(text):
    masked = mask_text(text)
    assert mask_text(masked).count(MASK) >= masked.count(MASK)


@pytest.mark.slow
def test_a_page_has_excerpts_only_if_they_are_given(tmp_path):
    for number in range(2):
        write_recording(tmp_path / "folder" / f"p{number}" / f"s{number}.jsonl", 10, characters=200)
    replay = replay_sessions(tmp_path / "folder", ["claude-code"], [80_000], workers=1, cache_folder=tmp_path / "cache")
    page = render_bill_page(replay)
    assert "part_1.py" not in page
    assert "value_1" not in page
    hostile = "</script><img src=x onerror=alert(1)>"
    shown = render_bill_page(replay, [Excerpt("s.jsonl", 3, "identifier", "my_word", "step 1", hostile, 9)])
    assert "my_word" in shown
    assert hostile not in shown
    assert json.dumps(hostile) not in shown
