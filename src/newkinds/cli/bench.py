"""The command that measures the paper's tables, with a harness that is not part of the package but of a checkout."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from newkinds.cli.base import Backend, Data, Jobs, Quiet, app, out, progress_for
from newkinds.errors import UsageError
from newkinds.version import __version__

if TYPE_CHECKING:
    from newkinds_bench import Where

HARNESS = "newkinds_bench"  # the package in the folder of the benchmarks
VARIABLE = "NEWKINDS_BENCHMARKS"
PACKAGE = Path(__file__).resolve().parents[1]


@app.command()
def bench(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="The table of the paper to measure; default: list them.")
    ] = None,
    data: Data = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds for each cell.")] = 1,
    preset: Annotated[str, typer.Option(help="ours, paper, authors or quick.")] = "ours",
    only: Annotated[list[str] | None, typer.Option(help="A data set, a part of one or a row; may be repeated.")] = None,
    network: Annotated[str | None, typer.Option(help="A pretrained network: timm:NAME or module:function.")] = None,
    each: Annotated[int | None, typer.Option(help="Use only this many pictures of each kind.")] = None,
    note: Annotated[str, typer.Option(help="A remark about the data, kept with every result.")] = "",
    jobs: Jobs = 1,
    backend: Backend = "loky",
    house: Annotated[
        Path | None,
        typer.Option(help=f"The folder `benchmarks` of a checkout; default: ${VARIABLE}, or that of this checkout."),
    ] = None,
    results: Annotated[Path | None, typer.Option(help="Where to keep the results; default: in that folder.")] = None,
    runs: Annotated[Path, typer.Option(help="Where to put the run folders.")] = Path("runs/bench"),
    weights: Annotated[
        Path | None, typer.Option(help="The folder of pretrained networks; default: in that folder.")
    ] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Make the page and the figures from existing results.")
    ] = False,
    docs: Annotated[Path | None, typer.Option(help="Where to put the page; default: beside that folder.")] = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce one of the paper's tables, as far as the data is available; finished cells are not repeated.

    Example: newkinds bench known-k --data ~/data --seeds 3 --only omniglot
    """
    admit_harness(find_house(house))
    from newkinds_bench import DOCS, Where
    from newkinds_bench import bench as run_bench
    from newkinds_bench import render as render_bench

    usual = Where()
    where = Where(results or usual.results, runs, weights or usual.weights, data, note)
    if render:
        for file in render_bench(where.results, docs or DOCS):
            out.print(str(file), markup=False)
        return
    if table is None:
        _show_tables(where, preset, seeds)
        return
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
        progress=progress_for(quiet),
    )
    out.print(f"{len(names)} results in {where.results}", markup=False)


def find_house(named: Path | None = None, package: Path = PACKAGE) -> Path:
    """Return the folder of the benchmarks: the one that is named, else that of the checkout that the package is in.

    named: the value of --house; without it, the environment variable is used. package: the folder of the package
    newkinds. The current folder is never searched.
    """
    given = named or os.environ.get(VARIABLE)
    if given:
        house = Path(given).expanduser().resolve()
        if not _is_house(house):
            raise UsageError(
                f"{given} does not hold the benchmarks: it has no package {HARNESS}.",
                hint=f"Give the folder `benchmarks` of a newkinds checkout, with --house or ${VARIABLE}.",
            )
        return house
    sources = package.parent
    house = sources.parent / "benchmarks"
    if sources.name == "src" and _is_house(house):
        return house
    raise UsageError(
        "The benchmarks are not part of the installed package.",
        hint=f"Clone the newkinds repository at version {__version__}, and give its folder `benchmarks` with --house "
        f"or ${VARIABLE}.",
    )


def _is_house(folder: Path) -> bool:
    return (folder / HARNESS / "__init__.py").is_file()


def admit_harness(house: Path) -> None:
    """Make the harness importable, here and in the processes that it starts."""
    sys.path.insert(0, str(house))  # first, so that it shadows any other package of that name
    try:
        import_module(HARNESS)
    except ImportError as error:
        raise UsageError(
            f"The benchmarks in {house} do not match newkinds {__version__}: {error}.",
            hint=f"Install the checkout they belong to: pip install -e {house.parent}.",
        ) from None


def _show_tables(where: Where, preset: str, seeds: int) -> None:
    """List the paper's tables: what they are, what they need, how long they take, and how much of them is measured."""
    from newkinds.datasets import DATASETS
    from newkinds_bench import FOLDERS, SETUPS, TABLES, Results, cells

    there = Results(where.results).all()
    shown = Table("table", "what", "data", "minutes", "measured", box=None, pad_edge=False)
    for one in TABLES.values():
        names = [cell.name for cell in cells(one, preset, seeds)]
        measured = f"{sum(name in there for name in names)} of {len(names)}"
        shown.add_row(one.name, one.title, ", ".join(one.setups), str(one.minutes), measured)
    out.print(shown)
    out.print("\nMinutes are approximate, on two cores, for a whole table with one seed. The data sets:")
    for dataset in dict.fromkeys(part.partition(":")[0] for setup in SETUPS.values() for part in setup.unsorted):
        needs = (DATASETS.get(dataset) or FOLDERS[dataset]).needs
        out.print(f"  {dataset}: {needs}", markup=False)
