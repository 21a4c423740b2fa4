"""The scripted model: a competent agent that knows its trade but no value, and keeps no memory between calls.

Its answer is a pure function of (visible messages, tool schemas, profile, seed). At each call:

1. Which steps are done? Those whose evidence is visible.
2. A visible failure with a known repair is repaired first.
3. Take the first step that is not done. For each fact it needs: visible -> use the value read from the text; not visible but
   recoverable, and its source known -> make the recovering call; else use the prior and go on.
4. Everything done -> say so and stop.

A step that failed twice within sight and has no repair is left behind, and a recovering call that did not show the fact is
not made again while its receipt is visible.
"""

import hashlib
import itertools
import json
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from string import Template

from harness.errors import ContextOverflow
from harness.events import TextDelta
from harness.messages import Message, ToolCall, assistant
from harness.models.prices import NOMINAL
from harness.models.scripted.profiles import Profile
from harness.models.scripted.reading import Reader, Sight
from harness.models.tokenizer import PromptTokens, message_tokens, text_tokens
from harness.protocols import Reply, Request, ToolSpec, unheard
from harness.task import CallTemplate, Fact, Repair, Script
from harness.tokens import Measured, Usage, Window

GIVE_UP_AFTER = 2
"""Visible failures of a step without a known repair, after which the agent goes on with the next step."""


class ScriptedModel:
    """A model like any other that follows a script by what it can see. Thread-safe."""

    def __init__(
        self, *, name: str, facts: Sequence[Fact], script: Script, profile: Profile, seed: int, window_tokens: int
    ) -> None:
        """Build it from patterns and script, which hold no value.

        Args:
            name: as in a plan, e.g. `scripted/flashcards:attentive`.
            facts: how facts are read out of text.
            script: the steps.
            profile: how well it reads and how fast it is.
            seed: of its own draws; another one than the task's.
            window_tokens: a longer prompt is refused.
        """
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self._facts = {fact.name: fact for fact in facts}
        self._steps, self._farewell = script.steps, script.farewell
        self._profile, self._seed = profile, seed
        self._reader, self._prompt = Reader(facts, script), PromptTokens()
        self._deciding = threading.Lock()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        """See `harness.protocols.Model`."""
        prompt_tokens = self._prompt.count(request.messages) + tool_tokens(request.tools)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        with self._deciding:
            message = self._decide(self._reader.sight(request.messages), request.messages)
        for line in message.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        output_tokens = message_tokens(message)
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=output_tokens)
        seconds = self._profile.seconds(prompt_tokens, output_tokens)
        return Reply(message=message, usage=usage, seconds=seconds, cost_usd=NOMINAL.cost_usd(usage))

    def _decide(self, sight: Sight, messages: tuple[Message, ...]) -> Message:
        for index in sorted(sight.failures):
            repair = self._due_repair(index, sight)
            if repair and index not in sight.done:
                return self._act(repair.says, repair.calls, repair.needs, sight, messages)
        for index in range(sight.first_open, len(self._steps)):
            if index not in sight.done and not self._given_up(index, sight):
                step = self._steps[index]
                return self._act(step.says, step.calls, step.needs, sight, messages)
        return assistant(self._fill(self._farewell, self._values(self._facts, sight)))

    def _due_repair(self, index: int, sight: Sight) -> Repair | None:
        """The known repair of a step's newest failure, unless all its calls were made since."""
        failure = sight.failures[index]
        for repair in self._steps[index].repairs:
            if re.search(repair.error, failure.output, re.MULTILINE):
                values = self._values(repair.needs, sight)
                keys = [_key(call, values) for call in repair.calls]
                if any(sight.well.get(key, 0) < failure.at for key in keys):
                    return repair
        return None

    def _given_up(self, index: int, sight: Sight) -> bool:
        failure = sight.failures.get(index)
        if failure is None or failure.times < GIVE_UP_AFTER:
            return False
        return not any(re.search(repair.error, failure.output, re.MULTILINE) for repair in self._steps[index].repairs)

    def _act(
        self, says: str, calls: Sequence[CallTemplate], needs: Sequence[str], sight: Sight, messages: tuple[Message, ...]
    ) -> Message:
        for name in needs:
            if name not in sight.facts and (recover := self._recovery(self._facts[name], sight)):
                text = f"I need the {name.replace('_', ' ')} for this and no longer have it in view; looking it up."
                return self._message(text, [recover], {}, sight, messages)
        return self._message(says, calls, self._values(needs, sight), sight, messages)

    @staticmethod
    def _recovery(fact: Fact, sight: Sight) -> CallTemplate | None:
        """The next call that may bring a fact back into view, its source looked for first; None when there is none left."""
        wanted = []
        if fact.recover and fact.source and fact.source not in sight.listed:
            folder = fact.source.rpartition("/")[0] or "."
            wanted.append(CallTemplate(tool="list_directory", arguments=(("path", folder),)))
        if fact.recover and (not fact.source or fact.source in sight.listed):
            wanted.append(fact.recover)
        return next((call for call in wanted if _key(call, {}) not in sight.tried), None)

    def _values(self, needs: Sequence[str] | Mapping[str, object], sight: Sight) -> dict[str, str]:
        return {name: sight.facts.get(name, self._facts[name].prior) for name in needs}

    def _message(
        self,
        says: str,
        calls: Sequence[CallTemplate],
        values: Mapping[str, str],
        sight: Sight,
        messages: tuple[Message, ...],
    ) -> Message:
        draw = random.Random(f"{self._seed}/{says}")
        opening = draw.choice(self._profile.openings)
        made: list[ToolCall] = []
        taken = set(sight.call_ids)
        for call in calls:
            written = {name: self._fill(text, values) for name, text in call.arguments}
            call_id = _fresh_id(len(messages), call.tool, taken)
            taken.add(call_id)
            made.append(ToolCall(call_id=call_id, name=call.tool, arguments_json=json.dumps(written)))
        return assistant(opening + self._fill(says, values), *made)

    @staticmethod
    def _fill(text: str, values: Mapping[str, str]) -> str:
        return Template(text).substitute(values)


def _key(call: CallTemplate, values: Mapping[str, str]) -> tuple[str, str]:
    """The (tool, key argument) of the receipt that a call from this template leaves."""
    text = next((value for _, value in call.arguments), "")
    return call.tool, " ".join(Template(text).substitute(values).split())[:200]


def _fresh_id(position: int, tool: str, taken: set[str]) -> str:
    """A call id that no visible call has; a function of what is visible."""
    ids = (f"call_{hashlib.sha256(f'{tool}/{number}'.encode()).hexdigest()[:12]}" for number in itertools.count(position))
    return next(call_id for call_id in ids if call_id not in taken)


def tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Tokens that tool schemas take of a prompt."""
    return sum(text_tokens(spec.name) + text_tokens(spec.description) + text_tokens(spec.parameters_json) for spec in tools)
