"""Reading of files and streams that a user or another program provides, with a limit on their size.

A pipe, a device or a file that is too large is refused before it is read, so no file can block a process or exhaust its memory.
`tests/house/test_readers.py` lists all places that read in another way, with the reason.
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
            problem = f"it has {size_bytes:,} bytes, more than the {max_bytes:,} that are read; pass a smaller file"
            raise OSError(errno.EFBIG, problem, str(file))
        return read_stream(opened, max_bytes, str(file))


def read_stream(stream: BinaryIO, max_bytes: int, name: str) -> bytes:
    """Return the rest of a stream whose size is unknown, such as standard input, up to its end.

    Args:
        stream: Stream to read. It blocks until it has data or ends.
        max_bytes: Maximum number of bytes.
        name: Name of the stream for error messages.

    Raises:
        OSError: The stream cannot be read, or has more than `max_bytes`.
    """
    content = stream.read(max_bytes + 1)
    if content is None:  # files such as /proc/kmsg are regular, and have no end
        raise OSError(errno.EAGAIN, "it has no data now and no end; pass a regular file", name)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than the {max_bytes:,} bytes that are read; shorten it", name)
    return content


def open_input(file: Path) -> BinaryIO:
    """Open a regular file for reading; symbolic links are followed.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    check_regular(file)  # opening a device may already have an effect
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK, opening a pipe waits for a writer
    try:
        _check_mode(os.fstat(fd).st_mode, file)
    except OSError:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def check_regular(file: Path) -> None:
    """Check that a path names a regular file; symbolic links are followed.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The path names something else, such as a device, or cannot be examined.
    """
    try:
        mode = file.stat().st_mode
    except ValueError as error:  # a null character in the path
        raise OSError(errno.EINVAL, f"its path is invalid ({error})", str(file)) from None
    _check_mode(mode, file)


def _check_mode(mode: int, file: Path) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a folder; pass a regular file", str(file))
