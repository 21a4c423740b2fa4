"""Server of a model that answers some requests and is then killed with SIGKILL, as when the memory of a machine has run out.

Usage: python -m tests.models.mortal_server ANSWERS, which prints the address and serves until standard input ends.
"""

import os
import signal
import sys

from harness.conversation.messages import assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.models.endpoint.server import serve_endpoint
from harness.protocols import Reply


class Mortal:
    """Model with a number of answers to live."""

    name, window = "mortal", Window(tokens=32_768, source="configuration")

    def __init__(self, answers):
        self.answers = answers

    def reply(self, request, listen=None):
        if self.answers == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.answers -= 1
        usage = Usage(input_tokens=Measured(100), output_tokens=Measured(7))
        return Reply(message=assistant("The work goes on as planned."), usage=usage, seconds=0.0)


if __name__ == "__main__":
    model = Mortal(int(sys.argv[1]))
    with serve_endpoint(lambda _: model) as endpoint:
        print(endpoint.address, flush=True)
        sys.stdin.read()
