"""Separation of the rows of a Claude Code file into the session, its sub-agents and the branches that the user rewound.

Each row names its parent, so the rows form a tree. A branch is abandoned if the user returned to a point before it and wrote
something else. Several results of one answer are also branches of the tree, but they belong to the session: a branch is abandoned
only if the branch that was continued begins with a message that the user typed.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.recordings.document import Fields


def split_sessions(rows: Sequence[Fields]) -> list[list[Fields]]:
    """Return the rows of each conversation in a file, in file order; a file usually has one.

    A conversation may have rows of several session ids, if it was resumed: then a row of one session names a row of another as
    its parent. Sessions that no row links come from programs that wrote to the same file.
    """
    session_of_row = {uuid: row.read_text("sessionId") for row in rows if (uuid := row.read_text("uuid"))}
    first_of = {session_id: session_id for session_id in session_of_row.values()}

    def find_first(session_id: str) -> str:
        while first_of[session_id] != session_id:
            session_id = first_of[session_id]
        return session_id

    for row in rows:
        for name in ("parentUuid", "logicalParentUuid"):
            parent = session_of_row.get(row.read_text(name))
            own = row.read_text("sessionId")
            if parent and own in first_of and parent != own:
                first_of[find_first(own)] = find_first(parent)
    conversations: dict[str, list[Fields]] = {}
    current = next((find_first(row.read_text("sessionId")) for row in rows if row.read_text("sessionId") in first_of), "")
    for row in rows:
        session_id = row.read_text("sessionId")
        current = find_first(session_id) if session_id in first_of and session_id else current
        conversations.setdefault(current, []).append(row)
    with_messages = [group for group in conversations.values() if any(map(is_message, group))]
    return with_messages if len(with_messages) > 1 else [list(rows)]


class SideChain(NamedTuple):
    """Rows of one sub-agent, with the tool call that started it."""

    rows: list[Fields]
    call_id: str
    """Id of the tool call that started the sub-agent; empty if these rows do not say it."""


def split_side_chains(rows: Sequence[Fields]) -> tuple[list[Fields], dict[str, SideChain]]:
    """Return the rows of the session itself, and the rows of each sub-agent by the name of the agent.

    A sub-agent's messages are rows of their own (`isSidechain`) or, in files of version 2.1.33, inside rows of its progress. A
    file of early versions does not name its agents, which are then numbered.
    """
    main: list[Fields] = []
    chains: dict[str, SideChain] = {}
    agent_of_row: dict[str, str] = {}
    unnamed = ""
    for row in rows:
        if (report := _read_progress(row)) is not None:
            chains.setdefault(report.agent, SideChain([], report.call_id)).rows.append(report.row)
        elif row.read_flag("isSidechain"):
            agent = row.read_text("agentId") or agent_of_row.get(row.read_text("parentUuid")) or unnamed
            if not agent or (agent == unnamed and _is_typed(row)):
                agent = unnamed = f"agent-{len(chains) + 1}"
            agent_of_row[row.read_text("uuid")] = agent
            chains.setdefault(agent, SideChain([], "")).rows.append(row)
        else:
            main.append(row)
    return main, chains


class _Progress(NamedTuple):
    """Message of a sub-agent in a row that reports its progress."""

    agent: str
    call_id: str
    row: Fields


def _read_progress(row: Fields) -> _Progress | None:
    """Return the message in a row that reports the progress of a sub-agent; None for any other row."""
    match row.values:
        case {
            "type": "progress",
            "data": {"type": "agent_progress", "agentId": str(agent), "message": {"type": str()} as message},
        }:
            place = Fields({**message, "isSidechain": True}, row.file, row.line, "data.message")
            return _Progress(agent, row.read_text("parentToolUseID"), place)
    return None


def find_abandoned_rows(rows: Sequence[Fields]) -> set[str]:
    """Return the ids of the rows on branches that the user rewound.

    Args:
        rows: Rows of one session in file order, each id once.
    """
    parents = _link_rows(rows)
    messages = [uuid for row in rows if is_message(row) and (uuid := row.read_text("uuid"))]
    path: set[str] = set()
    uuid = messages[-1] if messages else ""
    continued_by: dict[str, str] = {}
    while uuid and uuid not in path:
        path.add(uuid)
        continued_by[parents.get(uuid, "")] = uuid
        uuid = parents.get(uuid, "")
    by_id = {row.read_text("uuid"): row for row in rows}
    abandoned: set[str] = set()
    for row in rows:
        uuid = row.read_text("uuid")
        if not uuid or uuid in path:
            continue
        parent = parents.get(uuid, "")
        continued = _find_message(continued_by.get(parent, ""), by_id, continued_by)
        if parent in abandoned or (parent in path and _is_typed(by_id.get(continued))):
            abandoned.add(uuid)
    return abandoned


def is_message(row: Fields) -> bool:
    """Return whether a row is a message of the user or the model, or a tool result."""
    return row.read_text("type") in {"user", "assistant"}


def _link_rows(rows: Sequence[Fields]) -> dict[str, str]:
    """Return the parent of each row; a row without a known parent continues the row before it."""
    parents: dict[str, str] = {}
    before = ""
    for row in rows:
        if not (uuid := row.read_text("uuid")):
            continue
        named = row.read_text("parentUuid") or row.read_text("logicalParentUuid")
        parents[uuid] = named if named in parents else before
        before = uuid
    return parents


def _find_message(uuid: str, by_id: Mapping[str, Fields], continued_by: Mapping[str, str]) -> str:
    """Return the first row on the continued path, from a row on, that is a message."""
    while uuid in by_id and not is_message(by_id[uuid]):
        uuid = continued_by.get(uuid, "")
    return uuid


def _is_typed(row: Fields | None) -> bool:
    """Return whether a row holds a message that the user typed, rather than a tool result or a note of the client."""
    if row is None or row.read_text("type") != "user" or row.read_flag("isMeta") or row.read_flag("isCompactSummary"):
        return False
    content = row.read_object("message").values.get("content")
    if isinstance(content, list):
        kinds = {block.get("type") for block in content if isinstance(block, dict)}
        return "tool_result" not in kinds and bool(kinds)
    return isinstance(content, str) and bool(content)
