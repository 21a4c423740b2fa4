"""Tests of the system prompt against the first design document (S0), and of its two parts (S3.5)."""

import pytest

from harness.agent.prompts import COMPLETION_MARKER, SYSTEM_PROMPT, build_session_context

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


ENVIRONMENT = DOCUMENT[DOCUMENT.index("ENVIRONMENT:") : DOCUMENT.index("APPROACH:")]


def test_what_all_sessions_share_is_the_documents_prompt_without_the_environment_and_with_the_sign_of_completion():
    """S0.1, S0.8: a line for the document's explicit completion."""
    assert DOCUMENT.replace(ENVIRONMENT, "") + COMPLETION == SYSTEM_PROMPT


@pytest.mark.parametrize(("runtime", "name"), [("python", "Python 3"), ("bun", "Bun")])
def test_the_context_of_a_session_is_the_documents_environment_followed_by_the_instructions(runtime, name):
    """S0.1, S3.5: other sandboxes and runtimes than the document's."""
    environment = ENVIRONMENT.strip().replace("a Docker container with Bun", f"a sandbox with {name}")
    assert build_session_context(runtime) == environment
    assert build_session_context(runtime, "Use tabs.") == f"{environment}\n\nUse tabs."
