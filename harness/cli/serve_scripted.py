"""`harness serve-scripted`: the scripted models behind an OpenAI-compatible endpoint."""

import threading

import click

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.errors import format_count
from harness.models.endpoint.faults import parse_fault
from harness.models.endpoint.server import list_model_names, make_model_finder, serve_endpoint
from harness.signals import install_signal_handler
from harness.tasks import SUITE, make_task

DEFAULT_PORT = 8765


@click.command("serve-scripted")
@click.option("--task", "task_names", multiple=True, help="Serve the agent of this task.  [default: every task of the suite]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the models' own draws.")
@click.option("--window", type=click.IntRange(min=1), help="Context window of the agents in tokens.  [default: 128,000]")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 = one that is free.")
@click.option(
    "--fault", "faults", multiple=True, metavar="FAULT", help="KIND[:VALUE]@FIRST[-LAST], e.g. 429:7@3, 500@2-4 or stall@5-."
)
def command(task_names: tuple[str, ...], seed: int, window: int | None, port: int, faults: tuple[str, ...]) -> None:
    """Serve the scripted models on loopback: chat completions, streamed or not, with tools and usage, and /v1/models.

    They have the names that they have in a plan, e.g. scripted/flashcards:attentive or scripted/extractive. Whoever speaks
    OpenAI's format can ask them; here that is any model hosted_vllm/NAME with HOSTED_VLLM_API_BASE set to the address.

    Faults are counted by request, retries among them. KIND is 429 (VALUE: seconds of Retry-After), 500, 529, reset and stall (in
    the middle of the answer), malformed (broken arguments of calls), unknown-tool, overflow (VALUE: openai, anthropic, gemini,
    bedrock, vllm or llama.cpp, in whose words). Ctrl-C ends it.
    """
    tasks = [make_task(name, seed) for name in task_names or SUITE]
    injected_faults = [parse_fault(fault) for fault in faults]
    stop = threading.Event()
    with serve_endpoint(
        make_model_finder(tasks, seed=seed, window_tokens=window),
        names=list_model_names(tasks),
        faults=injected_faults,
        port=port,
    ) as endpoint:
        with install_signal_handler(lambda _number, _frame: stop.set()):
            click.echo(f"HOSTED_VLLM_API_BASE={endpoint.address}")
            click.echo("\n".join(f"  hosted_vllm/{name}" for name in endpoint.names), err=True)
            while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
                pass
        click.echo(f"{format_count(len(endpoint.served), 'request')} answered", err=True)
