"""The command `supportmatch`. Heavy libraries are imported inside commands, so that `--help` answers at once."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import supportmatch
from supportmatch.bench.cli import app as bench_app
from supportmatch.errors import SupportMatchError

app = typer.Typer(
    help="Classify subgroups that your labels never showed, with the help of unlabelled rows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")


class DemoSetting(str, Enum):
    """What the demonstration can show."""

    CMNIST_SB = "cmnist-sb"
    CMNIST_MS = "cmnist-ms"
    ADULT_SB = "adult-sb"
    ADULT_MS = "adult-ms"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"supportmatch {supportmatch.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    setting: Annotated[DemoSetting, typer.Option(help="The problem to show.")] = DemoSetting.CMNIST_SB,
    seed: Annotated[int, typer.Option(min=0, help="Decides the data split, the bags and the initial weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for figures, the result and the model.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the folder if it exists.")] = False,
) -> None:
    """Show, on embedded real data, an ordinary classifier beside support-matching."""
    from supportmatch.demo import run_demo

    def say(text: str) -> None:
        typer.echo(text, err=as_json)  # with --json standard output holds one object and nothing else

    result = run_demo(setting.value, seed, out, say, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(result))
    elif out is not None:
        typer.echo(f"Figures, result.json and the model are in {out}")


def main() -> None:
    """Run the command; a user's mistake ends with one sentence and exit code 2."""
    try:
        app()
    except (SupportMatchError, OSError) as error:
        print(f"supportmatch: {error}", file=sys.stderr)
        sys.exit(2)
