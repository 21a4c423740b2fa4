"""Command `harness replay --probe`: what is said before the first call, the tables, and options that are refused."""

import pandas as pd
import pytest

from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.tasks import load_task
from tests.cli.command import harness
from tests.replay.recorded import write_recording

pytestmark = pytest.mark.slow

MODEL = "hosted_vllm/scripted/flashcards:attentive"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(3):
        write_recording(tmp_path / "projects" / f"project-{number}" / f"s{number}.jsonl", 6, characters=4_000 + 400 * number)
    return tmp_path / "projects"


def test_host_and_cost_are_said_before_the_first_call_and_page_and_tables_have_the_probe(folder, tmp_path):
    policies = ("--policies", "drop-all,none", "--thresholds", "14K")
    options = (*policies, "--workers", "1", "--probe", MODEL, "--probe-boundaries", "3")
    files = ("--csv", tmp_path / "tables", "--page", tmp_path / "bill.html", "--record", tmp_path / "answers.jsonl")
    with serve_endpoint(make_model_finder([load_task("flashcards")(1)], window_tokens=1_000_000)) as endpoint:
        result = harness("replay", folder, *options, *files, HOSTED_VLLM_API_BASE=endpoint.address)
        answered = len(endpoint.served)
        assert result.returncode == 0, result.stderr
        again = harness("replay", folder, *options, *files, HOSTED_VLLM_API_BASE=endpoint.address)
        assert len(endpoint.served) == answered
    lines = result.stdout.splitlines()
    announced = next(place for place, line in enumerate(lines) if line.startswith("Probe: sends texts of 3 sessions to "))
    assert lines[announced].startswith(f"Probe: sends texts of 3 sessions to {MODEL} on this machine, up to {answered} calls (")
    assert lines[announced + 1].startswith("drop-all at 14K, 3 boundaries in 3 sessions: same call ")
    assert lines[announced + 2].startswith("none, 3 boundaries in 3 sessions: same call 100 % (full view again: 100 %), +0 [")
    assert any(line.startswith("Tools: in 3 of 3 sessions the recording has no descriptions") for line in lines)
    assert f"all {answered} answers are known from an earlier probe; nothing is sent." in again.stdout
    assert lines[announced + 1 : announced + 3] == [line for line in again.stdout.splitlines() if " 3 boundaries in " in line]
    table = pd.read_csv(tmp_path / "tables" / "probe.csv").set_index("setting")
    assert table.loc["none", ["asked", "same_call", "same_call_again"]].tolist() == [3, 3, 3]
    answers = pd.read_csv(tmp_path / "tables" / "probe_answers.csv")
    assert len(answers) == 6
    page = (tmp_path / "bill.html").read_text()
    assert "What a model does with the compacted view" in page
    assert "nothing left this machine" in page
    assert "value_1" not in page + answers.to_csv()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--probe-limit-usd", "2"), "--probe-limit-usd has no effect without --probe MODEL"),
        (("--record", "answers.jsonl"), "--record has no effect without --probe MODEL"),
        (("--probe", "scripted"), "serve it with `harness serve-scripted"),
        (("--probe", "hosted_vllm/x"), "HOSTED_VLLM_API_BASE"),
        (("--probe", "gpt-4.1-mini"), "OPENAI_API_KEY"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_one_line_before_anything_is_printed(folder, options, reason):
    result = harness("replay", folder, "--policies", "drop-all", "--rules", "own", "--workers", "1", *options)
    assert result.returncode == 2
    assert reason in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not result.stdout
