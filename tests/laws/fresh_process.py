"""The program of a process that answers one request and ends: everything it knows comes by its standard input, as JSON."""

import json
import sys

from harness import codec
from harness.models.names import open_model
from harness.protocols import Request
from harness.tasks import make_task


def main() -> None:
    """Draw the task, build the model by its name, answer, and write message and usage."""
    given = json.load(sys.stdin)
    task, request = make_task(given["task"], given["task_seed"]), codec.from_plain(Request, given["request"])
    model = open_model(given["model"], task=task, seed=given["model_seed"], window_tokens=given["window_tokens"])
    reply = model.reply(request)
    sys.stdout.write(json.dumps([codec.to_plain(reply.message), codec.to_plain(reply.usage)]))


if __name__ == "__main__":
    main()
