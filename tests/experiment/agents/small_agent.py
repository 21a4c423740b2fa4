"""Small agent with a loop of its own: chat completions over HTTP, and the four tools of a scripted model.

Usage: python3 small_agent.py PROMPT, with OPENAI_BASE_URL and OPENAI_API_KEY in the environment.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

MAX_CHARACTERS = 8_000
TOOLS = {
    "execute_command": ("command",),
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "list_directory": ("path",),
}


def describe_tools():
    for name, arguments in TOOLS.items():
        properties = {argument: {"type": "string"} for argument in arguments}
        parameters = {"type": "object", "properties": properties, "required": list(arguments)}
        yield {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def ask(messages, tools):
    body = json.dumps({"model": "any", "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)["choices"][0]["message"]


def run_tool(name, arguments):
    if name == "execute_command":
        ran = subprocess.run(arguments["command"], shell=True, capture_output=True, text=True, check=False)
        return "\n".join(filter(None, (f"exit code {ran.returncode}", (ran.stdout + ran.stderr).rstrip("\n"))))
    path = Path(arguments["path"])
    if name == "read_file":
        return path.read_text()
    if name == "write_file":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(arguments["content"])
        return f"wrote {len(arguments['content'].encode())} bytes to {path}"
    entries = sorted(path.iterdir())
    return "\n".join(f"{'dir' if entry.is_dir() else 'file'}  {entry.name}" for entry in entries) or "(empty)"


def cut(output):
    left_out = len(output) - MAX_CHARACTERS
    return (
        output
        if left_out <= 0
        else f"{output[: MAX_CHARACTERS // 2]}\n[{left_out} characters left out]\n{output[-MAX_CHARACTERS // 2 :]}"
    )


def main():
    messages = [{"role": "system", "content": "You are a small agent."}, {"role": "user", "content": sys.argv[1]}]
    while True:
        answer = ask(messages, list(describe_tools()))
        messages.append(answer)
        if not answer.get("tool_calls"):
            print(answer["content"])
            return
        for call in answer["tool_calls"]:
            try:
                output = run_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            except OSError as error:
                output = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": cut(output)})


if __name__ == "__main__":
    main()
