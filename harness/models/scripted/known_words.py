"""English words that leave a statement as it is, and words that can turn it into another one.

The tolerant reader reads a value only in a clause whose words are all known: words of the fact, and the words below. All others
are unknown, e.g. "suggested" and "competitor", so a clause that contains one of them states nothing. The lists contain words of
grammar and of projects in general, and no words of particular tasks.
"""

import re

_GRAMMAR = (
    *(
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "it",
        "its",
        "we",
        "i",
        "our",
        "us",
        "my",
        "you",
        "your",
        "who",
        "whose",
    ),
    *(
        "which",
        "what",
        "and",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "within",
        "as",
        "into",
        "onto",
        "per",
        "via",
    ),
    *(
        "so",
        "then",
        "after",
        "there",
        "here",
        "s",
        "since",
        "because",
        "over",
        "under",
        "between",
        "during",
    ),
    *(
        "is",
        "are",
        "be",
        "being",
        "am",
        "has",
        "have",
        "having",
        "do",
        "does",
        "shall",
        "should",
        "must",
        "will",
        "need",
        "ought",
    ),
    *(
        "each",
        "every",
        "everything",
        "everywhere",
        "all",
        "any",
        "both",
        "whole",
        "entire",
        "one",
        "only",
        "exactly",
        "precisely",
        "just",
    ),
    *(
        "also",
        "too",
        "always",
        "still",
        "now",
        "currently",
        "today",
        "moreover",
        "again",
        "remember",
        "note",
        "please",
    ),
    *("i", "e", "eg", "ie", "etc", "etc", "namely", "therefore", "thus", "hence", "whoever"),
    *("up", "along", "together", "own", "way", "time", "times", "moment", "onwards", "forward", "on"),
    *(
        "max",
        "min",
        "upper",
        "lower",
        "bound",
        "cap",
        "ceiling",
        "floor",
        "total",
        "altogether",
        "equal",
        "equals",
    ),
    *("highest", "lowest", "longest", "shortest", "largest", "smallest", "ago"),
)
_NOUNS = (
    *(
        "value",
        "number",
        "name",
        "setting",
        "option",
        "parameter",
        "field",
        "key",
        "fact",
        "rule",
        "limit",
        "entry",
        "item",
        "point",
    ),
    *("constraint", "constraints", "requirement", "decision", "detail", "note", "list", "state", "status", "progress"),
    *("context", "goal", "task", "project", "work", "session", "request", "order", "agreement", "instruction"),
    *(
        "user",
        "memory",
        "knowledge",
        "data",
        "info",
        "configuration",
        "config",
        "settings",
        "part",
        "thing",
        "word",
        "amount",
        "count",
    ),
    *("id", "identifier", "date", "day", "hour", "level", "size", "length", "text", "character", "string", "case"),
    *(
        "factor",
        "rate",
        "period",
        "interval",
        "address",
        "path",
        "target",
        "source",
    ),
    *(
        "prefix",
        "suffix",
        "format",
        "version",
        "mode",
        "type",
        "host",
        "unit",
        "position",
        "index",
        "column",
        "table",
        "row",
    ),
    *("system", "database", "capacity", "width", "height", "maximum", "timeout", "symbol", "sign", "digit", "question"),
    *("lifetime", "retention", "delay", "quota", "frequency", "speed", "share", "budget"),
    *("chapter", "section", "reference", "remainder", "result", "title", "label"),
)
_QUALITIES = (
    *("new", "current", "actual", "final", "fixed", "exact", "literal", "required", "mandatory", "important"),
    *("critical", "relevant", "valid", "correct", "right", "official", "essential", "ok", "yes"),
    *(
        "unchanged",
        "immutable",
        "constant",
        "sure",
        "certain",
        "known",
        "good",
        "true",
        "true",
        "hard",
        "firm",
        "strict",
    ),
    *(
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
        "usual",
        "wide",
        "high",
        "large",
        "common",
    ),
)
_OWNERS = frozenset({"project", "user", "system", "task", "session", "database", "host"})
"""Nouns of which several are others, as in "most projects have"."""
_VERBS = (
    *("set", "use", "agree", "confirm", "decide", "settle", "fix", "chosen", "choice", "define", "give", "given", "state"),
    *("require", "request", "say", "said", "tell", "told", "ask", "insist", "demand", "want", "order"),
    *("change", "update", "raise", "raised", "revise", "correct", "adjust", "bump", "increase", "decrease", "switch", "become"),
    *("remain", "stay", "stand", "hold", "held", "holds", "apply", "applies", "kept", "call", "name", "know", "known"),
    *("begin", "begun", "start", "end", "finish", "run", "go", "goes", "gone", "come", "leave", "left", "take", "takes"),
    *("make", "made", "get", "put", "place", "lie", "lies", "belong", "live", "reside", "store", "contain", "consist", "carry"),
    *(
        "carries",
        "carried",
        "bear",
        "wear",
        "write",
        "written",
        "read",
        "reads",
        "show",
        "shown",
        "display",
        "print",
        "send",
        "sent",
    ),
    *("post", "book", "booked", "file", "filed", "sign", "signed", "mark", "tag", "sort", "order", "separate", "join", "divide"),
    *("reach", "return", "answer", "allow", "permit", "limit", "cap", "lead", "count", "treat", "mean", "means", "meant"),
    *(
        "happen",
        "occur",
        "appear",
        "exist",
        "find",
        "found",
        "see",
        "seen",
        "note",
        "list",
        "document",
        "record",
        "register",
        "track",
    ),
    *("identify", "identified", "confirm", "verify", "verified", "ensure", "guarantee", "follow", "obey"),
    *("measure", "expire", "elapse", "went", "calculate", "amount", "rest", "cover", "provide", "include"),
    *("associate", "attach", "bind", "bound", "pin", "pinned", "lock", "locked", "freeze", "finalize"),
    *("introduce", "accept", "accepted", "approve", "approved", "adopt", "adopted", "apply", "applied", "enforce"),
    *("mention", "refer", "quote", "announce", "publish", "turn", "bring", "brings", "brought", "act", "follow", "fill", "touch"),
)


def _list_forms(word: str) -> tuple[str, ...]:
    stem = word.removesuffix("e")
    return (word, f"{word}s", f"{stem}ed", f"{stem}es", f"{stem}ing", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing")


KNOWN_WORDS = frozenset(
    {
        *_GRAMMAR,
        *_QUALITIES,
        *_NOUNS,
        *(f"{noun}s" for noun in _NOUNS if noun not in _OWNERS),
        *(form for verb in _VERBS for form in _list_forms(verb)),
    }
)
"""Words that may stand in every statement."""
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
        ),
    )
)
"""Stems of words in headings and reasons that say that the values below do not hold, or hold elsewhere."""

_LIMITS = r"(?:more|less|fewer|longer|later|higher|lower|greater|larger|bigger|smaller|shorter|earlier)\s+than"
_NEGATION = r"(?:\b(?:not|never|no|cannot|nobody|nothing)\b|n['’]t\b)"
HARMLESS_PHRASES = re.compile(
    rf"{_NEGATION}(?:\s+[^\W\d]+){{0,6}}?\s+(?:{_LIMITS}|(?:exceed|surpass)(?:s|ed|ing)?\b"
    r"|(?:fall|go|sink|get|rise|grow|be|take)s?\s+(?:below|above|beyond|under|over|past))"
    rf"|{_NEGATION}\s+(?:to\s+|be\s+|have\s+to\s+)?(?:change|alter|modif|touch|renam|forget|violat|negotiable|optional|vary|varies)\w*"
    r"|\b(?:no|any)\s+(?:longer|later|earlier|higher|lower)\s+than\b"
    r"|\bor\s+(?:less|fewer|more|below|lower|earlier|better|sooner)\b"
    r"|\b(?:was|were|been)\s+"
    r"(?=[^\W\d]+ed\s+(?:as|at|to|by|with|on|in|under|for|that)\b)"
    r"|\b(?:was|were|been)\s+(?:then |later |now |finally |explicitly )?"
    r"(?:set|agreed|decided|fixed|settled|chosen|changed|raised|lowered|updated|confirmed|revised|given|stated|found|identified"
    r"|registered|granted|issued|recorded|accepted|increased|decreased|moved|renamed|defined)\b"
    r"|\bat\s+(?:the\s+)?(?:most|least)\b|\bsupersed(?:es|ing)\b|\bhas\s+been\b|\bhave\s+been\b"
    r"|\bfrom now on\b|\bas of now\b|\bfor the time being\b|\bturned out to be\b"
    r"|\bthe rest\b"
    r"|\b(?:may|can)\s+(?:be\s+)?(?:at most|no|only|up to|take|reached)\b|\bcan\s+be\s+[^\W\d]+ed\b|\bno\s+matter\b"
    r"|\bany\s*more\b",
    re.IGNORECASE,
)
"""Phrases with a turning word that leave a statement as it is: limits, the past of a decision, and orders to change nothing."""
HARMFUL_PHRASES = re.compile(
    r"\bat first\b|\bin case\b|\bgiven up\b|\bused to\b|\bas if\b|\bno longer\b(?! than)"
    r"|\b(?:ask|asks|say|says) (?:if|whether)\b"
    r"|\b(?:to|must|should|shall|will|still|yet|please)\s+(?:be\s+)?(?:see|find|check|decide|confirm|verif|settle|agree|approve|ask|clarif|fix|say|tell|reply)\w*"
    r"|\b(?:can|may|could|might)\s+be\b(?!\s+(?:[^\W\d]+ed|at|up|no|only)\b)|\bsome\b|^\W*(?:were|had|should)\b",
    re.IGNORECASE,
)
"""Phrases of known words that say that a value does not hold, or is not certain."""
