"""The Docker Engine as we use it: reaching it, naming its refusals, removing what we made and what dead runs left."""

import functools
import socket
import time
from typing import Any, Final

from harness.errors import SandboxUnavailable
from harness.sandboxes.leftovers import is_owner_dead

BACKEND: Final = "docker"
OWNER_LABEL, EXPIRES_LABEL = "harness.owner", "harness.expires"
CALL_SECONDS = 120


def connect() -> Any:
    """A client of the engine that the environment names.

    Raises:
        SandboxUnavailable: it does not answer; says why and what to do.
    """
    import docker

    settings = docker.utils.kwargs_from_env()
    try:
        _check_socket(settings.get("base_url", docker.constants.DEFAULT_UNIX_SOCKET))
        api = docker.APIClient(**settings, timeout=CALL_SECONDS)
        api.ping()
        return api
    except (docker.errors.DockerException, OSError) as error:
        reason = describe_error(error)
        advice = "install Docker Engine and start it"
        if "Permission denied" in reason:
            advice = "add this user to the group docker and log in again"
        raise SandboxUnavailable(BACKEND, reason, advice) from error


def _check_socket(address: str) -> None:
    """Try a unix socket first: the library's words for one that is not there are of no help."""
    scheme, _, path = address.partition("://")
    if "unix" not in scheme:
        return
    path = "/" + path.lstrip("/")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CALL_SECONDS)
        try:
            connection.connect(path)
        except OSError as error:
            raise OSError(f"cannot connect to {path}: {error.strerror or error}") from error


def reap_leftovers() -> tuple[str, ...]:
    """Remove containers of ours whose owners are dead or whose time has passed; the names of those removed."""
    api = connect()
    try:
        reaped = []
        for container in api.containers(all=True, filters={"label": OWNER_LABEL}):
            if is_leftover(container["Labels"]):
                remove_container(api, container["Id"])
                reaped.append(str(container["Names"][0]).lstrip("/"))
        return tuple(reaped)
    finally:
        api.close()


@functools.cache
def reap_once(engine: str) -> tuple[str, ...]:
    """As `reap_leftovers`, once in a process for each engine (its address, empty = the default)."""
    del engine
    return reap_leftovers()


def is_leftover(labels: Any) -> bool:
    """Whether a container's labels say that nobody needs it any more."""
    expires = str(labels.get(EXPIRES_LABEL, ""))
    return is_owner_dead(str(labels.get(OWNER_LABEL, ""))) or (expires.isdigit() and int(expires) < time.time())


def remove_container(api: Any, container: str) -> None:
    """Remove a container; one that is being removed already is waited for."""
    from docker.errors import APIError, NotFound

    give_up = time.monotonic() + 15
    while time.monotonic() < give_up:
        try:
            api.remove_container(container, force=True, v=True)
            return
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:
                raise
            time.sleep(0.02)


def describe_error(error: Exception) -> str:
    """What an engine or library says went wrong, on one line."""
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error).strip()
    return " ".join(text.split())[:400] or type(error).__name__
