"""Scripts and styles of the widgets, as texts. They are built from the modules in `js/` and committed in `bundles/`."""

from pathlib import Path

BUNDLES_FOLDER = Path(__file__).parent / "bundles"


def load_script(name: str) -> str:
    """Return the JavaScript of a widget, built from `js/NAME.js`, as one module that imports nothing."""
    return (BUNDLES_FOLDER / f"{name}.js").read_text(encoding="utf-8")


def load_style(name: str) -> str:
    """Return the CSS of a widget: the styles that its modules import."""
    return (BUNDLES_FOLDER / f"{name}.css").read_text(encoding="utf-8")
