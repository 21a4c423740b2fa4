"""Functions that make untrusted text safe to display, for example without control characters and with limited length."""


def replace_surrogates(text: str) -> str:
    """Return the text with every lone surrogate replaced by `?`, because UTF-8 cannot encode lone surrogates."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def replace_control_characters(text: str, replacement: str = "�", keep: str = "\n\t") -> str:
    """Return the text with each control character, such as those of escape sequences, replaced, except characters in `keep`."""
    return "".join(character if character.isprintable() or character in keep else replacement for character in text)


def escape_control_characters(text: str, keep: str = "") -> str:
    """Return the text with control characters written as Python escape sequences, except the characters in `keep`."""
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)


def shorten_line(text: str, max_characters: int) -> str:
    """Return the beginning of a text on one line of limited length, with each run of white space replaced by one space."""
    return " ".join(text[: 4 * max_characters].split())[:max_characters]
