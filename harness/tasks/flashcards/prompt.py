"""The order (the prompt), and the remarks on the pages: what is said the same under every seed, and how long-winded.

People state a constraint now in a dry bullet and now at the end of a paragraph about how it came to be, in no particular
order. Under each seed some of the ten constraints are told at length, and the pages carry some remarks that matter to nobody.
The sentence that holds the value is always the same, so one pattern reads it; but the lines around it differ in length and
company, and with them what a summarizer keeps and at which step the window is full.
"""

from collections.abc import Callable, Mapping

from harness.tasks.facts import make_rng
from harness.tasks.flashcards.files import load_template
from harness.tasks.kit import prompts as orders
from harness.tasks.kit.prompts import Constraint

STORY_SHARE = 0.35
"""Share of the constraints whose story is told too."""
MAX_REMARKS = 3
"""Of one page."""


CONSTRAINTS = (
    Constraint(
        sentence="The program calls itself `${program_name}`: in its usage line, in `about`, in the papers.",
        story="Three other programs on the schools' list are called flashcards as well, and for half a year parents "
        "downloaded the wrong one.",
    ),
    Constraint(
        sentence="No interval may exceed ${max_interval_days} days, whatever SM-2 says.",
        story="After the long holidays half of the cards of the oldest learners had been put off beyond their exam, which "
        "the council of teachers discussed twice.",
    ),
    Constraint(
        sentence="Every card id starts with `${card_id_prefix}`.",
        story="Ids travel through the spreadsheets of the office, where those without letters lose their leading zeros.",
    ),
    Constraint(
        sentence="At most ${new_per_day} new cards on one day.",
        story="Eager beginners took a hundred on the first evening, came back to a mountain and never opened the program again.",
    ),
    Constraint(
        sentence="The ticket is ${ticket}; change log and hand-over name it.",
        story="The office pays by ticket and sends back what carries none.",
    ),
    Constraint(
        sentence="`review` ends with exit status ${idle_exit_code} when no card is due.",
        story="The schools start the program from scripts that must tell an idle day from a broken one without reading texts.",
    ),
    Constraint(
        sentence="A card with ${leech_lapses} lapses counts as a leech and is suspended until somebody rewrites it.",
        story="The teachers of the pilot classes complained that the same handful of cards came back for ever while nobody "
        "had the heart to delete them.",
    ),
    Constraint(
        sentence="A removed card keeps its row, and the date of removal goes into the column `${removed_column}`.",
        story="Legal wants nothing destroyed that a learner or a teacher ever typed, and the auditors of the office look for "
        "that column by its very name.",
    ),
    Constraint(
        sentence="Exported text files separate their fields with the character `${export_delimiter}`.",
        story="The two partner schools open decks in spreadsheets of different makers and languages that quarrel about "
        "commas, and every school gets the same file.",
    ),
    Constraint(
        sentence="Every card of a generator carries the tag `${draft_tag}` and is not shown until a person has approved it.",
        story="The parents were told, after a long discussion, that whatever a machine writes is suspect until somebody has "
        "read it.",
    ),
)

REMARKS = (
    (
        "An earlier draft of this page spoke of profiles. They were dropped before anybody had built them; where the word still "
        "turns up in mails, a learner's file is meant."
    ),
    "The examples were made by hand and checked by two people. If one of them looks odd, it was meant to.",
    "A colleague asked whether all this could be left to a spreadsheet. It could, until the second learner came.",
    "Screens of the pilot schools are small. Nothing here depends on it, but long lines wrap in ugly places.",
    "The page was printed for a meeting in autumn; copies with a coffee stain are not more recent than this one.",
    (
        "Performance was measured once with ten thousand cards, on a laptop of the office, and found to be of no concern. Nobody "
        "should make the code harder to read for the sake of speed without measuring it again."
    ),
    "Some of the words have other meanings in other programs. Inside this project they mean what the overview says.",
    "Translations are planned. They will concern texts only, never names of files, tables or columns.",
    (
        "There is a list of wishes that this page does not take up: pictures, sound, a contest between classes, and a raven that "
        "praises the learner. It is kept by the team and grows."
    ),
    "Questions about this page go to whoever has signed the last hand-over. In the pilot they were answered within a day.",
    "A test with readers showed that nobody reads the last paragraph of a page. This is such a paragraph.",
)


def render_prompt(values: Mapping[str, str], task_seed: int) -> str:
    """The prompt under a seed: dry constraints in a list, the others behind their stories, both in a drawn order."""
    rng = make_rng("flashcards", task_seed, "order")
    return orders.render_prompt(load_template("prompt.md"), CONSTRAINTS, rng, values, story_share=STORY_SHARE)


def render_workspace_file(fill_template: Callable[[str], str], path: str, task_seed: int) -> str:
    """A file of the workspace; a page of docs/ may end with remarks that matter to nobody."""
    text = fill_template(f"workspace/{path}")
    if not path.startswith("docs/"):
        return text
    rng = make_rng("flashcards", task_seed, path)
    remarks = rng.sample(REMARKS, rng.randint(0, MAX_REMARKS))
    return text + "".join(f"\n{remark}\n" for remark in remarks)
