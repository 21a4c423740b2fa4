"""Widget `GridForm`, which builds an experiment from notebook controls and runs it in a `GridWidget`.

The controls are ordinary `ipywidgets`, so they can be read, set, observed and linked like any others. Each value is checked by
the class that will use it, so the form refuses what a plan file refuses. The summary below the controls is a widget of its own.
"""

import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import ipywidgets
import traitlets

from harness.analysis.planning import describe_comparability
from harness.compaction.description import find_summarizer, name_policy
from harness.conversation import codec
from harness.errors import HarnessError, MissingKey, UnknownName, UsageError, WindowTooSmall, format_count
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.limits import SECONDS_PER_HOUR, RunLimits, is_paid
from harness.experiment.source_text import format_experiment_code, format_experiment_plan
from harness.experiment.trial import Trial
from harness.policies import KeepLast, find_public_name, list_policy_names, load_policy_class, policy_from_plain, resolve_policy
from harness.protocols import Policy
from harness.tasks import SUITE
from harness.text import escape_html, format_duration
from harness.widgets.assets import load_script, load_style
from harness.widgets.controls import SUMMARIZERS, Control, build_controls
from harness.widgets.harness_widget import HarnessWidget, SavedForm, SnapshotWidget, render_preformatted, render_table

if TYPE_CHECKING:
    from harness.widgets.grid import GridWidget  # imports pandas, which only a run needs

DEFAULT_NAME = "grid-from-form"
DEFAULT_SEEDS = (0, 1, 2)
DEFAULT_WINDOW_TOKENS = 32_768
LIMIT_LABELS = {"max_trials": "most trials", "max_usd": "most US dollars", "max_hours": "most hours"}
"""Labels of the controls for the limits of each run, by name of the limit."""
LIMIT_NAMES = tuple(LIMIT_LABELS)
CONTROL_ARM = Arm(name="control: no compaction", trial={"policy": {"kind": "none"}})
NOT_WORSE_MARGIN = 0.05
"""Largest loss in success or score up to which reports on grids from a form call an arm not worse."""
MAX_SEEDS = 10_000
_SEED_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")


class FormSummary(HarnessWidget):
    """Summary of the experiment that a form describes: trials, cost, time, power, code and plan file."""

    _esm: ClassVar[str] = load_script("grid_form")
    _css: ClassVar[str] = load_style("grid_form")


@dataclass(slots=True)
class _Entries:
    """Valid values of a form's controls, and error messages for the other controls, by name of the control."""

    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


class GridForm(SavedForm, ipywidgets.VBox):  # type: ignore[misc]
    """Form that builds a grid of trials from controls, shows its cost and what it can show, and runs it.

    If a control contains several values, trials differ in this setting (an axis of the grid). A single value applies to all
    trials. Wrong values are named beside their control, and the grid cannot be started until they are corrected.

    Args:
        base: Trial that gives every setting its value that no control changes, e.g. `explorer.to_trial("flashcards")`; None is a
            scripted trial of the task `flashcards` in a window of 32,768 tokens. Default: `None`.
        policy: Policy, or its public name, whose values the controls show first; None is the policy of `base`. Default: `None`.
        tasks: Names of the tasks chosen first; None is the task of `base`. Default: `None`.
        seeds: Seeds chosen first. Default: `(0, 1, 2)`.
        values: Values chosen first for fields of the policy, by field, e.g. `{"threshold": [0.5, 0.8]}`. None takes the values of
            the policy. Default: `None`.
        name: Name of the experiment chosen first. Default: `'grid-from-form'`.
        output: Folder for the journal and the tables; None is the experiment's own folder. Default: `None`.
        workers: Maximum number of trials that run at the same time; None is the number of processors. Default: `None`.
        limits: Maximum number of trials, cost or time of each run that the controls show first; None sets no limit. Default:
            `None`.

    Attributes:
        controls: Controls (`ipywidgets`) by name: `name`, `task`, `seed`, `policy`, `model`, `window_tokens`, `control_arm`,
            `max_trials`, `max_usd`, `max_hours`. An empty limit is none.
        fields: Controls of the fields of the chosen policy by name, e.g. `threshold` and `summarizer`.
        start_button: Button that runs the grid; disabled while a value is wrong or the grid runs.
        pilot_button: Button that runs one trial of each task, from which the cost and time of the others are estimated.
        experiment: Experiment that the controls describe; None while a value is wrong. Trait, read-only.
        limits: Limits of each run that the controls describe; without limits while a value is wrong. Trait, read-only.
        errors: Error message of each control with a wrong value, by name. Trait, read-only.
        grid: Widget of the grid that was started last, shown below; None if there is none. Trait, read-only.

    Example::

        form = harness.GridForm(tasks=["flashcards", "rename-sweep"], values={"threshold": [0.5, 0.8]})
        form.fields["keep_last"].value = "4, 20"
        print(form.code)
        form.start().wait()

    Raises:
        UsageError: A starting value names a task, a policy or a field that does not exist.
    """

    experiment = traitlets.Instance(Experiment, allow_none=True, read_only=True)
    limits = traitlets.Instance(RunLimits, args=(), read_only=True)
    errors = traitlets.Dict(read_only=True)
    grid: Any = traitlets.Instance(SnapshotWidget, allow_none=True, read_only=True)

    def __init__(
        self,
        base: Trial | None = None,
        *,
        policy: Policy | str | None = None,
        tasks: Sequence[str] | None = None,
        seeds: Sequence[int] = DEFAULT_SEEDS,
        values: Mapping[str, Sequence[object]] | None = None,
        name: str = DEFAULT_NAME,
        output: str | os.PathLike[str] | None = None,
        workers: int | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        super().__init__()
        self._base = base or Trial(
            task="flashcards",
            policy=KeepLast(summarizer="scripted/extractive"),
            window_tokens=DEFAULT_WINDOW_TOKENS,
        )
        self._policy = self._base.policy if policy is None else resolve_policy(policy)
        self._output = None if output is None else Path(output)
        self._workers, self._lock, self._is_closed = workers, threading.RLock(), False
        self._summary = FormSummary()
        self._refusal = ""
        self._facts: list[tuple[str, str]] = []
        self.controls: dict[str, Any] = {
            **self._build_controls(tasks or (self._base.task,), seeds, name),
            **_build_limit_controls(limits or RunLimits()),
        }
        self.fields: dict[str, Any] = {}
        self.start_button = ipywidgets.Button(description="Start", tooltip="run the grid below", button_style="primary")
        self.start_button.on_click(lambda _: self._on_click(pilot=False))
        self.pilot_button = ipywidgets.Button(description="Pilot", tooltip="run one trial of each task to learn cost and time")
        self.pilot_button.on_click(lambda _: self._on_click(pilot=True))
        self._error_labels: dict[str, Any] = {}
        self._field_box, self._grid_box = ipywidgets.VBox(), ipywidgets.VBox()
        rows = [self._build_row(key, control) for key, control in self.controls.items()]
        place = 1 + list(self.controls).index("policy")
        buttons = ipywidgets.HBox([self.start_button, self.pilot_button])
        controls = ipywidgets.VBox([*rows[:place], self._field_box, *rows[place:]])
        columns = ipywidgets.HBox([controls, ipywidgets.VBox([buttons, self._summary])])
        for box, place_name in ((columns, "columns"), (controls, "controls"), (columns.children[1], "estimate")):
            box.add_class(f"harness-form-{place_name}")
        self.children = [columns, self._grid_box]
        self.add_class("harness-form")
        for key, control in self.controls.items():
            control.observe(self._on_policy if key == "policy" else self._on_change, "value")
        self._show_fields(values or {})
        self._update()

    @property
    def code(self) -> str:
        """Python code that builds the same experiment and, if there are any, its limits; empty while a value is wrong."""
        if self.experiment is None:
            return ""
        lines = ["import harness", "", format_experiment_code(self.experiment)]
        if limit_values := _list_limits(self.limits):
            arguments = ", ".join(f"{name}={value!r}" for name, value in limit_values.items())
            lines.append(f"limits = harness.RunLimits({arguments})  # experiment.run(limits=limits)")
        return "\n".join(lines)

    @property
    def plan(self) -> str:
        """Content of a `plan.toml` for the same experiment; empty while a value is wrong.

        Limits are part of `command` instead.
        """
        return format_experiment_plan(self.experiment) if self.experiment else ""

    @property
    def command(self) -> str:
        """Shell command that runs the plan from a folder named after the experiment; empty while a value is wrong."""
        if self.experiment is None:
            return ""
        options = [f"--{name.replace('_', '-')} {value}" for name, value in _list_limits(self.limits).items()]
        return " ".join(["harness run", shlex.quote(self.experiment.name), *options])

    def start(self, *, pilot: bool = False) -> "GridWidget":
        """Run the grid in a `GridWidget` below the form, and return the widget at once.

        A stopped grid whose values have not changed continues in its widget.

        Args:
            pilot: Run only one trial of each task that has no finished trial, to estimate the cost and time of the others.
                Default: `False`.

        Raises:
            UsageError: A value is wrong, or the grid that was started before is still running.
            StoreError: The journal in the output folder cannot be read.
        """
        if self.experiment is None:
            wrong = "; ".join(f"{name}: {text}" for name, text in self.errors.items()) or self._refusal
            raise UsageError(f"the grid cannot start: {wrong}")
        before = cast("GridWidget | None", self.grid)
        if before is not None and before.state in ("running", "stopping"):
            raise UsageError("the grid below is still running; stop it first, or wait until it ends")
        grid = before
        if grid is None or grid.experiment != self.experiment:
            from harness.widgets.grid import GridWidget  # noqa: PLC0415  (imports pandas, which the form does not need)

            grid = GridWidget(self.experiment, self._output, workers=self._workers)
            grid.observe(self._on_change, "state")
            self.set_trait("grid", grid)
            self._grid_box.children = (grid,)
            if before is not None:
                before.close()
        grid.limits = self.limits
        grid.start(pilot=pilot)
        return grid

    def close(self) -> None:
        """Stop the grid, wait until its run has ended, and close the form. May be called more than once."""
        if self.grid is not None:
            if not self._is_closed:
                self.grid.unobserve(self._on_change, "state")
            self.grid.close()
        self._is_closed = True
        self._summary.close()
        super().close()

    def render_text(self) -> str:
        """Return trials, cost, time, power and code of the experiment as plain text, or what values are wrong."""
        lines = [f"{name}: {text}" for name, text in (*self._facts, *self.errors.items())]
        code_lines = ["", self.code, "", self.command] if self.code else []
        return "\n".join([*lines, *([self._refusal] if self._refusal else []), *code_lines])

    def render_html(self) -> str:
        """Return trials, cost, time, power and code of the experiment as static HTML, or what values are wrong."""
        rows = [*self._facts, *self.errors.items(), *([("", self._refusal)] if self._refusal else [])]
        return render_table((), rows) + (render_preformatted(f"{self.code}\n\n{self.command}") if self.code else "")

    # --- controls --------------------------------------------------------------------------------------------------------

    def _build_controls(self, tasks: Sequence[str], seeds: Sequence[int], name: str) -> dict[str, Any]:
        offered_tasks = tuple(dict.fromkeys((*SUITE, *tasks)))
        models = tuple(dict.fromkeys(("scripted", "scripted:typical", self._base.model)))
        policy_name = find_public_name(name_policy(self._policy))
        return {
            "name": _make_text("name", name),
            "task": _make_choice("tasks", offered_tasks, tasks),
            "seed": _make_text("seeds", _format_seeds(seeds)),
            "policy": ipywidgets.Dropdown(
                description="policy",
                options=tuple(dict.fromkeys((*list_policy_names(), policy_name))),
                value=policy_name,
            ),
            "model": ipywidgets.Combobox(
                description="model", options=models, value=self._base.model, ensure_option=False, continuous_update=False
            ),
            "window_tokens": _make_text(
                "window, tokens", "" if self._base.window_tokens is None else str(self._base.window_tokens)
            ),
            "control_arm": ipywidgets.Checkbox(
                description="control without compaction", value=False, indent=False, tooltip="one more arm, which never compacts"
            ),
        }

    def _build_row(self, key: str, control: Any) -> Any:
        label = ipywidgets.HTML()
        label.add_class("harness-form-error")
        control.add_class(f"harness-control-{key}")
        self._error_labels[key] = label
        return ipywidgets.HBox([control, label])

    def _show_fields(self, values: Mapping[str, Sequence[object]]) -> None:
        """Create controls for the fields of the chosen policy: one for each prominent number, and one for the summarizer."""
        fields = {
            field["name"]: _make_text(
                field["name"].replace("_", " "), _format_values(values.get(field["name"]), self._policy, field)
            )
            for field in self._list_prominent_fields()
        }
        if (summarizer := find_summarizer(self._policy)) is not None:
            chosen = [str(name) for name in values.get("summarizer", (summarizer,))]
            fields["summarizer"] = _make_choice("summarizers", tuple(dict.fromkeys((*SUMMARIZERS, *chosen))), chosen)
        if unknown := sorted(set(values) - set(fields)):
            known = ", ".join(fields) or "none"
            raise UsageError(
                f"values: the policy {name_policy(self._policy)!r} has no control for {', '.join(unknown)}; it has {known}"
            )
        for key in set(self.fields) - set(fields):
            del self._error_labels[key]
        self.fields = fields
        self._field_box.children = tuple(self._build_row(key, control) for key, control in fields.items())
        for control in fields.values():
            control.observe(self._on_change, "value")

    def _list_prominent_fields(self) -> list[Control]:
        try:
            policy_class = load_policy_class(name_policy(self._policy))
        except UsageError:  # a policy object without a public name keeps its values
            return []
        return [field for field in build_controls(policy_class) if field["first"]]

    def _on_change(self, _: object) -> None:
        self._update()

    def _on_policy(self, _: object) -> None:
        with self._lock:
            name = self.controls["policy"].value
            base = self._base.policy
            self._policy = base if find_public_name(name_policy(base)) == name else resolve_policy(name)
            self._show_fields({})
        self._update()

    def _on_click(self, *, pilot: bool) -> None:
        try:
            self.start(pilot=pilot)
        except HarnessError as error:
            self._summary.channel.update_state(refusal=str(error))

    # --- experiment ------------------------------------------------------------------------------------------------------

    def _update(self) -> None:
        """Read all controls, and show the experiment that they describe or what is wrong."""
        with self._lock:
            entries = self._read_controls()
            experiment, self._refusal = None, ""
            limits = RunLimits(**{name: entries.values[name] for name in LIMIT_NAMES if name in entries.values})
            if not entries.errors:
                try:
                    experiment = self._build_experiment(entries.values)
                    experiment.check()
                    limits.refuse_unknown_prices(
                        dict.fromkeys(name for trial in experiment.grid.iter_trials() for name in trial.models)
                    )
                except HarnessError as error:
                    experiment, place = None, _locate_error(error)
                    if place in self._error_labels:
                        entries.errors[place] = str(error)
                    else:
                        self._refusal = str(error)
            self._facts = self._describe(experiment, limits) if experiment else []
        for key, label in self._error_labels.items():
            label.value = f'<span role="alert">{escape_html(entries.errors[key])}</span>' if key in entries.errors else ""
        self.set_trait("errors", entries.errors)
        self.set_trait("limits", limits if experiment else RunLimits())
        self.set_trait("experiment", experiment)
        running = self.grid is not None and self.grid.state in ("running", "stopping")
        self.start_button.disabled = self.pilot_button.disabled = experiment is None or running
        self._summary.channel.update_state(
            facts=self._facts,
            refusal=self._refusal,
            wrong=list(entries.errors),
            code=self.code,
            plan=self.plan,
            command=self.command,
        )

    def _read_controls(self) -> _Entries:
        entries = _Entries()
        readers: dict[str, Callable[[Any], Any]] = {
            "name": self._read_name,
            "task": lambda value: _require_choice("task", value),
            "seed": _parse_seeds,
            "window_tokens": _parse_window,
            **{name: partial(_parse_limit, name) for name in LIMIT_NAMES},
            "model": lambda value: replace(self._base, model=value.strip()).model or _refuse("choose a model"),
        }
        for key, read in readers.items():
            try:
                entries.values[key] = read(self.controls[key].value)
            except HarnessError as error:
                entries.errors[key] = str(error).removeprefix(f"{key}: ")
        for key, control in self.fields.items():
            try:
                entries.values[key] = self._read_field(key, control.value)
            except HarnessError as error:
                entries.errors[key] = str(error).removeprefix("policy: ").removeprefix(f"policy.{key}: ")
        return entries

    def _read_name(self, text: str) -> str:
        name = text.strip()
        if not name or name in (".", "..") or {"/", "\\"} & set(name):
            raise UsageError(f"must be the name of a folder (got {name!r})")
        return name

    def _read_field(self, key: str, value: Any) -> tuple[object, ...]:
        if key == "summarizer":
            values: tuple[object, ...] = _require_choice(key, value)
        else:
            kind = next(field["kind"] for field in self._list_prominent_fields() if field["name"] == key)
            values = tuple(dict.fromkeys(_parse_number(part, share=kind == "share") for part in _split(value)))
        plain: dict[str, Any] = codec.to_plain(self._policy)
        for parsed_value in values:
            # the class of the policy checks the value
            policy_from_plain({**plain, key: parsed_value})
        return values

    def _build_experiment(self, values: Mapping[str, Any]) -> Experiment:
        plain = {**codec.to_plain(self._policy), **{key: values[key][0] for key in self.fields}}
        policy = policy_from_plain(plain) if self.fields else self._policy
        base = replace(
            self._base,
            task=values["task"][0],
            seed=values["seed"][0],
            policy=policy,
            model=values["model"],
            window_tokens=values["window_tokens"],
        )
        axes = {"task": values["task"], **{f"policy.{key}": values[key] for key in self.fields}, "seed": values["seed"]}
        return Experiment(
            name=values["name"],
            base=base,
            axes={path: list(several) for path, several in axes.items() if len(several) > 1},
            arms=(CONTROL_ARM,) if self.controls["control_arm"].value else (),
            not_worse_margin=NOT_WORSE_MARGIN,
        )

    def _describe(self, experiment: Experiment, limits: RunLimits) -> list[tuple[str, str]]:
        forecast = experiment.estimate(self._output, workers=self._workers)
        cells = experiment.grid
        sizes = ", ".join(f"{len(values)} × {path.removeprefix('policy.')}" for path, values in experiment.axes.items())
        arms = format_count(len({cell.arm for cell in cells}), "arm")
        finished = f"; {forecast.finished_trials:,} finished before" if forecast.finished_trials else ""
        trials = f"{format_count(len(cells), 'trial')}, {arms}{f' ({sizes})' if sizes else ''}{finished}"
        warnings = [("warning", text) for text in experiment.collect_warnings()]
        comparison = describe_comparability(experiment).removeprefix("comparison of two arms: ").replace("\n", "; ")
        return [
            ("trials", trials),
            *([("revisions", outdated)] if (outdated := forecast.describe_outdated()) else []),
            ("cost", forecast.describe_cost()),
            ("time", forecast.describe_time()),
            ("each run stops", _describe_limits(limits, experiment)),
            ("comparison of two arms", comparison),
            ("results", str(self._output or experiment.output)),
            *warnings,
        ]


def _locate_error(error: HarnessError) -> str:
    """Return the control whose value causes an error of the whole experiment; empty if it is unknown."""
    if str(error).startswith("max_usd: "):
        return "max_usd"
    match error:
        case WindowTooSmall():
            return "window_tokens"
        case MissingKey():
            return "model"
        case UnknownName():
            words = error.what.split()
            return next((name for name in ("summarizer", "task", "model") if name in words), "")
    return ""


def _make_text(description: str, value: str, placeholder: str = "") -> Any:
    return ipywidgets.Text(description=description, value=value, placeholder=placeholder, continuous_update=False)


def _build_limit_controls(limits: RunLimits) -> dict[str, Any]:
    limit_values = _list_limits(limits)
    return {name: _make_text(label, str(limit_values.get(name, "")), "no limit") for name, label in LIMIT_LABELS.items()}


def _list_limits(limits: RunLimits) -> dict[str, float]:
    values = {name: getattr(limits, name) for name in LIMIT_NAMES}
    return {name: int(value) if value == int(value) else value for name, value in values.items() if value is not None}


def _describe_limits(limits: RunLimits, experiment: Experiment) -> str:
    texts = [] if limits.max_trials is None else [f"after {format_count(int(limits.max_trials), 'trial')}"]
    if limits.max_usd is not None:
        is_free = not any(is_paid(name) for trial in experiment.grid.iter_trials() for name in trial.models)
        texts.append(f"at ${limits.max_usd:,.2f}{' (never reached: no model of this grid costs money)' if is_free else ''}")
    if limits.max_hours is not None:
        texts.append(f"after {format_duration(limits.max_hours * SECONDS_PER_HOUR)}")
    return f"{' or '.join(texts)}; the next run goes on" if texts else "when all trials have finished"


def _make_choice(description: str, options: Sequence[str], chosen: Iterable[object]) -> Any:
    unknown = [name for name in chosen if name not in options]
    assert not unknown, unknown
    return ipywidgets.SelectMultiple(description=description, options=options, value=tuple(chosen), rows=min(8, len(options)))


def _format_values(values: Sequence[object] | None, policy: Policy, control: Control) -> str:
    return ", ".join(str(value) for value in (values or [getattr(policy, control["name"])]))


def _format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds as text, e.g. `0-4` for consecutive ones."""
    several = [int(seed) for seed in seeds]
    if len(several) > 1 and several == list(range(several[0], several[-1] + 1)):
        return f"{several[0]}-{several[-1]}"
    return ", ".join(map(str, several))


def _split(text: str) -> list[str]:
    parts = [part for part in re.split(r"[,;\s]+", text.strip()) if part]
    return parts or _refuse("enter at least one value")


def _refuse(message: str) -> Any:
    raise UsageError(message)


def _require_choice(key: str, chosen: Sequence[str]) -> tuple[str, ...]:
    if not chosen:
        raise UsageError(f"select at least one {key}")
    return tuple(chosen)


def _parse_number(text: str, *, share: bool) -> float | int:
    with suppress(ValueError):
        return float(text) if share else int(text.replace("_", ""))
    raise UsageError(f"must be {'a number' if share else 'a whole number'} (got {text!r})")


def _parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in a text such as `0-4` or `0, 1, 5`."""
    seeds: dict[int, None] = {}
    for part in _split(re.sub(r"\s*-\s*", "-", text)):
        if match := _SEED_RANGE.fullmatch(part):
            first, last = int(match[1]), int(match[2])
            if last - first >= MAX_SEEDS:
                raise UsageError(f"at most {MAX_SEEDS:,} seeds (got {part!r})")
            seeds.update(dict.fromkeys(range(first, last + 1) or _refuse(f"the range {part!r} is empty")))
        elif part.isdecimal():
            seeds[int(part)] = None
        else:
            raise UsageError(f"must be whole numbers, at least 0, or a range such as 0-4 (got {part!r})")
    return tuple(seeds)


def _parse_limit(name: str, text: str) -> float | None:
    """Return the limit of a run that a user has entered; None (no limit) for an empty text."""
    digits = text.strip().removeprefix("$").replace(",", "").replace("_", "")
    if not digits:
        return None
    is_whole = name == "max_trials"
    with suppress(ValueError):
        value = int(digits) if is_whole else float(digits)
        if value > 0 and isfinite(value):
            return value
    raise UsageError(f"must be {'a whole number' if is_whole else 'a number'} above 0, or empty for no limit (got {text!r})")


def _parse_window(text: str) -> int | None:
    """Return the context window in tokens that a user has entered; None (the model's own) for an empty text."""
    digits = text.strip().replace(",", "").replace("_", "")
    if not digits:
        return None
    if not digits.isdecimal() or int(digits) < 1:
        raise UsageError(f"must be a whole number of tokens, at least 1, or empty for the model's own window (got {text!r})")
    return int(digits)
