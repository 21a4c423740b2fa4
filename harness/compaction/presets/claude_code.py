"""Policy modelled on Claude Code, which summarizes everything and shows the most recently modified files again."""

from dataclasses import dataclass, field
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.reinjection import ReInject
from harness.compaction.stages import EVERYTHING, Mask, Reducer, Summarize
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, Idle, ShareOfAvailable
from harness.conversation.codec import ADDED_LATER

INSTRUCTION = """\
Create a summary of the session above, from which the work can be continued without the session. Use these nine sections:

1. Request and intent
2. Technical concepts
3. Files and code
4. Errors and fixes
5. Problem solving
6. All messages of the user
7. Pending tasks
8. Current work
9. Next step"""


SUMMARY_HEADING = "This session continues one that no longer fitted the context window. The summary covers the session so far:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCode(SummarizingPreset):
    """Policy that summarizes everything at 83.5 % of the window, and shows the 5 most recently modified files again.

    Choose it when you compare Claude Code, or want the files that the agent works on to survive a summary.

    Source: documentation of Claude Code, `code.claude.com/docs/en/context-window`, as of 2026-10-19, and public recordings; the
    program's own source is not public.

    The system message stays, as the original's root instructions do. Everything else is replaced by a summary in nine sections.
    Behind the summary come the files that the agent modified most recently, and the results of tools that load rules (skills).
    A large file comes as its path only. The summarizer reads the session itself and one more message with the instruction.

    If the summary fails or is empty, the conversation stays unchanged.

    With `idle_minutes`, all but the newest tool results are replaced by a stub when the session was idle for longer; the original
    can do that after 60 minutes, with 5 results kept. A trial needs `gaps` for it.

    Differences from the original:

    - Files come from the messages of the session and not from the disk, so changes by shell commands do not show.
    - There is no plan file and no automatic memory.
    - The summary's prompt has other words.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.835`.
        most_files: Maximum number of files shown again; 0 shows none. Default: `5`.
        file_tokens: Maximum number of tokens of one file shown again; of a larger file, only the path is shown.
            Default: `5_000`.
        files_tokens: Maximum number of tokens of all files shown again. Default: `25_000`.
        skill_tools: Shell patterns of the names of tools that load rules, whose results are shown again. Default: `('skill',)`.
        skill_tokens: Maximum number of tokens of one such result; of a longer one, the beginning is shown. Default: `5_000`.
        skills_tokens: Maximum number of tokens of all such results. Default: `25_000`.
        idle_minutes: Idle time in minutes after which old tool results are cleared; None clears none. Default: `None`.
        keep_idle_results: Number of newest tool results that stay when results are cleared after idle time. Default: `5`.

    Example:
        Show smaller files again, for a window of 32,768 tokens:

        >>> from harness.policies import ClaudeCode
        >>> from harness.conversation.tokens import Window
        >>> policy = ClaudeCode(file_tokens=1_000, files_tokens=3_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        27361
    """

    threshold: Share = 0.835
    most_files: NonNegative = 5
    file_tokens: NonNegative = 5_000
    files_tokens: NonNegative = 25_000
    skill_tools: tuple[str, ...] = ("skill",)
    skill_tokens: NonNegative = 5_000
    skills_tokens: NonNegative = 25_000
    idle_minutes: Positive | None = field(default=None, metadata=ADDED_LATER)
    keep_idle_results: NonNegative = field(default=5, metadata=ADDED_LATER)
    kind: Literal["claude-code"] = "claude-code"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize everything and show files again, at the threshold and after an overflow."""
        summarize = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, heading=SUMMARY_HEADING, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        reducer: Reducer = ReInject(
            reducer=summarize,
            most_files=self.most_files,
            file_tokens=self.file_tokens,
            files_tokens=self.files_tokens,
            tools=self.skill_tools,
            result_tokens=self.skill_tokens,
            results_tokens=self.skills_tokens,
        )
        rule = Rule(Full(measure="reported-and-since"), reducer)
        rules: tuple[Rule, ...] = (rule, Rule(Always(), reducer, hook="overflow"))
        if self.idle_minutes is not None:
            clear = Mask(keep_results=self.keep_idle_results)
            rules = (Rule(Idle(seconds=60.0 * self.idle_minutes), clear, quiet=True, on_request=False), *rules)
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
