"""Sessions that tests build message by message."""

import json

from hypothesis import strategies as st

from harness.conversation.events import Compaction, Entry, Insert, ItemId, MessageAdded, Patch, Replace, SessionStarted
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated, QuarterOfCharacters
from harness.conversation.view import fold_all

COUNTER = QuarterOfCharacters()


class Session:
    """Session that grows with each method call; `entries` is its log."""

    def __init__(self, threshold_tokens=1000, task="Do it."):
        self.entries, self.step, self.rounds = [], 0, 0
        self.add(
            SessionStarted(
                session_id="s", task=task, model="m", policy_json="{}", window_tokens=2000, threshold_tokens=threshold_tokens,
                budget_rule="", sandbox="memory",
            )
        )  # fmt: skip
        self.add(MessageAdded(message=system("Be good."), step=0))
        self.say(task)

    def add(self, event):
        self.entries.append(Entry(len(self.entries) + 1, event))
        return len(self.entries)

    def say(self, text):
        return self.add(MessageAdded(message=user(text), step=self.step))

    def reply(self, text):
        self.step += 1
        return self.add(MessageAdded(message=assistant(text), step=self.step))

    def call(self, name, output="ok", status="completed", **arguments):
        """Add a step with one call, and return the number of the event with its result."""
        return self.calls((name, arguments, output, status))

    def calls(self, *given):
        self.step += 1
        calls = [
            ToolCall(call_id=f"c{self.step}.{place}", name=name, arguments_json=json.dumps(arguments))
            for place, (name, arguments, _, _) in enumerate(given)
        ]
        self.add(MessageAdded(message=assistant("Go on.", *calls), step=self.step))
        results = [
            ToolResult(call_id=call.call_id, name=call.name, output=output, status=status)
            for call, (_, _, output, status) in zip(calls, given, strict=True)
        ]
        return [self.add(MessageAdded(message=tool(result), step=self.step)) for result in results][-1]

    def read(self, path, output="text"):
        return self.call("read_file", output, path=path)

    def write(self, path, content):
        return self.call("write_file", f"wrote {len(content)} bytes to {path}", path=path, content=content)

    def run(self, command, output="exit code 0", status="completed"):
        return self.call("execute_command", output, status, command=command)

    def compact(self, *forget, summary="So far so good.", replace=(), tokens_after=100, status="applied", summarizer=""):
        """Add a compaction before the next step that evicts the messages of the given events."""
        insert = (Insert(message=assistant(summary), after=ItemId(2)),) if summary else ()
        changes = tuple(Replace(item=ItemId(number), message=assistant("(gone)")) for number in replace)
        patch = Patch(forget=tuple(map(ItemId, forget)), insert=insert, replace=changes)
        return self.patch(patch, tokens_after=tokens_after, status=status, summarizer=summarizer)

    def patch(self, patch, tokens_after=100, status="applied", summarizer=""):
        """Add a compaction before the next step with the changes of a patch."""
        self.rounds += status == "applied"
        return self.add(
            Compaction(
                round=self.rounds, step=self.step + 1, moment="step", status=status, reason="full", patch=patch,
                tokens_before=Estimated(1000), tokens_after=Estimated(tokens_after), messages_before=9, messages_after=3,
                summarizer=summarizer,
            )
        )  # fmt: skip


_PATHS = st.sampled_from(["a", "./a", "d/b", "d"])
_OUTPUTS = st.sampled_from(["1", "2"])
_RESULTS = st.sampled_from(["exit code 0\n1", "exit code 0\n2", "exit code 1\n1"])
_COMMANDS = st.sampled_from(["cat a", "cat d/b", "ls", "ls d/b", "make", "sh fix.sh", "rm -r ./d/b", "touch x/y"])
_CALLS = st.one_of(
    st.tuples(st.just("read"), _PATHS, _OUTPUTS),
    st.tuples(st.just("write"), _PATHS, _OUTPUTS),
    st.tuples(st.just("run"), _COMMANDS, _RESULTS),
)
_COMPACTIONS = st.tuples(st.just("compact"), st.sampled_from(["all", "odd", "even", "old"]), st.sampled_from([100, 950]))
_WORDS = st.sampled_from([("say", "Go on.", None), ("reply", "Hm.", None)])


@st.composite
def sessions(draw):
    """Generate sessions that repeat a few different actions."""
    pool = [*draw(st.lists(_CALLS, min_size=1, max_size=4)), draw(_COMPACTIONS), *draw(st.lists(_WORDS, max_size=1))]
    session = Session()
    for deed, about, more in draw(st.lists(st.sampled_from(pool), max_size=25)):
        if deed == "compact":
            old = list(range(4, len(session.entries) + 1))
            gone = {"all": old, "odd": old[::2], "even": old[1::2], "old": old[:-4]}[about]
            session.compact(*gone[::2], replace=gone[1::2], tokens_after=more)
        elif more is None:
            getattr(session, deed)(about)
        else:
            getattr(session, deed)(about, more)
    return session


@st.composite
def edited_sessions(draw, texts):
    """Generate sessions whose messages, replacements and summaries have texts of a strategy, so that many texts occur again."""
    session = Session()
    for deed in draw(st.lists(st.sampled_from(["say", "reply", "edit"]), min_size=6, max_size=20)):
        if deed == "edit":
            items = [item.item_id for item in fold_all(session.entries, COUNTER).items[1:]]
            few = draw(st.sets(st.sampled_from(items), max_size=3)) if items else set()
            is_large = draw(st.booleans())
            changed = [item for item in items if (item in few) != is_large]
            count = draw(st.integers(0, len(changed)))
            changes = tuple(Replace(item=item, message=assistant(draw(texts))) for item in changed[count:])
            insert = tuple(Insert(message=user(text), after=ItemId(2)) for text in draw(st.lists(texts, max_size=1)))
            session.patch(Patch(forget=tuple(changed[:count]), insert=insert, replace=changes))
        else:
            getattr(session, deed)(draw(texts))
    return session
