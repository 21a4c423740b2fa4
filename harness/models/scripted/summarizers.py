"""Scripted summarizers: models that receive the prompt for a summary, and return all, some or none of the prompt's lines.

Only `scripted/oracle` and `scripted/survival:NAME` (see `harness.models.scripted.survival`) use the text patterns that find the
values of a task's facts; no summarizer knows the values. The compaction policy `oracle` is something else: it retains messages
and asks for no summary.

The extractive summarizer ranks lines with BM25. Only the words of the query are scored: a library would index every word, which
takes longer than the rest of a scripted session. A test checks that the scores equal those of the library `bm25s` exactly.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; in the variant that Kamphuis et al., Which BM25 Do
You Mean?, 2020, call Lucene (accurate).
"""

import hashlib
import math
import random
import re
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from harness.conversation import transcript
from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, assistant
from harness.conversation.tokens import Measured, Window
from harness.conversation.transcript import RECEIPT
from harness.errors import ContextOverflow
from harness.models.scripted import patterns
from harness.models.scripted.agent import build_reply, count_tool_tokens
from harness.models.scripted.profiles import Profile
from harness.models.scripted.summary_prompts import FILE_RECORD, arrange_summary, build_empty_summary, read_summary_prompt
from harness.models.scripted.visible_state import SUCCESS_OUTCOMES
from harness.models.tokenizer import count_message_tokens, count_text_tokens
from harness.protocols import Reply, Request, ignore
from harness.task import Fact, Script

SATURATION, LENGTH_SHARE = 1.5, 0.75
"""Parameters k1 and b of the BM25 ranking."""
_WORD = re.compile(r"\b\w\w+\b")
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of"),
        *("on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
"""English words, such as `the`, that the ranking of lines ignores."""


@lru_cache(maxsize=patterns.MAX_CACHED_LINES)
def split_words(line: str) -> tuple[str, ...]:
    """Return the words of a line by which it is ranked, in lower case."""
    return tuple([word for word in _WORD.findall(line.lower()) if word not in _STOP_WORDS])


def score_lines(lines: Sequence[Sequence[str]], query: Collection[str]) -> list[float]:
    """Return the BM25 score (relevance) of each line for a query.

    Args:
        lines: Searchable words of each line; at least one line has a word.
        query: Words to search for, with equal weight; each of them is in at least one line.

    Returns:
        One score for each line, at least 0, summed in single precision in alphabetical order of the words.
    """
    average = sum(map(len, lines)) / len(lines)
    postings: dict[str, dict[int, int]] = {word: {} for word in sorted(query)}
    for index, words in enumerate(lines):
        for word in words:
            if word in postings:
                counts = postings[word]
                counts[index] = counts.get(index, 0) + 1
    lengths = [SATURATION * ((1 - LENGTH_SHARE) + LENGTH_SHARE * len(words) / average) for words in lines]
    # arrays round each number to single precision, in which the library computes, so that equal scores stay equal
    scores, single = array("f", bytes(4 * len(lines))), array("f", (0.0, 0.0))
    for occurrences in postings.values():
        single[0] = math.log(1 + (len(lines) - len(occurrences) + 0.5) / (len(occurrences) + 0.5))
        weight = single[0]
        for index, times in occurrences.items():
            single[1] = weight * (times / (lengths[index] + times))
            scores[index] += single[1]
    return scores.tolist()


Summarize = Callable[[str, int], str]
"""Type of a function that returns a summary, given the text of the summary prompt and the output limit in tokens."""

EMPTY_SUMMARY = "(no details were kept)"
"""Text that the empty summarizer returns; an empty text would count as a failed summary."""

DEFAULT_SUMMARY_TOKENS = 800
MIN_LINE_WORDS = 6
"""Minimum number of words in a line that an extractive summary keeps; shorter lines are mostly listings, brackets or headings."""
MAX_CACHED_SUMMARIES = 64
"""Number of summaries that are cached.

Trials that differ only in their summarizer request the first summary of a session with the same prompt.
"""
REQUEST_SHARE = 1 / 3
"""Maximum share of an extractive summary that lines of the user's request may take."""
WORK_SHARE = 0.2
"""Maximum share of an extractive summary that the records of written files take; the newest ones are kept."""
FRAME_TOKENS = 32
"""Number of tokens that an extractive summary leaves free for what a policy writes above and below it, such as a heading."""


class ScriptedSummarizer:
    """Scripted model that writes a summary by selecting lines of the prompt. Thread-safe."""

    def __init__(self, *, name: str, summarize: Summarize, profile: Profile, window_tokens: int) -> None:
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self._summarize, self._profile = summarize, profile

    def count_prompt_tokens(self, messages: Sequence[Message]) -> Measured:
        """Return the number of tokens of a summary prompt."""
        return Measured(sum(map(count_message_tokens, messages)))

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a summary prompt with the summary that the summarizer's function writes."""
        prompt = render_prompt(request.messages)
        input_tokens = self.count_prompt_tokens(request.messages) + count_tool_tokens(request.tools)
        if input_tokens > self.window.tokens:
            raise ContextOverflow(self.name, input_tokens, self.window.tokens)
        text = self._summarize(prompt, request.max_output_tokens or DEFAULT_SUMMARY_TOKENS) or EMPTY_SUMMARY
        listen(TextDelta(text=text))
        return build_reply(assistant(text), input_tokens, self._profile)


def render_prompt(messages: Sequence[Message]) -> str:
    """Return the text of a summary prompt; a prompt that is the conversation itself becomes a transcript."""
    if any(message.calls or message.results for message in messages):
        return transcript.render(messages)
    return "\n".join(message.text for message in messages)


class FactLedger:
    """Patterns of one task that tell which lines of a summary prompt carry a fact or evidence of a finished step."""

    def __init__(self, facts: tuple[Fact, ...], script: Script) -> None:
        known = patterns.compile_fact_patterns(facts)
        self.has_fact = known.has_fact
        """Function that returns whether a line contains the value of any fact."""
        self.find_values = known.find_values
        """Function that returns the values in a line, by name of the fact."""
        self._counters = patterns.StepCounters(script.steps)
        self._receipts = patterns.ReceiptPatterns(script.steps)
        self._done_patterns = patterns.compile_done_patterns(script.steps)
        self._repair_keys = {
            (call.tool, call.arguments[0][1]) for step in script.steps for fix in step.repairs for call in fix.calls
        }
        self._shows_step = lru_cache(maxsize=patterns.MAX_CACHED_LINES)(self._find_step)
        self._read_counts = lru_cache(maxsize=patterns.MAX_CACHED_LINES)(self._counters.read)

    def build_evidence_test(self, lines: Sequence[str]) -> Callable[[str], bool]:
        """Return a function that tells whether one of the lines is evidence of finished steps.

        Of the lines that count finished steps, only those with the highest count are evidence; tool calls of the counted steps
        are not.
        """
        highest = self._counters.read("\n".join(lines))
        covered = frozenset(
            index for counter, number in highest.items() for index in self._counters.list_covered_steps(counter, number)
        )

        def is_evidence(line: str) -> bool:
            counts = self._read_counts(line).items()
            return self._shows_step(line, covered) or any(highest[index] == number for index, number in counts)

        return is_evidence

    def _find_step(self, line: str, covered: frozenset[int]) -> bool:
        match = RECEIPT.match(line)
        if match is None:
            # the search for a word is fast and rules out most lines
            return any(pattern.about in line and pattern.matches(line) for pattern in self._done_patterns)
        tool, key, outcome = match.groups()
        return outcome in SUCCESS_OUTCOMES and (
            (tool, key) in self._repair_keys or any(index not in covered for index, _ in self._receipts.match_receipt(tool, key))
        )


def keep_newest(lines: Sequence[str]) -> list[str]:
    """Return lines in their order, of equal lines only the last."""
    newest = {line: index for index, line in enumerate(lines)}
    return [line for index, line in enumerate(lines) if newest[line] == index]


@lru_cache(maxsize=patterns.MAX_CACHED_TASKS)
def build_oracle_summarize(facts: tuple[Fact, ...], script: Script) -> Summarize:
    """Return a function that writes a perfect summary, which may exceed the limit on its length.

    The summary keeps every line with a fact or with evidence of a finished step.
    """
    ledger = FactLedger(facts, script)

    def summarize(text: str, _: int) -> str:
        prompt = read_summary_prompt(text)
        is_evidence = ledger.build_evidence_test(prompt.lines)
        return arrange_summary(prompt, keep_newest([line for line in prompt.lines if is_evidence(line) or ledger.has_fact(line)]))

    return summarize


def summarize_extractively(prompt: str, limit_tokens: int) -> str:
    """Return a summary made of the prompt's lines that are most relevant to the user's request.

    Lines are ranked by their BM25 score for the request, divided by their number of tokens. If the prompt contains no request,
    all lines together are the query. Lines of the request itself get at most a third of the summary, and the newest records of
    written files a fifth, whatever their score. The chosen lines keep their order within each section.

    The summary is within its limit both by the tokenizer and by four characters to a token, as most policies estimate.
    """
    return arrange_summary(read_summary_prompt(prompt), choose_lines(prompt, limit_tokens))


@lru_cache(maxsize=MAX_CACHED_SUMMARIES)
def choose_lines(text: str, limit_tokens: int) -> tuple[str, ...]:
    """Return the lines of an extractive summary in the order of the prompt with the given text."""
    prompt = read_summary_prompt(text)
    newest = {line.strip(): index for index, line in enumerate(prompt.lines) if _can_be_kept(line)}
    candidates = sorted(newest.keys() - set(prompt.titles), key=newest.__getitem__)
    request = prompt.request_lines
    words = list(map(split_words, candidates))
    known = {word for line in words for word in line}
    if not known:
        return ()
    query = {word for line, line_words in zip(candidates, words, strict=True) if line in request for word in line_words} or known
    scores = score_lines(words, query)
    costs = list(map(_count_line_tokens, candidates))
    salience = [score / cost for score, cost in zip(scores, costs, strict=True)]
    room = limit_tokens - FRAME_TOKENS - sum(map(_count_line_tokens, build_empty_summary(prompt).splitlines()))
    request_room, work_room = limit_tokens * REQUEST_SHARE, limit_tokens * WORK_SHARE
    chosen = set()
    for index in reversed(range(len(candidates))):
        if candidates[index].startswith(FILE_RECORD) and costs[index] <= min(room, work_room):
            chosen.add(index)
            room -= costs[index]
            work_room -= costs[index]
    for index in sorted(set(range(len(candidates))) - chosen, key=lambda index: (-salience[index], index)):
        of_request = costs[index] if candidates[index] in request else 0
        if candidates[index].startswith(FILE_RECORD) or costs[index] > room or of_request > request_room:
            continue
        chosen.add(index)
        room -= costs[index]
        request_room -= of_request
    return tuple(candidates[index] for index in sorted(chosen))


def _can_be_kept(line: str) -> bool:
    """Return whether an extractive summary may keep a line: a long one, or the record of a file that was written."""
    return len(line.split()) >= MIN_LINE_WORDS or line.startswith(FILE_RECORD)


def _count_line_tokens(line: str) -> int:
    """Return the number of tokens of a line with its end, by the tokenizer or by four characters to a token if that is more."""
    return max(count_text_tokens(line) + 1, -(-(len(line) + 1) // 4))


def digest_prompt(prompt: str) -> str:
    """Return the hash of a summary prompt, from which the random draws of its summary follow."""
    return hashlib.sha256(prompt.encode(errors="surrogatepass")).hexdigest()


def build_lossy_summarize(share: float, seed: int, summarizer_seed: int = 0) -> Summarize:
    """Return a function that writes an extractive summary without a random share of its lines.

    Each line is dropped with probability `share`, depending only on seeds, prompt and line. A higher share drops all lines that a
    lower share drops. A line that is missing from one summary can appear in the next, if the messages still contain the line.
    """
    key = f"{seed}/{summarizer_seed}" if summarizer_seed else f"{seed}"  # without the second seed, the draws are those of before

    def summarize(prompt: str, limit_tokens: int) -> str:
        digest = digest_prompt(prompt)
        kept = [line for line in choose_lines(prompt, limit_tokens) if random.Random(f"{key}/{digest}/{line}").random() >= share]
        return arrange_summary(read_summary_prompt(prompt), kept)

    return summarize
