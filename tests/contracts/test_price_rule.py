"""A trial whose plan names a price rule reports the reads and writes of a simulated cache, as if a provider had billed it."""

from dataclasses import replace

import pytest

from harness.analysis.alerts import evaluate_alerts
from harness.compaction.presets.claude_code import ClaudeCode
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation import codec
from harness.conversation.events import Compaction, MessageAdded, StepFinished
from harness.errors import UnknownName, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial, from_plain, to_plain
from harness.inspection.loading import load
from harness.inspection.repricing import price_session
from harness.inspection.request_chain import build_session_requests
from harness.models.rule_prices import find_terms
from harness.prices.cache import split_prompts
from harness.session.totals import SessionTotals, describe_cache
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE

RULES = ("anthropic-2025-09", "anthropic-2025-09:1h", "openai-2025-08", "ideal", "none")
EAGER = KeepLast(trigger_tokens=20_000, keep_last=20, summarizer="scripted/extractive")
BASE = Trial(task="flashcards", policy=EAGER, window_tokens=40_000, gaps="claude-code")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of an experiment with one trial under each rule and one without a rule."""
    folder = tmp_path_factory.mktemp("rules")
    experiment = Experiment(name="rules", base=BASE, axes={"price_rule": ["", *RULES]}, folder=folder)
    experiment.run(workers=1, progress="off")
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return load(folder)


@pytest.fixture(scope="module")
def logs(folder, results):
    """Log of the session under each rule; the empty name is that without a rule."""
    with Journal.open(folder / "output" / JOURNAL_FILE, read_only=True) as journal:
        return {
            rule: tuple(journal.read_entries(session))
            for rule, session in zip(results.trials.price_rule, results.trials.session_id, strict=True)
        }


def list_steps(entries):
    return [event for _, event in entries if isinstance(event, StepFinished)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_the_logged_use_and_cost_are_those_of_the_model_of_cache_and_price(logs, name):
    """A live session and its log priced afterwards go through one model, so that they agree to the token."""
    terms = find_terms(name, "scripted")
    splits = split_prompts(build_session_requests(logs[name]).requests, terms.rule, terms.lifetime)
    for step, split in zip(list_steps(logs[name]), splits, strict=True):
        assert step.usage.cache_read_tokens == split.read_tokens
        assert step.usage.cache_write_tokens == (split.write_tokens if terms.rule.bills_writes else 0)
        assert step.usage.prompt_tokens == split.prompt_tokens
    billed = sum(step.cost_usd or 0.0 for step in list_steps(logs[name]))
    billed += sum(
        event.summarizer_cost_usd or 0.0 for _, event in logs[name] if isinstance(event, Compaction) and event.summarizer
    )
    assert price_session(logs[name], terms.rule, lifetime=terms.lifetime).bill.total_usd == pytest.approx(billed)


@pytest.mark.slow
def test_a_rule_changes_what_is_billed_and_nothing_else(results, logs):
    without = [event.message for _, event in logs[""] if isinstance(event, MessageAdded)]
    for entries in logs.values():
        assert [event.message for _, event in entries if isinstance(event, MessageAdded)] == without
    columns = ["success", "score", "steps", "prompt_tokens", "output_tokens", "summarizer_prompt_tokens"]
    assert len(results.trials[columns].drop_duplicates()) == 1
    plain = results.trials.set_index("price_rule").loc[""]
    assert (plain.cache_read_tokens, plain.cache_write_tokens) == (0, 0)


@pytest.mark.slow
def test_hit_rate_alert_savings_and_rows_follow_the_rule_and_say_so(results, logs):
    trials = results.trials.set_index("price_rule")
    for rule in RULES:
        row = trials.loc[rule]
        assert row.cache_hit_share == pytest.approx(row.cache_read_tokens / row.prompt_tokens)
        assert row.cache_hits_simulated
        totals = SessionTotals()
        for entry in logs[rule]:
            totals(entry)
        assert totals.cache_hits == (row.cache_hit_share, True)
        assert totals.cache_saved_usd == pytest.approx(row.cache_saved_usd)
        assert f"price rule {rule.split(':')[0]}" in describe_cache(totals)
    assert trials.loc["none"].cache_hit_share == trials.loc["none"].cache_saved_usd == 0
    assert trials.loc["ideal"].cache_saved_usd == pytest.approx(trials.loc["ideal"].cache_could_save_usd, rel=0.02)
    alerts = evaluate_alerts(results).query("alert == 'cache hit rate'")
    assert alerts.simulated.all()
    assert sorted(alerts.value) == pytest.approx(sorted(results.trials.cache_hit_share))
    by_rule = results.steps.merge(results.trials[["trial_id", "price_rule"]], on="trial_id", suffixes=("", "_of_plan"))
    named = by_rule[by_rule.price_rule_of_plan != ""]
    assert (named.price_rule.str.split(":").str[0] == named.price_rule_of_plan.str.split(":").str[0]).all()
    assert (by_rule[by_rule.price_rule_of_plan == ""].price_rule == "").all()


@pytest.mark.slow
def test_gaps_end_the_lifetime_of_the_cache(results):
    trials = results.trials.set_index("price_rule")
    short, hour = trials.loc["anthropic-2025-09"], trials.loc["anthropic-2025-09:1h"]
    assert short.cache_read_tokens < hour.cache_read_tokens <= trials.loc["ideal"].cache_read_tokens


@pytest.mark.slow
def test_a_summarizer_that_reads_the_session_itself_reads_it_from_the_cache(tmp_path):
    policy = ClaudeCode(summarizer="scripted/extractive")
    base = replace(BASE, policy=policy, gaps="none", price_rule="ideal")
    experiment = Experiment(name="shared", base=base, axes={}, folder=tmp_path)
    experiment.run(workers=1, progress="off")
    row = load(tmp_path).trials.iloc[0]
    with Journal.open(tmp_path / "output" / JOURNAL_FILE, read_only=True) as journal:
        entries = tuple(journal.read_entries(row.session_id))
    usages = [event.summarizer_usage for _, event in entries if isinstance(event, Compaction) and event.summarizer_usage]
    assert usages
    assert all(usage.cache_read_tokens > usage.input_tokens for usage in usages)


def test_a_plan_without_a_rule_keeps_its_ids_and_a_rule_has_ids_and_a_revision_of_its_own():
    named = replace(BASE, price_rule="openai-2025-08")
    assert "price_rule" not in codec.to_identity(BASE, to_plain(BASE))
    assert "prompt cache" not in BASE.revisions
    assert named.revisions["prompt cache"] == 2
    assert len({BASE.trial_id, named.trial_id, replace(BASE, price_rule="openai-2025-08:24h").trial_id}) == 3
    assert from_plain(to_plain(named)) == named


def test_a_rule_that_cannot_price_the_trial_is_refused_with_the_names_that_can():
    with pytest.raises(UnknownName, match="anthropic-2025-09"):
        replace(BASE, price_rule="anthropic")
    with pytest.raises(UnknownName, match="did you mean '1h'"):
        replace(BASE, price_rule="anthropic-2025-09:2h")
    with pytest.raises(UsageError, match=r"price_rule: the model 'openai/gpt-5' reports its own use"):
        replace(BASE, price_rule="none", model="openai/gpt-5")
