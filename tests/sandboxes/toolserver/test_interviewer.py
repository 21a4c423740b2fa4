"""The interviewer prepares what all interviews need, and an interview behaves as if nothing had been prepared."""

import ast
import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from harness.sandboxes import open_sandbox
from harness.sandboxes.toolserver import interviewer, load_source

SOURCE = Path(interviewer.__file__).read_text(encoding="utf-8")
MODULES = ("csv", "decimal", "json")
TELL = """
import sys
import app
def loaded(): return sorted(name for name in ("csv", "decimal") if name in LOADED)
def shared(): return [app.load.__code__.co_filename, app.VALUE, app.WARNED]
"""
"""Interview that returns which modules were loaded before it began, and what a module of the workspace contains."""

FIND = r"""
import gc, os, resource, signal, stat, sys
def files(): return [[n, stat.S_IFMT(os.fstat(n).st_mode)] for n in map(int, os.listdir("/proc/self/fd")) if is_open(n)]
def is_open(n):
    try:
        return bool(os.fstat(n))
    except OSError:
        return False
def signals(): return {n: str(signal.getsignal(n)).partition(" at ")[0] for n in sorted(signal.valid_signals())}
def read(name): return open("/proc/self/" + name).read()
def masks(): return [line for line in read("status").split("\n") if line.startswith(("SigB", "SigC", "Cap", "No", "Secc", "Gro"))]
def rights(): return [os.umask(0o77), os.getpriority(0, 0), read("limits")]
def garbage(): return [gc.isenabled(), gc.get_threshold()]
def oom(): return int(read("oom_score_adj"))
def place(): return [os.getcwd(), os.getppid() > 1, os.getsid(0) == os.getpid(), sys.argv, sys.path]
def variables(): return dict(os.environ)
def flags(): return [str(sys.flags), sys._xoptions, sys.warnoptions, sys.executable, hash("text"), sys.flags.hash_randomization]
def encodings(): return [sys.stdout.encoding, sys.stderr.errors, sys.getfilesystemencoding(), open(os.devnull).encoding]
def names(): return sorted(vars(sys.modules["__main__"]))
def modules(): return sorted(sys.modules)
def command(): return read("cmdline")
"""
"""Interview that returns everything that could distinguish its process from another."""
FINDINGS = [
    "garbage",
    "files",
    "signals",
    "masks",
    "rights",
    "place",
    "variables",
    "flags",
    "encodings",
    "names",
    "modules",
    "oom",
    "command",
]
UNSEEN = {"_blake2", "_hashlib", "errno"}
"""Modules written in C that the tool server has imported, and whose names no file of a workspace has."""


def test_its_syntax_is_that_of_python_3_8():
    ast.parse(SOURCE, feature_version=(3, 8))


def test_the_interviewer_imports_only_the_standard_library():
    nodes = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


ARGUMENTS = (".grade/interviewer.py", ".grade/interviews.json")


def hold(files, source, questions, count=interviewer.MIN_PREPARED_INTERVIEWS, *, is_forked=True, prepare=":"):
    """Hold equal interviews in a sandbox, and return the answers of each; the names of answers are numbered.

    The command `prepare` runs before. The interviewer is a fork of the tool server, or else a command.
    """
    interviews = [
        {"source": source, "questions": questions, "runtime": "python", "timeout_seconds": 30.0, "appended": [], "replaced": []}
        | {"names": [f"{number}.{question}" for question in questions]}
        for number in range(count)
    ]
    content = json.dumps({"interviews": interviews, "modules": MODULES})
    with open_sandbox("bubblewrap", session_id="test-interviewer") as sandbox:
        sandbox.run(prepare)
        sandbox.prepare_grading({path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()})
        sandbox.prepare_grading(dict(zip(ARGUMENTS, (load_source("interviewer"), content.encode()), strict=True)))
        if is_forked:
            result = sandbox.run_program("interviewer", *ARGUMENTS, timeout_seconds=60.0, output_bytes=2**20)
        else:
            result = sandbox.run(f"exec python3 -S -B {' '.join(ARGUMENTS)}")
    assert (result.exit_code, result.stderr) == (0, b"")
    answers = {name: json.loads(text) for name, text in json.loads(result.stdout).items()}
    return [[answers.get(f"{number}.{question}") for question in questions] for number in range(count)]


LOADED = "import sys\nLOADED = set(sys.modules)\n"


@pytest.mark.bubblewrap
class TestPreparation:
    @pytest.mark.parametrize(("count", "loaded"), [(interviewer.MIN_PREPARED_INTERVIEWS, ["csv"]), (1, [])])
    def test_modules_that_the_workspace_imports_are_loaded_once_for_several_interviews(self, count, loaded):
        files = {"app.py": "def load():\n    import csv\nVALUE, WARNED = 1, 0\n"}
        answers = hold(files, LOADED + TELL, ["loaded", "shared"], count)
        assert answers == [[loaded, ["/workspace/app.py", 1, 0]]] * count

    @pytest.mark.parametrize("count", [interviewer.MIN_PREPARED_INTERVIEWS, 1])
    def test_in_a_fork_of_the_tool_server_an_interview_finds_what_it_finds_in_a_command(self, count):
        held = [hold({}, FIND, FINDINGS, count, is_forked=is_forked) for is_forked in (True, False)]
        forked, command = ([dict(zip(FINDINGS, answers, strict=True)) for answers in interviews] for interviews in held)
        assert ["interviewer.py" in answers.pop("command") for answers in forked + command] == [False] * count + [True] * count
        assert [answers.pop("oom") for answers in forked] == [1000] * count
        for answers, expected in zip(forked, command, strict=True):
            del expected["oom"]  # 0 if the command protected itself before the tool server could set the value
            assert set(answers.pop("modules")) - set(expected.pop("modules")) <= UNSEEN
            assert answers == expected

    @pytest.mark.parametrize("name", ["resource", "hashlib"])
    def test_a_module_of_the_tool_server_takes_the_place_of_no_file(self, name):
        source = f"def ask():\n    import {name}\n    return getattr({name}, 'VALUE', 0)\n"
        assert hold({f"{name}.py": "VALUE = 1\n"}, source, ["ask"], 1) == [[1]]
        assert hold({f"{name}.py": "VALUE = 1\n"}, source, ["ask"], 1, is_forked=False) == [[1]]

    @pytest.mark.parametrize("count", [interviewer.MIN_PREPARED_INTERVIEWS, 1])
    def test_no_file_of_the_workspace_takes_the_place_of_a_module(self, count):
        files = {"app.py": "def load(): pass\nVALUE, WARNED = 1, 0\n", "decimal.py": "raise SystemExit('shadowed')"}
        source = LOADED + TELL + "def decimal():\n    import decimal\n    return decimal.__name__\n"
        assert hold(files, source, ["loaded", "decimal"], count) == [[["csv", "decimal"], "decimal"]] * count

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("def load(): pass\nVALUE = 1\nWARNED = 0\n", ["/workspace/app.py", 1, 0]),
            ("def load(:\n", "SyntaxError: invalid syntax (app.py, line 1)"),
            (
                "# coding: latin-1\ndef load(): pass\nVALUE = '\xe9'\nWARNED = 0\n".encode("latin-1"),
                ["/workspace/app.py", "\xe9", 0],
            ),
            ("def load(): pass\nVALUE = 1\nWARNED = '\\d'\n", ["/workspace/app.py", 1, "\\d"]),
        ],
    )
    def test_a_prepared_interview_answers_like_an_unprepared_one(self, text, answer):
        source = TELL if isinstance(answer, list) else "def shared():\n    import app\n"
        prepared = hold({"app.py": text}, source, ["shared"])
        assert prepared == [[answer]] * len(prepared)
        assert hold({"app.py": text}, source, ["shared"], 1) == [[answer]]

    def test_a_warning_of_the_compiler_reaches_every_interview(self):
        source = "import warnings\nwarnings.simplefilter('error')\ndef ask():\n    import app\n"
        ((answer,), *others) = hold({"app.py": "VALUE = 1 is 1\n"}, source, ["ask"])
        assert answer.startswith("SyntaxError: ")
        assert others == [[answer]] * len(others)

    def test_every_interview_answers_with_the_error_of_its_own_source(self):
        ((answer,),) = hold({}, "def ask(:\n", ["ask"], 1)
        assert answer == "SyntaxError: invalid syntax (<interview>, line 1)"
        assert hold({}, "def ask(:\n", ["ask"]) == [[answer]] * interviewer.MIN_PREPARED_INTERVIEWS

    def test_a_file_that_the_compiler_does_not_survive_stops_no_interview(self):
        nested = "VALUE = " + "-" * 200_000 + "1\n"
        answers = hold({"bad.py": nested, "app.py": "VALUE = 1\n"}, "import app\ndef ask(): return app.VALUE\n", ["ask"])
        assert answers == [[1]] * len(answers)


def test_changed_files_are_compiled_again_and_others_are_not(tmp_path, monkeypatch):
    path = tmp_path / "app.py"
    path.write_text("VALUE = 1\n")
    codes = interviewer.compile_apart({str(path): b"VALUE = 1\n"})()
    loader = SourceFileLoader
    compiled = []

    def compile_source(self, data, path, **options):
        compiled.append(data)
        return compile(data, path, "exec")

    monkeypatch.setattr(loader, "source_to_code", compile_source)
    interviewer._use_codes(codes)
    for text, value, times in (("VALUE = 1\n", 1, 0), ("VALUE = 2\n", 2, 1)):
        space: dict[str, int] = {}
        exec(loader("app", str(path)).source_to_code(text.encode(), str(path)), space)
        assert (space["VALUE"], len(compiled)) == (value, times)


def test_only_programs_of_several_interviews_are_compiled_before_them():
    warned, broken, good = "VALUE = 1 is 1\n", "VALUE =\n", "VALUE = 1\n"
    programs = interviewer.compile_repeated([warned, broken, good, "", warned, broken, good])
    assert list(programs) == [good]
    space: dict[str, object] = {}
    exec(programs[good], space)
    assert space["VALUE"] == 1


def test_files_outside_the_folder_and_links_are_not_read(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.py").write_text("SECRET = 1\n")
    (tmp_path / "inside" / "app.py").write_text("import csv\n")
    (tmp_path / "inside" / "link.py").symlink_to(tmp_path / "outside.py")
    sources, names = interviewer.find_sources(str(tmp_path / "inside"))
    assert sources == {str(tmp_path / "inside" / "app.py"): b"import csv\n"}
    assert names == {"app", "link"}


def test_folders_links_and_files_of_modules_can_be_imported_and_documents_cannot(tmp_path):
    for name in ("json.py", "csv.pyc", "math.cpython-311-x86_64-linux-gnu.so", "calendar.md", "numbers.ts", "queue"):
        (tmp_path / name).touch()
    (tmp_path / "decimal").mkdir()
    (tmp_path / "heapq").symlink_to("decimal")
    (tmp_path / "loop").symlink_to("loop")
    sources, names = interviewer.find_sources(str(tmp_path))
    assert sources == {str(tmp_path / "json.py"): b""}
    assert names == {"json", "csv", "math", "decimal", "heapq", "loop"}


MESSAGES = """
import os
def look(name="left/note"):
    try:
        os.chmod("left", 0o700)
        return open(name).read()
    except OSError:
        os.makedirs("left", exist_ok=True)
        open(name, "w").write("a message")
        return "nothing"
    finally:
        os.chmod("left", 0)
def dig():
    fd, found = os.open(".", os.O_RDONLY), "nothing"
    for _ in range(30):
        try:
            os.mkdir("d" * 200, dir_fd=fd)
        except FileExistsError:
            found = "a message"
        fd = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
    return found
"""
"""Interview that looks for a message of an earlier interview, and leaves one in a place that is difficult to reach."""


@pytest.mark.bubblewrap
class TestFiles:
    @pytest.mark.parametrize("prepare", [":", "mkdir -p left/inner; chmod 000 left/inner left"])
    def test_no_interview_finds_what_another_left_in_a_closed_folder(self, prepare):
        assert hold({}, MESSAGES, ["look"], 3, prepare=prepare) == [["nothing"]] * 3

    def test_after_files_that_cannot_be_deleted_no_interview_is_held(self):
        assert hold({}, MESSAGES, ["dig"], 3) == [["nothing"], [None], [None]]

    def test_a_closed_folder_of_the_workspace_stays_closed(self):
        source = "import os\ndef mode(): return oct(os.stat('d').st_mode)[-3:]"
        assert hold({}, source, ["mode"], 3, prepare="mkdir -p d/e; touch d/e/f; chmod 500 d/e; chmod 100 d") == [["100"]] * 3
