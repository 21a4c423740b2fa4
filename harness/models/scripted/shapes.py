"""Shapes of sentences that state a value.

Words that are harmless one by one can still form a sentence that states nothing, e.g. "we still have to confirm that the port is
80" or "as long as the port is 80". So a value is read only if the words of its sentence have roles (see `known_words.ROLES`) that
follow each other as in a statement: a name, a copula and a value; a verb, a name and a value; a label and a value; each possibly
with words such as "the user decided that" before it, or "as agreed" behind it.
"""

import re
from collections.abc import Callable

from harness.models.scripted.known_words import OTHER, ROLES

VALUE, OWN, BREAK, LIMIT = "v", "n", ",", "l"
"""Roles of the value, of a word of the fact, of punctuation, and of a phrase such as "at most"."""
VALUE_MARK, LIMIT_MARK = "\ue000", "\ue001"
"""Private characters that stand for the value and for a limit in a text."""
_OWNABLE = frozenset("xwgarbfo")
"""Roles whose words can belong to the name or the text of a fact."""
_TOKEN = re.compile(rf"[^\W_]+|[,;:()=–—→⇒➜.!{VALUE_MARK}{LIMIT_MARK}]")
_NOT_STATING = re.compile(
    "x"
    "|^,*c"  # a verb at the beginning, as in "is the port 80"
    "|(?<!u)b"  # "to confirm", but not "we confirm"
    "|[ngw]r"  # a report by a thing, as in "the file said 80"
    "|(?:^|[^rbnpduat])[pduao]*t"  # "that" without a report or a name before it
    "|(?<![nw])f[da]*v"  # a limit, as in "is over 80"
    "|o[da]*v"  # an older value, as in "from 80"
)
"""Roles that no statement has."""


def list_roles(text: str, is_own: Callable[[str, str, str], bool]) -> str:
    """Return one letter for the role of each word and mark of a text.

    `is_own` says whether a word belongs to the fact, given the word before it, the word itself and the next one, in lower case.
    """
    tokens = ["", *_TOKEN.findall(text.lower()), ""]
    roles = list[str]()
    for at in range(1, len(tokens) - 1):
        token = tokens[at]
        if token == VALUE_MARK:
            roles.append(VALUE)
        elif token == LIMIT_MARK:
            roles.append(LIMIT)
        elif not token.isalnum():
            roles.append(BREAK)
        else:
            role = ROLES.get(token, OTHER)
            roles.append(OWN if role in _OWNABLE and is_own(tokens[at - 1], token, tokens[at + 1]) else role)
    return "".join(roles)


def has_stating_shape(roles: str) -> bool:
    """Return whether the roles of the words of a sentence follow each other as in a statement of the value in it."""
    return VALUE in roles and not _NOT_STATING.search(roles)
