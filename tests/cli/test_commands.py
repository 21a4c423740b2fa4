import gc

import pytest

from harness.cli.commands import COMMANDS, load_command
from harness.process import GARBAGE_THRESHOLD
from tests.cli.command import harness_anew, within


def test_help_lists_every_command_without_loading_any():
    shown = harness_anew("--help")
    assert shown.returncode == 0
    for name, (_, text) in COMMANDS.items():
        assert f"{name} {text}" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_describes_itself(name):
    command = load_command(name)
    assert command.name == name
    assert command.help


def test_the_version_is_that_of_the_package():
    assert harness_anew("--version").stdout.startswith("harness 0.")


def test_a_mistyped_command_is_refused():
    refused = within("runn")
    assert refused.exit_code == 2
    assert "runn" in refused.stderr


@pytest.mark.slow
def test_a_usage_error_prints_one_line_and_exits_with_code_two(tmp_path):
    refused = harness_anew("run", tmp_path / "nothing")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: there is no plan")
    assert refused.stderr.count("\n") == 1
    assert refused.stdout == ""


@pytest.mark.slow
def test_debug_shows_where_an_error_comes_from(tmp_path):
    shown = harness_anew("--debug", "run", tmp_path / "nothing")
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr


def test_a_hostile_name_cannot_drive_the_terminal():
    refused = within("run", "\x1b[2J[bold]x[/bold]")
    assert refused.exit_code == 2
    assert "\x1b" not in refused.stderr
    assert "[bold]x[/bold]" in refused.stderr


def test_a_command_seldom_looks_for_garbage() -> None:
    before = gc.get_threshold()
    try:
        within("policies")
        assert gc.get_threshold()[0] == GARBAGE_THRESHOLD
    finally:
        gc.set_threshold(*before)
