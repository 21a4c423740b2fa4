"""Scripted summarizers: models that get the very prompt that a real summarizer gets, from the upper to the lower bound.

Only the oracle knows the patterns of a task; none knows a value.
"""

import re
from collections.abc import Callable, Sequence

from harness.events import TextDelta
from harness.messages import assistant
from harness.models.prices import NOMINAL
from harness.models.scripted.agent import tool_tokens
from harness.models.scripted.profiles import Profile
from harness.models.scripted.reading import ENDED_WELL
from harness.models.tokenizer import message_tokens, text_tokens
from harness.protocols import Reply, Request, unheard
from harness.task import Fact, Script
from harness.tokens import Measured, Usage, Window
from harness.transcript import RECEIPT

Summarize = Callable[[list[str], int], str]
"""From the lines of the material and the output limit in tokens to the summary."""

NOTHING = "(no details were kept)"
"""What the empty summarizer writes: not an empty text, which would be a failed summary."""

HEADING = re.compile(r"^[A-Z][A-Z ]+[A-Z](?: \(if any\))?:$")
"""A line of a summary prompt behind which material stands, e.g. `MESSAGES TO SUMMARIZE:`."""

DEFAULT_SUMMARY_TOKENS = 800


class ScriptedSummarizer:
    """A model that answers a summary prompt by a function of its lines. Thread-safe."""

    def __init__(self, *, name: str, summarize: Summarize, profile: Profile, window_tokens: int) -> None:
        """Name it and say how it summarizes."""
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self._summarize, self._profile = summarize, profile

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        """See `harness.protocols.Model`."""
        prompt = "\n".join(message.text for message in request.messages)
        text = self._summarize(material(prompt), request.max_output_tokens or DEFAULT_SUMMARY_TOKENS) or NOTHING
        message = assistant(text)
        listen(TextDelta(text=text))
        input_tokens = Measured(sum(map(message_tokens, request.messages)) + tool_tokens(request.tools))
        usage = Usage(input_tokens=input_tokens, output_tokens=message_tokens(message))
        seconds = self._profile.seconds(input_tokens, usage.output_tokens)
        return Reply(message=message, usage=usage, seconds=seconds, cost_usd=NOMINAL.cost_usd(usage))


def material(prompt: str) -> list[str]:
    """The lines of a summary prompt that are to be summarized, instructions left out.

    Material stands behind headings in capitals up to the last of them that has a `CONSTRAINTS` heading or an instruction
    behind it; a prompt without headings is material as a whole.
    """
    lines = prompt.splitlines()
    first = next((index for index, line in enumerate(lines) if HEADING.match(line)), 0)
    last = next((index for index in range(len(lines) - 1, first, -1) if lines[index].startswith("Create a summary")), len(lines))
    return [line for line in lines[first:last] if not HEADING.match(line)]


def oracle(facts: Sequence[Fact], script: Script) -> Summarize:
    """Keeps every line that carries a fact or is evidence of a step; may exceed the limit, being a bound."""
    patterns = [re.compile(text) for fact in facts for text in fact.patterns]
    tales = [(step.done.about, re.compile(step.done.named)) for step in script.steps if step.done.named]
    wanted = [(tool, re.compile(key)) for step in script.steps for tool, key in step.done.receipts]
    mending = {(call.tool, call.arguments[0][1]) for step in script.steps for fix in step.repairs for call in fix.calls}

    def is_evidence(line: str) -> bool:
        match = RECEIPT.match(line)
        if match is None:
            return any(about in line and pattern.search(line) for about, pattern in tales)
        tool, key, outcome = match.groups()
        return outcome in ENDED_WELL and (
            (tool, key) in mending or any(tool == name and pattern.search(key) for name, pattern in wanted)
        )

    def summarize(lines: list[str], _: int) -> str:
        kept = [line for line in lines if is_evidence(line) or any(pattern.search(line) for pattern in patterns)]
        newest = {line: index for index, line in enumerate(kept)}
        return "\n".join(line for index, line in enumerate(kept) if newest[line] == index)

    return summarize


def extractive(lines: list[str], limit_tokens: int) -> str:
    """The most salient lines that fit, in their order: ranked by BM25 against all the material's words together.

    Ranking: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), by the library bm25s.
    """
    import bm25s  # noqa: PLC0415  (loads numpy, which only this summarizer needs)

    newest = {line.strip(): index for index, line in enumerate(lines) if len(line.split()) >= 3}
    candidates = sorted(newest, key=newest.__getitem__)
    if not candidates:
        return ""
    tokens = bm25s.tokenize(candidates, stopwords="en", return_ids=False, show_progress=False)
    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    query = sorted({word for line in tokens for word in line})
    scores = index.get_scores(query)
    order = sorted(range(len(candidates)), key=lambda at: (-float(scores[at]), at))
    chosen, used = set(), 0
    for at in order:
        cost = text_tokens(candidates[at]) + 1
        if used + cost <= limit_tokens:
            chosen.add(at)
            used += cost
    return "\n".join(candidates[at] for at in sorted(chosen))


def empty(_: list[str], __: int) -> str:
    """Nothing: the lower bound."""
    return NOTHING
