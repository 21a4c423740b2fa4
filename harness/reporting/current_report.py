"""Recognition of a report that is up to date, so that nothing is computed or drawn again.

A file beside the report lists the files of the report with a digest of all that decides their content. The module is apart from
`experiment_report` and loads neither pandas nor the code that draws, which take longer than the comparison of the digests.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from harness.analysis.chart_options import ChartOptions
from harness.experiment.interim_analyses import INTERIM_ANALYSES_FILE
from harness.experiment.margins import MARGINS_FILE
from harness.experiment.plan import PLAN_FILE_NAME
from harness.files.bounded_input import read_input
from harness.store.database import replace_file
from harness.store.results import JoinedResults, Results

PAGE_FILE = "report.html"
MAX_REPORT_BYTES = 16 * 2**20
"""Maximum size of an earlier report's files that are read back."""
RECORD_FILE = "report.json"
"""Name of the file beside a report that lists the report's files, with a digest of the data and code behind them."""
LIBRARIES = ("duckdb", "matplotlib", "numpy", "pandas", "pyarrow", "rich", "scipy")
"""Packages that compute, lay out or draw parts of a report."""
UNUSED_FOLDERS = frozenset({"cli", "gateway", "integrations", "task_checks", "testing", "widgets"})
"""Folders of this package from which reports import nothing."""
_PACKAGE = Path(__file__).parents[1]


def read_current_report(
    results: Results, folder: Path, made_from: str | None, *, full: bool = False, as_page: bool = False
) -> str | None:
    """Return the text of the report in a folder; None if it has to be written, because a file of it is missing or outdated.

    Args:
        results: Results of the experiment.
        folder: Folder with the report.
        made_from: Digest of the sources of the report as they are now; see `digest_sources`.
        full: Whether to return all sections.
        as_page: Whether the page has to exist, too.
    """
    try:
        record = json.loads(read_input(folder / RECORD_FILE, MAX_REPORT_BYTES))
        names = record["files"]
        is_current = made_from is not None and (record["made_from"], record["looks"]) == (made_from, _digest_looks(results))
        if not is_current or not all((folder / name).is_file() for name in names) or (as_page and PAGE_FILE not in names):
            return None
        return read_input(folder / ("report.txt" if full else "summary.txt"), MAX_REPORT_BYTES).decode()
    except (OSError, ValueError, TypeError, KeyError):
        return None


def record_report(results: Results, folder: Path, made_from: str | None, paths: Sequence[Path]) -> None:
    """Record the files of a report in its folder, with the digest of the sources from which they were written.

    Args:
        results: Results of the experiment.
        folder: Folder with the report.
        made_from: Digest of the sources, computed before the report was.
        paths: Paths of the files, inside of the folder.
    """
    record = {
        "made_from": made_from,
        "looks": _digest_looks(results),  # which the report itself may have written
        "files": [path.relative_to(folder).as_posix() for path in paths],
    }
    with replace_file(folder / RECORD_FILE) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def digest_sources(results: Results, against: str | None, chart_options: ChartOptions) -> str | None:
    """Return a digest of all that determines a report, except for the record of interim analyses.

    These are the journals, the plan, the record of margins, the options, the code of this package and the versions of the
    libraries that compute and draw.

    Returns:
        The digest; None if that of the journals is unknown, because trials run or there is no journal.
    """
    if results.digest is None:
        return None
    versions = " ".join(f"{name} {version(name)}" for name in LIBRARIES)
    digest = hashlib.sha256(f"{results.digest} {against!r} {chart_options!r} {sys.version} {versions}".encode())
    for path in list_sources():
        digest.update(f"{path.relative_to(_PACKAGE)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    for output in _list_outputs(results):
        digest.update(_digest_file(output.parent / PLAN_FILE_NAME) + _digest_file(output / MARGINS_FILE))
    return digest.hexdigest()


def list_sources() -> list[Path]:
    """Return the files of this package, code and data, that decide what a report shows."""
    folders = [path for path in _PACKAGE.iterdir() if path.is_dir() and path.name not in UNUSED_FOLDERS]
    inside = (path for folder in folders for path in folder.rglob("*") if path.suffix in {".css", ".js", ".json", ".py"})
    return sorted((*_PACKAGE.glob("*.py"), *inside))


def _digest_looks(results: Results) -> str:
    return b"".join(_digest_file(output / INTERIM_ANALYSES_FILE) for output in _list_outputs(results)).hex()


def _list_outputs(results: Results) -> Iterator[Path]:
    for part in results.parts if isinstance(results, JoinedResults) else (results,):
        yield part.output


def _digest_file(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_input(path, MAX_REPORT_BYTES)).digest()
    except OSError:
        return bytes(32)
