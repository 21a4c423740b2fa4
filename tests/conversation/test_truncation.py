"""Tests of truncation, tier 1 of the fourth design document (S3.1)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.conversation.truncation import (
    Truncation,
    build_mark,
    describe_location,
    format_preview,
    list_locations,
    measure_cut,
    name_output,
    note_expired_outputs,
    preview_output,
)

SEED = Truncation(max_lines=2_000, max_bytes=50 * 1024, saved=True)


def rows(count: int, width: int = 10) -> str:
    return "\n".join(f"{number:0{width}d}" for number in range(count))


@pytest.mark.parametrize("text", ["", "one line", rows(2_000), "x" * 51_200, "é" * 25_600])
def test_up_to_2000_lines_and_50_kilobytes_an_output_is_whole(text: str) -> None:
    assert preview_output(text, SEED) == (text, 0, "")


def test_the_first_or_last_2000_of_2001_lines_are_kept() -> None:
    text = rows(2_001)
    head, tail = preview_output(text, SEED), preview_output(text, Truncation(max_lines=2_000, max_bytes=51_200, keep="tail"))
    assert head.text == rows(2_000)
    assert tail.text == text[11:]
    assert head.cut_bytes == tail.cut_bytes == len(text) - 2_000 * 10, "the seed counts no line ends among what stays"


def test_whole_lines_stay_as_far_as_their_bytes_go() -> None:
    text = rows(1_000, width=100)
    assert preview_output(text, SEED).text == rows(512, width=100)
    assert preview_output(text.replace("0", "é"), SEED).text.count("\n") < 511, "bytes, not characters"


def test_a_first_line_that_is_too_long_is_cut_to_the_limit() -> None:
    line = "é" * 40_000
    assert preview_output(line + "\nrest", SEED).text == "é" * 25_600
    assert preview_output("rest\n" + line, Truncation(max_bytes=51_200, keep="tail")).text == "é" * 25_600


def test_the_mark_says_how_many_bytes_went_and_where_the_whole_is() -> None:
    preview = preview_output(rows(2_001), SEED)
    text = format_preview(preview, SEED, build_mark("output-12ab", SEED))
    assert text.startswith(preview.text + "\n\n...2010 bytes truncated...\n\nFull output saved to: output-12ab\n")
    assert "search_output" in text
    assert "read_output" in text
    unsaved = format_preview(preview, SEED, "")
    assert unsaved.endswith("...2010 bytes truncated...")
    tail = Truncation(max_lines=2_000, keep="tail")
    assert format_preview(preview_output(rows(2_001), tail), tail, "").startswith("...2010 bytes truncated...\n\n0000000001")


def test_a_mark_says_whether_its_output_was_deleted_and_other_lines_stay() -> None:
    """S3.1: for display only, since the log and what the model reads do not change."""
    names = [name_output(text) for text in ("kept", "deleted")]
    text = "\n\n".join(["Full output saved to: nowhere", *map(describe_location, names)])
    assert list_locations(text) == names
    lines = zip(text.split("\n"), note_expired_outputs(text, {names[0]}).split("\n"), strict=True)
    assert [(old, new) for old, new in lines if old != new] == [
        (
            f"Full output saved to: {names[1]}",
            f"Full output saved to: {names[1]} (deleted since: saved outputs are kept for 7 days)",
        )
    ]
    assert note_expired_outputs(text, None) == text


@given(
    text=st.text(max_size=300),
    lines=st.integers(1, 6),
    size=st.integers(4, 60),
    keep=st.sampled_from(["head", "tail"]),
)
@example(text="ab\ncd", lines=2, size=4, keep="head")
def test_a_preview_is_one_end_of_the_output_within_the_limits(text: str, lines: int, size: int, keep: str) -> None:
    preview = preview_output(text, Truncation(max_lines=lines, max_bytes=size, keep=keep))  # type: ignore[arg-type]
    assert text.startswith(preview.text) if keep == "head" else text.endswith(preview.text)
    kept = preview.text.split("\n")
    assert len(kept) <= lines
    assert sum(len(line.encode()) for line in kept) <= size
    assert (preview.cut_bytes == 0) == (preview.text == text)
    cut = measure_cut(text, preview.text)
    rest = text.removeprefix(preview.text) if keep == "head" else text.removesuffix(preview.text)
    assert cut == (len(rest), len(rest.encode()))
