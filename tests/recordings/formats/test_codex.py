"""Importer of Codex CLI: every value of the made-up fixture, and each pitfall of the format."""

from tests.recordings.outline import fixture, outline, squeezes


def test_items_are_grouped_into_answers_and_token_counts_count_once():
    recording = fixture("codex.jsonl")
    assert outline(recording) == [
        "0 system: You mend clocks.",
        "0 user: Work in /clock only.",
        "0 user: The clock is slow.",
        "1 assistant 100+20+0>30:",
        "  ~Look inside.",
        '  c1 shell {"command": ["open", "clock"]}',
        '  c2 apply_patch {"input": "*** turn the screw"}',
        "1 tool: c1 shell error -> a spring",
        "1 tool: c2 apply_patch -> turned",
        "2 assistant 80+0+0>7: It runs.",
    ]
    assert (recording.session_id, recording.models) == ("session-clock", ("codex-hand-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == [
        ("compaction", 6, "unknown", 150, "The screw is turned."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × item of type 'web_search_call'",
        "1 × reasoning without text (encrypted)",
        "1 × session data of a parent (the session is a fork)",
    ]


def test_the_old_form_is_read():
    recording = fixture("codex-old.jsonl")
    assert outline(recording) == [
        "0 user: What time is it?",
        '1 assistant: s1 shell {"command":["sun"]}',
        "1 tool: s1 shell -> noon",
        "2 assistant: Noon.",
    ]
    assert (recording.session_id, recording.models) == ("session-sundial", ())
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × reasoning without text (encrypted)",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]
