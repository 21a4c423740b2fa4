"""Importer of traces without texts: every value of the made-up fixture, and totals of published traces."""

import io
import json
import os
import tarfile
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from harness.errors import UsageError
from harness.inspection.import_folder import import_files
from harness.inspection.recording_folder import build_tables, read_folder
from harness.recordings.document import parse_document
from harness.recordings.reading import detect_format, read_document, read_recordings
from harness.recordings.session_log import build_entries
from tests.recordings.outline import FIXTURES, join_caveats, outline

TRACES = Path(os.environ.get("HARNESS_WEKA", Path(__file__).parents[4] / "shared" / "data" / "weka")) / "traces.tar.zst"


def test_blocks_that_an_earlier_call_sent_count_as_read_within_five_minutes():
    main, explorer = read_recordings(FIXTURES["weka.json"])
    assert outline(main) == [
        "0 user: (text)",
        "1 assistant 200+0+0>20: (tool_use)",
        "2 user: (tool_result)",
        "2 assistant 138+192+0>30: (thinking, text)",
        "3 user: (text)",
        "3 assistant 340+0+0>10: (tool_use)",
        "4 user: (text)",
        "4 assistant 36+64+0>5: (tool_use)",
    ]
    assert "the trace has no texts: its calls can be priced, and no policy can be tried on it" in join_caveats(main)
    assert outline(explorer)[1::2] == ["1 assistant 70+0+0>6: (tool_use)", "2 assistant 76+64+0>4: (tool_use)"]
    assert (explorer.session_id, explorer.parent_id) == ("trace_lake.agent_001", "trace_lake")
    assert [link.session_id for link in main.sub_agents] == [explorer.session_id]


def test_five_minutes_begin_at_the_end_of_an_answer(tmp_path):
    for answer_seconds, read_tokens in ((2.0, 0), (3.0, 320)):
        trace = json.loads(FIXTURES["weka.json"].read_text(encoding="utf-8"))
        calls = [request for request in trace["requests"] if request["type"] != "subagent"]
        calls[1]["api_time"], calls[2]["t"] = answer_seconds, calls[1]["t"] + 303.0
        calls[2]["hash_ids"] = calls[1]["hash_ids"]
        path = tmp_path / f"{answer_seconds}.json"
        path.write_text(json.dumps(trace), encoding="utf-8")
        usage = [item.usage for item in read_recordings(path)[0].messages if item.usage is not None]
        assert usage[2].cache_read_tokens == read_tokens


def test_a_trace_is_priced_but_never_shown_or_logged(tmp_path):
    with pytest.raises(UsageError, match="the weka session 'trace_lake' has no texts, only sizes"):
        build_entries(read_recordings(FIXTURES["weka.json"])[0])
    files = read_folder(FIXTURES["weka.json"], cache_folder=tmp_path / "cache")
    sessions = build_tables(files).sessions.set_index("session_id")
    # by hand, in USD per million tokens: 5 for input, 25 for output, .5 for reading from the cache
    cost_usd = (5 * (200 + 138 + 340 + 36) + 25 * (20 + 30 + 10 + 5) + 0.5 * (192 + 64)) / 1e6
    assert sessions.loc["trace_lake", "cost_usd"] == pytest.approx(cost_usd)
    counts = import_files(files, tmp_path / "journal.sqlite")
    assert (counts.added, counts.without_texts) == (0, 2)


def iter_traces():
    """Yield the parsed traces of the shared archive."""
    with (
        TRACES.open("rb") as packed,
        zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed) as stream,
        tarfile.open(fileobj=io.BufferedReader(stream), mode="r|") as archive,
    ):
        for member in archive:
            if member.isfile() and (opened := archive.extractfile(member)) is not None:
                yield opened.read()


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_file(), reason="no traces: set HARNESS_WEKA to their folder")
def test_totals_of_published_traces_are_those_in_the_files():
    for data in islice(iter_traces(), 60):
        whole = json.loads(data)
        document = parse_document(data, whole["id"])
        assert detect_format(document) == "weka"
        main, *children = read_document(document, "weka")
        for recordings, name in (([main], "parent_tokens"), (children, "subagent_tokens")):
            usages = [item.usage for recording in recordings for item in recording.messages if item.usage is not None]
            totals = {"input": sum(usage.prompt_tokens for usage in usages), "output": sum(u.output_tokens for u in usages)}
            assert totals == whole["totals"][name], whole["id"]
        assert len(children) == whole["totals"]["subagent_count"]
