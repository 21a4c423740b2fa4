import base64
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from harness.conversation.drawings import encode_png, make_image, parse_drawing
from harness.errors import UsageError

SIGN = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
    '<rect x="0" y="0" width="40" height="30" fill="#ff0000"/><text x="50" y="60" font-size="20">Bay 7 &amp; 8</text></svg>'
)


def read_pixels(svg: str) -> Picture.Image:
    head, _, data = encode_png(svg).partition(",")
    assert head == "data:image/png;base64"
    return Picture.open(io.BytesIO(base64.b64decode(data)))


def test_an_image_names_its_file_and_what_is_written_in_it():
    image = make_image("signs/a.svg", SIGN.format(width=1_280, height=940))
    assert image.text == "(image signs/a.svg shows:\nBay 7 & 8)"
    assert image.tokens == 1_605


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_pixels_of_a_drawing_have_its_size_and_colors(width: int, height: int):
    pixels = read_pixels(SIGN.format(width=width, height=height))
    assert pixels.size == (width, height)
    assert pixels.getpixel((0, 0)) == (255, 0, 0)


def test_a_text_is_drawn_in_black_where_it_stands():
    pixels = read_pixels(SIGN.format(width=200, height=80)).convert("L")
    assert 0 in pixels.crop((50, 40, 150, 66)).getextrema()
    assert pixels.crop((50, 0, 200, 35)).getextrema() == (255, 255)


@pytest.mark.parametrize(
    ("svg", "problem"),
    [
        ("not a drawing", "the element <svg> is missing"),
        ('<svg width="9" height="2001"></svg>', r"height must be .* from 1 to 2,000 \(got '2001'\)"),
        ('<svg width="0" height="9"></svg>', r"width must be .* \(got '0'\)"),
        ('<svg width="9"></svg>', r"height must be .* \(got ''\)"),
        ('<svg width="9" height="9"><rect x="-1" y="0" width="1" height="1"/></svg>', r"x must be .* from 0"),
    ],
)
def test_what_is_no_drawing_is_refused(svg: str, problem: str):
    with pytest.raises(UsageError, match=problem):
        parse_drawing(svg)
