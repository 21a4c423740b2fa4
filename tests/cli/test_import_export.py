"""`harness export` and `harness import` as a user starts them."""

import json

import pytest

from harness.store.journal import Journal
from tests.cli.command import LOCAL, TINY, harness, within
from tests.store.samples import begun, opening


def test_a_real_session_is_exported_imported_and_inspected_the_same(tmp_path):
    here, there, file = tmp_path / "a.sqlite", tmp_path / "b.sqlite", tmp_path / "s.jsonl"
    small = ("--window", "14000", "--threshold", "0.3", "--keep-last", "4", "--summarizer", "scripted/extractive")
    done = harness("agent", "--task", TINY, "--journal", here, *small, *LOCAL)
    assert done.returncode == 0, done.stderr
    out = within("export", here, file)
    assert out.exit_code == 0, out.output
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert out.stdout == f"wrote {file}: {len(rows)} events\n"
    kinds = [row["type"] for row in rows]
    assert (kinds[0], kinds[-1]) == ("session", "session-ended")
    assert all("first_kept_entry_id" in row and "patch" not in row for row in rows if row["type"] == "compaction")
    back = within("import", file, "--journal", there)
    assert back.exit_code == 0, back.output
    shown = [within("inspect", of).stdout for of in (here, there, file)]
    assert shown[0] == shown[1] == shown[2]
    assert "as it was logged" in within("inspect", file, "--step", "3").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", "nobody", "x.jsonl"), "none of 1 sessions is called 'nobody'"),
        (("import", "nowhere.jsonl", "--journal", "no/such/new.sqlite"), "there is no folder 'no/such' for the journal"),
        (("import", "nowhere.jsonl", "--journal", "new.sqlite"), "cannot read the recording 'nowhere.jsonl'"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    with Journal.open(tmp_path / "j.sqlite") as journal:
        begun(journal).append(opening())
    refused = within(*arguments, *(("--in", "j.sqlite") if arguments[0] == "export" else ()))
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert not (tmp_path / "no").exists()
