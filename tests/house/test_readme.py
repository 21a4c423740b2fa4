"""The README's examples run: each block behind `<!-- run -->` is executed, in order, in a copy of what it speaks of.

A block behind `<!-- file NAME -->` is written there, for those behind it.

A `python` block runs as one program. Of a `console` block the lines behind `$ ` run, each must succeed, and the lines
below must be what it prints (`...` stands for anything). No engine answers: the document speaks of a machine without one.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

RUN = "<!-- run -->"
BLOCK = re.compile(r"^<!-- (?:run|file (\S+)) -->\n+```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Command(NamedTuple):
    """One line behind `$ ` and what the document says that it prints."""

    line: str
    output: str


def blocks(text: str) -> list[tuple[str, str, str]]:
    """File (empty = it is run), language and content of each marked block."""
    return BLOCK.findall(text)


def commands(block: str) -> list[Command]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Command(line, output) for line, _, output in (part.partition("\n") for part in parts)]


def like(expected: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in expected.strip().split("...")), re.DOTALL)


def run(arguments: list[str], folder: Path) -> str:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": search, "MPLBACKEND": "agg", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def execute(language: str, block: str, folder: Path) -> None:
    if language == "python":
        run([sys.executable, "-c", block], folder)
        return
    assert language == "console", f"a block of {language!r} cannot be run"
    for command in commands(block):
        printed = run(["bash", "-euc", command.line], folder)
        assert not command.output.strip() or like(command.output).fullmatch(printed.strip()), printed


def test_the_marked_examples_of_the_readme_run(checkout, tmp_path):
    for name in ("experiments", "notebooks"):
        if (checkout / name).exists():
            shutil.copytree(checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("output"))
    for file, language, block in blocks((checkout / "README.md").read_text()):
        if file:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(block)
        else:
            execute(language, block, tmp_path)


def test_marked_blocks_are_found_and_others_left_alone():
    text = f"{RUN}\n```python\nx = 1\n```\n\n```python\nnot this\n```\n\n{RUN}\n\n```console\n$ true\n```\n"
    text += "\n<!-- file a/b.py -->\n```python\ny = 2\n```\n"
    assert blocks(text) == [("", "python", "x = 1\n"), ("", "console", "$ true\n"), ("a/b.py", "python", "y = 2\n")]


@pytest.mark.parametrize(
    ("language", "block"),
    [("python", "raise SystemExit(3)"), ("console", "$ false\n"), ("console", "$ echo one\ntwo\n"), ("rust", "")],
)
def test_an_example_that_fails_or_prints_something_else_is_seen(language, block, tmp_path):
    with pytest.raises(AssertionError):
        execute(language, block, tmp_path)


def test_an_example_that_prints_what_it_says_passes(tmp_path):
    execute("console", "$ echo one; echo 17\none\n...\n$ true\n", tmp_path)


def test_every_link_of_the_readme_to_a_file_leads_somewhere(checkout):
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", (checkout / "README.md").read_text())
    assert [link for link in links if not (checkout / link).exists()] == []
