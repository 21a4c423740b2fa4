"""Counts of messages, characters, calls and results in recorded sessions, made from the raw JSON without the importers' code.

Characters are those of texts, of names and arguments of calls, and of results; reasoning is left out. An image counts as the mark
that stands for it. Arguments that are JSON objects are written with `json.dumps`.
`python -m tests.recordings.raw_counts` prints the counts of all shared files beside those of the importers.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.conversation.messages import File, Text, ToolCall, ToolResult, extract_part_text
from harness.recordings.recording import Recording


class RawCounts(NamedTuple):
    """Counts in one file, over all its sessions."""

    answers: int = 0
    text_characters: int = 0
    calls: int = 0
    call_characters: int = 0
    results: int = 0
    result_characters: int = 0
    compactions: int = 0
    sub_agents: int = 0


class _Tally:
    def __init__(self) -> None:
        self.answers: set[str] = set()
        self.texts: list[str] = []
        self.calls: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.compactions = 0
        self.sub_agents: set[str] = set()

    def add_call(self, call_id: str, name: str, arguments: Any) -> None:
        self.calls[call_id] = name + (arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))

    def add_blocks(self, content: Any) -> None:
        """Add the texts, calls and results of a message in the form of Anthropic's API."""
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            match block["type"]:
                case "text":
                    self.texts.append(block["text"])
                case "image" | "document" as kind:
                    self.texts.append(f"({kind})")
                case "tool_use":
                    self.add_call(block["id"], block["name"], block["input"])
                case "tool_result":
                    self.results.setdefault(block["tool_use_id"], join_result(block.get("content")))
                case "file":
                    self.texts.append(block["path"] + "\n" + block["content"])

    def count(self) -> RawCounts:
        return RawCounts(
            answers=len(self.answers),
            text_characters=sum(map(len, self.texts)),
            calls=len(self.calls),
            call_characters=sum(map(len, self.calls.values())),
            results=len(self.results),
            result_characters=sum(map(len, self.results.values())),
            compactions=self.compactions,
            sub_agents=len(self.sub_agents),
        )


def join_result(content: Any) -> str:
    if not isinstance(content, list):
        return content or ""
    items = [item if isinstance(item, dict) else {"text": item} for item in content]
    lines = [f"({item['type']})" if item.get("type") == "image" else item.get("text") for item in items]
    return "\n".join(
        json.dumps(item, ensure_ascii=False) if line is None else line for item, line in zip(items, lines, strict=True)
    )


def iter_values(path: Path) -> Iterator[Any]:
    """Yield the JSON values in a file, of which a line may have several."""
    text = path.read_text(encoding="utf-8")
    place = 0
    while place < len(text):
        value, place = json.JSONDecoder().raw_decode(text, place)
        yield value
        while place < len(text) and text[place].isspace():
            place += 1


def count_claude_code(path: Path) -> RawCounts:
    tally, seen, queued = _Tally(), set[str](), list[str]()
    for line in iter_values(path):
        row, is_report = line, line.get("type") == "progress" and line["data"].get("type") == "agent_progress"
        if is_report:
            row = line["data"]["message"]
            tally.sub_agents.add(line["data"]["agentId"])
        elif line.get("isSidechain"):
            tally.sub_agents.add(line.get("agentId", "agent"))
        if row.get("uuid") in seen:
            continue
        seen |= {row["uuid"]} if "uuid" in row else set()
        match row.get("type"):
            case "system":
                tally.compactions += row.get("subtype") == "compact_boundary"
            case "queue-operation" if row["operation"] == "enqueue" and "content" in row:
                queued.append(row["content"])
            case "assistant" if row["message"]["model"] != "<synthetic>":
                tally.answers.add(row["message"]["id"])
                tally.add_blocks(row["message"]["content"])
            case "user" if not row.get("isCompactSummary") and not row.get("isVisibleInTranscriptOnly"):
                tally.add_blocks(row["message"]["content"])
    # what was typed while the agent worked and is in no other row
    tally.texts += [text for text in queued if text.strip() not in {known.strip() for known in tally.texts}]
    return tally.count()


def count_sdk(path: Path) -> RawCounts:
    tally = _Tally()
    for row in iter_values(path):
        body = row if "subtype" in row else row.get("message", {})
        if row["type"] == "system":
            tally.compactions += body.get("subtype") == "compact_boundary"
        elif row["type"] in {"assistant", "user"}:
            content = row["message"]["content"]
            tally.sub_agents |= {row["parent_tool_use_id"]} if row.get("parent_tool_use_id") else set()
            tally.answers |= {row["message"]["id"]} if row["type"] == "assistant" else set()
            first = content if isinstance(content, str) else content[0].get("text") or ""
            if not first.startswith("This session is being continued"):
                tally.add_blocks(content)
    return tally.count()


def count_codex(path: Path) -> RawCounts:
    tally, open_answer = _Tally(), 0
    is_open = False
    for row in iter_values(path):
        payload = row["payload"]
        kind = payload.get("type")
        if row["type"] == "compacted":
            tally.compactions += 1
        if row["type"] != "response_item":
            is_open = False if kind == "token_count" and payload.get("info") else is_open
            continue
        text = "".join(item["text"] for item in payload.get("content") or [] if "text" in item)
        if kind == "message":
            tally.texts.append(text)
        elif kind == "function_call":
            tally.add_call(payload["call_id"], payload["name"], payload["arguments"])
        elif kind == "function_call_output":
            output = payload["output"]
            tally.results[payload["call_id"]] = json.loads(output)["output"] if output.startswith('{"output"') else output
        if kind in {"reasoning", "function_call"} or payload.get("role") == "assistant":
            open_answer += not is_open
            is_open = True
        elif kind in {"function_call_output", "message"}:
            is_open = False
    tally.answers = {str(number) for number in range(open_answer)}
    return tally.count()


def count_pi(path: Path) -> RawCounts:
    tally = _Tally()
    for number, row in enumerate(iter_values(path)):
        tally.compactions += row["type"] == "compaction"
        message = row.get("message", {})
        if message.get("role") == "toolResult":
            tally.results[message["toolCallId"]] = join_result(message["content"])
        elif message.get("role") == "bashExecution":
            code = message.get("exitCode")
            ended = f"\n(exit code {code})" if code else ""
            tally.texts.append(f"Ran `{message['command']}`\n{message['output']}{ended}")
        elif message:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "toolCall":
                    tally.add_call(block["id"], block["name"], block["arguments"])
                elif block["type"] == "image":
                    tally.texts.append("(image)")
                elif block["type"] == "text":
                    tally.texts.append(block["text"])
            usage = message.get("usage", {})
            used = blocks or usage.get("input", 0) + usage.get("cacheRead", 0) + usage.get("cacheWrite", 0) + usage.get(
                "output", 0
            )
            tally.answers |= {str(number)} if message["role"] == "assistant" and used else set()
    return tally.count()


def count_mini_swe_agent(path: Path) -> RawCounts:
    tally = _Tally()
    for number, message in enumerate(json.loads(path.read_text(encoding="utf-8"))["messages"]):
        if message["role"] == "tool":
            tally.results[message["tool_call_id"]] = join_result(message["content"])
        elif message["role"] != "exit":
            tally.texts.append(message["content"] or "")
            tally.answers |= {str(number)} if message["role"] == "assistant" else set()
            for call in message.get("tool_calls") or []:
                tally.add_call(call["id"], call["function"]["name"], call["function"]["arguments"])
    return tally.count()


def count_swe_agent(path: Path) -> RawCounts:
    tally, waiting = _Tally(), ""
    for number, message in enumerate(json.loads(path.read_text(encoding="utf-8"))["history"]):
        is_demo, text = message.get("is_demo", False), message["content"]
        text = text if isinstance(text, str) else join_result(text)
        if message["role"] == "assistant" and message.get("tool_calls"):
            tally.texts.append(text)
            for call in message["tool_calls"]:
                tally.add_call(f"{number} {call['id']}", call["function"]["name"], call["function"]["arguments"])
                waiting = ""
        elif message["role"] == "assistant" and message.get("action", "").strip() and not is_demo:
            waiting = str(number)
            tally.texts.append(message["thought"].strip())
            tally.add_call(waiting, "bash", {"command": message["action"]})
        elif message["role"] == "tool":
            tally.results[str(number)] = text
        elif message["role"] == "user" and waiting and not is_demo:
            tally.results[waiting], waiting = text, ""
        else:
            tally.texts.append(text)
        tally.answers |= {str(number)} if message["role"] == "assistant" and not is_demo else set()
    return tally.count()


def count_gemini_contents(path: Path) -> RawCounts:
    tally, number_of = _Tally(), dict[str, list[str]]()
    for number, content in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        tally.answers |= {str(number)} if content["role"] == "model" else set()
        for place, part in enumerate(content["parts"]):
            if "functionCall" in part:
                call = part["functionCall"]
                key = call.get("id") or f"{number} {place}"
                number_of.setdefault(call["name"], []).append(key)
                tally.add_call(key, call["name"], call["args"])
            elif "functionResponse" in part:
                response = part["functionResponse"]
                key = response.get("id") or (number_of.get(response["name"]) or [""]).pop(0)
                if key in tally.calls:
                    body = response["response"]
                    output = body.get("output", body.get("error", body))
                    tally.results[key] = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            elif "text" in part and not part.get("thought"):
                tally.texts.append(part["text"])
                tally.compactions += part["text"].lstrip().startswith("<state_snapshot>")
    return tally.count()


def count_gemini_session(path: Path) -> RawCounts:
    tally = _Tally()
    for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        content = message["content"]
        if message["type"] not in {"user", "gemini"}:
            continue  # a note of the program
        tally.texts.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
        tally.answers |= {message["id"]} if message["type"] == "gemini" else set()
        for call in message.get("toolCalls") or []:
            tally.add_call(call["id"], call["name"], call["args"])
            body = call["result"][0]["functionResponse"]["response"]
            tally.results[call["id"]] = body.get("output", body.get("error"))
    return tally.count()


def count_cline(path: Path) -> RawCounts:
    tally = _Tally()
    whole = json.loads(path.read_text(encoding="utf-8"))
    tally.texts.append(whole["system_prompt"])
    for number, message in enumerate(whole["messages"]):
        tally.add_blocks(message["content"])
        tally.answers |= {str(number)} if message["role"] == "assistant" else set()
    return tally.count()


def count_moatless(path: Path) -> RawCounts:
    tally = _Tally()
    whole = json.loads(path.read_text(encoding="utf-8"))
    tally.texts.append(whole["agent"]["system_prompt"])
    for node in whole["nodes"]:
        tally.texts += [node["message"]] if node.get("message") else []
        completion = (node.get("completions") or {}).get("build_action")
        if not completion:
            continue
        tally.answers.add(str(node["node_id"]))
        tally.add_blocks(completion["response"]["content"])
        for message in completion["input"]:
            if isinstance(message["content"], list):
                shown = [block for block in message["content"] if block["type"] == "tool_result"]
                tally.results |= {block["tool_use_id"]: join_result(block["content"]) for block in shown}
        last = [block["id"] for block in completion["response"]["content"] if block["type"] == "tool_use"]
        for call_id in last:  # no later request shows the result of the last call
            observation = node.get("observation") or {}
            tally.results.setdefault(call_id, observation.get("message") or "")
    tally.results = {call_id: text for call_id, text in tally.results.items() if call_id in tally.calls}
    return tally.count()


def count_openhands(path: Path) -> RawCounts:
    values = list(iter_values(path))
    histories = values if isinstance(values[0], list) else [value["history"] for value in values]
    totals = [_count_events(history) for history in histories]
    return RawCounts(*(sum(column) for column in zip(*totals, strict=True)))


def _count_events(history: list[dict[str, Any]]) -> RawCounts:
    tally = _Tally()
    for event in history:
        about = event.get("tool_call_metadata")
        response = (about or {}).get("model_response") or {}
        arguments = event.get("args") or {}
        if event.get("action") == "system" or (event.get("action") == "message" and event["source"] == "user"):
            tally.texts.append(arguments["content"])
        elif event.get("action") and event["source"] == "agent" and about:
            message = response["choices"][0]["message"]
            if response["id"] not in tally.answers:
                tally.texts.append(message["content"] or "")
            tally.answers.add(response["id"])
            for call in message["tool_calls"]:
                tally.add_call(call["id"], call["function"]["name"], call["function"]["arguments"])
        elif event.get("action") == "message" and event["source"] == "agent":
            tally.answers.add(str(event["id"]))
            tally.texts.append(arguments["content"])
        elif "observation" in event and about:
            tally.results[about["tool_call_id"]] = event["content"]
        elif event.get("observation") == "error":
            tally.texts.append(event["content"])
    return tally.count()


def count_recordings(recordings: Sequence[Recording]) -> RawCounts:
    """Return the same counts of recordings that an importer has read, for comparison."""
    messages = [item.message for recording in recordings for item in recording.messages if not item.synthetic]
    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    return RawCounts(
        answers=sum(message.role == "assistant" for message in messages),
        text_characters=sum(len(extract_part_text(part)) for part in parts if isinstance(part, Text | File)),
        calls=len(calls),
        call_characters=sum(len(call.name) + len(call.arguments_json) for call in calls),
        results=len(results),
        result_characters=sum(len(result.output) for result in results),
        compactions=sum(
            event.kind == "compaction" and not event.inferred for recording in recordings for event in recording.compactions
        ),
        sub_agents=sum(bool(recording.parent_id) for recording in recordings),
    )


COUNTERS = {
    "claude-code": count_claude_code,
    "claude-sdk": count_sdk,
    "codex": count_codex,
    "pi": count_pi,
    "mini-swe-agent": count_mini_swe_agent,
    "swe-agent": count_swe_agent,
    "gemini-cli/": count_gemini_contents,
    "gemini-cli_": count_gemini_session,
    "cline": count_cline,
    "moatless": count_moatless,
    "openhands": count_openhands,
}
"""Functions that count, by the beginning of the folder of the files."""


def count_raw(path: Path, name: str) -> RawCounts:
    """Return the counts of a shared file, given its name in the folder."""
    return next(count for beginning, count in COUNTERS.items() if name.startswith(beginning))(path)


def print_table() -> None:
    from harness.recordings.reading import read_recordings
    from tests.recordings.test_recording import PLACE, table

    for row in table():
        counted, read = count_raw(PLACE / row["file"], row["file"]), count_recordings(read_recordings(PLACE / row["file"]))
        print(f"{'equal' if counted == read else 'DIFFERS'}  {row['file']}\n  counted {tuple(counted)}\n  read    {tuple(read)}")


if __name__ == "__main__":
    print_table()
