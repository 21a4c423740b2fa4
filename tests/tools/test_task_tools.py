"""The tools that only some tasks need: `view_image` and `skill`."""

import json

import pytest

from harness.conversation.messages import ToolCall
from harness.testing.fakes import MemorySandbox
from harness.tools.task_tools import ViewImage, list_task_tool_specs, make_task_tools

SVG = '<svg width="1500" height="1"><text x="0" y="1" font-size="1">Bay 7</text></svg>'


def open_sandbox() -> MemorySandbox:
    sandbox = MemorySandbox()
    sandbox.start()
    sandbox.write("photos/a.svg", SVG.encode())
    sandbox.write("photos/b.svg", b"a photo")
    sandbox.write("skills/papers/SKILL.md", b"Every paper has a seal.\n")
    return sandbox


def call(tool: str, **arguments: str) -> ToolCall:
    return ToolCall(call_id=f"of-{tool}", name=tool, arguments_json=json.dumps(arguments))


def test_an_image_comes_once_beside_a_result_that_does_not_say_what_it_shows():
    [tool] = make_task_tools(("view_image",), open_sandbox())
    assert isinstance(tool, ViewImage)
    result = tool.run(call("view_image", path="photos/a.svg"))
    assert (result.output, result.status) == ("photos/a.svg, 1500 x 1 pixels", "completed")
    [image] = tool.collect_images(result.call_id)
    assert (image.text, image.tokens, image.drawing) == ("(image photos/a.svg shows:\nBay 7)", 2, SVG)
    assert tool.collect_images(result.call_id) == ()


@pytest.mark.parametrize(
    ("path", "problem"), [("photos/b.svg", "photos/b.svg cannot be shown: no SVG"), ("photos/c.svg", "photos/c.svg")]
)
def test_a_file_that_is_no_image_is_an_error_without_an_image(path: str, problem: str):
    [tool] = make_task_tools(("view_image",), open_sandbox())
    assert isinstance(tool, ViewImage)
    result = tool.run(call("view_image", path=path))
    assert result.status == "error"
    assert problem in result.output
    assert tool.collect_images(result.call_id) == ()


def test_a_skill_is_loaded_by_its_name_and_no_other_file_is():
    [tool] = make_task_tools(("skill", "explore"), open_sandbox())
    assert tool.run(call("skill", name="papers")).output == "Every paper has a seal.\n"
    for name in ("../photos", "papers/..", "unknown"):
        assert tool.run(call("skill", name=name)).status == "error"


def test_the_descriptions_are_those_of_the_tools():
    names = ("view_image", "skill")
    assert list_task_tool_specs(names) == tuple(tool.spec for tool in make_task_tools(names, open_sandbox()))
    assert list_task_tool_specs(()) == ()
