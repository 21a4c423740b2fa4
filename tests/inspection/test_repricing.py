"""Stored sessions are priced under other rules from their logs alone, and nothing of the log is lost on the way."""

import itertools
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from harness.cli.price import PARTS
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Entry, SessionStarted, StepFinished
from harness.errors import StoreError, UnknownName, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.inspection.repricing import DEFAULT_RULES, price_session, price_sessions
from harness.inspection.request_chain import build_session_requests
from harness.inspection.timeline import LogReader, RequestHistory
from harness.prices.cache import split_prompts
from harness.prices.requests import iter_chains
from harness.prices.rules import find_rule
from harness.sandboxes.backends import SandboxChoice
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE
from tests.cli.command import TINY, within
from tests.prices.test_rules import OWN
from tests.store.samples import ENDED, opening, step

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Folder of an experiment with two arms, one of which compacts often."""
    folder = tmp_path_factory.mktemp("grid")
    eager = KeepLast(trigger_tokens=250, keep_last=6, summarizer="scripted/extractive")
    base = Trial(task=TINY, policy=KeepLast(), window_tokens=100_000, sandbox=SandboxChoice(backend="local"))
    experiment = Experiment(name="grid", base=base, axes={"policy": [KeepLast(), eager]}, folder=folder)
    experiment.run(workers=1, progress="off", unsafe_local=True)
    return folder


def read(folder):
    with Journal.open(folder / "output" / JOURNAL_FILE, read_only=True) as journal:
        return [tuple(journal.read_entries(name)) for name in journal.list_session_ids()]


def test_a_chain_has_one_block_for_each_message_that_was_sent(grid):
    for entries in read(grid):
        session = build_session_requests(entries)
        sent = list(RequestHistory(entries).reconstruct_all(LogReader.from_log(entries)))
        for request, chain, rendered in zip(session.requests, iter_chains(session.requests), sent, strict=True):
            assert [block.kind for block in chain] == [message.role for message in rendered.messages]
            assert request.kept_blocks == rendered.end_event.kept_prefix_messages
            assert request.prompt_tokens == rendered.end_event.usage.prompt_tokens
        assert len(session.summaries) == sum(bool(event.summarizer_usage) for one in sent for event in one.compactions)


def test_without_a_cache_a_session_costs_what_it_was_billed(grid):
    table = price_sessions(grid, ["none"])
    billed = [
        sum(event.cost_usd or 0 for _, event in entries if isinstance(event, StepFinished))
        + sum(getattr(event, "summarizer_cost_usd", None) or 0 for _, event in entries)
        for entries in read(grid)
    ]
    assert sorted(table["total_usd"]) == pytest.approx(sorted(billed))
    assert table["uncached_usd"].gt(0).all()


def test_an_arm_that_compacts_writes_again_what_follows_the_edit(grid):
    splits = [split_prompts(build_session_requests(entries).requests, find_rule("ideal")) for entries in read(grid)]
    edited = [sum(split.edited_tokens for split in session) for session in splits]
    assert min(edited) == 0 < max(edited)


def test_times_end_the_lifetime_of_what_a_cache_holds(tmp_path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        clock = itertools.count(0, 400)
        log = journal.open_session_log("slow", created_at_ms=0, clock=lambda: float(next(clock)))
        events = [*opening("slow"), *step(1, "word " * 5_000), *step(2), *step(3), ENDED]
        for event in [replace(one, model="gpt-5") if isinstance(one, SessionStarted) else one for one in events]:
            log.append([event])
    file = tmp_path / "rules.toml"
    file.write_text(OWN.replace("{ 5m = 300 }", "{ 5m = 300, 1h = 3600 }"))
    (short,), (hour,) = (
        price_sessions(tmp_path / "journal.sqlite", ["mine"], lifetime=lifetime, file=file).itertuples()
        for lifetime in (None, "1h")
    )
    assert short.has_times
    assert (short.lifetime, hour.lifetime) == ("5m", "1h")
    assert short.read_usd == hour.rewarmed_usd == 0
    assert short.rewarmed_usd == pytest.approx(4 * hour.read_usd), "reads cost a quarter here"


def test_simulated_gaps_end_the_lifetime_of_what_a_cache_holds(tmp_path):
    base = Trial(task=TINY, policy=KeepLast(), window_tokens=100_000, sandbox=SandboxChoice(backend="local"), gaps="claude-code")
    Experiment(name="gaps", base=base, axes={"seed": range(20)}, folder=tmp_path).run(
        workers=1, progress="off", unsafe_local=True
    )
    file = tmp_path / "rules.toml"
    file.write_text(OWN.replace("{ 5m = 300 }", "{ 1m = 60, 1d = 86400 }"))
    short, day = (price_sessions(tmp_path, ["mine"], lifetime=lifetime, file=file) for lifetime in ("1m", "1d"))
    assert short["rewarmed_usd"].sum() > 0
    assert day["rewarmed_usd"].sum() == 0
    assert short["read_usd"].sum() + short["rewarmed_usd"].sum() / 4 == pytest.approx(day["read_usd"].sum())


def test_a_session_without_times_says_so_and_loses_nothing():
    entries = [(number, event) for number, event in enumerate([*opening("one"), *step(1), *step(2), ENDED], 1)]
    priced = price_session([Entry(*entry) for entry in entries], find_rule("ideal"))
    assert priced.bill.total_usd > 0


def test_the_command_shows_each_arm_under_each_rule(grid, tmp_path):
    shown = within("price", grid, "--rules", "anthropic-2025-09,none", "--csv", tmp_path / "costs.csv")
    assert shown.exit_code == 0, shown.output
    assert "lowest mean cost" in shown.stdout
    assert "anthropic-2025-09, lifetime 5m" in shown.stdout
    arms = load(grid).trials["arm"].unique()
    assert len(arms) == 2
    assert all(arm[:20] in shown.stdout for arm in arms)
    assert len((tmp_path / "costs.csv").read_text().splitlines()) == 5
    assert "Reads at 0.1" in " ".join(within("price", "--list").stdout.split())


def test_what_cannot_be_priced_is_refused_in_words(grid, tmp_path):
    assert "name the FOLDER" in within("price").stderr
    assert "unknown price rule 'free'" in within("price", grid, "--rules", "free").stderr
    refused = within("price", grid, "--lifetime", "2h").stderr
    assert "no rule has the lifetime '2h' (anthropic-2025-09: 5m, 1h;" in refused
    with pytest.raises(StoreError):
        price_sessions(tmp_path)
    with Journal.open(tmp_path / "journal.sqlite"):
        pass
    with pytest.raises(UsageError, match="there is no session"):
        price_sessions(tmp_path / "journal.sqlite")


def test_results_price_their_sessions_as_the_command_does(grid, tmp_path):
    results = load(grid)
    rules = ("anthropic-2026-10", "none")
    table = results.price(*rules, lifetime="1h")
    shown = within("price", grid, "--rules", ",".join(rules), "--lifetime", "1h", "--csv", tmp_path / "costs.csv")
    assert shown.exit_code == 0, shown.output
    pd.testing.assert_frame_equal(table, pd.read_csv(tmp_path / "costs.csv", keep_default_na=False))
    for (_, arm), costs in table.groupby(["rule", "arm"]):
        row = next(line for line in shown.stdout.splitlines() if arm[:20] in line and f"{costs['total_usd'].mean():.4f}" in line)
        assert all(f"{costs[f'{part}_usd'].mean():.4f}" in row for part in PARTS)
    assert table[[f"{part}_usd" for part in PARTS]].sum(axis=1).to_numpy() == pytest.approx(table["total_usd"].to_numpy())
    assert set(table["arm"]) == set(results.trials["arm"])
    assert dict(zip(table["rule"], table["lifetime"], strict=True)) == {"anthropic-2026-10": "1h", "none": "none"}
    assert set(results.price()["rule"]) == set(DEFAULT_RULES)


def test_joined_results_price_each_session_once_under_the_names_of_their_arms(grid):
    joined = load([grid, grid / "output" / JOURNAL_FILE])
    table = joined.price("ideal")
    assert sorted(table["session_id"]) == sorted(load(grid).trials["session_id"])
    assert set(table["arm"]) < set(joined.trials["arm"])
    assert table["total_usd"].tolist() == load(grid).price("ideal")["total_usd"].tolist()


def test_results_refuse_rules_and_lifetimes_that_do_not_exist_and_tables_without_logs(grid, tmp_path):
    with pytest.raises(UnknownName, match=r"unknown price rule 'free'.*anthropic-2026-10"):
        load(grid).price("free")
    with pytest.raises(UsageError, match=r"no rule has the lifetime '2h' \(anthropic-2026-10: 5m, 1h\)"):
        load(grid).price("anthropic-2026-10", lifetime="2h")
    shutil.copytree(grid / "output" / "results", tmp_path / "results")
    with pytest.raises(UsageError, match="tables but no logs"):
        load(tmp_path).price("none")


def test_a_repeat_of_the_base_is_priced_but_is_no_choice(tmp_path):
    base = Trial(task=TINY, policy=KeepLast(), window_tokens=100_000, sandbox=SandboxChoice(backend="local"))
    arms = [Arm(name="again", trial={"replicate": 1})]
    Experiment(name="twins", base=base, arms=arms, folder=tmp_path).run(workers=1, progress="off", unsafe_local=True)
    shown = within("price", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "again" in shown.stdout
    assert "lowest mean cost" not in shown.stdout
    assert "not compared" not in shown.stdout
