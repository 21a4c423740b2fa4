"""Work on a task in a folder of this machine, where an agent runs that no sandbox of this project holds.

The folder belongs to the agent and may contain anything. It is therefore graded as the workspace of a trial is: a copy of its
files is judged in a sandbox, and nothing in the folder is run or changed.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from harness.errors import StoreError, ToolError, UsageError
from harness.files.bounded_input import read_input
from harness.sandboxes.backends import SandboxChoice
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.ids import TIME_ORDERED_IDS
from harness.task import Task

MAX_FOLDER_FILES = 20_000
"""Maximum number of files of a folder that is graded; a folder with more is probably a wrong one, such as a home folder."""


def write_task_folder(task: Task, folder: Path) -> None:
    """Write the files with which a task starts into a new or empty folder.

    Raises:
        UsageError: The folder has files, or is a file.
        StoreError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{str(folder)!r} is not empty; name a new folder, so that only this task's work is in it")
        for name, text in task.workspace:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{str(folder)!r} is a file; name a new folder") from None
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from None


def grade_task_folder(
    task: Task, folder: Path, choice: SandboxChoice, *, unsafe_local: bool = False
) -> tuple[tuple[GradedCheck, ...], tuple[str, ...]]:
    """Grade the work in a folder by the hidden checks of a task, in a sandbox with a copy of the folder's files.

    Links and everything else that is neither a file nor a folder are left out.

    Args:
        task: Task on which the agent worked.
        folder: Folder of the agent, which is only read.
        choice: Sandbox in which the copy is judged.
        unsafe_local: Whether the sandbox `local` is allowed.

    Returns:
        The checks with their verdicts, and the paths in the folder that were left out.

    Raises:
        UsageError: There is no such folder, or it has too many files.
        SandboxError: The sandbox does not start, or was lost.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}; name the one in which the agent worked")
    left_out = list[str]()
    session_id = TIME_ORDERED_IDS.make_descending()
    with closing(choice.open(session_id, task.runtime, unsafe_local=unsafe_local)) as sandbox:
        sandbox.start()
        for count, name in enumerate(_list_names(folder), 1):
            if count > MAX_FOLDER_FILES:
                raise UsageError(f"{str(folder)!r} has more than {MAX_FOLDER_FILES:,} files; name the folder of the task alone")
            content = _read_file(folder / name, choice.limits.file_bytes)
            try:
                if content is None:
                    raise ToolError("no file that can be read")
                sandbox.write(name, content)
            except (ToolError, UnicodeError):  # of a name that is no text
                left_out.append(name.encode(errors="backslashreplace").decode())
        return grade_workspace(task, sandbox), tuple(left_out)


def _list_names(folder: Path) -> Iterator[str]:
    """Yield the path in the folder of everything that is no folder, without following links."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in sorted((*files, *links)):
            yield str((Path(place) / name).relative_to(folder))


def _read_file(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a file; None if it is too large, cannot be read, or is something else, such as a link or a pipe."""
    try:
        return None if path.is_symlink() else read_input(path, max_bytes)
    except OSError:
        return None
