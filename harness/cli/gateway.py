"""Command `harness gateway`, an endpoint for other agents that applies a policy to what goes upstream and records sessions."""

import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.cli import options
from harness.errors import UsageError
from harness.gateway.environment import install
from harness.gateway.process import serve_proxy
from harness.gateway.recorder import Arm, SessionRecorder
from harness.policies import policy_from_plain
from harness.process import install_signal_handler

DEFAULT_PORT = 8788
EXAMPLE = "keep-last,threshold=0.6"
DEFAULT_JOURNAL = Path("gateway.sqlite")


@click.command("gateway")
@click.option("--upstream", metavar="URL|MODEL", help="Base URL of a server with OpenAI's API, or a model as litellm spells it.")
@click.option("--api-base", metavar="URL", default="", help="Address of the server that has the model that --upstream names.")
@click.option("--policy", "policy_text", metavar="NAME", help="Compaction policy, with its fields behind commas.")
@click.option(
    "--arm", "arm_texts", multiple=True, metavar="NAME", help="Policy of an arm, as for --policy. Repeat it: sessions draw one."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed with which sessions draw their arms.")
@click.option("--record-only", is_flag=True, help="Change nothing; only record.")
@click.option("--summarizer", metavar="MODEL", help="Model that writes summaries, with its key in the environment.")
@click.option("--window", type=options.POSITIVE, help="Context window in tokens.  [default: that of the request's model]")
@click.option("--journal", type=options.FILE, default=DEFAULT_JOURNAL, help="Journal for the sessions.")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, help="Port to listen on; 0 = any free port.")
@click.option("--session-header", metavar="NAME", default="", help="Further header with which the agent names its session.")
@click.option("--install", "installs", is_flag=True, help="Install litellm's proxy in the user's cache, 0.4 GB, and end.")
def command(
    upstream: str | None,
    api_base: str,
    policy_text: str | None,
    arm_texts: tuple[str, ...],
    seed: int,
    summarizer: str | None,
    window: int | None,
    journal: Path,
    port: int,
    session_header: str,
    *,
    record_only: bool,
    installs: bool,
) -> None:
    """Serve an endpoint for other agents that applies a policy and records their sessions.

    An agent uses the printed address as its base URL, with its own key, which goes upstream and is stored nowhere. The endpoint
    speaks OpenAI's chat completions and responses, Anthropic's messages and Gemini's generateContent, also streamed, on this
    machine only. Each conversation becomes a session in the journal, which `harness inspect`, `harness replay` and every widget
    open. Ctrl-C stops the gateway and completes the journal.

    A session is told by the header with which the agent names it, or else by the history that a request continues. When an agent
    compacts its own history, that is logged as its own compaction.

    With --arm, each new session draws one of several policies at random, by --seed, and the draw is logged. `harness report`
    shows the differences between the arms in the journal, and which differences so many sessions can detect; `harness sessions
    mark` says which sessions succeeded.

    HTTP is the work of litellm's proxy, which --install puts into an environment of its own, once.

    Example: `harness gateway --upstream http://127.0.0.1:8000/v1 --record-only`
    """
    if installs:
        click.echo(f"installed in {install()}")
        return
    if upstream is None:
        raise UsageError("name the upstream: --upstream URL or --upstream MODEL")
    if [policy_text is not None, bool(arm_texts), record_only].count(True) != 1:
        raise UsageError("choose one of --policy NAME, several --arm NAME, and --record-only")
    if len(arm_texts) == 1:
        raise UsageError(f"--arm {arm_texts[0]!r} is the only arm; name two or more, or use --policy")
    arms = tuple(parse_arm(text, number) for text, number in number_equal_texts(arm_texts or (policy_text or "none",)))
    report = partial(click.echo, err=True)
    recorder = SessionRecorder(
        arms,
        journal=journal,
        window_tokens=window,
        summarizer=summarizer,
        model="" if "://" in upstream or "*" in upstream else upstream,
        session_header=session_header,
        seed=seed,
        report=report,
    )
    stop = threading.Event()
    click.echo("starting litellm's proxy, which takes ten seconds, or minutes on a busy machine", err=True)
    try:
        with (
            serve_proxy(upstream, recorder.answer, api_base=api_base, port=port, report=report) as proxy,
            install_signal_handler(lambda _number, _frame: stop.set()),
        ):
            root = proxy.address.removesuffix("/v1")
            click.echo(f"OPENAI_BASE_URL={proxy.address}\nANTHROPIC_BASE_URL={root}\nGOOGLE_GEMINI_BASE_URL={root}")
            while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
                proxy.check()
    finally:
        recorder.close()
    click.echo(recorder.describe(), err=True)


def number_equal_texts(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return each text with its number among equal ones, from 1, because two arms may have one policy."""
    return [(text, texts[: index + 1].count(text)) for index, text in enumerate(texts)]


def parse_arm(text: str, number: int = 1) -> Arm:
    """Return the arm that a text such as `keep-last,threshold=.6` describes; the number is part of its name from 2 on.

    Raises:
        UnknownName: There is no such policy or field.
        UsageError: A field has no value, or an invalid one.
    """
    name, *assignments = (part.strip() for part in text.split(","))
    for assignment in assignments:
        if not re.fullmatch(r"[^=\s]+\s*=.*", assignment, re.DOTALL):
            raise UsageError(f"policy {text!r}: {assignment!r} has no value; write FIELD=VALUE behind a comma, as in {EXAMPLE!r}")
    completed = [re.sub(r"=(?=\.\d)", "=0", assignment) for assignment in assignments]  # .6 is no number in TOML
    fields = options.parse_fields(tuple(completed))
    return Arm(name=text if number == 1 else f"{text} ({number})", policy=policy_from_plain({"kind": name, **fields}))
