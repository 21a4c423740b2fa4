"""The scripted agent: a model that knows the steps of a task but reads all values from the messages of each request.

Its answer is a pure function of visible messages, tool schemas, profile and seed. At each call:

1. The furthest step that visible tool results show as done is the frontier. All steps before it count as done, unless a tool
   result shows that one is missing or has failed. A later step counts as done if the messages show it, e.g. by a line of a
   summary. The text of a summary never moves the frontier, since "next, I write cli.py" does not mean that cli.py is written.
2. If no frontier is visible, the agent makes the status calls of the script together, unless they are visible.
3. If a tool call of a step has visibly failed and the script contains a repair for this error, the repair comes first.
4. Otherwise the agent takes the first step that is not done. For each fact that the step requires, it uses the value that the
   messages show. If they show none, it first makes a tool call that may show the fact. If there is no such call left, it uses a
   default guess (the prior).
5. When all steps are done, the model says so and stops.

With a profile that takes notes, the agent first reads its notes, unless it sees that it has, and then notes each fact that it
sees.

The model may overlook a visible fact, and then looks it up again if possible. The profile decides how probable this is; the
random draw depends only on seed, step and fact. Text after the last tool call that was not a look-up is never overlooked.

A step with two visible failures and no repair is skipped. A look-up that did not show the fact is not repeated while its call
is visible.
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

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow
from harness.models.prices import NOMINAL_PRICE
from harness.models.scripted.notes import build_append_call, find_unnoted_lines
from harness.models.scripted.patterns import NO_VALUES, READ_NOTES, build_call_key, compile_fact_patterns, list_look_ups
from harness.models.scripted.profiles import Profile
from harness.models.scripted.visible_state import LOOK_UP_TEXT, ConversationReader, VisibleState
from harness.models.tokenizer import IncrementalTokenCounter, count_message_tokens, count_text_tokens
from harness.protocols import Reply, Request, ToolSpec, ignore
from harness.task import CallTemplate, Fact, Repair, Script, Step

MAX_VISIBLE_FAILURES = 2
"""Number of visible failures after which the agent gives up a step without a known repair, and goes on with the next step."""

STATUS_TEXT = "Let me see how far the work is."
"""Text of the agent's message that makes the status calls of the script."""
NOTES_TEXT = "My notes first."
"""Text of the agent's message that reads or extends its notes."""


class _CallContext(NamedTuple):
    """Data from which the scripted agent computes one answer."""

    visible: VisibleState
    message_count: int
    prompt_tokens: int
    notes_call: CallTemplate | None
    """Call that reads or extends the agent's notes, if one is due."""


class ScriptedModel:
    """Model that works through the steps of a task's script and knows only what the messages show. Thread-safe."""

    def __init__(
        self, *, name: str, facts: Sequence[Fact], script: Script, profile: Profile, seed: int, window_tokens: int
    ) -> None:
        """Create the model from text patterns and a script, which do not contain the values of the facts.

        Args:
            name: Name of the model as in a plan, e.g. `scripted/flashcards:attentive`.
            facts: Facts of the task, with patterns that find their values in a text.
            script: Steps of the task that the model carries out.
            profile: Reading ability and speed of the model.
            seed: Seed of the model's own random draws, independent of the task's seed.
            window_tokens: Context window in tokens; the model refuses a longer prompt.
        """
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self._facts = {fact.name: fact for fact in facts}
        self._steps, self._farewell, self._status_calls = script.steps, script.final_text, script.status_calls
        self._profile, self._seed = profile, seed
        self._reader, self._prompt_counter = ConversationReader(facts, script, profile.reader), IncrementalTokenCounter()
        self._patterns = compile_fact_patterns(tuple(facts))
        self._lock = threading.Lock()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request with the next step of the script, a repair, a look-up of a fact, or a final text."""
        prompt_tokens = self._prompt_counter.count(request.messages) + count_tool_tokens(request.tools)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        with self._lock:
            visible = self._reader.read(request.messages)
            notes_call = self._find_due_notes_call(request.messages, visible) if self._profile.notes else None
            message = self._decide(_CallContext(visible, len(request.messages), prompt_tokens, notes_call))
        for line in message.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        return build_reply(message, prompt_tokens, self._profile)

    def _find_due_notes_call(self, messages: Sequence[Message], visible: VisibleState) -> CallTemplate | None:
        """Return the call that reads the notes if no such call is visible, else the call that notes new facts, if any."""
        if build_call_key(READ_NOTES) not in visible.call_keys:
            return READ_NOTES
        lines = find_unnoted_lines(messages, visible, self._patterns)
        return build_append_call(lines) if lines else None

    def _decide(self, context: _CallContext) -> Message:
        visible = context.visible
        if context.notes_call is not None:
            return self._build_message(NOTES_TEXT, [context.notes_call], {}, context)
        for index in sorted(visible.failures):
            repair = self._find_due_repair(index, context)
            if repair and index not in visible.done_steps:
                return self._act(self._steps[index].name, repair, context)
        if visible.frontier < 0 and (calls := self._list_due_status_calls(context)):
            return self._build_message(STATUS_TEXT, calls, visible.facts, context)
        for index in visible.list_open_steps(self._steps):
            if not self._is_given_up(index, visible):
                return self._act(self._steps[index].name, self._steps[index], context)
        return assistant(Template(self._farewell).substitute(self._choose_values(self._facts, visible.facts)))

    def _list_due_status_calls(self, context: _CallContext) -> list[CallTemplate]:
        """Return the status calls that are not visible; a call whose facts are forgotten is left out."""
        known = context.visible.facts
        possible = [
            call
            for call in self._status_calls
            if {name for _, text in call.arguments for name in Template(text).get_identifiers()} <= known.keys()
        ]
        return [call for call in possible if build_call_key(call, known) not in context.visible.call_keys]

    def _find_due_repair(self, index: int, context: _CallContext) -> Repair | None:
        """Return the repair for the newest failure of a step; None if the script has none or it was already made."""
        step, failure = self._steps[index], context.visible.failures[index]
        for repair in step.repairs:
            if re.search(repair.error_pattern, failure.output, re.MULTILINE):
                fact_values = self._select_known_facts(step.name, repair.required_facts, context)
                values = self._choose_values(repair.required_facts, fact_values)
                keys = [build_call_key(call, values) for call in repair.calls]
                if any(context.visible.success_positions.get(key, 0) < failure.position for key in keys):
                    return repair
        return None

    def _is_given_up(self, index: int, visible: VisibleState) -> bool:
        failure = visible.failures.get(index)
        if failure is None or failure.visible_count < MAX_VISIBLE_FAILURES:
            return False
        return not any(re.search(repair.error_pattern, failure.output, re.MULTILINE) for repair in self._steps[index].repairs)

    def _act(self, step: str, act: Step | Repair, context: _CallContext) -> Message:
        """Return the message that carries out a step or repair, or that first looks up a missing fact."""
        values = self._select_known_facts(step, act.required_facts, context)
        for name in act.required_facts:
            if name not in values and (look := self._find_next_look_up(name, context.visible)):
                text = LOOK_UP_TEXT.format(name.replace("_", " "))
                return self._build_message(text, [look], {}, context)
        return self._build_message(act.text, act.calls, self._choose_values(act.required_facts, values), context)

    def _find_next_look_up(self, name: str, visible: VisibleState) -> CallTemplate | None:
        if self._profile.notes and build_call_key(READ_NOTES) not in visible.look_up_keys:
            return READ_NOTES
        return find_next_look_up(self._facts[name], visible)

    def _choose_values(self, needs: Iterable[str], visible_values: Mapping[str, str]) -> dict[str, str]:
        return {name: visible_values.get(name, self._facts[name].prior) for name in needs}

    def _select_known_facts(self, step: str, needs: Sequence[str], context: _CallContext) -> dict[str, str]:
        return {name: context.visible.facts[name] for name in needs if not self._is_missed(step, name, context)}

    def _is_missed(self, step: str, name: str, context: _CallContext) -> bool:
        """Return whether a fact is not visible or is overlooked."""
        place = context.visible.fact_offsets.get(name)
        if place is None:
            return True
        if not self._profile.overlook_probability or place >= context.visible.fresh_offset:
            return False
        chance = self._profile.compute_overlook_probability(context.prompt_tokens, place / context.visible.characters)
        return random.Random(f"{self._seed}/{step}/{name}").random() < chance

    def _build_message(
        self, says: str, calls: Sequence[CallTemplate], values: Mapping[str, str], context: _CallContext
    ) -> Message:
        opening = random.Random(f"{self._seed}/{says}").choice(self._profile.openings)
        tool_calls: list[ToolCall] = []
        used_ids = set(context.visible.call_ids)
        for call in calls:
            call_id = make_call_id(context.message_count, call.tool, used_ids)
            used_ids.add(call_id)
            tool_calls.append(ToolCall(call_id=call_id, name=call.tool, arguments_json=build_arguments_json(call, values)))
        return assistant(opening + Template(says).substitute(values), *tool_calls)


def find_next_look_up(fact: Fact, visible: VisibleState) -> CallTemplate | None:
    """Return the next tool call that may show a fact again; None if no call is left.

    The first call lists the folder of the file that contains the fact, and the second call reads the file. No call is made twice
    in a series of look-ups, even if the agent does not see the fact after it: the agent may have overlooked the fact in the
    result, or the result may have been removed.
    """
    calls = list(list_look_ups(fact))
    if fact.source:
        calls = calls[-1:] if fact.source in visible.listed_paths else calls[:1]
    return next((call for call in calls if build_call_key(call) not in visible.look_up_keys), None)


def build_arguments_json(call: CallTemplate, values: Mapping[str, str] = NO_VALUES) -> str:
    """Return the arguments of a scripted tool call as JSON, with values of facts in place of placeholders."""
    return json.dumps({name: Template(text).substitute(values) for name, text in call.arguments})


def make_call_id(position: int, tool: str, used_ids: set[str]) -> str:
    """Return an id for a tool call that no visible call has; the id depends only on visible messages."""
    ids = (f"call_{hashlib.sha256(f'{tool}/{number}'.encode()).hexdigest()[:12]}" for number in itertools.count(position))
    return next(call_id for call_id in ids if call_id not in used_ids)


def build_reply(message: Message, prompt_tokens: int, profile: Profile) -> Reply:
    """Return the reply of a scripted model with the given message. Its duration and cost are simulated."""
    usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=count_message_tokens(message))
    seconds = profile.compute_seconds(prompt_tokens, usage.output_tokens)
    return Reply(message=message, usage=usage, seconds=seconds, cost_usd=NOMINAL_PRICE.compute_cost_usd(usage))


def count_tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return the number of prompt tokens that the descriptions of the tools take."""
    return sum(count_text_tokens(text) for spec in tools for text in (spec.name, spec.description, spec.parameters_json))
