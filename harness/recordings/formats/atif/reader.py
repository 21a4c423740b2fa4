"""Importer of sessions in the Agent Trajectory Interchange Format, a list of `steps` with calls, observations and metrics.

Properties of the format:

- Observations without the id of a call (as written by Terminus) are assigned to the calls in order.
- `prompt_tokens` include tokens read from a cache.
- Sessions of summarizers are in other files, which are not read.
- Steps copied from an earlier file (`is_copied_context`) are not counted as model calls of the session.
"""

from collections.abc import Iterator

from harness.conversation.messages import ToolCall
from harness.recordings.blocks import flatten_text, make_call, make_reasoning_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft


def can_read(document: Document) -> bool:
    """Return whether a parsed file is in the Agent Trajectory Interchange Format, with steps and schema version."""
    whole = document.single_value
    return is_object_with(whole, "schema_version", "steps") and str(whole["schema_version"]).startswith("ATIF")


def read(document: Document) -> Iterator[Draft]:
    """Yield the session of a file in the Agent Trajectory Interchange Format as an unfinished recording."""
    whole = document.read_root()
    draft = Draft(session_id=whole.read_text("session_id"))
    model = whole.read_object("agent").read_text("model_name")
    for step in whole.read_objects("steps"):
        draft.now_ms = step.read_time_ms("timestamp")
        match step.read_text("source"):
            case "agent":
                _read_agent_step(step, draft, model)
            case "system" | "user" as role:
                draft.add_message(role, read_parts(step, draft, "message"), step.place)
                _read_observation(step, [], draft)
            case source:
                draft.count_dropped(f"step of source {source!r}, whose text is not read")
    draft.cost_usd = whole.read_object("final_metrics").read_amount("total_cost_usd")
    if whole.has("continued_trajectory_ref"):
        draft.warn("continued_trajectory_ref", "the session continues in another file, which was not read")
    yield draft


def _read_agent_step(step: Fields, draft: Draft, model: str) -> None:
    calls = [
        make_call(call.read_text("tool_call_id"), call.read_text("function_name"), call.values.get("arguments"))
        for call in step.read_objects("tool_calls")
    ]
    metrics, is_copied = step.read_object("metrics"), step.read_flag("is_copied_context")
    usage = read_usage(metrics, "prompt_tokens", "completion_tokens", "cached_tokens", with_read=True)
    draft.add_answer(
        [*make_reasoning_parts(step.read_text("reasoning_content")), *read_parts(step, draft, "message"), *calls],
        step.place,
        example=is_copied,
        model=step.read_text("model_name") or model,
        usage=None if is_copied else usage,
        cost_usd=None if is_copied else metrics.read_amount("cost_usd"),
    )
    _read_observation(step, calls, draft)


def _read_observation(step: Fields, calls: list[ToolCall], draft: Draft) -> None:
    results = list(step.read_object("observation").read_objects("results"))
    named = {result.read_text("source_call_id") for result in results}
    free = [call.call_id for call in calls if call.call_id not in named]
    for result in results:
        call_id = result.read_text("source_call_id") or (free.pop(0) if free else "")
        if call_id:
            draft.add_result(call_id, flatten_text(result, "content", draft), result.place)
        else:
            draft.add_message("user", read_parts(result, draft), result.place)
        if result.has("subagent_trajectory_ref"):
            draft.count_dropped("session of a sub-agent or summarizer in another file")
