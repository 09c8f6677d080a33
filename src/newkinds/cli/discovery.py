"""Commands that make a run, and commands on a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import (
    Choose,
    Data,
    Device,
    Estimator,
    Heap,
    Images,
    Kinds,
    Known,
    Method,
    Network,
    Offline,
    Out,
    PresetName,
    ProfileName,
    Quiet,
    Rehearsals,
    Run,
    Seed,
    Set,
    SettingsFile,
    Truth,
    Tune,
    Unsorted,
    UseCache,
    Weights,
    app,
    kinds_from,
    out,
    progress_for,
    settings_from,
)
from newkinds.cli.show import show_count, show_discovery, show_rehearsal, show_scan, show_scores


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="The run folder to make.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Discover seven Georgian letters; letters of Latin, Greek and Cyrillic are the known kinds.

    Runs the whole pipeline on small pictures, drawn in a font that comes with the installation.

    Example: newkinds demo
    """
    show_discovery(nk.demo(folder, seed=seed, progress=progress_for(quiet)))


@app.command()
def scan(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder or a .csv or .parquet list.")],
    quick: Annotated[bool, typer.Option(help="Read headers only; do not look for broken pictures.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show what a folder or list holds and which files are broken; change nothing.

    Example: newkinds scan photos/known
    """
    show_scan(nk.scan(folder, quick=quick, progress=progress_for(quiet)))


@app.command()
def discover(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    kinds: Kinds = None,
    estimator: Estimator = None,
    heap: Heap = None,
    method: Method = None,
    variant: Annotated[
        str | None, typer.Option(help="For the method dtc: baseline, pi, te or tep; default: pi.")
    ] = None,
    network: Network = None,
    tune: Tune = None,
    seed: Seed = None,
    rehearsals: Rehearsals = None,
    choose: Choose = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Sort the heap even if rehearsals say it would not work.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Sort a finished run again, using what people have said since (newkinds journal)."
        ),
    ] = False,
    truth: Truth = None,
    weights: Weights = None,
    data: Data = None,
    profile: ProfileName = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    device: Device = None,
    offline: Offline = False,
    cache: UseCache = True,
    quiet: Quiet = False,
) -> None:
    """Find new kinds among unsorted pictures: learn from the known kinds, count the new ones, sort and report.

    Example: newkinds discover photos/known photos/unsorted --out runs/shop
    """
    options = {"kinds": kinds_from(kinds), "method": method, "discover.variant": variant}
    options |= {"network": network, "tune": tune, "seed": seed, "profile": profile, "heap": heap}
    options |= {"rehearse.rehearsals": rehearsals, "rehearse.choose": choose, "count.estimator": estimator}
    found = nk.discover(
        known,
        unsorted,
        out=folder,
        variant=variant,
        estimator=estimator,
        choose=choose,
        truth=truth,
        weights=weights,
        data=data,
        settings=settings_from(settings, set_, options, preset, (known, unsorted)),
        device=device,
        offline=offline,
        cache=cache,
        anyway=anyway,
        again=again,
        progress=progress_for(quiet),
    )
    show_discovery(found)


@app.command()
def grow(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder to continue from; it is not changed.")],
    heap: Annotated[
        str, typer.Argument(metavar="HEAP", help="The new pictures, given like UNSORTED of `newkinds discover`.")
    ],
    folder: Out,
    kinds: Annotated[
        str | None,
        typer.Option(help="The number of kinds that nobody has named or corrected yet, or auto; default: auto."),
    ] = None,
    rehearsals: Rehearsals = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Sort the heap even if rehearsals say it would not work.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Sort the grown run again, using what people have said about it since.")
    ] = False,
    truth: Truth = None,
    images: Annotated[
        str | None,
        typer.Option("--images", "--pictures", help="Where the unsorted pictures of RUN are now, if they have moved."),
    ] = None,
    known: Annotated[
        str | None, typer.Option("--known", help="Where the known pictures of RUN are now, if they have moved.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            help="The run's network, if it is a module:function: for safety, no file of a run can start code.",
        ),
    ] = None,
    data: Data = None,
    settings: SettingsFile = None,
    set_: Set = None,
    device: Device = None,
    offline: Offline = False,
    cache: UseCache = True,
    quiet: Quiet = False,
) -> None:
    """Continue a run with next week's pictures: accepted kinds become known, and numbers and names stay.

    Example: newkinds grow runs/week-1 photos/week-2 --out runs/week-2
    """
    options = {"kinds": kinds_from(kinds), "rehearse.rehearsals": rehearsals}
    found = nk.grow(
        run,
        heap,
        out=folder,
        anyway=anyway,
        again=again,
        truth=truth,
        pictures=images,
        known=known,
        network=network,
        data=data,
        settings=settings_from(settings, set_, options),
        device=device,
        offline=offline,
        cache=cache,
        progress=progress_for(quiet),
    )
    show_discovery(found)


@app.command()
def pretrain(
    known: Known,
    folder: Out,
    network: Network = None,
    seed: Seed = None,
    profile: ProfileName = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="A network.safetensors from which to continue training, instead of a new network."),
    ] = None,
    data: Data = None,
    device: Device = None,
    offline: Offline = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on the known kinds once, for many runs of `discover --weights RUN/network.safetensors`.

    Example: newkinds pretrain photos/known --out runs/shop-network
    """
    chosen = settings_from(settings, set_, {"network": network, "seed": seed, "profile": profile}, preset, (known,))
    file = nk.pretrain(
        known,
        out=folder,
        settings=chosen,
        weights=weights,
        data=data,
        device=device,
        offline=offline,
        progress=progress_for(quiet),
    )
    out.print(str(file), markup=False)


@app.command()
def count(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    estimator: Estimator = None,
    heap: Heap = None,
    network: Network = None,
    seed: Seed = None,
    weights: Weights = None,
    data: Data = None,
    profile: ProfileName = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    device: Device = None,
    offline: Offline = False,
    cache: UseCache = True,
    quiet: Quiet = False,
) -> None:
    """Estimate the number of new kinds, with a range, and plot the curves behind it.

    Example: newkinds count photos/known photos/unsorted --out runs/shop
    """
    options = {"count.estimator": estimator, "heap": heap, "network": network, "seed": seed, "profile": profile}
    found = nk.count(
        known,
        unsorted,
        out=folder,
        weights=weights,
        data=data,
        settings=settings_from(settings, set_, options, preset, (known, unsorted)),
        device=device,
        offline=offline,
        cache=cache,
        progress=progress_for(quiet),
    )
    show_count(found, folder)


@app.command()
def rehearse(
    known: Known,
    folder: Out,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="UNSORTED",
            help="Hide about as many kinds, of about the same size, as these pictures hold.",
        ),
    ] = None,
    kinds: Kinds = None,
    method: Method = None,
    network: Network = None,
    seed: Seed = None,
    rehearsals: Rehearsals = None,
    choose: Choose = None,
    weights: Weights = None,
    data: Data = None,
    profile: ProfileName = None,
    preset: PresetName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    device: Device = None,
    offline: Offline = False,
    cache: UseCache = True,
    quiet: Quiet = False,
) -> None:
    """Hide known kinds and sort them like a heap: how well would sorting work, and with which settings?

    Example: newkinds rehearse photos/known --like photos/unsorted --out runs/shop
    """
    options = {"kinds": kinds_from(kinds), "method": method, "network": network, "seed": seed, "profile": profile}
    options |= {"rehearse.rehearsals": rehearsals, "rehearse.choose": choose}
    sources = (known,) if like is None else (known, like)
    found = nk.rehearse(
        known,
        like=like,
        out=folder,
        weights=weights,
        data=data,
        settings=settings_from(settings, set_, options, preset, sources),
        device=device,
        offline=offline,
        cache=cache,
        progress=progress_for(quiet),
    )
    show_rehearsal(found)


@app.command()
def predict(
    run: Run,
    images: Annotated[
        str,
        typer.Argument(
            metavar="IMAGES", help="New pictures: a folder, a list, an .npz file or the name of a data set."
        ),
    ],
    among: Annotated[str, typer.Option(help="Which kinds to choose from: all, new or known.")] = "all",
    none: Annotated[
        float | None,
        typer.Option(
            help="The share of true members that may be called none of these by mistake; 0: no picture "
            "is; default: 0.05."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="The CSV file to write; default: print to the terminal.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            help="The run's network, if it is a module:function: for safety, no file of a run can start code.",
        ),
    ] = None,
    data: Data = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Predict which kind, new or known, further pictures belong to.

    Example: newkinds predict runs/shop photos/today --to today.csv
    """
    if to is not None:
        from newkinds.runs.claim import check_table

        check_table(to)  # before minutes of predicting
    found = nk.predict(
        run, images, among=among, none=none, network=network, data=data, device=device, progress=progress_for(quiet)
    )
    if to is None:
        out.write(found.table().decode())
    else:
        found.to_csv(to)
        out.print(f"{len(found.names)} pictures in {to}", markup=False)


@app.command()
def evaluate(
    run: Run,
    truth: Annotated[
        str,
        typer.Option(
            help="A CSV with path,kind; 'folders'; or 'journal', which uses the pictures that people confirmed."
        ),
    ],
    images: Images = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Score a run against the truth: ACC, NMI, ARI and the error in the number of kinds.

    Example: newkinds evaluate runs/shop --truth folders
    """
    found, baseline = nk.evaluate(run, truth, images=images, data=data, progress=progress_for(quiet))
    show_scores(found, baseline)


@app.command()
def report(run: Run, images: Images = None, data: Data = None, quiet: Quiet = False) -> None:
    """Make the report of a run again.

    Example: newkinds report runs/shop
    """
    out.print(str(nk.report(run, images=images, data=data, progress=progress_for(quiet))), markup=False)


@app.command()
def export(
    run: Run,
    to: Annotated[
        str,
        typer.Option(
            help="folders, csv, jsonl, parquet, coco, label-studio, fiftyone, imagefolder (Hugging Face) or onnx."
        ),
    ],
    target: Annotated[Path, typer.Option("--out", help="The folder or file to write; nothing is overwritten.")],
    names: Annotated[Path | None, typer.Option(help="The names file that was saved from the run's report.")] = None,
    link: Annotated[bool, typer.Option("--link/--copy", help="Link to the pictures instead of copying them.")] = False,
    network: Network = None,
    images: Images = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Export a run for other programs: pictures in a folder for each kind, tables, labels, or the network as ONNX.

    Example: newkinds export runs/shop --to folders --names names.json --out sorted
    """
    made = nk.export(
        run,
        to,
        target,
        names=names,
        link=link,
        images=images,
        data=data,
        network=network,
        progress=progress_for(quiet),
    )
    out.print(str(made), markup=False)


@app.command()
def figures(
    run: Run,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The folder to write them to; default: RUN/figures.")
    ] = None,
    images: Images = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Draw the paper's figures for a run, as PNG and SVG: t-SNE over the epochs and with pictures, P and Q, failures.

    Example: newkinds figures runs/shop
    """
    for file in nk.figures(run, out=folder, images=images, data=data, progress=progress_for(quiet)):
        out.print(str(file), markup=False)
