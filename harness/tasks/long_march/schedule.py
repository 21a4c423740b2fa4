"""Schedule of the task `long-march`: the steps that state, repeat, correct and use a fact."""

from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import UsageError
from harness.task import World

FIRST_FIND_STEP = 5
"""Number of the first step whose report states a number; earlier steps read the orders that stand on pages."""
MIN_STEPS = 50
"""Minimum number of steps of the task if the user does not specify `use_lag_steps`."""
MAX_STEPS = 10_000
"""Maximum number of steps that a user can request for the task `long-march`."""
MIN_TOKENS, MAX_TOKENS = 150, 1_000
"""Smallest and largest mean number of tokens that a step of the task may add to the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Schedule of one fact: the steps that state, repeat, correct and use the number."""

    key: str
    """Key of the fact, by which the texts of the task mention it: `cairn` and a number, or the name of an order."""
    is_order: bool
    """Whether the fact is an order of the user, rather than a number that belongs to a cairn (a place on the way)."""
    told_step: int
    """Number of the step whose output first states the fact; 0 means that the prompt states the fact."""
    use_step: int
    """Number of the step in which the agent writes the number into a note; 0 means that no note asks for the number."""
    on_page: bool
    """Whether a page states the number to remember, so that the agent can read a forgotten number again."""
    revised_step: int
    """Number of the step whose output replaces the number to remember by a new one; 0 means that the number stays the same."""
    retold_steps: tuple[int, ...]
    """Numbers of the steps whose output repeats a fact that an earlier step has stated."""
    has_story: bool
    """Whether the first statement in a report or on a page follows a story on the same line."""
    notes: int
    """Number of sentences without information (see `harness.tasks.kit.statements.NOTES`) that follow the first statement."""

    @property
    def name(self) -> str:
        """Name of the fact (the number to remember), used in the script of the task and in results."""
        return self.key.replace("cairn", "cairn_")

    @property
    def page_path(self) -> str:
        """Path of the file from which the agent can read the number again; it exists only if `on_page` is set."""
        return f"pages/{self.key}.md"


class Note(NamedTuple):
    """Note that the agent has to write at a post (a place on the way), with the numbers it has to state."""

    post: int
    """Number of the post at which the note is due, which is also the number of the step that writes it."""
    marks: tuple[Mark, ...]
    """Schedule of each number that the note states, at least one."""

    @property
    def path(self) -> str:
        """Path of the file into which the agent writes the note."""
        return f"notes/{self.marks[0].key}.md"

    @property
    def check_name(self) -> str:
        """Name of the check of this note, e.g. `note_cairn17`."""
        return f"note_{self.marks[0].key}"


def check_world(world: World) -> None:
    """Check that the task supports each of the user's settings, and that the settings fit together.

    Raises:
        UsageError: A setting is out of range, or settings contradict each other.
    """
    lag, steps, tokens, redundancy = world.use_lag_steps, world.steps, world.tokens_per_step, world.redundancy
    needed_steps = FIRST_FIND_STEP + 1
    if lag is not None and lag < 2:
        raise UsageError(f"world.use_lag_steps: long-march needs at least 2 steps from the statement to the use (got {lag})")
    if steps is not None and lag is not None and steps < lag + needed_steps:
        raise UsageError(
            f"world.steps: a march with use_lag_steps={lag} needs at least {lag + needed_steps} steps (got {steps}); "
            "raise steps or lower use_lag_steps"
        )
    if steps is not None and lag is None and steps < MIN_STEPS:
        raise UsageError(f"world.steps: long-march needs at least {MIN_STEPS} steps (got {steps}), or a low use_lag_steps")
    if steps is not None and steps > MAX_STEPS:
        raise UsageError(f"world.steps: long-march supports at most {MAX_STEPS} steps (got {steps})")
    if tokens is not None and not MIN_TOKENS <= tokens <= MAX_TOKENS:
        raise UsageError(f"world.tokens_per_step: long-march supports {MIN_TOKENS} to {MAX_TOKENS} tokens (got {tokens})")
    max_lag = lag or MIN_STEPS - needed_steps
    if redundancy is not None and redundancy > max_lag:
        raise UsageError(
            f"world.redundancy: long-march states a fact at most once a step before its use, so the value must be at most "
            f"{'use_lag_steps=' if lag else ''}{max_lag} (got {redundancy})"
        )
