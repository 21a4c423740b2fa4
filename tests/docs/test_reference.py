"""Public names are documented completely, and the reference pages are derived from the code."""

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Literal

import click
import pytest
from docstring_parser import Docstring, DocstringStyle, parse

import harness
import harness.cli
from harness.experiment.plan import Settings
from harness.experiment.trial import Trial
from harness.models.factory import open_model
from harness.models.scripted.profiles import DEFAULT_PROFILE
from harness.policies import PRESETS, find_public_name
from harness.protocols import SandboxLimits
from harness.session.spec import SessionSpec
from harness.store.columns import TABLES
from harness.task import Check, Fact, Script, Step, World
from harness.tasks import SUITE
from tests.house.source import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "docs"))
reference_pages: Any = import_module("reference_pages")
sys.path.pop(0)

MORE_DATACLASSES = (Settings, SandboxLimits, Fact, Script, Step, Check, World)
"""Classes that are documented like public names, because plans and tasks are written with them."""


def list_public() -> dict[str, Any]:
    public = {
        f"{module}.{name}": value
        for module in reference_pages.PUBLIC_MODULES
        for name, value in reference_pages.list_public_objects(import_module(module))
    }
    return {**public, **{f"{owner.__module__}.{owner.__name__}": owner for owner in MORE_DATACLASSES}}


PUBLIC = list_public()
DATACLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value) and dataclasses.is_dataclass(value)}
CALLABLES = {  # a protocol has no constructor
    name: value
    for name, value in PUBLIC.items()
    if name not in DATACLASSES
    and not getattr(value, "_is_protocol", False)
    and (inspect.isfunction(value) or (inspect.isclass(value) and "__init__" in vars(value) and not issubclass(value, Exception)))
}


def parse_docstring(value: object) -> Docstring:
    return parse(inspect.getdoc(value) or "", DocstringStyle.GOOGLE)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name):
    value = PUBLIC[name]
    assert not (inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)) or inspect.getdoc(value)


@pytest.mark.parametrize("name", DATACLASSES)
def test_every_field_is_documented_with_meaning_and_default(name):
    entries = {entry.arg_name: " ".join((entry.description or "").split()) for entry in parse_docstring(DATACLASSES[name]).params}
    for field in dataclasses.fields(DATACLASSES[name]):
        if not field.init or field.name == "kind" or field.name.startswith("_"):
            continue
        assert field.name in entries, f"{name}: no entry for {field.name}"
        default = reference_pages.format_default(field)
        ending = "Required." if default == "required" else f"Default: `{default}`."
        assert entries[field.name].endswith(ending), f"{name}.{field.name}: must end with {ending}"
        assert len(entries[field.name].removesuffix(ending).split()) >= 3, f"{name}.{field.name}: no meaning"


@pytest.mark.parametrize("name", CALLABLES)
def test_every_parameter_is_documented(name):
    value = CALLABLES[name]
    entries = {entry.arg_name.lstrip("*") for entry in parse_docstring(value).params}
    if inspect.isclass(value):
        entries |= {entry.arg_name.lstrip("*") for entry in parse_docstring(value.__init__).params}
    assert set(inspect.signature(value).parameters) <= entries


@pytest.mark.parametrize("owner", [Trial, SessionSpec])
def test_the_scripted_models_that_a_field_names_exist(owner):
    entry = next(entry for entry in reference_pages.read_fields(owner) if entry.name == "model")
    names = [name.replace("PROFILE", "typical") for name in re.findall(r"`(scripted[^`]*)`", entry.description)]
    assert len(names) > 1
    for name in names:
        profile = name.partition(":")[2] or DEFAULT_PROFILE
        assert open_model(name, task=SUITE["flashcards"](0), seed=0, window_tokens=None).name == f"scripted/flashcards:{profile}"


@pytest.mark.parametrize("kind", PRESETS)
def test_the_signature_of_a_policy_states_ranges_in_words(kind):
    signature = str(inspect.signature(PRESETS[kind]))
    assert "'must be at least 1'" in signature
    assert " at 0x" not in signature


@pytest.mark.parametrize("kind", PRESETS)
def test_every_policy_names_its_source_and_when_to_choose_it(kind):
    text = inspect.getdoc(PRESETS[kind]) or ""
    assert "Source:" in text
    assert re.search(r"\bChoose it\b", text)


def test_no_policy_refers_to_a_document_outside_the_repository():
    texts = "\n".join(inspect.getdoc(policy) or "" for policy in PRESETS.values())
    assert re.findall(r"PEERS|SEEDS|RESEARCH|DESIGN\.md|\bS[0-4]\.\d+", texts) == []


def test_the_reference_pages_hold_every_field_policy_task_column_and_name(tmp_path):
    reference_pages.write_pages(tmp_path)
    pages = {path.relative_to(tmp_path / "generated").as_posix(): path for path in (tmp_path / "generated").rglob("*.md")}
    assert {f"policies/{find_public_name(kind)}.md" for kind in PRESETS} <= set(pages)
    plan, tasks, tables = (pages[f"{name}.md"].read_text("utf-8") for name in ("plan-file", "tasks", "tables"))
    assert all(f"`{field.name}`" in plan for field in dataclasses.fields(Settings))
    assert all(f"## {name}\n" in tasks for name in SUITE)
    assert all(f"| `{column.name}` |" in tables for columns in TABLES.values() for column in columns)
    for module in reference_pages.PUBLIC_MODULES:
        page = pages[f"api-{module.rpartition('.')[2]}.md"].read_text("utf-8")
        for name, value in reference_pages.list_public_objects(import_module(module)):
            assert value in PRESETS.values() or f"{module}.{name}\n" in page or inspect.ismodule(value), name


def test_markdown_tables_of_docstrings_become_tables_of_restructured_text():
    lines = ["Rows:", "", "| column | unit |", "| --- | --- |", "| a, b | |", "", "End."]
    reference_pages.convert_markdown_tables(lines)
    assert lines == [
        *("Rows:", "", ".. list-table::", "   :header-rows: 1", ""),
        *("   * - column", "     - unit", "   * - a, b", "     - ", "", "End."),
    ]


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_no_text_before_a_colon_is_mistaken_for_a_type(name):
    for member, value in vars(PUBLIC[name]).items():
        if isinstance(value, property) and not member.startswith("_"):
            assert ": " not in (inspect.getdoc(value) or "").partition("\n")[0], member
        elif inspect.isfunction(value):
            returned = parse_docstring(value).returns
            assert returned is None or returned.type_name is None, member


def test_pages_of_classes_show_no_field_twice_and_of_policies_no_internal_member(tmp_path):
    reference_pages.write_pages(tmp_path)
    for kind, owner in PRESETS.items():
        page = (tmp_path / "generated" / "policies" / f"{find_public_name(kind)}.md").read_text("utf-8")
        omitted = set(re.findall(r"\w+", page.partition(":exclude-members:")[2].partition("\n")[0]))
        internal = vars(owner).keys() & {"pipeline", "revision", "truncation", "check_combination"}
        assert {*internal, *(field.name for field in dataclasses.fields(owner))} <= omitted
    page = (tmp_path / "generated" / "api-testing.md").read_text("utf-8")
    assert ".. autoclass:: harness.testing.LawResult\n   :exclude-members: law, findings, skip_reason\n" in page


def test_public_members_of_widgets_are_those_that_a_user_calls():
    """The reference shows what the classes themselves define."""
    public = {
        name: {member for member in vars(getattr(harness, name)) if not member.startswith("_")} - {"render_html", "render_text"}
        for name in ("AgentWidget", "CompactionExplorer", "GridForm", "GridWidget", "SessionInspector")
    }
    assert public == {
        "AgentWidget": {
            *(
                "change_policy",
                "close",
                "context_tokens",
                "for_fork",
                "fork",
                "fork_at_compaction",
                "forked",
                "from_session",
                "reopen",
                "state",
            ),
        },
        "CompactionExplorer": {
            *("change_settings", "close", "compare", "draw", "form", "open_form", "pin", "policy", "step", "step_count"),
            *("fork_at_compaction", "show_autopsy", "to_dataframe", "to_trial", "unpin", "window_tokens"),
        },
        "GridForm": {"close", "code", "command", "errors", "experiment", "grid", "limits", "plan", "start"},
        "GridWidget": {
            *("close", "inspector", "metric", "open_trial", "progress", "results", "selected_trial", "start", "state", "stop"),
            *("take_look", "wait"),
        },
        "SessionInspector": {
            *("fork_at_compaction", "run_twins", "show_autopsy", "show_check", "show_step", "step", "step_count"),
        },
    }


def test_the_page_on_the_architecture_lists_every_module():
    page = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("## Packages")[2].partition("\n## ")[0]
    modules = {path.stem for path in (CHECKOUT / "harness").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for name in modules - {"__init__"} if f"`{name}`" not in table} == set()


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "`int`"),
        (int | None, "`int` or `None`"),
        (Literal["auto", "on", "off"], "`'auto'`, `'on'` or `'off'`"),
        (Mapping[str, object], "`Mapping[str, object]`"),
        (World, "`World`"),
    ],
)
def test_types_are_shown_as_short_words_between_which_a_line_can_break(hint, words):
    assert reference_pages.format_type(hint) == words


def test_the_section_of_a_task_says_once_what_the_task_is():
    page = reference_pages.build_tasks_page()
    assert "The task `" not in page
    for name, template in SUITE.items():
        section = page.partition(f"\n## {name}\n\n")[2]
        assert section[0].isupper()
        assert template(0).title not in section.partition("\n\n")[2].partition("\n## ")[0]


def list_contexts(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(command, info_name=command.name, parent=parent, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from list_contexts(inner, context)


def test_the_page_of_the_command_line_shows_the_defaults_that_help_prints():
    shown: dict[tuple[str, str | None], str] = {}
    for context in list_contexts(harness.cli.main):
        printed = " ".join(context.command.get_help(context).split())
        page = click.Context(context.command)  # as sphinx-click makes it, without the settings of the command
        reference_pages.complete_option_help(page)
        for option in page.command.params:
            if isinstance(option, click.Option) and not option.hidden:
                shown[context.command_path, option.name] = text = " ".join((option.help or "").split())
                assert text in printed
    assert "[default: keep-last]" in shown["main agent", "policy"]
    assert sum("[default: " in text for text in shown.values()) > 30


def test_a_page_that_did_not_change_keeps_its_time_and_an_old_page_goes(tmp_path):
    reference_pages.write_pages(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    (tmp_path / "generated" / "policies" / "gone.md").write_text("old")
    reference_pages.write_pages(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")} == times
