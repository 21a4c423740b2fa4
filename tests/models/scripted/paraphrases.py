"""Sentences that state the value of a fact in other words than the task, and sentences that only look like such statements."""

from collections.abc import Iterator, Mapping
from string import Template

from harness.task import Fact
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.statements import FactText, load_fact_texts

STATEMENTS = (
    "${Label}: ${marked}",
    "- **${Label}**: ${marked}",
    "- ${Label}: ${marked}, as agreed with the user",
    "- [x] ${Label} → ${marked}",
    "1. Set the ${label} to ${marked} (required).",
    "| ${label} | ${marked} |",
    "| ${label} | ${marked} | see the request |",
    "| ${marked} | ${label} |",
    "The ${label} is ${marked}.",
    "The ${label} has been set to ${marked}.",
    "Remember that the ${label} must be ${marked}, as the user asked.",
    "${marked} is the ${label}.",
    "We use ${marked} as the ${label}.",
    "The ${label} (${marked}) was agreed with the user.",
    "${label} = ${marked}",
)
"""Forms of a statement: other order, other verbs, list item, row of a table, parenthesis."""
REVISIONS = (
    "The ${label} was ${old}, now ${marked}.",
    "The ${label} changed from ${old} to ${marked}.",
    "The ${label} is ${marked} instead of ${old}.",
    "The ${label} is ${marked} (previously ${old}).",
    "The ${label} is not ${old} but now ${marked}.",
)
"""Forms of a statement that also contains an older value."""
OTHERS = (
    "The ${label} is not ${old}.",
    "The former ${label} was ${old}.",
    "The ${label} of another team is ${old}.",
    "Is the ${label} ${old}?",
    "The ${label} ${old} is obsolete.",
    "Earlier ${label}: ${old}",
    "chapter: elsewhere\n${label}: ${old}\n",
)
"""Forms of a sentence with a value that is not the value of the fact."""
PACKAGES = {
    "bug-hunt": "bug_hunt",
    "changing-requirements": "changing_requirements",
    "flashcards": "flashcards",
    "flashcards-bun": "flashcards_bun",
    "log-forensics": "log_forensics",
    "long-march": "long_march",
    "rename-sweep": "rename_sweep",
    "spec-api": "spec_api",
}
"""Package of each task with misleading sentences, by name of the task."""


def write(form: str, fact: Fact, value: str, old: str = "") -> str:
    """Return a sentence in one of the forms above; words of a summary that are values are marked as code."""
    label = fact.name.replace("_", " ")
    return Template(form).substitute(label=label, Label=label.capitalize(), marked=f"`{value}`", old=f"`{old}`")


def load_all_fact_texts(task: str) -> Mapping[str, FactText]:
    """Return the sentences of a task's facts and of all agreements, by name of the fact."""
    own = "orders.md" if task == "long-march" else "constraints.md"
    return {**load_agreements(), **load_fact_texts(f"harness.tasks.{PACKAGES[task]}", own)}


def list_misleading(task: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the misleading sentences of a task in every form in which a request or a summary could contain them."""
    for name, fact_text in load_all_fact_texts(task).items():
        if not fact_text.misleading:
            continue
        label, sentence = name.replace("_", " "), Template(fact_text.misleading).safe_substitute(values)
        yield from (
            f"- {sentence}",
            f"| {label} | {sentence} |",
            Template(f"{fact_text.story} {sentence}").safe_substitute(values),
            f"**{label.title()}**: {sentence}",
            f"{label} - {sentence}",
            f"{sentence} ({label})",
        )
