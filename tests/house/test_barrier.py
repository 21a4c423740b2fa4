"""The information barrier: the reply of a scripted model depends on the request alone, never on the policy of the session.

The modules of the scripted models may import and call only what is listed here, so that they have no other source of information.
No name or string in these modules refers to a policy, and no string shares letters with the name of a policy or with text that
compaction writes into a view. Docstrings are exempt: the models cannot read them, because special names such as `__doc__` are
refused.

A summarizer answers in the form that its prompt asks for. So the module that reads these prompts knows what policies write there;
the agent does not see its own policy through it, because only the summarizers may import it.
"""

import ast
import builtins
import functools
import textwrap
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from harness.policies import PRESETS
from tests.house.source import CHECKOUT, Module, list_paths, modules, parse, read

ROOM = "harness/models/scripted/"
IMPORTS = frozenset(
    (
        *("array", "bisect", "collections", "collections.abc", "dataclasses", "functools", "itertools", "math", "re", "string"),
        *("hashlib.sha256", "json.dumps", "random.Random", "statistics.NormalDist", "threading.Lock", "types.MappingProxyType"),
        *("typing.Literal", "typing.NamedTuple", "typing.TypeAlias", "typing.get_args"),
        *(f"harness.conversation.{name}" for name in ("events", "growing_sequence", "messages", "tokens", "transcript")),
        *("harness.errors", "harness.models.prices", "harness.models.tokenizer", "harness.protocols", "harness.task"),
        *(
            f"harness.models.scripted.{name}"
            for name in (
                *("agent", "known_words", "notes", "patterns", "profiles", "quantities", "shapes", "statements"),
                *("summarizers", "summary_prompts", "tolerant", "visible_state"),
            )
        ),
    )
)
"""Modules, or single names of modules, that may be imported: values, pure functions, and the parts of a request."""
PROMPTS = "summary_prompts.py"
"""Module whose strings may be those of summary prompts."""
SUMMARIZERS = frozenset({PROMPTS, "summarizers.py", "survival.py"})
"""Modules that answer summary prompts; no other module may import them."""
BUILTINS = frozenset(
    (
        *("all", "any", "bool", "bytes", "dict", "enumerate", "float", "frozenset", "int", "isinstance", "len"),
        *(
            "list",
            "map",
            "max",
            "min",
            "next",
            "property",
            "range",
            "reversed",
            "round",
            "set",
            "sorted",
            "str",
            "sum",
            "tuple",
            "zip",
        ),
    )
)
SPECIAL = frozenset({"__init__", "__getitem__"})
"""Special names that may be used."""
NEVER = ("policy", "policies", "preset", "compact", "kind", "threshold")
"""Words that no name and no string may contain. Strings may not contain `summar` either, but names of summarizers may."""
PIECE_OF_A_NAME, PIECE_OF_A_TEXT = 4, 12
"""Number of consecutive characters that a string may not share with the name of a policy, and with text of compaction."""
SIGNS = ("#", "<")
"""First characters of headings and tags in summaries."""
ALIKE = frozenset(
    {
        "exit code 0",
        "execute_command",
        "tool",
        "/workspace",
        "assistant",
        "configuration",
        "surrogatepass",
        "constraint",
        "constraints",
        "attentive",
    }
)
"""Allowed words of transcripts, of Python and of requests that share letters with the name of a policy."""
SPOKEN = frozenset({"I need the {} for this and no longer have it in view; looking it up."})
"""Allowed replies of the agent that share letters with the name of a policy."""
PLACEHOLDERS = frozenset({"none", "pending", "complete", "completed", "unspecified", "open"})
"""Allowed English words that a text has in place of a value, and that share letters with the name of a policy."""
MARKS = frozenset({"three"})
"""Allowed English words that share letters with the name of a policy: a number."""
HERE_DOCUMENT = frozenset({"<<'"})
"""Allowed operator of the shell with which notes are appended to a file; it contains a sign."""
NAMED = HERE_DOCUMENT | ALIKE | SPOKEN | PLACEHOLDERS | MARKS
LOOKBEHINDS = ("(?<!", "(?<=")
"""Beginnings of parts of regular expressions, which contain a sign but find none."""


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Return line and value of every string that is not a docstring."""
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation and isinstance(node.value, str | bytes):
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def pieces(text: str, characters: int) -> set[str]:
    return {text[at : at + characters] for at in range(max(1, len(text) - characters + 1))}


@functools.cache
def written_by_compaction() -> frozenset[str]:
    """Return the pieces of all lines in the strings of the package `harness.compaction`."""
    held = (text for module in modules() if module.path.startswith("harness/compaction/") for _, text in texts(module))
    lines = (line for text in held for line in text.lower().splitlines() if len(line) >= PIECE_OF_A_TEXT)
    return frozenset(piece for line in lines for piece in pieces(line, PIECE_OF_A_TEXT))


@functools.cache
def of_policies() -> frozenset[str]:
    """Return the pieces of the names of all policies, except names too short to differ from ordinary words."""
    return frozenset(piece for name in PRESETS if len(name) >= PIECE_OF_A_NAME for piece in pieces(name, PIECE_OF_A_NAME))


def breaches(module: Module) -> list[str]:
    """Return one line for each place at which a module of scripted models could detect the policy."""
    places = [*list_telltale_texts(module), *reached(module), *named(module)]
    name = module.path.removeprefix(ROOM)
    if name not in SUMMARIZERS:
        places += list_imports_of_summarizers(module)
    return [f"{module.path}:{line}: {what}" for line, what in sorted(places)]


def list_imports_of_summarizers(module: Module) -> Iterator[tuple[int, str]]:
    """Return the imports of a module that no agent may use."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and f"{(node.module or '').rpartition('.')[2]}.py" in SUMMARIZERS:
            yield node.lineno, f"the import of {node.module} tells of summary prompts"


def list_telltale_texts(module: Module) -> Iterator[tuple[int, str]]:
    """Return the strings by which a policy could be recognized."""
    for line, text in texts(module):
        low = text.lower()
        if text in NAMED or module.path == f"{ROOM}{PROMPTS}":
            continue
        if text in PRESETS or pieces(low, PIECE_OF_A_NAME) & of_policies():
            yield line, f"the text {text!r} shares letters with the name of a policy"
        letters = "".join(filter(str.isalpha, low))
        if any(word in letters for word in (*NEVER, "summar")):
            yield line, f"the text {text!r} speaks of policies"
        plain = functools.reduce(lambda rest, opening: rest.replace(opening, ""), LOOKBEHINDS, low)
        if any(sign in plain for sign in SIGNS) or pieces(low, PIECE_OF_A_TEXT) & written_by_compaction():
            yield line, f"the text {text!r} is of what compaction writes"


def reached(module: Module) -> Iterator[tuple[int, str]]:
    """Return imports, and attributes of modules, that are not listed."""
    imported: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name] = alias.name
                if not any(one == alias.name or one.startswith(f"{alias.name}.") for one in IMPORTS):
                    yield node.lineno, f"the import of {alias.name} is not listed"
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                imported.update({alias.asname or alias.name: whole} if whole in IMPORTS else {})
                if not is_listed(node.module or "", alias.name):
                    yield node.lineno, f"the import of {whole} is not listed"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            owner = imported[node.value.id]
            if not is_listed(owner, node.attr):
                yield node.lineno, f"{owner}.{node.attr} is not listed"


def is_listed(owner: str, name: str) -> bool:
    """Return whether a name of a module may be used: the name is listed, or the module is listed and the name is no submodule."""
    if f"{owner}.{name}" in IMPORTS:
        return True
    return owner in IMPORTS and not isinstance(getattr(import_module(owner), name, None), ModuleType)


def named(module: Module) -> Iterator[tuple[int, str]]:
    """Return names that refer to policies, special or private names, and built-in functions that are not listed."""
    for node in ast.walk(module.tree):
        line = getattr(node, "lineno", 0)
        for name in names_of(node):
            if any(word in name.lower() for word in NEVER):
                yield line, f"the name {name} speaks of policies"
            if name.startswith("__") and name.strip("_") and name not in SPECIAL:
                yield line, f"{name} reaches into Python"
        if isinstance(node, ast.Name) and hasattr(builtins, node.id) and node.id not in BUILTINS:
            yield line, f"the function {node.id} is not listed"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr not in SPECIAL and not is_own(node):
            yield line, f"{node.attr} is private to another object"


def is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def names_of(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return [name]
        case ast.alias(name=name, asname=other):
            return [name, other or ""]
    return []


ROOMS = [read(path) for path in list_paths(CHECKOUT / ROOM)]


@pytest.mark.parametrize("module", ROOMS, ids=lambda module: module.path.removeprefix(ROOM))
def test_a_scripted_model_knows_nothing_of_policies(module: Module) -> None:
    assert breaches(module) == []


def test_every_exception_is_one_that_the_code_needs() -> None:
    held = {text for module in ROOMS for _, text in texts(module)}
    used = {name for module in ROOMS for node in ast.walk(module.tree) for name in names_of(node)}
    assert held >= NAMED
    assert used >= BUILTINS | SPECIAL
    assert len(ROOMS) > 3


SIDE_CHANNELS = {
    "the beginning of a name": 'if self._hint.startswith("keep-la"): return',
    "the first letters of a name": 'if self._hint[:4] == "keep": return',
    "a whole name, however short": 'if self._hint == "pi": return',
    "a name in bytes": 'if self._hint == b"keep-last": return',
    "the kind of the policy": 'if self.policy.kind[:4] == "keep": return',
    "the policy": "if self.policy: return",
    "the kind of something": "if self._hint.kind[:1]: return",
    "a parameter": "def reply(self, compactor): return",
    "a keyword": "reply(preset=1)",
    "a heading of a summary": 'if "## Session Summary (Compaction Round" in now.text: return',
    "the end of that heading": 'if "Session Summary (" in now.text: return',
    "a sign of headings": 'if now.text.startswith("##"): return',
    "a pattern of a heading": 'if re.search(r"[Cc]ompaction.Round", now.text): return',
    "an end of a summary": 'if "</summary>" in now.text: return',
    "a stub": 'if "result content cleared" in now.text: return',
    "the environment": 'import os\nif os.environ.get("HINT"): return',
    "the environment by its name": "from os import environ",
    "the system": "import sys\nif sys.argv: return",
    "the frames above": "import inspect\ninspect.stack()",
    "files": 'open("hint")',
    "paths": "from pathlib import Path",
    "another process": "import subprocess",
    "the globals": 'globals()["hint"]',
    "an attribute by its name": 'getattr(self, "hint")',
    "an import by its name": '__import__("o" + "s")',
    "the builtins": "__builtins__",
    "a module inside a module": "import re\nre.enum.sys.argv",
    "a private module": "import random\nrandom._os.environ",
    "a private module of an object": "self._draw._os.environ",
    "a module taken from a module": "from json import decoder",
    "the dictionary of an object": "self.__dict__",
    "the state of a thread": "import threading\nthreading.current_thread().name",
    "common draws": "import random\nrandom.random()",
    "the room of compaction": "from harness.compaction import cuts",
    "the forms of summary prompts": "from harness.models.scripted.summary_prompts import HEADING",
    "the summarizers": "from harness.models.scripted.summarizers import EMPTY_SUMMARY",
    "the events of compaction": "from harness.conversation.events import Compaction",
    "the whole package": "import harness\nharness.recordings",
    "the clock": "import time",
}
"""Code by which a scripted model could detect the policy. The check must find each of these when it is added to the agent."""


@pytest.mark.parametrize("act", SIDE_CHANNELS.values(), ids=SIDE_CHANNELS.keys())
def test_a_side_channel_in_the_agent_is_seen(act: str) -> None:
    (agent,) = (module for module in ROOMS if module.path == f"{ROOM}agent.py")
    head = "    def _decide(self, context: _CallContext) -> Message:\n"
    before, after = source_of(agent).split(head)
    assert breaches(parse(f"{before}{head}{textwrap.indent(act, ' ' * 8)}\n{after}", agent.path))


def source_of(module: Module) -> str:
    return (CHECKOUT / module.path).read_text(encoding="utf-8")
