"""Folder in a store that several machines reach, such as a bucket of S3 or a shared folder, given as a URL of `fsspec`.

Credentials and addresses of services are those that the store's package finds on each machine, e.g. in environment variables.
They are never part of the URL. This module needs the extra `cluster`, which is imported when a store is first used.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.errors import StoreError, UsageError, advise_extra
from harness.files.bounded_input import check_regular, read_stream

CHUNK_BYTES = 1 << 20
"""Number of bytes of an object that are read at once."""


class ObjectStore:
    """Folder with named objects in a store; an object appears only when it is complete. Thread-safe."""

    def __init__(self, url: str) -> None:
        """Prepare access to a folder, without connecting to the store.

        Args:
            url: URL of the folder, such as `s3://bucket/experiment` or `file:///shared/experiment`.

        Raises:
            UsageError: The package of the store is not installed, or the URL has an unknown scheme or contains credentials.
        """
        self.url = url.rstrip("/")
        if "@" in urlsplit(url).netloc:
            raise UsageError("store: the URL contains credentials; set them on each machine, as the store's package expects")
        try:
            import fsspec  # noqa: PLC0415  (the extra `cluster`)

            self.file_system, self._root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            raise UsageError(f"store: {url!r} needs the extra `cluster`: {advise_extra('cluster')} ({error})") from error
        except ValueError as error:
            raise UsageError(f"store: {url!r} is no URL of a store: {error}") from error
        protocol = self.file_system.protocol
        self._is_local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def write(self, name: str, content: bytes) -> None:
        """Store bytes under a name, replacing an earlier object.

        Raises:
            StoreError: The store cannot be reached or written.
        """
        path = self.find_path(name)
        with self._translate_errors(f"write {name!r} to"):
            if not self._is_local:  # an upload replaces the object in one step
                self.file_system.pipe_file(path, content)
                return
            unfinished = f"{path}.{uuid.uuid4().hex[:8]}.part"
            self.file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
            try:
                self.file_system.pipe_file(unfinished, content)
                Path(unfinished).replace(path)
            finally:
                Path(unfinished).unlink(missing_ok=True)

    def write_file(self, name: str, source: Path) -> None:
        """Store the content of a file under a name, replacing an earlier object.

        Raises:
            StoreError: The store cannot be reached or written.
        """
        if self._is_local:
            self.write(name, source.read_bytes())
            return
        with self._translate_errors(f"write {name!r} to"):
            self.file_system.put_file(str(source), self.find_path(name))

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of the object with a name; None if there is no such object.

        Raises:
            StoreError: The store cannot be reached or read, or the object is larger than `max_bytes`.
        """
        with self._translate_errors(f"read {name!r} from"):
            try:
                with self._open(name) as file:
                    return read_stream(file, max_bytes, name)
            except FileNotFoundError:
                return None

    def read_chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of the object with a name in pieces of at most `CHUNK_BYTES`.

        Raises:
            StoreError: The store cannot be reached or read, or has no such object.
        """
        with self._translate_errors(f"read {name!r} from"), self._open(name) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def open(self, name: str) -> Any:
        """Open the object with a name as a binary file for reading.

        Raises:
            StoreError: The store cannot be reached or has no such object.
        """
        with self._translate_errors(f"read {name!r} from"):
            return self._open(name)

    def _open(self, name: str) -> Any:
        if self._is_local:
            check_regular(Path(self.find_path(name)))
        return self.file_system.open(self.find_path(name), "rb")

    def list_names(self, folder: str) -> list[str]:
        """Return the sorted names of the objects in a folder of the store, without the name of the folder.

        Raises:
            StoreError: The store cannot be reached or read.
        """
        with self._translate_errors("list"):
            try:
                paths: list[str] = self.file_system.ls(self.find_path(folder), detail=False)
            except FileNotFoundError:
                return []
            return sorted(path.rpartition("/")[2] for path in paths if not path.endswith(".part"))

    def find_path(self, name: str) -> str:
        """Return the path of the object with a name, as the store's `fsspec` file system expects it."""
        return f"{self._root}/{name}"

    @contextmanager
    def _translate_errors(self, action: str) -> Iterator[Any]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"cannot {action} the store {self.url!r}: {type(error).__name__}: {error}") from error
