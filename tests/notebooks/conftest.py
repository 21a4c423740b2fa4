"""Pages and servers as the widgets' own tests have them, for what is about several widgets at once."""

from tests.widgets.conftest import browser, classic, lab, open_notebook, page, post

__all__ = ["browser", "classic", "lab", "open_notebook", "page", "post"]
