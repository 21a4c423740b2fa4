import shlex
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.metrics import shell
from harness.metrics.shell import MAX_COMMAND_CHARACTERS, find_paths, find_shown_file, is_read_only, normalize_path


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["x", "a|", "\\", "'", '"', " x", "../", "a.b "])
def test_the_analysis_of_a_long_command_takes_little_time(piece):
    """Without a limit on the length, the words of such a command take minutes of CPU time."""
    command = "cat " + piece * (1_000_000 // len(piece))
    before = time.process_time()
    assert not is_read_only(command)
    assert find_shown_file(command) is None
    find_paths(command)
    assert time.process_time() - before < 5.0


def test_a_command_of_the_maximum_length_is_analysed():
    command = "cat " + "x" * (MAX_COMMAND_CHARACTERS - 4)
    assert is_read_only(command)
    assert find_shown_file(command) == "x" * (MAX_COMMAND_CHARACTERS - 4)
    assert not is_read_only(f"{command}x")


@pytest.mark.parametrize(
    "command",
    [
        "cat a.py",
        "grep -rn 'a > b; rm x' src | head -20",
        "cd src && ls -la; wc -l a.py",
        "sed -n 1,20p a.py",
        "find . -name '*.py' 2>/dev/null",
        "LC_ALL=C sort a.txt",
        "git log --oneline",
        "ls missing 2>&1",
        "grep '' a.py",
        "find . -name ''",
        "uniq -c a.txt",
        "sed -n '/def /,/^class /p' src/where.py",
        "sed 's/old name/new value/g' a.py",
        "sed -n '/we say/p; 1,5p' a.py",
    ],
)
def test_commands_that_only_read_are_known(command):
    assert is_read_only(command)


@pytest.mark.parametrize(
    "command",
    [
        "python3 tools/reserve.py",
        "cat a.py > b.py",
        "cat a.py>b.py",
        "ls; rm a.py",
        "cat a\nrm a",
        "sed -i s/a/b/ a.py",
        "find . -name '*.pyc' -delete",
        "echo $(rm a)",
        "echo `rm a`",
        "cat a | tee b",
        "git checkout a.py",
        "sort -o a a",
        "sort -uo a b",
        "uniq a b",
        "git diff --output=a",
        "sed -n 'w a' b",
        "sed '1,5w a' b",
        "sed s/a/b/w\\ c b",
        "sed 's/a/b/gw c' b",
        "sed 's|a|b|e' c",
        "sed '1e rm a' b",
        "(cat a)",
        "cat 'a",
        "",
    ],
)
def test_commands_that_may_write_are_not_taken_for_readers(command):
    assert not is_read_only(command)


def test_a_path_has_one_form():
    assert [normalize_path(text) for text in (" ./docs//a.md", "/workspace/docs/a.md", "docs/x/../a.md")] == ["docs/a.md"] * 3
    assert [normalize_path(text) for text in ("", ".", "/workspace", "/workspace/")] == ["."] * 4
    assert normalize_path("/etc/hosts") == "/etc/hosts"


def test_paths_are_extracted_from_a_command():
    assert find_paths("sed -i 's/x/y/' ./src/a.py README.md && make") >= {"src/a.py", "README.md"}
    assert find_paths("make test -j 2") == frozenset()


def test_only_a_plain_cat_shows_a_whole_file():
    shown = [find_shown_file(command) for command in ("cat ./a.py", "cat a b", "cat -n a", "head a", "cat 'a")]
    assert shown == ["a.py", None, None, None, None]


COMMANDS = st.lists(
    st.sampled_from(
        [
            "cat",
            "git",
            "log",
            "pytest",
            "x=1",
            "a/b.py",
            "'",
            '"',
            "\\",
            " ",
            "  ",
            "\t",
            "|",
            "&&",
            ";",
            ">",
            "2>&1",
            "(",
            "é",
            "''",
        ]
    ),
    max_size=9,
).map("".join)


def split_slowly(text):
    """Return the words and operators of a command as `shlex` splits it, or None if a quotation does not end."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:
        return None


@given(COMMANDS | st.text(max_size=20))
@example("a''b \"c d\"'e' | f")
def test_words_are_those_of_shlex(text):
    try:
        words = shell._split_words(text)
    except ValueError:
        words = None
    assert words == split_slowly(text)


@given(COMMANDS)
def test_quick_answers_are_those_of_the_whole_analysis(command):
    words = split_slowly(command.strip())
    expected = bool(words) and all(shell._is_read_only_command(simple) for simple in shell._split_commands(words))
    assert is_read_only(command) == expected
    try:
        shown = shlex.split(command)
    except ValueError:
        shown = []
    is_cat = len(shown) == 2 and shown[0] == "cat" and not shown[1].startswith("-") and is_read_only(command)
    assert find_shown_file(command) == (normalize_path(shown[1]) if is_cat else None)
