"""Excerpts of sessions for the page of a replay: the words used later, each with the text around it, keys and homes masked.

Texts are masked before anything is cut out of them, so that no part of a key is left at the edge of an excerpt.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.conversation.codec import from_plain, to_plain
from harness.conversation.events import Compaction, Entry
from harness.conversation.tokens import QuarterOfCharacters
from harness.inspection.distinctive_words import follow_words
from harness.inspection.recording_folder import open_recordings
from harness.recordings.session_log import build_timed_log
from harness.replay.session_files import JOURNAL_SUFFIX
from harness.replay.sessions import Replay
from harness.store.sessions.lookup import iter_sessions

MASK = "[masked]"
HOME_MASK = "~"
MIN_SECRET_CHARACTERS = 24
"""Smallest length of a string of letters and digits, with both in it, that is taken for a key."""
_NAMED = re.compile(
    r"(?i)((?:api|access|secret|private|auth|bearer|client|token|passw(?:or)?d|passwd|pwd|credential|authorization|cookie)"
    r"[\w-]*[\"'\\]*\s*(?:=>|[:=])\s*[\"'\\]*(?:(?:bearer|basic|token)\s+)?|\b(?:bearer|basic)\s+)([^\s\"'\\,;]{4,})"
)
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"(\w+://)[^\s/@:]*:[^\s/@]+@")
_PREFIXED = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|hf|npm|pypi|AKIA|ASIA|AIza|eyJ)[-_A-Za-z0-9.]{8,}"
)
_KNOWN_FORMS = re.compile(
    r"\b(?:[spr]k-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:hf|npm)_[A-Za-z0-9]{20,}"
    r"|pypi-[\w-]{20,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_DRAWN = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/_-]{16,}={0,2}")
_LONG = re.compile(
    rf"(?<![A-Za-z0-9+_-])(?=[A-Za-z+_-]*\d)(?=[\d+_-]*[A-Za-z])[A-Za-z0-9+_-]{{{MIN_SECRET_CHARACTERS},}}={{0,2}}"
)
_HOME = re.compile(r"(?:[A-Za-z]:)?[\\/]+(?:home|Users|Documents and Settings)[\\/]+[^\\/\s\"'`,;:)\]}]+|/root\b")
_DASHED_HOME = re.compile(r"-(?:home|Users)-[^-/\s\"']+")
_Value = TypeVar("_Value")


class Excerpt(NamedTuple):
    """Word that an agent used after a compaction had evicted it, with the text around the place where it had stood.

    Args:
        file: File of the session.
        compaction_step: Step before which the compaction took place.
        kind: Kind of the word.
        word: The word.
        place: Message in which it had stood.
        text: Text around it there.
        used_step: Step in which the agent used it.
    """

    file: str
    compaction_step: int
    kind: str
    word: str
    place: str
    text: str
    used_step: int


def mask_text(text: str) -> str:
    """Return a text in which keys and home folders are masked.

    Keys are values behind words such as `token` or `password`, private keys, passwords in addresses, strings with the known
    beginnings of keys, and all strings of at least 24 letters and digits that have both.
    """
    text = _BLOCK.sub(MASK, text)
    text = _ADDRESS.sub(rf"\1{MASK}@", text)
    text = _NAMED.sub(rf"\1{MASK}", text)
    home = str(Path.home())
    if len(home) > 1:
        text = text.replace(home, HOME_MASK).replace(home.replace("/", "-"), HOME_MASK)
    text = _DASHED_HOME.sub(HOME_MASK, _HOME.sub(HOME_MASK, text))
    return _LONG.sub(MASK, _PREFIXED.sub(MASK, text))


def mask_secrets(text: str) -> str:
    """Return a text in which only what is almost certainly a key is masked, so that a model can still work with the text.

    These are private keys, passwords in addresses, strings in the known forms of keys, and long values of letters and digits
    behind words such as `token` or `password`.
    """
    text = _ADDRESS.sub(rf"\1{MASK}@", _BLOCK.sub(MASK, text))
    text = _NAMED.sub(lambda match: f"{match[1]}{MASK}" if _DRAWN.fullmatch(match[2]) else match[0], text)
    return _KNOWN_FORMS.sub(MASK, text)


def list_excerpts(replay: Replay) -> list[Excerpt]:
    """Return the words used later at the compactions of a replay's sessions, with excerpts, from the files as they are now.

    Raises:
        OSError: A file cannot be read any more.
    """
    real = replay.boundaries[replay.boundaries["is_real"]] if len(replay.boundaries) else replay.boundaries
    found: list[Excerpt] = []
    for file in dict.fromkeys(real["file"]) if len(real) else ():
        ids = set(real.loc[real["file"] == file, "session_id"])
        for session_id, entries in _read_sessions(Path(file)):
            if session_id in ids:
                found += _list_session(Path(file).name, entries)
    return found


def _read_sessions(path: Path) -> Iterator[tuple[str, Sequence[Entry]]]:
    if path.suffix == JOURNAL_SUFFIX:
        for location in iter_sessions([path]):
            yield location.session_id, location.read().entries
        return
    for recording in open_recordings(path).recordings:
        if recording.has_texts:
            yield recording.session_id, [timed.entry for timed in build_timed_log(recording, reading="recorded")]


def _list_session(name: str, entries: Sequence[Entry]) -> Iterator[Excerpt]:
    masked = [from_plain(Entry, _mask_strings(to_plain(entry))) for entry in entries]
    steps = {entry.seq: entry.event.step for entry in masked if isinstance(entry.event, Compaction)}
    for seq, words in follow_words(masked, QuarterOfCharacters()).items():
        for fate in words.fates:
            if fate.fate == "used later" and fate.step is not None:
                text = f"{fate.before.text_before}{fate.before.word}{fate.before.text_after}"
                yield Excerpt(mask_text(name), steps[seq], fate.kind, fate.word, fate.before.label, text, fate.step)


def _mask_strings(plain: _Value) -> _Value:
    if isinstance(plain, str):
        return mask_text(plain)  # type: ignore[return-value]
    if isinstance(plain, dict):
        return {key: _mask_strings(value) for key, value in plain.items()}  # type: ignore[return-value]
    if isinstance(plain, list | tuple):
        return [_mask_strings(value) for value in plain]  # type: ignore[return-value]
    return plain
