"""The command `supportmatch`. Heavy libraries are imported inside commands, so that `--help` answers at once."""

from __future__ import annotations

import csv
import errno
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import supportmatch
from supportmatch.bench.cli import app as bench_app
from supportmatch.errors import ConfigError, SupportMatchError, SupportMatchWarning

if TYPE_CHECKING:
    from supportmatch.inspection import TableSource
    from supportmatch.metrics import Evaluation


class _Commands(TyperGroup):
    """The commands; one that is stopped says so."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _ignore_impatience()
            typer.echo("supportmatch: stopped, with nothing half-written; the same command does the work.", err=True)
            raise typer.Exit(130) from None


def _ignore_impatience() -> None:
    """Let Ctrl-C do nothing to a command that is stopping: it would break into the end of the interpreter."""
    with suppress(ValueError):  # not the main thread, which alone hears signals
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # should the end be long in coming


app = typer.Typer(
    cls=_Commands,
    help="Classify subgroups that your labels never showed, with the help of unlabelled rows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")


class MissingPolicy(str, Enum):
    """What a cell without a value is."""

    OWN_CATEGORY = "own-category"
    REFUSE = "refuse"


class Precision(str, Enum):
    """What networks compute in."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


Label = Annotated[str, typer.Option("--label", help="Column of the class.")]
Subgroup = Annotated[
    list[str],
    typer.Option("--subgroup", help="Column of the subgroup; several, with commas or one by one, make a product."),
]
Subgroups = Annotated[
    list[str] | None,
    typer.Option(
        "--subgroups",
        help="Every subgroup expected at deployment, with commas, also those without training rows. With several "
        "columns once for each, as sex=Female,Male. By default those that training shows.",
    ),
]
Deploy = Annotated[Path | None, typer.Option("--deploy", help="Unlabelled rows from where the model will be used.")]
Numeric = Annotated[list[str] | None, typer.Option("--numeric", help="Columns to take as numbers, with commas.")]
Categorical = Annotated[
    list[str] | None, typer.Option("--categorical", help="Columns to take as categories, with commas.")
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Columns to leave out, with commas.")]
MissingValues = Annotated[
    list[str] | None,
    typer.Option("--missing-values", help="Text that means missing, with commas."),
]
FileColumn = Annotated[
    str | None, typer.Option("--file-column", help="Column with the file names of pictures, which are then the rows.")
]
Images = Annotated[Path | None, typer.Option("--images", help="Folder of the pictures.")]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        metavar="CLASS",
        help="The class that positive rate, TPR and TNR speak of, against all others. By default the second in the "
        "order of the alphabet.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


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
def audit(
    train: Annotated[Path, typer.Argument(help="CSV or Parquet file of labelled rows.")],
    label: Label,
    subgroup: Subgroup,
    subgroups: Subgroups = None,
    deploy: Deploy = None,
    numeric: Numeric = None,
    categorical: Categorical = None,
    drop: Drop = None,
    missing_values: MissingValues = None,
    file_column: FileColumn = None,
    as_json: AsJson = False,
) -> None:
    """Tell which sources training lacks, what can be done about it, and what is odd about the columns.

    The exit code is 0 if training shows every source, 3 if some are missing, and 2 after a mistake.
    """
    source = _table_source(
        train, label, subgroup, subgroups, deploy, (numeric, categorical, drop), missing_values, file_column
    )
    with _without_pandas():
        found = source.open().audit(_options_of(source, subgroups, (numeric, categorical, drop), missing_values))
    typer.echo(json.dumps(found.to_json()) if as_json else found.to_text())
    raise typer.Exit(found.exit_code)


@app.command()
def fit(
    train: Annotated[Path, typer.Argument(help="CSV or Parquet file of labelled rows.")],
    label: Label,
    subgroup: Subgroup,
    out: Annotated[Path, typer.Option("--out", help="Folder for the model and its report.", show_default=False)],
    subgroups: Subgroups = None,
    deploy: Deploy = None,
    test: Annotated[
        Path | None, typer.Option("--test", help="Labelled rows to measure the model on; they have no part in fitting.")
    ] = None,
    positive: Positive = None,
    images: Images = None,
    file_column: FileColumn = None,
    image_size: Annotated[
        int,
        typer.Option(min=16, max=256, help="Pixels of a side; our networks need a multiple of 8."),
    ] = 32,
    numeric: Numeric = None,
    categorical: Categorical = None,
    drop: Drop = None,
    missing: Annotated[
        MissingPolicy | None,
        typer.Option(
            help="A cell without a value: a category of its own (the default; numbers also get the median), or refused."
        ),
    ] = None,
    missing_values: MissingValues = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file of settings; what it leaves out keeps its default.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Start from these named settings instead of the default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the bags and the initial weights.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto: a GPU if there is one.")] = "auto",
    precision: Annotated[Precision, typer.Option(help="bfloat16 is mixed precision.")] = Precision.FLOAT32,
    compile_networks: Annotated[
        bool, typer.Option("--compile", help="Compile the networks, which pays for wide ones and many steps.")
    ] = False,
    show_examples: Annotated[
        bool,
        typer.Option(
            "--show-examples", help="Show some rows or pictures in the report, as they are: they may be of real people."
        ),
    ] = False,
    no_examples: Annotated[bool, typer.Option("--no-examples", hidden=True)] = False,  # the default by now
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and mistakes only.")] = False,
) -> None:
    """Fit a model and write a folder with it, its report and its card.

    Ctrl-C keeps what was done; the same command then goes on from there. Several processes fit one model together with
    torchrun --nproc-per-node N -m supportmatch fit ...
    """
    from supportmatch.errors import StoppedError
    from supportmatch.fitting import FitRequest, fit_files
    from supportmatch.hardware import Hardware
    from supportmatch.ranks import joined

    if (images is None) != (file_column is None):
        raise ConfigError("--images and --file-column belong together: pass both, or neither for a table.")
    source = _table_source(
        train, label, subgroup, subgroups, deploy, (numeric, categorical, drop), missing_values, file_column
    )
    with joined() as ranks:
        quiet = quiet or not ranks.is_first
        request = FitRequest(
            source,
            out,
            images=images,
            side=image_size,
            test=test,
            positive=positive,
            preset=preset,
            settings=config,
            missing=missing.value if missing else None,
            seed=seed,
            overwrite=overwrite,
            show_examples=show_examples,
            progress=not quiet,
            hardware=Hardware(device=device, precision=precision.value, compile=compile_networks),
            command=shlex.join(["supportmatch", *sys.argv[1:]]),
        )

        def say(text: str) -> None:
            if not quiet:
                typer.echo(text, err=as_json)

        try:
            fitted = fit_files(request, say, ranks)
        except OSError as error:
            kept = out.resolve().with_name(f".{out.name}-unfinished")
            if not kept.exists():
                raise
            typer.echo(f"supportmatch: {_explain(error)} What was done is kept in {kept}.", err=True)
            raise typer.Exit(2) from None
        except StoppedError as error:
            _ignore_impatience()
            typer.echo(f"supportmatch: {error}", err=True)
            raise typer.Exit(130) from None
    if fitted is None:  # the first process does the rest
        return
    for note in fitted.warnings:
        typer.echo(f"warning: {note}", err=True)
    if fitted.evaluation is not None:
        say(fitted.evaluation.to_text())
        _say_of_which_class(fitted.evaluation, positive, say)
    say(f"The model is in {out} ({fitted.seconds:.0f} s); open {out / 'report.html'}")
    if as_json:
        result = {"folder": str(out), "seconds": round(fitted.seconds, 2), "warnings": list(fitted.warnings)}
        result["findings"] = list(fitted.findings)
        scores = fitted.evaluation.to_json() if fitted.evaluation is not None else None
        typer.echo(json.dumps({**result, "evaluation": scores}))


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder that `fit` wrote.")],
    rows: Annotated[Path, typer.Argument(help="CSV or Parquet file of rows; no label or subgroup is needed.")],
    out: Annotated[Path, typer.Option("--out", help="File to write, CSV or .parquet.", show_default=False)],
    images: Images = None,
    allow_new_columns: Annotated[
        bool, typer.Option("--allow-new-columns", help="Carry along columns that no file had at the fit.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and mistakes only.")] = False,
) -> None:
    """Add the predicted class and the probability of each class to the rows of a file of any size."""
    from supportmatch.predicting import LoadedFolder, predict_file
    from supportmatch.progress import progress_bar

    loaded = LoadedFolder.load(model)
    with _warnings_as_lines(), progress_bar("rows", enabled=not quiet) as report:
        n = predict_file(
            loaded, rows, out, images=images, allow_new=allow_new_columns, overwrite=overwrite, report=report
        )
    if not quiet:
        typer.echo(f"{n} rows with predictions are in {out}", err=True)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder that `fit` wrote.")],
    rows: Annotated[Path, typer.Argument(help="CSV or Parquet file with label and subgroup.")],
    images: Images = None,
    positive: Positive = None,
    as_json: AsJson = False,
    update_report: Annotated[
        bool,
        typer.Option(
            "--update-report",
            help="Replace the measurement in the report and card of the model folder by this one. The comparison with "
            "simpler methods stays that of the fit.",
        ),
    ] = False,
) -> None:
    """Measure a model on labelled rows: per source, per subgroup, robust accuracy, calibration, with intervals."""
    from supportmatch.predicting import LoadedFolder, evaluate_file
    from supportmatch.report.card import measured_warnings

    folder = LoadedFolder.load(model)
    with _warnings_as_lines():
        evaluation, measured, n_without = evaluate_file(folder, rows, images=images, positive=positive)
    if n_without:
        typer.echo(f"warning: {n_without} rows have no label or no subgroup and are left out", err=True)
    for note in measured_warnings(measured, folder.model.audit_.to_json()):
        typer.echo(f"warning: {note}", err=True)
    if update_report:
        from supportmatch.fitting import remeasured, write_pages
        from supportmatch.report.content import ReportContent

        content = remeasured(ReportContent.load(model), rows, measured)
        content.save(model)
        write_pages(content, model)
    if as_json:
        typer.echo(json.dumps(measured))
        return
    typer.echo(evaluation.to_text())
    _say_of_which_class(evaluation, positive, typer.echo)
    typer.echo(f"Calibration error (0 is best): {measured['calibration']['ece']:.3f} (n = {measured['n']})")
    for name, error in measured["calibration"]["by_subgroup"].items():
        n = measured["by_subgroup"][name]["n"]
        typer.echo(f"  {name}: {'no rows' if error is None else f'{error:.3f} (n = {n})'}")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="Folder that `fit` wrote.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the exported model.", show_default=False)],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write ONNX too, checked (extra `onnx`).")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the model for use without supportmatch: torch.export and, if asked for, ONNX."""
    from supportmatch.checkpoint import load_model
    from supportmatch.data.images import PREPARED
    from supportmatch.export import export_model
    from supportmatch.fitting import FitRecord

    side = FitRecord.load(model).side if (model / "fit.json").is_file() else None
    prepared = PREPARED.format(side=side) if side else None
    summary = export_model(load_model(model), out, onnx=onnx, overwrite=overwrite, prepared=prepared)
    checked = f"torch.export differs from the model by at most {summary.program_difference:.0e}"
    if summary.onnx_difference is not None:
        checked += f", ONNX by {summary.onnx_difference:.0e}"
    typer.echo(f"{', '.join(summary.files)} are in {out}; on {summary.checked_on} {checked}.")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `fit` wrote, or a folder of benchmark results.")],
) -> None:
    """Write report.html (and, for a model, MODEL_CARD.md) anew."""
    from supportmatch.fitting import PAGE, write_pages
    from supportmatch.report.content import ReportContent

    if (folder / "rows.jsonl").is_file() or (folder / "runs").is_dir():
        from supportmatch.bench.page import write_bench_page

        typer.echo(f"{write_bench_page(folder)}")
        return
    write_pages(ReportContent.load(folder), folder)
    typer.echo(f"{folder / PAGE}")


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


def _say_of_which_class(evaluation: Evaluation, chosen: str | None, say: Callable[[str], None]) -> None:
    """With more than two classes, say which one rates speak of if nobody chose it."""
    classes = evaluation.grid.classes
    if len(classes) > 2 and chosen is None:
        say(
            f"Positive rate, TPR and TNR speak of class {classes[evaluation.positive]} against all others; choose "
            "another class with --positive."
        )


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print our warnings on standard error, a line each."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SupportMatchWarning)
        yield
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Say that pandas is not there: Arrow would import it only to ask, a third of the time of a command without it."""
    finder = _NoPandas()
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
            _let_arrow_ask_again()


def _let_arrow_ask_again() -> None:
    """Make Arrow forget that pandas was not there, for programs that call `main` and go on."""
    import pyarrow as pa

    with suppress(AttributeError):  # not part of Arrow's promises
        pa.lib._pandas_api.__init__()


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


def _table_source(
    train: Path,
    label: str,
    subgroup: list[str],
    subgroups: list[str] | None,
    deploy: Path | None,
    kinds: tuple[list[str] | None, list[str] | None, list[str] | None],
    missing_values: list[str] | None,
    file_column: str | None,
) -> TableSource:
    """Turn options into what is to be read."""
    from supportmatch.data.columns import Choices, Roles
    from supportmatch.data.files import MISSING_MARKS
    from supportmatch.inspection import TableSource

    roles = Roles(label.strip(), tuple(_split(subgroup)))  # as names in headers are trimmed
    return TableSource(
        train,
        roles,
        deploy,
        _declared(roles.subgroup, subgroups),
        Choices(*(tuple(_split(names)) for names in kinds)),
        MISSING_MARKS if not missing_values else ("", *_split(missing_values)),
        file_column.strip() if file_column is not None else None,
    )


def _declared(columns: Sequence[str], subgroups: list[str] | None) -> tuple[tuple[str, ...] | None, ...] | None:
    """Return the declared subgroups of each column, None for those that are not declared."""
    if not subgroups:
        return None
    declared: dict[str, tuple[str, ...]] = {}
    for text in subgroups:
        name, equals, values = text.partition("=")
        if not equals and len(columns) == 1:
            name, values = columns[0], text
        if name not in columns:
            raise ConfigError(
                f"cannot read --subgroups {text!r}: with several subgroup columns write COLUMN=NAME,NAME for each of "
                f"{', '.join(columns)}."
            )
        declared[name] = tuple(_split(values))
    return tuple(declared.get(name) for name in columns)


def _options_of(
    source: TableSource,
    subgroups: list[str] | None,
    kinds: tuple[list[str] | None, list[str] | None, list[str] | None],
    missing_values: list[str] | None,
) -> list[str]:
    """Return the options that say what is to be read, for the next command."""
    from supportmatch.inspection import join_names

    options = ["--label", source.roles.label, "--subgroup", join_names(source.roles.subgroup)]
    for text in subgroups or ():
        options += ["--subgroups", text]
    lists = [join_names(_split(names)) if names else None for names in (*kinds, missing_values)]
    values = (source.deploy, *lists, source.file_column)
    names = ("--deploy", "--numeric", "--categorical", "--drop", "--missing-values", "--file-column")
    for name, value in zip(names, values, strict=True):
        if value is not None:
            options += [name, str(value)]
    return options + (["--images", "FOLDER"] if source.file_column else [])


def _split(texts: Sequence[str] | str | None) -> list[str]:
    """Read names with commas between them, of one option or of several; a name with a comma in it stands in quotes."""
    texts = [texts] if isinstance(texts, str) else texts or ()
    return [name.strip() for text in texts for name in next(csv.reader([text], skipinitialspace=True)) if name.strip()]


def main() -> None:
    """Run the command; a user's mistake ends with one sentence and exit code 2."""
    # Threads of torch that wait for each other must soon let go of their cores: where something else runs too, a step
    # on two threads otherwise takes many times as long as on one.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if sys.argv[1:2] != ["bench"]:  # which ends processes of its own by SIGTERM
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up as Ctrl-C does
    try:
        app()
    except SupportMatchError as error:
        print(f"supportmatch: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"supportmatch: {_explain(error)}", file=sys.stderr)
        sys.exit(2)


def _explain(error: OSError) -> str:
    """Say what the operating system refused, and what to do."""
    where = f" for {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"No space left on device{where}: make room, then run the same command again."
    if isinstance(error, PermissionError):
        return f"permission denied{where}: correct the permissions, or name another place."
    return f"{error.strerror or error}{where}."
