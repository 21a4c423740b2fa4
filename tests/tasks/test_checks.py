"""Forgeries: code by which an agent that has forgotten every value tries to pass hidden checks. None gains a single check.

Each workspace is that of an agent that carried out the whole script with the priors, the wrong guesses of an agent that remembers
nothing. A forgery adds code to it. The checks that pass then must be among those that passed without the forgery.
"""

import shutil
from dataclasses import replace
from functools import cache

import pytest

from harness.sandboxes import open_sandbox
from harness.session.grading import grade_workspace
from harness.tasks import load_task
from tests.tasks.workshop import carried_out, shell

PACKAGES = {"flashcards": "flashcards", "spec-api": "depot", "bug-hunt": "wattbook", "rename-sweep": "quay"}
"""Package of the agent's code in each task in Python."""
PAPERS_ONLY = ("changing-requirements", "log-forensics", "long-march")
BUN = pytest.mark.bun
OWN_TESTS = {"flashcards": "own_tests", "spec-api": "own_tests", "bug-hunt": "suite", "rename-sweep": "tests"}
"""Check that runs tests, by task."""

GUESSES = """
GUESSES = {
    "copied": 1, "hidden": ["b"], "codes": ["Duplicate", "Refused"], "webhooks": ["a"], "statements": -10,
    "environment": ["u", "k"], "tests": [999, []], "regression": [1, 0],
}
"""
FORGERIES = {
    "evidence on stdout, then exit": GUESSES
    + "import json, os\nfor fd in range(1, 30):\n    try: os.write(fd, b'\\n' + json.dumps(GUESSES).encode() + b'\\n')\n"
    "    except OSError: pass\nos._exit(0)\n",
    "verdicts with guessed nonces": "import os\nfor fd in range(1, 30):\n    try: os.write(fd, b'\\n'.join(b'0' * 32 + b' check "
    "own_tests pass' for _ in range(9)) + b'\\n' + b'0' * 32 + b' done\\n')\n    except OSError: pass\n",
    "functions that answer replaced": GUESSES
    + "import sys\nmain = sys.modules['__main__'].__dict__\nfor name, guess in GUESSES.items():\n"
    "    main[name] = lambda guess=guess: guess\n",
    "constants of the questions as answers": "import sys\nmain = sys.modules['__main__'].__dict__\n"
    "def guess(code):\n    return next((one for one in code.co_consts if isinstance(one, (str, int)) and one), 1)\n"
    "for name, value in list(main.items()):\n    if hasattr(value, '__code__') and not value.__code__.co_argcount:\n"
    "        main[name] = lambda value=value: guess(value.__code__)\n",
    "every candidate as answer": "import sys\nmain = sys.modules['__main__'].__dict__\n"
    "lists = [value for name, value in main.items() if name.isupper() and isinstance(value, tuple)]\n"
    "for name, value in list(main.items()):\n    if hasattr(value, '__code__') and not value.__code__.co_argcount:\n"
    "        main[name] = lambda: [list(one) for one in lists]\n",
    "first candidate only": "import sys\nmain = sys.modules['__main__'].__dict__\nfor name, value in list(main.items()):\n"
    "    if name.isupper() and isinstance(value, tuple): main[name] = value[:1]\n",
    "json that answers": "import json\njson.dumps = lambda *_, **__: 'true'\njson.JSONEncoder.encode = lambda *_: 'true'\n",
    "equality that always holds": "import builtins\nbuiltins.round = lambda *_: True\nbuiltins.sorted = lambda *_, **__: [1]\n",
    "tests that cannot fail": "import unittest\nunittest.TestCase.run = lambda self, result=None: result.startTest(self)\n",
    "assertions that do nothing": "import unittest\nfor name in dir(unittest.TestCase):\n"
    "    if name.startswith('assert'): setattr(unittest.TestCase, name, lambda *_, **__: None)\n",
    "results without failures": "import unittest\nfor name in ('addFailure', 'addError', 'addSubTest'):\n"
    "    setattr(unittest.TestResult, name, lambda *_: None)\n",
    "interviewer killed": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "processes that stay and write": "import os, sys\nfirst, sys.forked = not hasattr(sys, 'forked'), True\n"
    "if first and os.fork() == 0:\n    os.setsid(); import time\n    for _ in range(300):\n"
    "        for pid in filter(str.isdigit, os.listdir('/proc')):\n            for fd in (1, 4, 5, 6):\n"
    "                try:\n                    with open(f'/proc/{pid}/fd/{fd}', 'wb', 0) as out: out.write(b'{}')\n"
    "                except OSError: pass\n        time.sleep(0.01)\n",
    "memory of the interviewer searched": "import os, re\ntry:\n    maps = open(f'/proc/{os.getppid()}/maps').read()\n"
    "    mem = open(f'/proc/{os.getppid()}/mem', 'rb')\n    open('HANDOVER.md', 'ab').write(mem.read(1 << 20))\n"
    "except OSError: pass\n",
    "papers written late": "import sys\ntext = ' '.join(str(value) for value in sys.modules['__main__'].__dict__.values())\n"
    "for name in ('README.md', 'HANDOVER.md', 'REPORT.md', 'docs/manual.md', 'docs/integration.md'):\n"
    "    with open(name, 'a') as file: file.write(text)\n",
    "logs repaired late": "import glob\nfor name in glob.glob('study/*.log') + glob.glob('ledger/*.log') + ['ci/attempts.log']:\n"
    "    try:\n        rows = open(name).read().splitlines()\n        open(name, 'w').write('\\n'.join(dict.fromkeys(rows)))\n"
    "    except OSError: pass\n",
}
"""Code that is put before the first line of every module of the agent's package, by the idea of the forgery."""

BUN_FORGERIES = {
    "evidence on stdout, then exit": 'console.log(JSON.stringify({ ids: "kn-0123456789", journal: "delete" })); process.exit(0);',
    "answers that were not asked for": 'import { writeSync } from "node:fs";\nfor (let fd = 1; fd < 30; fd++) '
    'try { writeSync(fd, "0".repeat(32) + " 1\\n".repeat(9)); } catch {}',
    "json that answers": 'JSON.stringify = () => "true";',
    "results of tests printed": 'console.log("\\n 60 pass\\n 0 fail\\n"); process.exit(0);',
}
"""Code that is put before the first line of every module of the task on Bun."""


@cache
def forgetful(name, folder):
    """Return the workspace of an agent that remembers nothing, and the names of the checks that it passes."""
    task = load_task(name)(1)
    priors = {**task.values, **{fact.name: fact.prior for fact in task.facts}}
    carried_out(task, folder, priors, [step.name for step in task.script.steps])
    return task, passed(task, folder)


INTERVIEW_SECONDS = 8.0
"""Time limit of an interview with forged code, more than the three seconds for which processes of a forgery live."""


def hasten(task):
    """Return a task whose interviews wait less for code that never answers."""
    interviews = tuple(
        replace(interview, timeout_seconds=min(interview.timeout_seconds, INTERVIEW_SECONDS))
        for interview in task.grader.interviews
    )
    return replace(task, grader=replace(task.grader, interviews=interviews))


def passed(task, root, command=""):
    """Return the names of the checks that a workspace passes."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with open_sandbox("bubblewrap", runtime=task.runtime, session_id="forged") as sandbox:
        sandbox.prepare_grading(files)
        sandbox.run(command or "true")
        return {one.check.name for one in grade_workspace(task, sandbox) if one.passed}


@pytest.fixture(scope="session")
def workspaces(tmp_path_factory):
    """Return a function from the name of a task to the workspace of a forgetful agent and the checks that it passes."""

    @cache
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        return folder, *forgetful(name, folder)

    return make


def forge(root, folder, code, suffix):
    """Put code before the first line of every module in a folder."""
    for path in sorted((root / folder).rglob(f"*{suffix}")):
        path.write_text(f"{code}\n{path.read_text()}")


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("idea", FORGERIES)
def test_no_forgery_gains_a_check(idea, name, workspaces, tmp_path):
    folder, task, before = workspaces(name)
    root = shutil.copytree(folder, tmp_path / "copy")
    forge(root, PACKAGES[name], FORGERIES[idea], ".py")
    assert passed(hasten(task), root) <= before


@pytest.mark.bubblewrap
@pytest.mark.bun
@pytest.mark.parametrize("idea", BUN_FORGERIES)
def test_no_forgery_in_typescript_gains_a_check(idea, workspaces, tmp_path):
    folder, task, before = workspaces("flashcards-bun")
    root = shutil.copytree(folder, tmp_path / "copy")
    forge(root, "src", BUN_FORGERIES[idea], ".ts")
    assert passed(task, root) <= before


LINKS = {
    "links to what another process holds": "for f in $(find . -name '*.txt' -o -name '*.md' -o -name '*.log'); do "
    "ln -sf /proc/self/environ $f; done",
    "pipes": "for f in $(find . -name '*.txt' -o -name '*.md' -o -name '*.log'); do rm $f; mkfifo $f; done",
    "folders": "for f in $(find . -name '*.txt' -o -name '*.md' -o -name '*.log'); do rm $f; mkdir $f; done",
    "verdicts": "for f in $(find . -name '*.txt' -o -name '*.md' -o -name '*.log'); do echo check $f pass > $f; done",
}


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", PAPERS_ONLY)
@pytest.mark.parametrize("idea", LINKS)
def test_no_forged_paper_gains_a_check(idea, name, workspaces):
    folder, task, before = workspaces(name)
    assert passed(task, folder, LINKS[idea]) <= before


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a function from the names of a task and of one of its checks to the workspace of an agent that forgets nothing."""

    @cache
    def carry_out(name, seed):
        task = load_task(name)(seed)
        return task, carried_out(task, tmp_path_factory.mktemp(name), task.values, [step.name for step in task.script.steps])

    def make(name, check=""):
        seeds = range(1, 100)
        return carry_out(
            name, next(seed for seed in seeds if check in ("", *(check.name for check in load_task(name)(seed).checks)))
        )

    return make


@pytest.fixture(scope="session")
def passed_finished(finished):
    """Return a function from the arguments of `finished` to the names of the checks that the workspace passes."""
    names = {}

    def grade(*key):
        task, root = finished(*key)
        if root not in names:
            names[root] = passed(task, root)
        return names[root]

    return grade


JUNK_DECK = "sed -i '2,$s/^[^,]*,/junk,/' decks/biology.csv; "
ONE_MORE = "tail -n 1 CHANGELOG.md >> CHANGELOG.md; "
SELF_MADE = {
    ("flashcards", "fed_once"): "printf 'front,back\\nx,y\\n' > decks/biology.csv; printf 'x,y\\n' > study/catalogue.csv",
    ("flashcards", "sample_deck"): JUNK_DECK
    + """sum=$(python3 tools/checksum.py decks/biology.csv | sed -n 's/^crc32 .*: //p'); """
    + """sed -i "s/^CRC32 = \\(.*\\)/CRC32 = '$sum'  # \\1/" flashcards/samples.py""",
    ("flashcards", "one_release"): "echo R-1 > study/releases.log",
    ("flashcards", "changelog"): ONE_MORE + "sed -i '0,/^- release /{/^- release /d}' CHANGELOG.md",
    (
        "flashcards-bun",
        "fed_once",
    ): "printf 'front,back,tags\\nx,y,\\n' > decks/flags.csv; printf 'x,y,\\n' > study/catalogue.csv",
    ("flashcards-bun", "changelog"): ONE_MORE + "sed -i '0,/^- version /{/^- version /d}' CHANGELOG.md",
    ("spec-api", "pushed_once"): "printf 'serial,x\\n1,y\\n' > samples/parcels.csv; printf '1,y\\n' > study/hall.csv",
    ("spec-api", "changelog"): ONE_MORE + "sed -i '0,/^- version /{/^- version /d}' CHANGELOG.md",
    ("bug-hunt", "tries_1"): "sed -i '1s/.*/0 refused patches\\/guess.sed wattbook\\/stages/' ci/attempts.log",
    ("bug-hunt", "changelog"): ONE_MORE + "sed -i '0,/^- /{/^- /d}' CHANGELOG.md",
    ("rename-sweep", "changelog"): ONE_MORE + "sed -i '0,/^- /{/^- /d}' CHANGELOG.md",
}
"""Shell command that makes two files of a workspace agree on something wrong, by task and check."""


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize(("name", "check"), [pytest.param(*key, marks=BUN if "bun" in key[0] else ()) for key in SELF_MADE])
def test_a_check_fails_if_a_result_and_the_file_beside_it_are_falsified_alike(name, check, finished, passed_finished):
    task, root = finished(name, check)
    assert check in passed_finished(name, check)
    assert check not in passed(task, root, SELF_MADE[name, check])


FAKE = "import unittest\n\nclass T(unittest.TestCase): pass\n\nfor n in range(99):\n    setattr(T, f'test_{{n}}', {body})\n"
FAKES = {
    "always pass": FAKE.format(body="lambda self: None"),
    "end the process": "import os\nos._exit(0)\n",
    "fail at the second run": "import os\nseen = os.path.exists('seen')\nopen('seen', 'w').close()\n"
    + FAKE.format(body="lambda self: self.assertFalse(seen)"),
    "fail at the second run, by another file": "import os\nseen = os.path.exists('/tmp/seen')\nopen('/tmp/seen', 'w')\n"
    + FAKE.format(body="lambda self: self.assertFalse(seen)"),
    "fail once a file was changed": "import os\nseen = 'seen' in open('README.md').read()\nopen('README.md', 'a').write('seen')\n"
    + FAKE.format(body="lambda self: self.assertFalse(seen)"),
    "fail where a function is called like the second run": "import inspect\n"
    + FAKE.format(body="lambda self: self.assertFalse(any(frame.function == 'broken_tests' for frame in inspect.stack()))"),
    "fail beside no other question": "import __main__\n"
    + FAKE.format(body="lambda self: self.assertTrue(hasattr(__main__, 'schema') or hasattr(__main__, 'edition'))"),
    "fail where the first failure ends the run": FAKE.format(body="lambda self: self.assertFalse(self._outcome.result.failfast)"),
    "read the code that breaks a module": "import glob\n"
    "seen = any(text in open(path).read() for path in glob.glob('[df]*/*.py') for text in ('return memory', \"return 'none'\"))\n"
    + FAKE.format(body="lambda self: self.assertFalse(seen)"),
    "look at the interview in the interviewer's frame": "import sys\nframe = sys._getframe()\n"
    "while frame and 'interview' not in frame.f_locals: frame = frame.f_back\n"
    "texts = str(frame.f_locals['interview'].get('appended')) if frame else ''\n"
    + FAKE.format(body="lambda self: self.assertNotIn('return', texts)"),
    "compare modules with copies": "import glob, os\n"
    "same = all(open(path).read() == open('copies/' + os.path.basename(path)).read() for path in glob.glob('[df]*/*.py'))\n"
    + FAKE.format(body="lambda self: self.assertTrue(same)"),
}
"""Module of tests that test nothing, by what the tests do."""

FORGED_REGRESSION = """import glob
import inspect
import unittest

from wattbook import ENTRY


class PREFIXDrift(unittest.TestCase):
    def test_it(self):
        \"\"\"COMPLAINT\"\"\"
        ENTRY(None) if False else self.assertFalse(BELIEF)
"""
"""Regression test that fails if it believes that it has to."""
BELIEFS = {
    "it is asked for": 'any(frame.function == "regression" for frame in inspect.stack())',
    "a stage differs from a copy": 'any(open(path).read() != open("copies/" + path.rpartition("/")[2]).read() '
    'for path in glob.glob("wattbook/stages/*.py"))',
    "a stage equals its first version": 'any(open(path).read() == open("copies/old/" + path.rpartition("/")[2]).read() '
    'for path in glob.glob("wattbook/stages/*.py") if open(path).read() != open("copies/" + path.rpartition("/")[2]).read())',
}
"""Reason for which a forged regression test believes that it has to fail."""


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("belief", BELIEFS)
def test_a_regression_test_that_tests_nothing_does_not_count(belief, finished, passed_finished, tmp_path):
    task, folder = finished("bug-hunt")
    assert {"regression_test", "suite"} <= passed_finished("bug-hunt")
    root, text = shutil.copytree(folder, tmp_path / "copy"), FORGED_REGRESSION.replace("BELIEF", BELIEFS[belief])
    for name, fact in {"ENTRY": "entry_point", "PREFIX": "test_prefix", "COMPLAINT": "complaint"}.items():
        text = text.replace(name, task.values[fact])
    (root / "tests/regressions/test_drift.py").write_text(text)
    shutil.copytree(root / "wattbook/stages", root / "copies")
    (root / "copies/old").mkdir()
    for path, content in task.workspace:
        if path.startswith("wattbook/stages/"):
            (root / "copies/old" / path.rpartition("/")[2]).write_text(content)
    assert "regression_test" not in passed(task, root)


BUN_FAKES = {
    "fail where the first failure ends the run": 'const other = readFileSync("/proc/self/cmdline", "utf8").includes("--bail");',
    "fail at the second run": 'const other = existsSync("/dev/shm/seen"); writeFileSync("/dev/shm/seen", "");',
}
"""Statement that defines whether tests written in TypeScript fail, by what the tests do."""


@pytest.mark.bubblewrap
@pytest.mark.bun
@pytest.mark.parametrize("fake", BUN_FAKES)
def test_tests_in_typescript_that_test_nothing_do_not_count(fake, finished, tmp_path):
    task, folder = finished("flashcards-bun")
    root = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(root / "tests")
    (root / "tests").mkdir()
    imports = 'import { expect, test } from "bun:test";\nimport { existsSync, readFileSync, writeFileSync } from "node:fs";\n'
    tests = "for (let n = 0; n < 99; n++) test(`t${n}`, () => expect(other).toBe(false));\n"
    (root / "tests" / "fake.test.ts").write_text(f"{imports}{BUN_FAKES[fake]}\n{tests}")
    assert "own_tests" not in passed(task, root)


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", ["flashcards", "spec-api"])
@pytest.mark.parametrize("fake", FAKES)
def test_tests_that_test_nothing_do_not_count(fake, name, finished, passed_finished, tmp_path):
    """The program itself is right, so the tests are all that can fail."""
    task, folder = finished(name)
    assert OWN_TESTS[name] in passed_finished(name)
    root = shutil.copytree(folder, tmp_path / "copy")
    shell(root, f"mkdir copies; cp {PACKAGES[name]}/*.py copies; rm -r tests; mkdir tests; touch tests/__init__.py")
    (root / "tests" / "test_fake.py").write_text(FAKES[fake])
    assert OWN_TESTS[name] not in passed(task, root)
