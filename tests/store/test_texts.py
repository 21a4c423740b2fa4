import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import StoreError
from harness.store.texts import INLINE_CHARACTERS, Packer, compute_address, detach_texts, list_addresses, parse_stored
from tests.house.source import CHECKOUT

JOURNAL = Path("j.sqlite")
ENDLESS = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little")
"""Header of a zstd frame that declares a size of one TiB."""
PLAIN = st.recursive(
    st.none() | st.integers() | st.text(max_size=20) | st.builds(lambda t: t * 60, st.text(max_size=20)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "output", "parts"]), inner),
)


@given(PLAIN)
def test_detached_texts_are_restored(value: object) -> None:
    before = json.dumps(value)
    detached: dict[str, tuple[str, bool]] = {}
    stored = json.dumps(detach_texts(json.loads(before), detached), separators=(",", ":"))
    assert parse_stored(stored, {address: text for address, (text, _) in detached.items()}) == json.loads(before)
    assert set(list_addresses(stored)) == set(detached)


@given(st.text(st.characters()), st.booleans())
def test_every_text_survives_packing(text: str, packed: bool) -> None:
    packer = Packer(JOURNAL)
    row = packer.pack("a", text, compress=packed)
    assert packer.unpack(row.data) == text
    assert row.characters == len(text)


def test_a_long_output_is_packed_and_a_long_answer_stays_readable() -> None:
    """S3.14."""
    text = "word " * INLINE_CHARACTERS
    assert isinstance(Packer(JOURNAL).pack("a", text, compress=True).data, bytes)
    detached: dict[str, tuple[str, bool]] = {}
    detach_texts({"text": text}, detached)
    assert detached == {compute_address(text): (text, False)}
    detached.clear()
    detach_texts({"output": text}, detached)
    assert detached == {compute_address(text): (text, True)}


@pytest.mark.parametrize("name", ["harness/conversation/events.py", "tests/agent/test_loop.py", "harness/session/control.py"])
def test_long_outputs_need_a_third_of_their_size(name: str) -> None:
    """S3.14: the document names a ratio of 3 to 10 for texts."""
    text = (CHECKOUT / name).read_text("utf-8")
    assert 3 <= len(text.encode()) / len(Packer(JOURNAL).pack("a", text, compress=True).data) <= 10


def test_addresses_differ_with_their_texts() -> None:
    assert len({compute_address(f"{number}" * 300) for number in range(1_000)}) == 1_000


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"no frame", "is damaged"),
        (ENDLESS, "has 1,099,511,627,776 bytes when it is unpacked; at most"),
        (ENDLESS[:4] + b"\x00\x58", "has an unknown size when it is unpacked"),
    ],
)
def test_a_text_that_cannot_be_unpacked_is_refused_with_its_file(data: bytes, problem: str) -> None:
    with pytest.raises(StoreError, match=f"a text in journal 'j.sqlite' {problem}"):
        Packer(JOURNAL).unpack(data)
