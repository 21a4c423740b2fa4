"""Policies of another package (S3.21): a wheel is installed by the usual installer, and a plan uses its policies."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.inspection.loading import load
from tests.cli.command import LOCAL, TINY, harness_anew

pytestmark = pytest.mark.slow

CODE = '''
"""Policies that somebody else wrote."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.stages import Forget, Middle
from harness.compaction.triggers import FixedTokens, Full
from harness.conversation.plan import CompactionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinning(Preset):
    """Forgets all but the newest messages at a number of tokens. Source: nobody's paper."""

    at_tokens: int = 2_000
    keep_messages: int = 4
    clip_characters: int = 10_000
    kind: Literal["thinning"] = "thinning"

    @property
    def pipeline(self) -> Pipeline:
        middle = Middle(tail=LastMessages(count=self.keep_messages))
        rule = Rule(trigger=Full(), reducer=Forget(middle=middle))
        return Pipeline(budget_rule=FixedTokens(tokens=self.at_tokens), rules=(rule,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lawless(Thinning):
    """Forgets everything, the system message first."""

    kind: Literal["lawless"] = "lawless"

    def plan(self, view, budget, usage, hook="step"):
        if view.tokens < self.at_tokens:
            return None
        return CompactionPlan(reason="enough", forget=tuple(item.item_id for item in view.items))
'''
ENTRY_POINTS = """
[harness.policies]
lawless = thin_policies:Lawless
lost = thin_policies:Lost
thinning = thin_policies:Thinning
"""
PLAN = """
[experiment]
title = "Policies from elsewhere"

[trial]
task = {task}
model = "scripted"
window_tokens = 32_768

[trial.policy]
kind = "thinning"

[axes]
policy.at_tokens = [1_500]

[[arms]]
name = "lawless"
trial = {{ policy = {{ kind = "lawless" }} }}
"""


def wheel(folder: Path) -> Path:
    """Return a wheel with two policies, as a build tool would write it."""
    about = "thin_policies-1.0.dist-info"
    files = {
        "thin_policies.py": CODE,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: thin-policies\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": ENTRY_POINTS,
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for name, text in files.items()}
    record = "".join(f"{name},sha256={digests[name].decode().rstrip('=')},{len(text.encode())}\n" for name, text in files.items())
    path = folder / "thin_policies-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return environment variables with which the installed package can be imported."""
    folder = tmp_path_factory.mktemp("elsewhere")
    uv = Path(sys.executable).with_name("uv")
    installer = [uv, "pip"] if uv.exists() else [sys.executable, "-m", "pip"]
    offline = "--offline" if uv.exists() else "--no-index"
    command = [*installer, "install", "-q", "--no-deps", offline, "--target", folder / "site", wheel(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH", ""))))}


def test_plugin_policies_are_listed_and_a_broken_one_hides_no_other(installed):
    listed = harness_anew("policies", "--full", **installed)
    assert listed.returncode == 0, listed.stderr
    blocks = {block.split()[0]: block for block in listed.stdout.strip().split("\n\n")}
    assert {"thinning", "lawless", "keep-last"} <= set(blocks)
    for text in ("source    nobody's paper", "Full → Forget(Middle(LastMessages(count=4)))", "at_tokens=2000", "active: "):
        assert text in blocks["thinning"]
    assert "IllegalPlan: policy 'lawless' proposed an illegal view" in blocks["lawless"]
    assert "policy 'lost' (thin_policies:Lost) of package 'thin-policies' cannot be loaded: AttributeError" in blocks["lost"]
    lines = {line.split()[0]: line for line in harness_anew("policies", **installed).stdout.splitlines() if line}
    assert {"thinning", "lawless", "keep-last"} <= set(lines)
    assert "fails: UsageError: policy 'lost'" in lines["lost"]


def test_plugin_policies_run_from_a_plan_and_an_illegal_one_fails_only_its_own_trial(installed, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN.format(task=json.dumps(TINY)))
    ran = harness_anew("run", tmp_path, "--workers", "1", *LOCAL, **installed)
    broken = (
        "policy 'lawless' proposed an illegal view: the system message would be changed or evicted; leave the first of "
        "`view.items` out of `forget` and `replace`"
    )
    assert (ran.returncode, f"1 trial ended by an error of the policy: {broken}" in ran.stderr) == (1, True), (
        ran.stdout + ran.stderr
    )
    trials = load(tmp_path).trials.set_index("policy")
    thinning, lawless = trials.loc["thinning"], trials.loc["lawless"]
    assert (thinning.status != "crashed", thinning.activity) == (True, "active")
    assert thinning.compactions == thinning.prunings > 0
    assert json.loads(thinning.policy_json)["at_tokens"] == 1_500
    assert (lawless.status, lawless.reason, lawless.error) == ("failed", "illegal_plan", broken)


def test_policies_of_a_package_that_is_not_installed_are_unknown(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN.format(task=json.dumps(TINY)))
    refused = harness_anew("run", tmp_path, "--dry-run", *LOCAL)
    assert refused.returncode == 2
    assert "unknown policy in trial.policy: 'thinning'" in refused.stderr
