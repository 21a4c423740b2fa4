"""Importer of sessions recorded by OpenCode, either exported (`opencode export`) or in the folders of its storage.

Properties of the format:

- A message has `info` and `parts`. An assistant message of early versions has several model calls, each between `step-start` and
  `step-finish`.
- A tool part holds the call and its result. A result with `time.compacted` was cleared from the context at that time.
- A compaction is a user message with a part `compaction`, followed by an answer with the flag `summary`. Messages from
  `tail_start_id` on stay in the context.
- Tokens apart from the cache (`input`), cache tokens, output without reasoning and reasoning do not overlap.
- In the storage, the session, each message and each part are files of their own. The file of the session is read with the others.

Source: anomalyco/opencode at 008456f4 (`packages/opencode/src/session/session.ts`), 007a9409 (`session/message-v2.ts`) and
07fa8106 (`cli/cmd/export.ts`).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.conversation.messages import Part, Text
from harness.conversation.tokens import Usage
from harness.errors import MalformedRecording, format_count
from harness.files.bounded_input import read_input
from harness.recordings.blocks import build_usage, make_call, make_reasoning_parts, make_text_parts
from harness.recordings.document import MAX_RECORDING_BYTES, MAX_ROWS, Document, Fields, build_length_error, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import LeftOutCall, NativeCompaction

FOLDERS = ("~/.local/share/opencode/storage/session",)
"""Folders in which the agent stores its sessions."""

_COMPACTION_PROMPT = "What did we do so far?"
"""Text that the agent sends for a part `compaction`."""
_SUBTASK_PROMPT = "The following tool was executed by the user"
"""Text that the agent sends for a part `subtask`."""
_SILENT_PARTS = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")


def can_read(document: Document) -> bool:
    """Return whether a parsed file is an export of OpenCode, or the file of a session in its storage."""
    whole = document.single_value
    return is_object_with(whole, "id", "projectID", "time") or (
        is_object_with(whole, "info", "messages") and is_object_with(whole["info"], "id", "projectID")
    )


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in an export or in the storage of OpenCode as an unfinished recording."""
    whole = document.read_root()
    info = whole.read_object("info") if whole.has("info") else whole
    messages = list(whole.read_objects("messages")) if whole.has("info") else _load_messages(info)
    draft = Draft(session_id=info.read_text("id"), parent_id=info.read_text("parentID"))
    _Reader(draft=draft, reverted_from=info.read_object("revert").read_text("messageID")).read_all(messages)
    yield draft


def _load_messages(info: Fields) -> list[Fields]:
    """Return the messages of a session in the storage, with their parts, in the order of their ids.

    The file of the session is `storage/session/PROJECT/SESSION.json`; a message is `storage/message/SESSION/MESSAGE.json`, a part
    `storage/part/MESSAGE/PART.json`.
    """
    storage = Path(info.file).absolute().parents[2]
    place = storage / "message" / info.read_text("id")
    files = sorted(place.glob("*.json")) if place.is_dir() else []
    if not files:
        raise MalformedRecording(info.file, "", f"the messages of the session in the folder {str(place)!r}")
    messages = []
    left_bytes, left_files = MAX_RECORDING_BYTES, MAX_ROWS
    for file in files:
        parts = sorted((storage / "part" / file.stem).glob("*.json"))
        left_files -= 1 + len(parts)
        if left_files < 0:
            raise build_length_error(info.file, MAX_ROWS - left_files, "file")
        values = []
        for path in (file, *parts):
            try:
                data = read_input(path, left_bytes)
                values.append(json.loads(data))
            except (OSError, ValueError, RecursionError) as error:
                raise MalformedRecording(str(path), "", f"a JSON object ({error})") from None
            left_bytes -= len(data)
        messages.append(Fields({"info": values[0], "parts": values[1:]}, info.file, "", f"message {file.stem}"))
    return messages


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader of the messages of a session, which tracks the tool results that the agent cleared later."""

    draft: Draft
    reverted_from: str
    """Id of the first message that the user took back; empty if there is none."""
    cleared: dict[int, list[str]] = field(default_factory=dict)
    """Ids of the calls whose results were cleared, by the time of the clearing in milliseconds since the epoch."""
    turn_of_message: dict[str, int] = field(default_factory=dict)
    asked: NativeCompaction | None = None
    """Compaction that the user or the agent asked for, and whose summary was not read yet."""
    tail_start: str = ""

    def read_all(self, messages: Sequence[Fields]) -> None:
        """Read all messages; those that the user took back are left out."""
        ids = [message.read_object("info").read_text("id") for message in messages]
        end = ids.index(self.reverted_from) if self.reverted_from in ids else len(messages)
        for message in messages:
            for part in message.read_objects("parts"):
                time_ms = part.read_object("state").read_object("time").read_time_ms("compacted")
                if time_ms is not None:
                    self.cleared.setdefault(time_ms, []).append(part.read_text("callID"))
        # early versions repeat the system prompt in each answer
        for message in [message for message in messages if message.read_object("info").read_texts("system")][:1]:
            text = "\n".join(message.read_object("info").read_texts("system"))
            self.draft.add_message("system", make_text_parts(text), message.place)
        for message in messages[:end]:
            self.read_message(message)
        self.clear_results(None)
        if end < len(messages):
            start = len(self.draft.turns)
            for message in messages[end:]:
                self.read_message(message)
            self.draft.leave_out(self.draft.turns[start:], "rewound")
            self.draft.cut(start)
            self.draft.warn("", f"the user took back {format_count(len(messages) - end, 'message')}, whose cost counts")

    def read_message(self, message: Fields) -> None:
        """Read one message with its parts."""
        info = message.read_object("info")
        time = info.read_object("time")
        self.clear_results(time.read_time_ms("created"))
        self.draft.now_ms = time.read_time_ms("completed") or time.read_time_ms("created")
        self.turn_of_message[info.read_text("id")] = len(self.draft.turns)
        match info.read_text("role"):
            case "user":
                self.draft.add_message("user", list(self.read_user_parts(message)), message.place)
            case "assistant" if info.values.get("summary") is True:
                self.read_summary(info, message)
            case "assistant":
                self.read_steps(info, message)
            case role:
                self.draft.count_unread(message, f"message of role {role!r}")

    def clear_results(self, now_ms: int | None) -> None:
        """Add the clearings before a time to the recording; None adds all that are left."""
        for time_ms in sorted(self.cleared):
            if now_ms is None or time_ms < now_ms:
                self.draft.now_ms = time_ms
                self.draft.add_compaction(
                    NativeCompaction(kind="microcompaction", trigger="auto", cleared=tuple(self.cleared.pop(time_ms)))
                )

    def read_user_parts(self, message: Fields) -> Iterator[Part]:
        """Yield what the model reads of the parts of a user message."""
        for part in message.read_objects("parts"):
            match part.read_text("type"):
                case "text" if not part.read_flag("ignored"):
                    yield from make_text_parts(part.read_text("text"))
                case "text":
                    self.draft.count_dropped("text that the agent did not send")
                case "file" if part.read_text("mime") in {"text/plain", "application/x-directory"}:
                    pass  # its content is a text part
                case "file":
                    self.draft.count_dropped("file in a message, replaced by a mark")
                    yield Text(text=f"({part.read_text('mime') or 'file'})")
                case "compaction":
                    trigger = part.values.get("auto")
                    self.asked = NativeCompaction(
                        trigger="unknown" if not isinstance(trigger, bool) else "auto" if trigger else "manual"
                    )
                    self.tail_start = part.read_text("tail_start_id")
                case "subtask":
                    yield Text(text=_SUBTASK_PROMPT)
                case kind if kind not in _SILENT_PARTS:
                    self.draft.count_unread(part, f"part of type {kind!r}")

    def read_summary(self, info: Fields, message: Fields) -> None:
        """Read the answer that a compaction wrote, which is no message of the session."""
        text = "\n".join(part.read_text("text") for part in message.read_objects("parts") if part.read_text("type") == "text")
        self.draft.left_out_calls.append(
            LeftOutCall(
                reason="compaction",
                place=message.place,
                usage=_read_usage(info.read_object("tokens")),
                model=info.read_text("modelID"),
                cost_usd=info.read_amount("cost"),
                at_ms=self.draft.now_ms,
                request_key=_name_request(info),
            )
        )
        if info.has("error") or not text:
            self.draft.warn(message.place, "a compaction failed; the context stayed as it was")
        else:
            kept = self.turn_of_message.get(self.tail_start) if self.tail_start else None
            self.draft.add_compaction(self.asked or NativeCompaction(), kept_from_turn=kept)
            self.draft.add_summary(text)
        self.asked, self.tail_start = None, ""

    def read_steps(self, info: Fields, message: Fields) -> None:
        """Read an assistant message, which has one model call or, in early versions, several."""
        steps: list[list[Fields]] = [[]]
        for part in message.read_objects("parts"):
            if part.read_text("type") == "step-start" and steps[-1]:
                steps.append([])
            steps[-1].append(part)
        for number, parts in enumerate(steps):
            ends = [part for part in parts if part.read_text("type") == "step-finish"]
            report = ends[-1] if ends and len(steps) > 1 else info
            turn = self.draft.add_answer(
                list(self.read_answer_parts(parts)),
                message.place,
                model=info.read_text("modelID"),
                usage=_read_usage(report.read_object("tokens")),
                cost_usd=report.read_amount("cost"),
            )
            turn.request_key = _name_request(info) + (f" {number}" if number else "")
            for part in parts:
                self.read_result(part)

    def read_answer_parts(self, parts: Sequence[Fields]) -> Iterator[Part]:
        """Yield texts, reasoning and calls of one model call."""
        for part in parts:
            match part.read_text("type"):
                case "text":
                    yield from make_text_parts(part.read_text("text"))
                case "reasoning":
                    yield from make_reasoning_parts(part.read_text("text"))
                case "tool":
                    arguments = part.read_object("state").values.get("input")
                    yield make_call(part.read_text("callID"), part.read_text("tool"), arguments)
                case kind if kind not in _SILENT_PARTS:
                    self.draft.count_unread(part, f"part of type {kind!r}")

    def read_result(self, part: Fields) -> None:
        """Add the result of a tool part, if the call has ended."""
        state = part.read_object("state")
        end_ms = state.read_object("time").read_time_ms("end")
        now_ms, self.draft.now_ms = self.draft.now_ms, end_ms or self.draft.now_ms
        match state.read_text("status"):
            case "completed":
                self.draft.add_result(part.read_text("callID"), state.read_text("output"), part.place)
                for _ in state.read_objects("attachments"):
                    self.draft.count_dropped("file in a result, left out")
            case "error":
                self.draft.add_result(part.read_text("callID"), state.read_text("error"), part.place, status="error")
        self.draft.now_ms = now_ms


def _name_request(info: Fields) -> str:
    """Return a name of a model call that its copies in forks share; copies have other ids, but the same times."""
    time = info.read_object("time")
    times_ms = [time.read_time_ms(name) for name in ("created", "completed")]
    return " ".join(map(str, [*times_ms, info.read_text("modelID")])) if None not in times_ms else info.read_text("id")


def _read_usage(tokens: Fields) -> Usage:
    cache, reasoning = tokens.read_object("cache"), tokens.read_count("reasoning")
    return build_usage(
        tokens.read_count("input"),
        tokens.read_count("output") + reasoning,
        read=cache.read_count("read"),
        written=cache.read_count("write"),
        reasoning=reasoning,
    )
