import pytest

from harness.cli.options import parse_fields
from harness.errors import UsageError


def test_fields_are_read_as_toml_and_bare_words_as_text():
    given = ("keep_last=4", "threshold = 0.5", 'summarizer="same"', "kind=none", "a.b=x y")
    assert parse_fields(given) == {"keep_last": 4, "threshold": 0.5, "summarizer": "same", "kind": "none", "a.b": "x y"}
    with pytest.raises(UsageError, match="FIELD=VALUE"):
        parse_fields(("=3",))
