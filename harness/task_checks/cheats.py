"""Tasks with one deliberate defect each, which show that the laws find such defects.

A task with such a defect is called a cheat. Examples are a task that an agent can finish without remembering anything, and a task
whose results depend on something other than the seed. Each cheat is the example task that `harness task new` writes, with a few
texts replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SKELETON_PATH = Path(__file__).parents[1] / "cli" / "task_skeleton.py.tmpl"
"""Path of the template from which `harness task new` writes an example task."""
FUNCTION = "greeting"
"""Name of the function that makes the task, and of the task itself, in the file that is written for a cheat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """Task with one deliberate defect, and the error report (finding) that a validity check (law) must give for it.

    Attributes:
        law: Name of the law that finds the defect. Required.
        edits: Texts of the example task, each with the text that replaces it. Required.
        words: Regular expression for the message of the finding. Required.
        step: Name of the step that the finding names. Default: `''`.
        fact: Name of the fact that the finding names. Default: `''`.
        check: Name of the check that the finding names. Default: `''`.
        needs_isolation: Whether only an isolated sandbox shows the defect, e.g. bubblewrap. Default: `False`.

    Example:
        >>> from harness.task_checks.cheats import CHEATS
        >>> CHEATS["prompt fact in a file"].law
        'hidden'
    """

    law: str
    edits: Mapping[str, str]
    words: str
    step: str = ""
    fact: str = ""
    check: str = ""
    needs_isolation: bool = False

    def write_task(self, path: Path) -> str:
        """Write the task to a Python file, and return the name by which `load_task` loads the task.

        Raises:
            ValueError: A text to be replaced does not appear exactly once in the example task.
        """
        text = SKELETON_PATH.read_text(encoding="utf-8").replace("NAME_OF_TASK", FUNCTION)
        for old, new in self.edits.items():
            if text.count(old) != 1:
                raise ValueError(f"the example task must contain {old!r} exactly once (found {text.count(old)} times)")
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        return f"{path}:{FUNCTION}"


_IMPORTS = '"""\n\nfrom harness.task import'
_VALUES = "    times, greeting = values["
_WRITE_STEP = '    do(\n        "write",'
_TRY_STEP = '    look("try", "Try it'
_GREETINGS = "for i in $$(seq ${times}); do"
_FILES = "        workspace=(\n"


def _draw_times(expression: str, module: str = "os") -> dict[str, str]:
    """Return the edits of the example task after which a Python expression gives the value `times`."""
    return {
        _IMPORTS: f'"""\n\nimport {module}\n\nfrom harness.tasks.kit import make_rng\nfrom harness.task import',
        _VALUES: f'    values["times"] = str({expression})\n{_VALUES}',
    }


def _draw_from(text: str, module: str = "os") -> dict[str, str]:
    # The range is wide, so that two results of the expression hardly ever give the same value.
    return _draw_times(f'make_rng(str({text}), task_seed, "times").randrange(3, 10_000)', module)


def _add_step(command: str) -> dict[str, str]:
    """Return the edit of the example task that adds a step `extra` with a shell command."""
    return {_WRITE_STEP: f'    look("extra", "One more look.", run({command!r})),\n{_WRITE_STEP}'}


def _add_file(path: str, text: str) -> dict[str, str]:
    """Return the edit of the example task that adds a file; path and text are Python expressions."""
    return {_FILES: f"{_FILES}            ({path}, {text}),\n"}


def _count_by(expression: str) -> dict[str, str]:
    """Return the edit of the example task after which a shell expression sets the number of greetings."""
    return {_GREETINGS: f"for i in $$(seq {expression}); do"}


_TIMES_VERDICT = "len(lines) == times"


def _judge_times(condition: str) -> dict[str, str]:
    """Return the edit of the example task after which the check `times` has another condition."""
    return {_TIMES_VERDICT: condition}


def _accept_claim(condition: str) -> Cheat:
    """Return a cheat whose check `times` passes also under another condition, which a mere claim of the agent meets."""
    return Cheat(
        law="claims",
        edits=_judge_times(f"{_TIMES_VERDICT} or {condition}"),
        step="write",
        fact="times",
        check="times",
        words="passes if the files that the judge reads only claim",
    )


_OUTPUT_FACT = {
    "make_check, make_file_fact": "make_check, make_output_fact",
    'make_file_fact("greeting", "value", "style.md", "Hello"': 'make_output_fact("greeting", "value", "", "Hello"',
}
_DOUBLE = "{2 * int(times)}"
_COUNTERS = {
    "in a list": ("_CALLS = []", "(_CALLS.append(1) or len(_CALLS))", "the judge changes `_CALLS`"),
    "in an object": (
        "class _Count:\n    n = 0\n\n    def add(self):\n        self.n += 1\n        return self.n\n\n\n_COUNT = _Count()",
        "_COUNT.add()",
        "the judge changes `_COUNT`",
    ),
    "in an iterator": ("_NUMBERS = iter(range(10**7))", "next(_NUMBERS)", "the judge changes `_NUMBERS`"),
    "in a generator": ("_NUMBERS = (n for n in range(10**7))", "next(_NUMBERS)", "the judge changes `_NUMBERS`"),
    "in a function": (
        "def make(n=0):\n    def count():\n        nonlocal n\n        n += 1\n        return n\n    return count\nadd = make()",
        "add()",
        "the judge changes `add`",
    ),
    "in the statistics of a cache": (
        "import functools\n\n\n@functools.lru_cache(0)\ndef _nothing():\n    pass\n",
        "(_nothing() or _nothing.cache_info().misses)",
        r"the judge reads the machine by cache_info \(line \d+ of",
    ),
    "in another module": (
        "import json",
        "(setattr(json, 'calls', getattr(json, 'calls', 0) + 1) or json.calls)",
        r"the judge changes `json\.calls`",
    ),
    "in the environment": (
        "import os",
        "(os.environ.update(CALLS=os.environ.get('CALLS', '') + 'x') or len(os.environ['CALLS']))",
        r"the judge changes the environment variable 'CALLS'|the judge writes|os\.putenv",
    ),
    "in a file": (
        "def _count():\n    with open('/tmp/harness-calls', 'a+') as file:\n        return file.write('x') and file.tell()\n",
        "_count()",
        r"the judge writes .*\(line \d+ of",
    ),
}
"""Ways in which code can count its calls, by the place that holds the count.

Each way has the code that makes the counter, an expression that counts and returns the count, and a regular expression for the
error report that must name the counter.
"""
CHEATS: Mapping[str, Cheat] = {
    # the template depends on something other than the seed
    "unseeded value": Cheat(
        law="template", edits=_draw_times("random.randrange(3, 10**9)", "random"), fact="times", words="called again"
    ),
    "value from a hash": Cheat(
        law="template", edits=_draw_times('hash(f"times {task_seed}") % 10_000 + 3'), fact="times", words="where hashes"
    ),
    "value from the order of a set": Cheat(
        law="template",
        edits=_draw_times('list({f"{n}" for n in range(3, 10_000)})[task_seed]'),
        fact="times",
        words="the order of sets differ",
    ),
    "value from the process": Cheat(
        law="template", edits=_draw_from("os.getpid()"), fact="times", words="differs in another process; "
    ),
    "value from the working directory": Cheat(
        law="template", edits=_draw_from("os.getcwd()"), fact="times", words="in another working directory"
    ),
    "value from a relative path": Cheat(
        law="template", edits=_draw_from('os.path.abspath("x")'), fact="times", words="in another working directory"
    ),
    "value from the home directory": Cheat(
        law="template", edits=_draw_from('os.path.expanduser("~")'), fact="times", words="with another user"
    ),
    "value from the time zone": Cheat(
        law="template", edits=_draw_from("time.localtime(0).tm_hour", "time"), fact="times", words="time zone"
    ),
    "value from the date": Cheat(
        law="template",
        edits=_draw_from("datetime.date.today()", "datetime"),
        words=r"reads the clock by today \(line \d+ of",
    ),
    "value from the date of another program": Cheat(
        law="template", edits=_draw_from('subprocess.getoutput("date +%F")', "subprocess"), fact="times", words="on another day"
    ),
    "value that depends on the clock later": Cheat(
        law="template",
        edits=_draw_from("time.time() > 1e12", "time"),
        words=r"reads the clock by time \(line \d+ of",
    ),
    "value that depends on the year later": Cheat(
        law="template",
        edits=_draw_from("time.strftime('%Y') > '9999'", "time"),
        words=r"reads the clock by strftime \(line \d+ of",
    ),
    "value that depends on the universal time later": Cheat(
        law="template",
        edits=_draw_from("time.gmtime().tm_year > 9999", "time"),
        words=r"reads the clock by gmtime \(line \d+ of",
    ),
    "value that depends on a time-based id later": Cheat(
        law="template",
        edits=_draw_from("uuid.uuid1().time > 2**62", "uuid"),
        words=r"reads the machine by generate_time_safe \(line \d+ of",
    ),
    "value that depends on the time of a file later": Cheat(
        law="template",
        edits=_draw_from('os.stat("/proc/self").st_mtime > 1e12'),
        words=r"reads the machine by st_mtime \(line \d+ of",
    ),
    "value from the host name": Cheat(
        law="template",
        edits=_draw_from("platform.node()", "platform"),
        words=r"reads the machine by node \(line \d+ of",
    ),
    "value from the user id": Cheat(
        law="template", edits=_draw_from("os.getuid()"), words=r"reads the machine by getuid \(line \d+ of"
    ),
    "verdict by a coin of the process": Cheat(
        law="template",
        edits={
            "FACTS = (": "_COIN = os.getpid() % 2\nFACTS = (",
            _IMPORTS: '"""\n\nimport os\n\nfrom harness.task import',
            **_judge_times("len(lines) == times and _COIN < 2"),
        },
        words=r"reads the machine by getpid \(line \d+ of",
    ),
    # the script knows a value, or a guess is right
    "value in a literal": Cheat(
        law="values",
        edits={"range(3, 40)": "(23,)", "Greet ${times} times, each": "Greet ${times} times, 23 in all, each"},
        step="write",
        fact="times",
        words="'23' for every seed",
    ),
    "script that follows the seed": Cheat(
        law="values",
        edits={'final_text="All guests are greeted."': 'final_text=f"All guests are greeted {times} times."'},
        words="final text differs between the seeds",
    ),
    "prior that equals a value": Cheat(
        law="values",
        edits={
            _VALUES: '    values["greeting"] = ("Hello", "Moin")[task_seed % 2]\n' + _VALUES,
        },
        fact="greeting",
        words="prior 'Hello' equals its value",
    ),
    "prior that can be drawn": Cheat(
        law="values",
        edits=_draw_times('make_rng("greeting", task_seed, "times").randrange(1, 10**6)'),
        fact="times",
        words=r"line \d+ of .* can draw its prior '1'",
    ),
    "prior that can be drawn by a sum": Cheat(
        law="values",
        edits=_draw_times('make_rng("greeting", task_seed, "times").randrange(10**6) + 1'),
        fact="times",
        words=r"line \d+ of .* can draw its prior '1'",
    ),
    "prior that can be drawn by a product": Cheat(
        law="values",
        edits=_draw_times('5 * make_rng("greeting", task_seed, "times").choice(range(-9, 10**5)) - 9'),
        fact="times",
        words=r"line \d+ of .* can draw its prior '1'",
    ),
    "prior that is the value and one more": Cheat(
        law="values",
        edits={
            _IMPORTS: '"""\n\nfrom dataclasses import replace\n\nfrom harness.task import',
            "facts=FACTS,": "facts=(replace(FACTS[0], prior=str(int(times) + 1)), FACTS[1]),",
        },
        fact="times",
        words="differs between the seeds",
    ),
    "prior that equals a value under a rare seed": Cheat(
        law="values",
        edits=_draw_times("task_seed % 200 - 60"),
        fact="times",
        words="its prior '1' is its value",
    ),
    # patterns read a wrong value
    "pattern that is too wide for the files": Cheat(
        law="patterns",
        edits={r"Greet (\d+) times": r"(\d+) times", **_add_file('"manners.md"', '"Knock 2 times.\\n"')},
        step="write",
        fact="times",
        words="read '2' from manners.md",
    ),
    "pattern that is too wide for the output": Cheat(
        law="readings",
        edits={r"Greet (\d+) times": r"(\d+) times", **_add_step("echo Knock 2 times")},
        step="extra",
        fact="times",
        words="read '2' from the session",
    ),
    # facts that can be looked up, but should not; or should, but cannot
    "recoverable fact without its source": Cheat(
        law="recovery",
        edits=_add_step("rm style.md"),
        step="write",
        fact="greeting",
        words="cannot be recovered any more before this step: its source 'style.md' does not exist",
    ),
    "recoverable fact with an emptied source": Cheat(
        law="recovery",
        edits=_add_step(": > style.md"),
        step="write",
        fact="greeting",
        words="cannot be recovered any more before this step: its patterns do not read",
    ),
    "unrecoverable fact in a file": Cheat(
        law="hidden", edits=_OUTPUT_FACT, step="write", fact="greeting", words="no recovering call, .* stands in 'style.md'"
    ),
    "prompt fact in a file": Cheat(
        law="hidden",
        edits=_add_file('"notes.md"', 'f"Greet {times} times, no more.\\n"'),
        step="write",
        fact="times",
        words="stands in 'notes.md'",
    ),
    "prompt fact in a file in other words": Cheat(
        law="hidden",
        edits=_add_file('"party.json"', 'f\'{{"seats": {task_seed}, "number": {times}, "table": {task_seed + 7}}}\\n\''),
        step="write",
        fact="times",
        words="stands in 'party.json'",
    ),
    **{
        f"prompt fact in a file, {how}": Cheat(
            law="hidden",
            edits=_add_file('"seats.cfg"', text),
            step="write",
            fact="times",
            words=r"stands in 'seats\.cfg'",
        )
        for how, text in {
            "glued to letters": 'f"row_{times}_end\\n"',
            "with leading zeros": 'f"seats {times:>05}\\n"',
            "as a number with an exponent": 'f"seats {times}e0\\n"',
            "in hexadecimal": 'f"seats {int(times):#x}\\n"',
            "as bytes in hexadecimal": 'f"seats {times.encode().hex()}\\n"',
            "in base64": '__import__("base64").b64encode(f"seats {times}".encode()).decode()',
            "backwards": 'f"seats {times[::-1]} of all\\n"',
        }.items()
    },
    "prompt fact in the name of a file": Cheat(
        law="hidden",
        edits=_add_file('f"party-of-{times}.txt"', '"Welcome.\\n"'),
        step="write",
        fact="times",
        words=r"stands in 'party-of-\d+\.txt'",
    ),
    "prompt fact in a file that a command makes": Cheat(
        law="hidden",
        edits={**_add_file('"count.sh"', f'f"expr {_DOUBLE} / 2\\n"'), **_add_step("sh count.sh > seats.txt")},
        step="write",
        fact="times",
        words="stands in 'seats.txt'",
    ),
    "prompt fact in the output of a command": Cheat(
        law="outputs",
        edits={**_add_file('"count.sh"', f'f"expr {_DOUBLE} / 2\\n"'), **_add_step("sh count.sh")},
        step="extra",
        fact="times",
        words="its value stands in the output of this step",
    ),
    "prompt fact in an output, in words that its pattern reads": Cheat(
        law="outputs",
        edits={
            **_add_file('"count.sh"', f'f"echo Greet $(({_DOUBLE} / 2)) times\\n"'),
            **_add_step("sh count.sh"),
        },
        step="extra",
        fact="times",
        words="its value stands in the output of this step",
    ),
    "prompt fact in an output, encoded": Cheat(
        law="outputs",
        edits={**_add_file('"count.sh"', f'f"echo seats $(({_DOUBLE} / 2)) | base64\\n"'), **_add_step("sh count.sh")},
        step="extra",
        fact="times",
        words="its value stands in the output of this step",
    ),
    "prompt fact in an output between two uses": Cheat(
        law="outputs",
        edits={
            **_add_file('"count.sh"', f'f"expr {_DOUBLE} / 2\\n"'),
            _TRY_STEP: f'    look("extra", "One more look.", run("sh count.sh")),\n{_TRY_STEP} ${{times}} times',
        },
        step="extra",
        fact="times",
        words="its value stands in the output of this step",
    ),
    # the agent's work takes a value from elsewhere than the facts
    "value in an exit code": Cheat(
        law="law-5-told",
        edits={
            **_add_file('"count.sh"', f'f"exit $(({_DOUBLE} / 2))\\n"'),
            **_count_by("$$(sh count.sh; echo $$?)"),
        },
        fact="times",
        words="no check that requires it fails|changes nothing",
    ),
    "value in the size of a file": Cheat(
        law="law-5-told",
        edits={**_add_file('"seats.txt"', '"x" * int(times)'), **_count_by("$$(wc -c < seats.txt)")},
        fact="times",
        words="no check that requires it fails|changes nothing",
    ),
    "value in the name of a file": Cheat(
        law="law-5-told",
        edits={
            **_add_file(f'f"pairs-{_DOUBLE}.txt"', '"Welcome.\\n"'),
            **_count_by("$$(($$(ls pairs-* | tr -dc 0-9) / 2))"),
        },
        fact="times",
        words="no check that requires it fails|changes nothing",
    ),
    "value in the number of files": Cheat(
        law="law-5-told",
        edits={
            _FILES: '        workspace=(\n            *((f"seats/{n:02}.txt", "free") for n in range(int(times))),\n',
            **_count_by("$$(ls seats | wc -l)"),
        },
        fact="times",
        words="no check that requires it fails|changes nothing",
    ),
    # the grader passes less than the whole work, or grades by something else
    "check that passes on untouched files": Cheat(
        law="idle",
        edits=_judge_times(f"not lines or {_TIMES_VERDICT}"),
        step="write",
        fact="times",
        check="times",
        words="passes although nothing was done",
    ),
    "check that passes in an empty workspace": Cheat(
        law="idle",
        edits=_judge_times(f'{_TIMES_VERDICT} or not submission.read_text("guests.txt")'),
        step="write",
        fact="times",
        check="times",
        words="passes in an empty workspace",
    ),
    "check that ignores the value": Cheat(
        law="other-work",
        edits=_judge_times("bool(lines)"),
        step="write",
        fact="times",
        check="times",
        words="passes on the work for seed 2",
    ),
    "check that accepts a changed value": Cheat(
        law="law-5-told",
        edits=_judge_times("bool(lines)"),
        fact="times",
        words="changes the result, but no check that requires it fails",
    ),
    "check that accepts the prior": Cheat(
        law="law-5-blank",
        edits=_judge_times(f"len(lines) == 1 or {_TIMES_VERDICT}"),
        fact="times",
        check="times",
        words="passes with the prior",
    ),
    "expectation in a file of the workspace": Cheat(
        law="other-work",
        edits={
            **_add_file('".expected"', 'hashlib.sha256(f"{times}".encode()).hexdigest()'),
            _IMPORTS: '"""\n\nimport hashlib\n\nfrom harness.task import',
            **_judge_times('hashlib.sha256(f"{len(lines)}".encode()).hexdigest() == submission.read_text(".expected")'),
        },
        step="write",
        fact="times",
        check="times",
        words="reads its expectation from a file that the agent can write",
    ),
    "expectation in the page that states the fact": Cheat(
        law="other-work",
        edits={'line.startswith(f"{greeting} ")': 'f"`{line.split()[0]}`" in submission.read_text("style.md")'},
        step="write",
        fact="greeting",
        check="greeting",
        words="reads its expectation from a file that the agent can write",
    ),
    "verdict by a coin": Cheat(
        law="regrading",
        edits={
            **_judge_times(f"{_TIMES_VERDICT} and random.random() < 0.5"),
            _IMPORTS: '"""\n\nimport random\n\nfrom harness.task import',
        },
        step="write",
        fact="times",
        check="times",
        words=r"the finished work passes \d+ of 20 gradings",
    ),
    "verdict by a coin without work": Cheat(
        law="regrading",
        edits={
            **_judge_times(f"{_TIMES_VERDICT} or (not lines and random.random() < 0.5)"),
            _IMPORTS: '"""\n\nimport random\n\nfrom harness.task import',
        },
        step="write",
        fact="times",
        check="times",
        words=r"the initial workspace passes \d+ of 20 gradings",
    ),
    "verdict by the clock": Cheat(
        law="regrading",
        edits={
            **_judge_times(f"{_TIMES_VERDICT} and datetime.date.today() < datetime.date(9000, 1, 1)"),
            _IMPORTS: '"""\n\nimport datetime\n\nfrom harness.task import',
        },
        words=r"the judge reads the clock by today \(line \d+ of",
    ),
    "verdict by the process": Cheat(
        law="regrading",
        edits={
            **_judge_times(f"{_TIMES_VERDICT} and os.getpid() > 0"),
            _IMPORTS: '"""\n\nimport os\n\nfrom harness.task import',
        },
        words=r"the judge reads the machine by getpid \(line \d+ of",
    ),
    "verdict by the number of gradings": Cheat(
        law="regrading",
        edits={
            **_judge_times(f"{_TIMES_VERDICT} and (_GRADINGS.append(1) or len(_GRADINGS) < 10**6)"),
            "FACTS = (": "_GRADINGS = []\nFACTS = (",
        },
        words="the judge changes `_GRADINGS`",
    ),
    **{
        f"verdict by the number of gradings {where}": Cheat(
            law="regrading",
            edits={**_judge_times(f"{_TIMES_VERDICT} and {count} < 10**6"), "FACTS = (": f"{counter}\nFACTS = ("},
            words=words,
        )
        for where, (counter, count, words) in _COUNTERS.items()
    },
    **{
        f"value that depends on the number of calls {where} later": Cheat(
            law="template",
            edits={
                "FACTS = (": f"{counter}\nFACTS = (",
                **_draw_times(f'make_rng(str({count} > 10**6), task_seed, "times").randrange(3, 10_000)'),
            },
            words=words.replace("the judge", "the template"),
        )
        for where, (counter, count, words) in _COUNTERS.items()
    },
    # the grader believes the agent
    "check that accepts a claim": _accept_claim('"done" in submission.read_text("REPLY.md").lower()'),
    "check that accepts a claim in a field": _accept_claim("'\"passed\": true' in submission.read_text('out.json')"),
    "check that accepts any text": _accept_claim('bool(submission.read_text("REPLY.md"))'),
    "check of a claim that nobody asked for": Cheat(
        law="claims",
        edits={
            **_judge_times('f"greeted {times} times" in submission.read_text("REPLY.md")'),
            _TRY_STEP: f"""    do("reply", "A reply.", write("REPLY.md", "I greeted ${{times}} times.")),\n{_TRY_STEP}""",
        },
        step="write",
        fact="times",
        check="times",
        words=r"passes on 'REPLY\.md' alone, which no text of the task names",
    ),
    # commands give another result when they are run again
    "nanoseconds in the output": Cheat(law="repeats", edits=_add_step("date +%N"), step="extra", words="the tool outputs differ"),
    "random output": Cheat(
        law="repeats", edits=_add_step("od -N 8 -An -t x1 /dev/urandom"), step="extra", words="the tool outputs differ"
    ),
    "random file": Cheat(
        law="repeats", edits=_add_step("od -N 8 -An -t x1 /dev/urandom > noise"), step="extra", words="the file 'noise' differs"
    ),
    "order of a set in the output": Cheat(
        law="repeats",
        edits=_add_step("env -u PYTHONHASHSEED python3 -c \"print({f'{n}' for n in range(40)})\""),
        step="extra",
        words="the tool outputs differ",
    ),
    "date in the output": Cheat(
        law="other-day", edits=_add_step("date +%F"), step="extra", words="outputs differ .* on another day", needs_isolation=True
    ),
    "date in a file": Cheat(
        law="other-day",
        edits=_add_step("date +%Y > today"),
        step="extra",
        words="the file 'today' differs .* on another day",
        needs_isolation=True,
    ),
    "date of a file in the output": Cheat(
        law="other-day",
        edits=_add_step("date -r style.md +%F"),
        step="extra",
        words="outputs differ .* other times of files",
        needs_isolation=True,
    ),
    "process id in the output": Cheat(
        law="other-day", edits=_add_step("echo $$$$"), step="extra", words="outputs differ .* process ids", needs_isolation=True
    ),
    "process that stays": Cheat(
        law="law-9",
        edits=_add_step("sleep 600 > /dev/null 2>&1 &"),
        words="commands were executed again although the action cache was warm",
        needs_isolation=True,
    ),
}
"""Tasks with one deliberate defect each (cheats), by the name of the defect."""
