"""English words that leave a statement as it is, and words that can turn it into another one.

The tolerant reader reads a value only in a clause whose words are all known: words of the fact, and the words below. All others
are unknown, e.g. "suggested" and "competitor", so a clause that contains one of them states nothing. The lists contain words of
grammar and of projects in general, and no words of particular tasks.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

DETERMINER, PREPOSITION, COPULA, PERSON, THAT, NOUN, QUALITY, VERB = "d", "p", "c", "u", "t", "g", "a", "w"
REPORT = "r"
"""Role of words that say who stated a value, e.g. "agreed"."""
REPORT_STEM = "b"
"""Role of the same verbs in the form that also an order or a plan has, as in "we still have to confirm"."""
ORIGIN = "o"
"""Role of "from", behind which an older value stands."""
DISTANCE = "f"
"""Role of prepositions that make a limit of the value behind them, except behind a verb, as in "ends after"."""
OTHER = "x"
"""Role of words that are harmless only beside the words of a fact, e.g. "which"."""

_DETERMINERS = (
    "what",
    "there",
    *("a", "an", "the", "this", "these", "those", "it", "its", "our", "my", "your", "each", "every", "everything"),
    *("all", "any", "both", "whole", "entire", "s"),
)
_PREPOSITIONS = (
    "and",
    *("of", "to", "in", "on", "at", "by", "for", "with", "within", "as", "into", "onto", "per"),
    *("via", "during", "along", "together"),
)
_DISTANCES = ("over", "under", "between", "after")
_COPULAS = (
    *("is", "are", "be", "being", "am", "has", "have", "having", "shall", "should", "must", "will", "need", "needs"),
    *("ought", "equal", "equals", "become", "becomes", "remain", "remains", "stay", "stays"),
)
_PERSONS = (*("we", "i", "you", "us", "user"),)
_ADVERBS = (
    "already",
    *(
        "only",
        "exactly",
        "precisely",
        "just",
        "also",
        "too",
        "always",
        "still",
        "now",
        "currently",
        "today",
        "moreover",
        "again",
        "then",
    ),
    *(
        "everywhere",
        "altogether",
        "onwards",
        "forward",
        "own",
        "up",
        "max",
        "min",
        "upper",
        "lower",
        "total",
        "highest",
        "lowest",
        "longest",
    ),
    *("shortest", "largest", "smallest", "namely", "therefore", "thus", "hence"),
)
_OTHERS = (
    "one",
    *("who", "whose", "which", "so", "here", "since", "because", "between", "do", "does", "whoever"),
    *("i", "e", "eg", "ie", "etc", "way", "times", "moment", "ago", "option", "part", "thing", "question"),
    *("point", "case", "word", "result", "remainder", "certain", "usual", "common", "order"),
)
"""Known words that state nothing by themselves, e.g. those that begin another clause."""
_NOUNS = (
    *(
        "function",
        "module",
        "variable",
        "person",
        "people",
        "place",
        "marker",
        "placeholder",
    ),
    *("separator", "boundary", "response", "recipient", "contact", "extension"),
    *("time", "reference", "answer"),
    *(
        "value",
        "number",
        "name",
        "setting",
        "parameter",
        "field",
        "key",
        "fact",
        "rule",
        "limit",
        "entry",
        "item",
        "bound",
        "cap",
    ),
    *(
        "ceiling",
        "floor",
        "constraint",
        "constraints",
        "requirement",
        "decision",
        "detail",
        "note",
        "list",
        "state",
        "status",
        "progress",
        "context",
        "goal",
    ),
    *(
        "task",
        "project",
        "work",
        "session",
        "request",
        "agreement",
        "instruction",
        "memory",
        "knowledge",
        "data",
        "info",
        "configuration",
        "config",
        "settings",
    ),
    *(
        "amount",
        "count",
        "id",
        "identifier",
        "date",
        "day",
        "hour",
        "level",
        "size",
        "length",
        "text",
        "character",
        "string",
        "factor",
    ),
    *(
        "rate",
        "period",
        "interval",
        "address",
        "path",
        "target",
        "source",
        "prefix",
        "suffix",
        "format",
        "version",
        "mode",
        "type",
        "host",
    ),
    *(
        "unit",
        "position",
        "index",
        "column",
        "table",
        "row",
        "system",
        "database",
        "capacity",
        "width",
        "height",
        "maximum",
        "timeout",
        "symbol",
    ),
    *(
        "sign",
        "digit",
        "lifetime",
        "retention",
        "delay",
        "quota",
        "frequency",
        "speed",
        "share",
        "budget",
        "chapter",
        "section",
        "title",
        "label",
    ),
)
_QUALITIES = (
    *(
        "new",
        "current",
        "actual",
        "final",
        "fixed",
        "exact",
        "literal",
        "required",
        "mandatory",
        "important",
        "critical",
        "relevant",
        "valid",
        "correct",
    ),
    *(
        "right",
        "official",
        "essential",
        "ok",
        "yes",
        "unchanged",
        "immutable",
        "constant",
        "sure",
        "known",
        "good",
        "true",
        "hard",
        "firm",
    ),
    *(
        "strict",
        "sole",
        "single",
        "same",
        "full",
        "complete",
        "done",
        "updated",
        "latest",
        "newest",
        "ready",
        "wide",
        "high",
        "large",
    ),
)
_OWNERS = frozenset({"project", "user", "system", "task", "session", "database", "host"})
"""Nouns of which several are others, as in "most projects have"."""
_VERBS = (
    *("move", "went"),
    *("issue", "grant", "concern", "involve", "refer"),
    *("set", "use", "define", "chosen", "choice", "fix", "stand", "hold", "held", "holds", "apply", "applies", "call", "name"),
    *("begin", "begun", "start", "end", "finish", "run", "go", "goes", "gone", "come", "leave", "left", "take", "takes"),
    *("make", "made", "get", "put", "place", "lie", "lies", "belong", "live", "reside", "store", "contain", "consist", "carry"),
    *(
        "carries",
        "carried",
        "bear",
        "wear",
        "write",
        "written",
        "print",
        "send",
        "sent",
        "post",
        "book",
        "booked",
        "file",
        "filed",
    ),
    *(
        "sign",
        "signed",
        "mark",
        "tag",
        "sort",
        "separate",
        "join",
        "divide",
        "reach",
        "return",
        "allow",
        "permit",
        "limit",
        "cap",
    ),
    *(
        "lead",
        "count",
        "treat",
        "mean",
        "means",
        "meant",
        "identify",
        "identified",
        "measure",
        "expire",
        "elapse",
        "cover",
        "provide",
        "include",
    ),
    *(
        "associate",
        "attach",
        "bind",
        "pin",
        "pinned",
        "lock",
        "locked",
        "freeze",
        "introduce",
        "enforce",
        "register",
        "track",
        "announce",
        "publish",
    ),
    *(
        "bring",
        "brings",
        "brought",
        "change",
        "update",
        "raise",
        "raised",
        "revise",
        "correct",
        "adjust",
        "bump",
        "increase",
        "decrease",
        "switch",
    ),
    *("kept", "found", "seen", "shown", "display", "applied", "bounded", "act"),
)
"""Verbs that can join the name of a fact with its value."""
_REPORTS = (
    *(
        "agree",
        "confirm",
        "decide",
        "settle",
        "state",
        "require",
        "request",
        "give",
        "tell",
        "ask",
        "insist",
        "demand",
        "want",
        "approve",
    ),
    *("adopt", "accept", "document", "record", "note", "finalize", "ensure", "guarantee", "follow", "verify", "mention", "list"),
)
_REPORT_FORMS = (
    *(
        "agreed",
        "confirmed",
        "confirms",
        "decided",
        "decides",
        "settled",
        "stated",
        "states",
        "required",
        "requires",
        "requested",
        "requests",
        "given",
        "gives",
    ),
    *(
        "said",
        "says",
        "told",
        "asked",
        "insists",
        "insisted",
        "demanded",
        "wants",
        "wanted",
        "approved",
        "adopted",
        "accepted",
        "documented",
    ),
    *(
        "recorded",
        "noted",
        "finalized",
        "ordered",
        "verified",
        "read",
        "reads",
        "show",
        "shows",
        "known",
        "listed",
        "remember",
    ),
    *("note", "please"),
)
"""Forms of verbs that say who stated a value."""
_OTHER_VERBS = (
    *("say", "said", "tell", "show", "see", "find", "happen", "occur", "appear", "exist", "refer", "quote", "obey", "turn"),
    *("fill", "touch", "rest", "calculate", "answer", "amount", "know", "order"),
)


def _list_forms(word: str) -> tuple[str, ...]:
    stem = word.removesuffix("e")
    if word.endswith("y"):
        stem = f"{word[:-1]}i"  # e.g. "carried"
    return (word, f"{word}s", f"{stem}ed", f"{stem}es", f"{stem}ing", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing")


def _list_roles() -> Iterator[tuple[str, str]]:
    """Yield each known word with its role; later roles replace earlier ones."""
    yield from ((f"{word}s", OTHER) for word in _OTHERS)
    yield from ((form, OTHER) for verb in (*_OTHER_VERBS, *_REPORTS, *_VERBS) for form in _list_forms(verb))
    yield from ((form, VERB) for verb in _VERBS for form in _list_forms(verb) if not form.endswith("ing"))
    yield from ((word, REPORT_STEM) for word in _REPORTS)
    yield from ((word, NOUN) for noun in _NOUNS for word in (noun, f"{noun}s") if word == noun or noun not in _OWNERS)
    yield from ((form, REPORT) for verb in _REPORTS for form in _list_forms(verb)[1:] if not form.endswith("ing"))
    yield from ((word, REPORT) for word in _REPORT_FORMS)
    yield from ((word, QUALITY) for word in (*_QUALITIES, *_ADVERBS, "using", "changing"))
    yield from ((word, OTHER) for word in _OTHERS)
    yield from ((word, COPULA) for word in _COPULAS)
    yield from ((word, PREPOSITION) for word in _PREPOSITIONS)
    yield from ((word, DISTANCE) for word in _DISTANCES)
    yield from ((word, PERSON) for word in _PERSONS)
    yield from ((word, DETERMINER) for word in _DETERMINERS)
    yield "from", ORIGIN
    yield "that", THAT


ROLES: Mapping[str, str] = MappingProxyType(dict(_list_roles()))
"""Role of each known word in a sentence."""
FOREIGN_WORDS = frozenset(f"{noun}s" for noun in _OWNERS)
"""Forms of known nouns that are unknown themselves."""
KNOWN_WORDS = frozenset(ROLES)
"""Words that may stand in the remarks of every statement."""
COUNTED_WORDS = frozenset({*_NOUNS, *(f"{noun}s" for noun in _NOUNS if noun not in _OWNERS)})
"""Nouns that a number right before them counts, as in "3 items"."""
TURNING_WORDS = frozenset(
    (
        *(
            "not",
            "no",
            "never",
            "nothing",
            "nobody",
            "nor",
            "neither",
            "cannot",
            "without",
            "if",
            "unless",
            "whether",
            "may",
            "might",
        ),
        *(
            "can",
            "could",
            "would",
            "or",
            "either",
            "than",
            "was",
            "were",
            "had",
            "been",
            "other",
            "another",
            "when",
            "while",
            "where",
            "whenever",
            "wherever",
            "whatever",
            "their",
            "his",
            "her",
            "old",
            "former",
            "before",
        ),
        *(
            "until",
            "instead",
            "rather",
            "except",
            "but",
            "once",
            "previously",
            "formerly",
            "originally",
            "initially",
            "earlier",
        ),
        *(
            "previous",
            "initial",
            "above",
            "below",
            "beyond",
            "more",
            "less",
            "fewer",
            "longer",
            "later",
            "against",
            "about",
            "some",
            "next",
        ),
        *("exceed", "exceeds"),
    )
)
"""Words that may stand in a statement only beside the same word as in the fact's own text, as in "no service"."""
HARMFUL_STEMS = frozenset(
    (
        *("reject", "refus", "discard", "obsolet", "outdat", "supersed", "deprecat", "alternativ", "propos"),
        *("suggest", "idea", "considered", "rival", "another", "oth", "els", "exampl", "hypothetical", "assum", "guess", "mayb"),
        *(
            "fail",
            "wrong",
            "invalid",
            "not",
            "nev",
            "avoid",
            "forbidden",
            "their",
            "former",
            "previou",
            "previously",
            "old",
            "earli",
        ),
        *(
            "past",
            "draft",
            "demo",
            "ignor",
            "mistak",
            "question",
            "unlik",
            "withdrawn",
            "cancell",
            "cancel",
            "revok",
            "if",
            "would",
            "plan",
            *("upstream", "vend", "suppli", "riv", "sampl", "tutori", "neighbour", "candidat"),
        ),
    )
)
"""Stems of words in headings and reasons that say that the values below do not hold, or hold elsewhere."""

_LIMITS = r"(?:more|less|fewer|longer|later|higher|lower|greater|larger|bigger|smaller|shorter|earlier)\s+than"
_NEGATION = r"(?:\b(?:not|never|no|cannot|nobody|nothing)\b|n['’]t\b)"
HARMLESS_PHRASES = re.compile(
    rf"{_NEGATION}(?:\s+[^\W\d]+){{0,6}}?\s+(?:{_LIMITS}|(?:exceed|surpass)(?:s|ed|ing)?\b"
    r"|(?:fall|go|sink|get|rise|grow|be|take)s?\s+(?:below|above|beyond|under|over|past))"
    rf"|(?:\b(?:do|does|must|may|shall|should|can|will)\s+)?{_NEGATION}\s+(?:to\s+|be\s+|have\s+to\s+)?(?:change|alter|modif|touch|renam|forget|los[et]|violat|negotiable|optional|vary|varies)\w*"
    r"|\bas\s+(?:the\s+user\s+)?\w+ified\b"
    r"|\bnot\s+yet\s+(?:applied|done|started|written|tested|used|built)\b"
    r"|\b(?:later|since|finally|then)\s+(?=(?:been\s+)?(?:changed|switched|raised|lowered|updated|set|corrected|moved|revised)\b)"
    r"|\b(?:no|any)\s+(?:longer|later|earlier|higher|lower)\s+than\b"
    r"|\bor\s+(?:less|fewer|more|below|lower|earlier|better|sooner)\b"
    r"|\b(?:was|were|been)\s+"
    r"(?=[^\W\d]+ed\s+(?:as|at|to|by|with|on|in|under|for|that)\b)"
    r"|\b(?:was|were|been)\s+(?:then |later |now |finally |explicitly |since )?"
    r"(?:set|agreed|decided|fixed|settled|chosen|changed|raised|lowered|updated|confirmed|revised|given|stated|found|identified"
    r"|registered|granted|issued|recorded|accepted|increased|decreased|moved|renamed|defined)\b"
    r"|\bat\s+(?:the\s+)?(?:most|least)\b|\bsupersed(?:es|ing)\b|\b(?:has|have)\s+(?:since\s+|now\s+|already\s+|finally\s+)?been\b"
    r"|\bfrom now on\b|\bas of now\b|\bfor the time being\b|\bturned out to be\b"
    r"|\bthe rest\b"
    r"|\b(?:may|can)\s+(?:be\s+)?(?:at most|no|only|up to|take|reached)\b|\bcan\s+be\s+[^\W\d]+ed\b|\bno\s+matter\b"
    r"|\bany\s*more\b",
    re.IGNORECASE,
)
"""Phrases with a turning word that leave a statement as it is: limits, the past of a decision, and orders to change nothing."""
HARMFUL_PHRASES = re.compile(
    r"\bfalls?\s+back\b|\bwill\s+(?:become|change|move|switch)\b"
    r"|\bat first\b|\bin case\b|\bgiven up\b|\bused to\b|\bas if\b|\bno longer\b(?! than)"
    r"|\b(?:ask|asks|say|says) (?:if|whether)\b"
    r"|\b(?:to|must|should|shall|will|still|yet|please)\s+(?:be\s+)?(?:see|find|check|decide|confirm|verif|settle|agree|approve|ask|clarif|fix|say|tell|reply)\w*"
    r"|\b(?:can|may|could|might)\s+be\b(?!\s+(?:[^\W\d]+ed|at|up|no|only)\b)|\bsome\b|^\W*(?:were|had|should)\b",
    re.IGNORECASE,
)
"""Phrases of known words that say that a value does not hold, or is not certain."""
