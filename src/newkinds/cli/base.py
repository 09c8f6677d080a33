"""The typer application, the options that several commands share, and how they are converted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import newkinds as nk
from newkinds.errors import RunError, UsageError

if TYPE_CHECKING:
    from newkinds import Progress, Settings


class Printer:
    """Print results to standard output with rich; nothing while `quiet`."""

    quiet = False

    def print(self, what: object, *, markup: bool = True) -> None:
        """Print a line or a table."""
        if self.quiet:
            return
        from rich.console import Console  # imported late: --version does not need it

        with _said_of_output():
            Console(highlight=False, soft_wrap=True, emoji=False).print(what, markup=markup)

    def write(self, text: str) -> None:
        """Print a text as it is, quiet or not."""
        with _said_of_output():
            sys.stdout.write(text)


@contextmanager
def _said_of_output() -> Iterator[None]:
    """Say that it is standard output that cannot be written; a closed pipe is an end, and no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(
            f"Cannot write to standard output: {error.strerror or error}.",
            hint="Free some space there, or use --to FILE.",
        ) from error


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    # Without a default for --help, typer imports pydantic before it shows a command's help.
    context_settings={"help_option_names": ["-h", "--help"], "default_map": {"help": False}},
    help="Discover new kinds among unsorted pictures, with the help of sorted ones.",
)
out = Printer()
Known = Annotated[
    str,
    typer.Argument(
        metavar="KNOWN",
        help="Sorted pictures: a folder with a subfolder for each kind, a .csv or .parquet list of path,label, an .npz "
        "file, or the name of a data set (`newkinds datasets`).",
    ),
]
Unsorted = Annotated[
    str,
    typer.Argument(
        metavar="UNSORTED", help="Unsorted pictures: a folder, a list of paths, an .npz file or the name of a data set."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="The run folder. The same command again continues an interrupted run.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Network = Annotated[
    str | None,
    typer.Option(
        "--network", help="A name from `newkinds networks`, timm:NAME, FILE.onnx or module:function; default: auto."
    ),
]
Method = Annotated[str | None, typer.Option("--method", help="A name from `newkinds methods`; default: dtc.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed; default: 0.")]
Rehearsals = Annotated[
    int | None,
    typer.Option(
        "--rehearsals",
        help="How often to hide known kinds and sort them, to see how far to trust the result; default: 5.",
    ),
]
Choose = Annotated[
    str | None,
    typer.Option("--choose", help="auto: use other settings where they do clearly better in rehearsals; off: never."),
]
Estimator = Annotated[
    str | None,
    typer.Option("--estimator", help="How to estimate the number of new kinds: rehearsed, paper, labelled or ward."),
]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", help="A network.safetensors, or weights for --network, to use instead of pretraining."),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="The folder that holds the data sets given by name; default: $NEWKINDS_DATA."),
]
Images = Annotated[
    str | None,
    typer.Option(
        "--images",
        "--pictures",
        help="Where the run's unsorted pictures are now, if they have moved; this is remembered.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Where to compute: cuda, cuda:1, mps, cpu, ...; default: the best available."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not download network weights.")]
Heap = Annotated[
    str | None,
    typer.Option(
        "--heap",
        help="What the heap holds: new (new kinds only) or mixed (known ones, too); default: auto, which finds out.",
    ),
]
Tune = Annotated[
    str | None,
    typer.Option("--tune", help="How much of a pretrained network discovery trains: none, last or all; default: auto."),
]
UseCache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Whether to reuse what earlier runs computed, and to keep what later runs can reuse."
    ),
]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", help="A name from `newkinds presets`, or paper, authors or quick for the data set given."),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", help="A name from `newkinds profiles`; default: the one that suits the pictures."),
]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="A TOML file with settings.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting as KEY=VALUE, such as discover.epochs=20; may be repeated."),
]
Kinds = Annotated[str | None, typer.Option(help="The number of new kinds, or auto to estimate it; default: auto.")]
Truth = Annotated[
    str | None, typer.Option(help="The true kinds, used only for scores: a CSV with path,kind, or 'folders'.")
]
Jobs = Annotated[int, typer.Option(help="Number of parallel runs.")]
Backend = Annotated[str, typer.Option(help="The joblib backend of parallel runs: loky, threading, dask or ray.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and results only, no progress.")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"newkinds {nk.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Handle the options that come before a command."""


def progress_for(quiet: bool) -> Progress:
    """Return the progress display of a command."""
    return nk.Progress("silent" if out.quiet else "quiet" if quiet else "auto")


def kinds_from(text: str | None) -> int | str | None:
    """Return the value of --kinds, None if it is not given."""
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--kinds {text!r} is not a number.", hint="Give 2 or more, or auto.") from None


def settings_from(
    file: Path | None,
    assignments: list[str] | None,
    options: dict[str, Any],
    preset: str | None = None,
    pictures: tuple[str, ...] = (),
) -> Settings:
    """Return the settings that were asked for; of --preset, --settings, --set and `options`, later ones win.

    options: dotted settings, None if the option was not given. pictures: what the preset is for: KNOWN and, if there is
    one, UNSORTED.
    """
    from newkinds.presets import combine, preset_for
    from newkinds.settings.files import parse_value

    given: dict[str, Any] = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set {assignment!r} has no '='.", hint="Write it as --set discover.epochs=20")
        given[key.strip()] = parse_value(value.strip())
    given |= {key: value for key, value in options.items() if value is not None}
    return combine(file, given, None if preset is None else preset_for(preset, *pictures))
