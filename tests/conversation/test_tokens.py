"""Counting tokens and characters."""

import json
import statistics
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import File, Message, Part, Reasoning, Text, ToolCall, ToolResult, user
from harness.conversation.tokens import MIN_GROWTH_TOKENS, Calibration, QuarterOfCharacters, count_json_characters
from harness.models.tokenizer import count_text_tokens
from harness.testing.strategies import TEXTS
from tests.house.source import CHECKOUT

WILD = TEXTS | st.sampled_from(['"', "\\", "\x00", "\u2028", "\ud800", "é", "line\nline\ttab"])
PARTS = st.one_of(
    st.builds(Text, text=WILD),
    st.builds(Reasoning, text=WILD),
    st.builds(ToolCall, call_id=WILD, name=WILD, arguments_json=WILD),
    st.builds(ToolResult, call_id=WILD, name=WILD, output=WILD),
    st.builds(File, path=WILD, content=WILD),
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])


def plain(part: Part) -> Mapping[str, str]:
    if isinstance(part, ToolCall):
        return {"name": part.name, "args": part.arguments_json}
    if isinstance(part, ToolResult):
        return {"name": part.name, "response": part.output}
    assert isinstance(part, Text | File)
    return {"text": part.text if isinstance(part, Text) else f"{part.path}\n{part.content}"}


@given(message=st.builds(Message, role=ROLES, parts=st.lists(PARTS, max_size=4).map(tuple)))
def test_the_characters_of_a_message_as_json_are_those_that_an_encoder_writes(message: Message) -> None:
    parts = [plain(part) for part in message.parts if not isinstance(part, Reasoning)]
    written = json.dumps({"role": message.role, "parts": parts}, ensure_ascii=False, separators=(",", ":"))
    assert count_json_characters(message) == len(written)


def count_both(text: str) -> tuple[int, int]:
    """Return the estimated number of tokens in a text, and the number that a tokenizer counts."""
    return QuarterOfCharacters().count(user(text)), count_text_tokens(text)


@pytest.mark.parametrize(
    "pattern", ["harness/session/*.py", "docs/guide/*.md", "harness/widgets/js/*.js", "experiments/*/plan.toml"]
)
def test_the_estimate_is_as_accurate_as_the_design_documents_say(pattern: str) -> None:
    """S0.3 ("~75-80 %" for a text) and S4.2 ("20 % margin" in total), for texts of the kinds that a coding agent reads."""
    counts = [count_both(path.read_text("utf-8")) for path in CHECKOUT.glob(pattern)]
    assert len(counts) >= 3
    assert statistics.median(1 - abs(estimate - count) / count for estimate, count in counts) >= 0.75
    assert sum(estimate for estimate, _ in counts) == pytest.approx(sum(count for _, count in counts), rel=0.2)


@pytest.mark.slow
def test_the_estimate_is_a_little_high_for_python_and_far_too_low_for_japanese() -> None:
    """S0.3: "slightly over-counts" code; S3.4: "underestimates for non-English text"."""
    estimate, count = map(
        sum, zip(*(count_both(path.read_text("utf-8")) for path in CHECKOUT.glob("harness/*/*.py")), strict=True)
    )
    assert count < estimate < 1.2 * count
    estimate, count = count_both("これは日本語の文章です。トークンの数は文字数の四分の一よりずっと多くなります。" * 20)
    assert estimate < count / 2


REPORTS = st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 10**9)), max_size=8)


@given(reports=REPORTS, tokens=st.integers(0, 10**9), more=st.integers(0, 10**6))
def test_a_calibration_is_monotone_and_its_inverse_never_promises_too_much(
    reports: list[tuple[int, int]], tokens: int, more: int
) -> None:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration = calibration.add_report(estimated, reported)
    assert Calibration().add_reports(reports) == calibration
    assert calibration.ratio > 0
    assert 0 <= calibration.measure(tokens) <= calibration.measure(tokens + more)
    if reports:
        assert calibration.measure(reports[-1][0]) == reports[-1][1]
    if (held := calibration.invert(tokens)) > 0:
        assert calibration.measure(held) <= tokens + 1, "rounded up"


@given(
    ratio=st.floats(0.5, 4),
    overhead=st.integers(0, 30_000),
    sizes=st.lists(st.integers(0, 150_000), min_size=2, max_size=30),
    size=st.integers(0, 200_000),
)
def test_a_calibration_finds_the_ratio_whatever_the_definitions_of_tools_add(
    ratio: float, overhead: int, sizes: list[int], size: int
) -> None:
    def count(estimated: int) -> int:
        return round(overhead + ratio * estimated) + 1

    calibration, grown = Calibration(), 0
    for before, after in pairwise([sizes[0], *sizes]):
        calibration = calibration.add_report(after, count(after))
        grown += max(0, after - before)
    if grown < MIN_GROWTH_TOKENS:
        assert calibration.ratio == 1
    else:
        assert calibration.ratio == pytest.approx(ratio, rel=0.08)
        assert calibration.measure(size) == pytest.approx(count(size), abs=0.08 * ratio * abs(size - sizes[-1]) + 3)


def test_a_single_report_does_not_change_the_token_ratio() -> None:
    """A first request of few characters has thousands of tokens of tool definitions."""
    calibration = Calibration().add_report(50, 20_000)
    assert (calibration.ratio, calibration.measure(2_050)) == (1, 22_000)
    assert calibration.measure(25) == 10_000, "when such a prompt is shortened, it is taken to shrink in proportion"
