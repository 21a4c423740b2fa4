import os
import socket
from io import BytesIO
from pathlib import Path

import pytest

from harness.files.bounded_input import check_regular, read_input, read_stream


def make_folder(path: Path) -> None:
    path.mkdir()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(path.parent, os.O_PATH)  # the address of a socket is short
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


SPECIAL_FILES = {
    "a folder": make_folder,
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to the null device": lambda path: path.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "input"
    SPECIAL_FILES[kind](path)
    for examine in (lambda: read_input(path, 10), lambda: check_regular(path)):
        with pytest.raises(OSError, match="it is a pipe, a device or a folder; pass a regular file"):
            examine()


def test_a_broken_link_is_a_missing_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        read_input(tmp_path / "link", 10)


def test_a_null_character_in_a_path_is_an_error_of_the_file():
    with pytest.raises(OSError, match="its path is invalid"):
        read_input(Path("a\0b"), 10)


@pytest.mark.parametrize("size_bytes", [0, 10, 11])
def test_a_file_is_read_up_to_the_limit_and_no_larger_file_is_cut(tmp_path, size_bytes):
    (tmp_path / "input").write_bytes(b"x" * size_bytes)
    if size_bytes <= 10:
        assert read_input(tmp_path / "input", 10) == b"x" * size_bytes
        return
    with pytest.raises(OSError, match="it has 11 bytes, more than the 10 that are read; pass a smaller file"):
        read_input(tmp_path / "input", 10)


def test_a_file_that_states_no_size_is_read_up_to_the_limit():
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0
    assert read_input(status, 1_000_000).startswith(b"Name:")
    with pytest.raises(OSError, match="it has more than the 10 bytes that are read; shorten it"):
        read_input(status, 10)


def test_a_stream_without_an_end_is_read_up_to_the_limit():
    assert read_stream(BytesIO(b"x" * 10), 10, "input") == b"x" * 10
    with Path("/dev/zero").open("rb") as endless, pytest.raises(OSError, match="more than the 10 bytes"):
        read_stream(endless, 10, "input")
