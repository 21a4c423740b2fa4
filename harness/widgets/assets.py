"""Scripts and styles of the widgets, as texts. This module imports no widget library, so that the report page can use it too."""

from collections.abc import Sequence
from pathlib import Path

ASSETS_FOLDER = Path(__file__).parent


def load_script(*names: str) -> str:
    """Return the JavaScript of a widget as one module.

    It consists of the shared `surface.js` and the file `NAME.js` for each given name.
    """
    return _read_assets("js", names)


def load_style(*names: str) -> str:
    """Return the CSS of a widget: the shared `surface.css`, and the file `NAME.css` for each given name."""
    return _read_assets("css", names)


def _read_assets(suffix: str, names: Sequence[str]) -> str:
    return "".join((ASSETS_FOLDER / f"{name}.{suffix}").read_text(encoding="utf-8") for name in ("surface", *names))
