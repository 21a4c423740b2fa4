"""Grid of an experiment: all its trials, one for every combination of the values under study.

A setting under study, such as `policy.threshold`, is an axis. Each trial is made from the base trial by giving every axis one of
its values. Extra arms (configurations such as controls) are added. Trials are ordered by task, seed and world (settings of the
task), so that trials that are compared with each other run close together. Of trials with equal configurations, one is kept.

A grid does not hold its trials in memory. Each problem is combined with each configuration while the trials are iterated over, so
a grid of a million trials needs little memory. Only if the configurations depend on the problem does the grid hold all its
trials: with quantiles, or with an extra arm that sets the task, the seed or the world.

All trials of one configuration, on whatever task and seed, have the same arm name. A number of tokens that is given as a quantile
(see `harness.experiment.quantiles`) differs between tasks but counts as the same configuration, so tables show the quantile.

A grid may be run once more with other models. The name of an arm then ends with the other model, e.g. `control (with gpt-5)`.
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, overload

from harness.compaction.description import inspect_abilities
from harness.compaction.presets.recency import Recency
from harness.conversation import codec
from harness.errors import UsageError, format_count
from harness.experiment.paths import (
    BLOCK_AXES,
    ValueNamer,
    flatten,
    format_short,
    is_arm_setting,
    is_block,
    list_changes,
    list_paths,
    look_up_value,
    name_control,
    name_repeated_arm,
    parse_repeated_arm,
    with_values,
)
from harness.experiment.quantiles import Quantile, UncompactedRun, resolve_quantiles
from harness.experiment.trial import SharedFields, Trial, format_problem, refuse_function_without_file, to_plain
from harness.policies import expand_shorthand, policy_from_plain, resolve_policy
from harness.sandboxes.backends import BackendName
from harness.task import World

MAX_TRIALS = 1_000_000
MAX_KEPT_CELLS = 20_000
"""Largest number of trials of a grid that keeps them when all were made, in 12 MB; a larger grid makes them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Extra configuration in an experiment, e.g. a control, that is run on every task and seed.

    The configuration is the base trial with some changes.

    Attributes:
        name: Name of the arm (compared configuration) in tables and charts. Required.
        trial: Differences from the base trial, as nested tables or dotted paths. A policy, its public name, a function, or a
            table with a `kind` replaces the whole policy. If there are none and the experiment varies only task, seed and world,
            the arm gives the base trial its name. Default: `{}`.

    Example:
        >>> from harness import Arm
        >>> Arm(name="control", trial={"policy": "none"}).name
        'control'
    """

    name: str
    trial: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert policies and other objects to tables as in a plan file."""
        if isinstance(self.trial, Mapping):  # the grid refuses everything else
            changes = {path: _normalize_value(path, value, f"arms.{self.name}") for path, value in self.trial.items()}
            object.__setattr__(self, "trial", changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Trial of an experiment with the name of its configuration (arm) and its values for the settings under study."""

    trial: Trial
    arm: str
    """Name of the arm (the compared configuration) of the trial, equal for all seeds and tasks."""
    axes: Mapping[str, object]
    """Value of the trial for each setting under study, by dotted path such as `policy.threshold`.

    A quantile is shown as in the plan, e.g. as `q0.9`. None means that the trial does not have the setting.
    """
    quantiles: Mapping[str, Quantile] = field(default_factory=dict)
    """Numbers of tokens that the plan gives as quantiles, such as `q0.9`, by the dotted path of the setting in the trial."""
    trial_id: str = ""
    """Id of the trial; computed if it is not given."""
    other_model: str = ""
    """Name of the model with which the arm is run once more; empty for the model of the grid."""

    def __post_init__(self) -> None:
        if not self.trial_id:
            object.__setattr__(self, "trial_id", self.trial.trial_id)

    @property
    def trial_table(self) -> dict[str, object]:
        """Configuration of the trial as nested dicts, with quantiles as texts such as `q0.9`, as in a plan file."""
        return with_values(to_plain(self.trial), {path: quantile.text for path, quantile in self.quantiles.items()}, "trial")


class Grid(Sequence[Cell]):
    """All trials of an experiment with their labels (cells), as a sequence in a fixed order."""

    def __init__(
        self,
        base: Trial,
        axes: Mapping[str, Sequence[object]],
        arms: Sequence[Arm] = (),
        *,
        other_models: Sequence[str] = (),
        controls: bool = False,
        backend: BackendName | None = None,
        uncompacted: UncompactedRun | None = None,
    ) -> None:
        """Build all trials from the base trial, the values of each setting under study, and the extra configurations.

        Args:
            base: Trial that gives every setting its value unless an axis or an extra arm changes the setting.
            axes: Values of each setting under study, by the setting's dotted path, such as `policy.threshold`.
            arms: Extra configurations, such as controls, that are run in addition to the combinations of axis values.
            other_models: Names of models with which all these trials are run once more.
            controls: Whether each configuration that compacts gets a control, which retains equally many tokens of the newest
                messages.
            backend: Sandbox backend for all trials; None keeps the backends that `base`, `axes` and `arms` give.
            uncompacted: Finished run without compaction in which quantiles are looked up; None if there are no quantiles.

        Raises:
            UnknownName: An axis or an arm names a path that trials do not have.
            UsageError: An axis is empty or not a list, two arms have the same name, a value has the wrong type, or a quantile
                cannot be looked up.
        """
        if not isinstance(axes, Mapping):
            raise UsageError(f"axes: must be a table with a list of values for each path (got {axes!r:.80})")
        self._base, self._backend, self._uncompacted = to_plain(base), backend, uncompacted
        self._axes = {path: _normalize_values(path, axes[path]) for path in sorted(axes)}
        _refuse_invalid_axes(self._axes, arms)
        _refuse_invalid_models(other_models, base.model, self._axes, arms)
        count = math.prod(map(len, self._axes.values()))
        if count > MAX_TRIALS:
            raise UsageError(f"axes: {count:,} combinations of values are more than the {MAX_TRIALS:,} that a grid may have")
        self._shared = SharedFields()
        self._shared.parse("policy", self._base["policy"], "base.policy")  # refuses an object that is not registered
        self._problem_axes = {path: values for path, values in self._axes.items() if is_block(path)}
        slots = [
            replace(slot, values={**slot.values, **({"model": model} if model else {})}, other_model=model)
            for model in ("", *other_models)
            for slot in self._list_slots(arms)
        ]
        first = _look_up_point(self._problem_axes, 0)
        templates = [self._build_cell(first, slot) for slot in slots]
        self._cells: tuple[Cell, ...] = ()
        """All trials, if their configurations depend on the problem; else empty."""
        self._templates: tuple[Cell, ...] = ()
        """Trials of the first problem (task, seed, world), from which the trials of the other problems are made on demand."""
        self._kept_cells: tuple[Cell, ...] = ()
        """All trials after the first pass through a grid that is not large, since a run passes through it five times."""
        if self._are_configurations_fixed(slots, templates):
            self._check_problems()
            self._templates = self._add_controls(_name_arms(tuple(_drop_duplicates(iter(templates)))), controls)
            _refuse_shared_names(self._templates)
        else:
            cells = (self._build_cell(problem, slot) for problem in _iter_points(self._problem_axes) for slot in slots)
            self._cells = self._add_controls(_name_arms(tuple(_drop_duplicates(cells))), controls)
            _refuse_shared_names(self._cells)

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...
    def __getitem__(self, index: int | slice) -> Cell | Sequence[Cell]:
        """Return the trial of the experiment at an index, or the trials of a slice."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if self._cells:
            return self._cells[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"the grid has {format_count(len(self), 'trial')} (index {index})")
        problem_number, template_number = divmod(place, len(self._templates))
        problem = self._parse_problem(_look_up_point(self._problem_axes, problem_number))
        return self._move_to_problem(self._templates[template_number], problem)

    def __iter__(self) -> Iterator[Cell]:
        """Yield all trials, each made when it is needed; those of a grid that is not large are kept for the next time."""
        if cells := self._cells or self._kept_cells:
            yield from cells
            return
        made: list[Cell] = []
        for values in _iter_points(self._problem_axes):
            problem = self._parse_problem(values)
            for template in self._templates:
                cell = self._move_to_problem(template, problem)
                if len(self) <= MAX_KEPT_CELLS:
                    made.append(cell)
                yield cell
        self._kept_cells = tuple(made)

    def __len__(self) -> int:
        return len(self._cells) or len(self._templates) * math.prod(map(len, self._problem_axes.values()))

    @property
    def cells_with_quantiles(self) -> tuple[Cell, ...]:
        """Trials in which the plan gives a number of tokens as a quantile, such as `q0.9`."""
        return tuple(cell for cell in self._cells if cell.quantiles)

    def iter_trials(self) -> Iterator[Trial]:
        """Yield all trials without computing their ids, which would take longer than making the trials."""
        if self._cells:
            yield from (cell.trial for cell in self._cells)
            return
        for values in _iter_points(self._problem_axes):
            problem = self._parse_problem(values)
            for template in self._templates:
                yield problem.set_in(template.trial)

    def iter_seed_groups(self) -> Iterator[tuple[Trial, int]]:
        """Yield groups of trials that differ in their seed alone: one of the trials, and their number.

        A group may be yielded in several parts.
        """
        if self._cells:
            yield from ((cell.trial, 1) for cell in self._cells)
            return
        first = _look_up_point(self._problem_axes, 0)
        seed_count = len(self._problem_axes.get("seed", (None,)))
        for values in _iter_points({path: values for path, values in self._problem_axes.items() if path != "seed"}):
            problem = self._parse_problem({**first, **values})
            for template in self._templates:
                yield problem.set_in(template.trial), seed_count

    def iter_problems(self) -> Iterator[tuple[str, int]]:
        """Yield the name of the task, with its settings, and the seed of each problem; a pair may be repeated."""
        if self._cells:
            yield from ((cell.trial.problem, cell.trial.seed) for cell in self._cells)
            return
        for values in _iter_points(self._problem_axes):
            problem = self._parse_problem(values)
            yield format_problem(problem.task, problem.world), problem.seed

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of all compared configurations (arms), in the order in which they run."""
        return tuple(dict.fromkeys(cell.arm for cell in self._cells or self._templates))

    def __repr__(self) -> str:
        sizes = " × ".join(f"{path}[{len(values)}]" for path, values in self._axes.items())
        return f"Grid({format_count(len(self), 'trial')}: {sizes or 'no axes'})"

    def _list_slots(self, arms: Sequence[Arm]) -> "Iterator[_Slot]":
        arm_axes = {path: values for path, values in self._axes.items() if not is_block(path)}
        for point in _iter_points(arm_axes):
            yield _Slot(values=point, location="axes")
        for arm in arms:
            yield _Slot(values=list_changes(arm.trial), location=f"arms.{arm.name}", name=arm.name)

    def _are_configurations_fixed(self, slots: "Sequence[_Slot]", templates: Sequence[Cell]) -> bool:
        """Return whether the same configurations are run on every problem."""
        if any(cell.quantiles for cell in templates) or any(is_block(path) for slot in slots for path in slot.values):
            return False
        world_axes = {path: values for path, values in self._problem_axes.items() if path.partition(".")[0] == "world"}
        worlds = [
            self._parse_problem({**_look_up_point(self._problem_axes, 0), **point}).world for point in _iter_points(world_axes)
        ]
        return len(set(worlds)) == len(worlds)

    def _check_problems(self) -> None:
        """Refuse an invalid task, seed or world.

        Each value is checked once, together with the first values of the other settings.

        Raises:
            UnknownName: The name of a task or of a task setting is unknown.
            UsageError: A value is invalid.
        """
        first = _look_up_point(self._problem_axes, 0)
        template = self._build_cell(first, _Slot(values={}, location="axes")).trial
        for path, values in self._problem_axes.items():
            for value in values:
                problem = self._parse_problem({**first, path: value})
                try:
                    replace(template, task=problem.task, seed=problem.seed, world=problem.world)
                except UsageError as error:
                    raise UsageError(f"axes.{error}") from None

    def _parse_problem(self, values: Mapping[str, object]) -> "_Problem":
        plain = with_values({name: self._base[name] for name in BLOCK_AXES}, values, "axes")
        parsed = {name: self._shared.parse(name, value, f"axes.{name}") for name, value in plain.items()}
        table = {
            name: codec.to_plain(parsed["world"], type(parsed["world"])) if name == "world" else parsed[name] for name in plain
        }
        return _Problem(**parsed, axes={path: look_up_value(table, path) for path in values})

    def _move_to_problem(self, template: Cell, problem: "_Problem") -> Cell:
        """Return a trial that runs the configuration of the template on another problem."""
        trial = problem.set_in(template.trial)
        trial_id = self._shared.compute_trial_id(trial)
        return replace(template, trial=trial, axes={**template.axes, **problem.axes}, trial_id=trial_id)

    def _build_cell(self, problem: Mapping[str, object], slot: "_Slot") -> Cell:
        location = slot.location
        changes = {path: _expand_value(path, value) for path, value in {**problem, **slot.values}.items()}
        plain = with_values(self._base, _complete_policy(changes, location), location)
        if self._backend is not None and isinstance(sandbox := plain["sandbox"], dict):
            sandbox["backend"] = self._backend
        trial, quantiles = resolve_quantiles(plain, self._uncompacted, location, self._shared)
        table = {field: self._shared.to_plain(trial, field) for field in {path.partition(".")[0] for path in self._axes}}
        if quantiles:
            table = with_values(to_plain(trial), {path: quantile.text for path, quantile in quantiles.items()}, "trial")
        axes = {path: look_up_value(table, path) for path in self._axes}
        trial_id = self._shared.compute_trial_id(trial)
        return Cell(trial=trial, arm=slot.name, axes=axes, quantiles=quantiles, trial_id=trial_id, other_model=slot.other_model)

    def _add_controls(self, cells: tuple[Cell, ...], controls: bool) -> tuple[Cell, ...]:
        """Return the trials and, if they are asked for, a recency control of each trial that compacts, right behind it.

        Raises:
            UsageError: No trial compacts, so that there is nothing to control.
        """
        if not controls:
            return cells
        added = [(cell, *self._build_control(cell)) for cell in cells]
        if not any(len(group) > 1 for group in added):
            raise UsageError(
                "experiment.controls: no arm has a policy that compacts and can have a control; add one, such as 'keep-last', or "
                "leave out `controls`"
            )
        return tuple(_drop_duplicates(cell for group in added for cell in group))

    def _build_control(self, cell: Cell) -> Iterator[Cell]:
        """Yield the recency control of a trial; nothing if its policy never compacts or cannot have a control."""
        policy: Any = cell.trial.policy
        is_control = isinstance(policy, Recency) or hasattr(policy, "with_oracle")
        if is_control or not inspect_abilities(policy).can_act:
            return
        trial = replace(cell.trial, policy=Recency(of=policy))
        table = {field: self._shared.to_plain(trial, field) for field in {path.partition(".")[0] for path in self._axes}}
        axes = {path: look_up_value(table, path) for path in self._axes}
        yield replace(
            cell, trial=trial, arm=name_control(cell.arm), axes=axes, quantiles={}, trial_id=self._shared.compute_trial_id(trial)
        )


_CONFIGURATION_FIELDS = tuple(field.name for field in fields(Trial) if not is_block(field.name))
_get_configuration = attrgetter(*_CONFIGURATION_FIELDS)
_get_arm_settings = attrgetter(*filter(is_arm_setting, _CONFIGURATION_FIELDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """Configuration that is run on every problem, as changes of the base trial."""

    values: Mapping[str, object]
    """New values of settings, by dotted path such as `policy.threshold`."""
    location: str
    """Dotted path of the configuration in the plan, for error messages."""
    name: str = ""
    """Name of an extra configuration (arm); empty for a combination of the values under study."""
    other_model: str = ""
    """Name of the model with which the configuration is run once more; empty for the model of the grid."""


class _Problem(NamedTuple):
    """Task, seed and world on which configurations are compared.

    `axes` has the values that the plan gives for these settings.
    """

    task: str
    seed: int
    world: World
    axes: Mapping[str, object]

    def set_in(self, template: Trial) -> Trial:
        trial = object.__new__(Trial)  # `dataclasses.replace` would check all fields again, and `copy` is slower
        set_field = object.__setattr__
        for name, value in zip(_CONFIGURATION_FIELDS, _get_configuration(template), strict=True):
            set_field(trial, name, value)
        set_field(trial, "task", self.task)
        set_field(trial, "seed", self.seed)
        set_field(trial, "world", self.world)
        return trial


def _normalize_values(path: str, raw_values: object) -> list[object]:
    """Return the values of one setting as plain data; a notebook may pass policies, functions and numpy numbers."""
    if isinstance(raw_values, str | bytes | Mapping) or not isinstance(raw_values, Iterable):
        raise UsageError(f"axes.{path}: must be a list of values (got {raw_values!r:.80}); write a single value as [value]")
    return [_normalize_value(path, value, "axes") for value in raw_values]


def _normalize_value(path: str, value: Any, location: str) -> object:
    if path == "policy" and callable(value):  # a function of the user's own, or a class, which is refused with advice
        value = resolve_policy(value, where := f"{location}.policy")
        refuse_function_without_file(value, where)
    if is_dataclass(value) and not isinstance(value, type):
        return codec.to_plain(value, type(value))
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def _expand_value(path: str, value: object) -> object:
    return expand_shorthand(value) if path == "policy" else value


def _complete_policy(values: Mapping[str, object], location: str) -> Mapping[str, object]:
    """Add the default fields of a policy if the values set the whole policy and also single fields of it.

    Raises:
        UsageError: A single field is set that the policy does not have.
    """
    whole = values.get("policy")
    paths = [path for path in values if path.startswith("policy.")]
    if not paths or not isinstance(whole, Mapping) or not isinstance(kind := whole.get("kind"), str):
        return values
    try:
        policy = {**codec.to_plain(policy_from_plain({"kind": kind}, f"{location}.policy")), **whole}
    except UsageError:  # a kind that is unknown or needs fields; what is wrong is reported when the trial is made
        return values
    for path in paths:
        if look_up_value({"policy": policy}, path) is None and path not in set(list_paths({"policy": policy})):
            raise UsageError(
                f"{location}: {path!r} cannot be varied together with 'policy', because the policy {kind!r} has no field "
                f"{path.removeprefix('policy.')!r}; add {kind!r} as an extra arm instead, or give whole policies as values of "
                "the axis 'policy'"
            )
    return {**values, "policy": policy}


def _iter_points(axes: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _look_up_point(axes: Mapping[str, Sequence[object]], number: int) -> dict[str, object]:
    """Return the combination of values that `_iter_points` yields at the given place, counted from 0."""
    point = {}
    for path, values in reversed(list(axes.items())):
        number, place = divmod(number, len(values))
        point[path] = values[place]
    return {path: point[path] for path in axes}


def _drop_duplicates(cells: Iterator[Cell]) -> list[Cell]:
    """Return the trials without those that repeat the configuration of an earlier trial.

    If no setting of arms is varied, an extra arm that equals the base trial gives the base trial its name.

    Raises:
        UsageError: Two quantiles such as `q0.9` stand for the same number of tokens, so that their trials are equal.
    """
    cells_by_id: dict[str, Cell] = {}
    for cell in cells:
        first_cell = cells_by_id.setdefault(cell.trial_id, cell)
        if first_cell.quantiles != cell.quantiles:
            values = " and ".join(_format_quantiles(quantile_cell) or "a number" for quantile_cell in (first_cell, cell))
            raise UsageError(f"{values} give the same trial of {cell.trial.problem}; remove one of them")
        if cell.arm and not first_cell.arm and not any(map(is_arm_setting, first_cell.axes)):
            cells_by_id[cell.trial_id] = replace(first_cell, arm=cell.arm)
    return list(cells_by_id.values())


def _format_quantiles(cell: Cell) -> str:
    return " and ".join(f"{path}={quantile.text} ({quantile})" for path, quantile in cell.quantiles.items())


def _name_arms(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    namer = ValueNamer([cell.axes for cell in cells if not cell.arm])
    named_cells = []
    for cell in cells:
        arm = cell.arm or _format_arm(namer.name_tables(cell.axes)) or cell.trial.policy_kind
        named_cells.append(replace(cell, arm=name_repeated_arm(arm, cell.other_model) if cell.other_model else arm))
    return tuple(named_cells)


def _format_arm(axes: Mapping[str, object]) -> str:
    """Return the name of a compared configuration, such as `threshold=0.5`, from the values under study.

    Settings of the problem and replicates are left out. The name is empty if no other setting is under study.
    """
    arm_axes = {path: value for path, value in axes.items() if is_arm_setting(path)}
    short_names = {path: path.rsplit(".", 1)[-1] for path in arm_axes}
    has_clash = len(set(short_names.values())) < len(short_names)
    return " ".join(f"{path if has_clash else short_names[path]}={format_short(value)}" for path, value in arm_axes.items())


def _refuse_shared_names(cells: Sequence[Cell]) -> None:
    # Results of two configurations with the same name would be mixed.
    first_cells: dict[str, Cell] = {}
    for cell in cells:
        first = first_cells.setdefault(cell.arm, cell)
        if _extract_arm_settings(first) != _extract_arm_settings(cell):
            first_settings, settings = (flatten(_select_arm_settings(named_cell)) for named_cell in (first, cell))
            differing = ", ".join(
                path for path in {**first_settings, **settings} if first_settings.get(path) != settings.get(path)
            )
            raise UsageError(f"arms: {cell.arm!r} names two configurations that differ in {differing}; rename one of them")


def _extract_arm_settings(cell: Cell) -> object:
    # Tuples of fields are compared faster than nested tables.
    return _select_arm_settings(cell) if cell.quantiles else _get_arm_settings(cell.trial)


def _select_arm_settings(cell: Cell) -> dict[str, object]:
    return {name: value for name, value in cell.trial_table.items() if is_arm_setting(name)}


def _refuse_invalid_axes(axes: Mapping[str, list[object]], arms: Sequence[Arm]) -> None:
    for path, values in axes.items():
        if not values:
            raise UsageError(f"axes.{path}: at least one value is needed (got an empty list)")
        seen_values: set[object] = set()
        seen_tables: list[object] = []
        for value in values:
            expanded = _expand_value(path, value)
            is_hashable = isinstance(expanded, Hashable)
            if expanded in (seen_values if is_hashable else seen_tables):
                text = f"{format_short(value):.80}"
                raise UsageError(f"axes.{path}: {text} is listed twice; to repeat a configuration, use the axis `replicate`")
            (seen_values.add if is_hashable else seen_tables.append)(expanded)
    names = [arm.name for arm in arms]
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise UsageError(f"arms: each arm needs a unique name that is not empty (got {name!r})")


def _refuse_invalid_models(
    other_models: Sequence[str], model: str, axes: Mapping[str, list[object]], arms: Sequence[Arm]
) -> None:
    if not other_models:
        return
    for place, name in enumerate(other_models):
        if not name.strip() or "(" in name or ")" in name:
            raise UsageError(f"other_models: must be names of models (got {name!r:.80})")
        if name == model or name in other_models[:place]:
            raise UsageError(f"other_models: {name!r} is listed twice, or is the model of the grid")
    setters = [
        *(f"axes.{path}" for path in axes if path == "model"),
        *(f"arms.{arm.name}" for arm in arms if "model" in arm.trial),
    ]
    if setters:
        raise UsageError(f"other_models: the whole grid is run with each of them, so {setters[0]} cannot set the model, too")
    for arm in arms:
        if parse_repeated_arm(arm.name)[1] in other_models:
            raise UsageError(f"arms: {arm.name!r} is the name of an arm that other_models runs once more; rename it")
