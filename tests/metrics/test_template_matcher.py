"""Tests of reading the values of facts back from calls that were written from templates."""

import json
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import ToolCall
from harness.metrics.template_matcher import TemplateMatcher
from harness.task import CallTemplate, Evidence, Repair, Script, Step
from harness.tasks import SUITE, make_task


def template(tool, **arguments):
    return CallTemplate(tool=tool, arguments=tuple(arguments.items()))


def script(*calls, repairs=()):
    return Script(steps=(Step(name="s", text="", calls=calls, done=Evidence(), repairs=repairs),), final_text="")


def call(tool, **arguments):
    return ToolCall(call_id="c", name=tool, arguments_json=json.dumps(arguments))


def nothing(_):
    return ()


WRITE = template("write_file", path="conf.txt", content="port=${port}\nname: '${name}', again ${port}; $$5\n")


def test_values_are_read_in_their_places():
    text = "port=8081\nname: 'a b', again 8081; $5\n"
    assert TemplateMatcher(script(WRITE)).match_call(call("write_file", path="conf.txt", content=text), nothing) == {
        "port": "8081",
        "name": "a b",
    }


@pytest.mark.parametrize(
    "given_call",
    [
        call("write_file", path="conf.txt", content="port=1\nname: 'a', again 2; $5\n"),
        call("write_file", path="conf.txt", content="port=1\nname: 'a', again 1; $5\nmore"),
        call("write_file", path="other.txt", content="port=1\nname: 'a', again 1; $5\n"),
        call("write_file", path="conf.txt", content="port=1\n2\nname: 'a', again 1; $5\n"),
        call("read_file", path="conf.txt"),
        call("write_file", path="conf.txt", content=7),
        ToolCall(call_id="c", name="write_file", arguments_json="{broken"),
    ],
)
def test_a_call_that_no_template_fits_tells_nothing(given_call):
    assert TemplateMatcher(script(WRITE)).match_call(given_call, nothing) == {}


def test_known_values_decide_where_a_value_ends():
    uses = TemplateMatcher(script(template("execute_command", command="set ${ease}.${days}")))
    tool_call = call("execute_command", command="set 1.30.7")
    assert uses.match_call(tool_call, lambda fact: {"ease": ("1", "1.30"), "days": ()}[fact]) == {"ease": "1.30", "days": "7"}


def test_repairs_are_recognised_too():
    mend = Repair(error_pattern="x", text="", calls=(WRITE,), required_facts=("port",))
    text = "port=1\nname: 'a', again 1; $5\n"
    assert (
        TemplateMatcher(script(repairs=(mend,))).match_call(call("write_file", path="conf.txt", content=text), nothing)["port"]
        == "1"
    )


_VALUES = st.text("ab1.-<>$ '", min_size=1, max_size=6)


def test_a_value_on_which_two_templates_disagree_is_not_reported():
    draft = template("execute_command", command="mode wal in ${table}")
    final = template("execute_command", command="mode ${mode} in ${table}")
    uses = TemplateMatcher(script(draft, final))
    assert uses.match_call(call("execute_command", command="mode wal in cards"), nothing) == {"table": "cards"}
    assert uses.match_call(call("execute_command", command="mode delete in cards"), nothing) == {
        "mode": "delete",
        "table": "cards",
    }


@given(st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.sampled_from([" = ", "; ", "\n", "'"])), min_size=1), st.data())
def test_a_text_from_known_values_gives_them_back_or_fits_in_another_way(pieces, data):
    text = "begin " + "".join(f"${{{name}}}{fixed}" for name, fixed in pieces)
    values = {name: data.draw(_VALUES) for name, _ in pieces}
    text_with_values = Template(text).substitute(values)
    match = TemplateMatcher(script(template("execute_command", command=text))).match_call(
        call("execute_command", command=text_with_values), lambda name: (values[name],)
    )
    assert not match or Template(text).substitute(match) == text_with_values


@pytest.mark.parametrize("name", sorted(SUITE))
@pytest.mark.parametrize("seed", [0, 1])
def test_every_call_of_the_suite_is_recognised_with_its_values_and_never_with_others(name, seed):
    task = make_task(name, seed)
    uses, priors = TemplateMatcher(task.script), {fact.name: fact.prior for fact in task.facts}
    for values in (dict(task.values), priors):
        for step in task.script.steps:
            for one in (*step.calls, *(call for repair in step.repairs for call in repair.calls)):
                written = {key: Template(text).substitute(values) for key, text in one.arguments}
                wanted = {fact for _, text in one.arguments for fact in Template(text).get_identifiers()}
                match = uses.match_call(call(one.tool, **written), lambda fact: (task.values[fact], priors[fact]))
                assert match.items() <= {fact: values[fact] for fact in wanted}.items()
                assert values is priors or match.keys() == wanted
