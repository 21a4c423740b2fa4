"""Drawings: images whose content is known, as SVG with rectangles and texts.

A tool that shows an image stores the drawing. A scripted model reads the texts of the drawing; a real model that can see is sent
its pixels, which are made only then. Everything of SVG but the two elements is ignored.
"""

import base64
import html
import io
import re
from dataclasses import dataclass
from functools import lru_cache

from harness.conversation.messages import Image
from harness.errors import UsageError

MAX_SIDE_PIXELS = 2_000
"""Largest width and height of a drawing."""
PIXELS_PER_TOKEN = 750
"""Number of pixels for which a provider charges one token. Source: Anthropic's documentation of vision, November 2026."""
MAX_CACHED_IMAGES = 64
_ROOT = re.compile(r"<svg\b([^>]*)>")
_SHAPE = re.compile(r"<(rect)\b([^>]*)/>|<(text)\b([^>]*)>([^<]*)</text>")
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rectangle or line of text in a drawing."""

    x: int
    """Distance from the left side in pixels; for a text, that of its beginning."""
    y: int
    """Distance from the upper side in pixels; for a text, that of the line on which it stands."""
    width: int
    """Width of a rectangle in pixels; 0 for a text."""
    height: int
    """Height of a rectangle, or size of the font, in pixels."""
    fill: str
    """Color in the form `#rrggbb`."""
    text: str
    """Text; empty for a rectangle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Image that consists of rectangles and texts on a white ground."""

    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""
    shapes: tuple[Shape, ...]
    """Shapes in the order in which they are drawn."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that the drawing shows, in order."""
        return tuple(shape.text for shape in self.shapes if shape.text)

    @property
    def tokens(self) -> int:
        """Number of tokens that a provider charges for the image, rounded up."""
        return -(-self.width * self.height // PIXELS_PER_TOKEN)


def parse_drawing(svg: str) -> Drawing:
    """Return the drawing in an SVG file.

    Raises:
        UsageError: The text is no SVG, or a size is missing or out of range.
    """
    root = _ROOT.search(svg)
    if root is None:
        raise UsageError("no SVG: the element <svg> is missing")
    attributes = _read_attributes(root[1])
    return Drawing(
        width=_read_number(attributes, "width", least=1),
        height=_read_number(attributes, "height", least=1),
        shapes=tuple(map(_read_shape, _SHAPE.finditer(svg, root.end()))),
    )


def _read_shape(match: re.Match[str]) -> Shape:
    is_text = match[3] is not None
    attributes = _read_attributes(match[4] if is_text else match[2])
    fill = attributes.get("fill", "#000000")
    return Shape(
        x=_read_number(attributes, "x"),
        y=_read_number(attributes, "y"),
        width=0 if is_text else _read_number(attributes, "width"),
        height=_read_number(attributes, "font-size" if is_text else "height"),
        fill=fill if _COLOR.fullmatch(fill) else "#000000",
        text=html.unescape(match[5]).strip() if is_text else "",
    )


def _read_attributes(text: str) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(text))


def _read_number(attributes: dict[str, str], name: str, least: int = 0) -> int:
    text = attributes.get(name, "")
    if not (re.fullmatch(r"[0-9]{1,4}", text) and least <= int(text) <= MAX_SIDE_PIXELS):
        raise UsageError(f"SVG: {name} must be a whole number of pixels from {least} to {MAX_SIDE_PIXELS:,} (got {text!r:.40})")
    return int(text)


def make_image(path: str, svg: str) -> Image:
    """Return the message part that shows the drawing in an SVG file; its text says which file it is and what the drawing says.

    Raises:
        UsageError: The text is no SVG, or a size is missing or out of range.
    """
    drawing = parse_drawing(svg)
    shown = "\n".join(("shows:", *drawing.texts)) if drawing.texts else "shows no text"
    return Image(text=f"(image {path} {shown})", tokens=drawing.tokens, drawing=svg)


@lru_cache(maxsize=MAX_CACHED_IMAGES)
def encode_png(svg: str) -> str:
    """Return a drawing as a data URL with a PNG image, in the form in which a request contains images.

    Raises:
        UsageError: The text is no SVG, or a size is missing or out of range.
    """
    from PIL import Image as Canvas  # noqa: PLC0415  (slow, and needed only for real models that can see)
    from PIL import ImageDraw, ImageFont  # noqa: PLC0415

    drawing = parse_drawing(svg)
    canvas = Canvas.new("RGB", (drawing.width, drawing.height), "#ffffff")
    pen = ImageDraw.Draw(canvas)
    for shape in drawing.shapes:
        if shape.text:
            font = ImageFont.load_default(max(1, shape.height))
            pen.text((shape.x, shape.y), shape.text, fill=shape.fill, font=font, anchor="ls")
        elif shape.width and shape.height:
            pen.rectangle((shape.x, shape.y, shape.x + shape.width - 1, shape.y + shape.height - 1), fill=shape.fill)
    file = io.BytesIO()
    canvas.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
