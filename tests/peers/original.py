"""Original program in a process of its own that answers one line of JSON with one line of JSON."""

import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.peers.environments import CHECKOUT, ENVIRONMENTS


class DriverProcess:
    """Process of a driver, a module that calls `serve`, under a given interpreter; the opener closes it."""

    def __init__(self, interpreter: str, module: str, *arguments: str, home: str) -> None:
        litellm = find_spec("litellm")
        assert litellm is not None
        assert litellm.origin is not None
        variables = {
            "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
            "PATH": os.environ["PATH"],
            "HOME": home,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "MSWEA_SILENT_STARTUP": "1",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "TIKTOKEN_CACHE_DIR": str(Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"),
        }
        self._process = subprocess.Popen(
            [interpreter, "-m", module, *arguments],
            cwd=CHECKOUT, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip

    def ask(self, operation: str, **case: Any) -> Any:
        """Return the answer of the driver to a case.

        Raises:
            AssertionError: the driver raised an exception; the message holds its traceback.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"operation": operation, **case}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the driver ended with exit code {self._process.wait()}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Original(DriverProcess):
    """Process for all cases of a test module; the opener closes it."""

    def __init__(self, name: str) -> None:
        environment = ENVIRONMENTS[name]
        environment.make()
        super().__init__(str(environment.interpreter), f"tests.peers.drivers.{name}_driver", home=str(environment.path))
