"""moatless-tools' trajectories: a tree of nodes, of which the deepest path is the session.

Pitfalls: nodes are a flat list with `parent_id` or, earlier, nested in `children`; `completions.build_action` holds the exact
request and response, so results are read as the next request shows them; other completions of a node (`execute_action`) are
calls apart from the conversation, whose cost counts and whose text does not.
"""

from collections.abc import Iterator

from harness.messages import ToolCall, ToolResult
from harness.replay.blocks import anthropic_usage, content_parts, flat, openai_usage
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.recording import Recording

NAME = "moatless"


def recognises(document: Document) -> bool:
    """Whether it is an object with nodes that have ids, or with a root that has children."""
    whole = document.whole
    if not isinstance(whole, dict):
        return False
    nodes = whole.get("nodes")
    flat_tree = isinstance(nodes, list) and any(is_object_with(node, "node_id") for node in nodes)
    return flat_tree or is_object_with(whole.get("root"), "node_id", "children")


def read(document: Document) -> tuple[Recording, ...]:
    """The deepest path of the tree."""
    whole = Fields(document.whole, document.file, "")
    agent = whole.nested("agent")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    draft.session_id = whole.nested("metadata").text("instance_id")
    draft.say("system", texts(agent.text("system_prompt")), "agent.system_prompt")
    nodes = list(_nodes(whole))
    path = _deepest_path(nodes)
    if len(path) < len(nodes):
        draft.warn("nodes", f"{len(nodes) - len(path)} of {len(nodes)} nodes are not on the deepest path and were left out")
    shown = {call_id: text for node in path for call_id, text in _shown_results(node, draft)}
    for node in path:
        _tell(node, draft, shown, agent.nested("completion").text("model"))
    costs = [cost for node in nodes for cost in _costs(node)]
    draft.cost_usd = sum(costs) if costs else None
    return (draft.finish(),)


def _nodes(whole: Fields) -> Iterator[tuple[int, int | None, Fields]]:
    """Node id, id of the parent and the node itself."""
    if whole.has("nodes"):
        for node in whole.objects("nodes"):
            yield node.count("node_id"), node.maybe_count("parent_id"), node
        return
    level: list[tuple[int | None, Fields]] = [(None, whole.nested("root"))]
    while level:
        parent, node = level.pop(0)
        yield node.count("node_id"), parent, node
        level += [(node.count("node_id"), child) for child in node.objects("children")]


def _deepest_path(nodes: list[tuple[int, int | None, Fields]]) -> list[Fields]:
    """From the root to the deepest leaf, the latest of equals."""
    known = {node_id: (parent, node) for node_id, parent, node in nodes}
    depths: dict[int, int] = {}
    for node_id in known:
        trail: dict[int, None] = {}
        at: int | None = node_id
        while at is not None and at in known and at not in depths and at not in trail:
            trail[at] = None
            at = known[at][0]
        start = depths.get(at, 0) if at is not None else 0
        depths.update({found: start + height for height, found in enumerate(reversed(trail), start=1)})
    path: list[Fields] = []
    at = max(depths, key=lambda node_id: (depths[node_id], node_id), default=None)
    seen: set[int] = set()
    while at is not None and at in known and at not in seen:
        seen.add(at)
        path.append(known[at][1])
        at = known[at][0]
    return path[::-1]


def _shown_results(node: Fields, draft: Draft) -> Iterator[tuple[str, str]]:
    """Results as the request of a node shows them, by call id."""
    request = node.nested("completions").nested("build_action").values.get("input")
    if not isinstance(request, list):
        return
    for message in Fields({"input": request}, node.file, "", node.path).objects("input"):
        if isinstance(message.values.get("content"), list):
            for part in content_parts(message, draft):
                if isinstance(part, ToolResult):
                    yield part.call_id, part.output
        if message.text("role") == "tool":
            yield message.text("tool_call_id"), flat(message, "content", draft)


def _tell(node: Fields, draft: Draft, shown: dict[str, str], model: str) -> None:
    draft.say("user", texts(node.text("message") or node.text("user_message")), node.place)
    if not node.has("action") and not node.nested("completions").has("build_action"):
        return
    completion = node.nested("completions").nested("build_action")
    calls = _answer(node, completion, draft, model)
    observed = node.nested("observation") if node.has("observation") else node.nested("output")
    told = observed.text("message")
    for call in calls:
        if call.call_id in shown or told:
            draft.result(call.call_id, shown.get(call.call_id, told), node.place)
    if not calls:
        draft.say("user", texts(told), node.place)


def _answer(node: Fields, completion: Fields, draft: Draft, model: str) -> list[ToolCall]:
    response = completion.nested("response")
    parts = list(content_parts(response, draft))
    for choice in response.objects("choices"):
        message = choice.nested("message")
        parts += [*content_parts(message, draft), *map(_call, message.objects("tool_calls"))]
    if not parts and node.has("action"):
        action = {key: value for key, value in node.nested("action").values.items() if key != "action_args_class"}
        name = node.nested("action").text("action_args_class").rsplit(".", 1)[-1].removesuffix("Args") or "action"
        parts = [ToolCall(call_id=f"node-{node.count('node_id')}", name=name, arguments_json=compact_json(action))]
    turn = draft.answer(parts, node.place)
    usage = response.nested("usage")
    report = (
        anthropic_usage(usage)
        if usage.has("input_tokens")
        else openai_usage(usage if usage.values else completion.nested("usage"))
    )
    draft.wrote(turn, response.text("model") or completion.text("model") or model, report)
    return [part for part in parts if isinstance(part, ToolCall)]


def _call(call: Fields) -> ToolCall:
    function = call.nested("function")
    return ToolCall(call_id=call.text("id"), name=function.text("name"), arguments_json=function.text("arguments"))


def _costs(entry: tuple[int, int | None, Fields]) -> Iterator[float]:
    completions = entry[2].nested("completions")
    for name in completions.values:
        usage = completions.nested(name).nested("usage")
        cost = usage.amount("completion_cost")
        if cost is not None:
            yield cost
