"""Reading of the JSON files in a zip archive that is the log of an evaluation; other archives are refused.

Sizes are checked before a file is unpacked, so that a small archive cannot fill the memory.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, NamedTuple

import zstandard

from harness.errors import MalformedRecording, format_count
from harness.recordings.recording import Caveat

ZIP_SIGNATURE = b"PK\x03\x04"
LOG_MEMBERS = ("header.json", "_journal/start.json")
"""Names of the files that describe an evaluation: at its end, and while it runs."""
_SAMPLES_FOLDER = "samples/"
_ZSTD_METHOD = 93
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)
"""Errors that damaged or encrypted files in an archive raise."""


class ArchiveMember(NamedTuple):
    """File in an archive, with its content."""

    name: str
    data: bytes


def is_log(names: Iterable[str]) -> bool:
    """Return whether the files of an archive are those of the log of an evaluation."""
    return any(name in LOG_MEMBERS for name in names)


def is_log_archive(opened: IO[bytes]) -> bool:
    """Return whether an open file is a zip archive with the log of an evaluation."""
    try:
        with zipfile.ZipFile(opened) as archive:
            return is_log(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def read_log_members(data: bytes, file: str, max_bytes: int) -> tuple[list[ArchiveMember], list[Caveat]]:
    """Return the description of an evaluation and its samples, with notes about samples that could not be read.

    Args:
        data: Content of the archive.
        file: Name of the archive, for error messages.
        max_bytes: Maximum size in bytes of all files that are read, unpacked.

    Raises:
        MalformedRecording: The archive is damaged, or no log of an evaluation.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise MalformedRecording(file, "", "a whole zip archive", f"a damaged one ({error})") from None
    with archive:
        if not is_log(archive.namelist()):
            raise MalformedRecording(file, "", "text in UTF-8", "a zip archive; unpack it first")
        about = next(name for name in LOG_MEMBERS if name in archive.namelist())
        wanted = [about, *sorted({name for name in archive.namelist() if _is_sample(name)})]
        members: list[ArchiveMember] = []
        caveats: list[Caveat] = []
        left_bytes, left_out = max_bytes, 0
        for name in wanted:
            info = archive.getinfo(name)
            if info.file_size > left_bytes:
                left_out += 1
                continue
            try:
                content = _read_member(archive, info, data, left_bytes)
            except _DAMAGES as error:
                caveats.append(Caveat(place=name, text=f"the file is damaged ({error}), left out"))
                continue
            left_bytes -= len(content)
            members.append(ArchiveMember(name, content))
    if left_out:
        text = f"{format_count(left_out, 'file')} left out: the log has more than {max_bytes // 2**20} MiB, unpacked"
        caveats.append(Caveat(place="", text=text))
    if not any(_is_sample(member.name) for member in members):
        reasons = "; ".join(caveat.text for caveat in caveats[:1]) or "the log has none"
        raise MalformedRecording(file, "", "at least one sample that can be read", reasons)
    return members, caveats


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, data: bytes, max_bytes: int) -> bytes:
    """Return the content of a file in an archive, of at most `max_bytes`."""
    if info.compress_type != _ZSTD_METHOD:
        with archive.open(info) as opened:
            return opened.read(max_bytes + 1)[:max_bytes]
    # the standard library reads this method only from Python 3.14 on
    name_bytes, extra_bytes = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + name_bytes + extra_bytes
    packed = data[start : start + info.compress_size]
    with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed, read_across_frames=True) as stream:
        content = stream.read(max_bytes)
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"wrong checksum of {info.filename!r}")
    return content


def _is_sample(name: str) -> bool:
    return name.startswith(_SAMPLES_FOLDER) and name.endswith(".json")
