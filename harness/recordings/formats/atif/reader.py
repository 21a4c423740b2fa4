"""Importer of sessions in the Agent Trajectory Interchange Format, a list of `steps` with calls, observations and metrics.

Properties of the format:

- Observations without the id of a call (as written by Terminus) are assigned to the calls in order.
- `prompt_tokens` include tokens read from a cache, and tokens written to one (`extra.cache_creation_input_tokens`).
- A step of the system with `context_management` and the boundary `replace` is a compaction: its observation stands for all steps
  before it.
- Sessions of sub-agents are embedded (`subagent_trajectories`), or in other files, which are not read.
- Steps copied from an earlier file (`is_copied_context`) are not counted as model calls of the session.

Source: the package `harbor` 0.26.0 (`harbor/models/trajectories`, `harbor/agents/terminus_2/terminus_2.py`).
"""

from collections.abc import Iterator

from harness.conversation.messages import ToolCall
from harness.recordings.blocks import build_usage, flatten_text, make_call, make_reasoning_parts, read_parts
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction, SubAgentLink

KNOWN_VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
"""Versions of the format that this importer knows; files of others are read with a note."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is in the Agent Trajectory Interchange Format, with steps and schema version."""
    whole = document.single_value
    return is_object_with(whole, "schema_version", "steps") and str(whole["schema_version"]).startswith("ATIF")


def read(document: Document) -> Iterator[Draft]:
    """Yield the session of a file as an unfinished recording, and then the embedded sessions of its sub-agents."""
    whole = document.read_root()
    draft = Draft(session_id=whole.read_text("session_id"))
    if (version := whole.read_text("schema_version")) not in KNOWN_VERSIONS:
        draft.warn("schema_version", f"version {version[:40]} is not known; it was read as {KNOWN_VERSIONS[-1]}")
    children = _read_trajectory(whole, draft)
    yield draft
    yield from children


def _read_trajectory(whole: Fields, draft: Draft) -> list[Draft]:
    """Read the steps of a trajectory and return the drafts of its sub-agents and of theirs."""
    model = whole.read_object("agent").read_text("model_name")
    call_of_child: dict[str, str] = {}
    for step in whole.read_objects("steps"):
        draft.now_ms = step.read_time_ms("timestamp")
        match step.read_text("source"):
            case "agent":
                calls = _read_agent_step(step, draft, model)
                _read_observation(step, calls, draft, call_of_child)
            case "system" if step.read_object("extra").has("context_management"):
                _read_boundary(step, draft)
            case "system" | "user" as role:
                draft.add_message(role, read_parts(step, draft, "message"), step.place)
                _read_observation(step, [], draft, call_of_child)
            case source:
                draft.count_dropped(f"step of source {source!r}, whose text is not read")
    draft.cost_usd = whole.read_object("final_metrics").read_amount("total_cost_usd")
    if whole.has("continued_trajectory_ref"):
        draft.warn("continued_trajectory_ref", "the session continues in another file, which was not read")
    drafts: list[Draft] = []
    for trajectory in whole.read_objects("subagent_trajectories"):
        name = trajectory.read_text("trajectory_id")
        child = Draft(session_id=f"{draft.session_id}.{name}", parent_id=draft.session_id)
        draft.sub_agents.append(SubAgentLink(session_id=child.session_id, call_id=call_of_child.get(name, "")))
        drafts += [child, *_read_trajectory(trajectory, child)]
    for name in call_of_child.keys() - {child.session_id.removeprefix(f"{draft.session_id}.") for child in drafts}:
        draft.count_dropped("session of a sub-agent or summarizer in another file" if name else "reference to no session")
    return drafts


def _read_agent_step(step: Fields, draft: Draft, model: str) -> list[ToolCall]:
    calls = [
        make_call(call.read_text("tool_call_id"), call.read_text("function_name"), call.values.get("arguments"))
        for call in step.read_objects("tool_calls")
    ]
    metrics, is_copied = step.read_object("metrics"), step.read_flag("is_copied_context")
    prompt, read = metrics.read_count("prompt_tokens"), metrics.read_count("cached_tokens")
    extra = metrics.read_object("extra")
    written, reasoning = extra.read_count("cache_creation_input_tokens"), extra.read_count("reasoning_tokens")
    usage = build_usage(prompt - read - written, metrics.read_count("completion_tokens"), read, written, reasoning)
    if step.read_optional_count("llm_call_count") not in {None, 1}:
        draft.count_dropped("step of no model call or several, read as one")
    draft.add_answer(
        [*make_reasoning_parts(step.read_text("reasoning_content")), *read_parts(step, draft, "message"), *calls],
        step.place,
        example=is_copied,
        model=step.read_text("model_name") or model,
        usage=None if is_copied else usage,
        cost_usd=None if is_copied else metrics.read_amount("cost_usd"),
    )
    return calls


def _read_boundary(step: Fields, draft: Draft) -> None:
    """Read a step that changed the context."""
    about = step.read_object("extra").read_object("context_management")
    texts = [flatten_text(result, "content", draft) for result in step.read_object("observation").read_objects("results")]
    if about.read_text("boundary") != "replace":
        draft.count_dropped(f"change of the context of type {about.read_text('type')!r}, whose boundary is not known")
        return
    event = NativeCompaction(
        trigger="unknown",
        tokens_before=about.read_optional_count("tokens_before"),
        tokens_after=about.read_optional_count("tokens_after"),
        summary="\n".join(filter(None, texts)),
    )
    draft.add_compaction(event)


def _read_observation(step: Fields, calls: list[ToolCall], draft: Draft, call_of_child: dict[str, str]) -> None:
    results = list(step.read_object("observation").read_objects("results"))
    named = {result.read_text("source_call_id") for result in results}
    free = [call.call_id for call in calls if call.call_id not in named]
    for result in results:
        call_id = result.read_text("source_call_id") or (free.pop(0) if free else "")
        for reference in result.read_objects("subagent_trajectory_ref"):
            name = reference.read_text("trajectory_id") or reference.read_text("trajectory_path")
            call_of_child[name or reference.read_text("session_id")] = call_id
        if call_id:
            status = result.read_object("extra").read_text("status")
            draft.add_result(call_id, flatten_text(result, "content", draft), result.place, status=status)
        else:
            draft.add_message("user", read_parts(result, draft), result.place)
