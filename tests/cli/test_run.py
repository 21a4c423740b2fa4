import signal
import sys
from dataclasses import replace

import pytest

from harness.cli.run import compute_cost_bounds_usd, describe_comparability, describe_cost, describe_plan
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.policies import policy_from_plain
from harness.sandboxes.backends import run_cached_probe
from tests.cli.command import TINY, harness, started, within
from tests.experiment.remote.clusters import open_cluster

PLAN = f"""
[trial]
task = "{TINY}"
window_tokens = 16000
sandbox = {{ backend = "local" }}

[trial.policy]
kind = "keep-last"

[axes]
seed = [0, 1]
policy.threshold = [0.5, 0.8]
"""
RUN = ("--unsafe-local", "--workers", "2", "--progress", "plain")
KEEP = policy_from_plain({"kind": "keep-last"})


@pytest.fixture
def experiment(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.mark.slow
def test_a_run_says_what_is_coming_runs_it_and_draws_what_came(experiment):
    done = harness("run", experiment, *RUN)
    assert done.returncode == 0, done.stderr
    assert "small: 4 trials, 2 arms" in done.stdout
    assert "cost: none, since all models are scripted" in done.stdout
    assert "comparison of two arms: 1 task × 2 seeds, these tasks: too few" in done.stdout
    assert "Report on small: 4 trials" in done.stdout
    charts = {path.name for path in (experiment / "output" / "charts").iterdir()}
    assert {"token_curves.png", "compaction_rounds.png", "success_heatmap.png"} <= charts

    again = harness("run", experiment, *RUN)
    assert again.returncode == 0, again.stderr
    assert "success (" not in again.stderr  # no trial was run
    shown = harness("report", experiment)
    assert shown.returncode == 0
    assert "Report on small: 4 trials" in shown.stdout


def test_a_dry_run_checks_and_writes_nothing(experiment):
    done = within("run", experiment, "--dry-run", "--unsafe-local")
    assert done.exit_code == 0, done.stderr
    assert "4 trials" in done.stdout
    assert "sandbox: local\n" in done.stdout
    assert not (experiment / "output").exists()


def test_a_cluster_that_is_not_there_is_an_error(experiment):
    done = within("run", experiment, "--cluster", "tcp://127.0.0.1:1", "--dry-run")
    assert done.exit_code == 2
    assert "no scheduler of a Dask cluster answers at 'tcp://127.0.0.1:1'" in done.stderr


def test_without_the_extra_the_command_says_what_to_install(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "harness.experiment.remote.dask_workers", raising=False)
    done = within("run", experiment, "--cluster", "tcp://127.0.0.1:1")
    assert done.exit_code == 2
    assert "a cluster needs the extra `cluster`: pip install 'harness[cluster]'" in done.stderr


@pytest.mark.slow
def test_a_run_on_a_cluster_counts_its_workers_and_prints_the_report(experiment, tmp_path):
    with open_cluster(tmp_path / "cluster", workers=1) as cluster:
        done = harness("run", experiment, "--unsafe-local", "--progress", "plain", "--cluster", cluster.address)
        assert done.returncode == 0, done.stderr
        assert f"cluster: 1 worker at {cluster.address}; sandboxes are tested on each machine" in done.stdout
        assert "Report on small: 4 trials" in done.stdout
        refused = harness("run", experiment, "--unsafe-local", "--workers", "2", "--cluster", cluster.address)
        assert refused.returncode == 2
        assert "workers: a cluster runs one trial in each of its workers" in refused.stderr


@pytest.mark.bubblewrap
def test_a_dry_run_says_which_sandbox_auto_takes(experiment, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    run_cached_probe.cache_clear()
    done = within("run", experiment, "--dry-run", "--backend", "auto")
    run_cached_probe.cache_clear()
    assert done.exit_code == 0, done.stderr
    assert "sandbox: bubblewrap\n" in done.stdout


def test_a_dry_run_tells_of_an_engine_that_is_not_there(experiment, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    run_cached_probe.cache_clear()
    refused = within("run", experiment, "--dry-run", "--backend", "docker")
    run_cached_probe.cache_clear()
    assert refused.exit_code != 0
    assert "sandbox 'docker' is not available" in refused.stderr
    assert not (experiment / "output").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(experiment):
    process = started("run", experiment, *RUN)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/4]"):
            break
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command continues the run" in rest
    done = harness("run", experiment, *RUN)
    assert done.returncode == 0, done.stderr
    assert "Report on small: 4 trials" in done.stdout
    assert done.stderr.count("success (") < 4


@pytest.mark.slow
def test_a_trial_that_crashed_and_is_planned_no_more_is_no_failure_of_the_run(experiment):
    plan = experiment / "plan.toml"
    plan.write_text(PLAN.replace("[axes]", "[experiment]\ntrial_timeout_seconds = 0.001\n[axes]").replace("[0, 1]", "[0]"))
    crashed = harness("run", experiment, *RUN)
    assert crashed.returncode == 1, crashed.stderr
    assert "2 trials crashed; the same command runs crashed trials again" in crashed.stderr
    plan.write_text(PLAN.replace("[0, 1]", "[1]"))
    done = harness("run", experiment, *RUN)
    assert done.returncode == 0, done.stderr
    assert "2 trials of earlier plans" in done.stdout


@pytest.mark.slow
def test_trials_whose_sandboxes_were_lost_are_a_failure_and_are_run_again_when_told_to(experiment):
    plan = PLAN.replace(":tiny", ":losing").replace("[0.5, 0.8]", "[0.5]")
    # with a network, commands are not repeated to learn whether they ended the sandbox
    (experiment / "plan.toml").write_text(plan.replace('backend = "local"', 'backend = "local", limits.network = true'))
    lost = "2 trials failed because of the sandbox (sandbox_error); --retry-failed runs such trials again"
    for more in ((), ("--retry-failed",)):
        done = harness("run", experiment, *RUN, *more)
        assert (done.returncode, lost in done.stderr) == (1, True), done.stderr
        assert done.stderr.count("failed: sandbox_error") == 2  # both trials were run


@pytest.mark.slow
def test_trials_that_killed_their_sandboxes_count_and_are_not_run_again(experiment):
    (experiment / "plan.toml").write_text(PLAN.replace(":tiny", ":losing").replace("[0.5, 0.8]", "[0.5]"))
    for more, count in (((), 2), (("--retry-failed",), 0)):
        done = harness("run", experiment, *RUN, *more)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("failed: sandbox_killed") == count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("policy.threshold", "policy.treshold"), "did you mean 'policy.threshold'"),
        (("[0.5, 0.8]", '["high"]'), "policy.threshold"),
        (("window_tokens = 16000", "window_tokens = 20"), "more than the window"),
        ((":tiny", ":tinny"), "did you mean 'tiny'"),
        ((":tiny", ":broken"), "(line 78): ZeroDivisionError"),
        (("[axes]", "[axes"), "TOML"),
        (("[trial.policy]", 'model = "openai/gpt-4o-mnii"\n[trial.policy]'), "did you mean 'openai/gpt-4o-mini'"),
        (("[trial.policy]", 'model = "scripted/other"\n[trial.policy]'), "scripted/tiny:attentive"),
    ],
)
def test_a_bad_plan_is_one_line_and_nothing_is_written(experiment, change, message):
    plan = experiment / "plan.toml"
    plan.write_text(PLAN.replace(*change))
    refused = within("run", experiment, *RUN)
    assert refused.exit_code == 2, refused.stderr
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert message in refused.stderr
    assert not (experiment / "output").exists()


def test_without_leave_nothing_runs_unsandboxed(experiment):
    refused = within("run", experiment)
    assert refused.exit_code == 2
    assert "--unsafe-local" in refused.stderr
    assert not (experiment / "output").exists()


def test_the_cost_of_a_real_model_is_bounded_before_it_is_spent():
    trial = Trial(task=TINY, policy=KEEP, model="gpt-4o", max_steps=10, window_tokens=100_000)
    # ten steps of a full window at $2.5 a million, and ten replies of 4,000 tokens at $10
    assert compute_cost_bounds_usd(trial)["gpt-4o"] == pytest.approx(10 * (100_000 * 2.5 + 4_000 * 10) / 1e6)
    assert describe_cost([trial, trial]) == "at most $5.80"


def test_an_unknown_price_is_said_and_not_taken_for_nothing():
    trial = Trial(task=TINY, policy=KEEP, model="hosted_vllm/mine", window_tokens=100_000)
    assert compute_cost_bounds_usd(trial) == {"hosted_vllm/mine": None}
    assert (
        describe_cost([trial]) == "the cost of 1 trial is unknown, since the price or the window of hosted_vllm/mine is unknown"
    )
    priced = Trial(task=TINY, policy=KEEP, model="gpt-4o", max_steps=10, window_tokens=100_000)
    assert describe_cost([trial, priced]).startswith("at most $2.90 for 1 trial; the cost of 1 trial is unknown")


def test_a_window_that_nobody_knows_is_said_where_a_policy_goes_by_it(monkeypatch):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    mine = Trial(task=TINY, policy=KEEP, model="hosted_vllm/mine")

    def said(trial):
        return describe_plan(Experiment(name="e", base=trial))

    assert "warning: policy 'keep-last' never compacts: the context window of model 'hosted_vllm/mine' is unknown" in said(mine)
    assert "warning" not in said(replace(mine, window_tokens=50_000))
    assert "warning" not in said(replace(mine, policy=policy_from_plain({"kind": "none"})))


def test_a_paid_summarizer_under_a_scripted_agent_costs_too():
    policy = policy_from_plain({"kind": "keep-last", "summarizer": "gpt-4o"})
    trial = Trial(task=TINY, policy=policy, window_tokens=16_000, max_steps=1)
    assert compute_cost_bounds_usd(trial) == pytest.approx({"gpt-4o": (128_000 * 2.5 + 4_000 * 10) / 1e6})


def test_the_models_of_sub_agents_are_part_of_the_bound():
    """S3.20: at most 20 steps for each sub-agent, and one sub-agent for each step."""
    step_usd = {"gpt-4o": (128_000 * 2.5 + 4_000 * 10) / 1e6, "gpt-4o-mini": (128_000 * 0.15 + 4_000 * 0.6) / 1e6}
    none = policy_from_plain({"kind": "none"})
    trial = Trial(task=TINY, policy=none, model="gpt-4o", max_steps=3, explore=True)
    assert compute_cost_bounds_usd(trial) == pytest.approx({"gpt-4o": 3 * 21 * step_usd["gpt-4o"]})
    cheap = replace(trial, explore_model="gpt-4o-mini", window_tokens=64_000)
    expected = {"gpt-4o": 3 * (64_000 * 2.5 + 4_000 * 10) / 1e6, "gpt-4o-mini": 60 * step_usd["gpt-4o-mini"]}
    assert compute_cost_bounds_usd(cheap) == pytest.approx(expected), "the window is that of the agent's model"
    assert describe_cost([cheap]) == f"at most ${sum(expected.values()):.2f}, if no step sends more than one sub-agent"
    assert "sub-agent" not in describe_cost([replace(trial, explore=False)])
    summarized = replace(cheap, policy=KEEP)
    assert compute_cost_bounds_usd(summarized).keys() >= expected.keys()
    under_script = Trial(task=TINY, policy=none, max_steps=3, explore=True, explore_model="gpt-4o-mini")
    assert compute_cost_bounds_usd(under_script) == pytest.approx({"gpt-4o-mini": 60 * step_usd["gpt-4o-mini"]})
    unknown = replace(under_script, explore_model="hosted_vllm/mine")
    assert "price or the window of hosted_vllm/mine is unknown" in describe_cost([unknown])


def test_a_sub_agents_window_that_nobody_knows_is_said(monkeypatch):
    """S3.20."""
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    trial = Trial(task=TINY, policy=KEEP, explore=True, explore_model="hosted_vllm/mine")
    said = describe_plan(Experiment(name="e", base=trial))
    assert "never compacts in sub-agents: the context window of model 'hosted_vllm/mine' is unknown" in said
    assert "warning" not in describe_plan(Experiment(name="e", base=replace(trial, explore_model="scripted:typical")))


def test_more_pairs_show_smaller_differences():
    def many(count):
        return Experiment(name="e", base=Trial(task=TINY, policy=KEEP), axes={"seed": list(range(count))})

    assert describe_plan(many(3)).startswith("e: 3 trials, 1 arm\n")
    assert "too few" in describe_comparability(many(3))
    assert "points is shown with 80 % probability" in describe_comparability(many(60))


def test_models_on_this_machine_cost_nothing_and_are_told():
    local = Trial(task=TINY, policy=policy_from_plain({"kind": "keep-last", "summarizer": "local/smollm2-135m"}))
    assert "run on this machine" in describe_cost([local])
    assert (
        describe_cost([Trial(task=TINY, policy=KEEP)])
        == "none, since all models are scripted (costs in the tables are simulated)"
    )
    assert describe_cost([local, Trial(task=TINY, policy=KEEP, model="hosted_vllm/x")]).endswith(
        "since the price or the window of hosted_vllm/x is unknown"
    )
