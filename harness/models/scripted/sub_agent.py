"""The scripted sub-agent: a model that answers questions about facts (values of a task) by looking them up in the workspace.

A question asks for a fact if it contains the name of the fact, such as `deploy port` or `deploy_port`. The model makes tool calls
that may show the facts, one at a time, until it sees all facts or no call is left. It then quotes, word for word, the lines in
which it has read the facts, so that the agent recognizes the values in the answer.

The model knows only values that it has read. Its answer is a pure function of visible messages, profile and seed.
"""

import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Window
from harness.errors import ContextOverflow
from harness.models.scripted.agent import build_arguments_json, build_reply, count_tool_tokens, find_next_look_up, make_call_id
from harness.models.scripted.profiles import Profile
from harness.models.scripted.visible_state import ConversationReader, VisibleState, extract_searchable_text
from harness.models.tokenizer import IncrementalTokenCounter
from harness.protocols import Reply, Request, ignore
from harness.task import Fact, Script

NO_SCRIPT = Script(steps=(), final_text="")
"""Empty script of a sub-agent, which follows no steps and only answers a question."""
UNKNOWN_ANSWER = "I do not know where to look for that."
"""Answer to a question that names no fact of the task."""
MAX_LINE_CHARACTERS = 500
"""Maximum number of characters that the model quotes from a line; of a longer line, it quotes the part with the fact."""


class ScriptedSubAgent:
    """Model that looks up the facts named in a question, and quotes the lines with their values. Thread-safe."""

    def __init__(self, *, name: str, facts: Sequence[Fact], profile: Profile, seed: int, window_tokens: int) -> None:
        """Create the model from text patterns and look-up calls, which do not contain the values of the facts.

        Args:
            name: Name of the model as in a plan, e.g. `scripted/flashcards:attentive`.
            facts: Facts of the task, which questions may name.
            profile: Reading ability and speed of the model.
            seed: Seed of the draws that decide which facts the model overlooks.
            window_tokens: Context window in tokens; the model refuses a longer prompt.
        """
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self._facts, self._profile, self._seed = tuple(map(_make_look_up, facts)), profile, seed
        self._reader, self._prompt_counter = ConversationReader(facts, NO_SCRIPT, profile.reader), IncrementalTokenCounter()
        self._lock = threading.Lock()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request with a tool call that looks up a fact, or with the lines in which facts were found."""
        prompt_tokens = self._prompt_counter.count(request.messages) + count_tool_tokens(request.tools)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        with self._lock:
            message = self._decide(request.messages, prompt_tokens)
        for line in message.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        return build_reply(message, prompt_tokens, self._profile)

    def _decide(self, messages: Sequence[Message], prompt_tokens: int) -> Message:
        visible = self._reader.read(messages)
        facts = list(self._iter_asked_facts(messages))
        missed_facts = [fact for fact in facts if self._is_missed(fact, visible, prompt_tokens)]
        for fact in missed_facts:
            if call := find_next_look_up(fact, visible):
                arguments_json, call_id = build_arguments_json(call), make_call_id(len(messages), call.tool, visible.call_ids)
                return assistant(
                    f"I look for the {_spell(fact)}.", ToolCall(call_id=call_id, name=call.tool, arguments_json=arguments_json)
                )
        fact_lines = [_find_line(messages, visible.fact_offsets[fact.name]) for fact in facts if fact not in missed_facts]
        lines = (*dict.fromkeys(fact_lines), *(f"I did not find the {_spell(fact)}." for fact in missed_facts))
        return assistant("\n".join(lines) or UNKNOWN_ANSWER)

    def _iter_asked_facts(self, messages: Sequence[Message]) -> Iterator[Fact]:
        text = "\n".join(message.text for message in messages if message.role == "user")
        for fact in self._facts:
            words = map(re.escape, re.split(r"[_\s-]+", fact.name))
            if re.search(rf"\b{'[ _-]'.join(words)}\b", text, re.IGNORECASE):
                yield fact

    def _is_missed(self, fact: Fact, visible: VisibleState, prompt_tokens: int) -> bool:
        """Return whether a fact is not visible or is overlooked."""
        offset = visible.fact_offsets.get(fact.name)
        if offset is None:
            return True
        chance = self._profile.compute_overlook_probability(prompt_tokens, offset / visible.characters)
        return random.Random(f"{self._seed}/explore/{fact.name}").random() < chance


def _make_look_up(fact: Fact) -> Fact:
    """Return a fact with the call by which a helper finds the value, if that is another one than the agent's own."""
    return fact if fact.delegated is None else replace(fact, recover=fact.delegated, source="")


def _spell(fact: Fact) -> str:
    return fact.name.replace("_", " ")


def _find_line(messages: Sequence[Message], offset: int) -> str:
    """Return the line at a character offset of the whole conversation; empty beyond its end."""
    for message in messages:
        text = extract_searchable_text(message)
        if offset < len(text):
            start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
            line = text[start : end if end >= 0 else len(text)]
            return line if len(line) <= MAX_LINE_CHARACTERS else text[offset : offset + MAX_LINE_CHARACTERS].partition("\n")[0]
        offset -= len(text)
    return ""
