"""The docker image of a session: found, pulled, and given a python3 where it has none (as the image of Bun).

The tool server needs `python3`. From an image without it another one is made, once for each content of the original, by the
image's own package manager; it is tagged `harness-served:<content>` and stays for the next runs.
"""

import io
from typing import Any

from harness.errors import SandboxUnavailable
from harness.sandboxes.docker.engine import BACKEND, describe_error

SERVED_REPOSITORY = "harness-served"
BUILD_SECONDS = 600
_RECIPE = """FROM {image}
USER root
RUN if command -v apt-get; then apt-get update && apt-get install -y --no-install-recommends python3; else apk add python3; fi
"""
_ADVICE = "name an image that is here or can be pulled and that has python3 (3.8 or later) and /bin/sh"


def find_image(api: Any, image: str) -> str:
    """The content id of an image, pulled if it is not here.

    Raises:
        SandboxUnavailable: it cannot be had.
    """
    from docker.errors import APIError, ImageNotFound

    try:
        return str(api.inspect_image(image)["Id"])
    except ImageNotFound:
        pass
    repository, tag = split_image(image)
    try:
        api.pull(repository, tag=tag)
        return str(api.inspect_image(image)["Id"])
    except APIError as error:
        reason = f"image {image!r} is not here and cannot be pulled ({describe_error(error)})"
        raise SandboxUnavailable(BACKEND, reason, _ADVICE) from error


def is_missing_python(error: Exception) -> bool:
    """Whether a container did not start because its image has no python3."""
    reason = describe_error(error)
    return "python3" in reason and ("not found" in reason or "no such file" in reason)


def find_served_image(api: Any, digest: str) -> str | None:
    """The image with python3 that was made before from one with that content id."""
    from docker.errors import ImageNotFound

    try:
        api.inspect_image(_format_served_name(digest))
    except ImageNotFound:
        return None
    return _format_served_name(digest)


def add_python(api: Any, image: str, digest: str) -> str:
    """Make an image with python3 from one without.

    Raises:
        SandboxUnavailable: its package manager could not; the reason holds the end of what it said.
    """
    from docker.errors import DockerException

    recipe = io.BytesIO(_RECIPE.format(image=image).encode())
    build_output = ""
    try:
        for line in api.build(
            fileobj=recipe, tag=_format_served_name(digest), rm=True, forcerm=True, decode=True, timeout=BUILD_SECONDS
        ):
            build_output = (build_output + str(line.get("stream", "")))[-1000:]
            if "error" in line:
                raise DockerException(f"{build_output} {line['error']}")
    except (DockerException, OSError) as error:
        reason = f"image {image!r} has no python3, and none could be added ({describe_error(error)[-300:]})"
        raise SandboxUnavailable(BACKEND, reason, _ADVICE) from error
    return _format_served_name(digest)


def split_image(image: str) -> tuple[str, str | None]:
    """Repository and tag, as pull wants them; the default tag is `latest`, never all tags."""
    if "@" in image:
        return image, None
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")


def _format_served_name(digest: str) -> str:
    return f"{SERVED_REPOSITORY}:{digest.rpartition(':')[2][:16]}"
