"""Importer of sessions recorded by Claude Code, whose files (`~/.claude/projects/*/*.jsonl`) have one JSON row per event.

Properties of the format:

- One answer spans several rows with the same `message.id`. Each row repeats `usage`; early `output_tokens` are placeholders.
- Tool results are user rows. Results of tools that the provider runs are blocks of the answer.
- Text typed while the agent works is in rows `queue-operation` and, in later versions, in rows `attachment`.
- Rows of sub-agents (`isSidechain`) are mixed with the others or have files of their own.
- Rows that the user rewound stay in the file. `branches` tells them apart; rows of a branch are read in file order.
- `toolUseResult` and snapshots repeat content and are not needed.
- Cleared tool results and the messages before a compaction are still in the file.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from harness.conversation.messages import ToolResult
from harness.errors import format_count
from harness.recordings.blocks import read_anthropic_usage, read_parts
from harness.recordings.document import Document, Fields
from harness.recordings.draft import Draft
from harness.recordings.formats.claude_code.branches import find_abandoned_rows, is_message, split_sessions, split_side_chains
from harness.recordings.recording import NativeCompaction, SubAgentLink

MID_SESSION_TOKENS = 100_000
"""Number of tokens in the first recorded prompt above which a file is assumed to begin in the middle of a session."""

FOLDERS = ("~/.claude/projects", "~/.config/claude/projects")
"""Folders in which the agent stores its sessions."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session file of Claude Code, recognised by the fields of its rows."""
    return any(_is_event(value) for _, value in document.rows)


def _is_event(value: Any) -> bool:
    match value:
        case {"message": {"parts": _}} | {"systemPayload": _}:
            return False  # a row of Qwen Code
        case (
            {"type": "user" | "assistant", "message": _, "sessionId": _}
            | {"type": _, "uuid": _, "sessionId": _, "isSidechain": _}
            | {"type": "summary", "leafUuid": _}
            | {"type": "file-history-snapshot" | "queue-operation"}
        ):
            return True
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield each session in a file of Claude Code as a `Draft`, followed by the sessions of its sub-agents."""
    rows, repeated_count = _drop_repeated_rows(document.list_objects())
    conversations = split_sessions(rows)
    for number, conversation in enumerate(conversations):
        drafts = list(_read_conversation(conversation, 0 if number else repeated_count))
        if len(conversations) > 1:
            drafts[0].warn("", f"one of {len(conversations)} sessions in this file that no row links; each is read on its own")
        yield from drafts


def _read_conversation(rows: Sequence[Fields], repeated_count: int) -> Iterator[Draft]:
    """Yield the session of some rows, and then the sessions of its sub-agents."""
    sessions = Counter(session_id for row in rows if is_message(row) and (session_id := row.read_text("sessionId")))
    session_id = sessions.most_common(1)[0][0] if sessions else ""
    main_rows, chains = split_side_chains(rows)
    children = {
        agent: _Reader(
            draft=Draft(session_id=f"{session_id}.{agent}", parent_id=session_id), rows=_drop_repeated_rows(chain.rows)[0]
        ).read_all()
        for agent, chain in chains.items()
    }
    main = _Reader(draft=Draft(session_id=session_id), rows=main_rows)
    if len(sessions) > 1:
        main.draft.warn("", f"rows of {len(sessions)} sessions; the id is that of the session with most rows")
    for _ in range(repeated_count):
        main.draft.count_dropped("row with a repeated uuid")
    if not children or any(map(is_message, main_rows)):
        main.read_all()
        for agent, child in children.items():
            call_id = main.agent_calls.get(agent) or chains[agent].call_id
            main.draft.sub_agents.append(SubAgentLink(session_id=child.session_id, call_id=call_id))
        elsewhere = [agent for agent in main.agent_calls if agent not in children]
        main.draft.sub_agents += [
            SubAgentLink(session_id=f"{session_id}.{agent}", call_id=main.agent_calls[agent]) for agent in elsewhere
        ]
        if elsewhere:
            count = format_count(len(elsewhere), "sub-agent")
            main.draft.warn("", f"{count} whose rows are not in this file; if they have files of their own, these are sessions")
        yield main.draft
    yield from children.values()


def _drop_repeated_rows(rows: Sequence[Fields]) -> tuple[list[Fields], int]:
    """Return the rows without those whose uuid an earlier row has, and the number of rows left out."""
    seen_ids: set[str] = set()
    kept: list[Fields] = []
    for row in rows:
        uuid = row.read_text("uuid")
        if not uuid or uuid not in seen_ids:
            kept.append(row)
        seen_ids.add(uuid)
    return kept, len(rows) - len(kept)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader of the rows of one session, which tracks what the user typed while the agent worked."""

    draft: Draft
    rows: Sequence[Fields]
    agent_calls: dict[str, str] = field(default_factory=dict)
    """Ids of the tool calls that started sub-agents, by the name of the agent."""
    turn_of_row: dict[str, int] = field(default_factory=dict)
    queue: list[Fields] = field(default_factory=list)
    """Rows of texts that the user typed while the agent worked, and that are not read yet."""
    typed_texts: Counter[str] = field(default_factory=Counter)
    """Texts of user messages and attachments; a queued text among them is the same message."""

    def read_all(self) -> Draft:
        """Read all rows and return the draft."""
        abandoned = find_abandoned_rows(self.rows)
        side = Draft()
        for row in self.rows:
            if row.read_text("uuid") not in abandoned:
                self.typed_texts.update(_read_typed_text(row))
        for row in self.rows:
            self.draft.now_ms = side.now_ms = row.read_time_ms("timestamp")
            uuid = row.read_text("uuid")
            if uuid:
                self.turn_of_row[uuid] = len(self.draft.turns)
            if uuid not in abandoned:
                self.read_row(row)
            elif row.read_text("type") == "assistant":
                read_answer(row.read_object("message"), side, row)
        self.draft.leave_out(side.turns, "rewound")
        if rewound := [row for row in self.rows if row.read_text("uuid") in abandoned and is_message(row)]:
            rows = format_count(len(rewound), "row")
            self.draft.warn(rewound[0].place, f"{rows} of branches that the user rewound: no messages, but the cost counts")
        for row in self.queue:
            self.draft.warn(row.place, "text that the user typed while the agent worked was never sent")
        return self.draft

    def read_row(self, row: Fields) -> None:
        match row.read_text("type"):
            case "assistant" if row.read_object("message").read_text("model") == "<synthetic>" or row.read_flag(
                "isApiErrorMessage"
            ):
                self.draft.count_dropped("answer made up by the client (an API error)")
            case "assistant":
                read_answer(row.read_object("message"), self.draft, row)
            case "user":
                self.read_user_row(row)
            case "system":
                self.read_system_row(row)
            case "queue-operation":
                self.read_queue_operation(row)
            case "attachment":
                self.read_attachment(row)
            case kind:
                self.draft.count_unread(row, f"row of type {kind!r}")

    def read_user_row(self, row: Fields) -> None:
        message, outcome = row.read_object("message"), row.values.get("toolUseResult")
        if row.read_flag("isCompactSummary"):
            self.draft.add_summary("\n".join(getattr(part, "text", "") for part in read_parts(message, self.draft)))
        elif row.read_flag("isVisibleInTranscriptOnly"):
            self.draft.count_dropped("row shown to the user only")
        else:
            parts = list(read_parts(message, self.draft))
            if isinstance(outcome, dict) and isinstance(outcome.get("agentId"), str):
                self.agent_calls[outcome["agentId"]] = next((part.call_id for part in parts if isinstance(part, ToolResult)), "")
            if isinstance(outcome, dict) and outcome.get("interrupted") is True:
                parts = [replace(part, status="interrupted") if isinstance(part, ToolResult) else part for part in parts]
            self.draft.add_message("user", parts, row.place)

    def read_queue_operation(self, row: Fields) -> None:
        """Add a text that the user typed while the agent worked, at the place where the agent took it.

        The text is added by another row if it is an attachment, or if it began a turn of its own.
        """
        match row.read_text("operation"):
            case "enqueue":
                text = _join_texts(row.values.get("content"))
                if self.typed_texts[text]:
                    self.typed_texts[text] -= 1
                    self.queue.append(Fields({}, row.file, row.line))
                elif row.has("content"):
                    self.queue.append(row)
            case "popAll":
                for _ in self.queue:
                    self.draft.count_dropped("queued text that the user took back")
                self.queue.clear()
            case "remove" | "dequeue" as operation if self.queue:
                text = _join_texts(row.values.get("content"))
                texts = [_join_texts(queued.values.get("content")) for queued in self.queue]
                named = (place for place, queued_text in enumerate(texts) if text and queued_text == text)
                queued = self.queue.pop(next(named, 0))
                if queued.has("content") and operation == "remove":
                    self.draft.add_message("user", list(read_parts(queued, self.draft)), queued.place)
                elif queued.has("content"):
                    self.draft.count_dropped("queued text that began a turn, in whose message it is not found")
            case _:
                self.draft.count_unread(row, "row of type 'queue-operation'")

    def read_attachment(self, row: Fields) -> None:
        attachment = row.read_object("attachment")
        kind = attachment.read_text("type")
        if kind == "queued_command":
            self.draft.add_message("user", list(read_parts(attachment, self.draft, "prompt")), row.place)
        else:
            self.draft.count_unread(row, f"attachment of kind {kind!r}")

    def read_system_row(self, row: Fields) -> None:
        match row.read_text("subtype"):
            case "compact_boundary":
                about = row.read_object("compactMetadata")
                head = about.read_object("preservedSegment").read_text("headUuid")
                read_boundary(about, self.draft, _NAMES, kept_from_turn=self.turn_of_row.get(head))
            case "microcompact_boundary":
                about = row.read_object("microcompactMetadata")
                before, saved = about.read_optional_count("preTokens"), about.read_optional_count("tokensSaved")
                event = NativeCompaction(
                    kind="microcompaction",
                    trigger=_read_trigger(about),
                    tokens_before=before,
                    tokens_saved=saved,
                    tokens_after=None if before is None or saved is None else max(0, before - saved),
                    cleared=tuple(about.read_texts("compactedToolIds")),
                )
                self.draft.add_compaction(event)
            case kind:
                self.draft.count_unread(row, f"row of type 'system' and subtype {kind!r}")


def _join_texts(content: Any) -> str:
    """Return the text of a content, which is a string or a list of blocks, without the space around it."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def _read_typed_text(row: Fields) -> list[str]:
    """Return the text that a user row or an attachment adds as a message; empty if it adds none."""
    attachment = row.values.get("attachment")
    if row.read_text("type") == "attachment" and isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        content = attachment.get("prompt")
    elif row.read_text("type") == "user":
        content = row.read_object("message").values.get("content")
    else:
        return []
    texts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [item.get("text") if isinstance(item, dict) else item for item in texts]
    return [text.strip() for text in texts if isinstance(text, str)]


def read_answer(message: Fields, draft: Draft, row: Fields) -> None:
    """Add one row of a model's answer to the recording; rows with the same message id form one answer.

    Args:
        message: Part of an answer, in the form of Anthropic's API.
        draft: Recording that is being read.
        row: Row of the file that holds the message.
    """
    first = not any(turn.role == "assistant" for turn in draft.turns)
    report = message.read_object("usage")
    usage = read_anthropic_usage(report)
    turn = draft.add_answer(
        read_parts(message, draft),
        row.place,
        key=message.read_text("id"),
        model=message.read_text("model"),
        usage=usage,
        cost_usd=row.read_amount("costUSD"),
    )
    hour_write = report.read_object("cache_creation").read_count("ephemeral_1h_input_tokens")
    turn.hour_write_tokens = max(turn.hour_write_tokens, min(hour_write, usage.cache_write_tokens))
    turn.request_key = " ".join(filter(None, (message.read_text("id"), row.read_text("requestId"))))
    if first and usage.prompt_tokens > MID_SESSION_TOKENS:
        draft.warn(
            row.place, f"the first recorded prompt has {usage.prompt_tokens} tokens: the file begins in the middle of a session"
        )


class BoundaryNames(NamedTuple):
    """Names of the fields with the metadata of a compaction, which session files and SDK logs spell differently."""

    tokens_before: str
    tokens_after: str
    duration_ms: str


_NAMES = BoundaryNames("preTokens", "postTokens", "durationMs")


def read_boundary(about: Fields, draft: Draft, names: BoundaryNames, *, kept_from_turn: int | None = None) -> None:
    """Add a compaction that Claude Code made during the session to the recording.

    The row that marks a compaction has no summary; the summary is in the next user row.

    Args:
        about: JSON object with the metadata of the compaction.
        draft: Recording that is being read.
        names: Names of the fields of `about`.
        kept_from_turn: Index of the first turn that the compaction retained; None if it retained none.
    """
    duration_ms = about.read_amount(names.duration_ms)
    event = NativeCompaction(
        trigger=_read_trigger(about),
        tokens_before=about.read_optional_count(names.tokens_before),
        tokens_after=about.read_optional_count(names.tokens_after),
        seconds=None if duration_ms is None else duration_ms / 1000,
    )
    draft.add_compaction(event, kept_from_turn=kept_from_turn)


def _read_trigger(about: Fields) -> Literal["auto", "manual", "unknown"]:
    match about.read_text("trigger"):
        case "auto" | "manual" as trigger:
            return trigger
    return "unknown"
