"""Analysis of the text of a shell command: whether the command only reads files, and which paths it names.

The rules are heuristic and cautious: a command that is not known to be read-only counts as a command that may write anything.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from posixpath import basename, normpath

WORKSPACE = "/workspace"

READ_ONLY_PROGRAMS = frozenset(
    (
        *("basename", "cat", "cd", "cksum", "cmp", "column", "comm", "cut", "date", "df", "diff", "dirname", "du", "echo"),
        *("egrep", "expr", "fgrep", "file", "find", "grep", "head", "jq", "less", "ls", "md5sum", "more", "nl", "od"),
        *("printf", "pwd", "readlink", "realpath", "rg", "sed", "sha1sum", "sha256sum", "sort", "stat", "strings", "tail"),
        *("test", "tr", "true", "type", "uniq", "wc", "which"),
    )
)
"""Names of programs that change no files, except with options such as `sed -i`."""
_WRITE_OPTIONS = {
    "find": re.compile(r"-(delete|exec|execdir|ok|okdir|fprint\w*|fls)$"),
    "git": re.compile(r"--output"),
    "sed": re.compile(r"-[a-zA-Z]*i|--in-place"),
    "sort": re.compile(r"-[a-zA-Z]*o|--o"),
}
"""Options with which a program changes files."""
_SED_WRITES = re.compile(r"(^|[0-9$/,;{}! ])[wW][ \t]|(^|[0-9;{}])e([ \t]|$)|s(.)((?!\4).)*\4((?!\4).)*\4[a-zA-Z0-9]*[wWe]")
"""Commands and flags of a script of sed that write a file or run a program."""
_READ_ONLY_GIT_COMMANDS = frozenset(
    {"blame", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "shortlog", "show", "status"}
)
MAX_COMMAND_CHARACTERS = 20_000
"""Length in characters above which a command is not analysed, because splitting it into words would take too long."""
_PLAIN_PROGRAM = re.compile(r"[\w./-]+(?=[ \t\r\n]|$)")
"""Name of a program at the beginning of a command, without quotes and operators."""
_WORD = re.compile(r"""(?:[^ \t\r\n'"();<>|&]|'[^']*'|"[^"]*")+|[();<>|&]+""")
"""Word or operator in a command without backslashes, as the module `shlex` would split the command, only ten times faster."""
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_COMMAND_SEPARATORS = frozenset({"|", "||", "&&", ";", "&", "|&"})
_ASSIGNMENT = re.compile(r"\w+=.*")
_PATH_PATTERN = re.compile(r"[\w@+~./-]+")
_EXTENSION_PATTERN = re.compile(r"\w\.[A-Za-z]\w{0,9}$")


def normalize_path(text: str) -> str:
    """Return a path relative to the workspace in normal form, e.g. `docs/a.md` for `/workspace/docs//a.md`.

    The path of the workspace itself is `.`.
    """
    clean = normpath(text.strip() or ".")
    if clean == WORKSPACE or clean.startswith(f"{WORKSPACE}/"):
        clean = clean[len(WORKSPACE) + 1 :] or "."
    return clean


@lru_cache(maxsize=1_000)
def is_read_only(command: str) -> bool:
    """Return whether a shell command only runs programs that change no files, and redirects no output to a file."""
    text = command.strip()
    if len(text) > MAX_COMMAND_CHARACTERS or "\n" in text or "$(" in text or "`" in text:
        return False
    program = _PLAIN_PROGRAM.match(text)
    if program and basename(program[0]) not in READ_ONLY_PROGRAMS and basename(program[0]) != "git":
        return False
    try:
        words = _split_words(text)
    except ValueError:
        return False
    return bool(words) and all(_is_read_only_command(simple) for simple in _split_commands(words))


def _split_words(text: str) -> list[str]:
    """Return the words and operators of a command.

    Raises:
        ValueError: A quotation does not end.
    """
    if "\\" not in text and not _WORD.sub("", text).strip(" \t\r\n"):
        return [_QUOTED.sub(r"\1\2", word) if "'" in word or '"' in word else word for word in _WORD.findall(text)]
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)


def _split_commands(words: Sequence[str]) -> Iterator[list[str]]:
    simple: list[str] = []
    for word in words:
        if word in _COMMAND_SEPARATORS:
            yield simple
            simple = []
        else:
            simple.append(word)
    if simple:
        yield simple


def _is_read_only_command(words: list[str]) -> bool:
    rest = list(words)
    while rest and _ASSIGNMENT.fullmatch(rest[0]):
        del rest[0]
    if not rest or any(sign and not sign.strip("()") for sign in rest) or _has_redirect(rest):
        return False
    program, arguments = basename(rest[0]), rest[1:]
    writing, operands = _WRITE_OPTIONS.get(program), [word for word in arguments if not word.startswith("-")]
    if writing and any(writing.match(word) for word in arguments):
        return False
    match program:
        case "git":
            return bool(operands) and operands[0] in _READ_ONLY_GIT_COMMANDS
        case "uniq":  # writes its second operand
            return len(operands) < 2
        case "sed":
            return not any(_SED_WRITES.search(word) for word in operands)
        case _:
            return program in READ_ONLY_PROGRAMS


def _has_redirect(words: Sequence[str]) -> bool:
    for index, word in enumerate(words):
        if ">" in word and not word.strip("<>&|"):
            into = words[index + 1] if index + 1 < len(words) else ""
            if into != "/dev/null" and not (word == ">&" and into in {"1", "2"}):
                return True
    return False


@lru_cache(maxsize=1_000)
def find_paths(command: str) -> frozenset[str]:
    """Return the words of a shell command that contain a slash or a file extension, as paths do."""
    path_words = (word for word in _PATH_PATTERN.findall(command) if "/" in word or _EXTENSION_PATTERN.search(word))
    return frozenset(normalize_path(word) for word in path_words if word.strip("./-"))


@lru_cache(maxsize=1_000)
def find_shown_file(command: str) -> str | None:
    """Return the path of the file that a shell command `cat PATH` shows; None for any other command."""
    if len(command) > MAX_COMMAND_CHARACTERS or command.lstrip()[:1] not in {"c", "'", '"', "\\"}:
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if len(words) == 2 and words[0] == "cat" and not words[1].startswith("-") and is_read_only(command):
        return normalize_path(words[1])
    return None
