"""The scripted model: a competent agent that knows its trade but no value, and keeps no memory between calls.

Its answer is a pure function of (visible messages, tool schemas, profile, seed). At each call:

1. Which steps are done? Those whose evidence is visible.
2. A visible failure with a known repair is repaired first.
3. Take the first step that is not done. For each fact it needs: visible -> use the value read from the text; not visible but
   recoverable, and its source known -> make the recovering call; else use the prior and go on. A visible fact may be
   overlooked, by the draw of (seed, step, fact) and the profile, as if it were not visible: it is then looked up again if it
   can be. What came in since the model last did anything but look facts up is never overlooked.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Template
from typing import NamedTuple

from harness.errors import ContextOverflow
from harness.events import TextDelta
from harness.messages import Message, ToolCall, assistant
from harness.models.prices import NOMINAL
from harness.models.scripted.patterns import call_key, look_ups
from harness.models.scripted.profiles import Profile
from harness.models.scripted.visible_state import Reader, Sight
from harness.models.tokenizer import PromptTokens, message_tokens, text_tokens
from harness.protocols import Reply, Request, ToolSpec, unheard
from harness.task import CallTemplate, Fact, Repair, Script, Step
from harness.tokens import Measured, Usage, Window

GIVE_UP_AFTER = 2
"""Visible failures of a step without a known repair, after which the agent goes on with the next step."""


class _Now(NamedTuple):
    """All that one answer rests on."""

    sight: Sight
    messages: int
    prompt_tokens: int


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
            message = self._decide(_Now(self._reader.sight(request.messages), len(request.messages), prompt_tokens))
        for line in message.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        output_tokens = message_tokens(message)
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=output_tokens)
        seconds = self._profile.seconds(prompt_tokens, output_tokens)
        return Reply(message=message, usage=usage, seconds=seconds, cost_usd=NOMINAL.cost_usd(usage))

    def _decide(self, now: _Now) -> Message:
        sight = now.sight
        for index in sorted(sight.failures):
            repair = self._due_repair(index, now)
            if repair and index not in sight.done:
                return self._act(self._steps[index].name, repair, now)
        for index in range(sight.first_open, len(self._steps)):
            if index not in sight.done and not self._given_up(index, sight):
                return self._act(self._steps[index].name, self._steps[index], now)
        return assistant(self._fill(self._farewell, self._values(self._facts, sight.facts)))

    def _due_repair(self, index: int, now: _Now) -> Repair | None:
        """The known repair of a step's newest failure, unless all its calls were made since."""
        step, failure = self._steps[index], now.sight.failures[index]
        for repair in step.repairs:
            if re.search(repair.error, failure.output, re.MULTILINE):
                values = self._values(repair.needs, self._known(step.name, repair.needs, now))
                keys = [call_key(call, values) for call in repair.calls]
                if any(now.sight.well.get(key, 0) < failure.at for key in keys):
                    return repair
        return None

    def _given_up(self, index: int, sight: Sight) -> bool:
        failure = sight.failures.get(index)
        if failure is None or failure.times < GIVE_UP_AFTER:
            return False
        return not any(re.search(repair.error, failure.output, re.MULTILINE) for repair in self._steps[index].repairs)

    def _act(self, step: str, act: Step | Repair, now: _Now) -> Message:
        """What a step or its repair says and does, or a look-up of a fact that it needs."""
        known = self._known(step, act.needs, now)
        for name in act.needs:
            if name not in known and (look := self._look_up(self._facts[name], now.sight)):
                text = f"I need the {name.replace('_', ' ')} for this and no longer have it in view; looking it up."
                return self._message(text, [look], {}, now)
        return self._message(act.says, act.calls, self._values(act.needs, known), now)

    @staticmethod
    def _look_up(fact: Fact, sight: Sight) -> CallTemplate | None:
        """The next call that may bring a fact back into view, its source looked for first; None when there is none left.

        Each is made once in a row of look-ups: an answer that does not show the fact may have been overlooked, or its text
        may have gone since from a view that still holds the call.
        """
        calls = list(look_ups(fact))
        if fact.source:
            calls = calls[-1:] if fact.source in sight.listed else calls[:1]
        return next((call for call in calls if call_key(call) not in sight.looked_up), None)

    def _values(self, needs: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
        return {name: known.get(name, self._facts[name].prior) for name in needs}

    def _known(self, step: str, needs: Sequence[str], now: _Now) -> dict[str, str]:
        """The facts that are visible and not overlooked."""
        return {name: now.sight.facts[name] for name in needs if not self._misses(step, name, now)}

    def _misses(self, step: str, name: str, now: _Now) -> bool:
        """Whether a fact is not visible, or overlooked."""
        place = now.sight.places.get(name)
        if place is None:
            return True
        if not self._profile.overlooks or place >= now.sight.fresh_from:
            return False
        chance = self._profile.chance_to_overlook(now.prompt_tokens, place / now.sight.characters)
        return random.Random(f"{self._seed}/{step}/{name}").random() < chance

    def _message(self, says: str, calls: Sequence[CallTemplate], values: Mapping[str, str], now: _Now) -> Message:
        draw = random.Random(f"{self._seed}/{says}")
        opening = draw.choice(self._profile.openings)
        made: list[ToolCall] = []
        taken = set(now.sight.call_ids)
        for call in calls:
            written = {name: self._fill(text, values) for name, text in call.arguments}
            call_id = _fresh_id(now.messages, call.tool, taken)
            taken.add(call_id)
            made.append(ToolCall(call_id=call_id, name=call.tool, arguments_json=json.dumps(written)))
        return assistant(opening + self._fill(says, values), *made)

    @staticmethod
    def _fill(text: str, values: Mapping[str, str]) -> str:
        return Template(text).substitute(values)


def _fresh_id(position: int, tool: str, taken: set[str]) -> str:
    """A call id that no visible call has; a function of what is visible."""
    ids = (f"call_{hashlib.sha256(f'{tool}/{number}'.encode()).hexdigest()[:12]}" for number in itertools.count(position))
    return next(call_id for call_id in ids if call_id not in taken)


def tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Tokens that tool schemas take of a prompt."""
    return sum(text_tokens(spec.name) + text_tokens(spec.description) + text_tokens(spec.parameters_json) for spec in tools)
