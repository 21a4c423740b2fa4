"""Agents that are programs for Node.js: Codex CLI, OpenCode and pi, and how each works on a task against a server on loopback.

`python -m tests.peers.node_agents` installs them with npm, about 1 GB, into `$HARNESS_NODE_AGENTS` or else the user's cache. No
other command does, so their test is skipped where they are missing.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import platformdirs

FOLDER_VARIABLE = "HARNESS_NODE_AGENTS"
PACKAGES: Mapping[str, tuple[str, str]] = {
    "codex": ("@openai/codex", "0.171.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "pi": ("@mariozechner/pi-coding-agent", "0.73.1"),
}
"""Package and version of each agent, by the name of its program."""
WINDOW_TOKENS = 1_000_000
"""Context window that the agents are told, in which none of them compacts; pi shows 50 KB of an output."""
INSTALL_COMMAND = "python -m tests.peers.node_agents"


class Run(NamedTuple):
    """Command that lets an agent work on a task, with its environment variables."""

    command: Sequence[str]
    variables: Mapping[str, str]


def locate_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("harness") / "node-agents"


def explain_absence(agent: str) -> str | None:
    """Return why an agent cannot run here; None if it can."""
    package, version = PACKAGES[agent]
    path = locate_folder() / "node_modules" / package / "package.json"
    if shutil.which("node") is None:
        return f"{agent} needs Node.js"
    if not path.is_file():
        return f"{agent} is not installed: `{INSTALL_COMMAND}` fetches it"
    installed = json.loads(path.read_text())["version"]
    return None if installed == version else f"{agent} {installed} is installed, not {version}: `{INSTALL_COMMAND}` fetches it"


def install() -> Path:
    folder = locate_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    packages = [f"{package}@{version}" for package, version in PACKAGES.values()]
    subprocess.run(["npm", "install", "--save-exact", "--no-audit", "--no-fund", *packages], cwd=folder, check=True)
    return folder


def prepare(agent: str, home: Path, address: str, model: str, prompt: str) -> Run:
    """Write the settings of an agent, and return the command with which it works in the folder where it is started.

    Args:
        agent: Name of the agent.
        home: Empty folder for its settings and data.
        address: Base URL of the server, which ends with `/v1`.
        model: Name of the model.
        prompt: Request of the user.
    """
    program = str(locate_folder() / "node_modules" / ".bin" / agent)
    folders = {
        name: str(home / name.lower()) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    }
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), **folders}
    match agent:
        case "codex":
            provider = f'[model_providers.local]\nname = "local"\nbase_url = "{address}"\nwire_api = "responses"\n'
            (home / "config.toml").write_text(
                f'model = "{model}"\nmodel_context_window = {WINDOW_TOKENS}\nmodel_provider = "local"\n{provider}'
            )
            flags = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
            return Run((program, *flags, prompt), {**variables, "CODEX_HOME": str(home)})
        case "opencode":
            server = {"baseURL": address, "apiKey": "none"}
            limits = {"context": WINDOW_TOKENS, "output": 16_000}
            provider_fields = {"npm": "@ai-sdk/openai-compatible", "options": server, "models": {model: {"limit": limits}}}
            settings = {"provider": {"local": provider_fields}, "permission": "allow", "autoupdate": False, "share": "disabled"}
            (home / "opencode.json").write_text(json.dumps(settings))
            own = {"OPENCODE_CONFIG": str(home / "opencode.json"), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
            return Run((program, "run", "-m", f"local/{model}", "--title", "task", prompt), {**variables, **own})
        case _:
            fields = {
                "baseUrl": address,
                "api": "openai-completions",
                "apiKey": "none",
                "models": [{"id": model, "contextWindow": WINDOW_TOKENS}],
            }
            (home / "models.json").write_text(json.dumps({"providers": {"local": fields}}))
            options = ("-p", "--no-session", "--provider", "local", "--model", model)
            own = {"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1"}
            return Run((program, *options, prompt), {**variables, **own})


if __name__ == "__main__":
    print(install())
