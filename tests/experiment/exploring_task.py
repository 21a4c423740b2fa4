"""Task whose port stands in the middle of a long file, where the agent sends a sub-agent to find it."""

from dataclasses import replace

from harness.task import CallTemplate, Check, Evidence, Fact, Grader, Script, Step, Task
from tests.experiment.tiny_task import judge, step

QUESTION = "What is the port in log.txt?"
FILLING = "\n".join(f"[{number:05}] nothing happened" for number in range(600))
GREP = CallTemplate(tool="execute_command", arguments=(("command", "grep 'port is' log.txt"),))


def hidden(seed):
    """Return a task that reads a long file, asks a sub-agent for the port in it, and writes the port down."""
    port = str(4000 + seed)
    ask = Step(
        name="ask",
        text="I send a sub-agent.",
        calls=(CallTemplate(tool="explore", arguments=(("question", QUESTION),)),),
        done=Evidence(receipts=(("explore", "^What is the port"),)),
    )
    return Task(
        name="hidden",
        title="Find a port and write it down",
        tags=("large outputs",),
        prompt="Find the port in log.txt and write `port=N` into conf.txt.",
        workspace=(("note.txt", "a note\n"), ("log.txt", f"{FILLING}\nThe port is {port}.\n{FILLING}\n")),
        checks=(
            Check(name="port", title="The port is written down", required_facts=("port",)),
            Check(name="note", title="A note"),
        ),
        grader=Grader(judge=judge, expected={"port": port}),
        facts=(
            Fact(name="port", kind="value", said_in="file", patterns=(r"The port is (\d+)",), prior="8080", recover=GREP),
            Fact(name="host", kind="value", said_in="file", patterns=(r"The host is (\w+)",), prior="none"),
        ),
        script=Script(
            steps=(
                step("read", "read_file", path="log.txt"),
                ask,
                step("write", "write_file", path="conf.txt", content="port=${port}\n"),
            ),
            final_text="All done.",
        ),
        values={"port": port},
    )


def lost(seed):
    """Return the task with a sub-agent that has no way to look up the port."""
    task = hidden(seed)
    return replace(task, facts=tuple(replace(fact, recover=None) for fact in task.facts))
