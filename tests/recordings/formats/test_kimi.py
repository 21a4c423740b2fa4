"""Importer of Kimi CLI: every value of the made-up fixtures, and each pitfall of the format."""

import json

from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes

ROWS = [json.loads(line) for line in FIXTURES["kimi-wire.jsonl"].read_text().splitlines()]


def read_rows(folder, *rows):
    (folder / "wire.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return read_recording(folder / "wire.jsonl")


def test_events_of_the_session_and_of_a_sub_agent_are_read():
    main, counter = read_recordings(FIXTURES["kimi-wire.jsonl"])
    assert outline(main) == [
        "0 user: Sort the stamps.",
        "1 assistant 20+90+10>30:",
        "  ~By colour?",
        "  By country.",
        '  k1 sort {"by": "country"}',
        "  k2 Task {}",
        "1 tool: k1 sort -> <system>Done in one second.</system>\nsorted",
        "1 tool: k2 Task error -> <system>ERROR: The agent fell asleep.</system>",
        "2 assistant 60+100+0>5: Sorted.",
        "3 user:",
        "  Now the coins.",
        "  (image_url)",
        "3 assistant 38+0+0>3: Coins next.",
    ]
    assert (main.session_id, main.models) == ("kimi-1778979961000", ())
    assert squeezes(main) == [("compaction", 5, "manual", 170, "")]
    assert main.compactions[0].seconds == 1
    assert "1 × event of type 'Notification', whose text is not read" in join_caveats(main)
    assert outline(counter) == ["0 user: Count them.", "1 assistant 15+0+0>2: Forty."]
    assert (counter.session_id, counter.parent_id) == (f"{main.session_id}.k2", main.session_id)


def test_a_compaction_that_nobody_asked_for_is_automatic(tmp_path):
    command = next(
        number for number, row in enumerate(ROWS) if row.get("message", {}).get("payload") == {"user_input": "/compact"}
    )
    recording = read_rows(tmp_path, *ROWS[:command], *ROWS[command + 1 :])
    assert squeezes(recording) == [("compaction", 5, "auto", 170, "")]


def test_a_message_at_the_end_is_read(tmp_path):
    assert outline(read_rows(tmp_path, *ROWS[:2])) == ["0 user: Sort the stamps."]


def test_the_context_has_the_system_prompt_and_the_summary():
    recording = fixture("kimi-context.jsonl")
    assert outline(recording) == [
        "0 system: You collect stamps.",
        "0 user:",
        "  <system>Previous context has been compacted. Here is the compaction output:</system>",
        "  The stamps are sorted.",
        "0 user: Now the coins.",
        "1 assistant:",
        "  ~Coins.",
        "  k3 sort {}",
        "1 tool: k3 sort error -> <system>ERROR: no coins</system>",
    ]
    [compaction] = recording.compactions
    assert (compaction.in_place, compaction.position) == (True, 1)
    assert "what was compacted or rewound before it is in other files" in join_caveats(recording)
