"""Small conversations, and the application of a policy to them."""

import json
from dataclasses import replace

from harness.conversation.events import Compaction, Entry, Event, Hook, MessageAdded, TransientEvent
from harness.conversation.messages import Message, Part, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.view import View, fold, fold_all
from harness.errors import ModelError
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel


def window(tokens: int) -> Window:
    return Window(tokens=tokens, source="configuration")


def report(prompt: int, output: int = 0, *, read: int = 0, written: int = 0) -> Usage:
    """Return a usage report; `prompt` counts the tokens that no cache holds."""
    return Usage(
        input_tokens=Measured(prompt),
        output_tokens=Measured(output),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )


def step(number: int, output: str = "done", *, name: str = "execute_command", key: str = "make", says: str = "") -> list[Message]:
    """Return an answer with one call, and its result."""
    field = "path" if name.endswith("_file") else "command"
    call = ToolCall(call_id=f"c{number}", name=name, arguments_json=f'{{"{field}": "{key}"}}')
    return [assistant(says, call), tool(ToolResult(call_id=f"c{number}", name=name, output=output))]


def view_of(*messages: Message, policy: Policy) -> View:
    """Return the view of a system message followed by some messages, logged as events 1, 2, ...; a request contained all."""
    entries = (Entry(seq, MessageAdded(message=one, step=1)) for seq, one in enumerate((system("be good"), *messages), 1))
    return seen(fold_all(entries, policy.counter))


def seen(view: View) -> View:
    """Return the view as it is once a finished request has contained every message."""
    return replace(view, pending=())


def user_of_size(tokens: int, text: str = "x") -> Message:
    """Return a user message of a number of tokens, counted as characters / 4."""
    return user((text * (4 * tokens))[: 4 * tokens])


class Room:
    """Compactor with one policy and a summarizer with scripted answers."""

    def __init__(self, policy: Policy, window_tokens: int, *answers: str | ModelError) -> None:
        self.policy = policy
        self.summarizer = FakeModel([assistant(answer) if isinstance(answer, str) else answer for answer in answers])
        self.outputs = MemoryOutputs()
        self.compactor = SessionCompactor(
            policy=policy, window=window(window_tokens), summarizer=self.summarizer, outputs=self.outputs
        )
        self.transient_events: list[TransientEvent] = []

    def ask(self, view: View, usage: Usage | None = None, hook: Hook = "step") -> Compaction | None:
        return self.compactor.compact(view, usage, 9, hook, self.transient_events.append)

    def prompts(self) -> list[str]:
        """Prompts of the summarizer, in order."""
        return ["\n".join(message.text for message in request.messages) for request in self.summarizer.requests]

    def after(self, view: View, event: Compaction | None, seq: int = 1_000) -> View:
        assert event is not None
        return fold(view, Entry(seq, event), self.policy.counter)


def grown(view: View, policy: Policy, *messages: Message, seq: int = 2_000) -> View:
    """Return the view with more messages appended, which a request contained."""
    for offset, message in enumerate(messages):
        view = fold(view, Entry(seq + offset, MessageAdded(message=message, step=2)), policy.counter)
    return seen(view)


def numbers(view: View) -> list[int]:
    """Return the numbers of the events that the items of a view came from."""
    return [item.item_id.event for item in view.items]


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(call_id="c", name=name, arguments_json=json.dumps(arguments))


def lengthened(log: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the log with tool results forty times as long."""

    def part(one: Part) -> Part:
        return replace(one, output=one.output * 40) if isinstance(one, ToolResult) else one

    def event(one: Event) -> Event:
        if not isinstance(one, MessageAdded):
            return one
        return replace(one, message=replace(one.message, parts=tuple(map(part, one.message.parts))))

    return tuple(Entry(seq, event(one)) for seq, one in log)


def work(first: int, count: int, size: int = 384) -> list[Message]:
    """Return steps with a call of 9 tokens and, by default, a result of 96 tokens."""
    return [message for number in range(first, first + count) for message in step(number, "o" * size)]


def planned(policy: Policy, view: View, size: int, usage: Usage, hook: str = "step") -> CompactionPlan | None:
    return policy.plan(view, policy.budget(window(size)), usage, hook)  # type: ignore[arg-type]
