"""Hostile text made fit for a terminal."""


def replace_control_characters(text: str) -> str:
    """The text without control characters (escape sequences above all); line ends and tabs stay."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


def format_line(text: str, width: int = 200) -> str:
    """The text on one line, cut to a width."""
    line = " ".join(replace_control_characters(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
