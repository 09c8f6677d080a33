"""The public functions: the whole pipeline, and what can be asked of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from newkinds.arguments import plain_arguments
from newkinds.assignment import Assignment
from newkinds.cache import Cache, open_cache
from newkinds.discovery import Discovery, read_discovery
from newkinds.errors import UsageError, unknown_name
from newkinds.evaluation.scores import Scores
from newkinds.evaluation.truth import read_truth
from newkinds.files import as_path
from newkinds.images import Scan, Source, check_out, opened_once
from newkinds.images import scan as scan_folder
from newkinds.memory import explained
from newkinds.methods.registry import AUXILIARIES, METHODS
from newkinds.networks import Network
from newkinds.opening import open_growing, open_known, open_pipeline
from newkinds.pipeline.backbone import open_pretrained
from newkinds.pipeline.choice import choose_backbone
from newkinds.pipeline.earlier import Elsewhere
from newkinds.pipeline.known import KnownStages
from newkinds.pipeline.pretraining import auxiliary_run, pretrain_run
from newkinds.pipeline.rehearsing import Rehearsal
from newkinds.pipeline.scoring import score_machine, score_run
from newkinds.predict import predict_images as predict_in
from newkinds.presets import combine, preset_for
from newkinds.progress import Progress, automatic
from newkinds.report.figures import draw_figures
from newkinds.report.run import report_run
from newkinds.runs import RunFolder, names
from newkinds.runs.claim import flat
from newkinds.runs.pictures import is_remembered, unsorted_of
from newkinds.settings import CoreSettings

T = TypeVar("T")


@plain_arguments
def scan(folder: str | Path, *, quick: bool = False, progress: Progress | None = None) -> Scan:
    """Say what is in a folder of pictures or a list of them, and what is broken; change nothing.

    Args:
        folder: a folder, or a .csv or .parquet list.
        quick: read headers only, which finds no broken pictures.
        progress: as in `discover`.
    """
    return scan_folder(as_path(folder), verify=not quick, progress=automatic(progress))


@plain_arguments
@explained("discover", "discover.batch_size")
def discover(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    kinds: int | str | None = None,
    estimator: str | None = None,
    method: str | None = None,
    variant: str | None = None,
    network: str | None = None,
    tune: str | None = None,
    heap: str | None = None,
    seed: int | None = None,
    rehearsals: int | None = None,
    choose: str | None = None,
    anyway: bool = False,
    again: bool = False,
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
        estimator: how it is estimated: "rehearsed", "paper" (Algorithm 2), "labelled" or "ward".
        method: a name from `newkinds methods`; default "dtc".
        variant: of dtc: "baseline", "pi", "te" or "tep".
        network: f: a name from `newkinds networks`; or `timm:NAME`, `FILE.onnx` or `module:function`, which are trained
            already.
        heap: what the unsorted pictures may be of: "new" kinds only, "mixed": known kinds, too; "auto", the default,
            finds it out.
        tune: which part of f is trained: "none", "last", "all", or by default what suits f.
        seed: what all randomness is derived from; default 0.
        rehearsals: how many times known kinds are hidden and sorted, to say how far to trust the result; default 5.
        choose: "auto" takes other settings where rehearsals say that they are clearly better, "off" does not.
        anyway: whether to sort even where rehearsals say that it would not work.
        again: whether to sort the pictures of a finished run anew by what people said since: what they said stays, and
            the other pictures go by it.
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
        "heap": heap,
        "seed": seed,
        "profile": profile,
        "rehearse.rehearsals": rehearsals,
        "rehearse.choose": choose,
        "count.estimator": estimator,
    }
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, given, base)
    _check_used(chosen, variant, estimator, choose)
    say = automatic(progress)
    pipeline = open_pipeline(known, unsorted, out, chosen, truth, weights, data, device, offline, cache, say, auxiliary)
    return pipeline.result(page=page, model=model, anyway=anyway, again=again)


def _check_used(chosen: CoreSettings, variant: str | None, estimator: str | None, choose: str | None) -> None:
    """Raise an error if an option was given that has no say, with the others as they are."""
    if variant is not None and "discover" not in METHODS[chosen.method].sections:
        raise UsageError(
            f"The method {chosen.method!r} has no variants, and --variant {variant} was given.",
            hint="Leave --variant or --method out.",
        )
    if estimator is not None and chosen.kinds != "auto":
        raise UsageError(
            f"--estimator has nothing to estimate: there are {chosen.kinds} kinds, as was said.",
            hint="Leave --estimator or --kinds out.",
        )
    if choose == "auto" and not chosen.rehearse.rehearsals:
        raise UsageError(
            "--choose auto goes by rehearsals, of which none are made.", hint="Ask for some: --rehearsals 5."
        )


@plain_arguments
@explained("grow", "discover.batch_size")
def grow(
    run: str | Path,
    heap: Source,
    *,
    out: str | Path,
    kinds: int | str | None = None,
    rehearsals: int | None = None,
    anyway: bool = False,
    again: bool = False,
    truth: str | Path | None = None,
    pictures: Source | None = None,
    known: Source | None = None,
    network: str | None = None,
    data: str | Path | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    page: bool = True,
    model: bool = True,
    device: str | None = None,
    offline: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Discovery:
    """Go on from a finished run with next week's pictures: same kinds, same names, new kinds beside them.

    Kinds that people accepted are known from now on, with their names. All other pictures of the run come along: those
    that people spoke of stay what they were said to be, the others are sorted together with the new ones. New kinds
    keep their numbers and names; further ones get numbers that no kind has had. The same call again continues an
    interrupted run. The earlier run is left as it is.

    Args:
        run: the run folder to go on from, made by `discover` or by this.
        heap: the new pictures, as `unsorted` in `discover`; what is there already is left out.
        out: the run folder.
        kinds: how many new kinds there are among the pictures of no kind that is known or that people spoke of.
        pictures, known: the earlier run's unsorted and known pictures, where they have moved or were given in memory.
        network: the run's, where that is a `module:function`: the run folder alone runs no code.
        settings: what is to differ from the earlier run's.
        rehearsals, anyway, again, truth, data, page, model, device, offline, cache, progress: as in `discover`.
    """
    given = {"kinds": kinds, "rehearse.rehearsals": rehearsals}
    asked = flat(combine(settings, given).model_dump(exclude_unset=True))
    say, where = automatic(progress), Elsewhere(known, pictures, data)
    pipeline = open_growing(run, heap, out, asked, where, truth, network, device, offline, cache, say)
    return pipeline.result(page=page, model=model, anyway=anyway, again=again)


@plain_arguments
@explained("pretrain", "pretrain.batch_size")
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
    file, say = None if weights is None else as_path(weights), automatic(progress)
    foreign = open_pretrained(chosen, file, offline)  # "auto" stays: here a network is to be trained
    images = open_known(known, out, chosen, foreign, data, say)
    return pretrain_run(images, as_path(out), chosen, file, say, device, foreign)


@plain_arguments
@explained("prepare", "pretrain.batch_size")
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
    chosen, file, say = combine(settings, {}), None if weights is None else as_path(weights), automatic(progress)
    chosen, foreign = choose_backbone(chosen, known, file, out=as_path(out), offline=offline, progress=say)
    images = open_known(known, out, chosen, foreign, data, say)
    return auxiliary_run(images, as_path(out), name, chosen, file, say, device, foreign)


@plain_arguments
@explained("count", "count.max_kinds")
def count(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    estimator: str | None = None,
    heap: str | None = None,
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
    """Estimate how many new kinds there are and return what `count.json` holds: "k" and the curves.

    Args:
        out: the run folder, in which `discover` continues if it is called with the same arguments.
        known, unsorted, estimator, heap, network, seed, weights, data, profile, preset, settings, device, offline,
            cache, progress: as in `discover`.
    """
    given = {
        "kinds": "auto",
        "count.estimator": estimator,
        "heap": heap,
        "network": network,
        "seed": seed,
        "profile": profile,
    }
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, given, base)
    say = automatic(progress)
    pipeline = open_pipeline(known, unsorted, out, chosen, None, weights, data, device, offline, cache, say)
    return _with_network(pipeline, lambda network: pipeline.count(network, pipeline.heap_of(network)))


@plain_arguments
@explained("rehearse", "rehearse.rehearsals")
def rehearse(
    known: Source,
    *,
    like: Source | None = None,
    out: str | Path,
    kinds: int | str | None = None,
    method: str | None = None,
    network: str | None = None,
    seed: int | None = None,
    rehearsals: int | None = None,
    choose: str | None = None,
    weights: str | PathLike[str] | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    preset: str | None = None,
    settings: CoreSettings | Mapping[str, Any] | str | Path | None = None,
    device: str | None = None,
    offline: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Rehearsal:
    """Hide known kinds, sort them as if they were the heap, and return how well that went, and with which settings.

    Args:
        like: unsorted pictures: as many kinds of as many pictures are hidden, as far as there are any. Without it, a
            third of the known kinds are hidden at a time.
        out: the run folder, in which `discover` continues if it is called with the same arguments.
        kinds: the number of new kinds among `like`, or of kinds to hide; default: estimated.
        known, method, network, seed, rehearsals, choose, weights, data, profile, preset, settings, device, offline,
            cache, progress: as in `discover`.
    """
    given = {"kinds": kinds, "method": method, "network": network, "seed": seed, "profile": profile}
    given |= {"rehearse.rehearsals": rehearsals, "rehearse.choose": choose}
    base = None if preset is None else preset_for(preset, known, *(() if like is None else (like,)))
    chosen, say = combine(settings, given, base), automatic(progress)
    if not chosen.rehearse.rehearsals:
        raise UsageError("rehearsals = 0: there is nothing to do.", hint="Ask for 1 or more; 5 are usual.")
    if like is not None:
        pipeline = open_pipeline(known, like, out, chosen, None, weights, data, device, offline, cache, say)
        return _with_network(pipeline, pipeline.rehearsed)
    file, known = None if weights is None else as_path(weights), opened_once(known, labelled=True)
    chosen, foreign = choose_backbone(chosen, known, file, out=as_path(out), offline=offline, progress=say)
    kept = open_cache(say) if cache else Cache()
    images = open_known(known, out, chosen, foreign, data, say)
    stages = KnownStages(
        images, None, as_path(out), chosen, weights=file, foreign=foreign, device=device, cache=kept, progress=say
    )
    return _with_network(stages, stages.rehearse_alone)


def _with_network(stages: KnownStages, stage: Callable[[Network], T]) -> T:
    """Return what a stage makes with the f of a run, which is closed afterwards."""
    try:
        network = stages.network()
        stages.known_quality(network)
        return stage(network)
    finally:
        stages.run.close()


@plain_arguments
@explained("evaluate")
def evaluate(
    run: str | Path,
    truth: str | Path,
    *,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[Scores, Scores]:
    """Score a finished run against the truth and keep the scores in it.

    The truth may be known of a part of the pictures: those are scored, and where they are too few, there is no score.

    Args:
        run: the run folder.
        truth: as in `discover`; or "journal": what people confirmed, against which the machine's own answer is scored.
        images: the run's unsorted pictures, where they have moved (which is remembered) or were given in memory.
        data, progress: as in `discover`.

    Returns:
        The scores of the kinds found, and those of k-means on the features that they started from.
    """
    with RunFolder.open(as_path(run), writing=True) as folder:
        if str(truth) == "journal":
            return score_machine(folder)
        say = automatic(progress)
        return score_run(folder, read_truth(truth, unsorted_of(folder, data, say, images), say))


@plain_arguments
@explained("report")
def report(
    run: str | Path, *, images: Source | None = None, data: str | Path | None = None, progress: Progress | None = None
) -> Path:
    """Make a run's page again and return its path.

    Args:
        run: the run folder.
        images: as in `evaluate`.
        data, progress: as in `discover`.
    """
    with RunFolder.open(as_path(run), writing=True) as folder:
        say = automatic(progress)
        report_run(folder, unsorted_of(folder, data, say, images), progress=say)
        return folder.path / names.PAGE


@plain_arguments
@explained("figures")
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
    with RunFolder.open(as_path(run), writing=out is None or is_remembered(images)) as folder:
        where, say = folder.path / names.FIGURES if out is None else as_path(out), automatic(progress)
        if out is not None:
            check_out(where, *map(folder.source, folder.sources))
        return draw_figures(folder, unsorted_of(folder, data, say, images), where, say)


@plain_arguments
@explained("predict")
def predict(
    run: str | Path,
    images: Source,
    *,
    among: str = "all",
    none: float | None = None,
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
        none: the share of true members that may be called none of these; 0: nothing is; default: the run's setting.
        network: the run's, where that is a `module:function`: the run folder alone runs no code.
        data, device, progress: as in `discover`.
    """
    folder, say = RunFolder.open(as_path(run)), automatic(progress)
    return predict_in(folder, images, among=among, none=none, network=network, data=data, device=device, progress=say)


@plain_arguments
def load(run: str | Path, *, network: str | None = None) -> Discovery:
    """Return what a finished run found.

    Args:
        run: the run folder.
        network: the run's, where `predict` is to be asked of it and it is a `module:function`.
    """
    return read_discovery(RunFolder.open(as_path(run)), network)
