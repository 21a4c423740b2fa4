"""Every code block of README.md, CONTRIBUTING.md and docs/ runs, page by page, in a folder of its own.

A `python` block runs as a program of its own. In a `console` block each line behind `$ ` runs and must succeed; the text below
the line must be its output, where `...` stands for anything.
A `toml` block must be valid TOML. These comments before a block change that:

`<!-- file NAME -->`          the block is written to this file, for the blocks after it
`<!-- not-run: REASON -->`    the block does not run, but its imports, keyword arguments and options must exist
"""

import ast
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import harness.cli
from tests.house.source import CHECKOUT

PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for path in (CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").rglob("*.md"))
    if not {"generated", "_build"} & set(path.parts)
)
BLOCK = re.compile(r"^(?:<!-- (file|not-run:) ([^\n]+?) -->\n+)?```(python|console|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NO_DOCKER = "unix:///nowhere/docker.sock"


class Block(NamedTuple):
    """A code block with the comment before it."""

    language: str
    text: str
    file: str = ""
    """Path to which the block is written; empty for a block that runs."""
    reason: str = ""
    """Why the block does not run; empty for a block that runs."""


class Command(NamedTuple):
    """A line of a console block and the output that the page shows."""

    line: str
    output: str


def find_blocks(text: str) -> list[Block]:
    return [
        Block(language, body, file=value if mark == "file" else "", reason=value if mark == "not-run:" else "")
        for mark, value, language, body in BLOCK.findall(text)
    ]


def split_commands(block: str) -> list[Command]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Command(line, output) for line, _, output in (part.partition("\n") for part in parts)]


def compile_expected(output: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in output.strip().split("...")), re.DOTALL)


def run_program(arguments: list[str], folder: Path) -> str:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": search, "MPLBACKEND": "agg", "DOCKER_HOST": NO_DOCKER, "COLUMNS": "200"}
    finished = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{arguments[-1]}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def run_block(block: Block, folder: Path) -> None:
    """Run a block, write it, or check it without running, as its comment says."""
    if block.language == "toml":
        tomllib.loads(block.text)
    if block.file:
        path = folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    elif block.reason:
        check_block(block)
    elif block.language == "python":
        (folder / "example.py").write_text(block.text)
        run_program([sys.executable, "example.py"], folder)
    elif block.language == "console":
        for command in split_commands(block.text):
            printed = run_program(["bash", "-euc", command.line], folder)
            assert not command.output.strip() or compile_expected(command.output).fullmatch(printed.strip()), printed


def check_block(block: Block) -> None:
    """Check that a block which does not run uses only imports, arguments and options that exist."""
    assert len(block.reason.split()) > 1, f"not-run needs a reason: {block.text[:80]}"
    if block.language == "python":
        check_python(block.text)
    elif block.language == "console":
        for command in split_commands(block.text):
            check_command_line(command.line)


def check_python(text: str) -> None:
    """Import what a program imports, and check the keyword arguments of calls to the names that come from harness."""
    tree, names = ast.parse(text), dict[str, object]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            names |= {alias.asname or alias.name: getattr(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0]: importlib.import_module(alias.name) for alias in node.names}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        target: object = None
        if isinstance(call.func, ast.Name):
            target = names.get(call.func.id)
        elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id in names:
            target = getattr(names[call.func.value.id], call.func.attr)
        if getattr(target, "__module__", "").startswith("harness") and callable(target):
            parameters = inspect.signature(target).parameters
            unknown = {word.arg for word in call.keywords if word.arg} - set(parameters)
            assert not unknown, f"{ast.unparse(call.func)} has no arguments {sorted(unknown)}"


def check_command_line(line: str) -> None:
    """Check the commands and options of each `harness` program in a line of shell."""
    words = shlex.split(line, comments=True)
    for place in (number for number, word in enumerate(words) if word == "harness"):
        command: click.Command = harness.cli.main
        context = click.Context(command)
        for word in words[place + 1 :]:
            if word in {"|", ";", "&&", "<", ">"}:
                break
            options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            if word.startswith("-"):
                assert word.partition("=")[0] in options, f"{command.name} has no option {word}"
            elif isinstance(command, click.Group) and (inner := command.get_command(context, word)):
                command = inner


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    """A folder with the experiments and notebooks of this repository, without results."""
    for name in ("experiments", "notebooks"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("output"))
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page, page_folder):
    for block in find_blocks((CHECKOUT / page).read_text("utf-8")):
        run_block(block, page_folder)


def test_readme_is_short_and_no_line_is_wide():
    lines = (CHECKOUT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 160
    assert [line for line in lines if len(line) > 140] == []


def test_blocks_are_found_with_the_comments_before_them():
    text = "```python\nx = 1\n```\n\n<!-- not-run: costs money -->\n```console\n$ false\n```\n\n```text\nno code\n```\n"
    text += "\n<!-- file a/b.toml -->\n```toml\ny = 2\n```\n"
    assert find_blocks(text) == [
        Block("python", "x = 1\n"),
        Block("console", "$ false\n", reason="costs money"),
        Block("toml", "y = 2\n", file="a/b.toml"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        Block("python", "raise SystemExit(3)"),
        Block("console", "$ false\n"),
        Block("console", "$ echo one\ntwo\n"),
        Block("console", "$ harness run --no-such-option x\n", reason="needs a cluster"),
        Block("console", "$ harness run x\n", reason="unexplained"),
        Block("python", "from harness import Trial\nTrial(tsk='flashcards')\n", reason="costs money"),
    ],
)
def test_an_example_that_is_wrong_fails(block, tmp_path):
    with pytest.raises(AssertionError):
        run_block(block, tmp_path)


def test_an_import_of_a_block_that_does_not_run_must_exist(tmp_path):
    with pytest.raises(AttributeError):
        run_block(Block("python", "from harness import NoSuchName\n", reason="costs money"), tmp_path)


def test_an_example_that_prints_what_it_says_passes(tmp_path):
    run_block(Block("console", "$ echo one; echo 17\none\n...\n$ true\n"), tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", (CHECKOUT / page).read_text("utf-8"))
    targets = [(CHECKOUT / page).parent / link for link in links if "generated/" not in link]  # Sphinx checks those
    assert [target for target in targets if not target.exists()] == []
