"""Policies of this project in sessions whose model counts more tokens than characters / 4 (S0.3, S0.4, S3.4).

Recorded sessions of Claude Code have 2.3 to 2.9 characters for each token, Chinese text about 1.5. A session must not end in an
overflow that a compaction could have saved: one in which the system message, the user's newest message and the newest block, cut
if need be, fit into the window less the tokens for an answer.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from harness.agent.loop import Agent, Outcome
from harness.compaction.pipeline import CalibratedPreset
from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.paced import Paced
from harness.compaction.presets.ratio import Ratio
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.window import MessageWindow
from harness.conversation.events import Compaction, Entry, SessionStarted, StepFinished, TextDelta
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Measured, Usage, Window, count_characters
from harness.conversation.view import fold_all
from harness.errors import ContextOverflow
from harness.policies import PRESETS
from harness.protocols import Need, Policy, Reply, Request, ignore
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryLog, MemoryOutputs
from harness.tools.function_tool import FunctionTool, build_spec

pytestmark = pytest.mark.slow

SYSTEM_TEXT = "You are a coding agent. " * 40
TOOL_TOKENS = 1_500
"""Tokens of the tool definitions, which no estimate of messages includes."""
OUTPUT_TOKENS = 4_000


class EvenMessages:
    """Oracle in which every second message is needed, later messages sooner."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        return [Need(len(messages) - at) if at % 2 == 0 else None for at in range(len(messages))]


POLICIES: dict[str, Policy] = {
    "drop-all": DropAll(),
    "keep-last": KeepLast(),
    "message-window": MessageWindow(),
    "message-window summarizing": MessageWindow(max_messages=30, preserve_last_n=10, summarize_on_trim=True),
    "oracle": OracleRetention().with_oracle(EvenMessages()),
    "paced": Paced(),
    "paced with pins": Paced(threshold=0.5, keep_request=True, pins=("*line 1*",)),
    "random": RandomRetention(),
    "ratio": Ratio(),
    "reserve-recent": ReserveRecent(),
    "three-tiers": ThreeTiers(),
    "three-tiers at steps": ThreeTiers(prune_at="step"),
}


@dataclass
class DenseModel:
    """Model that counts a token for each few characters, and refuses prompts beyond its window.

    As an agent it reads files: in each step as many characters as planned, one file for each number. As a summarizer it writes as
    much as it may.
    """

    characters_per_token: float
    window: Window
    steps: Sequence[tuple[int, ...]]
    name: str = "dense"
    refused: list[int] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        tokens = self.count(request)
        if tokens + OUTPUT_TOKENS > self.window.tokens:
            self.refused.append(tokens)
            raise ContextOverflow(self.name, tokens, self.window.tokens)
        if request.max_output_tokens is not None:
            message = assistant("s" * int(min(request.max_output_tokens, OUTPUT_TOKENS) * self.characters_per_token))
        else:
            step = len(self.prompts)
            self.prompts.append(tokens)
            plan = self.steps[step] if step < len(self.steps) else ()
            calls = [
                ToolCall(call_id=f"c{step}-{at}", name="read_file", arguments_json=json.dumps({"characters": str(size)}))
                for at, size in enumerate(plan)
            ]
            message = assistant("Reading." if calls else "Done.", *calls)
        output = math.ceil(count_characters(message) / self.characters_per_token)
        usage = Usage(input_tokens=Measured(tokens), output_tokens=Measured(output))
        return Reply(message=message, usage=usage, seconds=0.0, cost_usd=0.0)

    def count(self, request: Request) -> int:
        characters = sum(count_characters(message) + 20 for message in request.messages)
        return math.ceil(characters / self.characters_per_token) + (TOOL_TOKENS if request.tools else 0)


def read_file(arguments: dict[str, str]) -> str:
    size = int(arguments["characters"])
    return "".join(f"line {number}: some content of this file\n" for number in range(size // 30 + 1))[:size]


def run(
    policy: Policy, characters_per_token: float, window_tokens: int, steps: Sequence[tuple[int, ...]], task: str = "Read."
) -> tuple[Outcome, DenseModel, list[Entry]]:
    window, log = Window(tokens=window_tokens, source="configuration"), MemoryLog()
    model = DenseModel(characters_per_token, window, steps)
    compactor = SessionCompactor(policy=policy, window=window, summarizer=model, outputs=MemoryOutputs())
    spec = build_spec("read_file", "Read a file.", {"characters": {"type": "string"}}, ["characters"])
    agent = Agent(
        model=model,
        tools=[FunctionTool(spec=spec, act=read_file)],  # type: ignore[arg-type]
        log=log,
        compactor=compactor,
        clock=lambda: 0.0,
        max_steps=200,
    )
    started = SessionStarted(
        session_id="s1", task=task, model="dense", policy_json="{}", window_tokens=window_tokens,
        threshold_tokens=compactor.budget.threshold_tokens, budget_rule="", sandbox="none",
    )  # fmt: skip
    return agent.run(started, SYSTEM_TEXT), model, list(log.entries())


MANY = [(9_000,)] * 70
PARALLEL = [(10_000,) * 6] * 12
MIXED = [(400,), (10_000,) * 3, (30_000,), (200, 200), (60_000,), (10_000,) * 12, *[(5_000,)] * 20]
PLANS: dict[str, tuple[Sequence[tuple[int, ...]], float]] = {
    "many": (MANY, 0.0),
    "parallel": (PARALLEL, 0.0),
    "mixed": (MIXED, 0.0),
    "long request": (MANY, 0.7),
    "longest request": (MIXED, 0.9),
}
"""Sessions: characters of the results in each step, and share of the window's room that the user's request fills.

The results are many of usual size, several in each step, and single ones beyond any window.
"""


def test_every_policy_of_this_project_that_compacts_is_tried() -> None:
    own_kinds = {kind for kind, preset in PRESETS.items() if issubclass(preset, CalibratedPreset)}
    assert own_kinds == {name.split()[0] for name in POLICIES}
    assert own_kinds == {
        "drop-all", "keep-last", "message-window", "oracle", "paced", "random", "ratio", "reserve-recent", "three-tiers",
    }  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("characters_per_token", [1.5, 2.65, 4.0])
@pytest.mark.parametrize("window_tokens", [40_000, 100_000])
@pytest.mark.parametrize("kind", POLICIES)
def test_no_session_ends_in_an_overflow_that_a_compaction_could_have_saved(
    kind: str, window_tokens: int, characters_per_token: float, plan: str
) -> None:
    steps, share = PLANS[plan]
    task = "Read." + "x" * int(share * (window_tokens - OUTPUT_TOKENS - TOOL_TOKENS) * characters_per_token)
    outcome, model, _ = run(POLICIES[kind], characters_per_token, window_tokens, steps, task)
    assert (outcome.reason, len(model.prompts)) == ("replied", len(steps) + 1), (outcome.detail, model.refused)


@pytest.mark.parametrize("characters_per_token", [1.5, 2.65, 4.0])
def test_without_compaction_the_same_sessions_overflow(characters_per_token: float) -> None:
    """Law 2, S2.9."""
    for policy in (
        NoCompaction(),
        ReserveRecent(enabled=False),
        ThreeTiers(auto=False, prune=False),
        MessageWindow(max_messages=0),
    ):
        outcome, _, _ = run(policy, characters_per_token, 36_000, MANY)
        assert outcome.reason == "overflow", policy


@pytest.mark.parametrize("characters_per_token", [1.5, 2.65, 4.0])
def test_the_threshold_is_reached_by_the_count_of_the_provider(characters_per_token: float) -> None:
    """S0.4: 151,200 of 200,000 tokens. By characters / 4 alone, that is 228,000 tokens of 2.65 characters."""
    outcome, model, entries = run(KeepLast(), characters_per_token, 200_000, [(9_000,)] * 120)
    assert outcome.reason == "replied"
    assert not model.refused
    compacted = [entry.event.step for entry in entries if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    step_tokens = 9_100 / characters_per_token
    for step in compacted[1:]:  # the prompt before each compaction was below the threshold by less than one step
        assert 151_200 - 2 * step_tokens <= model.prompts[step - 2] < 151_200, (step, model.prompts)
    assert len(compacted) >= (1 if characters_per_token == 4 else 2)


def test_a_session_with_dense_text_overflows_under_the_literal_measure() -> None:
    _, model, _ = run(KeepLast(measure="estimate"), 2.65, 200_000, [(9_000,)] * 120)
    assert model.refused


def test_the_ratio_of_a_session_is_that_of_its_reports_and_survives_compactions() -> None:
    _, _, entries = run(KeepLast(), 2.65, 36_000, MANY)
    assert sum(isinstance(entry.event, Compaction) for entry in entries) > 3
    ends = [index for index, entry in enumerate(entries, 1) if isinstance(entry.event, StepFinished)]
    ratios = [fold_all(entries[:end], KeepLast().counter).calibration.ratio for end in ends]
    assert ratios[0] == 1, "one report says nothing of the ratio, since it also counts the definitions of tools"
    assert all(ratio == pytest.approx(4 / 2.65, rel=0.06) for ratio in ratios[2:])
