"""Hostile text made fit to be shown: no control characters, on one line, not too long."""


def replace_surrogates(text: str) -> str:
    """Return the text with every lone surrogate replaced by `?`, because UTF-8 cannot encode lone surrogates."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def replace_control_characters(text: str, replacement: str = "�", keep: str = "\n\t") -> str:
    """Return the text with control characters replaced (escape sequences above all), except those to keep."""
    return "".join(character if character.isprintable() or character in keep else replacement for character in text)


def escape_control_characters(text: str, keep: str = "") -> str:
    """Return the text with control characters written as Python escapes them, except those to keep."""
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)


def shorten_line(text: str, max_characters: int) -> str:
    """Return the beginning of a text on one line, each run of white space as one space."""
    return " ".join(text[: 4 * max_characters].split())[:max_characters]
