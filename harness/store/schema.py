"""Tables and views of a journal, and the migrations that create them.

The table `event` is the log and the source of truth; its rows never change. For the analysis, the tables `step`, `compaction`,
`version` and `retired` repeat data of events in typed columns; they are written in the same transaction. The JSON of an event is
stored once in the table `body`, however many sessions have such an event; the view `whole_event` shows each event with its JSON.
Each long string of an event is stored once in the table `text` under its address. The JSON then holds `{"address": ...}` in its
place.

The tables `action` (statistics of the action cache) and `draft` (unfinished answers of models) are no part of the log.

Any SQLite program can query the views `sessions`, `messages`, `parts` and `compaction_events`. Such a program cannot unpack zstd,
so the views show only the beginning of a packed text (a long tool output or argument) and a note. `Journal.query` replaces them
by views of the same names that show every text whole. A scratch journal (see `harness.store.database`) lacks these stored views,
because SQLite takes a millisecond to parse them whenever the file is opened.
"""

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

from harness.errors import NewerVersion
from harness.store.columns import AddedColumn, list_added_columns
from harness.store.sessions.views import build_views

Migration: TypeAlias = tuple[str, ...]
"""SQL statements that change the tables of a journal from one schema version to the next."""

_SESSION = "session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE"
"""SQL definition of the column that says to which session a row belongs; the first column of each table with such rows."""

_TABLES = (
    """CREATE TABLE session (
      key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_at_ms INTEGER NOT NULL,
      status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'failed')),
      reason TEXT, detail TEXT NOT NULL DEFAULT '', ended_at_ms INTEGER, model TEXT,
      window_tokens INTEGER, threshold_tokens INTEGER, budget_rule TEXT, sandbox TEXT
    ) STRICT""",
    f"""CREATE TABLE event ({_SESSION},
      seq INTEGER NOT NULL, kind TEXT NOT NULL, step INTEGER, at_ms INTEGER NOT NULL,
      sequence INTEGER, role TEXT, tokens INTEGER, -- of a message: its number among the messages, its role, estimated tokens
      body TEXT, -- NULL: the table `step` holds the whole event
      PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE text (
      address TEXT NOT NULL PRIMARY KEY, characters INTEGER NOT NULL,
      head TEXT, -- the beginning, of packed texts only
      data ANY NOT NULL -- TEXT: as it is; BLOB: zstd of its UTF-8
    ) STRICT""",
    # `version`: messages that a compaction inserted or put in the place of another. `seq` is the event of the compaction, `item`
    # and `slot` are the id of the message in the view. `place` sorts the view (NULL: the order of the event); `path` leads to the
    # message inside the body of the event.
    f"""CREATE TABLE version ({_SESSION},
      sequence INTEGER NOT NULL, seq INTEGER NOT NULL, item INTEGER NOT NULL, slot INTEGER NOT NULL,
      role TEXT NOT NULL, tokens INTEGER NOT NULL, place TEXT, path TEXT NOT NULL,
      PRIMARY KEY (session, sequence)
    ) STRICT, WITHOUT ROWID""",
    # `retired`: versions of messages that left the view, with the event of the compaction that removed them.
    f"""CREATE TABLE retired ({_SESSION},
      item INTEGER NOT NULL, slot INTEGER NOT NULL, seq INTEGER NOT NULL,
      how TEXT NOT NULL CHECK (how IN ('forgotten', 'replaced')),
      PRIMARY KEY (session, item, slot, seq)
    ) STRICT, WITHOUT ROWID""",
    f"""CREATE TABLE step ({_SESSION},
      seq INTEGER NOT NULL, step INTEGER NOT NULL, view_tokens INTEGER NOT NULL, view_messages INTEGER NOT NULL,
      input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
      cache_read_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, cost_usd REAL,
      request_digest TEXT NOT NULL, kept_prefix_messages INTEGER NOT NULL, kept_prefix_tokens INTEGER NOT NULL,
      calls INTEGER NOT NULL, call_errors INTEGER NOT NULL, model_seconds REAL NOT NULL, tool_seconds REAL NOT NULL,
      PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID""",
    f"""CREATE TABLE compaction ({_SESSION},
      seq INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL,
      moment TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
      tokens_before INTEGER NOT NULL, tokens_after INTEGER NOT NULL,
      messages_before INTEGER NOT NULL, messages_after INTEGER NOT NULL,
      forgotten INTEGER NOT NULL, replaced INTEGER NOT NULL, inserted INTEGER NOT NULL,
      summary_characters INTEGER NOT NULL, summarizer TEXT NOT NULL,
      summarizer_input_tokens INTEGER, summarizer_output_tokens INTEGER, summarizer_cache_read_tokens INTEGER,
      summarizer_cache_write_tokens INTEGER, summarizer_cost_usd REAL, summarizer_seconds REAL NOT NULL,
      PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE trial (
      revision INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every record, also if a record replaces another
      trial_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, experiment TEXT NOT NULL, arm TEXT NOT NULL,
      task TEXT NOT NULL, seed INTEGER NOT NULL, replicate INTEGER NOT NULL, model TEXT NOT NULL, policy TEXT NOT NULL,
      policy_json TEXT NOT NULL, config_json TEXT NOT NULL, axes_json TEXT NOT NULL,
      window_tokens INTEGER NOT NULL, threshold_tokens INTEGER, max_steps INTEGER NOT NULL, level TEXT NOT NULL,
      status TEXT NOT NULL CHECK (status IN ('completed', 'failed', 'crashed')), reason TEXT NOT NULL,
      success INTEGER NOT NULL CHECK (success IN (0, 1)), score REAL NOT NULL,
      steps INTEGER NOT NULL, compactions INTEGER NOT NULL,
      prompt_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL,
      summarizer_prompt_tokens INTEGER NOT NULL, summarizer_output_tokens INTEGER NOT NULL, summarizer_cost_usd REAL,
      peak_context_tokens INTEGER NOT NULL,
      treatment TEXT NOT NULL CHECK (treatment IN ('as planned', 'partly', 'not at all')), sandbox TEXT NOT NULL,
      started_at_ms INTEGER NOT NULL, wall_seconds REAL NOT NULL,
      error TEXT NOT NULL, traceback TEXT NOT NULL, provenance_json TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE "check" (
      trial_id TEXT NOT NULL REFERENCES trial (trial_id) ON DELETE CASCADE, "check" TEXT NOT NULL,
      title TEXT NOT NULL, passed INTEGER NOT NULL CHECK (passed IN (0, 1)), detail TEXT NOT NULL,
      PRIMARY KEY (trial_id, "check")
    ) STRICT, WITHOUT ROWID""",
    """CREATE VIEW item AS -- every version of every message
      SELECT session, sequence, seq, seq AS item, 0 AS slot, role, tokens, printf('%08d', seq) AS place, '$' AS path
      FROM event WHERE role IS NOT NULL
      UNION ALL
      SELECT session, sequence, seq, item, slot, role, tokens, coalesce(place, printf('%08d', item)), path FROM version""",
)

_CONDUCT_TABLES = (
    # `conduct`: metrics of a session, written once it has ended; the uses of facts are NULL where no call could be recognised.
    """CREATE TABLE conduct (
      session INTEGER PRIMARY KEY REFERENCES session (key) ON DELETE CASCADE,
      evicted_tokens INTEGER NOT NULL, close_compactions INTEGER NOT NULL, full_compactions INTEGER NOT NULL,
      evicted_again INTEGER NOT NULL, repeated_dead_ends INTEGER NOT NULL,
      loop_rule TEXT NOT NULL, loop_onset_step INTEGER, loop_after_steps INTEGER,
      fact_uses INTEGER, wrong_uses INTEGER, stale_uses INTEGER, constraint_violations INTEGER
    ) STRICT""",
    # `step_conduct`: counts of the calls of each step that has any.
    f"""CREATE TABLE step_conduct ({_SESSION},
      step INTEGER NOT NULL, executions INTEGER NOT NULL, retrievals INTEGER NOT NULL, failures INTEGER NOT NULL,
      repeats INTEGER NOT NULL, redundant INTEGER NOT NULL,
      reacquisitions INTEGER NOT NULL, reacquired_tokens INTEGER NOT NULL, reacquired_steps INTEGER NOT NULL,
      PRIMARY KEY (session, step)
    ) STRICT, WITHOUT ROWID""",
    # `fact`: the facts of a session's task; `reacquisition_calls` is NULL where no call can fetch the fact again.
    f"""CREATE TABLE fact ({_SESSION},
      number INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, said_in TEXT NOT NULL, reacquisition_calls INTEGER,
      PRIMARY KEY (session, number)
    ) STRICT, WITHOUT ROWID""",
    # `probe`: a fact at an applied compaction, whose event is `event`.
    f"""CREATE TABLE probe ({_SESSION},
      event INTEGER NOT NULL, fact INTEGER NOT NULL, version INTEGER NOT NULL,
      seen_before INTEGER NOT NULL CHECK (seen_before IN (0, 1)), seen_after INTEGER NOT NULL CHECK (seen_after IN (0, 1)),
      used_step INTEGER, used TEXT CHECK (used IN ('right', 'stale', 'wrong')),
      PRIMARY KEY (session, event, fact)
    ) STRICT, WITHOUT ROWID""",
)

_ACTION_TABLE = f"""CREATE TABLE action ({_SESSION},
      step INTEGER NOT NULL, hits INTEGER NOT NULL, misses INTEGER NOT NULL, PRIMARY KEY (session, step)
    ) STRICT, WITHOUT ROWID"""
"""SQL for the table of commands answered from the action cache, and commands that were run; no rows where no cache was used."""

_SAVED_OUTPUT_TABLE = f"""CREATE TABLE saved_output ({_SESSION}, -- data: zstd of its UTF-8
      name TEXT NOT NULL, created_at_ms INTEGER NOT NULL, characters INTEGER NOT NULL, data BLOB NOT NULL,
      PRIMARY KEY (session, name)
    ) STRICT"""
"""SQL for the table of tool outputs too long for the log. The outputs are deleted after a week, unlike the texts of the log."""

_VIEW_STATEMENTS = (
    *(f"DROP VIEW IF EXISTS {name}" for name in ("sessions", "messages", "compaction_events", "parts")),
    *build_views("CREATE VIEW", whole=False),
)
"""SQL statements that replace the views of an older journal by those of this version."""

_ROLLBACK_AND_WORKSPACE_STATEMENTS = (
    # `rollback`: `seq` is the event of the rollback, `to_event` the last event before it that still counts.
    f"""CREATE TABLE rollback ({_SESSION},
      seq INTEGER NOT NULL, to_event INTEGER NOT NULL, PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID""",
    # `blob`: contents of files of workspaces by their SHA-256 (hex). `tree`: states of workspaces, as JSON of the paths, each
    # with mode, SHA-256 and bytes. The data of both are packed with zstd.
    "CREATE TABLE blob (sha256 TEXT NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL, data BLOB NOT NULL) STRICT",
    "CREATE TABLE tree (tree_id TEXT NOT NULL PRIMARY KEY, data BLOB NOT NULL) STRICT",
    *_VIEW_STATEMENTS,  # the views leave out events that were rolled back
)

_DRAFT_TABLE = """CREATE TABLE draft (
      session INTEGER PRIMARY KEY REFERENCES session (key) ON DELETE CASCADE,
      step INTEGER NOT NULL, at_ms INTEGER NOT NULL, text TEXT NOT NULL
    ) STRICT"""
"""SQL for the table of what models have written of unfinished answers; a row is deleted when the whole answer is logged."""

_BODY_STATEMENTS = (
    # `digest`: the first 48 bits of the SHA-256 of `data`, by which an equal body is looked up; whole bodies are compared then.
    "CREATE TABLE body (key INTEGER PRIMARY KEY, digest INTEGER NOT NULL, data TEXT NOT NULL) STRICT",
    "CREATE INDEX body_digest ON body (digest)",
    "ALTER TABLE event ADD COLUMN body_key INTEGER",  # older events hold their JSON in the column `body` instead
    """CREATE VIEW whole_event AS
      SELECT session, seq, kind, step, at_ms, sequence, role, tokens,
        coalesce(body, (SELECT b.data FROM body AS b WHERE b.key = body_key)) AS body,
        call_started_at_ms, call_seconds, call_cached_seconds
      FROM event""",
    *_VIEW_STATEMENTS,
)

_STATEMENTS: dict[int, Migration] = {
    1: (*_TABLES, *build_views("CREATE VIEW", whole=False)),
    2: _CONDUCT_TABLES,
    3: (_ACTION_TABLE,),
    6: (_SAVED_OUTPUT_TABLE,),
    8: _ROLLBACK_AND_WORKSPACE_STATEMENTS,
    9: (_DRAFT_TABLE,),
    14: _VIEW_STATEMENTS,  # a running call has a state of its own, steps have parts, and ids sort by time
    18: ("CREATE INDEX trial_session ON trial (session_id)",),
    19: _VIEW_STATEMENTS,  # what was cut from a result, what a compaction removed, and compactions that were rolled back
    20: _VIEW_STATEMENTS,  # times of tool calls
    23: _VIEW_STATEMENTS,  # the snapshot of a step after which the session was rolled back at once
    24: _BODY_STATEMENTS,
}
"""SQL statements of the migrations that add tables, indexes or views, by the number of the migration; columns stand below.

Released statements never change.
"""

_HIDDEN_COLUMNS = (
    AddedColumn(12, "draft", "reasoning", "TEXT NOT NULL DEFAULT ''"),
    AddedColumn(12, "draft", "calls", "TEXT NOT NULL DEFAULT '[]'"),  # calls that were started, as a JSON list
    AddedColumn(13, "draft", "results", "TEXT NOT NULL DEFAULT '[]'"),  # results that were there, as a JSON list
    AddedColumn(13, "draft", "tree_id", "TEXT"),  # state of the workspace after the newest result
    AddedColumn(16, "conduct", "trajectory", "TEXT NOT NULL DEFAULT ''"),  # older journals: unknown
    AddedColumn(20, "event", "call_started_at_ms", "INTEGER"),  # times of tool calls; older journals: unknown
    AddedColumn(20, "event", "call_seconds", "REAL"),
    AddedColumn(20, "event", "call_cached_seconds", "REAL"),
    AddedColumn(20, "draft", "timings", "TEXT NOT NULL DEFAULT '[]'"),
)
"""Columns that no table of results has under the same name; the others are declared in `harness.store.columns`."""


def build_migrations() -> tuple[Migration, ...]:
    """Return all migrations, in the order that turns an empty file into a journal of the newest schema version."""
    added = (*list_added_columns(), *_HIDDEN_COLUMNS)
    newest = max(*_STATEMENTS, *(column.migration for column in added))
    return tuple(
        (
            *_STATEMENTS.get(number, ()),
            *(
                f"ALTER TABLE {table} ADD COLUMN {name} {stored_type}"
                for migration, table, name, stored_type in added
                if migration == number
            ),
        )
        for number in range(1, newest + 1)
    )


MIGRATIONS = build_migrations()
"""All migrations of this version of the package."""
SCRATCH_MIGRATIONS = tuple(tuple(sql for sql in step if sql not in _VIEW_STATEMENTS) for step in MIGRATIONS)
"""All migrations without the views for other programs, for an empty file that becomes a scratch journal."""


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Migrate a journal file to the newest schema version, with one transaction for each migration.

    Args:
        connection: Connection to the journal file.
        steps: All migrations in order; those that the file already has are skipped.

    Raises:
        NewerVersion: The file was written by a newer version of this package.
    """
    refuse_newer(connection, len(steps))
    version = _read_version(connection)
    for number in range(version + 1, len(steps) + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _read_version(connection) < number:
                for statement in steps[number - 1]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite itself may have rolled back, e.g. when the disk was full
                connection.execute("ROLLBACK")
            raise


def refuse_newer(connection: sqlite3.Connection, newest: int = len(MIGRATIONS)) -> None:
    """Check that this version of the package knows the form of a journal.

    Args:
        connection: Connection to the journal file.
        newest: Newest schema version that is known.

    Raises:
        NewerVersion: The file was written by a newer version of this package.
    """
    version = _read_version(connection)
    if version > newest:
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        raise NewerVersion(
            f"the journal {file!r} has schema {version}, but this version of harness reads schemas up to {newest}; update harness"
        )


def is_older(connection: sqlite3.Connection) -> bool:
    """Return whether an older version of this package wrote the journal, so that it must be migrated."""
    return 0 < _read_version(connection) < len(MIGRATIONS)


def _read_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
