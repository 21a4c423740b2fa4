"""The system prompt of the coding agent in two parts: what all sessions share, and what holds in one session only.

Providers cache a prompt up to its first difference, so the part that differs between sessions comes last.
"""

from harness.task import Runtime

COMPLETION_MARKER = "TASK COMPLETE"

SYSTEM_PROMPT = f"""\
You are a coding agent that builds software by executing commands and managing files.

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
- Focus on implementation, minimize explanation
- When everything is done, reply without calling a tool, or end your reply with the line {COMPLETION_MARKER}"""
"""First part of the system prompt, which is equal in all sessions."""

_ENVIRONMENT = """\
ENVIRONMENT:
- All commands run inside a sandbox with {runtime} installed
- Working directory is /workspace
- You have full shell access via execute_command
- You can read/write files and list directories"""


def build_session_context(runtime: Runtime, instructions: str = "") -> str:
    """Return the second part of the system prompt: the environment and the instructions of one session.

    Args:
        runtime: Runtime that is installed in the sandbox, `python` or `bun`.
        instructions: Text of the user for this session, e.g. the conventions of a project; empty adds nothing.
    """
    environment = _ENVIRONMENT.format(runtime={"python": "Python 3", "bun": "Bun"}[runtime])
    return f"{environment}\n\n{instructions}" if instructions else environment
