"""Merging of one journal file into another, with its sessions, texts and trials."""

from pathlib import Path

from harness.errors import StoreError
from harness.store.database import has_newest_form
from harness.store.journal import Journal
from harness.store.texts import CONTENT_TABLES, MIN_NAME_CHARACTERS, find_addresses, find_hashes
from harness.store.workspaces import find_file_hashes

_SESSION_TABLES = (
    *("version", "retired", "rollback", "step", "compaction", "action", "saved_output", "draft"),
    *("conduct", "step_conduct", "fact", "probe"),
)


def merge(source: Path, target: Journal, *, only: str | None = None, replace: bool = False) -> None:
    """Copy the contents of a journal file into an open journal, in one transaction.

    Merging a second time changes nothing. If both journals hold the same session, the target takes over the source's copy in two
    cases: the copy was begun later, because the trial was run again, or it was begun at the same time and has more events. The
    sub-agents of a replaced trial are removed with it. A trial of the source replaces the trial with the same id in the target.

    Args:
        source: Journal file to copy from.
        target: Journal to copy to.
        only: Id of the single session to copy, together with its texts and its trial; None copies everything.
        replace: Whether the target takes over the source's copy of every session, also if the copy seems to be older, since the
            clocks of two machines differ or a clock was set back. Default: False.

    Raises:
        StoreError: The source is no journal, or the target cannot be written; the target journal is then unchanged.
    """
    if not source.is_file():
        raise StoreError(f"there is no journal at {str(source)!r} to merge")
    if not has_newest_form(source):
        with Journal.open(source):
            pass  # opening the file migrates it to the newest form
    database = target.database
    try:
        database.fetch("ATTACH ? AS source", str(source))
    except StoreError:
        with Journal.open(source):  # the error of this connection says what is wrong with the file
            raise
    try:
        with database.transaction():
            _merge_contents(target, only)
            _merge_sessions(target, only, replace=replace)
            _merge_trials(target, only)
    finally:
        database.fetch("DETACH source")


def _merge_contents(target: Journal, only: str | None) -> None:
    execute, executemany = target.database.execute, target.database.executemany
    if only is None:
        for table in CONTENT_TABLES:
            execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM source.{table}")
        return
    bodies_sql = "SELECT e.body FROM source.session AS s JOIN source.whole_event AS e ON e.session = s.key WHERE s.id = ?"
    bodies = [body for (body,) in execute(f"{bodies_sql} AND length(e.body) >= {MIN_NAME_CHARACTERS}", (only,))]
    trees = {name for body in bodies for name in find_hashes(body)}
    needed_names = {
        "text": {name for body in bodies for name in find_addresses(body)},
        "tree": trees,
        "blob": find_file_hashes(target.database, trees, schema="source"),
    }
    for table, name in CONTENT_TABLES.items():
        copied = f"INSERT OR IGNORE INTO main.{table} SELECT * FROM source.{table} WHERE {name} = ?"
        executemany(copied, [(needed_name,) for needed_name in needed_names[table]])


def _merge_sessions(target: Journal, only: str | None, *, replace: bool) -> None:
    execute = target.database.execute
    chosen, parameters = ("", ()) if only is None else ("AND theirs.id = ?", (only,))
    last = "coalesce((SELECT max(seq) FROM {0}.event AS e WHERE e.session = {1}.key), 0)"
    newer = (
        "TRUE"
        if replace
        else f"(theirs.created_at_ms, {last.format('source', 'theirs')}) > (ours.created_at_ms, {last.format('main', 'ours')})"
    )
    # CROSS JOIN makes SQLite begin with the source, which usually has a single session; the target can have many thousands.
    replaced_sql = f"FROM source.session AS theirs CROSS JOIN main.session AS ours ON ours.id = theirs.id AND {newer} {chosen}"
    sub_agent_sql = "JOIN main.session AS a ON a.id > ours.id || '.' AND a.id < ours.id || '/'"  # '/' follows '.' in ASCII
    of_trial_sql = "EXISTS (SELECT 1 FROM main.trial AS t WHERE t.session_id = ours.id)"
    execute(
        f"""DELETE FROM main.session WHERE key IN (SELECT ours.key {replaced_sql}
        UNION SELECT a.key {replaced_sql} {sub_agent_sql} WHERE {of_trial_sql})""",
        2 * parameters,
    )
    columns = _list_columns(target, "session", without={"key"})
    missing_sql = f"SELECT key FROM source.session AS theirs WHERE id NOT IN (SELECT id FROM main.session) {chosen}"
    for (key,) in execute(missing_sql, parameters).fetchall():
        copied = execute(f"INSERT INTO main.session ({columns}) SELECT {columns} FROM source.session WHERE key = ?", (key,))
        _merge_events(target, key, copied.lastrowid)
        for table in _SESSION_TABLES:
            rest = _list_columns(target, table, without={"session"})
            execute(
                f"INSERT INTO main.{table} (session, {rest}) SELECT ?, {rest} FROM source.{table} WHERE session = ?",
                (copied.lastrowid, key),
            )


def _merge_events(target: Journal, source_key: int, target_key: int | None) -> None:
    """Copy the events of a session, with those bodies that the target does not have yet."""
    execute = target.database.execute
    equal_sql = "main.body AS ours WHERE ours.digest = theirs.digest AND ours.data = theirs.data"
    execute(
        f"""INSERT INTO main.body (digest, data) SELECT digest, data FROM source.body AS theirs
        WHERE key IN (SELECT body_key FROM source.event WHERE session = ?) AND NOT EXISTS (SELECT 1 FROM {equal_sql})
        ORDER BY key""",
        (source_key,),
    )
    rest = _list_columns(target, "event", without={"session", "body_key"})
    execute(
        f"""INSERT INTO main.event (session, body_key, {rest})
        SELECT ?, (SELECT ours.key FROM source.body AS theirs CROSS JOIN {equal_sql} AND theirs.key = body_key), {rest}
        FROM source.event WHERE session = ?""",
        (target_key, source_key),
    )


def _merge_trials(target: Journal, only: str | None) -> None:
    execute = target.database.execute
    columns = _list_columns(target, "trial", without={"revision"})
    chosen, parameters = ("", ()) if only is None else ("WHERE session_id = ?", (only,))
    same_sql = f"SELECT {columns} FROM main.trial WHERE trial_id IN (SELECT trial_id FROM source.trial {chosen})"
    fresh_sql = f"SELECT trial_id FROM (SELECT {columns} FROM source.trial {chosen} EXCEPT {same_sql})"
    for (trial_id,) in execute(fresh_sql, 2 * parameters).fetchall():
        execute('DELETE FROM main."check" WHERE trial_id = ?', (trial_id,))
        execute("DELETE FROM main.trial WHERE trial_id = ?", (trial_id,))
        execute(f"INSERT INTO main.trial ({columns}) SELECT {columns} FROM source.trial WHERE trial_id = ?", (trial_id,))
        execute('INSERT INTO main."check" SELECT * FROM source."check" WHERE trial_id = ?', (trial_id,))


def _list_columns(target: Journal, table: str, *, without: set[str]) -> str:
    rows = target.database.execute(f"PRAGMA main.table_info({table})").fetchall()
    return ", ".join(f'"{row[1]}"' for row in rows if row[1] not in without)
