"""Revisions: how often the behaviour of each part of a trial has changed since version 0.1. A developer raises them here.

The id of a trial contains the revision of every part that the trial uses, so results of another behaviour are neither resumed nor
pooled. Raise a revision by one whenever a part sends, counts or prices something else than before, and add one line to
`CHANGELOG.md` that names the part as in `REVISIONS`, with its number: "`prices` (revision 1): …".

A compaction policy has its revision in a property of its class, because policies can come from other packages. A policy whose
original changed is a new version, a policy of its own, and the revision of the older one stays. A task in a file of a user needs
no revision, since its content is part of the id.
"""

from collections.abc import Mapping

REVISIONS: Mapping[str, int] = {
    # Scripted models: what `models/scripted` says and does, and the tokens and seconds that it reports. 1: the agent goes on
    # behind the furthest step that it sees done, and looks how far the work is where it sees none.
    "agent": 1,
    "explorer": 0,  # the scripted sub-agent
    # Rules by which scripted models find values in texts. The summarizers `oracle` and `survival` use the rule `exact`: raise
    # them as well.
    "reader exact": 0,
    # 1 for `tolerant`: more styles (JSON, headings, numbers in words, other units), and fewer values that only seem to be stated.
    # 2: only sentences that are built like statements, also around the words of the task. 3: more forms of lists and of changes.
    "reader tolerant": 3,
    # Scripted summarizers. A trial with `lossy` also has the revision of `extractive`, whose lines it drops. 1: the sections that
    # the prompt asks for.
    "summarizer empty": 0,
    "summarizer extractive": 1,
    "summarizer lossy": 1,
    "summarizer oracle": 1,
    "summarizer survival": 0,  # raise it when a figure of `survival.toml` changes
    # What `nominal_window_tokens` scales. 1: no limit on the length of tool outputs.
    "scaling": 1,
    # How tokens become dollars, with the price of scripted models; the versions of price lists stand in the provenance.
    "prices": 0,
    # How the prompt cache of scripted agents is simulated and priced, in trials that name a price rule. Raise it, too, when a row
    # of `harness/prices/rules.toml` changes. 1: reads and writes of each request. Trials without a rule keep their nominal costs.
    # 2: as recorded sessions show it: lifetimes begin at the end of an answer, marks are those of agents, answers are held.
    "prompt cache": 2,
    # How prices of real models are read from the registry. 1: reasoning tokens have a price of their own.
    "listed prices": 1,
    # How real models are graded. 1: outside the sandbox, where forged work fails. 2: tests must notice edits of the source files,
    # and are counted in the files. Scripted models forge nothing.
    "checks": 2,
    # Tasks. 1: seeds differ in structure, e.g. in the order of the work, and not only in values. 2 for `spec-api` and
    # `flashcards-bun`: a misleading sentence in the request is no longer read as the fact that it resembles. Newest one of tasks
    # with the check `own_tests`: tests must notice wrong functions of several modules, so unfinished work fails this check. 2 for
    # `rename-sweep`: its last test run shows no tracebacks. 3 for `flashcards`: a page repeats most of the request.
    "task bug-hunt": 1,
    "task changing-requirements": 1,
    "task changing-requirements-delegation": 0,
    "task changing-requirements-images": 0,
    "task changing-requirements-skill": 0,
    "task flashcards": 3,
    "task flashcards-bun": 3,
    "task log-forensics": 1,
    "task long-march": 1,
    "task rename-sweep": 2,
    "task spec-api": 3,
    # Tasks at one level of difficulty, which change alone. 1: longer work, which no longer fits into a window of 128,000 tokens.
    "hard log-forensics": 1,
    "hard long-march": 1,
    # 1: a page repeats the request except for a fact or a few, and a file keeps what tools print that must not run twice.
    "easy bug-hunt": 1,
    "easy changing-requirements": 1,
    "easy flashcards": 1,
    "easy flashcards-bun": 1,
    "easy log-forensics": 1,
    "easy rename-sweep": 1,
    "easy spec-api": 1,
    # First message of every session. 1: the environment follows the instructions, as a part of its own.
    "system prompt": 1,
    # How requests of external agents are told apart, compacted and recorded.
    "external agent": 0,
    # Tools.
    "tool execute_command": 0,
    "tool read_file": 0,
    "tool write_file": 0,
    "tool list_directory": 0,
    "tool read_output": 0,
    "tool search_output": 0,
    "tool explore": 0,
    "tool view_image": 0,
    "tool skill": 0,
}
"""Revision of each part of a trial except its policy, by the name of the part."""

FIRST_VERSIONS: Mapping[str, str] = {"codex": "codex@2025", "opencode": "opencode@v1"}
"""Kinds of policies as stored by releases that knew only one version of these policies, and the kinds of these versions today.

Ids of trials are computed with the stored kind, so that they stay the same.
"""


_STORED_KINDS = {kind: stored for stored, kind in FIRST_VERSIONS.items()}


def find_stored_kind(kind: str) -> str:
    """Return the kind under which ids and revisions have a policy, e.g. `codex` for `codex@2025`."""
    return _STORED_KINDS.get(kind, kind)


def read_stored_kind(kind: str) -> str:
    """Return the kind of today of a policy that is stored with results under a kind, e.g. `codex@2025` for `codex`."""
    return FIRST_VERSIONS.get(kind, kind)
