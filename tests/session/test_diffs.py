"""Tests of the readable differences between two workspaces, also for hostile names and contents."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files.blobs import TemporaryBlobStore
from harness.protocols import FileState
from harness.session import diffs as module
from harness.session.diffs import (
    MAX_FILE_LINES,
    MAX_FILES,
    MAX_LINE_CHARACTERS,
    MAX_TOTAL_CHARACTERS,
    build_patches,
    join_patches,
)
from tests.sandboxes.test_snapshots import snapshot_of

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-- d", "@@ -1 +1 @@"]), max_size=30)
ENDS = st.sampled_from(["", "\n"])


def between(old, new):
    """Return the patches between two workspaces, which are given as contents by path."""
    blobs = TemporaryBlobStore()
    return build_patches(blobs, snapshot_of(blobs, old), snapshot_of(blobs, new))


def applied(old, text):
    """Return a text after applying a patch by the rules of the unified format."""
    lines, lines_after, at = old.split("\n"), [], 0
    _, _, *diff_lines = text.split("\n")[:-1]
    for number, line in enumerate(diff_lines):
        if header := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line):
            begins = int(header[1]) - (header[2] != "0")
            lines_after += lines[at:begins]
            at = begins
        elif line.startswith("\\"):
            pass
        else:
            if line[0] in " -":
                assert lines[at] == line[1:]
                at += 1
            if line[0] in " +":
                lines_after.append(line[1:])
                last = diff_lines[number + 1 : number + 2]
                if last and last[0].startswith("\\"):
                    return "\n".join(lines_after)
    rest = lines[at:]
    return "\n".join([*lines_after, *rest]) if rest else "\n".join([*lines_after, ""]) if lines_after else ""


@given(LINES, LINES, LINES, LINES, ENDS, ENDS)
def test_a_patch_leads_from_the_old_text_to_the_new(lead, old, new, tail, old_end, new_end):
    before, after = ("\n".join([*lead, *middle, *tail]) + end for middle, end in ((old, old_end), (new, new_end)))
    patches = between({"f": before.encode()}, {"f": after.encode()})
    if before == after:
        assert patches == ()
    else:
        assert applied(before, patches[0].text) == after


def test_a_change_in_a_long_file_is_shown_at_its_place():
    old = [f"line {n}\n" for n in range(50_000)]
    new = [*old[:40_000], "new\n", *old[40_001:]]
    [patch] = between({"f": "".join(old).encode()}, {"f": "".join(new).encode()})
    assert patch.text == (
        "--- a/f\n+++ b/f\n@@ -39998,7 +39998,7 @@\n"
        " line 39997\n line 39998\n line 39999\n-line 40000\n+new\n line 40001\n line 40002\n line 40003\n"
    )


def test_files_come_and_go_by_path():
    added, deleted = between({"b": b"gone\n"}, {"a": b"here"})
    assert (added.kind, added.text) == ("added", "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+here\n\\ No newline at end of file\n")
    assert (deleted.kind, deleted.text) == ("deleted", "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n")
    assert join_patches((added, deleted)) == added.text + deleted.text


def test_a_binary_or_too_large_file_is_shown_with_its_sizes():
    [patch] = between({"f": b"\0\1\2"}, {"f": b"text"})
    assert patch.text == "--- a/f\n+++ b/f\n(binary: 3 bytes -> 4 bytes)\n"
    [patch] = between({"f": b"x"}, {"f": b"y" * (module.MAX_FILE_BYTES + 1)})
    assert "(too large to be shown: 1 bytes -> 1,048,577 bytes)" in patch.text


def test_a_changed_mode_is_named():
    blobs = TemporaryBlobStore()
    older = snapshot_of(blobs, {"f": b"x\n"})
    state = older.files["f"]
    newer = type(older)(tree_id="other", files={"f": FileState(sha256=state.sha256, mode=0o100755, size_bytes=state.size_bytes)})
    [patch] = build_patches(blobs, older, newer)
    assert patch.text == "--- a/f\n+++ b/f\n(mode 100644 -> 100755)\n"


HOSTILE = "\x1b[2J\r\x07\u202e\x85\u2028\x0c\ud800".encode("utf-8", "surrogatepass")


def test_control_characters_of_names_and_contents_are_shown_escaped_and_forge_no_line():
    name = "x\n+++ b/forged\x1b[31m\udcff"
    [patch] = between({}, {name: b"<script>\xff" + HOSTILE + b"\n+++ b/too\n"})
    head, into, hunk, first, second = patch.text.splitlines()
    assert (head, into) == ("--- /dev/null", "+++ b/x\\n+++ b/forged\\x1b[31m\\xff")
    assert first.startswith("+<script>\\xff\\x1b[2J\\r\\x07\\u202e\\x85\\u2028\\x0c\\xed")
    assert second == "++++ b/too"
    assert all(line.isprintable() for line in patch.text.splitlines())
    assert hunk == "@@ -0,0 +1,2 @@"


@pytest.mark.parametrize("content", [b"x" * 1_000_000, b"x\n" * 3_000, b"".join(b"%d\n" % (n % 90) for n in range(2_000))])
def test_the_diff_of_a_file_is_limited_in_length_and_time(content):
    began = time.process_time()
    [patch] = between({"f": b"".join(b"%d\n" % (n * 7 % 90) for n in range(1_900))}, {"f": content})
    assert time.process_time() - began < 20
    assert len(patch.text.splitlines()) <= MAX_FILE_LINES + 5
    assert max(map(len, patch.text.splitlines())) < MAX_LINE_CHARACTERS + 60


def test_only_the_first_of_very_many_files_are_shown():
    patches = between({}, {f"{n:04}": b"x\n" for n in range(2 * MAX_FILES)})
    assert [one.path for one in patches] == [f"{n:04}" for n in range(MAX_FILES)]
    assert "there may be more files" in join_patches(patches)
    many = join_patches(between({}, {f"{n:04}": b"x" * 300 + b"\n" * 390 for n in range(MAX_FILES)}) * 3)
    assert len(many) < MAX_TOTAL_CHARACTERS + 100
    assert many.endswith(" characters more)\n")
