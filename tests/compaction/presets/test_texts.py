"""Tests of the words that sources prescribe for prompts of summarizers and for the messages around a summary.

Other sentences are this project's own where the source is another system. Texts that a design document gives verbatim are tested
with their presets.
"""

import re

import pytest

from harness.compaction.description import inspect_abilities
from harness.conversation.events import Entry, Hook, MessageAdded
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Window
from harness.conversation.view import View, fold
from harness.policies import PRESETS
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import seen

LAST = "Build part 12\\."
LANGCHAIN = "SESSION INTENT | SUMMARY | ARTIFACTS | NEXT STEPS"
OPENHANDS = (
    "USER_CONTEXT: | TASK_TRACKING: | COMPLETED: | PENDING: | CURRENT_STATE: | CODE_STATE: | TESTS: | CHANGES: | DEPS: | "
    "VERSION_CONTROL_STATUS:"
)

ASKED: dict[str, str] = {
    # from the sources of each system, in its order and spelling
    "claude-code": "1. Request | 2. | 3. Files | 4. Errors | 5. | 6. All messages | 7. Pending | 8. Current | 9. Next",
    "cline": "## Goal | ## State | ### Done | ### In progress | ### Blocked | ## Highlights | ## Next | ## Files | ### Read | "
    "### Edited",
    "codex@2025": "progress and decisions | constraints | next steps | critical",
    "codex@2026": "progress and decisions | constraints | next steps | critical",
    "complexity-trap-summary": "checkpoint",
    "copilot-inline": "call no tool | asked for | state of each file | comes next",
    "crush": "## Current State | ## Files & Changes | ## Technical Context | ## Strategy | ## Exact Next Steps",
    "deepagents": LANGCHAIN,
    "dexto": "<conversation_history></conversation_history> | <current_task></current_task> | "
    "<important_context></important_context>",
    "frozen-ranked": "every fact | verbatim",
    "gemini-cli": "<scratchpad> | <state_snapshot> | <overall_goal></overall_goal> | <active_constraints></active_constraints> | "
    "<key_knowledge></key_knowledge> | <artifact_trail></artifact_trail> | <file_system_state></file_system_state> | "
    "<recent_actions></recent_actions> | <task_state></task_state> | </state_snapshot>",
    "goose": "## Goal | ## Constraints | ## Progress | ## Decisions | ## Critical Context | ## Next Step",
    "handoff": "brief for a new session | goal | constraints | first thing to do",
    "hermes-lean": "goal | constraints | what failed | index",
    "inspect-summary": "Task Overview | Current State | Important Discoveries | Next Steps | Context to Preserve",
    "kimi": "each constraint | verbatim | comes next",
    "langchain-summary": LANGCHAIN,
    "letta": "300 words | goals | what happened | details | errors | hints",
    "openai-agents": "constraints | results and decisions | identifiers | remains to be done",
    "opencode@v1": "## Objective | ## Important Details | ## Work State | ### Completed | ### Active | ### Blocked | "
    "## Next Move | ## Relevant Files",
    "opencode@v2": "## Objective | ## Requirements | ## Decisions | ## Work State | ### Completed | ### Active | ### Blocked | "
    "## Next Move | ## Relevant Files | ## Additional Context",
    "openhands": OPENHANDS,
    "openhands-v0": OPENHANDS,
    # pi 83378aad: the beginning of a turn is summarized separately
    "pi": "## Goal | ## Constraints & Preferences | ## Progress | ### Done | ### In Progress | ### Blocked | ## Key Decisions | "
    "## Next Steps | ## Critical Context | ## Original Request | ## Early Progress | ## Context for Suffix",
    "pydantic-summary": "Intent | Key decisions | Artifacts | Current state | Next steps | Open questions",
    # nine sections behind an analysis; their names are not told
    "roo-code": "<analysis> | 1. | 2. | 3. | 4. | 5. | 6. | 7. | 8. | 9.",
    "verbatim-lines": "deletion only | RANGES TO DELETE | 12-40",
    "strands-summary": "third person | topics and questions | tools that were used | code and technical information | insights",
}
"""Words that the prompt of each policy must contain."""
OURS = frozenset({"bounds", "keep_last", "none", "paced", "ratio", "reserve", "three_tiers", "window"})
"""Modules of presets that are modelled on no published system."""

STANDS: dict[str, tuple[str, ...]] = {
    # the versions of crush, dexto, goose, opencode, Gemini CLI, Inspect AI and pi in `test_defaults`
    "crush": (r"user: SUMMARY", rf"user: .*interrupted.*initial request was: `{LAST}`"),
    "dexto": (r"assistant: <session_compaction>\nSUMMARY\n</session_compaction>",),
    "gemini-cli": (r"user: SUMMARY", r"assistant: \w.*"),
    "goose": (r"user: SUMMARY\n\n<read-files>\n.*", r"assistant: .*compacted.*"),
    "inspect-summary": (r"user: \[CONTEXT COMPACTION SUMMARY\]\n.*SUMMARY.*",),
    "opencode@v1": (r"user: What did we do so far\?", r"assistant: SUMMARY", r"user: .*next step.*"),
    "pi": (r"user: .*summary:\nSUMMARY\n.*\n---\n.*SUMMARY\n.*",),
}
"""Messages that a compaction adds to the view, in order, each with its role and text."""

OVERFLOW: dict[str, tuple[str, ...]] = {
    "goose": (*STANDS["goose"], f"user: {LAST}"),
    "opencode@v1": (*STANDS["opencode@v1"][:2], f"user: {LAST}"),
}
"""Messages added after a refused prompt where they differ: the user's last message stands at the end."""


def session(turns: int = 12, steps: int = 5) -> list[Message]:
    """Return turns of the user, each followed by work."""
    messages = [system("You are an agent.")]
    for turn in range(1, turns + 1):
        messages.append(user(f"Build part {turn}."))
        for step in range(steps):
            call = ToolCall(call_id=f"c{turn}-{step}", name="read_file", arguments_json=f'{{"path": "{turn}/{step}.py"}}')
            messages += [assistant("I read.", call), tool(ToolResult(call_id=call.call_id, name=call.name, output="x " * 800))]
    return messages


def asked_and_put_in(kind: str, hook: Hook) -> tuple[str, list[str]]:
    """Return the prompts of the summarizer, and the messages of the view that are not part of the conversation."""
    policy, puppet = PRESETS[kind](), FakeModel([assistant("SUMMARY")] * 4)
    view = View()
    for number, message in enumerate(session()):
        view = fold(view, Entry(number, MessageAdded(message=message, step=0)), policy.counter)
    room = SessionCompactor(
        policy=policy, window=Window(tokens=100_000, source="configuration"), summarizer=puppet, outputs=MemoryOutputs()
    )
    event = room.compact(seen(view), None, 1, hook, lambda _: None)
    assert event is not None
    last = view.items[-1].item_id.event + 1
    after = fold(view, Entry(last, event), policy.counter)
    asked = "\n".join(message.text for request in puppet.requests for message in request.messages)
    put_in = [f"{item.message.role}: {item.message.text}" for item in after.items if item.item_id.event == last]
    return asked, put_in


@pytest.mark.parametrize("kind", ASKED)
def test_the_summarizer_is_asked_for_the_sections_of_the_source_in_its_order(kind: str) -> None:
    asked, _ = asked_and_put_in(kind, "manual")
    at = 0
    for title in ASKED[kind].split(" | "):
        match = re.compile(rf"(?<![\w#]){re.escape(title)}(?!\w)").search(asked, at)
        assert match, f"{title!r} is not asked for behind {asked[at - 40 : at]!r}"
        at = match.end()


@pytest.mark.parametrize(
    ("kind", "hook", "stands"),
    [
        *((kind, "manual", texts) for kind, texts in STANDS.items()),
        *((kind, "overflow", texts) for kind, texts in OVERFLOW.items()),
    ],
)
def test_a_summary_has_the_texts_of_its_source_before_and_after_it(kind: str, hook: Hook, stands: tuple[str, ...]) -> None:
    _, put_in = asked_and_put_in(kind, hook)
    assert len(put_in) == len(stands)
    for text, pattern in zip(put_in, stands, strict=True):
        assert re.fullmatch(pattern, text, re.DOTALL), text


def test_every_peer_that_asks_for_a_summary_is_looked_at() -> None:
    peers = {kind: preset for kind, preset in PRESETS.items() if preset.__module__.rpartition(".")[2] not in OURS}
    asking = {kind for kind, preset in peers.items() if inspect_abilities(preset()).can_summarize}
    assert asking == set(ASKED)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("complexity-trap-mask", "the newest 10 results stay"),
        ("complexity-trap-summary", "31 turns without a summary"),
        ("message-window", "at most 100 messages, 1 first and 20 last ones preserved"),
        ("mini-swe-agent", "no compaction"),
        ("none", "no compaction"),
        ("opencode-prune", "more than 20,000 tokens of results beyond 40,000"),
        ("openhands-v0", "at most 120 events"),
        ("paced", "every 20 steps"),
        ("pydantic-window", "more than 80 requests and answers"),
        ("swe-agent", "the newest 5 results stay"),
    ],
)
def test_a_policy_without_a_share_of_the_window_states_its_own_rule(kind: str, rule: str) -> None:
    assert PRESETS[kind]().budget(Window(tokens=100_000, source="configuration")).rule == rule


@pytest.mark.parametrize("kind", ["pi", "reserve-recent"])
def test_a_disabled_policy_states_that_compaction_is_disabled(kind: str) -> None:
    budget = PRESETS[kind](enabled=False).budget(Window(tokens=9_000, source="configuration"))
    assert budget.rule == "compaction is disabled"
