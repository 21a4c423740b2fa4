"""Importer of Inspect: every value of the made-up fixture, and each pitfall of the format."""

import json
import zipfile

import pytest
import zstandard

from harness.conversation.messages import user
from harness.errors import MalformedRecording
from harness.recordings.reading import read_recordings
from tests.recordings.outline import FIXTURES, join_caveats, outline, squeezes

LOG = json.loads(FIXTURES["inspect-ai.json"].read_text())


def write_archive(file, log=LOG, *, about="header.json", method=zipfile.ZIP_DEFLATED):
    """Write a log as Inspect does, as a zip archive with a file for each sample."""
    with zipfile.ZipFile(file, "w", method) as archive:
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr("summaries.json", "[]")
        archive.writestr(about, json.dumps({name: value for name, value in log.items() if name != "samples"}))
    return file


def test_calls_attachments_compactions_and_graders_are_read():
    hive, swarm = read_recordings(FIXTURES["inspect-ai.json"])
    assert outline(hive) == [
        "0 system: You keep bees.",
        "0 user: Open hive three.",
        "1 assistant 60+30+10>25:",
        "  ~Honey flows.",
        "  I open the hive with care.",
        '  w1 web_search {"query": "bees"}',
        '  h1 open_hive {"hive": 3}',
        "1 tool: w1 web_search -> they hum",
        "1 tool: h1 open_hive error -> no smoke",
        "2 assistant 45+0+0>6: I light the smoker.",
    ]
    assert (hive.session_id, hive.models) == ("sample-hive", ("model-hive",))
    assert hive.cost_usd == pytest.approx(0.03)
    assert squeezes(hive) == [("compaction", 5, "auto", 190, "Summary: hive three is closed.")]
    assert (hive.compactions[0].tokens_after, hive.compactions[0].view) == (50, (user("Summary: hive three is closed."),))
    assert [(call.reason, call.usage and call.usage.prompt_tokens) for call in hive.left_out_calls] == [("side call", 80)]
    assert outline(swarm) == ["0 user: Catch it.", "1 assistant 9+0+0>2: Quiet bees."], "matched by its text"
    assert swarm.session_id == "eval-bees.swarm.1"


@pytest.mark.parametrize("about", ["header.json", "_journal/start.json"])
def test_an_archive_is_read_as_the_log_in_json(tmp_path, about):
    packed = read_recordings(write_archive(tmp_path / "log.eval", about=about))
    plain = read_recordings(FIXTURES["inspect-ai.json"])
    assert [outline(recording) for recording in packed] == [outline(recording) for recording in plain]
    assert [squeezes(recording) for recording in packed] == [squeezes(recording) for recording in plain]
    assert packed[0].messages[2].place == "samples/hive_epoch_1.json.messages[2]"


def test_a_damaged_sample_is_left_out_with_a_note(tmp_path):
    file = write_archive(tmp_path / "log.eval")
    with zipfile.ZipFile(file) as archive:
        start = archive.getinfo("samples/hive_epoch_1.json").header_offset
    data = bytearray(file.read_bytes())
    data[start + 80 : start + 120] = bytes(40)
    file.write_bytes(data)
    [swarm] = read_recordings(file)
    assert swarm.session_id == "eval-bees.swarm.1"
    assert "samples/hive_epoch_1.json: the file is damaged" in join_caveats(swarm)


def test_an_archive_that_was_cut_is_refused(tmp_path):
    file = write_archive(tmp_path / "log.eval")
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(MalformedRecording, match="expected a whole zip archive, got a damaged one"):
        read_recordings(file)


def pack_with_zstd(file):
    """Replace the first sample of an archive, whose files are stored as they are, by one that is compressed with zstd."""
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.infolist()[0]
        start = info.header_offset + 30 + len(info.filename)
        packed = zstandard.ZstdCompressor().compress(archive.read(info))
    entry = data.index(b"PK\x01\x02")  # the first entry of the directory is that of the first file
    padding = info.file_size - len(packed)
    data[start : start + info.file_size] = packed + bytes(padding)
    for method, size in ((info.header_offset + 8, info.header_offset + 18), (entry + 10, entry + 20)):
        data[method : method + 2] = (93).to_bytes(2, "little")
        data[size : size + 4] = len(packed).to_bytes(4, "little")
    file.write_bytes(data)


def test_a_sample_compressed_with_zstd_is_read(tmp_path):
    file = write_archive(tmp_path / "log.eval", method=zipfile.ZIP_STORED)
    expected = [outline(recording) for recording in read_recordings(file)]
    pack_with_zstd(file)
    assert [outline(recording) for recording in read_recordings(file)] == expected
    data = bytearray(file.read_bytes())
    data[150:160] = bytes(10)
    file.write_bytes(data)
    [swarm] = read_recordings(file)
    assert "samples/hive_epoch_1.json: the file is damaged" in join_caveats(swarm)


@pytest.mark.slow
def test_samples_beyond_the_limit_are_left_out_with_a_note(tmp_path):
    huge = {**LOG["samples"][0], "store": {"filler": " " * 70 * 2**20}}
    [swarm] = read_recordings(write_archive(tmp_path / "log.eval", {**LOG, "samples": [huge, LOG["samples"][1]]}))
    assert "1 file left out: the log has more than 64 MiB, unpacked" in join_caveats(swarm)
    with pytest.raises(MalformedRecording, match="at least one sample that can be read, got 1 file left out"):
        read_recordings(write_archive(tmp_path / "huge.eval", {**LOG, "samples": [huge]}))


def test_a_message_of_an_early_pool_is_found(tmp_path):
    sample = json.loads(json.dumps(LOG["samples"][0]))
    sample["message_pool"] = sample.pop("events_data")["messages"]
    recording, *_ = read_recordings(write_archive(tmp_path / "log.eval", {**LOG, "samples": [sample]}))
    assert recording.compactions[0].view == (user("Summary: hive three is closed."),)
