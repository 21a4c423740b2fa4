"""Overlooked facts: more in longer prompts, most in the middle of a prompt, none for the attentive profile."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import DEPTH_CURVE, LENGTH_CURVE, PROFILES, compute_mean, interpolate, look_up_profile
from harness.protocols import Request
from harness.task import CallTemplate, Evidence, Fact, Script, Step

LENGTHS = st.integers(0, 400_000)
DEPTHS = st.floats(0, 1)
FULL = 128 * 1024
MIDDLE = max(DEPTH_CURVE, key=lambda point: point[1])[0]
READERS = [look_up_profile("typical"), look_up_profile("overlooks-0.3"), look_up_profile("overlooks-1")]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.overlook_probability))
@given(one=LENGTHS, other=LENGTHS, depth=DEPTHS)
def test_a_longer_prompt_never_makes_a_better_reader(reader, one, other, depth):
    shorter, longer = (reader.compute_overlook_probability(tokens, depth) for tokens in sorted((one, other)))
    assert 0 <= shorter <= longer <= reader.overlook_probability


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.overlook_probability))
@given(tokens=LENGTHS, one=DEPTHS, other=DEPTHS)
def test_the_middle_is_worst_and_the_chance_falls_to_both_ends(reader, tokens, one, other):
    assume((one <= MIDDLE) == (other <= MIDDLE))
    inner, outer = sorted((one, other), key=lambda depth: abs(depth - MIDDLE))
    at_inner, at_outer = (reader.compute_overlook_probability(tokens, depth) for depth in (inner, outer))
    assert at_outer <= at_inner <= reader.compute_overlook_probability(tokens, MIDDLE)


@given(tokens=LENGTHS, depth=DEPTHS)
def test_an_attentive_reader_overlooks_nothing_and_so_does_one_of_probability_zero(tokens, depth):
    assert PROFILES["attentive"].compute_overlook_probability(tokens, depth) == 0
    assert look_up_profile("overlooks-0") == PROFILES["attentive"]


@given(share=st.floats(0, 1), tokens=LENGTHS, depth=DEPTHS)
def test_the_parametric_reader_has_the_shape_of_the_typical_one(share, tokens, depth):
    reader, typical = replace(PROFILES["typical"], overlook_probability=share), PROFILES["typical"]
    scaled = typical.compute_overlook_probability(tokens, depth) / typical.overlook_probability * share
    assert reader.compute_overlook_probability(tokens, depth) == pytest.approx(scaled)
    assert reader.compute_overlook_probability(FULL, MIDDLE) == share


def test_the_typical_reader_loses_at_full_length_what_the_measured_model_lost():
    depths = [(number + 0.5) / 1000 for number in range(1000)]
    lost = [PROFILES["typical"].compute_overlook_probability(FULL, depth) for depth in depths]
    assert sum(lost) / len(lost) == pytest.approx(0.966 - 0.812, abs=1e-3)
    assert compute_mean(DEPTH_CURVE) == pytest.approx(sum(interpolate(DEPTH_CURVE, depth) for depth in depths) / 1000, abs=1e-3)
    assert (
        interpolate(LENGTH_CURVE, 0),
        interpolate(LENGTH_CURVE, 4096),
        interpolate(LENGTH_CURVE, FULL),
        interpolate(LENGTH_CURVE, 10 * FULL),
    ) == (0, 0, 1, 1)


PORT = Fact(name="port", kind="constraint", said_in="prompt", patterns=(r"port is (\d+)",), prior="8080")
LOOK = CallTemplate(tool="read_file", arguments=(("path", "db.md"),))
TABLE = Fact(name="table", kind="value", said_in="file", patterns=(r"table is (\w+)",), prior="cards", recover=LOOK)
INDEX = replace(TABLE, name="index", patterns=(r"index is (\w+)",), recover=replace(LOOK, arguments=(("path", "docs/i.md"),)))
INDEX = replace(INDEX, source="docs/i.md", prior="idx")
PADDING = "word " * 20_000


def steps(*needs: str) -> tuple[Step, ...]:
    """A script of forty steps that write the facts they need."""
    content = " ".join(f"{name}=${{{name}}}" for name in needs)
    return tuple(
        Step(
            name=f"write-{number}",
            text=f"Writing {number}.",
            calls=(CallTemplate(tool="write_file", arguments=(("path", f"{number}.py"), ("content", content))),),
            required_facts=needs,
            done=Evidence(receipts=(("write_file", rf"^{number}\.py$"),)),
        )
        for number in range(40)
    )


def reader(name: str, seed: int = 0) -> ScriptedModel:
    script = Script(steps=steps("port", "table", "index"), final_text="Done.")
    facts = (PORT, TABLE, INDEX)
    return ScriptedModel(
        name=name, facts=facts, script=script, profile=look_up_profile(name), seed=seed, window_tokens=1_000_000
    )  # fmt: skip


def call(number: int, name: str, path: str, output: str) -> tuple[Message, Message]:
    tool_call = ToolCall(call_id=f"c{number}", name=name, arguments_json=json.dumps({"path": path}))
    return assistant("", tool_call), tool(ToolResult(call_id=f"c{number}", name=name, output=output))


START: tuple[Message, ...] = (
    system("Be good."),
    user(PADDING),
    user("The port is 4711."),
    *call(1, "list_directory", "docs", "file  i.md  12"),
    *call(2, "read_file", "docs/i.md", "The index is decks_idx."),
    *call(3, "read_file", "db.md", "The table is decks."),
    *call(4, "write_file", "other.py", "wrote"),
    user(PADDING),
)
OUTPUTS = {"db.md": "The table is decks.", "docs/i.md": "The index is decks_idx.", "docs": "file  i.md  12"}


def session(model: ScriptedModel, most: int = 400) -> tuple[list[str], list[str]]:
    """Return what the steps write and the paths that are looked up, in a world that answers every call."""
    messages = START
    written: list[str] = []
    looked: list[str] = []
    for _ in range(most):
        answer = model.reply(Request(messages=messages)).message
        if not answer.calls:
            return written, looked
        for tool_call in answer.calls:
            path = json.loads(tool_call.arguments_json)["path"]
            (written if tool_call.name == "write_file" else looked).append(
                json.loads(tool_call.arguments_json).get("content", path)
            )
            output = "wrote" if tool_call.name == "write_file" else OUTPUTS[path]
            said_so = tool(ToolResult(call_id=tool_call.call_id, name=tool_call.name, output=output))
            messages = (*messages, answer, said_so)
    raise AssertionError("it looks facts up for ever")


def test_an_overlooked_fact_is_looked_up_again_where_it_can_be_and_guessed_where_it_cannot():
    written, looked = session(reader("overlooks-1"))
    assert (
        {"port=8080 table=decks index=decks_idx"}
        < set(written)
        <= {f"port={port} table=decks index=decks_idx" for port in ("8080", "4711")}
    ), "what was just looked up is used, also with another look-up behind it"
    assert len(written) == 40
    assert {"db.md", "docs/i.md"} == set(looked)
    assert 20 < len(looked) <= 80


@pytest.mark.slow
@given(seed=st.integers(0, 50))
def test_a_better_reader_guesses_less(seed):
    guesses = [session(reader(name, seed))[0].count("port=8080 table=decks index=decks_idx") for name in
               ("overlooks-0", "overlooks-0.2", "overlooks-0.6", "overlooks-1")]  # fmt: skip
    assert guesses == sorted(guesses)
    assert guesses[0] == 0


def test_two_seeds_overlook_different_facts_and_one_seed_the_same():
    sessions = [session(reader("overlooks-0.5", seed)) for seed in (1, 1, 2, 3)]
    assert sessions[0] == sessions[1]
    assert len({tuple(written) for written, _ in sessions}) == 3


def test_the_facts_overlooked_at_a_step_do_not_depend_on_earlier_conversations():
    """A model that answered another conversation before gives the answers of a new model."""
    used = reader("overlooks-0.5")
    session(used)
    assert session(used) == session(reader("overlooks-0.5"))
