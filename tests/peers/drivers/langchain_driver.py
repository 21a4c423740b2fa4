"""Driver of LangChain's own middleware and of that of deepagents."""

import tempfile
import time
from pathlib import Path
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import SummarizationMiddleware as DeepMiddleware
from langchain.agents.middleware.context_editing import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError, ModelError, ModelInvalidRequestError
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.peers.drivers.serving import Shown, calls_of, serve, write_answer

FIRST = 1
"""Number of the first message that a middleware receives, since the system message, number 0, is passed separately."""


def make_message(message: dict[str, Any], at: int, provider: str) -> Any:
    """Return a message of LangChain with its number as its id."""
    if message["role"] == "user":
        return HumanMessage(content=message["text"], id=str(at))
    if message["role"] == "tool":
        return ToolMessage(content=message["text"], tool_call_id=message["call_id"], name=message["name"], id=str(at))
    calls = [{"id": call["id"], "name": call["name"], "args": call["arguments"]} for call in message["calls"]]
    tokens = message.get("reported_tokens")
    usage = None if tokens is None else {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    metadata = {"model_provider": provider}
    return AIMessage(content=message["text"], tool_calls=calls, id=str(at), usage_metadata=usage, response_metadata=metadata)


def shown(message: Any, conversation: list[dict[str, Any]]) -> Shown:
    at = int(message.id)
    was = conversation[at] if at >= 0 else {"text": None, "calls": []}
    calls = [call["args"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    same = calls == [call["arguments"] for call in was.get("calls", [])]
    return [at, None if message.content == was["text"] else message.content, None if same else calls]


def model_of(window: int) -> Any:
    return FakeListChatModel(responses=["never asked"], profile={"max_input_tokens": window})


def summary(conversation: list[dict[str, Any]], window: int, arguments: dict[str, Any]) -> list[Any]:
    """Return the changes that SummarizationMiddleware makes before each model call."""
    model = model_of(window)
    prompts: list[Any] = []

    def write(messages: Any) -> str:
        prompts.append([shown(message, conversation)[:2] for message in messages])
        return f"summary {len(prompts)}"

    for name in ("trigger", "keep"):
        if isinstance(arguments.get(name), list):
            arguments[name] = [tuple(argument) for argument in arguments[name]] if name == "trigger" else tuple(arguments[name])
    middleware = SummarizationMiddleware(model, summarizer=write, **arguments)
    provider = model._get_ls_params()["ls_provider"]
    view: list[Any] = []
    acts, summaries, before = [], 0, FIRST
    for point in calls_of(conversation):
        view += [make_message(conversation[at], at, provider) for at in range(before, point)]
        before = point
        prompts.clear()
        if (update := middleware.before_model({"messages": view}, None)) is None:
            continue
        summaries += 1
        view = update["messages"][1:]
        view[0].id = str(-summaries)
        acts.append(
            {"call": point, "view": [shown(message, conversation) for message in view], "told": prompts[0] if prompts else None}
        )
    return acts


def clear(conversation: list[dict[str, Any]], arguments: dict[str, Any]) -> list[Any]:
    """Return the requests of ContextEditingMiddleware that differ from the history, by model call."""
    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(**arguments)])
    acts: list[Any] = []
    last: list[Shown] = []
    before = FIRST
    for point in calls_of(conversation):
        history = [make_message(conversation[at], at, "nobody") for at in range(FIRST, point)]
        sent: list[Any] = []

        def answer(request: Any, sent: list[Any] = sent) -> Any:
            sent.extend(request.messages)

        middleware.wrap_model_call(ModelRequest(model=model_of(1), messages=history), answer)
        view = [shown(message, conversation) for message in sent]
        if view != last + [[at, None, None] for at in range(before, point)]:
            acts.append({"call": point, "view": view, "told": None})
        last, before = view, point
    return acts


def deep(conversation: list[dict[str, Any]], window: int, refused: list[int], arguments: dict[str, Any]) -> list[Any]:
    """Return the requests of the middleware of deepagents that change the history, with some prompts refused."""
    with tempfile.TemporaryDirectory() as folder:
        return Deep(conversation, window, Path(folder), arguments).acts(refused)


class Deep:
    """One walk of the middleware of deepagents through a conversation."""

    def __init__(self, conversation: list[dict[str, Any]], window: int, folder: Path, arguments: dict[str, Any]) -> None:
        self.conversation, self.model = conversation, model_of(window)
        self.prompts: list[Any] = []
        self.sent: list[Any] = []
        self.refuses = False
        self.middleware = DeepMiddleware(
            self.model,
            backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
            summarizer=self.write,
            trim_tokens_to_summarize=None,
            trigger=("fraction", arguments["trigger"]),
            keep=("fraction", arguments["keep"]),
            truncate_args_settings={
                "trigger": ("fraction", arguments["trigger"]),
                "keep": ("fraction", arguments["keep"]),
                "max_length": arguments["max_length"],
                "truncation_text": arguments["mark"],
            },
        )

    def write(self, messages: Any) -> str:
        self.prompts.append([shown(message, self.conversation)[:2] for message in messages])
        return f"summary {len(self.prompts)}"

    def answer(self, request: Any) -> ModelResponse:
        self.sent.append(request.messages)
        if self.refuses:
            self.refuses = False
            raise ContextOverflowError("the prompt is too long")
        return ModelResponse(result=[AIMessage(content="ok")])

    def acts(self, refused: list[int]) -> list[Any]:
        """Return the changes of the middleware; the last one holds the last prompt if the middleware gives up."""
        provider = self.model._get_ls_params()["ls_provider"]
        history: list[Any] = []
        state: dict[str, Any] = {}
        acts: list[Any] = []
        last: list[Shown] = []
        before = FIRST
        for point in calls_of(self.conversation):
            news = range(before, point)
            history += [make_message(self.conversation[at], at, provider) for at in news]
            self.refuses, asked = point in refused, len(self.prompts)
            request = ModelRequest(
                model=self.model,
                messages=list(history),
                state={"messages": list(history), **state},
                system_message=SystemMessage(content=self.conversation[0]["text"]),
            )
            try:
                response = self.middleware.wrap_model_call(request, self.answer)
            except ContextOverflowError:
                return [*acts, {"call": point, "ended": True}]
            if isinstance(response, ExtendedModelResponse) and response.command is not None:
                state |= response.command.update
                state["_summarization_event"]["summary_message"].id = str(-len(self.prompts))
            view = [shown(message, self.conversation) for message in self.sent[-1]]
            if view != last + [[at, None, None] for at in news]:
                acts.append({"call": point, "view": view, "told": self.prompts[-1] if len(self.prompts) > asked else None})
            last, before = view, point
        return acts


class Faltering(FakeListChatModel):
    """Model with scripted first answers."""

    faults: list[str]
    prompts: list[str]

    def _call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.prompts.append(messages[0].text)
        fault = self.faults[len(self.prompts) - 1] if len(self.prompts) <= len(self.faults) else "fine"
        if fault == "overflows":
            raise ContextOverflowError("the prompt is too long")
        if fault == "fails":
            raise ModelInvalidRequestError("no")
        return write_answer(fault, len(self.prompts))


def faltering_of(window: int, faults: list[str]) -> Faltering:
    return Faltering(responses=["never said"], profile={"max_input_tokens": window}, faults=faults, prompts=[])


def falter(conversation: list[dict[str, Any]], window: int, arguments: dict[str, Any], faults: list[str]) -> list[Any]:
    """Return the result of SummarizationMiddleware at its first summary."""
    model = faltering_of(window, faults)
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    middleware = SummarizationMiddleware(model, **arguments)
    for point in calls_of(conversation):
        messages = [make_message(conversation[at], at, "nobody") for at in range(FIRST, point)]
        try:
            update = middleware.before_model({"messages": list(messages)}, None)
        except ModelError:
            return [faltered(point, model, messages, condensed=False)]
        if update is not None:
            return [faltered(point, model, update["messages"][1:], condensed=True)]
    return []


def faltered(point: int, model: Faltering, messages: list[Any], *, condensed: bool) -> dict[str, Any]:
    """Return an attempt, and the length of each prompt for it."""
    view = [int(message.id) if message.id and message.id.isdecimal() else message.text for message in messages]
    sizes = [len(prompt) for prompt in model.prompts]
    return {"call": point, "condensed": condensed, "asked": len(sizes), "view": view, "sizes": sizes}


def falter_deep(conversation: list[dict[str, Any]], window: int, arguments: dict[str, Any], faults: list[str]) -> list[Any]:
    """Return the result of the middleware of deepagents at its first summary."""
    model = faltering_of(window, faults)
    with tempfile.TemporaryDirectory() as folder:
        middleware = DeepMiddleware(
            model,
            backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
            trim_tokens_to_summarize=None,
            **{name: tuple(value) for name, value in arguments.items()},
        )
        for point in calls_of(conversation):
            messages = [make_message(conversation[at], at, "nobody") for at in range(FIRST, point)]
            sent: list[Any] = []

            def answer(request: Any, sent: list[Any] = sent) -> ModelResponse:
                sent.extend(request.messages)
                return ModelResponse(result=[AIMessage(content="ok")])

            request = ModelRequest(
                model=model,
                messages=list(messages),
                state={"messages": list(messages)},
                system_message=SystemMessage(content=conversation[0]["text"]),
            )
            try:
                response = middleware.wrap_model_call(request, answer)
            except ModelError:
                return [faltered(point, model, messages, condensed=False)]
            if isinstance(response, ExtendedModelResponse) and response.command is not None:
                return [faltered(point, model, sent, condensed=True)]
    return []


def check(conversation: list[dict[str, Any]], repeats: int) -> float:
    """Return the CPU seconds of one check of a conversation that needs no summary."""
    middleware = SummarizationMiddleware(model_of(10**12), trigger=("fraction", 0.8))
    messages = [make_message(conversation[at], at, "nobody") for at in range(FIRST, len(conversation))]
    times = []
    for _ in range(repeats):
        began = time.process_time()
        update = middleware.before_model({"messages": messages}, None)
        times.append(time.process_time() - began)
        assert update is None
    return min(times)


if __name__ == "__main__":
    serve({"summary": summary, "clear": clear, "deep": deep, "falter": falter, "falter_deep": falter_deep, "check": check})
