"""Small session for tests of presets: a request, followed by steps of one call and its result."""

from harness.conversation.events import Compaction, Entry, Hook, MessageAdded
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Window
from harness.conversation.view import View, fold
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import seen


def session(steps: int, output: str = "x" * 400) -> tuple[Message, ...]:
    """Return the messages of the session: 0 is the system message, 1 the request, 2 and 3 the first call and its result."""
    messages = [system("Be good."), user("Build it.")]
    for step in range(steps):
        call = ToolCall(call_id=f"c{step}", name="read_file", arguments_json=f'{{"path": "f{step}.py"}}')
        messages += [assistant(f"step {step}", call), tool(ToolResult(call_id=call.call_id, name=call.name, output=output))]
    return tuple(messages)


def compacted(
    policy: Policy, messages: tuple[Message, ...], window_tokens: int, hook: Hook = "step"
) -> tuple[list[str], Compaction]:
    """Return view and event after a compaction; a message is given by its number, with `~` if edited, a summary as `S`."""
    view = View()
    for number, message in enumerate(messages):
        view = fold(view, Entry(number + 1, MessageAdded(message=message, step=0)), policy.counter)
    window = Window(tokens=window_tokens, source="configuration")
    room = SessionCompactor(policy=policy, window=window, summarizer=FakeModel([assistant("so far so good")]))
    event = room.compact(seen(view), None, 1, hook, lambda _: None)
    assert event is not None, "nothing was due"
    after = fold(view, Entry(len(messages) + 1, event), policy.counter)
    numbers = [(item.item_id.event - 1, item.message) for item in after.items]
    return ["S" if at == len(messages) else f"{at}{'' if message == messages[at] else '~'}" for at, message in numbers], event


def due(policy: Policy, messages: tuple[Message, ...], window_tokens: int) -> bool:
    """Return whether the policy would act before the next step."""
    view = View()
    for number, message in enumerate(messages):
        view = fold(view, Entry(number + 1, MessageAdded(message=message, step=0)), policy.counter)
    return policy.plan(view, policy.budget(Window(tokens=window_tokens, source="configuration")), None) is not None
