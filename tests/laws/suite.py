"""What the tasks of the suite need of a machine, as markers for tests that run them."""

from functools import cache

import pytest

from harness.tasks import SUITE


@cache
def needs(task: str) -> list[pytest.MarkDecorator]:
    """The markers of a task besides those of the sandbox."""
    return [pytest.mark.bun] if SUITE[task](1).runtime == "bun" else []
