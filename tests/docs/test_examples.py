"""Every code block of README.md, CONTRIBUTING.md and docs/ runs, page by page, in a folder of its own.

A `python` block runs as a program of its own. In a `console` block each line behind `$ ` runs and must succeed; the text below
the line must be its output, where `...` stands for anything.
A `toml` block must be a valid plan, unless its comment names another file, and a `json` block valid JSON. These comments before a
block change that:

`<!-- file NAME -->`          the block is written to this file, for the blocks after it
`<!-- not-run: REASON -->`    the block does not run, but its names, arguments, commands, options and tests must exist
"""

import ast
import contextlib
import importlib
import inspect
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import harness.cli
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from tests.cli.command import START
from tests.house.source import CHECKOUT
from tests.prepared import run

PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for path in (CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").rglob("*.md"))
    if not {"generated", "_build"} & set(path.parts)
)
BLOCK = re.compile(
    r"^(?:<!-- (file|not-run:) ([^\n]+?) -->\n+)?```(python|console|toml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text("utf-8"), re.MULTILINE))
WRONG = (AssertionError, AttributeError, TypeError, ValueError, UsageError, click.UsageError)
"""Errors with which a wrong block fails."""
RUN_SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
SLOW_MODULES = ("harness.cli.report", "duckdb", "scipy.stats", "matplotlib.pyplot")
"""Modules that most examples use."""
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


def make_environment() -> dict[str, str]:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": search, "MPLBACKEND": "agg", "DOCKER_HOST": NO_DOCKER, "COLUMNS": "200"}


def run_anew(arguments: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(arguments, cwd=folder, env=make_environment(), capture_output=True, text=True, check=False)


def run_script(name: str, folder: Path, *, anew: bool) -> "subprocess.CompletedProcess[str]":
    """Run a Python file, in a new process or in a fork that has imported the package."""
    if anew:
        return run_anew([sys.executable, name], folder)
    return run(RUN_SCRIPT, str(folder / name), cwd=folder, env=make_environment(), modules=SLOW_MODULES)


def run_line(line: str, folder: Path, *, anew: bool) -> "subprocess.CompletedProcess[str]":
    """Run a line of shell; a line that only calls `harness` may run in a fork that has imported the package."""
    words = shlex.split(line, comments=True)
    if anew or words[0] != "harness" or set("|&;()<>$*`~") & set(line):
        return run_anew(["bash", "-euc", line], folder)
    return run(START, *words[1:], cwd=folder, env=make_environment(), modules=SLOW_MODULES)


def read_output(finished: "subprocess.CompletedProcess[str]", source: str) -> str:
    """Return the standard output of a process that must have succeeded."""
    assert finished.returncode == 0, f"{source}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def run_block(block: Block, folder: Path, *, anew: bool = True) -> None:
    """Run a block, write it, or check it without running, as its comment says.

    Args:
        block: Block of a page.
        folder: Folder in which it runs.
        anew: Run each program in a process that starts Python, rather than in a fork of a process with imported modules.
    """
    assert not block.reason or len(block.reason.split()) > 1, f"not-run needs a reason: {block.text[:80]}"
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        check_toml(block, folder)
    elif block.file:
        write_file(folder / block.file, block.text)
    elif block.reason:
        check_block(block)
    elif block.language == "python":
        write_file(folder / "example.py", block.text)
        read_output(run_script("example.py", folder, anew=anew), "example.py")
    elif block.language == "console":
        for command in split_commands(block.text):
            printed = read_output(run_line(command.line, folder, anew=anew), command.line)
            assert not command.output.strip() or compile_expected(command.output).fullmatch(printed.strip()), printed


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def check_toml(block: Block, folder: Path) -> None:
    """Write a TOML block, and read it as a plan unless its comment gives it another name."""
    path = folder / (block.file or "checked/plan.toml")
    write_file(path, block.text)
    if path.name == "plan.toml":
        with contextlib.chdir(folder):
            Experiment.from_toml(path)
    else:
        tomllib.loads(block.text)


def check_block(block: Block) -> None:
    """Check that a block which does not run uses only names, arguments, commands, options and files that exist."""
    if block.language == "python":
        check_python(block.text)
    elif block.language == "console":
        for command in split_commands(block.text):
            check_command_line(command.line)


def check_python(text: str) -> None:
    """Import what a program imports, look up its dotted names, and check the arguments of its calls to names of harness."""
    tree, names = ast.parse(text), dict[str, object]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            names |= {alias.asname or alias.name: getattr(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            modules = {alias: importlib.import_module(alias.name) for alias in node.names}
            names |= {alias.asname: module for alias, module in modules.items() if alias.asname}
            names |= {
                root: sys.modules[root] for root in (alias.name.partition(".")[0] for alias in node.names if not alias.asname)
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            look_up(node, names)
        elif isinstance(node, ast.Call):
            check_call(node, look_up(node.func, names))


def look_up(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the object that a name or a dotted name stands for, or None if it does not begin with an imported name."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    owner = look_up(node.value, names) if isinstance(node, ast.Attribute) else None
    return None if owner is None or not isinstance(node, ast.Attribute) else getattr(owner, node.attr)


def check_call(call: ast.Call, target: object) -> None:
    """Bind the arguments of a call to the parameters of a function or class of harness."""
    starred = any(isinstance(arg, ast.Starred) for arg in call.args) or any(word.arg is None for word in call.keywords)
    if callable(target) and getattr(target, "__module__", "").startswith("harness") and not starred:
        inspect.signature(target).bind(*call.args, **{word.arg: word.value for word in call.keywords if word.arg})


def check_command_line(line: str) -> None:
    """Check the programs in a line of shell: commands and options of harness, targets of make, and paths of tests."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for start, word in enumerate(words):
        if start == 0 or set(words[start - 1]) <= set("|&;("):
            arguments = list(itertools.takewhile(lambda one: not set(one) <= set("|&;()<>"), words[start + 1 :]))
            if word == "harness":
                check_arguments(harness.cli.main, arguments)
            elif word == "make":
                assert {argument for argument in arguments if "=" not in argument} <= MAKE_TARGETS, (
                    f"unknown target of make: {line}"
                )
        assert not word.startswith("tests/") or (CHECKOUT / word.partition("::")[0]).exists(), f"there is no {word}"


def check_arguments(command: click.Command, arguments: list[str], parent: click.Context | None = None) -> None:
    """Parse arguments as click does, with the values of options, but without looking for files."""
    context = click.Context(command, info_name=command.name, parent=parent)
    values, rest, _ = command.make_parser(context).parse_args(list(arguments))
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if value is not None and not isinstance(parameter.type, click.Path | click.File):
            parameter.type_cast_value(context, value)
    if isinstance(command, click.Group) and rest:
        inner = command.get_command(context, rest[0])
        assert inner is not None, f"{command.name} has no command {rest[0]}"
        check_arguments(inner, rest[1:], context)
    else:
        assert not rest, f"{command.name} takes no argument {rest[0]}"


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    """A folder with the experiments and notebooks of this repository, without results."""
    for name in ("experiments", "notebooks"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("output"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page, page_folder):
    for block in find_blocks((CHECKOUT / page).read_text("utf-8")):
        run_block(block, page_folder, anew=page == "README.md")


def test_readme_is_short_and_no_line_is_wide():
    lines = (CHECKOUT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 160
    assert [line for line in lines if len(line) > 140] == []


def test_blocks_are_collected_with_the_comments_before_them():
    text = "```python\nx = 1\n```\n\n<!-- not-run: costs money -->\n```console\n$ false\n```\n\n```text\nno code\n```\n"
    text += "\n<!-- file a/b.toml -->\n```toml\ny = 2\n```\n"
    assert find_blocks(text) == [
        Block("python", "x = 1\n"),
        Block("console", "$ false\n", reason="costs money"),
        Block("toml", "y = 2\n", file="a/b.toml"),
    ]


PLAN = '[trial]\ntask = "flashcards"\npolicy = "codex"\nmax_steps = 30\n'


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Block("python", "raise SystemExit(3)"), "example.py"),
        (Block("console", "$ false\n"), "false"),
        (Block("console", "$ echo one\ntwo\n"), "one"),
        (Block("console", "$ harness run x\n", reason="unexplained"), "needs a reason"),
        (Block("console", "$ harness run --no-such-option x\n", reason="needs a cluster"), "no such option"),
        (Block("console", "$ true && harness modles fetch x\n", reason="needs a cluster"), "no command modles"),
        (Block("console", "$ echo x | harness models fetsh x\n", reason="needs a cluster"), "no command fetsh"),
        (Block("console", "$ harness agent --backend dockker\n", reason="needs a cluster"), "'dockker' is not one of"),
        (Block("console", "$ harness agent --max-steps many\n", reason="needs a cluster"), "'many' is not a valid integer"),
        (Block("console", "$ harness doctor now\n", reason="needs a cluster"), "now"),
        (Block("console", "$ make tset\n", reason="needs a cluster"), "target of make"),
        (Block("console", "$ python -m pytest -q tests/compactoin\n", reason="needs a cluster"), "there is no tests/compactoin"),
        (Block("python", "from harness import NoSuchName\n", reason="costs money"), "NoSuchName"),
        (Block("python", "import harness\nharness.policies.KeepLost\n", reason="costs money"), "KeepLost"),
        (Block("python", "import harness.policies as p\np.KeepLost\n", reason="costs money"), "KeepLost"),
        (
            Block("python", "from harness import Trial\nTrial(task='flashcards', policy='none', sed=1)\n", reason="costs money"),
            "sed",
        ),
        (Block("python", "import harness\nharness.policies.KeepLast(tresh=3)\n", reason="costs money"), "tresh"),
        (Block("python", "import harness\nharness.Experiment.from_toml(nope=3)\n", reason="costs money"), "nope|path"),
        (Block("python", "from harness import load\nload('a', 'b')\n", reason="costs money"), "too many"),
        (Block("toml", PLAN.replace("max_steps", "max_stepz")), "max_stepz"),
        (Block("toml", PLAN.replace("max_steps", "max_stepz"), reason="costs money"), "max_stepz"),
        (Block("toml", PLAN.replace("max_steps", "max_stepz"), file="a/plan.toml"), "max_stepz"),
        (Block("toml", "[trial\n", file="pyproject.toml"), "Expected"),
        (Block("json", "{'a': 1}\n"), "property name"),
    ],
)
def test_an_example_that_is_wrong_fails(block, message, tmp_path):
    with pytest.raises(WRONG, match=f"(?i){message}"):
        run_block(block, tmp_path)


@pytest.mark.parametrize(
    "block",
    [
        Block("toml", PLAN),
        Block("toml", PLAN, file="a/plan.toml"),
        Block("toml", "[project]\n", file="pyproject.toml"),
        Block("json", '{"a": 1}\n'),
        Block("console", "$ make test docs JOBS=2 && .venv/bin/python -m pytest -q tests/docs\n", reason="takes long"),
        Block("console", "$ cat x | harness agent --model a/b --keep y < /dev/null > z  # note\n", reason="costs money"),
        Block("python", "import harness\nharness.Experiment.from_toml('x').run(workers=2)\n", reason="costs money"),
    ],
)
def test_an_example_that_is_right_passes_without_running(block, tmp_path):
    run_block(block, tmp_path)


def test_an_example_that_prints_what_it_says_passes(tmp_path):
    run_block(Block("console", "$ echo one; echo 17\none\n...\n$ true\n"), tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", (CHECKOUT / page).read_text("utf-8"))
    targets = [(CHECKOUT / page).parent / link for link in links if "generated/" not in link]  # Sphinx checks those
    assert [target for target in targets if not target.exists()] == []
