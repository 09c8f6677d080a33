"""The public functions: the whole pipeline, and what can be asked of a run."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from newkinds.assignment import Assignment
from newkinds.cache import Cache, open_cache
from newkinds.datasets import named
from newkinds.discovery import Discovery, read_discovery
from newkinds.errors import unknown_name
from newkinds.evaluation.scores import Scores
from newkinds.evaluation.truth import read_truth
from newkinds.images import Scan, Source, check_out, check_places, check_shared, open_images, open_pair, opened_once
from newkinds.images import scan as scan_folder
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import AUXILIARIES, METHODS
from newkinds.networks.foreign import Foreign
from newkinds.pipeline.backbone import largest_side, open_pretrained
from newkinds.pipeline.choice import choose_backbone
from newkinds.pipeline.pretraining import auxiliary_run, pretrain_run
from newkinds.pipeline.scoring import score_run
from newkinds.pipeline.stages import Pipeline
from newkinds.predict import predict_images as predict_in
from newkinds.presets import combine, preset_for
from newkinds.progress import Progress, automatic
from newkinds.report.figures import draw_figures
from newkinds.report.run import report_run
from newkinds.runs import RunFolder, names
from newkinds.runs.pictures import is_remembered, unsorted_of
from newkinds.settings import CoreSettings


def scan(folder: str | Path, *, quick: bool = False, progress: Progress | None = None) -> Scan:
    """Say what is in a folder of pictures or a list of them, and what is broken; change nothing.

    Args:
        folder: a folder, or a .csv or .parquet list.
        quick: read headers only, which finds no broken pictures.
        progress: as in `discover`.
    """
    return scan_folder(folder, verify=not quick, progress=automatic(progress))


def discover(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    kinds: int | str | None = None,
    method: str | None = None,
    variant: str | None = None,
    network: str | None = None,
    tune: str | None = None,
    seed: int | None = None,
    truth: str | Path | None = None,
    weights: str | PathLike[str] | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    preset: str | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    auxiliary: Mapping[str, str | Path] | None = None,
    page: bool = True,
    model: bool = True,
    device: str | None = None,
    offline: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Discovery:
    """Find new kinds among unsorted pictures: pretrain on the known ones, count, cluster, report.

    The same call again continues an interrupted run, and returns a finished one at once.

    Args:
        known: sorted pictures: a folder with one folder a kind; a .csv or .parquet list with the columns `path` and
            `label`; an .npz file with `images` or `embeddings` and `labels`; a name from `newkinds datasets`; a mapping
            from kind to paths; a pair of paths, of an array or of arrays and their labels; or an ImageSet.
        unsorted: the same without kinds; labels, if there are any, are for scores only.
        out: the run folder.
        kinds: the number of new kinds, or "auto" to estimate it.
        method: a name from `newkinds methods`; default "dtc".
        variant: of dtc: "baseline", "pi", "te" or "tep".
        network: f: a name from `newkinds networks`; or `timm:NAME`, `FILE.onnx` or `module:function`, which are trained
            already.
        tune: which part of f is trained: "none", "last", "all", or by default what suits f.
        seed: what all randomness is derived from; default 0.
        truth: "folders" (or the labels of the unsorted pictures, where they have them) or a CSV file; for scores only.
        weights: a network.safetensors, or what `load_network` returned, instead of pretraining; or a state dict of the
            network named.
        data: the folder that data sets called by name lie in; default $NEWKINDS_DATA.
        profile: a name from `newkinds profiles`; default: the one that suits the pictures.
        preset: a name from `newkinds presets`, or "paper", "authors" or "quick" for that of the data set; settings and
            the other arguments come over it.
        settings: a TOML file, nested values, or `Settings`.
        auxiliary: files that `prepare` made, by the name of the network.
        page: whether to make the report.
        model: whether to keep what `predict` needs.
        device: where to compute, such as "cuda" or "cpu"; default: the best there is.
        offline: whether to download no weights of networks.
        cache: whether to take from the cache what earlier runs have computed of the same pictures, and to keep there
            what this one computes; it is the folder $NEWKINDS_CACHE, by default ~/.cache/newkinds.
        progress: what shows how far it is. None: bars in a terminal, a line in a notebook, nothing elsewhere;
            `Progress("quiet")`: warnings only.
    """
    given = {
        "kinds": kinds,
        "method": method,
        "discover.variant": variant,
        "network": network,
        "tune": tune,
        "seed": seed,
        "profile": profile,
    }
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, given, base)
    say = automatic(progress)
    pipeline = _pipeline(known, unsorted, out, chosen, truth, weights, data, device, offline, cache, say, auxiliary)
    return pipeline.result(page=page, model=model)


def pretrain(
    known: Source,
    *,
    out: str | Path,
    network: str | None = None,
    seed: int | None = None,
    profile: str | None = None,
    preset: str | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    weights: str | PathLike[str] | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train f on the known kinds alone and return the file of its weights, which `discover` takes as `weights`.

    The same call again continues an interrupted training.

    Args:
        known, seed, profile, preset, settings, data, device, offline, progress: as in `discover`.
        network: as in `discover`; "auto" is one that has learnt nothing yet.
        out: the run folder.
        weights: an f to go on from, such as one of fewer kinds.
    """
    given = {"network": network, "seed": seed, "profile": profile}
    base = None if preset is None else preset_for(preset, known)
    chosen = combine(settings, given, base)
    file, say = None if weights is None else Path(weights), automatic(progress)
    foreign = open_pretrained(chosen, file, offline)  # "auto" stays: here a network is to be trained
    images = _known(known, out, chosen, foreign, data, say)
    return pretrain_run(images, Path(out), chosen, file, say, device, foreign)


def prepare(
    known: Source,
    name: str,
    *,
    out: str | Path,
    weights: str | PathLike[str] | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train an auxiliary network of a method on the known kinds and return its file, for `discover(auxiliary=...)`.

    The same call again continues an interrupted training.

    Args:
        name: of the network: "similarity" for kcl and mcl, "centroids" for centroid-networks.
        out: the run folder.
        known, weights, settings, data, device, offline, progress: as in `discover`.
    """
    if name not in AUXILIARIES:
        raise unknown_name("auxiliary network", name, AUXILIARIES)
    chosen, file, say = combine(settings, {}), None if weights is None else Path(weights), automatic(progress)
    chosen, foreign = choose_backbone(chosen, known, file, out=Path(out), offline=offline, progress=say)
    images = _known(known, out, chosen, foreign, data, say)
    return auxiliary_run(images, Path(out), name, chosen, file, say, device, foreign)


def count(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    network: str | None = None,
    seed: int | None = None,
    weights: str | PathLike[str] | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    preset: str | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    device: str | None = None,
    offline: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Estimate how many new kinds there are (Algorithm 2) and return what `count.json` holds: "k" and the curves.

    Args:
        out: the run folder, in which `discover` continues if it is called with the same arguments.
        known, unsorted, network, seed, weights, data, profile, preset, settings, device, offline, cache, progress: as
            in `discover`.
    """
    given = {"kinds": "auto", "network": network, "seed": seed, "profile": profile}
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, given, base)
    say = automatic(progress)
    pipeline = _pipeline(known, unsorted, out, chosen, None, weights, data, device, offline, cache, say)
    try:
        found = pipeline.network()
        pipeline.known_quality(found)
        return pipeline.count(found)
    finally:
        pipeline.run.close()


def evaluate(
    run: str | Path,
    truth: str | Path,
    *,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[Scores, Scores]:
    """Score a finished run against the truth and keep the scores in it.

    Args:
        run: the run folder.
        images: the run's unsorted pictures, where they have moved (which is remembered) or were given in memory.
        truth, data, progress: as in `discover`.

    Returns:
        The scores of the kinds found, and those of k-means on the features that they started from.
    """
    with RunFolder.open(Path(run), writing=True) as folder:
        return score_run(folder, read_truth(truth, unsorted_of(folder, data, automatic(progress), images)))


def report(
    run: str | Path, *, images: Source | None = None, data: str | Path | None = None, progress: Progress | None = None
) -> Path:
    """Make a run's page again and return its path.

    Args:
        run: the run folder.
        images: as in `evaluate`.
        data, progress: as in `discover`.
    """
    with RunFolder.open(Path(run), writing=True) as folder:
        say = automatic(progress)
        report_run(folder, unsorted_of(folder, data, say, images), progress=say)
        return folder.path / names.PAGE


def figures(
    run: str | Path,
    *,
    out: str | Path | None = None,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Draw the paper's figures of a finished run and return the files.

    Args:
        run: the run folder.
        out: the folder they go to; default RUN/figures.
        images: as in `evaluate`.
        data, progress: as in `discover`.
    """
    with RunFolder.open(Path(run), writing=out is None or is_remembered(images)) as folder:
        where, say = folder.path / names.FIGURES if out is None else Path(out), automatic(progress)
        return draw_figures(folder, unsorted_of(folder, data, say, images), where, say)


def predict(
    run: str | Path,
    images: Source,
    *,
    among: str = "all",
    network: str | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Assignment:
    """Return which kind, discovered or known, new pictures belong to.

    Args:
        run: the run folder.
        images: new pictures, as `unsorted` in `discover`.
        among: "all" kinds, or only the "new" or the "known" ones.
        network: the run's, where that is a `module:function`: the run folder alone runs no code.
        data, device, progress: as in `discover`.
    """
    folder, say = RunFolder.open(Path(run)), automatic(progress)
    return predict_in(folder, images, among=among, network=network, data=data, device=device, progress=say)


def load(run: str | Path, *, network: str | None = None) -> Discovery:
    """Return what a finished run found.

    Args:
        run: the run folder.
        network: the run's, where `predict` is to be asked of it and it is a `module:function`.
    """
    return read_discovery(RunFolder.open(Path(run)), network)


def _pipeline(
    known: Source,
    unsorted: Source,
    out: str | Path,
    settings: CoreSettings,
    truth: str | Path | None,
    weights: str | PathLike[str] | None,
    data: str | Path | None,
    device: str | None,
    offline: bool,
    cache: bool,
    progress: Progress,
    auxiliary: Mapping[str, str | Path] | None = None,
) -> Pipeline:
    check_out(Path(out), known, unsorted)
    RunFolder.check_writable(Path(out))  # before minutes of decoding
    check_places(known, unsorted)
    kept = open_cache(progress) if cache else Cache()
    file = None if weights is None else Path(weights)
    known = opened_once(known, labelled=True)
    if METHODS[settings.method].takes_features(settings):
        settings, foreign = choose_backbone(settings, known, file, out=Path(out), offline=offline, progress=progress)
    else:
        foreign = open_pretrained(settings, file, offline)
    pair = open_sets(known, unsorted, settings, foreign, data, kept, progress)
    progress.say(f"{_summary(pair[0])} of {len(pair[0].classes)} kinds")
    progress.say(_summary(pair[1]))
    shared = check_shared(*pair)
    if shared is not None:
        progress.warn(shared)
    return Pipeline(
        *pair,
        Path(out),
        settings,
        weights=file,
        foreign=foreign,
        auxiliary={name: Path(file) for name, file in (auxiliary or {}).items()},
        truth=truth,
        device=device,
        cache=kept,
        progress=progress,
    )


def open_sets(
    known: Source,
    unsorted: Source,
    settings: CoreSettings,
    foreign: Foreign | None,
    data: str | Path | None,
    cache: Cache,
    progress: Progress,
) -> tuple[ImageSet, ImageSet]:
    """Open known and unsorted pictures as a discovery with these settings does. foreign: its network from elsewhere."""
    shape = _shape(settings, foreign, progress)
    return open_pair(
        named(known, labelled=True, data=data, **shape) or known,
        named(unsorted, data=data, **shape) or unsorted,
        **shape,
        cache=cache,
    )


def _known(
    source: Source,
    out: str | Path,
    settings: CoreSettings,
    foreign: Foreign | None,
    data: str | Path | None,
    say: Progress,
) -> ImageSet:
    """Open known pictures where there are no unsorted ones."""
    check_out(Path(out), source)
    RunFolder.check_writable(Path(out))
    shape = _shape(settings, foreign, say)
    images = open_images(named(source, labelled=True, data=data, **shape) or source, labelled=True, **shape)
    say.say(f"{_summary(images)} of {len(images.classes)} kinds")
    return images


def _shape(settings: CoreSettings, foreign: Foreign | None, progress: Progress) -> dict[str, Any]:
    """Return what the settings and a network from elsewhere say about opening pictures, as arguments."""
    options = settings.images
    return {
        "size": None if options.size == "auto" else options.size,
        "largest": largest_side(settings, foreign),
        "fit": options.fit,
        "max_pixels": options.max_pixels,
        "progress": progress,
    }


def _summary(images: ImageSet) -> str:
    shape = f"{images.channels} numbers each" if images.is_embedding else f"{images.size}x{images.size}"
    skipped = f"; {len(images.skipped)} files skipped" if images.skipped else ""
    return f"{images.source}: {len(images)} pictures, {shape}{skipped}"
