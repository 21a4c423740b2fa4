"""Recognition of errors of providers that mean that a prompt does not fit the context window.

Each provider has wordings of its own, and changes them. Therefore a class of texts is recognised instead of a list: a refusal
that speaks of the prompt, of its length, and of too much. Texts about limits on the output, on requests per minute, on single
fields and on images are excluded. `tests/models/overflows.toml` lists real texts of both kinds.
"""

import re

OVERFLOW_STATUSES = frozenset({400, 413, 422})
"""HTTP statuses with which providers refuse a prompt that is too long."""
TOO_LARGE_STATUS = 413

CODES = re.compile(r"context_(length|window)_exceeded|request_too_large|prompt_too_long", re.IGNORECASE)
"""Codes for a prompt that is too long, which mean that with any status, also in the middle of a stream."""
LONG_CONTEXT = re.compile(
    r"(extra usage|usage credits?)\b.{0,40}\blong.context|long.context\b.{0,40}\b(required|not (yet )?available)", re.IGNORECASE
)
"""Refusal of a prompt that is longer than the part of the window that the account may use; Anthropic sends it as a rate limit."""

PROMPT = re.compile(r"prompt|inputs?\b|context|messages?\b|conversation|request|tokens", re.IGNORECASE)
LENGTH = re.compile(
    r"token|length|context.?(window|size|limit|budget)|\b(too|so) (long|large|big)|\blong(er)?\b|(message|request) size",
    re.IGNORECASE,
)
EXCESS = re.compile(
    r"exceed|\btoo (long|large|big|many)|(long|larg|great|high|mor)er? than|less than|\bmax|limit|reduce|range of"
    r"|supports? (only )?up to|must be <=|\brequested\b|but .{0,30}context|\d ?[<>]=? ?\d",
    re.IGNORECASE,
)
"""Words of the three kinds that a text must contain: the prompt, its length, and too much of it."""

OUTPUT = re.compile(
    r"max_?(new|completion|output)?_?tokens?\b|budget_tokens|(output|completion) tokens|maximum tokens (you requested|value)",
    re.IGNORECASE,
)
INPUT = re.compile(
    r"(?<!less than the )(?<!less than the `)context.?(length|window|limit|size)|input (tokens?|length)|`inputs`"
    r"|in the (messages|prompt)|prompt|tokens in request",
    re.IGNORECASE,
)
"""Words about the output, and about the input. A text about the output means a long prompt only if it is about the input, too."""

OTHER_LIMITS = re.compile(
    r"per.?(minute|second|hour|day)|\b[rt]p[dms]\b|rate[ _]limit|quota|throttl|please wait|too many requests"
    r"|header|cookie|\btools?\b.{0,40}\b(name|description|schema)|(?<!content')(?<!content\")[:,] (string|array) too long"
    r"|(string|array)_above_max_length|too small|below (the )?min",
    re.IGNORECASE,
)
"""Phrases about other limits: on the rate of requests, and on fields other than the text of a message."""
MEDIA = re.compile(r"image|audio|video|\bpdf\b|document|attachment|upload|\bfile\b|pixel|dimension", re.IGNORECASE)
TEXT_LENGTH = re.compile(r"token|context|prompt", re.IGNORECASE)

MEANINGLESS = re.compile(
    r"\b\w*(Request|Limit|Window)\w*(Error|Exception)|invalid[ _]request\w*|bad[ _]?request|request[ _-]?id"
    r"|(access|auth\w*|bearer|session|csrf|api|security|refresh|id)[ _-]tokens?|context (deadline|cancel)\w*( exceeded)?"
    r"|input should be|content.?length header",
    re.IGNORECASE,
)
"""Phrases in which words of the three kinds mean something else, such as names of classes."""
ECHO = re.compile(r"[\"']input[\"'] ?:")
"""Beginning of the part of an error in which some servers repeat the request."""

PROMPT_TOKENS = re.compile(
    r"\brequest \((\d{1,9}) tokens\) exceeds|prompt is too long: (\d{1,9}) tokens|messages resulted in (\d{1,9}) tokens"
    r"|\((\d{1,9}) in the messages|input token count(?: is)? \(?(\d{1,9})\)?|the request contains (\d{1,9}) tokens"
    r"|prompt token count of (\d{1,9}) exceeds|exceeded model token limit: \d+ \(requested: (\d{1,9})\)"
    r"|prompt \(length (\d{1,9})\)|number of input tokens (\d{1,9})|less than \d+ tokens\. given: (\d{1,9})"
    r"|your request has (\d{1,9}) input tokens|exceed context limit: (\d{1,9}) \+|input length \(?(\d{1,9})\)? exceeds"
    r"|\binput \((\d{1,9}) tokens\)|given: (\d{1,9}) `inputs` tokens|prompt contains (?:at least )?(\d{1,9}) (?:input )?tokens"
    r"|prompt has (\d{1,9}) tokens",
    re.IGNORECASE,
)
"""Phrases in provider errors that state the token count of a prompt, for each provider in `harness.models.endpoint.faults`."""


def is_overflow(status: int | None, text: str, *, is_known: bool = False) -> bool:
    """Return whether an error means that a prompt does not fit the context window.

    Args:
        status: HTTP status of the error; None if there is none, as in the middle of a stream.
        text: Text of the error.
        is_known: Whether litellm knows the text; it also counts some limits on single fields.
    """
    text = MEANINGLESS.sub(" ", ECHO.split(text, maxsplit=1)[0])
    if LONG_CONTEXT.search(text):
        return True
    if status == 429 or OTHER_LIMITS.search(text) or (MEDIA.search(text) and not TEXT_LENGTH.search(text)):
        return False
    if is_known or CODES.search(text):
        return True
    if status == TOO_LARGE_STATUS:  # often without a text, or with that of a web server
        return not OUTPUT.search(text) or INPUT.search(text) is not None
    if status not in OVERFLOW_STATUSES or (OUTPUT.search(text) and not INPUT.search(text)):
        return False
    return all(words.search(text) for words in (PROMPT, LENGTH, EXCESS))


def find_prompt_tokens(text: str) -> int | None:
    """Return the token count of the refused prompt that an error states; None if it states none."""
    match = PROMPT_TOKENS.search(text)
    return int(match[match.lastindex or 0]) if match else None  # each wording of the pattern has a group of its own
