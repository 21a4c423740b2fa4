"""Tests that the description of a policy agrees with its behaviour and its docstring."""

from dataclasses import dataclass, replace
from typing import Literal

import pytest

from harness.compaction.description import (
    Abilities,
    advise_on_overflow,
    describe_measures,
    describe_stages,
    extract_description,
    extract_source,
    inspect_abilities,
    list_defaults,
)
from harness.compaction.pipeline import Pipeline, Preset
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.codex import Codex
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.langchain import DeepAgents, LangChainClear
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.pi import Pi
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.swe_agent import SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.window import MessageWindow
from harness.policies import PRESETS


class Stranger:
    """Policy without a pipeline."""

    summarizer = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(Preset):
    """Does what it does, and
    then some.

    It is odd. Source: the second of two papers, sec. 3, v1.2; as told
    there. The rest is ours.
    """

    keep_messages: int = 3
    kind: Literal["odd"] = "odd"

    @property
    def pipeline(self) -> Pipeline:
        return NoCompaction().pipeline


def test_a_policy_without_a_rule_can_do_nothing() -> None:
    assert inspect_abilities(NoCompaction()) == Abilities(can_act=False, can_summarize=False)


def test_a_policy_summarizes_only_as_it_is_configured() -> None:
    window = MessageWindow()
    assert inspect_abilities(window) == Abilities(can_act=True, can_summarize=False)
    assert inspect_abilities(replace(window, summarize_on_trim=True)) == Abilities(can_act=True, can_summarize=True)
    assert inspect_abilities(replace(window, max_messages=0)) == Abilities(can_act=False, can_summarize=False)


def test_the_summarizer_field_tells_whether_a_policy_without_stages_can_summarize() -> None:
    assert inspect_abilities(Stranger()) == Abilities(can_act=True, can_summarize=True)
    assert inspect_abilities(object()) == Abilities(can_act=True, can_summarize=False)
    assert describe_stages(Stranger()) == ("unknown: the policy is not a pipeline of stages",)


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        (KeepLast(), "the model's own token count"),
        (KeepLast(measure="estimate"), ""),
        (Codex(), "the model's own token count"),
        (LangChainClear(), "an estimate of the unedited messages"),
        (DeepAgents(), "the model's own token count and an estimate of the unedited messages"),
        (Stranger(), ""),
    ],
)
def test_token_counts_that_are_not_the_estimate_of_the_policy_are_named(policy: object, counts: str) -> None:
    assert describe_measures(policy) == counts


def test_stages_tell_moment_trigger_and_reducer_and_leave_out_what_is_usual() -> None:
    procedure = "SummaryProcedure(NewestHalf, fits_window=True)"
    summary = f"Summarize(Middle(LastMessages(count=7)), SixSections, max_tokens=800, role=assistant, {procedure})"
    assert describe_stages(KeepLast(keep_last=7)) == (
        "output: Truncation(max_characters=10000, keep_essentials=True, proposes_explore=True)",
        f"step: Full(measure=calibrated) → {summary}",
        f"overflow: Always → FitWindow({summary})",
    )
    cut, summarize, *_ = describe_stages(ThreeTiers(prune=False))
    assert cut == "output: Truncation(max_lines=2000, max_bytes=51200, keep_essentials=True, saved=True, proposes_explore=True)"
    around = "(user 'What did we do so far?'), (user 'Continue if you have next steps')"
    assert summarize.endswith(f"former=among, {around}, {procedure})")
    assert describe_stages(OracleRetention())[1] == "step: Full(measure=calibrated) → Retain(MissingRanking, share=0.5)"
    (only_cut,) = describe_stages(NoCompaction(clip_characters=70))
    assert only_cut == "output: Truncation(max_characters=70, keep_essentials=True, proposes_explore=True)"


def test_a_source_is_the_sentence_that_names_it_wherever_it_stands() -> None:
    assert extract_source(Odd) == "the second of two papers, sec. 3, v1.2; as told there"
    assert extract_source(NoCompaction) == "this project, as the control of every comparison"
    assert extract_source(SweAgent).startswith("SWE-agent 3ea751c0, `sweagent/agent/history_processors.py`")
    assert extract_source(Stranger) == ""


def test_a_sentence_is_the_first_paragraph_without_the_source() -> None:
    assert extract_description(Odd) == "Does what it does, and then some."
    assert extract_description(NoCompaction) == "No compaction: the session goes on until the provider refuses the prompt."


def test_defaults_are_the_fields_but_the_kind() -> None:
    assert list_defaults(Odd) == {"keep_messages": 3, "clip_characters": 10_000, "when": ()}


@pytest.mark.parametrize("kind", PRESETS)
def test_every_preset_says_in_a_sentence_what_it_does_and_where_it_comes_from(kind: str) -> None:
    assert extract_description(PRESETS[kind]).endswith((".", ")"))
    assert extract_source(PRESETS[kind])
    assert describe_stages(PRESETS[kind]())


@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        (ReserveRecent(enabled=False), "compaction is switched off by enabled=False: switch it on"),
        (Pi(enabled=False), "compaction is switched off by enabled=False: switch it on"),
        (MessageWindow(max_messages=0), "compaction is switched off by max_messages=0: switch it on"),
        (ThreeTiers(auto=False), "compaction is switched off by auto=False: switch it on"),
        (ThreeTiers(auto=False, prune=False), "compaction is switched off by auto=False: switch it on"),
        (NoCompaction(), "compaction is off with policy 'none': switch it on with another"),
        (KeepLast(threshold=0.5), "compact earlier (a lower threshold)"),
    ],
)
def test_the_advice_after_an_overflow_is_to_switch_compaction_on_where_it_is_off(policy: Preset, advice: str) -> None:
    assert advise_on_overflow(policy).startswith(advice)


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in {"none", "mini-swe-agent"}])
def test_no_policy_is_switched_off_by_its_defaults(name: str) -> None:
    assert advise_on_overflow(PRESETS[name]()).startswith("compact earlier")
