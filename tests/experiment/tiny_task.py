"""Task that takes a few seconds: write a port from the prompt into a file, then produce some output."""

from dataclasses import replace

from harness.task import CallTemplate, Check, Evidence, Fact, Grader, Interview, LaterMessage, Script, Step, Task
from harness.tasks.kit.graders import check_tests

ROUNDS = 8


def judge(submission):
    text = submission.read_text("conf.txt")
    yield "port", text == f"port={submission.expected['port']}\n", f"got {text!r}"
    yield "note", "note.txt" in submission.list_files("."), "it is gone"


def asking_judge(submission):
    verdicts = list(judge(submission))
    answers = submission.ask()
    for name, passed, detail in verdicts:
        yield name, passed and "anything" in answers, detail


def step(name, tool, **arguments):
    key = next(iter(arguments.values()))
    return Step(
        name=name,
        text=f"Now {name}.",
        calls=(CallTemplate(tool=tool, arguments=tuple(arguments.items())),),
        done=Evidence(receipts=((tool, key.replace(".", r"\.")),)),
        required_facts=("port",) if "${port}" in str(arguments) else (),
    )


def tiny(seed):
    return make_tiny_task(seed, "seq 1 400")


def alone(seed):
    """Return the tiny task without a message that arrives while the agent works."""
    return replace(tiny(seed), later_messages=())


def wordy(seed):
    """Return the tiny task with output of words, which a real tokenizer does not split into digits."""
    return make_tiny_task(
        seed, "for i in 1 2 3 4 5 6; do echo 'The server reads its settings from a file and listens on the port.'; done"
    )


def slow(seed):
    """Return the tiny task with steps that take long enough for a user to send a message."""
    return make_tiny_task(seed, "sleep 0.4 && seq 1 400")


def make_tiny_task(seed, output):
    port = str(4000 + seed)
    rounds = [step(f"round {n}", "execute_command", command=f"{output} && echo round-{n}-") for n in range(ROUNDS)]
    for number, planned in enumerate(rounds):
        done = Evidence(receipts=(("execute_command", f"round-{number}-"),))
        rounds[number] = Step(name=planned.name, text=planned.text, calls=planned.calls, done=done)
    return Task(
        name="tiny",
        title="Write a port down",
        tags=("constraints",),
        prompt=f"Write `port=N` into conf.txt, where N is the port. The port is {port}.\nThen count to 400 a few times.",
        workspace=(("note.txt", "a note\n"),),
        runtime="python",
        checks=(
            Check(name="port", title="The port is written down", required_facts=("port",)),
            Check(name="note", title="A note"),
        ),
        grader=Grader(judge=judge, expected={"port": port}),
        facts=(Fact(name="port", kind="constraint", said_in="prompt", patterns=(r"The port is (\d+)",), prior="8080"),),
        script=Script(
            steps=(*rounds, step("write", "write_file", path="conf.txt", content="port=${port}\n")),
            final_text="All done.",
        ),
        later_messages=(LaterMessage(step=3, text="Take your time."),),
        values={"port": port},
    )


def broken(seed):
    """Return a task for seed 0 only; other seeds raise an exception."""
    return tiny(seed) if seed == 0 else 1 / 0


def flipping_judge(submission):
    """Grade one more check, `flip`, which passes if the agent's code answers 1."""
    yield from judge(submission)
    yield "flip", submission.ask()["anything"] == 1, "it was 0"


def tests_judge(submission):
    """Grade the agent's tests, some runs of which have a function that is wrong on purpose."""
    yield "tests", *check_tests(submission.ask(), 1)


def losing(seed):
    """Return a task whose first command kills the tool server where that is possible, i.e. in the sandbox `local`."""
    return make_tiny_task(seed, "kill -9 $$PPID")


def sleepy(seed):
    """Return the tiny task with commands that sleep far longer than a trial may take."""
    return make_tiny_task(seed, "sleep 2")


HOGS = """
import os, time
open("/proc/self/oom_score_adj", "w").write("0")
for name in "abcd":
    os.system("head -c 15000000 /dev/zero > /dev/shm/" + name)
for _ in range(100):
    if os.fork() == 0:
        x = b"x" * (3 << 20); time.sleep(60); os._exit(0)
time.sleep(60)
"""


def greedy(seed):
    """Return a task whose first command uses up the memory of the sandbox, with processes smaller than the tool server."""
    return replace(make_tiny_task(seed, "python3 hogs.py"), workspace=(("hogs.py", HOGS),))


def trapped(seed):
    """Return a task whose workspace uses up the memory of the sandbox when it is graded."""
    task = tiny(seed)
    grader = replace(
        task.grader, judge=asking_judge, interviews=(Interview(source="import hogs", questions=("anything",), timeout_seconds=5),)
    )
    return replace(task, workspace=(("hogs.py", HOGS),), grader=grader)
