"""Reference pages that are generated from the code: plan file, policies, tasks, tables, formats, commands and Python API.

`write_pages` writes the pages into `docs/generated`, which is not committed. Each page is derived from the declaration that the
program itself uses (fields of dataclasses, `PRESETS`, `SUITE`, `harness.store.columns`, the click commands), so a page cannot
disagree with the code.
"""

import dataclasses
import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import click
from docstring_parser import DocstringStyle, parse

from harness.compaction.conformance import CASES, FAULTS, list_cases, list_faults
from harness.compaction.description import extract_description, extract_source
from harness.compaction.origins import Origin, find_origin
from harness.compaction.pipeline import Preset
from harness.experiment.contrasts import MARGIN_KEY, Contrast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.plan import Settings
from harness.experiment.trial import Trial
from harness.policies import PRESETS, find_kind, find_public_name, load_policy_class, policy_from_plain
from harness.recordings import refused
from harness.session.preflight import count_first_request_tokens
from harness.store.columns import TABLES
from harness.task import Task
from harness.tasks import SUITE, VARIANTS, list_knobs

ROOT = Path(__file__).resolve().parents[1]
PUBLIC_MODULES = ("harness", "harness.policies", "harness.testing")
"""Modules whose `__all__` is the public Python API."""
TASK_SECONDS_FILE = Path(__file__).parent / "task_seconds.json"
"""Measured duration of a trial of each task, written by `docs/measure_tasks.py`."""


class FieldEntry(NamedTuple):
    """A documented field of a dataclass."""

    name: str
    type_text: str
    """Types or values that the field accepts, as Markdown."""
    default: str
    """Source text of the default; `required` where there is none."""
    description: str


def read_version() -> str:
    """Return the version that `pyproject.toml` declares."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def write_pages(docs: Path) -> None:
    """Write all generated pages and copy the notebooks below `docs`; files that did not change keep their time stamp."""
    pages = dict(
        [
            ("generated/plan-file.md", build_plan_page()),
            *build_policy_pages(),
            ("generated/tasks.md", build_tasks_page()),
            ("generated/tables.md", build_tables_page()),
            ("generated/recording-formats.md", build_formats_page()),
            ("generated/command-line.md", build_command_line_page()),
            *build_api_pages(),
        ]
    )
    for name, text in pages.items():
        _write_if_changed(docs / name, text.encode("utf-8"))
    sources = [path for path in (ROOT / "notebooks").iterdir() if path.suffix in {".ipynb", ".png"}]
    for path in sources:
        _write_if_changed(docs / "generated" / "notebooks" / path.name, path.read_bytes())
    kept = {docs / name for name in pages} | {docs / "generated" / "notebooks" / path.name for path in sources}
    for path in (docs / "generated").rglob("*.*"):
        if path.is_file() and path not in kept:
            path.unlink()


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def assign_public_modules() -> None:
    """Set `__module__` of each public class and function to the module that exports the object.

    The coverage builder of Sphinx counts an object only in the module that the object names as its own, and public names are
    defined elsewhere.
    """
    for module in map(import_module, PUBLIC_MODULES):
        for _, value in list_public_objects(module):
            if inspect.isclass(value) or inspect.isfunction(value):
                value.__module__ = module.__name__


def list_public_objects(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the names of a module's `__all__` with their objects, in alphabetical order."""
    return [(name, getattr(module, name)) for name in sorted(getattr(module, "__all__", ()), key=str.casefold)]


def read_fields(owner: type[Any]) -> list[FieldEntry]:
    """Return the fields of a dataclass that a user can set, in order of declaration.

    Raises:
        KeyError: the `Attributes` section of the class lacks a field.
    """
    descriptions = {entry.arg_name: entry.description or "" for entry in parse(owner.__doc__ or "", DocstringStyle.GOOGLE).params}
    hints = get_type_hints(owner)
    return [
        FieldEntry(
            name=field.name,
            type_text=format_type(hints[field.name]),
            default=format_default(field),
            description=re.sub(r"\s*(Default: `.*`\.|Required\.)$", "", " ".join(descriptions[field.name].split())),
        )
        for field in dataclasses.fields(owner)
        if field.init and field.name != "kind" and not field.name.startswith("_")
    ]


def format_default(field: "dataclasses.Field[Any]") -> str:
    """Return the default of a field as its documentation spells it; `required` for a field without one."""
    if field.default is not dataclasses.MISSING:
        value = field.default
        if inspect.isroutine(value) or inspect.isclass(value):
            return value.__name__
        return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        return repr(value) if isinstance(value, tuple | dict | list) else f"{type(value).__name__}()"
    return "required"


def format_type(hint: Any) -> str:
    """Return a type as Markdown, with each type of a union and each value of a `Literal` as a word of its own."""
    words = [f"`{word}`" for word in _list_alternatives(hint)]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _list_alternatives(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [repr(value) for value in get_args(hint)]
    if get_origin(hint) in {Union, UnionType}:
        return [word for part in get_args(hint) for word in _list_alternatives(part)]
    text = inspect.formatannotation(hint)
    return [re.sub(r"\b(?:typing|collections\.abc|harness(?:\.\w+)*)\.(?=[A-Za-z])", "", text).replace("NoneType", "None")]


def _build_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _find_field(owner: type[Any], name: str) -> Any:
    return next(entry for entry in read_fields(owner) if entry.name == name)


def _build_field_table(owner: type[Any], prefix: str = "") -> str:
    rows = [(f"`{prefix}{entry.name}`", entry.type_text, f"`{entry.default}`", entry.description) for entry in read_fields(owner)]
    return _build_table(("field", "type", "default", "meaning"), rows)


def build_plan_page() -> str:
    """Return the reference of `plan.toml`, from the dataclasses into which a plan is read."""
    trial = Trial(task="flashcards", policy=policy_from_plain({"kind": "none"}))
    return f"""# Fields of the plan file

`plan.toml` has four tables. {{doc}}`../guide/running-grids` explains how to use them. Unknown names and values of the wrong type
are refused before anything starts, with the path and what is allowed.

## `[experiment]`

{_build_field_table(Settings)}

`not_worse_margin` is the field of the same name of `Experiment`: {_find_field(Experiment, MARGIN_KEY).description}

## `[trial]`

The base trial. Every field can also be an axis or a change of an arm, addressed by its dotted path.

{_build_field_table(Trial)}

### `[trial.policy]`

`kind` names the policy; the other fields are those of that policy (see {{doc}}`policies/index`). `policy = "codex"` is
short for a policy with its defaults.

### `[trial.world]`

Properties of the task that can be varied. `harness tasks NAME` lists those that a task supports.

{_build_field_table(type(trial.world), "world.")}

### `[trial.sandbox]`

{_build_field_table(type(trial.sandbox), "sandbox.")}

### `[trial.sandbox.limits]`

{_build_field_table(type(trial.sandbox.limits), "sandbox.limits.")}

## `[axes]`

Each entry is the dotted path of a field of the trial and a list of values: `policy.threshold = [0.5, 0.8]`. The grid contains
every combination. Arms are compared within equal values of `task`, `seed` and `world.*`.

## `[[arms]]`

An arm beside the grid. It runs on every task, seed and world of the grid.

{_build_field_table(Arm)}

## `[[contrasts]]`

Primary comparisons of two arms, declared before the run; only they can be claimed. See *Reading results*.

{_build_field_table(Contrast)}
"""


def build_policy_pages() -> Iterator[tuple[str, str]]:
    """Yield the index of policies and one page for each."""
    rows = []
    pages = {find_public_name(kind): policy_class for kind, policy_class in PRESETS.items()}
    for name, policy_class in sorted(pages.items()):
        yield f"generated/policies/{name}.md", _build_policy_page(name, policy_class)
        source = extract_source(policy_class).replace("docs/sources.md", "{doc}`list of sources <../../sources>`")
        origin = find_origin(find_kind(name))
        assert origin is not None
        rows.append(
            (
                f"{{doc}}`{name} <{name}>`",
                extract_description(policy_class),
                source,
                *_list_origin(origin),
                _count_passed_cases(name),
            )
        )
    names = "\n".join(sorted(pages))
    yield (
        "generated/policies/index.md",
        f"""# Policies

{{doc}}`../../guide/choosing-a-policy` compares the families; {{doc}}`../../sources` lists the systems and papers. `harness
policies` prints this list in a terminal.

{_build_table(("name", "what it does", "source", "evidence", "version", "date", "cases passed"), rows)}

*Differential* policies are compared with their installed originals by tests, on the same conversations. *Modelled* policies
follow source text, documentation or recordings, but no test runs the original: their results are results of the policy, and
not of the system. A name with a version, such as `codex@2025`, is an older version; the name alone is the newest one.

## Situations that users report as failures

Tests put every policy into each situation that it can get into (`tests/contracts/test_public_reports.py`). Where an original acts
like its policy, {{doc}}`../../guide/choosing-a-policy` says so.

{_build_conformance_table()}

```{{toctree}}
:hidden:

{names}
```
""",
    )


def _count_passed_cases(name: str) -> str:
    """Return how many situations a policy passes, and the names of those in which it fails."""
    faults, cases = list_faults(find_kind(name)), list_cases(load_policy_class(name))
    return f"{len(cases) - len(faults)} of {len(cases)}" + (f"; not {', '.join(faults)}" if faults else "")


def _build_conformance_table() -> str:
    rows = []
    for case in CASES:
        failing = ", ".join(f"`{find_public_name(kind)}`" for kind in sorted(FAULTS.get(case.name, ())))
        rows.append((case.name, case.outcome, case.report, failing or "none"))
    return _build_table(("situation", "right outcome", "reported in", "policies that fail"), rows)


def _list_origin(origin: Origin) -> tuple[str, str, str]:
    return origin.evidence, origin.version, origin.date


def _build_policy_page(name: str, policy_class: type[Any]) -> str:
    return f"""# {name}

In a plan: `policy = "{name}"`. In Python: `harness.policies.{policy_class.__name__}()`. Origin: {find_origin(find_kind(name))}
(see [the list of policies](index.md)).

```{{eval-rst}}
{_build_directive(f"harness.policies.{policy_class.__name__}", policy_class)}```

`harness policies show {name} --window 32768` shows the thresholds in tokens and how the policy compacts at that window.
"""


def build_tasks_page() -> str:
    """Return the reference of the tasks of the suite."""
    seconds = json.loads(TASK_SECONDS_FILE.read_text("utf-8"))
    rows, sections = [], []
    for name, template in sorted(SUITE.items()):
        task = template(0)
        rows.append(
            (
                f"[{name}](#{name})",
                str(len(task.script.steps)),
                f"{count_first_request_tokens(task.prompt, task.runtime):,}",
                str(len(task.checks)),
                f"{seconds['cold'][name]:.1f} / {seconds['warm'][name]:.1f}",
                task.runtime,
                ", ".join(task.tags),
            )
        )
        sections.append(_build_task_section(name, task, template))
    header = ("task", "steps", "first request, tokens", "checks", "seconds, cold / warm", "runtime", "memory demands")
    variants = [(f"[{name}](#{name})", ", ".join(template(0).tags)) for name, template in sorted(VARIANTS.items())]
    sections += [_build_task_section(name, template(0), template) for name, template in sorted(VARIANTS.items())]
    return f"""# Tasks

Each task is a function from a seed to a workspace, a prompt, hidden checks and the script of a competent agent. `harness
tasks NAME` prints every fact and check of a task. {{doc}}`../guide/writing-a-task` explains how to write one.

Seconds are those of one trial of the base arm (`keep-last` at 0.8, extractive summaries, a window of 32,768 tokens), grading
included, measured on {seconds["machine"]}: *cold* with an empty action cache, *warm* when the same commands are in the cache.
*Memory demands* name what makes the task a test of memory: kinds of facts that the agent must remember, requirements that change,
tool outputs that fill the window, and *bookkeeping*, that is, knowing which parts of a long list are done.

{_build_table(header, rows)}

Variants put one more demand on a task. They are no part of the suite: what is said of the suite does not cover them.

{_build_table(("variant", "memory demands"), variants)}

{"".join(sections)}"""


def _build_task_section(name: str, task: Task, template: Any) -> str:
    description = (inspect.getdoc(inspect.getmodule(template)) or "").removeprefix(f"The task `{name}`: ")
    kinds = Counter(fact.kind for fact in task.facts)
    recoverable = sum(fact.reacquisition_calls is not None for fact in task.facts)
    facts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"""## {name}

{description[:1].upper()}{description[1:]}

- Facts to remember: {len(task.facts)} ({facts}), of which the agent can look up {recoverable} again.
- Properties that can be varied: {", ".join(f"`world.{knob}`" for knob in list_knobs(template))}.

"""


def build_tables_page() -> str:
    """Return the columns of every table of results, and the method that computes costs from the logs of loaded results."""
    sections = []
    for name, columns in TABLES.items():
        rows = [(f"`{column.name}`", f"`{column.dtype}`", column.unit, column.description) for column in columns]
        sections.append(f"## {name}\n\n{_build_table(('column', 'dtype', 'unit', 'meaning'), rows)}\n")
    return (
        "# Columns of the tables\n\n`Results.trials`, `Results.steps` and the other tables are pandas data frames with these"
        " columns; `Results.sql` queries them by the same names.\n\n"
        + "\n".join(sections)
        + "\n## Costs under price rules\n\n```{eval-rst}\n"
        ".. automethod:: harness.inspection.stored_twins.LoadedResults.price\n```\n"
    )


def build_formats_page() -> str:
    """Return the page on formats of recorded sessions, made of the page of each format, sorted by title, and of refused ones."""
    pages = sorted(path.read_text("utf-8") for path in (ROOT / "harness" / "recordings" / "formats").glob("*/page.md"))
    return (
        "# Formats of recorded sessions\n\nThe format of a file is recognised by its content. {doc}`../guide/recorded-sessions`"
        " explains how to use recorded sessions.\n\n"
        + "\n".join(page.replace("# ", "## ", 1) for page in pages)
        + "\n## Refused\n\nThe files of these agents are recognised and refused. Their source is not public and no file of them"
        " could be checked, so their messages and tokens could be read wrongly.\n\n| | |\n| --- | --- |\n"
        + "".join(f"| {agent.name} | {agent.recognised_by} |\n" for agent in refused.REFUSED_AGENTS)
    )


def build_command_line_page() -> str:
    """Return the page of the command line, which sphinx-click fills in from the commands."""
    return """# Command line

Exit codes: 0 for success, 1 for failed trials or sessions, 2 for an invalid request, 130 after Ctrl-C.

```{eval-rst}
.. click:: harness.cli:main
   :prog: harness
   :nested: full
```
"""


def complete_option_help(context: click.Context) -> None:
    """Add the default and the range of each option to its help text, as `--help` prints them.

    sphinx-click does not read `show_default` from the settings of the command. The options of the program stay as they are.
    """
    context.show_default = True
    options = [(parameter, copy(parameter)) for parameter in context.command.params]
    for option, completed in options:
        if isinstance(completed, click.Option):
            completed.help = (option.get_help_record(context) or ("", ""))[1]
    context.command = copy(context.command)
    context.command.params = [completed for _, completed in options]
    context.show_default = None  # the text is in the help now


def build_api_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each public module, with every name of its `__all__` but the policies, which have own pages."""
    for module in map(import_module, PUBLIC_MODULES):
        public = list_public_objects(module)
        directives = [
            _build_directive(f"{module.__name__}.{name}", value) for name, value in public if value not in PRESETS.values()
        ]
        has_policies = len(directives) < len(public)
        note = "\n\nEach policy has [a page of its own](policies/index.md)." if has_policies else ""
        first_line = (inspect.getdoc(module) or "").split("\n\n", 1)[0]
        text = f"# API: {module.__name__}\n\n{first_line}{note}\n\n```{{eval-rst}}\n.. py:module:: {module.__name__}\n\n"
        yield f"generated/api-{module.__name__.rpartition('.')[2]}.md", text + "\n".join(directives) + "```\n"


def convert_markdown_tables(lines: list[str]) -> None:
    """Convert the Markdown tables in the lines of a docstring to tables of reStructuredText, in place."""
    for index in range(len(lines) - 1, 0, -1):
        if re.fullmatch(r"\|( --- \|)+", lines[index]):
            end = next((at for at in range(index, len(lines)) if not lines[at].startswith("|")), len(lines))
            rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (lines[index - 1], *lines[index + 1 : end])]
            cells = [f"   {'  ' if at else '* '}- {cell}" for row in rows for at, cell in enumerate(row)]
            lines[index - 1 : end] = [".. list-table::", "   :header-rows: 1", "", *cells]


def _list_omitted_members(owner: object) -> list[str]:
    """Return the members of a class without an entry of their own: fields, and what a policy defines for the agent loop."""
    if not inspect.isclass(owner):
        return []
    fields = [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
    inherited = {name for base in owner.__mro__[1:] for name in vars(base)} if issubclass(owner, Preset) else set[str]()
    overridden = (name for name in vars(owner) if name in inherited and not name.startswith("_"))
    return list(dict.fromkeys([*fields, *getattr(owner, "_fields", ()), *overridden]))


def _build_directive(path: str, value: object) -> str:
    if inspect.ismodule(value):  # a figure, which is a module with functions
        return f".. rubric:: {path}\n\n.. automodule:: {value.__name__}\n   :members: table, draw\n"
    if omitted := ", ".join(_list_omitted_members(value)):
        return f".. autoclass:: {path}\n   :exclude-members: {omitted}\n"
    if inspect.isclass(value):
        return f".. auto{'exception' if issubclass(value, BaseException) else 'class'}:: {path}\n"
    return f".. autofunction:: {path}\n" if inspect.isfunction(value) else f".. autodata:: {path}\n   :no-value:\n"
