"""When was a path last touched? Kept as the calls go by, so that each question takes no time."""

from collections.abc import Iterable
from posixpath import dirname

from harness.experiment.behaviour.calls import Act

NEVER = -1


class Writes:
    """The last touch of everything, by the number of the call.

    A write touches its path. An execution touches the paths that it names, and it may have touched the workspace at large,
    of which other executions tell; that it changed a file without naming it is not assumed.
    """

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._inside: dict[str, int] = {}
        self._anywhere = NEVER

    def add(self, number: int, act: Act) -> None:
        """Take note of a call; retrievals touch nothing."""
        if act.deed == "retrieval":
            return
        self._anywhere = number
        for path in act.paths:
            self._named[path] = number
            self._inside.update((folder, number) for folder in _folders(path))

    def last_touch(self, act: Act) -> int:
        """Number of the last call that touched what this one is about; `NEVER` if none did."""
        if act.deed == "execution" or not act.paths:
            return self._anywhere
        return self.last_named(act)

    def last_named(self, act: Act) -> int:
        """Number of the last call that touched a path which this one names; `NEVER` if none did."""
        return max(map(self._touch, act.paths), default=NEVER)

    def _touch(self, path: str) -> int:
        above = (self._named.get(folder, NEVER) for folder in _folders(path))
        return max(self._named.get(path, NEVER), self._inside.get(path, NEVER), *above)


def _folders(path: str) -> Iterable[str]:
    """The folders in which a path lies, `.` last; the top lies in none but is given too."""
    while path := dirname(path):
        if path == "/":
            break
        yield path
    yield "."
