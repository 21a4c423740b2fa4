"""The Agent Trajectory Interchange Format: `steps` of a system, a user and an agent, with calls, observations and metrics.

Pitfalls: an observation may lack the id of its call (Terminus) and is then given to the calls in order; `prompt_tokens` include
what was read from a cache; a summarisation is handed off to sibling files, which are not read; steps copied from an earlier
file (`is_copied_context`) were not called here.
"""

from harness.messages import Part, Reasoning, ToolCall
from harness.replay.blocks import arguments_text, content_parts, flat, used
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import Recording
from harness.tokens import Usage

NAME = "atif"


def recognises(document: Document) -> bool:
    """Whether it is an object of steps with this format's version."""
    return is_object_with(document.whole, "schema_version", "steps") and str(document.whole["schema_version"]).startswith("ATIF")


def read(document: Document) -> tuple[Recording, ...]:
    """The one trajectory of a file."""
    whole = Fields(document.whole, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.text("session_id"))
    model = whole.nested("agent").text("model_name")
    for step in whole.objects("steps"):
        match step.text("source"):
            case "agent":
                _agent(step, draft, model)
            case "system" | "user" as source:
                role = "system" if source == "system" and not draft.turns else "user"
                draft.say(role, content_parts(step, draft, "message"), step.place)  # type: ignore[arg-type]
                _observation(step, [], draft)
            case source:
                raise step.wrong("source", "system, user or agent", source)
    draft.cost_usd = whole.nested("final_metrics").amount("total_cost_usd")
    if whole.has("continued_trajectory_ref"):
        draft.warn("continued_trajectory_ref", "the session goes on in another file, which was not read")
    return (draft.finish(),)


def _agent(step: Fields, draft: Draft, model: str) -> None:
    calls = [
        ToolCall(
            call_id=call.text("tool_call_id"),
            name=call.text("function_name"),
            arguments_json=arguments_text(call.values.get("arguments")),
        )
        for call in step.objects("tool_calls")
    ]
    thought = step.text("reasoning_content")
    parts: list[Part] = [Reasoning(text=thought)] if thought else []
    turn = draft.answer(
        [*parts, *content_parts(step, draft, "message"), *calls], step.place, example=step.flag("is_copied_context")
    )
    metrics = step.nested("metrics")
    usage = None if step.flag("is_copied_context") else _usage(metrics)
    draft.wrote(turn, step.text("model_name") or model, usage, None if usage is None else metrics.amount("cost_usd"))
    _observation(step, calls, draft)


def _usage(metrics: Fields) -> Usage:
    read = metrics.count("cached_tokens")
    return used(metrics.count("prompt_tokens") - read, metrics.count("completion_tokens"), read=read)


def _observation(step: Fields, calls: list[ToolCall], draft: Draft) -> None:
    results = list(step.nested("observation").objects("results"))
    named = {result.text("source_call_id") for result in results}
    free = [call.call_id for call in calls if call.call_id not in named]
    for result in results:
        call_id = result.text("source_call_id") or (free.pop(0) if free else "")
        if call_id:
            draft.result(call_id, flat(result, "content", draft), result.place)
        else:
            draft.say("user", content_parts(result, draft), result.place)
        if result.has("subagent_trajectory_ref"):
            draft.drop("session of a sub-agent or summariser in a file of its own")
