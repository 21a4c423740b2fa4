"""Test of the default system prompt against the first design document (S0)."""

import pytest

from harness.agent.prompts import COMPLETION_MARKER, build_system_prompt
from tests.session.test_execution import session

DOCUMENT = """\
You are a coding agent that builds software by executing commands and managing files.

ENVIRONMENT:
- All commands run inside a Docker container with Bun installed
- Working directory is /workspace
- You have full shell access via execute_command
- You can read/write files and list directories

APPROACH:
1. Understand the task requirements fully before starting
2. Break complex tasks into smaller, testable steps
3. Create files incrementally, testing as you go
4. Use execute_command to run tests, install dependencies, etc.
5. If something fails, read the error and fix it

STYLE:
- Write clean, idiomatic code
- Minimal comments (code should be self-documenting)
- Follow language/framework conventions
- Test your work before declaring completion

CONSTRAINTS:
- Do not ask clarifying questions - make reasonable assumptions
- Focus on implementation, minimize explanation"""
COMPLETION = f"\n- When everything is done, reply without calling a tool, or end your reply with the line {COMPLETION_MARKER}"


@pytest.mark.parametrize(("runtime", "name"), [("python", "Python 3"), ("bun", "Bun")])
def test_the_system_prompt_is_the_documents_apart_from_the_sandbox_and_the_sign_of_completion(runtime, name):
    """S0.1, S0.8: other sandboxes and runtimes than the document's, and a line for its explicit completion."""
    expected = DOCUMENT.replace("a Docker container with Bun", f"a sandbox with {name}") + COMPLETION
    assert build_system_prompt(runtime) == expected
    if runtime == "python":
        assert session().system_prompt == expected, "a session sends it"
