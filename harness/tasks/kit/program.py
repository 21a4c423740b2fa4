"""Tasks in which the agent writes a program from a specification, each described by the file `program.toml` of its package.

The description says what a task is made of; this module makes the task from it for each seed. What a table cannot say, such as
what the agent's modules must answer, is Python code of the task. Texts stand in the folder `files` of the package: the request
and the facts in it (see `harness.tasks.kit.work`), the initial files in `workspace/`, the outlines of generated pages, the
modules and tests that the agent writes, its documents in `papers/`, and the questions to its modules in `grader/`.

A description has these tables:

- The top: `name`, `title`, `tags` and `runtime` of the task, `teams` (prefixes of ticket numbers), `workspace` (paths of the
  initial files), `once_tools` (those of its tools that must not run twice), `folders` (listed first), `own_paths` (where the
  agent writes), `papers` (documents whose order is drawn), `questions` to the agent's modules, `cells` (windows in tokens by
  difficulty), and `final_text` (the agent's last message).
- `paths`: fields of `harness.tasks.kit.steps.Program`, such as the path of a module.
- `pages`: generated pages with their typical sizes, or fixed pages at whose end remarks are drawn.
- `work` and `option`: fields of `harness.tasks.kit.work.WorkChoices` and its optional item.
- `facts`: where each fact is stated, its pattern, its prior, and from which values a seed draws. A value
  with `secret` is computed from the secret of the task's tools.
- `checks`: conditions for the finished work. The keys `words`, `settings`, `entry` and `log` say what a file must contain.
- `changes`: functions that are wrong in some runs of the agent's tests, as in `harness.task.FunctionChange`.
- `action`, `start`, `parts`, `shared` and `end`: steps of a competent agent, which come before, in, between and after the parts
  of the work. `ProgramTask` lists the kinds of steps.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import chain, product
from string import Template
from typing import Any, TypeAlias

from harness.task import Cell, Check, Difficulty, Fact, FunctionChange, Grader, Interview, Judge, Script, Submission, Task
from harness.tasks.kit.agreements import draw_agreements, load_all_fact_texts
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices
from harness.tasks.kit.explanations import explain_lines, explain_new_line, explain_statements
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.kit.graders import compare_words, list_new_lines, make_check, make_interviews, read_json_object
from harness.tasks.kit.prose import write_specification
from harness.tasks.kit.sheets import STATED_ONCE_COUNTS, judge_sheets
from harness.tasks.kit.steps import Program, StepSpec, add_change, check_fitness, do, do_once, look, look_around, make_script
from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.kit.work import Option, Work, WorkChoices

Table: TypeAlias = Mapping[str, Any]
"""Table of a description, as read from TOML."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Choices that a seed makes for a task, except the values to remember.

    Script, checks and texts are built from these choices.
    """

    work: Work
    """Choices about the work: its order, unnecessary steps, and information sheets."""
    papers: tuple[str, ...]
    """Paths of the documents before the hand-over, in the order in which the agent writes them; empty if the order is fixed."""
    page_sizes: tuple[tuple[str, int], ...]
    """Name and minimum length in characters of each generated page of the specification."""
    remarks: tuple[tuple[str, tuple[int, ...]], ...]
    """Name of each fixed page of the specification, and the indexes in `remarks.md` of the irrelevant remarks at its end."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramTask:
    """Task in which the agent writes a program, as described by the file `program.toml` of its package.

    A step of the description has one of these kinds:

    - `folders`: list the folders.
    - `sheets`: read which information sheets are due; an action that is due at the start follows.
    - `look`: read files or run a command, whose `effect` is another one if it runs tests or changes files. Each seed selects some
      of the looks that are `optional`.
    - `page`: read a page of the specification.
    - `module`: write a module; `first_cut` has replacements of texts that make a first version with a bug.
    - `test`: write the tests of a module and run them; `error` and `repair_text` describe how a first version fails.
    - `write`: write files, each from a text in the folder `files`.
    - `once`: run a command that must not run twice.
    - `check`: run a check, whose failure is repaired by writing a module again.
    - `paper`: write a document.
    - `change`: add an entry to the change log.

    A step in `shared` comes before the first part of the work in `before_first`, or after the last part in `after_last`.
    """

    package: str
    """Python package of the task."""
    description: Table
    """Content of `program.toml`."""
    add_values: Callable[[int, Mapping[str, str]], Mapping[str, str]]
    """Function that returns further values, by name, from the seed of the task and the values drawn so far."""
    add_files: Callable[[int], Mapping[str, str]]
    """Function that returns texts of initial files, by path, from the seed; all other files stand in `files/workspace`."""

    @property
    def name(self) -> str:
        """Name of the task."""
        name: str = self.description["name"]
        return name

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """The task's own facts, with that of the optional item."""
        return tuple(map(_make_fact, self.description["facts"]))

    @cached_property
    def values(self) -> dict[str, Sequence[object]]:
        """Possible values of each fact that is drawn, by name of the fact."""
        return {fact["name"]: _list_values(fact["values"]) for fact in self.description["facts"] if "values" in fact}

    @cached_property
    def program(self) -> Program:
        """Paths and commands of the program that the agent writes."""
        return Program(package=self.package, **self.description["paths"])

    @cached_property
    def choices(self) -> WorkChoices:
        """Description of the possible work, from which each seed draws the order, the unnecessary steps and the sheets."""
        work, option, parts = self.description["work"], self.description["option"], self.description["parts"]
        sections = [self.description["start"], *(part["steps"] for part in parts.values()), self.description["end"]]
        return WorkChoices(
            package=self.package,
            parts={name: part["title"] for name, part in parts.items()},
            prerequisites={name: tuple(part["needs"]) for name, part in parts.items() if "needs" in part},
            last_parts=tuple(work.get("last_parts", ())),
            looks=tuple(step["name"] for step in chain(*sections) if step.get("optional")),
            look_shares=_make_levels(work["look_shares"]),
            action=work["action"],
            action_times=work["action_times"],
            option=Option(option["name"], option["share"], option["fact"], frozenset(option["steps"])),
            stated_facts=tuple(fact.name for fact in self.facts if fact.said_in == "prompt"),
            stated_once=replace(
                STATED_ONCE_COUNTS, **{level: tuple(counts) for level, counts in work.get("stated_once", {}).items()}
            ),
        )

    def list_checks(self, *, of_option: bool = False) -> tuple[Check, ...]:
        """Return the checks for every seed or, with `of_option`, those that apply only if the optional item is asked for."""
        checks = (check for check in self.description["checks"] if check.get("option", False) == of_option)
        return tuple(make_check(check["name"], check["title"], *check.get("facts", ())) for check in checks)

    def make_task(self, judge: Judge, task_seed: int, difficulty: Difficulty, structure_seed: int | None) -> Task:
        """Make the task for a seed.

        Args:
            judge: Function that grades the task. It must be defined at the top level of a module.
            task_seed: Seed that decides the values that the agent must remember.
            difficulty: Level of the task's demands on the agent's memory.
            structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
        """
        draws = StructureDraws(self.name, task_seed if structure_seed is None else structure_seed, difficulty)
        structure, values = self.draw_structure(draws), self.draw_values(task_seed)
        workspace = tuple(self._build_workspace(values, task_seed, structure, draws))
        (option_check,) = self.list_checks(of_option=True)
        facts = self.choices.list_facts(structure.work, self.facts)
        return Task(
            name=self.name,
            title=self.description["title"],
            tags=tuple(self.description["tags"]),
            prompt=self.choices.render_prompt(structure.work, values),
            workspace=workspace,
            runtime=self.description.get("runtime", "python"),
            checks=self.choices.list_checks(structure.work, self.list_checks(), option_check),
            grader=self._build_grader(judge, values, structure.work, dict(workspace)),
            facts=facts,
            script=_build_script(self, structure),
            values={fact.name: values[fact.name] for fact in facts},
            cells=tuple(
                Cell(difficulty=level, window_tokens=window_tokens)
                for level, windows in self.description.get("cells", {}).items()
                for window_tokens in windows
            ),
        )

    def draw_structure(self, draws: StructureDraws) -> Structure:
        """Draw the structure of the task at random: all choices of a seed except the values to remember."""
        pages = self.description["pages"]
        sizes, remarks = dict[str, int](pages.get("sizes", {})), list[tuple[str, tuple[int, ...]]]()
        for page in sizes.keys() - set(pages.get("fixed_sizes", ())):
            sizes[page] = round(draws.draw_share(f"size/{page}", _make_levels(pages["size_factors"])) * sizes[page])
        if "remarks" in pages:
            rng, counts = draws.make_rng("remarks"), range(*draws.pick(_make_levels(pages["remark_counts"])))
            remarks = [(page, tuple(rng.sample(range(pages["remarks"]), rng.choice(counts)))) for page in pages["names"]]
        papers = draws.draw_order("papers", self.description.get("papers", ()))
        return Structure(self.choices.draw(draws), papers, tuple(sizes.items()), tuple(remarks))

    def draw_values(self, task_seed: int) -> dict[str, str]:
        """Draw the values that the agent must remember, and the secret `salt` of the tools.

        All facts about the organisation (agreements) get a value, whether or not the task states them.
        """
        values = draw_choices(self.name, task_seed, self.facts, self.values, self.description["teams"])
        values = draw_agreements(self.name, task_seed) | values
        values |= self.add_values(task_seed, values)
        for fact in self.description["facts"]:
            if "secret" in fact:
                digest, prefix = compute_digest(values["salt"], fact["secret"]), fact.get("prefix", "")
                values[fact["name"]] = derive_number(digest[:8], prefix) if fact.get("number") else f"{prefix}{digest[:6]}"
        return values

    def judge_papers(self, submission: Submission) -> Iterator[tuple[str, bool, str]]:
        """Grade the documents and logs of which the description says what they must contain, and the information sheets.

        Yield the name of each check, whether it passes, and what was found.
        """
        values = submission.expected
        for check in self.description["checks"]:
            name = check["name"]
            match check:
                case {"paper": path, "words": words}:
                    words_text = (_fill(word, values) for word in words)
                    yield name, *compare_words(submission, path, *words_text, choices=self.values)
                case {"paper": path, "settings": texts}:
                    filled = {key: _fill(text, values) for key, text in texts.items()}
                    expected = {key: int(text) if text.isdecimal() else text for key, text in filled.items()}
                    settings = read_json_object(submission, path)
                    allowed_keys = expected if check.get("allows_others") else settings
                    stated = {key: settings[key] for key in allowed_keys if key in settings}
                    yield name, stated == expected, explain_statements(path, expected, stated)
                case {"entry": entry}:
                    entries = list_new_lines(submission, "CHANGELOG.md", values["entries"], entry.partition("$")[0])
                    beginning = _fill(entry, values)
                    is_right = len(entries) == 1 and entries[0].startswith(beginning)
                    yield name, is_right, explain_new_line("CHANGELOG.md", entries, f"begins with {beginning!r}")
                case {"log": path, "runs": runs}:
                    lines, filled_runs = submission.read_text(path).split(), [_fill(text, values) for text in runs]
                    yield name, set(lines) == set(filled_runs), explain_lines(path, filled_runs, [*dict.fromkeys(lines)])
                case {"log": path, "line": line}:
                    lines, filled_line = submission.read_text(path).split(), _fill(line, values)
                    yield name, lines == [filled_line], explain_lines(path, [filled_line], lines)
                case {"log": path, "option": True} if values[self.description["option"]["flag"]]:
                    rows, expected_rows = submission.read_text(path).splitlines(), values["rows"]
                    right_count = len(set(rows) & set(expected_rows))
                    explanation = f"{path} should have each of {len(expected_rows)} rows once; it has {len(rows)} rows"
                    explanation += f", of which {right_count} are expected"
                    yield name, sorted(rows) == sorted(expected_rows), explanation
        yield from judge_sheets(submission, values["sheets"])

    def _build_workspace(
        self, values: Mapping[str, str], task_seed: int, structure: Structure, draws: StructureDraws
    ) -> Iterator[tuple[str, str]]:
        pages, parts = self.description["pages"], self.description["parts"]
        texts = dict(self.add_files(task_seed))
        if structure.page_sizes:
            sizes = dict(structure.page_sizes)
            texts |= write_specification(self.package, pages["folder"], sizes, pages["nouns"], draws.make_rng, values)
        overview = [parts[part]["overview"] for part in structure.work.parts if "overview" in parts[part]]
        remarks = load_text(self.package, "remarks.md").strip().split("\n\n") if structure.remarks else []
        ends = {f"docs/{page}.md": "".join(f"\n{remarks[index]}\n" for index in indexes) for page, indexes in structure.remarks}
        for path in self.description["workspace"]:
            if path not in texts:
                text = fill_text(self.package, f"workspace/{path}", {**values, "order_of_work": ", ".join(overview)})
                text += ends.get(path, "")
                texts[path] = structure.work.sheets.keep_output(path, text) if path in self.description["once_tools"] else text
            yield path, texts[path]
        titles = {part: f"after {words}" for part, words in self.choices.parts.items()}
        yield from structure.work.sheets.render_files(titles, load_all_fact_texts(self.package), values)

    def _build_grader(self, judge: Judge, values: Mapping[str, str], work: Work, initial_files: Mapping[str, str]) -> Grader:
        option, questions = self.description["option"], tuple(self.description["questions"])
        expected = {
            **values,
            "entries": initial_files["CHANGELOG.md"].splitlines(),
            "rows": initial_files[option["rows"]].splitlines()[1:],
            "sheets": work.sheets.expected,
            option["flag"]: work.has_option,
        }
        changes = tuple(
            FunctionChange(
                path=change["path"],
                function=change["function"],
                kind=change["kind"],
                wrong=tuple(change["wrong"]),
                attributes=tuple(change.get("attributes", ())),
            )
            for change in self.description["changes"]
        )
        if self.description.get("runtime") == "bun":
            interviews: tuple[Interview, ...] = (
                Interview(source=load_text(self.package, "grader/observe.ts"), questions=questions, runtime="bun"),
                Interview(
                    source=load_text(self.package, "grader/suite.py"), questions=("tests",), changes=changes, tests="tests"
                ),
            )
        else:
            names = Template(load_text(self.package, "grader/observe.py")).get_identifiers()
            source = fill_text(self.package, "grader/observe.py", {name: repr(self.values[name]) for name in names})
            interviews = make_interviews(source, questions, changes)
        return Grader(judge=judge, expected=expected, interviews=interviews)

    def list_steps(self, structure: Structure) -> Iterator[StepSpec]:
        """Yield the specifications of all steps that a competent agent can take, in the order of the drawn work."""
        work, parts, shared = structure.work, self.description["parts"], self.description.get("shared", ())
        action = self._make_steps({"kind": "once", **self.description["action"]})
        for step in self.description["start"]:
            yield from work.begin(*action) if step["kind"] == "sheets" else self._make_steps(step)
        for number, part in enumerate(work.parts):
            done_parts = set(work.parts[:number])
            # a step that several parts share is taken once: before the first of them, or after the last
            before = [
                step for step in shared if part in step.get("before_first", ()) and not done_parts & set(step["before_first"])
            ]
            after = [
                step for step in shared if part in step.get("after_last", ()) and done_parts >= set(step["after_last"]) - {part}
            ]
            order = {path: place for place, path in enumerate(structure.papers)}
            own_steps = sorted(parts[part]["steps"], key=lambda step: order.get(step.get("path"), -1))
            yield from work.carry_out(part, chain.from_iterable(map(self._make_steps, (*before, *own_steps, *after))), *action)
        yield from chain.from_iterable(map(self._make_steps, self.description["end"]))

    def _make_steps(self, step: Table) -> tuple[StepSpec, ...]:
        """Return the specification of a step, or of two steps for the tests of a module."""
        match step:
            case {"kind": "folders", "text": text}:
                return (look_around(text, self.description["folders"]),)
            case {"kind": "look", "name": name, "text": text, "run": command}:
                return (do(name, text, run(command), effect=step.get("effect", "look")),)
            case {"kind": "look", "name": name, "text": text, "read": paths}:
                return (look(name, text, *map(read, paths)),)
            case {"kind": "page", "page": page, "text": text}:
                return (self.program.read_page(page, text),)
            case {"kind": "module", "name": name, "text": text}:
                return (self.program.write_module(name, text, first_cut=step.get("first_cut", ())),)
            case {"kind": "test", "name": name, "text": text}:
                texts = {key: step.get(key, "") for key in ("run_text", "error", "repair_text")}
                return self.program.test_module(name, text, **texts)
            case {"kind": "write", "name": name, "text": text, "files": sources}:
                return (do(name, text, *(self.program.write_text(path, source) for path, source in sources.items())),)
            case {"kind": "once", "name": name, "text": text, "run": command}:
                return (do_once(name, text, command, step["summary_pattern"], step["required_text"]),)
            case {"kind": "check", "name": name, "text": text, "run": command}:
                repair = self.program.write_source(step["module"])
                return (check_fitness(name, text, command, step["subject"], step["repair_text"], repair),)
            case {"kind": "paper", "path": path, "text": text}:
                return (self.program.write_paper(path, text, name=step.get("name", "")),)
            case {"kind": "change", "text": text, "run": command}:
                return (add_change(text, command),)
        raise ValueError(f"{self.package}: no such step: {step!r:.187}; see the kinds in harness/tasks/kit/program.py")


def load_program(
    package: str,
    *,
    add_values: Callable[[int, Mapping[str, str]], Mapping[str, str]] = lambda _seed, _values: {},
    add_files: Callable[[int], Mapping[str, str]] = lambda _seed: {},
) -> ProgramTask:
    """Return the task that the file `program.toml` of a package describes.

    Args:
        package: Python package of the task.
        add_values: Function that returns further values, by name, from the seed of the task and the values drawn so far.
        add_files: Function that returns texts of initial files, by path, from the seed of the task.
    """
    text = files(package).joinpath("program.toml").read_text(encoding="utf-8")
    return ProgramTask(package=package, description=tomllib.loads(text), add_values=add_values, add_files=add_files)


@lru_cache(maxsize=192)
def _build_script(task: ProgramTask, structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    specs = task.choices.select_steps(structure.work, task.list_steps(structure))
    return make_script(task.description["final_text"], tuple(task.description["own_paths"]), specs)


def _make_levels(table: Table) -> Levels[tuple[Any, Any]]:
    return Levels(easy=tuple(table["easy"]), standard=tuple(table["standard"]), hard=tuple(table["hard"]))


def _make_fact(table: Table) -> Fact:
    name, kind, prior, pattern = (table[key] for key in ("name", "kind", "prior", "pattern"))
    former_patterns = (table["former_pattern"],) if "former_pattern" in table else ()
    if "page" in table:
        command = table.get("command", "")
        return make_file_fact(name, kind, table["page"], prior, pattern, command=command, former_patterns=former_patterns)
    if "tool" in table:
        return make_output_fact(name, kind, table["tool"], prior, pattern, source=table["tool"].split()[1])
    if "secret" in table:
        return make_output_fact(name, kind, "", prior, pattern, also_in=tuple(table.get("also_in", ())))
    return make_prompt_fact(name, kind, prior, pattern, former_patterns=former_patterns)


def _list_values(values: Any) -> Sequence[object]:
    """Return the values of a list, of ranges (`numbers`), or of all combinations of several lists (`columns`), e.g. as `r{}`."""
    match values:
        case {"numbers": [bounds]} if "form" not in values:
            return range(*bounds)
        case {"numbers": ranges}:
            return tuple(values["form"].format(number) for bounds in ranges for number in range(*bounds))
        case {"columns": columns}:
            return tuple(values["form"].format(*row) for row in product(*columns))
    return tuple(values)


def _fill(text: str, values: Mapping[str, object]) -> str:
    return Template(text).substitute(values)
