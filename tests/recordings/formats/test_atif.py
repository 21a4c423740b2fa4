"""Importer of ATIF: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recordings
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes


def test_observations_without_a_call_id_go_to_the_calls_in_order():
    recording = fixture("atif.json")
    assert outline(recording) == [
        "0 system: You fly kites.",
        "0 user: Fly it high.",
        "1 assistant 60+30+0>11:",
        "  ~Wind from the west.",
        "  I run.",
        '  f1 run {"steps": 9}',
        "  f2 pull {}",
        "1 tool: f1 run -> fast",
        "1 tool: f2 pull -> taut",
        "2 assistant 120+0+0>4:",
        "  I look up.",
        "  f3 look {}",
        "2 tool: f3 look -> high",
        "3 assistant: It flies.",
        "3 user: Handed over.",
    ]
    assert (recording.session_id, recording.models) == ("session-kite", ("wind-1", "wind-2"))
    assert recording.cost_usd == pytest.approx(0.02)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × session of a sub-agent or summarizer in another file",
    ]


def test_compactions_embedded_sub_agents_and_cache_writes_of_version_1_7_are_read():
    main, keeper = read_recordings(FIXTURES["atif-1.7.json"])
    assert outline(main) == [
        "0 system: You keep a lighthouse.",
        "0 user: Light the lamp.",
        "1 assistant 40+30+50>20:",
        "  ~It is dusk.",
        "  I send a keeper.",
        '  l1 delegate {"to": "keeper"}',
        "1 tool: l1 delegate -> lit",
        "2 user: Blow the horn.",
        "2 assistant 40+0+0>4: It blows.",
        "3 assistant: Watch ends.",
    ]
    assert main.messages[2].usage is not None
    assert main.messages[2].usage.reasoning_tokens == 6
    assert squeezes(main) == [("compaction", 4, "unknown", None, "Summary: the lamp is lit.")]
    assert [(link.session_id, link.call_id) for link in main.sub_agents] == [("session-lighthouse.keeper-1", "l1")]
    assert outline(keeper) == ["0 user: Climb and light.", "1 assistant 15+0+0>2: Lit."]
    assert (keeper.parent_id, keeper.models) == ("session-lighthouse", ("lamp-2",))
    assert [caveat.text for caveat in main.caveats] == ["1 × step of no model call or several, read as one"]


def test_a_version_that_is_not_known_and_a_boundary_that_is_not_known_are_noted(tmp_path):
    whole = json.loads(FIXTURES["atif-1.7.json"].read_text())
    whole["schema_version"] = "ATIF-v9.0"
    whole["steps"][3]["extra"]["context_management"]["boundary"] = "append"
    (tmp_path / "new.json").write_text(json.dumps(whole))
    recording = read_recordings(tmp_path / "new.json")[0]
    assert recording.compactions == ()
    assert "version ATIF-v9.0 is not known; it was read as ATIF-v1.8" in join_caveats(recording)
    assert "change of the context of type 'compaction', whose boundary is not known" in join_caveats(recording)
