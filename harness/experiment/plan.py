"""Reader of the plan file `plan.toml`. This module checks the shape of the file; `harness.experiment.grid` checks the values.

The file has five tables::

    [experiment]   title, description, not_worse_margin, trial_timeout_seconds, stall_seconds, executor, action_cache, …
    [trial]        the base trial: task, policy, model, window_tokens, …
    [axes]         dotted path = list of values
    [[arms]]       name, and under `trial` the differences from the base trial
    [[contrasts]]  comparisons of two arms, declared before the run
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from harness.conversation import codec
from harness.conversation.codec import refuse_mistyped_fields
from harness.errors import UnknownName, UsageError
from harness.experiment.contrasts import MARGIN_KEY, Contrast, parse_margin
from harness.experiment.grid import Arm
from harness.experiment.paths import flatten, list_paths, refuse_unknown_paths
from harness.experiment.quantiles import find_quantile_texts
from harness.experiment.trial import Trial, from_plain
from harness.files.bounded_input import read_input
from harness.models.litellm_model import STALL_SECONDS
from harness.sandboxes.action_cache.cache import MAX_BYTES

PLAN_FILE_NAME = "plan.toml"
TOOL_TIME_SHARE = 0.5
"""Share of a trial's time limit that the agent's tool calls may take, from 0 to 1.

The rest is for the model, the start and the grading.
"""
MAX_PLAN_BYTES = 512 * 2**10
MAX_DEPTH = 100
"""Maximum depth to which tables and lists in a plan may be nested, and maximum number of parts in a dotted key."""
_LONG_KEY = re.compile(r"""\s*\[{0,2}\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*\.""")
TABLE_NAMES = frozenset({"experiment", "trial", "axes", "arms", "contrasts"})
RENAMED_KEYS: Mapping[str, str] = {"experiment.uncompressed": "uncompacted"}
"""New name of each key of a plan that was renamed since version 0.1, by its old dotted path.

The path of a setting of trials begins with `trial.`, also for settings in axes and arms, e.g. `trial.policy.threshold`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of an experiment as a whole, as in the table `[experiment]` of a plan file.

    Attributes:
        title: Title of the experiment, shown in reports. Default: `''`.
        description: Description of the experiment, shown in reports. Default: `''`.
        tags: Words by which `harness experiments list --tag` finds the experiment. Default: `()`.
        notes: Notes that `harness experiments list` shows, e.g. what the experiment led to. Default: `''`.
        trial_timeout_seconds: Maximum duration of a trial in seconds. If the agent's tool calls take half of this time, the
            session ends, its workspace is graded, and the trial fails with the reason `timeout`. A trial that exceeds the time
            in another way is killed and run again; after three such attempts, it also fails with the reason `timeout`.
            Default: `3600.0`.
        stall_seconds: Time in seconds after which a model call without any answer is abandoned and repeated. Default: `300.0`.
        executor: Workers that run the trials: `processes`, or `threads` for slow real models. With threads many trials can wait
            at the same time, but a trial that exceeds its time limit cannot be killed. Default: `'processes'`.
        uncompacted: Folder of a finished run without compaction. A quantile in the plan, such as `q0.9`, is computed from the
            context lengths in that run. Empty if the plan contains no quantiles. Default: `''`.
        action_cache: Trials that use the action cache: `auto` for those with scripted agents, `on` for all, or `off`. The cache
            avoids running the same command in the same workspace, or grading the same workspace, twice. Default: `'auto'`.
        action_cache_folder: Folder of the action cache; empty for a folder in the user's cache directory. Default: `''`.
        action_cache_max_bytes: Maximum size of the action cache in bytes; the least recently used entries are removed first.
            Default: `2_147_483_648`.
        store: URL of a folder in an object store that all machines reach, such as `s3://bucket/name`. The journals of trials are
            written there (in a cluster, by the workers themselves), and the tables of results are copied there. Needs the extra
            `cluster`. Empty if there is none. Default: `''`.
        store_actions: Whether machines share the action cache through the store as well. Default: `False`.
        looks: Number of times that the results of the declared comparisons are inspected while trials are added, including the
            inspection at the end. The significance level of 5 % is divided by this number. Default: `1`.
        discordance: Expected share, from 0 to 1, of pairs of trials (same task and seed, two configurations) of which exactly
            one succeeds, known from a pilot run or from experience. The smallest detectable difference is computed from it.
            Default: `0.16`.
        pilot: Folder of a finished experiment from which the discordance, and the variation of scores and costs, are computed
            instead. Empty if there is none. Default: `''`.
        other_models: Models with which the whole grid is run once more, e.g. `scripted:typical`. The report is about the trials
            with the models of the grid, and marks each comparison whose verdict another model changes. Default: `()`.
        controls: Whether each arm that compacts gets a control, which retains as many tokens of the newest messages as the arm's
            policy retains (policy `recency`). The report says whether the arm beats its control. Default: `False`.

    Raises:
        UsageError: A value has the wrong type.

    Example::

        settings = Settings(title="Two thresholds", trial_timeout_seconds=600.0)
        experiment = harness.Experiment(name="thresholds", base=trial, settings=settings)
    """

    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    trial_timeout_seconds: float = 3600.0
    stall_seconds: float = STALL_SECONDS
    executor: Literal["processes", "threads"] = "processes"
    uncompacted: str = ""
    action_cache: Literal["auto", "on", "off"] = "auto"
    action_cache_folder: str = ""
    action_cache_max_bytes: int = MAX_BYTES
    store: str = ""
    store_actions: bool = False
    looks: int = 1
    discordance: float = 0.16
    pilot: str = ""
    other_models: tuple[str, ...] = ()
    controls: bool = False

    def __post_init__(self) -> None:
        """Refuse settings with values of the wrong type."""
        refuse_mistyped_fields(self)
        if self.store_actions and not self.store:
            raise UsageError("store_actions: the action cache is shared through a store; set `store` to its URL, too")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """Content of a plan file, with the folder that contains the file."""

    folder: Path
    settings: Settings
    base: Trial
    axes: Mapping[str, list[object]]
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...] = ()
    not_worse_margin: float | None = None


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Read a plan file and check its shape.

    Args:
        path: Path of the plan file, or of a folder that contains a `plan.toml`.

    Raises:
        UsageError: The file does not exist, is not valid TOML, or contains a table of the wrong shape.
    """
    path = Path(path)
    file = path / PLAN_FILE_NAME if path.is_dir() else path
    tables = _load_tables(file)
    for name in sorted(tables.keys() - TABLE_NAMES):
        raise UnknownName(f"table in {file.name}:", name, TABLE_NAMES)
    _refuse_renamed_keys(tables)
    trial, experiment = _read_table(tables, "trial"), _read_table(tables, "experiment")
    for field_path, text in find_quantile_texts(trial).items():
        raise UsageError(
            f"trial.{field_path}: a quantile such as {text!r} is allowed in axes and arms only; write {field_path} = "
            f"[{text!r}] under [axes]"
        )
    return PlanFile(
        folder=file.parent,
        settings=_parse_settings({name: value for name, value in experiment.items() if name != MARGIN_KEY}),
        base=from_plain(trial),
        axes=_parse_axes(_read_table(tables, "axes")),
        arms=_parse_arms(tables.get("arms", [])),
        contrasts=_parse_contrasts(tables.get("contrasts", [])),
        not_worse_margin=parse_margin(experiment.get(MARGIN_KEY), f"experiment.{MARGIN_KEY}"),
    )


def _load_tables(file: Path) -> dict[str, Any]:
    try:
        text = read_input(file, MAX_PLAN_BYTES).decode()
        if (place := _find_long_key(text)) is not None:
            raise UsageError(f"{str(file)!r}, line {place}: a key has more than {MAX_DEPTH} parts")
        tables = tomllib.loads(text)
        _refuse_deep_values(tables)
        return tables
    except FileNotFoundError:
        raise UsageError(f"there is no plan {str(file)!r}; pass a folder that contains a {PLAN_FILE_NAME}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {str(file)!r}: {getattr(error, 'strerror', None) or error}") from None
    except RecursionError:
        raise UsageError(f"{str(file)!r}: values are nested deeper than {MAX_DEPTH} levels") from None
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{str(file)!r} is not valid TOML: {error}") from None


def _find_long_key(text: str) -> int | None:
    """Return the number of the first line whose dotted key has more than `MAX_DEPTH` parts; None if there is none.

    The TOML parser would take very long to parse such a key.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        key = line.partition("=")[0]
        if key.count(".") > MAX_DEPTH and _LONG_KEY.match(key):
            return number
    return None


def _refuse_deep_values(tables: Mapping[str, Any]) -> None:
    """Raise `RecursionError` if the tables and lists of a plan are nested deeper than `MAX_DEPTH` levels."""
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        contents = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in contents if isinstance(inner, dict | list)]
        if not level:
            return
    raise RecursionError


def _refuse_renamed_keys(tables: Mapping[str, Any]) -> None:
    """Raise an error for a key of an older version's plan that has another name today; the message has the new name."""
    for location, path in _list_key_paths(tables):
        if path in RENAMED_KEYS:
            raise UsageError(f"{location}: this key is now called `{RENAMED_KEYS[path]}`; rename it")


def _list_key_paths(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the place of each key in a plan, and its dotted path as in `RENAMED_KEYS`; wrong shapes are left to the parser."""
    for name, content in tables.items():
        prefix = "trial" if name == "axes" else name
        for place, table in enumerate(content) if isinstance(content, list) else ((None, content),):
            location = name if place is None else f"{name}[{place}]"
            for key in list_paths(table) if isinstance(table, Mapping) else ():
                yield f"{location}.{key}", key if name == "arms" else f"{prefix}.{key}"


def _read_table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{name}: must be a table (got {table!r:.80})")
    return table


def _parse_settings(table: Mapping[str, Any]) -> Settings:
    refuse_unknown_paths(table, [*(field.name for field in fields(Settings)), MARGIN_KEY], "experiment")
    settings = codec.from_plain(Settings, table, "experiment")
    codec.refuse_coerced(table, codec.to_plain(settings), "experiment")
    for name in ("trial_timeout_seconds", "stall_seconds"):
        if not getattr(settings, name) > 0:  # NaN is refused, too
            raise UsageError(f"experiment.{name}: must be above 0 (got {getattr(settings, name)!r})")
    if settings.looks < 1:
        raise UsageError(f"experiment.looks: must be at least 1 (got {settings.looks!r})")
    if not 0 < settings.discordance <= 1:
        raise UsageError(f"experiment.discordance: must be above 0 and at most 1 (got {settings.discordance!r})")
    if settings.action_cache_max_bytes < 0:
        raise UsageError(f"experiment.action_cache_max_bytes: must not be below 0 (got {settings.action_cache_max_bytes!r})")
    return settings


def _parse_axes(table: Mapping[str, Any]) -> dict[str, list[object]]:
    axes = flatten(table)
    for path, values in axes.items():
        if not isinstance(values, list):
            raise UsageError(f"axes.{path}: must be a list of values (got {values!r:.80})")
    return axes  # type: ignore[return-value]


def _parse_arms(tables: object) -> tuple[Arm, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError("arms: write each arm as a table of its own, under [[arms]]")
    for place, table in enumerate(tables):
        refuse_unknown_paths(table, ("name", "trial"), f"arms[{place}]")
    return tuple([codec.from_plain(Arm, table, f"arms[{place}]") for place, table in enumerate(tables)])


def _parse_contrasts(tables: object) -> tuple[Contrast, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError("contrasts: write each contrast as a table of its own, under [[contrasts]]")
    for place, table in enumerate(tables):
        refuse_unknown_paths(table, [field.name for field in fields(Contrast)], f"contrasts[{place}]")
    return tuple([codec.from_plain(Contrast, table, f"contrasts[{place}]") for place, table in enumerate(tables)])
