import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.planning import describe_comparability
from harness.cli.run import describe_margin_change, describe_plan
from harness.experiment.experiment import Experiment
from harness.experiment.preflight import collect_warnings, describe_thresholds
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
RUN = ("--unsafe-local", "--workers", "1", "--progress", "plain")
KEEP = policy_from_plain({"kind": "keep-last"})


@pytest.fixture
def experiment(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.mark.slow
def test_the_run_command_describes_the_plan_runs_it_and_draws_the_results(experiment):
    done = harness("run", experiment, *RUN)
    assert done.returncode == 0, done.stderr
    assert "small: 4 trials, 2 arms" in done.stdout
    assert "cost: none, since all models are scripted" in done.stdout
    assert "comparison of two arms: 1 task × 2 seeds, these tasks: too few" in done.stdout
    assert "Report on small: 4 trials" in done.stdout
    charts = experiment / "output" / "charts"
    assert [path.name for path in charts.iterdir()] == ["cost_score.png"]

    planned = within("run", experiment, "--dry-run", "--unsafe-local")
    assert "finished: 4 of 4 trials; nothing is left to run\n" in planned.stdout
    text = (experiment / "plan.toml").read_text()
    (experiment / "plan.toml").write_text(text.replace("seed = [0, 1]", "seed = [0, 1, 2]"))
    extended = within("run", experiment, "--dry-run", "--unsafe-local")
    assert "finished: 4 of 6 trials; 2 trials left to run\n" in extended.stdout
    (experiment / "plan.toml").write_text(text)

    again = within("run", experiment, *RUN)
    assert again.exit_code == 0, again.stderr
    assert "success (" not in again.stderr  # no trial was run
    shown = within("report", experiment)
    assert shown.exit_code == 0, shown.stderr
    assert "Report on small: 4 trials" in shown.stdout
    drawn = within("report", experiment, "--figures", "svg", "--metric", "tokens", "--dark", "--paper")
    assert drawn.exit_code == 0, drawn.stderr
    assert {"token_curves.svg", "compaction_rounds.svg", "heat_map.svg", "paired_differences.svg"} <= {
        path.name for path in charts.iterdir()
    }


@pytest.mark.slow
def test_workers_import_the_modules_beside_the_file_of_a_task(experiment):
    (experiment / "helpers.py").write_text(Path(TINY.rpartition(":")[0]).read_text())
    (experiment / "mine.py").write_text("from helpers import tiny\n\ndef mine(seed):\n    return tiny(seed)\n")
    (experiment / "plan.toml").write_text(PLAN.replace(TINY, f"{experiment / 'mine.py'}:mine"))
    done = harness("run", experiment, *RUN)
    assert done.returncode == 0, done.stderr
    planned = within("run", experiment, "--dry-run", "--unsafe-local").stdout
    assert "finished: 4 of 4 trials" in planned
    with (experiment / "helpers.py").open("a") as helpers:
        helpers.write("# changed\n")
    assert "finished:" not in within("run", experiment, "--dry-run", "--unsafe-local").stdout


@pytest.mark.slow
def test_a_pilot_runs_one_trial_and_says_how_long_the_others_take(experiment):
    done = within("run", experiment, *RUN, "--pilot")
    assert done.exit_code == 0, done.stderr
    before, after = done.stdout.split("all comparisons will be exploratory")
    assert (
        "time: unknown until a trial of the same task and models has finished in the output folder (--pilot runs one)" in before
    )
    assert "time: expected" in after
    assert "with 1 worker (from 1 finished trial)" in after
    assert "3 trials not run yet" in done.stderr
    dry = within("run", experiment, "--dry-run", "--unsafe-local")
    assert "finished: 1 of 4 trials; 3 trials left to run" in dry.stdout
    assert "time: expected" in dry.stdout


@pytest.mark.slow
def test_a_dry_run_says_that_a_further_seed_makes_the_next_report_another_look(experiment):
    declared = '[[contrasts]]\na = "threshold=0.5"\nb = "threshold=0.8"\nmetric = "prompt_tokens"\n'
    (experiment / "plan.toml").write_text(PLAN + declared)
    assert within("run", experiment, *RUN).exit_code == 0
    finished = within("run", experiment, "--dry-run", "--unsafe-local")
    assert (finished.exit_code, "next report" in finished.stdout) == (0, False)

    extended = PLAN.replace("seed = [0, 1]", "seed = [0, 1, 2]") + declared
    (experiment / "plan.toml").write_text(extended)
    lines = within("run", experiment, "--dry-run", "--unsafe-local").stdout.splitlines()
    assert (
        "warning: the next report will be look 2 at the outcomes, and the plan declares 1 look, so nothing can be claimed; "
        "run the new trials as an experiment of another name, with new seeds"
    ) in lines
    done = within("run", experiment, *RUN)
    assert "this is look 2 at the results, after other trials had been seen, and the plan declared 1 look" in " ".join(
        done.stdout.split()
    )


@pytest.mark.slow
def test_a_dry_run_counts_the_looks_that_a_plan_declares(experiment):
    declared = '[[contrasts]]\na = "threshold=0.5"\nb = "threshold=0.8"\nmetric = "prompt_tokens"\n[experiment]\nlooks = 2\n'
    (experiment / "plan.toml").write_text(PLAN + declared)
    assert within("run", experiment, *RUN).exit_code == 0
    (experiment / "plan.toml").write_text(PLAN.replace("seed = [0, 1]", "seed = [0, 1, 2]") + declared)
    lines = within("run", experiment, "--dry-run", "--unsafe-local").stdout.splitlines()
    assert "looks: the next report will be look 2 of 2 at the outcomes" in lines


def test_a_dry_run_checks_and_writes_nothing(experiment):
    done = within("run", experiment, "--dry-run", "--unsafe-local")
    assert done.exit_code == 0, done.stderr
    assert "4 trials" in done.stdout
    assert "finished:" not in done.stdout
    assert "sandbox: local\n" in done.stdout
    assert not (experiment / "output").exists()


def test_thresholds_are_shown_in_tokens_and_as_a_share_of_the_whole_window(experiment):
    lines = describe_plan(Experiment.from_toml(experiment)).splitlines()
    assert (
        "thresholds of keep-last, window 16,000 tokens: 0.5 of what the reserves leave = 2,500 tokens, 16 % of the window; "
        "0.8 of what the reserves leave = 4,000 tokens, 25 % of the window"
    ) in lines
    warnings = [line for line in lines if "reserves" in line and line.startswith("warning: ")]
    due = ("it is due at 2,500 tokens, 16 % of the window", "it is due at 4,000 tokens, 25 % of the window")
    start = "warning: policy 'keep-last' reserves 11,000 tokens, 69 % of the window of 16,000, so "
    assert [warning.partition("; ")[0] for warning in warnings] == [f"{start}{text}" for text in due]


def test_reserves_of_half_of_the_window_are_not_warned_of():
    trials = [Trial(task=TINY, policy=KEEP, window_tokens=tokens) for tokens in (22_000, 21_999)]
    assert collect_warnings(trials[:1]) == ()
    (warning,) = collect_warnings(trials[1:])
    assert warning.startswith("policy 'keep-last' reserves 11,000 tokens, 50 % of the window of 21,999")
    fields = "system_reserve_tokens, output_reserve_tokens, safety_reserve_tokens"
    assert f"; raise window_tokens, raise threshold, lower {fields}, or set nominal_window_tokens to the window" in warning


def test_reserves_that_do_not_change_a_threshold_in_tokens_are_not_warned_of():
    policy = policy_from_plain({"kind": "keep-last", "trigger_tokens": 2_500})
    assert collect_warnings([Trial(task=TINY, policy=policy, window_tokens=16_000)]) == ()


def test_a_threshold_in_tokens_is_not_called_a_share():
    policy = policy_from_plain({"kind": "keep-last", "trigger_tokens": 20_000})
    assert describe_thresholds([Trial(task=TINY, policy=policy, window_tokens=100_000)]) == (
        "thresholds of keep-last, window 100,000 tokens: 20,000 tokens, 20 % of the window",
    )


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_an_error(experiment):
    done = within("run", experiment, "--cluster", "tcp://127.0.0.1:1", "--dry-run")
    assert done.exit_code == 2
    assert "no scheduler of a Dask cluster answers at 'tcp://127.0.0.1:1'" in done.stderr


def test_a_cluster_without_its_extra_is_refused_with_the_command_that_installs_it(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "harness.experiment.remote.dask_workers", raising=False)
    done = within("run", experiment, "--cluster", "tcp://127.0.0.1:1")
    assert done.exit_code == 2
    assert "a cluster needs the extra `cluster`: run `pip install -e '.[cluster]'`" in done.stderr


@pytest.mark.slow
def test_a_run_on_a_cluster_counts_its_workers_and_prints_the_report(experiment, tmp_path):
    with open_cluster(tmp_path / "cluster", workers=1) as cluster:
        with cluster.open_client() as client:  # the command line counts the workers that the scheduler knows
            client.wait_for_workers(1)
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
    crashed = within("run", experiment, *RUN)
    assert crashed.exit_code == 1, crashed.stderr
    assert "2 trials crashed; the same command runs crashed trials again" in crashed.stderr
    plan.write_text(PLAN.replace("[0, 1]", "[1]"))
    done = within("run", experiment, *RUN)
    assert done.exit_code == 0, done.stderr
    assert "2 trials of earlier plans" in done.stdout


@pytest.mark.slow
def test_trials_with_lost_sandboxes_fail_the_run_and_are_repeated_on_request(experiment):
    plan = PLAN.replace(":tiny", ":losing").replace("[0.5, 0.8]", "[0.5]")
    # with a network, commands are not repeated to learn whether they ended the sandbox
    (experiment / "plan.toml").write_text(plan.replace('backend = "local"', 'backend = "local", limits.network = true'))
    lost = "2 trials failed because of the sandbox (sandbox_error); --retry-failed runs such trials again"
    for more in ((), ("--retry-failed",)):
        done = within("run", experiment, *RUN, *more)
        assert (done.exit_code, lost in done.stderr) == (1, True), done.stderr
        assert done.stderr.count("failed: sandbox_error") == 2  # both trials were run


@pytest.mark.slow
def test_trials_that_killed_their_sandboxes_count_and_are_not_run_again(experiment):
    (experiment / "plan.toml").write_text(PLAN.replace(":tiny", ":losing").replace("[0.5, 0.8]", "[0.5]"))
    for more, count in (((), 2), (("--retry-failed",), 0)):
        done = within("run", experiment, *RUN, *more)
        assert done.exit_code == 0, done.stderr
        assert done.stderr.count("failed: sandbox_killed") == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("policy.threshold", "policy.treshold"), "did you mean 'policy.threshold'"),
        (("[0.5, 0.8]", '["high"]'), "policy.threshold"),
        (("window_tokens = 16000", "window_tokens = 20"), "more than the window"),
        ((":tiny", ":tinny"), "did you mean 'tiny'"),
        ((":tiny", ":broken"), "): ZeroDivisionError: division by zero"),
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


def test_nothing_runs_without_a_sandbox_unless_unsafe_local_is_given(experiment):
    refused = within("run", experiment)
    assert refused.exit_code == 2
    assert "--unsafe-local" in refused.stderr
    assert not (experiment / "output").exists()


def test_an_unknown_window_is_warned_of_if_the_policy_depends_on_it(monkeypatch):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    mine = Trial(task=TINY, policy=KEEP, model="hosted_vllm/mine")

    def describe(trial):
        return describe_plan(Experiment(name="e", base=trial))

    assert "warning: policy 'keep-last' never compacts: the context window of model 'hosted_vllm/mine' is unknown" in describe(
        mine
    )
    assert "warning" not in describe(replace(mine, window_tokens=50_000))
    assert "warning" not in describe(replace(mine, policy=policy_from_plain({"kind": "none"})))


def test_an_unknown_window_of_a_sub_agent_is_warned_of(monkeypatch):
    """S3.20."""
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    trial = Trial(task=TINY, policy=KEEP, explore=True, explore_model="hosted_vllm/mine")
    description = describe_plan(Experiment(name="e", base=trial))
    assert (
        "policy 'keep-last' in sub-agents never compacts: the context window of model 'hosted_vllm/mine' is unknown"
        in description
    )
    assert "warning" not in describe_plan(Experiment(name="e", base=replace(trial, explore_model="scripted:typical")))


def test_more_pairs_show_smaller_differences():
    def many(count):
        return Experiment(name="e", base=Trial(task=TINY, policy=KEEP), axes={"seed": list(range(count))})

    assert describe_plan(many(3)).startswith("e: 3 trials, 1 arm\n")
    assert "too few" in describe_comparability(many(3))
    assert "points is shown with 80 % probability" in describe_comparability(many(60))


@pytest.mark.parametrize(
    ("margin", "declared", "words"),
    [
        (0.1, [0.05], "not_worse_margin is 0.1 and was 0.05 at the first run"),
        (0.05, [None, 0.05], "not_worse_margin is 0.05 and was none at the first run"),
        (None, [0.05], "not_worse_margin is none and was 0.05 at the first run"),
        (0.05, [0.05, 0.1], ""),
        (0.05, [], ""),
    ],
)
def test_a_margin_that_differs_from_that_of_the_first_run_is_warned_of(margin, declared, words):
    text = describe_margin_change(margin, declared)
    assert words in text
    assert bool(text) is bool(words)
