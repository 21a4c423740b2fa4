"""Prompt and initial workspace of the task `long-march`: tools, encoded reports for all steps, and pages with numbers."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from harness.task import World
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.texts import fill_text
from harness.tasks.long_march.facts import FACT_FORMS, Values, render_sentence
from harness.tasks.long_march.prose import CHARACTERS_PER_TOKEN, WORDS, draw_sizes, write_page
from harness.tasks.long_march.schedule import ORDERS, Mark

STEP_TOKENS = 62
"""Number of tokens that a step adds besides filler text: the agent's message, its tool call, and the first line of output."""
LEG_POSTS = 100
"""Number of posts (stations of the walk) whose reports are stored in one file in the folder `route`."""


def render_prompt(world: World, marks: Sequence[Mark], values: Values) -> str:
    """Return the prompt of the task, which states each order of the user or names the page that states the order."""
    orders = (
        f"- The order of the {mark.key} stands on {mark.page_path}, to be read at post {mark.told_step}."
        if mark.on_page
        else f"- {render_sentence(mark, values.first[mark.key])} Its note is due at post {mark.use_step}."
        for mark in marks[: len(ORDERS)]
    )
    return fill_text(__package__, "prompt.md", {"last": int(world.overrides["steps"]) - 1, "orders": "\n".join(orders)})


def build_workspace(world: World, marks: Sequence[Mark], values: Values, task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return path and text of each file in the initial workspace: tools, encoded reports, pages, and the log of visited posts."""
    knobs, rng_for = world.overrides, partial(make_rng, "long-march", task_seed)
    last, mean = int(knobs["steps"]) - 1, (knobs["tokens_per_step"] - STEP_TOKENS) * CHARACTERS_PER_TOKEN
    talk_characters = [0, *draw_sizes(last, mean, knobs["output_sigma"], rng_for("sizes"))]
    items_by_post: list[list[str]] = [[] for _ in range(last + 1)]
    for post, item in chain.from_iterable(_generate_items(mark, values) for mark in marks):
        items_by_post[post].append(item)
    pages = []
    for mark in (mark for mark in marks if mark.on_page):
        sentence, characters = render_sentence(mark, values.first[mark.key]), talk_characters[mark.told_step]
        pages.append((mark.page_path, write_page(sentence, characters, rng_for(mark.page_path))))
        talk_characters[mark.told_step] = 0
    start = rng_for("talk").randrange(1, 2**31 - 1)
    rows = [
        f"{post}\t{talk_characters[post]}\t{1 + (start + 7919 * post) % 2_147_483_646}\t{' '.join(items_by_post[post])}"
        for post in range(last + 1)
    ]
    legs = [
        (f"route/leg-{at // LEG_POSTS}.tsv", "\n".join(rows[at : at + LEG_POSTS]) + "\n") for at in range(0, last + 1, LEG_POSTS)
    ]
    forms = "\n".join(f'    kind[{at}] = "{kind}"; form[{at}] = "{line}"' for at, (_, kind, line) in enumerate(FACT_FORMS))
    tools = (
        ("tools/walk.awk", fill_text(__package__, "walk.awk", {"forms": forms, "orders": len(ORDERS) - 1, **WORDS})),
        *((f"tools/{name}.sh", fill_text(__package__, f"{name}.sh", {"last": last})) for name in ("walk", "where")),
    )
    return (*tools, ("log/walked.txt", "0\n"), *legs, *pages)


def _generate_items(mark: Mark, values: Values) -> Iterator[tuple[int, str]]:
    """Yield, for each statement of a fact, the number of the post that shows it, and the statement in encoded form.

    The tool `tools/walk.awk` decodes the text when the agent reaches the post.
    """
    old, new = values.first[mark.key], values.final[mark.key]

    def format_item(how: str, post: int, value: str) -> tuple[int, str]:
        return post, f"{how}:{mark.form_index}:{mark.key}:{1000 + (int(value) - 1000 + 37 * post) % 9000}"

    if mark.on_page:
        yield mark.told_step - 1, f"read:{mark.key}"
    elif mark.told_step:
        yield format_item("tell", mark.told_step, old)
    if mark.revised_step:
        yield format_item("repost" if mark.on_page else "revise", mark.revised_step, new)
    for post in mark.retold_steps:
        yield format_item("again", post, new if mark.revised_step and post >= mark.revised_step else old)
    yield mark.use_step - 1, f"write:{mark.form_index}:{mark.key}"
