"""The Agent Trajectory Interchange Format: `steps` of a system, a user and an agent, with calls, observations and metrics.

Pitfalls: an observation may lack the id of its call (Terminus) and is then given to the calls in order; `prompt_tokens` include
what was read from a cache; a summarisation is handed off to sibling files, which are not read; steps copied from an earlier
file (`is_copied_context`) were not called here.
"""

from harness.messages import Part, Reasoning, ToolCall
from harness.replay.blocks import build_usage, encode_arguments, flatten_text, read_parts
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import Recording
from harness.tokens import Usage

NAME = "atif"


def can_read(document: Document) -> bool:
    """Whether it is an object of steps with this format's version."""
    return is_object_with(document.single_value, "schema_version", "steps") and str(
        document.single_value["schema_version"]
    ).startswith("ATIF")


def read(document: Document) -> tuple[Recording, ...]:
    """The one trajectory of a file."""
    whole = Fields(document.single_value, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.read_text("session_id"))
    model = whole.read_object("agent").read_text("model_name")
    for step in whole.read_objects("steps"):
        match step.read_text("source"):
            case "agent":
                _read_agent_step(step, draft, model)
            case "system" | "user" as source:
                role = "system" if source == "system" and not draft.turns else "user"
                draft.add_message(role, read_parts(step, draft, "message"), step.place)  # type: ignore[arg-type]
                _read_observation(step, [], draft)
            case source:
                raise step.build_error("source", "system, user or agent", source)
    draft.cost_usd = whole.read_object("final_metrics").read_amount("total_cost_usd")
    if whole.has("continued_trajectory_ref"):
        draft.warn("continued_trajectory_ref", "the session goes on in another file, which was not read")
    return (draft.finish(),)


def _read_agent_step(step: Fields, draft: Draft, model: str) -> None:
    calls = [
        ToolCall(
            call_id=call.read_text("tool_call_id"),
            name=call.read_text("function_name"),
            arguments_json=encode_arguments(call.values.get("arguments")),
        )
        for call in step.read_objects("tool_calls")
    ]
    thought = step.read_text("reasoning_content")
    parts: list[Part] = [Reasoning(text=thought)] if thought else []
    turn = draft.add_answer(
        [*parts, *read_parts(step, draft, "message"), *calls], step.place, example=step.read_flag("is_copied_context")
    )
    metrics = step.read_object("metrics")
    usage = None if step.read_flag("is_copied_context") else _read_usage(metrics)
    draft.annotate_answer(
        turn, step.read_text("model_name") or model, usage, None if usage is None else metrics.read_amount("cost_usd")
    )
    _read_observation(step, calls, draft)


def _read_usage(metrics: Fields) -> Usage:
    read = metrics.read_count("cached_tokens")
    return build_usage(metrics.read_count("prompt_tokens") - read, metrics.read_count("completion_tokens"), read=read)


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
            draft.count_dropped("session of a sub-agent or summariser in a file of its own")
