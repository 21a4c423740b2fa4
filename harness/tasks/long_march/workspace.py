"""Prompt and initial workspace of the task `long-march`: tools, encoded reports for all steps, and pages with numbers."""

from collections.abc import Iterator
from itertools import chain
from string import Template

from harness.tasks.kit.statements import NOTES, render_request
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.long_march.facts import (
    CAIRN_FORMS,
    ORDER_KINDS,
    Values,
    describe,
    find_fact_text,
    find_form,
    load_cairn_texts,
    load_orders,
    render_sentence,
)
from harness.tasks.long_march.prose import CHARACTERS_PER_TOKEN, WORDS, draw_sizes, write_page
from harness.tasks.long_march.schedule import Mark
from harness.tasks.long_march.structure import Rumour, Structure

STEP_TOKENS = 46
"""Number of tokens that a step adds besides its report: the agent's message, its tool call, and the first line of output."""
CALL_TOKENS = 40
"""Number of tokens that each further tool call of a step adds, without the texts that `_count_tokens` counts."""
LEG_POSTS = 100
"""Number of posts (stations of the walk) whose reports are stored in one file in the folder `route`."""
ORDER_INDEXES = {key: index for index, key in enumerate(ORDER_KINDS)}
"""Index of each order's sentence in the tool `tools/walk.awk`, by key of the order; the sentences about cairns follow."""


def render_prompt(structure: Structure, values: Values) -> str:
    """Return the user's request, which states each order or names the page that states the order."""
    orders = [mark for mark in structure.marks if mark.is_order]
    pages = (
        f"- The order of the {mark.key} stands on {mark.page_path}, to be read at post {mark.told_step}.\n"
        for mark in orders
        if mark.on_page
    )
    words = {"last": structure.steps - 1, "keys": ", ".join(mark.key for mark in orders), "pages": "".join(pages)}
    return render_request(load_text(__package__, "prompt.md"), structure.statements, load_orders(), {**values.first, **words})


def build_workspace(structure: Structure, values: Values, draws: StructureDraws) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    last = structure.steps - 1
    items_by_post: list[list[str]] = [[] for _ in range(last + 1)]
    for post, item in chain(_generate_items(structure, values), map(_encode_rumour, structure.rumours)):
        items_by_post[post].append(item)
    talk_characters = [0, *_draw_talk_sizes(structure, draws)]
    pages = []
    for mark in (mark for mark in structure.marks if mark.on_page):
        text, size = _render_statement(mark, values.first[mark.key]), talk_characters[mark.told_step]
        pages.append((mark.page_path, write_page(text, size, draws.make_rng(mark.page_path))))
        talk_characters[mark.told_step] = 0
    start, depths = draws.make_rng("talk").randrange(1, 2**31 - 1), draws.make_rng("depths")
    rows = [
        "\t".join(
            [
                *map(str, (post, talk_characters[post], 1 + (start + 7919 * post) % 2_147_483_646, depths.randrange(100))),
                " ".join(items),
            ]
        )
        for post, items in enumerate(items_by_post)
    ]
    legs = [
        (f"route/leg-{start // LEG_POSTS}.tsv", "\n".join(rows[start : start + LEG_POSTS]) + "\n")
        for start in range(0, last + 1, LEG_POSTS)
    ]
    tools = (
        (
            "tools/walk.awk",
            fill_text(__package__, "walk.awk", {"texts": _render_awk_texts(), "orders": len(ORDER_KINDS), **WORDS}),
        ),
        *((f"tools/{name}.sh", fill_text(__package__, f"{name}.sh", {"last": last})) for name in ("walk", "where")),
    )
    return (*tools, ("log/walked.txt", "0\n"), *legs, *pages)


def _draw_talk_sizes(structure: Structure, draws: StructureDraws) -> list[int]:
    """Draw the lengths of the filler texts, so that steps add as many tokens as the settings say."""
    last = structure.steps - 1
    other_tokens = STEP_TOKENS + _count_tokens(structure) / last
    mean = max(0.0, (structure.tokens_per_step - other_tokens) * CHARACTERS_PER_TOKEN)
    return draw_sizes(last, mean, structure.output_sigma, draws.make_rng("sizes"))


def _count_tokens(structure: Structure) -> float:
    """Estimate the number of tokens in the whole task that are not filler text."""
    characters, calls = 0, 0
    for mark in structure.marks:
        sentence = len(find_fact_text(mark).sentence) - 10
        characters += len(_render_statement(mark, "0000")) if mark.told_step else 0
        characters += (sentence + 23) * len(mark.retold_steps) + (sentence + 44) * bool(mark.revised_step)
        characters += 60 * mark.on_page + 2 * len(describe(mark)) * bool(mark.use_step)
        calls += mark.on_page
    notes = structure.list_notes()
    characters += 70 * len(notes) + 65 * len(structure.rumours)
    return characters / CHARACTERS_PER_TOKEN + CALL_TOKENS * (calls + len(notes))


def _render_statement(mark: Mark, value: str) -> str:
    story = [find_fact_text(mark).story] if mark.has_story else []
    return " ".join([*story, render_sentence(mark, value), *NOTES[: mark.notes]])


def _render_awk_texts() -> str:
    fact_texts = [
        *(
            (key, Template(fact_text.sentence).substitute({key: "%s"}), fact_text.story, "")
            for key, fact_text in load_orders().items()
        ),
        *(
            (
                word,
                Template(fact_text.sentence).substitute(cairn="%s", number="%s"),
                fact_text.story,
                Template(fact_text.misleading).substitute(place="%s", number="%s"),
            )
            for (_, word), fact_text in zip(CAIRN_FORMS, load_cairn_texts(), strict=True)
        ),
    ]
    lines = [
        f'    form[{index}] = "{form}"; story[{index}] = "{story} "; other[{index}] = "{other}"; word[{index}] = "{word}"'
        for index, (word, form, story, other) in enumerate(fact_texts)
    ]
    return "\n".join([*lines, *(f'    note[{index}] = " {note}"' for index, note in enumerate(NOTES))])


def _generate_items(structure: Structure, values: Values) -> Iterator[tuple[int, str]]:
    """Yield each fact and each request for a note in a report, as number of a post and encoded text.

    The tool `tools/walk.awk` decodes the text when the agent reaches the post (a place on the way).
    """
    for mark in structure.marks:
        yield from _generate_statements(mark, values.first[mark.key], values.final[mark.key])
    for note in structure.list_notes():
        keys = ",".join(f"{_find_index(mark)}/{mark.key}" for mark in note.marks)
        yield note.post - 1, f"write:{note.path}:{keys}"


def _generate_statements(mark: Mark, old: str, new: str) -> Iterator[tuple[int, str]]:
    def format_item(how: str, post: int, value: str) -> tuple[int, str]:
        # an agent that reads the file ahead of its march finds another four-digit number; `walk.awk` computes the right one
        sealed_number = 1000 + (int(value) - 1000 + 37 * post) % 9000
        return post, f"{how}:{_find_index(mark)}:{mark.key}:{sealed_number}:{int(mark.has_story)}:{mark.notes}"

    if mark.on_page:
        yield mark.told_step - 1, f"read:{mark.key}"
    elif mark.told_step:
        yield format_item("tell", mark.told_step, old)
    if mark.revised_step:
        yield format_item("repost" if mark.on_page else "revise", mark.revised_step, new)
    for post in mark.retold_steps:
        yield format_item("again", post, new if mark.revised_step and post >= mark.revised_step else old)


def _find_index(mark: Mark) -> int:
    return ORDER_INDEXES[mark.key] if mark.is_order else len(ORDER_INDEXES) + find_form(mark.key)


def _encode_rumour(rumour: Rumour) -> tuple[int, str]:
    return rumour.post, f"other:{len(ORDER_INDEXES) + rumour.form}:{rumour.place}:{rumour.number}"
