"""Fixtures for tests of several widgets at once: the pages and servers of the widgets' own tests."""

from tests.widgets.conftest import browser, classic, lab, open_notebook, page, post, servers

__all__ = ["browser", "classic", "lab", "open_notebook", "page", "post", "servers"]
