"""What a seed lays before the agent: the request, the route with its sealed rows, the pages; and what judges the notes."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from string import Template

from harness.task import Grader, World
from harness.tasks.facts import drawn
from harness.tasks.kit import text
from harness.tasks.kit.graders import grader as judged_by
from harness.tasks.long_march.facts import FORMS, Values, sentence
from harness.tasks.long_march.prose import CHARACTERS_PER_TOKEN, WORDS, around, sizes
from harness.tasks.long_march.schedule import ORDERS, Mark

STEP_TOKENS = 62
"""What a step brings into view besides the talk of its report: the reply with its call, and the line of the post."""
LEG_POSTS = 100
"""Posts of one file of the route."""


def _filled(name: str, **values: object) -> str:
    return Template(text(__package__, f"files/{name}")).substitute({key: str(value) for key, value in values.items()})


def prompt(world: World, marks: Sequence[Mark], values: Values) -> str:
    """The request; it tells the orders, or on which pages they stand."""
    orders = (
        f"- The order of the {mark.key} stands on {mark.page}, to be read at post {mark.told}."
        if mark.on_page
        else f"- {sentence(mark, values.first[mark.key])} Its note is due at post {mark.used}."
        for mark in marks[: len(ORDERS)]
    )
    return _filled("prompt.md", last=_last(world), orders="\n".join(orders))


def _last(world: World) -> int:
    assert world.steps is not None
    return world.steps - 1


def workspace(world: World, marks: Sequence[Mark], values: Values, task_seed: int) -> tuple[tuple[str, str], ...]:
    """Tools, route, pages, and the log of posts, in which the march has not begun."""
    assert world.tokens_per_step is not None
    assert world.output_sigma is not None
    last, source = _last(world), partial(drawn, "long-march", task_seed)
    mean = (world.tokens_per_step - STEP_TOKENS) * CHARACTERS_PER_TOKEN
    talk = [0, *sizes(last, mean, world.output_sigma, source("sizes"))]
    told = _tellings(world, marks, values)
    pages = []
    for mark in marks:
        if mark.on_page:
            page = around(sentence(mark, values.first[mark.key]), talk[mark.told], source(mark.page))
            pages.append((mark.page, page))
            talk[mark.told] = 0
    start = source("talk").randrange(1, 2**31 - 1)
    rows = [
        f"{post}\t{talk[post]}\t{1 + (start + 7919 * post) % 2_147_483_646}\t{' '.join(told[post])}" for post in range(last + 1)
    ]
    legs = [
        (f"route/leg-{at // LEG_POSTS}.tsv", "\n".join(rows[at : at + LEG_POSTS]) + "\n") for at in range(0, last + 1, LEG_POSTS)
    ]
    forms = "\n".join(f'    kind[{at}] = "{kind}"; form[{at}] = "{line}"' for at, (_, kind, line) in enumerate(FORMS))
    tools = (
        ("tools/walk.awk", _filled("walk.awk", forms=forms, orders=len(ORDERS) - 1, **WORDS)),
        ("tools/walk.sh", _filled("walk.sh", last=last)),
        ("tools/where.sh", _filled("where.sh", last=last)),
    )
    return (*tools, ("log/walked.txt", "0\n"), *legs, *pages)


def _tellings(world: World, marks: Sequence[Mark], values: Values) -> list[list[str]]:
    """What each post tells, by number: the items that tools/walk.awk reads."""
    found: list[list[str]] = [[] for _ in range(_last(world) + 1)]
    for mark in marks:
        for post, item in _items(mark, values):
            found[post].append(item)
    return found


def _items(mark: Mark, values: Values) -> Iterator[tuple[int, str]]:
    old, new = values.first[mark.key], values.final[mark.key]

    def told(how: str, post: int, value: str) -> tuple[int, str]:
        return post, f"{how}:{mark.form}:{mark.key}:{1000 + (int(value) - 1000 + 37 * post) % 9000}"

    if mark.on_page:
        yield mark.told - 1, f"read:{mark.key}"
    elif mark.told:
        yield told("tell", mark.told, old)
    if mark.revised:
        yield told("repost" if mark.on_page else "revise", mark.revised, new)
    for post in mark.retold:
        yield told("again", post, new if mark.revised and post >= mark.revised else old)
    yield mark.used - 1, f"write:{mark.form}:{mark.key}"


def grader(world: World, marks: Sequence[Mark], values: Values) -> Grader:
    """The program that reads the notes and the log of posts; no code of the agent runs."""
    notes = {f"note_{mark.key}": (mark.note, f"{mark.key}: {values.final[mark.key]}") for mark in marks}
    return judged_by(_filled("verdicts.py", steps=_last(world) + 1, notes=json.dumps(notes)))
