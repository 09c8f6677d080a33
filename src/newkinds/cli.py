"""The command line. Each command is a function of `newkinds.api` with its words around it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from newkinds import api
from newkinds.bench import SETUPS, TABLES, Where, cells
from newkinds.bench import bench as run_bench
from newkinds.bench import render as render_bench
from newkinds.compare import Comparison
from newkinds.compare import compare as compare_methods
from newkinds.count import in_words
from newkinds.datasets import DATASETS
from newkinds.demo import run_demo
from newkinds.errors import NewkindsError, UsageError
from newkinds.evaluate import Scores
from newkinds.images import scan as scan_folder
from newkinds.memory import keep_freed_memory
from newkinds.methods import METHODS
from newkinds.networks import FOREIGN, NETWORKS
from newkinds.presets import Preset, all_presets, find_preset, preset_for
from newkinds.progress import Progress
from newkinds.result import Discovery
from newkinds.settings import Settings, parse_value
from newkinds.version import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Discover new kinds among unsorted pictures, with the help of pictures that are sorted.",
)
out = Console(highlight=False, soft_wrap=True)

Known = Annotated[
    str,
    typer.Argument(
        metavar="KNOWN",
        help="Sorted pictures: a folder with one folder a kind, an .npz file, or a name from `newkinds datasets`.",
    ),
]
Unsorted = Annotated[
    str, typer.Argument(metavar="UNSORTED", help="Unsorted pictures: a folder, an .npz file or such a name.")
]
Out = Annotated[Path, typer.Option("--out", help="The run folder. The same line again continues an interrupted run.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Network = Annotated[
    str | None,
    typer.Option("--network", help="A name from `newkinds networks`, timm:NAME or module:function; default: auto."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="What all randomness hangs on; default: 0.")]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", help="A network.safetensors, or weights of --network, instead of pretraining."),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="The folder that data sets called by name lie in; default: $NEWKINDS_DATA."),
]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", help="A name from `newkinds presets`, or paper, authors or quick for the data set given."),
]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="A TOML file with any of the settings.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="One setting, as KEY=VALUE: discover.epochs=20. May be repeated.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, warnings and results only.")]


def _version(show: bool) -> None:
    if show:
        out.print(f"newkinds {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Take the options that come before a command."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the two runs go.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="What all randomness hangs on.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Discover handwritten digits: 0 to 4 are known, 5 to 9 are not.

    Runs the whole pipeline on data that comes with the installation, with the number of kinds estimated and then given.

    Example: newkinds demo
    """
    run_demo(folder, seed, _progress(quiet), out)


@app.command()
def scan(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of pictures.")],
    quick: Annotated[bool, typer.Option(help="Read headers only: do not look for broken pictures.")] = False,
    quiet: Quiet = False,
) -> None:
    """Say what is in a folder and what is broken; change nothing.

    Example: newkinds scan photos/known
    """
    found = scan_folder(folder, verify=not quick, progress=_progress(quiet))
    kinds: dict[str, int] = {}
    for picture in found.found:
        top = picture.name.split("/")[0] if "/" in picture.name else "(not in a folder)"
        kinds[top] = kinds.get(top, 0) + 1
    for kind, number in sorted(kinds.items()):
        out.print(f"{number:8d}  {kind}", markup=False)
    for skipped in found.skipped:
        out.print(f" skipped  {skipped.name}: {skipped.reason}", markup=False)
    out.print(f"{len(found.found)} pictures in {len(kinds)} folders, {len(found.skipped)} files skipped")


@app.command()
def discover(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    kinds: Annotated[str | None, typer.Option(help="How many new kinds there are, or auto; default: auto.")] = None,
    method: Annotated[str | None, typer.Option(help="A name from `newkinds methods`; default: dtc.")] = None,
    variant: Annotated[str | None, typer.Option(help="Of dtc: baseline, pi, te or tep; default: pi.")] = None,
    network: Network = None,
    seed: Seed = None,
    truth: Annotated[
        str | None, typer.Option(help="The true kinds, for scores only: a CSV with path,kind, or 'folders'.")
    ] = None,
    weights: Weights = None,
    data: Data = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    quiet: Quiet = False,
) -> None:
    """Find new kinds among unsorted pictures: pretrain on the known, count, cluster, report.

    Example: newkinds discover photos/known photos/unsorted --out runs/shop
    """
    given = _given(set_, {"method": method, "discover.variant": variant, "network": network, "seed": seed})
    if kinds is not None:
        given["kinds"] = _kinds(kinds)
    chosen = api.combine(settings, given, _preset(preset, known, unsorted))
    found = api.discover(
        known, unsorted, out=folder, truth=truth, weights=weights, data=data, settings=chosen, progress=_progress(quiet)
    )
    _show_discovery(found)


@app.command()
def compare(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    methods: Annotated[
        str, typer.Option(help="Names from `newkinds methods`, with commas, or all.")
    ] = "kmeans,lsc,mcl,dtc",
    kinds: Annotated[str | None, typer.Option(help="How many new kinds there are, or auto; default: auto.")] = None,
    seeds: Annotated[int, typer.Option(help="How many runs of each method.")] = 3,
    truth: Annotated[str | None, typer.Option(help="The true kinds: a CSV with path,kind, or 'folders'.")] = None,
    weights: Weights = None,
    data: Data = None,
    settings: SettingsFile = None,
    set_: Set = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 1,
    backend: Annotated[str, typer.Option(help="What spreads them: loky, threading, dask or ray.")] = "loky",
    quiet: Quiet = False,
) -> None:
    """Sort the same pictures by several methods, on one network, and show them side by side.

    Example: newkinds compare photos/known photos/unsorted --methods kmeans,lsc,dtc --kinds 12 --out runs/all
    """
    given = _given(set_, {})
    if kinds is not None:
        given["kinds"] = _kinds(kinds)
    found = compare_methods(
        known,
        unsorted,
        out=folder,
        methods=list(METHODS) if methods == "all" else methods.split(","),
        seeds=seeds,
        truth=truth,
        weights=weights,
        data=data,
        settings=api.combine(settings, given),
        jobs=jobs,
        backend=backend,
        progress=_progress(quiet),
    )
    _show_comparison(found)


@app.command()
def figures(
    run: Run,
    folder: Annotated[Path | None, typer.Option("--out", help="Where they go; default: RUN/figures.")] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Draw the paper's figures of a run, as PNG and SVG: t-SNE over the epochs and with pictures, P and Q, failures.

    Example: newkinds figures runs/shop
    """
    for file in api.figures(run, out=folder, data=data, progress=_progress(quiet)):
        out.print(str(file), markup=False)


@app.command()
def bench(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One of the paper's; without: a list.")] = None,
    data: Data = None,
    seeds: Annotated[int, typer.Option(help="How many runs of each cell.")] = 1,
    preset: Annotated[str, typer.Option(help="ours, paper, authors or quick.")] = "ours",
    only: Annotated[list[str] | None, typer.Option(help="A data set, a part of one or a row. May be repeated.")] = None,
    network: Annotated[str | None, typer.Option(help="An f trained already: timm:NAME, module:function.")] = None,
    each: Annotated[int | None, typer.Option(help="So many pictures of each kind, where all take too long.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 1,
    backend: Annotated[str, typer.Option(help="What spreads them: loky, threading, dask or ray.")] = "loky",
    results: Annotated[Path, typer.Option(help="Where the results are kept.")] = Path("bench/results"),
    runs: Annotated[Path, typer.Option(help="Where the run folders go.")] = Path("runs/bench"),
    weights: Annotated[Path, typer.Option(help="The folder of networks that are trained already.")] = Path("weights"),
    render: Annotated[bool, typer.Option("--render", help="Make the page and the figures from the results.")] = False,
    docs: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("docs"),
    quiet: Quiet = False,
) -> None:
    """Measure one of the paper's tables again, as far as the data is there; what is measured is not repeated.

    Example: newkinds bench known-k --data ~/data --seeds 3 --only omniglot
    """
    if render:
        for file in render_bench(results, docs):
            out.print(str(file), markup=False)
        return
    if table is None:
        _show_tables(results, preset, seeds)
        return
    where = Where(results, runs, weights, data)
    names = run_bench(
        table,
        seeds=seeds,
        preset=preset,
        only=only or (),
        network=network,
        each=each,
        where=where,
        jobs=jobs,
        backend=backend,
        progress=_progress(quiet),
    )
    out.print(f"{len(names)} results in {results}", markup=False)


@app.command()
def pretrain(
    known: Known,
    folder: Out,
    network: Network = None,
    seed: Seed = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Learn the known kinds alone, once for many discoveries: `discover --weights RUN/network.safetensors`.

    Example: newkinds pretrain photos/known --out runs/shop-network
    """
    chosen = api.combine(settings, _given(set_, {"network": network, "seed": seed}), _preset(preset, known))
    weights = api.pretrain_known(known, out=folder, settings=chosen, data=data, progress=_progress(quiet))
    out.print(str(weights), markup=False)


@app.command()
def count(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    network: Network = None,
    seed: Seed = None,
    weights: Weights = None,
    data: Data = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    quiet: Quiet = False,
) -> None:
    """Estimate how many new kinds there are: the number, an interval, the curves behind it and a picture of them.

    Example: newkinds count photos/known photos/unsorted --out runs/shop
    """
    chosen = api.combine(settings, _given(set_, {"network": network, "seed": seed}), _preset(preset, known, unsorted))
    found = api.count(
        known, unsorted, out=folder, weights=weights, data=data, settings=chosen, progress=_progress(quiet)
    )
    out.print(in_words(found), markup=False)
    out.print(f"Curves in {folder / 'count.json'} and {folder / 'count.png'}", markup=False)


@app.command()
def predict(
    run: Run,
    images: Annotated[str, typer.Argument(metavar="IMAGES", help="New pictures: a folder, an .npz file or a name.")],
    among: Annotated[str, typer.Option(help="all kinds, or only new or known ones.")] = "all",
    to: Annotated[Path | None, typer.Option("--to", help="The CSV file to write; default: print.")] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="The run's, if that was a module:function: no file runs code.")
    ] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Say which discovered or known kind new pictures belong to.

    Example: newkinds predict runs/shop photos/today --to today.csv
    """
    found = api.predict_images(run, images, among=among, network=network, data=data, progress=_progress(quiet))
    if to is None:
        sys.stdout.write(found.table().decode())
    else:
        found.to_csv(to)
        out.print(f"{len(found.names)} pictures in {to}", markup=False)


@app.command()
def evaluate(
    run: Run,
    truth: Annotated[str, typer.Option(help="A CSV with path,kind, or 'folders'.")],
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Score a run against the truth: ACC, NMI, ARI, error in the number of kinds.

    Example: newkinds evaluate runs/shop --truth folders
    """
    found, baseline = api.evaluate(run, truth, data=data, progress=_progress(quiet))
    _show_scores(found, baseline)


@app.command()
def report(run: Run, data: Data = None, quiet: Quiet = False) -> None:
    """Make the page of a run again.

    Example: newkinds report runs/shop
    """
    out.print(str(api.report(run, data=data, progress=_progress(quiet))), markup=False)


@app.command()
def methods() -> None:
    """List the methods by name: deep transfer clustering and what it can be compared with.

    Example: newkinds methods
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, entry in METHODS.items():
        table.add_row(name, entry.line)
    out.print(table)


@app.command()
def networks() -> None:
    """List the networks by name.

    Example: newkinds networks
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, entry in NETWORKS.items():
        table.add_row(name, entry.description)
    for name, description in FOREIGN.items():
        table.add_row(name, escape(description))
    out.print(table)
    out.print("The last two are trained already and see pictures at their own size; --set network_size=96 is faster.")


@app.command()
def datasets() -> None:
    """List the data sets that can be given by name: their parts, what they need below --data, and where to get it.

    Example: newkinds datasets
    """
    for one in DATASETS.values():
        out.print(f"[bold]{one.name}[/]  {one.title}{', ' if one.address else ''}{one.address}")
        defaults = {one.known: " (KNOWN by default)", one.unsorted: " (UNSORTED by default)"}
        table = Table(box=None, show_header=False, pad_edge=False)
        for part, about in one.parts.items():
            table.add_row(f"  {one.name}:{part}", about + defaults.get(part, ""))
        if one.needs:
            table.add_row("  needs", one.needs)
        out.print(table)


@app.command("settings")
def show_settings() -> None:
    """Show every setting with its default, as TOML that --settings takes.

    Example: newkinds settings > my.toml
    """
    sys.stdout.write(Settings().to_toml())


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The preset to show.")] = None,
) -> None:
    """List the presets for the paper's data sets, or show one as TOML that --settings takes, with its reasons.

    Example: newkinds presets omniglot-paper > my.toml
    """
    if name is not None:
        sys.stdout.write(find_preset(name).text)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for one in all_presets().values():
        table.add_row(one.name, one.dataset, escape(one.about))
    out.print(table)


class Stopped(BaseException):
    """A signal asked for the end. Not an Exception: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    keep_freed_memory()
    out.quiet = os.environ.get("RANK", "0") != "0"  # of the processes that torchrun starts, the first one speaks
    try:
        app(prog_name="newkinds")
    except NewkindsError as error:
        _fail(f"Error: {error.message}", error.hint, error.exit_code)
    except Stopped as stopped:
        _fail("Stopped; what is done is kept. To continue, type the same line again:", _line(), 128 + stopped.number)
    except OSError as error:
        _fail(f"Error: {error}", "Mend that and type the same line again: " + _line(), 1)
    raise SystemExit(0)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _line() -> str:
    return shlex.join(["newkinds", *sys.argv[1:]])


def _fail(message: str, hint: str, code: int) -> NoReturn:
    for line in (message, hint):
        if line:
            print(line, file=sys.stderr)
    raise SystemExit(code)


def _progress(quiet: bool) -> Progress:
    return Progress("silent" if out.quiet else "quiet" if quiet else "auto")


def _kinds(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--kinds {text!r} is not a number.", hint="Give a number of 2 or more, or auto.") from None


def _preset(name: str | None, known: str, unsorted: str | None = None) -> Preset | None:
    return None if name is None else preset_for(name, known, unsorted)


def _given(assignments: list[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return dotted settings from --set and from the options that have a value."""
    given: dict[str, Any] = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set {assignment!r} has no '='.", hint="Write it as --set discover.epochs=20")
        given[key.strip()] = parse_value(value.strip())
    return given | {key: value for key, value in options.items() if value is not None}


def _show_tables(results: Path, preset: str, seeds: int) -> None:
    """List the paper's tables: what they are, what they need, how long they take, and how much of them is there."""
    shown = Table("table", "what", "data", "minutes", "measured", box=None, pad_edge=False)
    for one in TABLES.values():
        names = [cell.name for cell in cells(one, preset, seeds)]
        there = sum((results / f"{name}.json").exists() for name in names)
        shown.add_row(one.name, one.title, ", ".join(one.setups), str(one.minutes), f"{there} of {len(names)}")
    out.print(shown)
    out.print("\nMinutes are about those of two cores, for all of a table and one seed. The data sets:")
    for dataset in dict.fromkeys(part.partition(":")[0] for setup in SETUPS.values() for part in setup.unsorted):
        out.print(f"  {dataset}: {DATASETS[dataset].needs}", markup=False)


def _show_comparison(found: Comparison) -> None:
    table = Table(box=None, pad_edge=False)
    names = {"method": "method", "acc": "ACC", "nmi_geometric": "NMI", "ari": "ARI", "kinds": "kinds"}
    names |= {"seconds": "seconds", "megabytes": "MB"}
    shown = [name for name in names if any(row[name] is not None for row in found.methods)]
    for name in shown:
        table.add_column(names[name], justify="left" if name == "method" else "right")
    for row in found.methods:
        table.add_row(*(row[name] if name == "method" else _measured(row[name], row[f"{name}_std"]) for name in shown))
    out.print(table)
    out.print(f"report  {found.page}", markup=False)


def _measured(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.3g}" if deviation is None else f"{mean:.3g} ± {deviation:.2g}"


def _show_discovery(found: Discovery) -> None:
    sizes = np.unique(found.kinds, return_counts=True)[1]
    asked = found.probabilities.shape[1]
    empty = f"; {asked - found.n_kinds} of {asked} stayed empty" if found.n_kinds < asked else ""
    out.print(
        f"{len(found.names)} pictures in {found.n_kinds} new kinds, of {sizes.min()} to {sizes.max()} pictures{empty}"
    )
    if found.scores is not None and found.kmeans_scores is not None:
        _show_scores(found.scores, found.kmeans_scores)
    if found.choice is not None:
        out.print(f"state   {found.choice['kept']} epoch: {found.choice['why']}", markup=False)
    out.print(f"kinds   {found.path / 'kinds.csv'}\nreport  {found.path / 'report' / 'index.html'}", markup=False)


def _show_scores(found: Scores, baseline: Scores) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("", "ACC", "NMI (geometric)", "NMI (arithmetic)", "ARI", "kinds found", "true kinds"):
        table.add_column(title, justify="left" if not title else "right")
    for title, scores in (("k-means on the features", baseline), ("discovered", found)):
        numbers = (scores.acc, scores.nmi_geometric, scores.nmi_arithmetic, scores.ari)
        table.add_row(title, *(f"{number:.3f}" for number in numbers), str(scores.n_found), str(scores.n_true))
    out.print(table)
