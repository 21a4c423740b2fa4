"""The summarizer `scripted/survival:NAME` loses facts as often as its table of published figures says."""

from dataclasses import replace
from math import log, sqrt
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.openhands import EventList
from harness.compaction.summary_formats import Brief, Notes, Sections, SixSections
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.plan import SummaryFormat, SummaryRequest
from harness.errors import UnknownName, UsageError
from harness.models.factory import build_summarize, open_model, open_summarizer
from harness.models.scripted.summarizers import build_oracle_summarize, render_prompt
from harness.models.scripted.summary_prompts import KEPT_HEADING, split_material
from harness.models.scripted.survival import (
    SHAPES,
    Shape,
    build_survival_summarize,
    classify_shape,
    compute_loss,
)
from harness.models.survival_table import (
    SurvivalChoice,
    SurvivalProfile,
    describe_survival,
    load_survival_table,
    parse_survival_name,
)
from harness.task import Evidence, Fact, Script, Step
from harness.tasks import SUITE, make_task

TABLE = load_survival_table()
NAMES = sorted(TABLE.profiles)
EXAMPLES: dict[Shape, str] = {
    "path": "src/part_{}.py",
    "command": "git show {}",
    "number": "{}",
    "identifier": "word_{}",
    "sentence": "come back {}",
}
COUNT = 20
FACTS = tuple(
    Fact(name=f"{shape}_{number}", kind="value", said_in="prompt", patterns=(rf"{shape} {number} is `([^`\n]+)`",), prior="?")
    for shape in SHAPES
    for number in range(COUNT)
)
STATEMENTS = {
    f"{shape}_{number}": f"The {shape} {number} is `{EXAMPLES[shape].format(1000 + number)}`."
    for shape in SHAPES
    for number in range(COUNT)
}
SCRIPT = Script(
    steps=tuple(
        Step(name=f"s{number}", text="", calls=(), done=Evidence(summary_pattern=rf"part {number} is done", required_text="done"))
        for number in range(COUNT)
    ),
    final_text="",
)
REPORTS = [f"The part {number} is done" for number in range(COUNT)]


def build_prompt(
    former: str = "", messages: tuple[str, ...] = (), task: str = "", summary_format: SummaryFormat | None = None
) -> str:
    request = SummaryRequest(
        to_summarize=tuple(map(user, messages)), previous_summary=former, task=task, round=2 if former else 1
    )
    return render_prompt((summary_format or SixSections()).build_prompt(request))


def list_kept(summary: str) -> set[str]:
    return {name for name, statement in STATEMENTS.items() if statement in summary}


def summarize(choice: SurvivalChoice, prompt: str, seed: int) -> str:
    return build_survival_summarize(FACTS, SCRIPT, choice.build_rates(), seed)(prompt, 800)


ALL = "\n".join([*STATEMENTS.values(), *REPORTS])
FIRST, AGAIN = build_prompt(messages=(ALL,)), build_prompt(former=ALL)


@pytest.mark.parametrize("name", NAMES)
def test_each_published_figure_has_a_source_a_date_and_an_evidence_mark(name: str) -> None:
    profile = TABLE.profiles[name]
    assert profile.rows
    assert {row.kind for row in profile.rows} == set(profile.shapes)
    assert {shape for shapes in profile.shapes.values() for shape in shapes} <= set(SHAPES)
    assert profile.progress in {"", *profile.shapes}
    for row in profile.rows:
        assert 0 <= row.alive <= 1
        assert row.n > 0
        assert row.source.startswith("https://")
        assert len(row.date) == len("2026-01-01")
        assert row.evidence in {"measured by us", "read in the source", "second-hand"}


def test_the_spread_follows_from_the_published_range_of_repetitions() -> None:
    low, high = (log(share / (1 - share)) for share in (TABLE.spread["lowest_recall"], TABLE.spread["highest_recall"]))
    mean_range_of_six_normal_draws = 2.534
    assert TABLE.spread["replicates"] == 6
    assert TABLE.spread["value"] == pytest.approx((high - low) / mean_range_of_six_normal_draws, abs=0.05)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prompt", [FIRST, AGAIN], ids=["first", "again"])
@pytest.mark.parametrize("spread", [0.0, 1.2])
def test_facts_survive_as_often_as_the_table_says(name: str, prompt: str, spread: float) -> None:
    profile, draws = TABLE.profiles[name], 100 if spread else 30
    kept = [list_kept(summarize(SurvivalChoice(profile, spread), prompt, seed)) for seed in range(draws)]
    for shape in SHAPES:
        shares = [sum(key.startswith(f"{shape}_") for key in names) / COUNT for names in kept]
        kind = profile.find_kind(shape)
        hazard = profile.compute_hazards(kind)[prompt == AGAIN]
        error = sqrt(hazard * (1 - hazard) / COUNT / draws) if not spread else sqrt(variance(shares) / draws)
        assert kind is not None or set(shares) == {1.0}, "facts of forms that no source counts are always kept"
        assert abs(fmean(shares) - (1 - hazard)) <= 3.5 * error + 1e-12


def test_constraints_survive_five_rounds_as_often_as_published() -> None:
    choice = SurvivalChoice(TABLE.profiles["constraints-rounds"], 0.0)
    alive = []
    for seed in range(20):
        former = ""
        for round_number in range(1, 6):
            prompt = build_prompt(former=former, messages=() if former else (ALL,), task=ALL)
            former = summarize(choice, prompt, seed)
            alive.append((round_number, len(list_kept(former)) / len(FACTS)))
    rows = {row.round: row.alive for row in choice.profile.rows}
    for round_number, published in rows.items():
        shares = [share for number, share in alive if number == round_number]
        assert abs(fmean(shares) - published) < 3.5 * sqrt(published * (1 - published) / len(FACTS) / len(shares))


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_finished_steps_have_a_rate_of_their_own(name: str) -> None:
    profile = TABLE.profiles[name]
    hazard = profile.compute_hazards(profile.progress).first
    summaries = [summarize(SurvivalChoice(profile, 0.0), FIRST, seed).splitlines() for seed in range(30)]
    share = fmean(line in lines for lines in summaries for line in REPORTS)
    assert abs(share - (1 - hazard)) <= 3.5 * sqrt(hazard * (1 - hazard) / 30 / COUNT)


HAZARDS = st.floats(0, 1)
SPREADS = st.floats(0, 4)


def make_choice(hazard: float, spread: float) -> SurvivalChoice:
    row = replace(TABLE.profiles["optimistic"].rows[0], kind="fact", alive=1 - hazard)
    shapes: dict[str, tuple[Shape, ...]] = {"fact": SHAPES}
    return SurvivalChoice(SurvivalProfile(name="own", about="", rows=(row,), shapes=shapes, progress="fact"), spread)


@given(hazard=HAZARDS, other=HAZARDS, spread=SPREADS, seed=st.integers(0, 99))
def test_a_higher_hazard_loses_what_a_lower_one_loses_and_more(hazard: float, other: float, spread: float, seed: int) -> None:
    low, high = (set(summarize(make_choice(share, spread), FIRST, seed).splitlines()) for share in sorted((hazard, other)))
    assert high - {KEPT_HEADING} <= low


@given(hazard=HAZARDS, spread=SPREADS, draw=st.floats(-3, 3), other=st.floats(-3, 3))
def test_a_worse_draw_of_the_compaction_loses_no_less(hazard: float, spread: float, draw: float, other: float) -> None:
    low, high = sorted((draw, other))
    assert 0 <= compute_loss(hazard, spread, low) <= compute_loss(hazard, spread, high) <= 1


@given(seed=st.integers(0, 999), name=st.sampled_from(NAMES))
def test_a_summary_follows_from_the_prompt_and_the_seed_alone(seed: int, name: str) -> None:
    choice = SurvivalChoice(TABLE.profiles[name], 1.2)
    summary = summarize(choice, FIRST, seed)
    summarize(choice, AGAIN, seed + 1)
    assert summarize(choice, FIRST, seed) == summary


def test_another_seed_or_another_prompt_draws_other_losses() -> None:
    choice = SurvivalChoice(TABLE.profiles["constraints-rounds"], 1.2)
    prompts = [build_prompt(messages=(ALL, f"Message {number}")) for number in range(20)]
    assert len({frozenset(list_kept(summarize(choice, FIRST, seed))) for seed in range(20)}) == 20
    assert len({frozenset(list_kept(summarize(choice, prompt, 0))) for prompt in prompts}) == 20


@pytest.mark.slow
def test_losses_of_one_compaction_are_correlated_the_more_the_larger_the_spread() -> None:
    def measure_variance(spread: float) -> float:
        choice = make_choice(0.5, spread)
        return variance([len(list_kept(summarize(choice, FIRST, seed))) / len(FACTS) for seed in range(80)])

    variances = [measure_variance(spread) for spread in (0.0, 0.6, 1.2, 2.4)]
    assert variances == sorted(variances)
    independent = 0.25 / len(FACTS)
    assert 0.6 * independent < variances[0] < 1.5 * independent
    assert variances[2] > 20 * independent


def test_a_lost_fact_stays_lost_until_a_message_states_it_again() -> None:
    name, statement = next(iter(STATEMENTS.items()))
    choice = make_choice(0.0, 0.0)
    others = "\n".join(other for other in STATEMENTS.values() if other != statement)
    assert list_kept(summarize(choice, build_prompt(former=others, task=ALL), 0)) == STATEMENTS.keys() - {name}
    said_again = build_prompt(former=others, task=ALL, messages=(statement,))
    assert list_kept(summarize(choice, said_again, 0)) == set(STATEMENTS)


def test_a_revised_value_counts_as_said_for_the_first_time() -> None:
    profile = replace(make_choice(1.0, 0.0).profile, progress="")
    rows = tuple(replace(profile.rows[0], round=number, alive=0.5) for number in (1, 2))
    kept_again = replace(profile, rows=rows)
    assert kept_again.compute_hazards("fact") == (0.5, 0.0)
    former = STATEMENTS["number_1"]
    revised = former.replace("1001", "9999")
    again = [summarize(SurvivalChoice(kept_again, 0.0), build_prompt(former=former), seed) for seed in range(40)]
    first = [
        summarize(SurvivalChoice(kept_again, 0.0), build_prompt(former=former, messages=(revised,)), seed) for seed in range(40)
    ]
    assert all(former in text for text in again)
    assert 8 < sum(revised in text for text in first) < 32
    assert all((former in text) == (revised in text) for text in first), "a fact is kept with all its values or not at all"


def test_a_line_with_kept_and_lost_facts_keeps_the_statements_of_the_kept_ones() -> None:
    names = ["number_1", "path_2", "sentence_3"]
    line = " And then: ".join(STATEMENTS[name] for name in names)
    seen = set()
    for seed in range(60):
        summary = summarize(make_choice(0.5, 0.0), build_prompt(messages=(line,)), seed)
        kept = {name for name in names if STATEMENTS[name][4:-1] in summary}
        seen.add(frozenset(kept))
        assert (line in summary) == (len(kept) == len(names))
        assert bool(summary) == bool(kept)
    assert len(seen) == 8


STEP: tuple[Message, ...] = (
    assistant("I go on.", ToolCall(call_id="c1", name="read_file", arguments_json='{"path": "a.md"}')),
    tool(ToolResult(call_id="c1", name="read_file", output="Some words.")),
)
FORMATS: tuple[SummaryFormat, ...] = (
    SixSections(),
    Sections(titles=("Goal",), opening="Summary"),
    Sections(titles=("Goal",), opening="Summary", with_task=True),
    Brief(instruction="Create a summary."),
    Brief(instruction="Create a summary.", layout="system"),
    Brief(instruction="Create a summary.", layout="session"),
    Notes(instruction="Write notes.", heading="Notes:"),
    EventList(titles=("STATE",), characters=None),
)


@pytest.mark.parametrize("summary_format", FORMATS, ids=repr)
def test_the_former_summary_is_recognized_in_the_prompts_of_all_formats(summary_format: SummaryFormat) -> None:
    former = f"{KEPT_HEADING}\n{STATEMENTS['number_1']}"
    newer = STATEMENTS["path_1"]
    request = SummaryRequest(to_summarize=(*STEP, user(newer)), previous_summary=former, task=STATEMENTS["path_2"], round=2)
    material = split_material(render_prompt(summary_format.build_prompt(request)))
    assert STATEMENTS["number_1"] in material.former
    assert any(newer in line for line in material.new)
    assert not any(newer in line for line in material.former)
    assert not any(STATEMENTS["path_2"] in line for line in [*material.former, *material.new])


@pytest.mark.parametrize("summary_format", FORMATS, ids=repr)
def test_a_summary_among_the_messages_is_recognized_by_its_first_line(summary_format: SummaryFormat) -> None:
    former = f"Summary of what was before\n{KEPT_HEADING}\n{STATEMENTS['number_1']}"
    messages: tuple[Message, ...] = (user(former), *STEP, user(STATEMENTS["path_1"]))
    material = split_material(
        render_prompt(summary_format.build_prompt(SummaryRequest(to_summarize=messages, previous_summary="", task="", round=2)))
    )
    assert STATEMENTS["number_1"] in material.former
    assert any(STATEMENTS["path_1"] in line for line in material.new)


def test_headings_inside_the_messages_do_not_hide_what_stands_above_them() -> None:
    prompt = render_prompt((assistant("I read it."), user(f"{STATEMENTS['path_1']}\nUSAGE NOTES:\n{STATEMENTS['path_2']}")))
    assert {STATEMENTS["path_1"], STATEMENTS["path_2"]} <= set(split_material(prompt).new)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        *(("src/a/b.ts", "path"), ("./run", "path"), ("ledger-0006.txt", "path"), ("docs/", "path")),
        *(("pytest -q tests", "command"), ("./left.sh all", "command"), ("git log", "command")),
        *(
            ("4711", "number"),
            ("2.41", "number"),
            ("04:45", "number"),
            ("35 ms", "number"),
            ("12%", "number"),
            ("2024-03-07", "number"),
        ),
        *(("half_even", "identifier"), ("ED-2519", "identifier"), ("EUPL-1.2", "identifier"), ("^", "identifier")),
        *(("What the ledger lost", "sentence"), ("Stand easy", "sentence")),
    ],
)
def test_values_are_classified_by_their_form(value: str, shape: Shape) -> None:
    assert classify_shape(value) == shape


@pytest.mark.parametrize("task_name", sorted(SUITE))
def test_the_optimistic_profile_keeps_what_perfect_summaries_keep(task_name: str) -> None:
    task = make_task(task_name, 1)
    texts = tuple(text for _, text in task.workspace)[:40]
    prompt = render_prompt(
        SixSections().build_prompt(
            SummaryRequest(to_summarize=tuple(map(user, (task.prompt, *texts))), previous_summary="", task="", round=1)
        )
    )
    perfect = build_oracle_summarize(task.facts, task.script)(prompt, 800).splitlines()
    survived = build_summarize("scripted/survival:optimistic", task, 0)(prompt, 800).splitlines()
    assert survived == ([KEPT_HEADING, *perfect] if perfect else [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scripted/survival", "scripted/survival:constraints-rounds"),
        ("scripted/survival:", "scripted/survival:all-strings"),
        ("scripted/survival:constraint-rounds", "scripted/survival:constraints-rounds"),
        ("scripted/survival:optimistically", "scripted/survival:optimistic"),
    ],
)
def test_an_unknown_profile_is_refused_with_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        build_summarize(name, make_task("flashcards", 1), 0)


@pytest.mark.parametrize("spread", ["-1", "-0.5", "x", "", "nan", "inf", "1e2", "1."])
def test_a_spread_that_is_no_number_of_at_least_0_is_refused(spread: str) -> None:
    with pytest.raises(UsageError, match=r"at least 0, e\.g\. 'scripted/survival:optimistic-1\.2' \(got"):
        build_summarize(f"scripted/survival:optimistic-{spread}", make_task("flashcards", 1), 0)


def test_a_name_without_a_spread_has_the_published_one() -> None:
    assert parse_survival_name("scripted/survival:constraints-rounds").spread == TABLE.spread["value"]
    assert parse_survival_name("scripted/survival:constraints-rounds-0").spread == 0
    assert parse_survival_name("scripted/survival:all-strings-2.5").spread == 2.5


def test_a_survival_summarizer_needs_a_task_and_cannot_be_the_agent() -> None:
    name = "scripted/survival:optimistic"
    task = make_task("flashcards", 1)
    with pytest.raises(UsageError, match="no task was given"):
        build_summarize(name, None, 0)
    with pytest.raises(UsageError, match="cannot be the agent"):
        open_model(name, task=task, seed=0, window_tokens=None)
    agent = open_model("scripted", task=task, seed=0, window_tokens=None)
    assert open_summarizer(name, agent=agent, task=task, seed=0, window_tokens=None).name == name


def test_the_printed_table_shows_each_figure_with_its_source() -> None:
    text = "\n".join(describe_survival())
    for profile in TABLE.profiles.values():
        assert f"scripted/survival:{profile.name}" in text
        for row in profile.rows:
            assert row.source in text
            assert f"{row.kind}, " in text
            assert f"{100 * row.alive:g} % alive (n = {row.n:,}" in text
    assert "value is an identifier   not modelled: always kept" in text
    assert str(TABLE.spread["source"]) in text
