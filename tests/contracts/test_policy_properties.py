"""Properties of every preset on every generated conversation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from harness.compaction.conditions import AtBoundary, Background, CumulativeWork, IdleCold
from harness.compaction.pipeline import CalibratedPreset, Rule
from harness.compaction.presets.adaptive_headroom import AdaptiveHeadroom
from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.compaction.presets.claude_code import ClaudeCode
from harness.compaction.presets.cline import Cline, ClineBasic, ClineClassic
from harness.compaction.presets.codex import Codex, Codex2025
from harness.compaction.presets.crush import Crush
from harness.compaction.presets.dexto import Dexto
from harness.compaction.presets.frozen_ranked import FrozenRanked
from harness.compaction.presets.gemini import GeminiCli, GeminiMasking
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.hermes import HermesLean
from harness.compaction.presets.inspect_ai import InspectEdit, InspectSummary, InspectTrim
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.kimi import Kimi
from harness.compaction.presets.langchain import AnthropicClear, DeepAgents, LangChainClear, LangChainSummary
from harness.compaction.presets.letta import Letta
from harness.compaction.presets.maf import MafAnchored
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.openai_agents import OpenAiAgents, OpenAiTrimmer
from harness.compaction.presets.opencode import OpenCode, OpenCodePrune, OpenCodeV1
from harness.compaction.presets.openhands import OpenHands, OpenHandsV0
from harness.compaction.presets.paced import Paced
from harness.compaction.presets.pi import Pi
from harness.compaction.presets.pydantic_ai import PydanticClear, PydanticSummary, PydanticWindow
from harness.compaction.presets.ratio import Ratio, SimplifiedGeminiCli, SimplifiedOpenCode
from harness.compaction.presets.recency import Recency
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.roo_code import RooCode, RooSliding
from harness.compaction.presets.session_brief import CopilotInline, Handoff
from harness.compaction.presets.strands import StrandsSummary, StrandsWindow
from harness.compaction.presets.swe_agent import ComplexityTrapMask, ComplexityTrapSummary, MiniSweAgent, SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.verbatim_lines import VerbatimLines
from harness.compaction.presets.window import MessageWindow
from harness.conversation.events import Compaction, Entry, Hook, MessageAdded
from harness.conversation.messages import Message, assistant, system, user
from harness.conversation.tokens import Counter, QuarterOfCharacters, Window
from harness.conversation.view import View, apply_patch, find_violation, fold, fold_all, render_messages
from harness.policies import PRESETS, WRAPPERS
from harness.protocols import Need, Policy
from harness.session.compactor import FRUITLESS_IN_A_ROW, HOOKS_WITHOUT_PAUSE, SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from harness.testing.policy_contract import NEW_MESSAGES, check_pending_messages
from harness.testing.strategies import logs
from tests.compaction.conversations import lengthened, report, work

pytestmark = pytest.mark.slow

COUNTER = QuarterOfCharacters()
OVERFULL = report(15_999)
"""Usage report that makes each policy due that measures by reports."""
WINDOW = Window(tokens=16_000, source="configuration")


class EvenMessages:
    """Oracle in which every second message is needed, later messages sooner, and every fourth is never needed again."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        return [Need(len(messages) - at, at % 4 == 0) if at % 2 == 0 else None for at in range(len(messages))]


POLICIES: list[Policy] = [
    NoCompaction(),
    KeepLast(threshold=0.05, keep_last=1),
    KeepLast(threshold=0.05, keep_last=4),
    KeepLast(threshold=0.1, keep_last=10),
    DropAll(threshold=0.05),
    RandomRetention(threshold=0.05),
    RandomRetention(threshold=0.1, keep_share=0.9, seed=3),
    OracleRetention(threshold=0.05).with_oracle(EvenMessages()),
    OracleRetention(threshold=0.1, keep_share=1.0).with_oracle(EvenMessages()),
    Ratio(threshold=0.02),
    SimplifiedOpenCode(threshold=0.02, protect_tokens=100),
    SimplifiedGeminiCli(threshold=0.02),
    ClaudeCode(threshold=0.02, file_tokens=20, files_tokens=40, skill_tools=("read_*",), skill_tokens=10, skills_tokens=20),
    Cline(threshold=0.02, keep_recent_tokens=60, summary_max_tokens=100),
    ClineBasic(threshold=0.02),
    ClineClassic(spare_share=0.02),
    ClineClassic(spare_share=0.02, enough_share=0.01),
    Codex(compact_at_tokens=100, keep_user_tokens=20),
    Codex2025(compact_at_tokens=100, keep_user_tokens=20),
    ComplexityTrapMask(keep_results=3, polling=2),
    ComplexityTrapSummary(turns=6, keep_turns=2),
    ComplexityTrapSummary(turns=6, keep_turns=1, latest_only=True, mask_results=1),
    Crush(left_share=0.98),
    Dexto(threshold=0.02, protect_tokens=60, least_saved_tokens=40),
    GeminiCli(threshold=0.02),
    GeminiCli(threshold=0.02, adapted=True, protect_tokens=50, result_characters=200),
    GeminiMasking(protect_tokens=0, prune_minimum_tokens=1, preview_characters=0),
    GeminiMasking(protect_tokens=60, prune_minimum_tokens=30, preview_characters=20),
    Goose(threshold=0.02, adapted=True),
    Letta(threshold=0.02),
    MiniSweAgent(),
    OpenCodeV1(max_output_tokens=15_800, tail_least_tokens=30, tail_most_tokens=90),
    OpenCode(max_output_tokens=15_800, buffer_tokens=15_800, keep_tokens=60, result_characters=40),
    OpenCodePrune(protect_tokens=40, least_saved_tokens=20, adapted=True),
    Paced(every_steps=3, keep_last=2),
    Paced(every_steps=5, threshold=0.02, keep_last=3, keep_request=True),
    Paced(every_steps=2, summarize=False, keep_last=2),
    Paced(every_steps=2, summarize=False, keep_last=2, pins=("*a*", "*build*")),
    Paced(every_steps=3, keep_last=1, pins=("*0*",)),
    Pi(reserve_tokens=15_800, keep_recent_tokens=60),
    Pi(reserve_tokens=15_800, keep_recent_tokens=60, fixed=False),
    RooCode(max_output_tokens=14_200),
    RooSliding(max_output_tokens=14_200),
    StrandsSummary(threshold=0.02, keep_messages=3),
    SweAgent(keep_results=1),
    ReserveRecent(reserve_tokens=15_800, keep_recent_tokens=60, summary_max_tokens=100),
    InspectEdit(threshold=0.02, keep_results=1),
    InspectSummary(threshold=0.02),
    InspectTrim(threshold=0.02),
    AnthropicClear(trigger_tokens=150, keep_results=1, least_saved_tokens=50),
    DeepAgents(threshold=0.02, keep_share=0.005, argument_characters=10, short_characters=0),
    PydanticClear(trigger_tokens=150, keep_results=1, clear_arguments=True),
    PydanticSummary(trigger_share=0.02, keep_messages=3),
    PydanticSummary(trigger_share=None, trigger_messages=6, keep_tokens=60, keep_request=False, incremental=False),
    PydanticWindow(trigger_messages=6, keep_messages=4),
    LangChainClear(trigger_tokens=150, keep_results=1),
    LangChainClear(trigger_tokens=300, enough_tokens=200),
    LangChainSummary(trigger_share=0.02, keep_messages=4),
    LangChainSummary(trigger_share=None, trigger_tokens=300, keep_share=0.01, trim_tokens=None),
    OpenHands(max_size=10, keep_first=1, max_tokens=2_000),
    OpenHandsV0(max_size=8, keep_first=2),
    MessageWindow(max_messages=8, preserve_last_n=4),
    MessageWindow(max_messages=6, preserve_last_n=3, summarize_on_trim=True),
    ThreeTiers(max_output_tokens=15_800, prune=False),
    ThreeTiers(max_output_tokens=15_800, protect_tokens=60, prune_minimum_tokens=30, protect_turns=0),
    ThreeTiers(max_output_tokens=15_000, prune_at="step", protect_tokens=60, prune_minimum_tokens=30, differential=True),
    AdaptiveHeadroom(threshold=0.02),
    AdaptiveHeadroom(threshold=0.02, headroom_steps=0, keep_first=1),
    CopilotInline(threshold=0.02),
    FrozenRanked(threshold=0.02, target_share=0.01, keep_messages=2, summary_max_tokens=20),
    Handoff(threshold=0.02),
    HermesLean(threshold=0.02, tail_tokens=40, tail_share=0.001, most_tail_tokens=60, least_summary_tokens=20),
    Kimi(threshold=0.02, reserve_tokens=0, keep_user_tokens=40, keep_head_tokens=10),
    MafAnchored(threshold=0.02, head_groups=1, tail_groups=1, min_gain_share=0.0),
    OpenAiAgents(threshold=0.02),
    OpenAiTrimmer(recent_turns=1, max_characters=10, preview_characters=0),
    StrandsWindow(window_messages=4, keep_characters=5, every_step=True),
    StrandsWindow(window_messages=4, keep_characters=0),
    VerbatimLines(threshold=0.02, keep_last=2),
    KeepLast(threshold=0.05, keep_last=1, preserve=("*a*", "kind:failure"), preserve_tokens=60),
    Codex(compact_at_tokens=100, keep_user_tokens=20, preserve=("kind:user",), preserve_tokens=30, focus="paths"),
    KeepLast(threshold=0.05, keep_last=1, when=(AtBoundary(ceiling=0.05), IdleCold(ceiling=0.05))),
    KeepLast(threshold=0.05, keep_last=1, when=(CumulativeWork(work_tokens=10), Background(start=0.5))),
    Recency(of=KeepLast(threshold=0.05, keep_last=1, summary_max_tokens=20)),
    Recency(of=SweAgent(keep_results=1)),
]


KEEPING_THE_REQUEST = {
    *("anthropic-clear-tool-uses", "cline-classic", "complexity-trap-mask", "complexity-trap-summary", "gemini-masking"),
    *("inspect-edit",),
    *("inspect-summary", "inspect-trim", "langchain-clear-tool-uses", "message-window", "opencode-prune", "openhands-v0"),
    *("pydantic-clear", "pydantic-window", "roo-sliding", "swe-agent"),
}
"""Presets that always retain the first user message verbatim."""


def rules_of(policy: Policy) -> tuple[Rule, ...]:
    """Return the rules of a policy that is composed of rules."""
    pipeline = getattr(policy, "pipeline", None)
    return pipeline.rules if pipeline else ()


def test_every_preset_is_among_the_policies_under_test() -> None:
    assert {policy.kind for policy in POLICIES} == {*PRESETS, *WRAPPERS}  # type: ignore[attr-defined]
    assert set(PRESETS) > KEEPING_THE_REQUEST


def folded(log: tuple[Entry, ...]) -> Callable[[Policy], View]:
    """Return a function from a policy to the view of a log; policies with equal token counters share the view."""
    views: dict[Counter, View] = {}

    def view_of(policy: Policy) -> View:
        if policy.counter not in views:
            views[policy.counter] = fold_all(log, policy.counter)
        return views[policy.counter]

    return view_of


@contextmanager
def naming(policy: Policy, hook: Hook) -> Iterator[None]:
    """Add the policy and the hook to an error; to describe them in advance would take longer than many a compaction."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{hook}: {policy!r}")
        raise


def compactor(policy: Policy, summarizer: FakeModel) -> SessionCompactor:
    return SessionCompactor(policy=policy, window=WINDOW, summarizer=summarizer, outputs=MemoryOutputs())


def compacted(policy: Policy, view: View, summary: str, hook: Hook) -> Compaction | None:
    return compactor(policy, FakeModel([assistant(summary)] * 9)).compact(view, None, 1, hook, lambda _: None)


BETWEEN_TURNS: list[Policy] = [Goose(threshold=0.02), OpenCodePrune(protect_tokens=40, least_saved_tokens=20, keep_turns=1)]
"""Policies that compact only between turns, so in a session with one request only after an overflow."""
MOMENTS: list[tuple[Policy, Hook]] = [
    (policy, hook)
    for hook in ("step", "manual", "turn", "overflow")
    for policy in (*POLICIES, *BETWEEN_TURNS)
    if hook in {"step", "manual"} or any(rule.hook == hook for rule in rules_of(policy))
]
"""Every policy at the hooks `step` and `manual`, and at other hooks the policies that have a rule for them."""
summaries = st.text(min_size=1, max_size=900).filter(str.strip)
FEWER = settings(max_examples=(settings().max_examples + 1) // 2)
"""Half of the examples, for properties that compact each view with every policy at every hook."""


def test_policies_act_at_every_moment() -> None:
    acting = {hook: {policy.kind for policy, at in MOMENTS if at == hook} for hook in ("turn", "overflow")}  # type: ignore[attr-defined]
    assert {"goose", "opencode-prune", "three-tiers"} <= acting["turn"]
    assert {"cline", "deepagents", "goose", "inspect-summary", "letta", "openhands", "roo-code"} <= acting["overflow"]


def test_every_policy_under_test_changes_some_view_at_every_moment_that_it_has_a_rule_for() -> None:
    idle = {at: MOMENTS[at] for at in range(len(MOMENTS))}

    @settings(max_examples=100, derandomize=True, database=None, phases=[Phase.generate])
    @given(log=logs())
    def look(log: tuple[Entry, ...]) -> None:
        views = [folded(one) for one in (log, lengthened(log))]
        for at, (policy, hook) in tuple(idle.items()):
            # the heading is one that OpenCode requires
            events = (compacted(policy, view(policy), "## Objective\ns", hook) for view in views)
            if any(event is not None and event.status == "applied" for event in events):
                del idle[at]

    look()
    ruled = [(policy, at) for policy, at in idle.values() if any(at in {rule.hook, "manual"} for rule in rules_of(policy))]
    assert ruled == []


@FEWER
@given(log=logs(), summary=summaries)
def test_a_compaction_is_legal_and_saves_tokens(log: tuple[Entry, ...], summary: str) -> None:
    views = folded(log)
    for policy, hook in MOMENTS:
        view = views(policy)
        with naming(policy, hook):
            event = compacted(policy, view, summary, hook)
            assert event == compacted(policy, view, summary, hook), "the same view gives the same event"
            if event is not None:
                is_forced = hook == "overflow" and isinstance(policy, CalibratedPreset)
                check(policy, view, event, len(log) + 1, keeps_request=not is_forced)


@FEWER
@given(log=logs(), texts=NEW_MESSAGES, summary=summaries, is_answering=st.booleans())
def test_no_message_of_the_user_leaves_the_view_before_a_request_has_contained_it(
    log: tuple[Entry, ...], texts: list[str], summary: str, is_answering: bool
) -> None:
    """The messages wait for the next request, behind finished steps or behind an answer that was interrupted."""
    new = [MessageAdded(message=user(text), step=0) for text in texts]
    if is_answering:
        new.insert(1, MessageAdded(message=assistant("half an ans"), step=0))
    waiting = (*log, *(Entry(len(log) + number, event) for number, event in enumerate(new, 1)))
    both = [folded(one) for one in (waiting, lengthened(waiting))]
    for policy, hook in MOMENTS:
        for views in both:
            view = views(policy)
            with naming(policy, hook):
                for usage in (None, OVERFULL):
                    room = compactor(policy, FakeModel([assistant(summary)] * 9))
                    event = room.compact(view, usage, 1, hook, lambda _: None)
                    if event is not None:
                        check_pending_messages(view, event, fold(view, Entry(len(waiting) + 1, event), policy.counter))


WITHOUT_REQUEST = tuple(
    Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate((system("be good"), *work(0, 8)), 1)
)
"""Log that begins with an answer and the result of its call, as a recording whose beginning is missing does."""


@pytest.mark.slow
@settings(max_examples=20)
@given(log=logs(begin_with_request=False), summary=summaries)
@example(log=WITHOUT_REQUEST, summary="so far")
def test_a_compaction_of_a_recording_that_begins_in_any_role_is_legal(log: tuple[Entry, ...], summary: str) -> None:
    """S1.6: a recording may begin with an answer, whose call must keep its result under every policy."""
    both = [folded(one) for one in (log, lengthened(log))]
    for policy, hook in MOMENTS:
        for views in both:
            view = views(policy)
            with naming(policy, hook):
                event = compacted(policy, view, summary, hook)
                if event is not None:
                    check(policy, view, event, len(log) + 1, keeps_request=False)


@FEWER
@given(log=logs(), summary=summaries)
def test_a_summary_that_replaces_the_request_has_the_request_in_its_prompt(log: tuple[Entry, ...], summary: str) -> None:
    views = folded(log)
    for policy, hook in MOMENTS:
        view = views(policy)
        summarizer = FakeModel([assistant(summary)] * 9)
        event = compactor(policy, summarizer).compact(view, None, 1, hook, lambda _: None)
        if event is None or not event.summary or view.task is None or view.task not in view.messages:
            continue
        after = fold(view, Entry(len(log) + 1, event), policy.counter)
        prompts = " ".join(message.text for request in summarizer.requests for message in request.messages)
        assert view.task in after.messages or beginning(view.task.text) in beginning(prompts, None), (policy, hook)


def beginning(text: str, characters: int | None = 100) -> str:
    """Return the beginning of a text that every length limit leaves; white space in a transcript may differ."""
    return " ".join(text.split())[:characters]


def check(policy: Policy, view: View, event: Compaction, seq: int, *, keeps_request: bool = True) -> None:
    """Check the view after a compaction event."""
    after = fold(view, Entry(seq, event), policy.counter)
    if keeps_request and policy.kind in KEEPING_THE_REQUEST:  # type: ignore[attr-defined]
        assert view.task in after.messages
    assert find_violation(render_messages(after.messages)) is None
    assert after.items[0] == view.items[0], "the system message must stay"
    assert after.tokens == sum(item.tokens for item in after.items) == event.tokens_after
    if event.status == "applied":
        assert after.tokens < view.tokens
        assert after.items == apply_patch(view.items, event.patch, seq, policy.counter)
    else:
        assert after.items == view.items


@settings(max_examples=15)
@given(log=logs())
def test_a_policy_that_was_asked_at_every_step_answers_as_one_that_never_was(log: tuple[Entry, ...]) -> None:
    views = folded(log)
    for policy, hook in MOMENTS:
        budget, view, plan = policy.budget(WINDOW), View(), None
        for entry in log:
            view = fold(view, entry, policy.counter)
            plan = (
                policy.plan(view, budget, None, hook) if find_violation(view.messages) is None and len(view.items) > 1 else None
            )
        assert plan == policy.plan(views(policy), budget, None, hook), (policy, hook)


@given(log=logs())
def test_a_wish_makes_due_whatever_a_policy_does_of_its_own_accord(log: tuple[Entry, ...]) -> None:
    budget_of = {policy: policy.budget(Window(tokens=200_000_000, source="configuration")) for policy in POLICIES}
    views = folded(log)
    for policy, budget in budget_of.items():
        view = views(policy)
        plan = policy.plan(view, budget, None, "manual")
        assert plan is not None or all(rule.quiet for rule in rules_of(policy) if rule.hook != "overflow"), policy
        assert plan is None or plan.reason.startswith("asked for"), policy


OF_NO_TOKENS = (
    Entry(1, MessageAdded(message=system("0"), step=0)),
    Entry(2, MessageAdded(message=user("0"), step=0)),
)
"""Log of messages whose texts are shorter than one token, so growth by a tenth cannot be measured."""


@FEWER
@given(log=logs(), summary=summaries)
@example(log=OF_NO_TOKENS, summary="0")
def test_compaction_comes_to_rest(log: tuple[Entry, ...], summary: str) -> None:
    views = folded(log)
    for policy, hook in MOMENTS:
        if hook in HOOKS_WITHOUT_PAUSE:  # the session itself asks once for each overflow and each request of the user
            continue
        view = views(policy)
        with naming(policy, hook):
            for attempt in range(len(log) + FRUITLESS_IN_A_ROW + 1):  # one that halves the view takes several rounds
                event = compacted(policy, view, summary, hook)
                if event is None:
                    break
                view = fold(view, Entry(len(log) + 1 + attempt, event), policy.counter)
            else:
                raise AssertionError("the policy keeps compacting a view that does not grow")


@given(log=logs())
def test_folding_step_by_step_equals_folding_at_once(log: tuple[Entry, ...]) -> None:
    view = View()
    for entry in log:
        before = view
        view = fold(view, entry, COUNTER)
        assert view.items[: len(before.items)] == before.items, "without a compaction a view only grows"
    assert view == fold_all(log)
