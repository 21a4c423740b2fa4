"""Tests of `harness agent` (S0.10): requests of several lines, the printed log, the journal, and sessions that are resumed."""

import io
import os
import pty
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.cli.agent import configure_resumed_session, find_resumed_session, print_skipped_files, read_typed_lines, run_session
from harness.cli.event_printer import EventPrinter
from harness.errors import HarnessError
from harness.session.execution import CopiedFiles
from harness.session.live_session import LiveSession
from harness.session.storage import load_log
from harness.store.journal import Journal
from harness.store.sessions.lookup import find_session, list_journals
from tests.cli.command import LOCAL, START, TINY, environment, harness, started, within
from tests.models.openai_stub import Refuse, Say, serving
from tests.session.test_execution import session
from tests.store.samples import begun, opening


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch):
    """Run the commands of a test in a folder of its own, where they store their journals."""
    folder = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(folder)
    return folder


HIDDEN = TINY.replace("tiny_task.py:tiny", "exploring_task.py:hidden")
COMPACTING = ("--task", TINY, "--window", "16000", "--threshold", "0.5", *LOCAL)


def test_a_scripted_session_is_printed_from_start_to_end(tmp_path):
    done = harness("agent", *COMPACTING, "--journal", tmp_path / "j.sqlite", "--keep", tmp_path / "files")
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout
    for expected in (
        "started: model scripted/tiny:attentive, window 16,000 tokens",
        "compaction 1 before step",
        "[write_file] conf.txt -> ok",
        "session ended: completed (replied)",
        "checks: 2 of 2 passed",
    ):
        assert expected in done.stderr
    sizes = re.findall(r"(?:step \d+|conversation): (\d+) messages, about ([\d,]+) tokens in view", done.stderr)
    assert int(sizes[-1][0]) == int(sizes[-2][0]) + 1, "S4.4: the last answer has come since the last step was sent"
    assert (tmp_path / "files" / "conf.txt").read_text() == "port=4000\n"
    assert not list((tmp_path / "files").glob(".checks*"))
    journal = sqlite3.connect(tmp_path / "j.sqlite")
    try:
        [(status, reason)] = journal.execute("SELECT status, reason FROM sessions").fetchall()
        [(rounds,)] = journal.execute("SELECT count(*) FROM compaction_events").fetchall()
    finally:
        journal.close()
    assert (status, reason) == ("completed", "replied")
    assert rounds == len(re.findall(r"compaction (?:\d+ )?before step", done.stderr))


def test_a_file_stands_for_its_only_task(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("from tests.experiment.tiny_task import tiny\n\n\ndef own(seed):\n    return tiny(seed)\n")
    done = within("agent", "--task", file, *LOCAL, "--max-steps", "2", "--journal", tmp_path / "j.sqlite")
    assert done.exit_code == 1, done.stderr
    words = list_resume_words(done.stderr)
    assert words[words.index("--task") + 1] == f"{file}:own"


@pytest.mark.slow
def test_a_level_of_difficulty_changes_the_task_and_is_part_of_the_command_that_resumes_it(tmp_path):
    file = tmp_path / "own.py"
    template = "def own(seed, *, difficulty='standard'):\n    return replace(tiny(seed), title=difficulty)\n"
    file.write_text(f"from dataclasses import replace\nfrom tests.experiment.tiny_task import tiny\n\n\n{template}")
    begun_words = ("agent", "--task", file, *LOCAL, "--max-steps", "2", "--journal", tmp_path / "j.sqlite")
    words = list_resume_words(within(*begun_words, "--difficulty", "hard").stderr)
    assert words[words.index("--difficulty") + 1] == "hard"
    assert within(*words, "--max-steps", "20").exit_code == 0
    with Journal.open(tmp_path / "j.sqlite") as journal:
        (session_id,) = journal.list_session_ids()
    spec = LiveSession.reopen(tmp_path / "j.sqlite", session_id).spec
    assert spec.task is not None
    assert spec.task.title == "hard"


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--task", TINY), "has no levels of difficulty"), ((), "--difficulty hard needs a task, which it changes; name one with")],
)
def test_a_level_of_difficulty_without_a_task_that_has_levels_is_refused(options, message):
    refused = within("agent", *options, "--difficulty", "hard", *LOCAL)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_window_too_narrow_for_its_policy_is_warned_of_before_the_session_starts():
    done = within("agent", "--task", TINY, "--window", "16000", "--set", "trigger_tokens=900", "--max-steps", "1", *LOCAL)
    [warning] = [line for line in done.stderr.splitlines() if line.startswith("warning: policy")]
    assert warning.startswith("warning: policy 'keep-last' is due at 900 tokens")
    assert "and compacts again and again" in warning
    assert warning.endswith("; raise window_tokens, or raise trigger_tokens")
    assert done.stderr.index(warning) < done.stderr.index("started: model scripted")


def test_a_journal_in_a_folder_that_is_not_there_makes_it_and_says_so(tmp_path):
    journal = tmp_path / "some" / "new" / "j.sqlite"
    for is_new in (True, False):
        done = within("agent", "--task", TINY, "--max-steps", "1", "--journal", journal, *LOCAL)
        assert (f"creating the folder of the journal: {journal.parent}\n" in done.stderr) == is_new
    assert journal.exists()


def test_a_session_that_is_refused_makes_no_folder(tmp_path):
    refused = within("agent", "--task", TINY, "--window", "20", "--journal", tmp_path / "new" / "j.sqlite", *LOCAL)
    assert refused.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.bubblewrap
def test_the_agent_command_uses_a_sandbox_by_default():
    done = within("agent", "--task", TINY, "--backend", "bubblewrap")
    assert done.exit_code == 0, done.stderr
    assert "sandbox bubblewrap" in done.stderr


def test_a_task_of_several_lines_is_read_from_standard_input():
    done = within("agent", "--task", TINY, *LOCAL, given="Write port=N into conf.txt.\n\nThe port is 4711.\n")
    assert "checks: 1 of 2 passed" in done.stderr  # the grader expects 4000
    assert "check port failed: got 'port=4711\\n'" in done.stderr


def test_a_policy_for_a_larger_window_is_scaled_to_a_small_one(tmp_path):
    done = within(
        "agent", "--task", TINY, "--window", "9000", "--nominal-window", "36000", "--journal", tmp_path / "j.sqlite", *LOCAL
    )
    assert done.exit_code == 0, done.stderr
    journal = sqlite3.connect(tmp_path / "j.sqlite")
    try:
        [(rule,)] = journal.execute("SELECT budget_rule FROM sessions").fetchall()
    finally:
        journal.close()
    assert "constants scaled by 0.25, from a nominal window of 36000" in rule


def test_a_session_that_runs_out_of_steps_fails():
    done = within("agent", "--task", TINY, "--max-steps", "2", *LOCAL)
    assert done.exit_code == 1
    assert "session ended: failed (max_steps): stopped after 2 steps" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "standard input holds no request"),
        (("--task", "flashcard"), "unknown task 'flashcard'; did you mean 'flashcards'"),
        (("--task", "xyz"), "spec-api. A task of your own is named FILE.py:FUNCTION."),
        (("--task", TINY.partition(":")[0]), "name the task as"),
        (("--task", TINY, "--policy", "keeplast"), "did you mean 'keep-last'"),
        (("--task", TINY, "--threshold", "7"), "threshold=7.0 must be above 0 and at most 1"),
        (("--task", TINY, "--policy", "none", "--threshold", "0.5"), "threshold"),
        (("--task", TINY, "--set", "keep_last"), "write FIELD=VALUE"),
        (("--task", TINY, "--set", "keep_lasst=3"), "did you mean 'keep_last'?"),
        (("--task", TINY, "--model", "scripted/oracle"), "writes summaries"),
        (("--task", TINY, "--backend", "local"), "unsafe"),
        (("--task", TINY, *LOCAL, "--image", "mine:1"), "image 'mine:1': the sandbox 'local' has no images"),
        (("--task", TINY, "--policy", "none", "--window", "100"), "more than the window of 100; raise window_tokens"),
    ],
)
def test_impossible_options_are_refused_before_the_session_starts(arguments, message, tmp_path):
    refused = within("agent", *arguments, "--journal", tmp_path / "j.sqlite")
    assert refused.exit_code == 2, refused.stderr
    assert refused.stderr.startswith("error: ")
    assert message in refused.stderr
    assert "started" not in refused.stderr


def test_files_that_are_not_kept_are_listed_and_their_names_are_escaped(capsys):
    narrator = EventPrinter(text_stream=sys.stdout, log_stream=sys.stderr)
    print_skipped_files(
        CopiedFiles(1, (("a\x1b[2J\nb", "a link, not a file"), *((f"f{n}", "large") for n in range(11)))), narrator
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "12 files not copied:"
    assert lines[1] == "  a�[2J b: a link, not a file"
    assert lines[-1] == "  and 2 more"
    print_skipped_files(CopiedFiles(1, ()), narrator)
    assert capsys.readouterr().err == ""


def test_a_request_for_the_scripted_model_without_its_task_names_both_ways_out():
    refused = within("agent", *LOCAL, given="hi")
    assert refused.exit_code == 2
    assert "--task" in refused.stderr
    assert "--model" in refused.stderr


LATIN_1 = "café".encode("latin-1")


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("is_option", [False, True])
def test_an_input_that_is_not_utf_8_is_refused_before_a_session_starts(tmp_path, locale, is_option):
    (tmp_path / "input").write_bytes(LATIN_1)
    options = ("--instructions", str(tmp_path / "input")) if is_option else ()
    journal = tmp_path / "j.sqlite"
    with (tmp_path / "input").open("rb") as file:
        process = subprocess.run(
            [sys.executable, "-c", START, "agent", "--task", TINY, *LOCAL, "--journal", str(journal), *options],
            stdin=subprocess.DEVNULL if is_option else file,
            capture_output=True,
            text=True,
            env=environment(LC_ALL=locale),
            check=False,
        )
    assert process.returncode == 2
    name = "the file of --instructions" if is_option else "standard input"
    assert process.stderr.startswith(f"error: {name} is not text in UTF-8; convert it first")
    assert not journal.exists()


def test_a_message_that_is_not_utf_8_does_not_resume_a_session(tmp_path):
    journal = tmp_path / "j.sqlite"
    done = within("agent", "--task", TINY, *LOCAL, "--journal", journal, "--max-steps", "2")
    assert done.exit_code == 1, done.stderr
    before, name = count_rows(journal, "event"), find_session("", (journal,)).session_id
    refused = within("agent", "--resume", name, "--journal", journal, "--unsafe-local", given=LATIN_1)
    assert (refused.exit_code, "standard input is not text in UTF-8" in refused.stderr) == (2, True), refused.stderr
    assert count_rows(journal, "event") == before


def test_files_are_not_laid_over_others(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    refused = within("agent", "--task", TINY, *LOCAL, "--keep", tmp_path)
    assert refused.exit_code == 2
    assert "not empty" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


@pytest.mark.slow
def test_a_real_model_works_over_a_socket():
    answers = (
        Refuse(status=429, error={"message": "slow down"}, headers=(("Retry-After", "0"),)),
        Say(pieces=("I ", "write."), calls=(("c1", "write_file", '{"path": "a.txt", "content": "hi"}'),), finish="tool_calls"),
        Say(pieces=("It is ", "written.")),
    )
    with serving(*answers) as stub:
        done = harness(
            *("agent", "--model", "hosted_vllm/stub", "--window", "50000", *LOCAL),
            given="write hi\n\ninto a.txt\n",
            HOSTED_VLLM_API_BASE=stub.base,
            HOSTED_VLLM_API_KEY="planted-0123456789",
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "I write.\nIt is written.\n"
    assert "waiting" in done.stderr
    assert "retry 1 of 3: rate limited" in done.stderr
    assert "[write_file] a.txt -> ok" in done.stderr
    assert "at an unknown price" in done.stderr
    assert "planted" not in done.stdout + done.stderr
    assert stub.asked[0]["messages"][1] == {"role": "user", "content": "write hi\n\ninto a.txt"}
    assert len(stub.asked[0]["tools"]) == 4


@pytest.mark.docker
@pytest.mark.parametrize("options", [(), ("--network",)])
def test_network_and_image_reach_the_container(options):
    look = Say(pieces=("I look.",), calls=(("c1", "execute_command", '{"command": "cat /proc/net/dev"}'),), finish="tool_calls")
    docker = ("--backend", "docker", "--image", os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py"))
    with serving(look, Say(pieces=("Seen.",))) as stub:
        done = harness(
            *("agent", "--model", "hosted_vllm/stub", "--window", "50000", *docker, *options),
            given="look",
            HOSTED_VLLM_API_BASE=stub.base,
            HOSTED_VLLM_API_KEY="planted-0123456789",
        )
    assert done.returncode == 0, done.stderr
    seen = stub.asked[1]["messages"][-1]["content"]
    assert "lo:" in seen
    assert ("eth0:" in seen) is bool(options)


@pytest.mark.slow
def test_a_key_that_is_missing_is_named():
    refused = within("agent", "--model", "anthropic/claude-sonnet-4-5", *LOCAL, given="hello")
    assert refused.exit_code == 2
    assert "ANTHROPIC_API_KEY" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_session_in_order(number, tmp_path):
    process = started("agent", "--task", TINY, *LOCAL, "--journal", tmp_path / "j.sqlite", "--max-steps", "400")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 1"):
            break
    process.send_signal(number)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "session ended: failed (cancelled)" in rest


SLOW = TINY.replace(":tiny", ":slow")


class Person:
    """User at a terminal, who types lines and keys and reads the log."""

    def __init__(self, *arguments):
        self.keyboard, theirs = pty.openpty()
        self.process = started("agent", "--task", SLOW, *LOCAL, *arguments, stdin=theirs)
        os.close(theirs)
        self.output = ""
        self.patience = threading.Timer(500, self.process.kill)
        self.patience.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.patience.cancel()
        self.process.kill()
        self.process.communicate()
        os.close(self.keyboard)

    def types(self, text):
        os.write(self.keyboard, text.encode())

    def reads_until(self, sign):
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.output += line
            if sign in line:
                return line
        raise AssertionError(f"{sign!r} never came:\n{self.output}")

    def leaves(self):
        """End the input and return the exit code."""
        self.types("\x04")
        _, rest = self.process.communicate(timeout=300)
        self.output += rest
        return self.process.returncode


def test_a_person_at_a_terminal_is_asked_and_ends_with_two_empty_lines():
    with Person() as person:
        person.types("Write the port down.\nThe port is 4000.\n\n\n")
        assert person.leaves() == 0, person.output
    assert "end with two empty lines:\n> " in person.output
    assert "checks: 2 of 2 passed" in person.output


@pytest.mark.slow
def test_text_typed_during_a_turn_is_queued_and_slash_commands_are_obeyed(tmp_path):
    with Person("--seed", "3", "--explore", "--journal", tmp_path / "its  own journal's") as person:
        person.types("\n")
        person.reads_until("step 1:")
        person.types("and one more\nand another\n")
        assert "position 2" in person.reads_until("queued at position 2")
        person.reads_until("turn 3 ended: completed (replied)")
        person.reads_until("idle: type a message")
        person.types("/summary\n")
        assert "1 file changed, 1 line added" in person.reads_until("file changed")
        assert "conf.txt" in person.reads_until("added +1 -0")
        person.types("/compact\n")
        assert "asked for" in person.reads_until("compaction 1 before step")
        person.types("/fork-after 7\n/fork-after 1\n")
        person.reads_until("error: the session has no")
        person.reads_until("forked: harness agent --journal")
        person.types("/diff 9\n/nonsense\n/rollback\n/rollback 5\n")
        person.reads_until("error: the session has no turn 9; it has turns 1 to 3")
        person.reads_until("error: there is no command '/nonsense'; /help lists the commands")
        person.reads_until("error: /rollback does not take these arguments; write /rollback STEP")
        person.reads_until("rolled back to step 5")
        person.types("/fork 4\n/resume\n")
        forked = shlex.split(person.reads_until("forked: harness agent --journal"))
        person.reads_until("turn 1 ended: completed")
        assert person.leaves() == 0, person.output
    assert "checks: 2 of 2 passed" in person.output
    gone_on = harness(*forked[2:])
    assert gone_on.returncode == 0, gone_on.stderr
    assert "session resumed: model scripted/tiny:attentive" in gone_on.stderr
    assert "checks: 2 of 2 passed" in gone_on.stderr


def test_ctrl_c_stops_the_turn_and_a_second_one_the_session():
    with Person() as person:
        person.types("\n")
        person.reads_until("step 1:")
        person.process.send_signal(signal.SIGINT)
        person.reads_until("turn 1 ended: failed (cancelled)")
        person.reads_until("idle: type a message")
        person.types("/resume\n")
        person.reads_until("turn 1 ended: completed")
        person.reads_until("idle: type a message")
        person.process.send_signal(signal.SIGINT)
        _, rest = person.process.communicate(timeout=300)
        assert "session ended: completed (replied)" in rest
        assert person.process.returncode == 0


def test_a_terminal_that_breaks_ends_the_session_in_order(tmp_path, monkeypatch):
    folder = os.open(tmp_path, os.O_RDONLY)  # an open folder, which cannot be read as a file
    wanted = session(journal=tmp_path / "j.sqlite", keep=tmp_path / "files")

    def fileno():
        end = time.monotonic() + 300
        while not has_begun(wanted.journal) and time.monotonic() < end:
            time.sleep(0.02)
        return folder

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, fileno=fileno, encoding="utf-8"))
    with pytest.raises(IsADirectoryError):
        run_session(wanted, "s", EventPrinter(text_stream=io.StringIO(), log_stream=io.StringIO()))
    os.close(folder)
    assert (tmp_path / "files" / "note.txt").exists()
    assert load_log(wanted.journal, find_session("", (wanted.journal,)).session_id)[-1].event.kind == "session-ended"


def has_begun(journal):
    try:
        return bool(load_log(journal, find_session("", (journal,)).session_id))
    except HarnessError:  # the file or the session does not exist yet
        return False


def list_resume_words(stderr):
    """Return the words of the printed command that resumes a session, without the name of the program."""
    [line] = [line for line in stderr.splitlines() if line.startswith("resume the session with: ")]
    program, *words = shlex.split(line.partition(": ")[2])
    assert program == "harness"
    return words


def count_rows(journal, what="event WHERE kind = 'message-added'"):
    with Journal.open(journal, read_only=True) as opened:
        return opened.query(f"SELECT count(*) FROM {what}")[0][0]


@pytest.mark.slow
def test_a_piped_session_is_kept_in_the_folder_of_the_widgets_and_resumed(folder):
    """S0.10: the request has several lines, the limit ends the session after conf.txt was written."""
    done = harness("agent", "--task", TINY, *LOCAL, "--max-steps", "9", given="Write `port=N` down.\n\nThe port is 4000.\n")
    assert done.returncode == 1, done.stderr
    assert "session ended: failed (max_steps)" in done.stderr
    [journal] = list_journals(folder / "sessions")
    name = journal.stem
    assert f"session {name} started" in done.stderr
    listed = harness("sessions", "list")
    assert name in listed.stdout, listed.stderr
    words = list_resume_words(done.stderr)
    assert words[:5] == ["agent", "--journal", f"sessions/{name}.sqlite", "--resume", name]
    messages = count_rows(journal)
    again = harness("agent", "--resume", name[:7], "--task", TINY, "--unsafe-local")
    assert again.returncode == 0, again.stderr
    assert "session resumed: model scripted/tiny:attentive" in again.stderr
    assert "checks: 2 of 2 passed" in again.stderr, "the file that was written before is in the workspace"
    assert list_resume_words(again.stderr) == words
    assert list_journals(folder / "sessions") == (journal,)
    assert count_rows(journal) == messages + 1, "it had nothing left to do but to say so"
    logged = [entry.event.message.text for entry in load_log(journal, name) if entry.event.kind == "message-added"]
    assert logged[1] == "Write `port=N` down.\n\nThe port is 4000."


@pytest.mark.slow
def test_a_piped_session_whose_process_is_killed_is_resumed_with_its_files(folder):
    """S0.10: after a kill, the resumed session has the workspace and the results of its last step."""
    process = started("agent", "--task", TINY.replace(":tiny", ":slow"), *LOCAL)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 3:"):
            break
    process.kill()
    process.communicate(timeout=300)
    [journal] = list_journals(folder / "sessions")
    before = load_log(journal, journal.stem)
    assert before[-1].event.kind in {"step-finished", "workspace-saved", "turn-ended"}
    done = harness("agent", "--resume", journal.stem, "--task", TINY.replace(":tiny", ":slow"), "--unsafe-local")
    assert done.returncode == 0, done.stderr
    assert "checks: 2 of 2 passed" in done.stderr
    after = load_log(journal, journal.stem)
    assert after[: len(before)] == before
    commands = [call.arguments_json for e in after if e.event.kind == "message-added" for call in e.event.message.calls]
    finished = [e.event.step for e in before if e.event.kind == "step-finished"]
    assert len(set(commands[: len(finished)]) & set(commands[len(finished) + 1 :])) == 0, "no finished command is run again"


@pytest.mark.slow  # the library of real models takes its time to load
def test_a_resumed_pipe_answers_another_request_in_the_same_workspace(folder):
    """S0.10."""
    answers = (
        Say(calls=(("c1", "write_file", '{"path": "a.txt", "content": "kept"}'),), finish="tool_calls"),
        Say(pieces=("It is written.",)),
        Say(calls=(("c2", "execute_command", '{"command": "cat a.txt"}'),), finish="tool_calls"),
        Say(pieces=("It says: kept.",)),
    )
    with serving(*answers) as stub:
        real = {"HOSTED_VLLM_API_BASE": stub.base, "HOSTED_VLLM_API_KEY": "planted-0123456789"}
        first = ("agent", "--model", "hosted_vllm/stub", "--window", "50000", *LOCAL)
        done = harness(*first, given="write kept\ninto a.txt\n", **real)
        assert done.returncode == 0, done.stderr
        done = harness(*list_resume_words(done.stderr), given="and what\ndoes it say?\n", **real)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "It says: kept.\n"
        sent = stub.asked[3]["messages"]
    assert [one["content"] for one in sent if one["role"] == "user"] == ["write kept\ninto a.txt", "and what\ndoes it say?\n"]
    assert "kept" in sent[-1]["content"]


def test_no_journal_keeps_no_file(folder):
    """S0.10."""
    done = harness("agent", "--task", TINY, *LOCAL, "--no-journal")
    assert done.returncode == 0, done.stderr
    assert "checks: 2 of 2 passed" in done.stderr
    assert "resume" not in done.stderr
    assert list(folder.iterdir()) == []
    for option in (("--journal", "j.sqlite"), ("--resume", "s")):
        refused = within("agent", "--task", TINY, *LOCAL, "--no-journal", *option)
        assert (refused.exit_code, refused.stderr) == (
            2,
            f"error: --no-journal and {option[0]} exclude each other; leave one of them out\n",
        )


@pytest.mark.slow
def test_a_dialog_is_kept_in_the_same_folder(folder):
    """S0.10."""
    with Person() as person:
        person.types("\n")
        person.reads_until("step 1:")
        person.types("/quit\n")
        person.process.wait(300)
        person.output += person.process.stderr.read()
    [journal] = list_journals(folder / "sessions")
    words = list_resume_words(person.output)
    assert words[2:5] == [f"sessions/{journal.stem}.sqlite", "--resume", journal.stem]
    done = harness(*words)
    assert done.returncode == 0, done.stderr
    assert "checks: 2 of 2 passed" in done.stderr


def test_a_session_that_is_not_there_cannot_be_resumed(tmp_path):
    refused = within("agent", "--task", TINY, *LOCAL, "--resume", "nobody")
    assert refused.exit_code == 2
    assert refused.stderr == "error: the folder 'sessions' holds no journal of a session to resume; add --journal FILE\n"
    refused = within("agent", "--task", TINY, *LOCAL, "--resume", "nobody", "--journal", tmp_path / "j.sqlite")
    assert (refused.exit_code, "there is no journal" in refused.stderr) == (1, True)


def test_a_session_is_resumed_by_its_beginning_and_several_are_listed(tmp_path):
    journal = tmp_path / "j.sqlite"
    with Journal.open(journal) as opened:
        for name in ("abc1", "abc2", "b77"):
            begun(opened, name).append(opening(name))
    refused = within("agent", "--resume", "abc", "--journal", journal)
    assert (refused.exit_code, "2 sessions match 'abc': abc1 in" in refused.stderr) == (2, True)
    refused = within("agent", "--resume", "c", "--journal", journal)
    assert (refused.exit_code, "no session id begins or ends with 'c'" in refused.stderr) == (2, True)
    assert find_resumed_session("b", journal).session_id == "b77"
    refused = within("agent", "--resume", "b", "--instructions", __file__, "--journal", journal)
    assert (refused.exit_code, "the system prompt of a session never changes" in refused.stderr) == (2, True)


def test_lines_end_at_two_empty_ones_and_single_empty_lines_belong_to_the_task():
    assert list(read_typed_lines(io.StringIO("a\n\nb\n\n\nnot read\n"))) == ["a\n", "\n", "b\n", "\n"]
    assert list(read_typed_lines(io.StringIO("\na\n"))) == []
    assert list(read_typed_lines(io.StringIO("a"))) == ["a"]


@pytest.mark.slow
def test_the_model_of_the_sub_agent_is_an_option_that_a_resumed_session_keeps(tmp_path):
    """S3.20."""
    journal, task = tmp_path / "j.sqlite", ("--task", HIDDEN)
    done = harness("agent", *task, *LOCAL, "--explore-model", "scripted:typical", "--journal", journal)
    assert done.returncode == 0, done.stderr
    assert "checks: 2 of 2 passed" in done.stderr
    assert "including 1 sub-agent: 2 steps, " in done.stderr
    with Journal.open(journal, read_only=True) as opened:
        models = dict(tuple(row) for row in opened.query("SELECT id, model FROM sessions ORDER BY id"))
    own, child = sorted(models)
    assert models == {own: "scripted/hidden:attentive", child: "scripted/hidden:typical"}
    location = find_session(own, (journal,))
    plain = session(task=None)
    assert configure_resumed_session(plain, location, frozenset(), None).explore_model == "scripted:typical"
    other = replace(plain, explore=True, explore_model="openai/gpt-4o")
    assert configure_resumed_session(other, location, frozenset({"explore_model"}), None).explore_model == "openai/gpt-4o"


@pytest.mark.slow
def test_the_reader_is_an_option_that_a_resumed_session_keeps(tmp_path):
    """The scripted agent finds a port that the request states in other words than the task's only with the tolerant reader."""
    journal = tmp_path / "j.sqlite"
    request = "Write `port=N` into conf.txt, where N is the port.\nUse 4000 as the port."
    for reader, passed in (("exact", 1), ("tolerant", 2)):
        done = harness("agent", "--task", TINY, *LOCAL, "--reader", reader, "--journal", journal, given=request)
        assert done.returncode == 0, done.stderr
        assert f"checks: {passed} of 2 passed" in done.stderr, reader
    with Journal.open(journal, read_only=True) as opened:
        names = {row[0] for row in opened.query("SELECT id FROM sessions WHERE model LIKE '%+tolerant'")}
    location = find_session(names.pop(), (journal,))
    plain = session(task=None)
    assert configure_resumed_session(plain, location, frozenset(), None).reader == "tolerant"
    assert configure_resumed_session(plain, location, frozenset({"reader"}), None).reader == "exact"


def test_a_real_model_has_no_reader():
    refused = within("agent", "--model", "openai/gpt-4o", "--reader", "tolerant", "--no-journal", given="Say hello.")
    assert (refused.exit_code, "only a scripted model has a reader" in refused.stderr) == (2, True)
