"""Fixtures of the report page: a browser for a module, and a page in which every script, request and message is recorded."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.notebooks.lab import BROWSER_FLAGS


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS])
        yield browser
        browser.close()
