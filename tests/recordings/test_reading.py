"""Reading of any format: the format is detected by content, and truncated, damaged or hostile files never crash the reader."""

import copy
import gzip
import io
import json
import math
import re
import subprocess
import sys
import time
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.conversation.view import find_violation, fold_all
from harness.errors import HarnessError, MalformedRecording, UnknownName, UsageError
from harness.recordings.document import Document, parse_document
from harness.recordings.reading import FORMATS, detect_format, read_document, read_recording, read_recordings
from harness.recordings.session_log import build_entries
from tests.recordings.outline import FIXTURES, FORMATS_FOLDER, SMALL_RECORDINGS, join_caveats, needs_small_recordings, outline

FORMAT_OF = {name: path.parents[1].name.replace("_", "-") for name, path in FIXTURES.items()}
ROWS = sorted(name for name in FORMAT_OF if name.endswith(".jsonl") and name != "debug-gym.jsonl")
OBJECTS = sorted(name for name in set(FORMAT_OF) - set(ROWS) if not name.endswith(".md"))

names = st.sampled_from(sorted(FORMAT_OF))
HOSTILE: tuple[Any, ...] = (
    10**400,
    -1,
    10**13,
    math.inf,
    math.nan,
    0.5,
    True,
    None,
    "",
    "\ud800",
    "t1",
    {},
    [],
    [[]],
    [1],
    {"a": 1},
    "deep",
)


def read_safely(data, name="recording"):
    """Return the sessions in some bytes, after checking that each folds into a legal view; empty after an expected error."""
    try:
        document = parse_document(data, name)
        recordings = read_document(document, detect_format(document))
    except HarnessError:
        return ()
    for recording in recordings:
        if not recording.has_texts:
            continue
        view = fold_all(build_entries(recording))
        assert find_violation(view.messages) is None
        assert all(message.text.encode() is not None for message in view.messages)
    return recordings


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_a_folder_with_a_reader_a_page_and_fixtures(name):
    folder = FORMATS_FOLDER / name.replace("-", "_")
    page = (folder / "page.md").read_text()
    assert page.startswith("# ")
    for row in ("Seen", "Supported", "Not recorded by this agent", "Refused"):
        assert f"| {row} | " in page, f"{name}: page.md has no row {row!r}"
    assert (folder / "reader.py").is_file()
    assert name in FORMAT_OF.values(), f"{name}: no file in the folder `fixtures`"


ADDED_READER = """
from harness.recordings.draft import Draft

def can_read(document):
    return "# A diary" in document.text

def read(document):
    yield Draft(session_id="diary")
"""
LIST_FORMATS = """
import sys
import harness.recordings.formats as formats
formats.__path__.append(sys.argv[1])
from harness.recordings.reading import FORMATS, detect_format
from harness.recordings.document import parse_document
print("diary" in FORMATS, detect_format(parse_document(b"# A diary", "diary.md")))
"""


def test_a_format_is_added_by_its_folder_alone(tmp_path):
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary" / "reader.py").write_text(ADDED_READER)
    listed = subprocess.run([sys.executable, "-c", LIST_FORMATS, str(tmp_path)], capture_output=True, text=True, check=True)
    assert listed.stdout == "True diary\n"


@pytest.mark.parametrize("name", FORMAT_OF)
def test_a_fixture_is_claimed_by_its_format_alone_whatever_its_name(name, tmp_path):
    document = parse_document((FIXTURES[name]).read_bytes(), name)
    assert [name_of_format for name_of_format, known in FORMATS.items() if known.can_read(document)] == [FORMAT_OF[name]]
    (tmp_path / "anonymous").write_bytes((FIXTURES[name]).read_bytes())
    assert read_recordings(tmp_path / "anonymous") == read_recordings(FIXTURES[name], FORMAT_OF[name])


@pytest.mark.parametrize("name", ROWS)
def test_a_file_cut_between_rows_is_never_taken_for_another_format(name):
    lines = (FIXTURES[name]).read_bytes().splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        document = parse_document(b"".join(lines[:end]), name)
        assert {name_of_format for name_of_format, known in FORMATS.items() if known.can_read(document)} <= {FORMAT_OF[name]}
        read_safely(b"".join(lines[:end]), name)


@pytest.mark.parametrize("name", ROWS)
def test_rows_before_a_cut_row_are_read_with_a_caveat(name):
    whole = (FIXTURES[name]).read_bytes().rstrip(b"\n")
    last = whole.count(b"\n") + 1
    cut = read_safely(whole[:-5], name)
    assert cut
    assert f"line {last}: the file is truncated here" in join_caveats(cut[0])


@pytest.mark.parametrize("name", OBJECTS)
def test_a_cut_object_is_an_error_that_names_the_line(name):
    whole = (FIXTURES[name]).read_bytes().rstrip()
    with pytest.raises(MalformedRecording, match=rf"{name}, line \d+: expected a JSON value"):
        parse_document(whole[: len(whole) * 2 // 3], name)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(names, st.data())
def test_a_file_cut_anywhere_is_read_or_refused(name, data):
    whole = (FIXTURES[name]).read_bytes()
    read_safely(whole[: data.draw(st.integers(0, len(whole)))])


@settings(max_examples=100, deadline=None)
@given(names, st.data())
def test_a_file_with_damaged_bytes_is_read_or_refused(name, data):
    whole = bytearray((FIXTURES[name]).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    read_safely(bytes(whole))


def places(value, path=()):
    """Yield the path of every value inside a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def put(value, path, new):
    """Return a copy of a JSON value with another value at a path."""
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = put(value[path[0]], path[1:], new)
    return value


def nested(levels):
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*OBJECTS, *(name for name in ROWS if name != "pi.jsonl")]), st.sampled_from(HOSTILE), st.data())
def test_a_hostile_value_anywhere_is_read_or_refused(name, hostile, data):
    text = (FIXTURES[name]).read_text()
    values = [json.loads(line) for line in text.splitlines()] if name in ROWS else json.loads(text)
    path = data.draw(st.sampled_from([path for path in places(values) if path]))
    spoiled = put(values, path, nested(150) if hostile == "deep" else hostile)
    told_again = "\n".join(map(json.dumps, spoiled)) if name in ROWS else json.dumps(spoiled)
    read_safely(told_again.encode())


@pytest.mark.parametrize(
    ("spoil", "explanation"),
    [
        ({"usage": {"output_tokens": 10**400}}, r"line 3, message.usage.output_tokens: {}expected a whole number .*, got int"),
        ({"usage": {"output_tokens": "many"}}, r"line 3, message.usage.output_tokens: {}expected a whole number .*, got str"),
        ({"content": 7}, r"line 3, message.content: {}expected a list of objects, got int"),
        ({"content": ["text"]}, r"line 3, message.content\[0\]: {}expected an object, got str"),
        ({"id": {}}, r"line 3, message.id: {}expected a string, got dict"),
    ],
)
def test_a_wrong_type_is_named_with_file_line_and_what_was_expected(spoil, explanation, tmp_path):
    rows = [json.loads(line) for line in (FIXTURES["claude-code.jsonl"]).read_text().splitlines()]
    rows[2]["message"] |= spoil
    (tmp_path / "spoiled.jsonl").write_text("\n".join(map(json.dumps, rows[:15])))
    with pytest.raises(MalformedRecording, match=explanation.format("")) as caught:
        read_recording(tmp_path / "spoiled.jsonl")
    assert caught.value.file == str(tmp_path / "spoiled.jsonl")
    (tmp_path / "longer.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "longer.jsonl")
    assert re.search(explanation.format("row left out: "), join_caveats(recording)), "one of twenty rows is left out"


LISTS = ("steps", "messages", "conversation", "history", "nodes", "log", "samples", "requests")
"""Names of the field with the list of messages, events or steps in a file that is one JSON object."""
UNKNOWN = {"type": "unheard-of", "role": "unheard-of", "source": "unheard-of", "text": "Nobody reads these words."}


def add_unknown_item(name):
    """Return a fixture as bytes, with an item of an unknown kind that holds text in the middle."""
    text = FIXTURES[name].read_text()
    if name in ROWS:
        lines = text.splitlines()
        return "\n".join([*lines[:2], json.dumps(UNKNOWN), *lines[2:]]).encode()
    whole = json.loads(text)
    items = whole if isinstance(whole, list) else next(whole[key] for key in LISTS if key in whole)
    items.insert(len(items) // 2, UNKNOWN)
    return json.dumps(whole).encode()


@pytest.mark.parametrize("name", sorted(set(ROWS + OBJECTS) - {"harness.jsonl"}))
def test_text_of_an_unknown_kind_is_counted_in_a_note(name):
    plain, changed = read_safely(FIXTURES[name].read_bytes()), read_safely(add_unknown_item(name))
    assert len(changed) == len(plain)
    notes = {caveat.text for recording in changed for caveat in recording.caveats}
    added = notes - {caveat.text for recording in plain for caveat in recording.caveats}
    assert any(note.startswith("1 × ") for note in added), f"no note of the unknown item: {added}"


def test_a_row_of_an_unknown_kind_in_a_session_of_this_package_is_refused():
    document = parse_document(add_unknown_item("harness.jsonl"), "session")
    with pytest.raises(MalformedRecording, match="line 3: expected a type of row that this version knows, got 'unheard-of'"):
        read_document(document, "harness")


def test_a_number_that_is_too_long_for_the_parser_is_refused_with_its_line():
    with pytest.raises(MalformedRecording, match="line 1: expected a JSON value"):
        parse_document(b'{"schema_version": "ATIF-v1", "steps": [' + b"9" * 5_000 + b"]}", "long")


def test_nesting_that_would_exhaust_the_parser_is_refused_with_its_line():
    with pytest.raises(MalformedRecording, match="line 2: expected at most 100 levels of nesting"):
        parse_document(b"\n" + b"[" * 100_000, "deep")


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("rest", ["garbage\n", '{"x": 1}\n', "}\n"])
def test_text_behind_a_single_value_is_refused_with_its_line(name, rest):
    text = (FIXTURES[name]).read_text().rstrip() + "\n\n" + rest
    line = text.count("\n")
    document: Document | MalformedRecording
    try:
        document = parse_document(text.encode(), name)
        detect_format(document)
    except MalformedRecording as error:
        document = error
    if isinstance(document, MalformedRecording):
        assert (document.place, "nothing after" in document.expected) == (f"line {line}", True)
    else:
        assert [caveat.place for caveat in document.caveats] == [f"line {line}"], "a value on one line is a row, and read"


def pack(name):
    """Return a zip archive with one file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, "{}")
    return packed.getvalue()


ZIP = pack("session.json")


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (gzip.compress(b"{}"), "gzip; unpack it first"),
        (ZIP, "a zip archive; unpack it first"),
        (ZIP[:-9], "a damaged one"),
        (b"\x28\xb5\x2f\xfd...", "zstd; unpack it first"),
        (b"SQLite format 3\0...", "a database .SQLite.; export its sessions first"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16; convert it first"),
        ('{"a": 1}'.encode("utf-16-le"), "UTF-16; convert it first"),
        ('{"a": 1}'.encode("utf-16-be"), "UTF-16; convert it first"),
    ],
    ids=["gzip", "zip", "cut zip", "zstd", "sqlite", "utf-16", "utf-16-le", "utf-16-be"],
)
def test_a_file_that_is_not_utf_8_is_refused_with_advice(data, hint):
    with pytest.raises(MalformedRecording, match=hint):
        parse_document(data, "x")


def test_a_file_of_two_formats_is_refused_by_the_names_of_both(tmp_path):
    (tmp_path / "mixed.jsonl").write_bytes(FIXTURES["codex.jsonl"].read_bytes() + FIXTURES["pi.jsonl"].read_bytes())
    with pytest.raises(MalformedRecording, match="got a file that fits codex and pi; specify one of them"):
        read_recording(tmp_path / "mixed.jsonl")
    recording = read_recording(tmp_path / "mixed.jsonl", "codex")
    assert len(recording.messages) == len(read_recording(FIXTURES["codex.jsonl"]).messages)
    assert "message without a role, whose text is not read" in join_caveats(recording)


def test_a_file_of_two_writers_is_read_with_a_note():
    rows = FIXTURES["claude-code.jsonl"].read_text().splitlines()
    others = [row.replace("session-lamp", "session-other").replace('"uuid": "', '"uuid": "other-') for row in rows]
    mixed = "\n".join(row for pair in zip(rows, others, strict=True) for row in pair)
    recordings = read_safely(mixed.encode())
    alone = read_safely(FIXTURES["claude-code.jsonl"].read_bytes())
    assert [recording.session_id for recording in recordings] == [
        *(recording.session_id for recording in alone),
        *(recording.session_id.replace("session-lamp", "session-other") for recording in alone),
    ]
    for recording, other in zip(recordings[: len(alone)], recordings[len(alone) :], strict=True):
        assert outline(recording) == outline(other)
    assert "one of 2 sessions in this file that no row links" in join_caveats(recordings[0])


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "pi.jsonl", "copilot-cli.jsonl", "qwen-code.jsonl"])
def test_rows_whose_beginning_is_missing_are_read_from_the_first_whole_row(name):
    first, *rows = FIXTURES[name].read_bytes().splitlines()
    recordings = read_safely(b"\n".join([first[len(first) // 2 :], *rows]))
    assert recordings, "the rest of the file is a recording"
    assert "line 1: dropped: not JSON" in join_caveats(recordings[0])
    assert "the beginning of the file is missing" in join_caveats(recordings[0])


def test_a_file_of_a_gigabyte_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "large.jsonl").open("wb") as opened:
        opened.write(FIXTURES["pi.jsonl"].read_bytes())
        opened.truncate(2**30)
    with pytest.raises(UsageError, match="cannot read the recording"):
        read_recording(tmp_path / "large.jsonl")


def test_a_line_that_is_no_json_is_dropped_with_a_caveat():
    lines = (FIXTURES["claude-code.jsonl"]).read_bytes().splitlines()
    recording, _ = read_safely(b"\n".join([*lines[:4], b"Segmentation fault", *lines[4:]]))
    assert "line 5: dropped: not JSON" in join_caveats(recording)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# A diary\n", b"{}", b"[]", b'{"messages": []}', b"[1, 2]", b"\xc3\x28\xa0"])
def test_a_file_that_is_no_recording_is_refused_with_the_known_formats(content, tmp_path):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(MalformedRecording, match="one of the formats aider, atif, claude-code"):
        read_recording(tmp_path / "other")


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "Factory droid",
            [{"type": "session_start", "id": "s"}, {"type": "message", "message": {"role": "user", "content": "hi"}}],
        ),
        ("Amp", [{"v": 3, "id": "T-1", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}]),
    ],
)
def test_a_file_of_an_agent_that_nobody_could_check_is_refused_by_its_name(name, rows, tmp_path):
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(MalformedRecording, match=f"got a session of {name}: its source is not public"):
        read_recording(tmp_path / "other.jsonl")


@needs_small_recordings
@pytest.mark.parametrize(("file", "name"), [("droid.jsonl", "Factory droid"), ("amp.json", "Amp")])
def test_small_recordings_of_such_agents_are_refused(file, name):
    with pytest.raises(MalformedRecording, match=f"got a session of {name}"):
        read_recording(SMALL_RECORDINGS / file)


def test_a_list_of_a_chat_is_taken_for_no_agent(tmp_path):
    chat = [{"role": "system", "content": "You mend bags."}, {"role": "assistant", "content": "No command."}]
    (tmp_path / "other.jsonl").write_text(json.dumps(chat))
    with pytest.raises(MalformedRecording, match="a recording in one of the formats"):
        read_recording(tmp_path / "other.jsonl")


def test_a_bare_list_is_read_with_a_note_that_it_names_no_agent():
    assert "names no agent; it was read as gemini by its shape" in join_caveats(read_recording(FIXTURES["gemini-contents.json"]))


COMPACTED = [
    {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "hi"}},
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s", "compactMetadata": {"preTokens": 1}},
]
REWOUND = [{"id": "again", "type": "user", "content": "hi"}, {"$rewindTo": "again"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "repeated"),
    [
        ("claude-code", lambda number: [{**row, "uuid": f"{number} {index}"} for index, row in enumerate(COMPACTED)]),
        ("gemini", lambda number: [{"id": f"{number}", "type": "user", "content": "hi"}, *REWOUND]),
    ],
)
def test_many_compactions_and_rewinds_are_read_in_linear_time(name, repeated):
    rows = [{"sessionId": "s", "projectHash": "h"}] * (name == "gemini")
    rows += [row for number in range(12_000) for row in repeated(number)]
    document = parse_document("\n".join(map(json.dumps, rows)).encode(), "recording")
    start = time.process_time()
    [recording] = read_document(document, name)
    assert len(recording.messages) == 12_000
    assert [compaction.position for compaction in recording.compactions[:3]] == ([1, 2, 3] if name == "claude-code" else [])
    assert time.process_time() - start < 3


def test_a_file_without_messages_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"type": "summary", "summary": "x", "leafUuid": "u"}\n')
    with pytest.raises(MalformedRecording, match="at least one message"):
        read_recording(tmp_path / "empty.jsonl")


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the recording .*missing\.jsonl"):
        read_recording(tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="cannot read the recording"):
        read_recording(tmp_path)


def test_an_unknown_format_is_refused_with_the_nearest_names():
    with pytest.raises(UnknownName, match="did you mean 'claude-code'"):
        read_recording(FIXTURES["pi.jsonl"], "claude-codex")


def test_a_format_that_the_file_has_not_is_refused():
    with pytest.raises(MalformedRecording, match=r"pi.jsonl: expected a recording in the format codex"):
        read_recording(FIXTURES["pi.jsonl"], "codex")
