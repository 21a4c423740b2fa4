"""Reading of files that a user or another program provides, with a limit on their size.

A pipe, a device or a file that is too large is refused before it is read, so no file can block a process or exhaust its memory.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def read_input(file: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file; symbolic links are followed.

    Args:
        file: Path of the file.
        max_bytes: Maximum size of the file in bytes.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is larger than `max_bytes`.
    """
    with open_input(file) as opened:
        size_bytes = os.fstat(opened.fileno()).st_size
        if size_bytes > max_bytes:
            raise OSError(errno.EFBIG, f"it has {size_bytes:,} bytes, more than the {max_bytes:,} that are read", str(file))
        return opened.read(max_bytes)


def open_input(file: Path) -> BinaryIO:
    """Open a regular file for reading; symbolic links are followed.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK, opening a pipe waits for a writer
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is a pipe, a device or a folder; pass a regular file", str(file))
    return os.fdopen(fd, "rb")
