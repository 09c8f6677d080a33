"""The public functions: the whole pipeline, and what can be asked of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newkinds.datasets import named
from newkinds.discovery import Discovery
from newkinds.errors import RunError, UsageError, unknown_name
from newkinds.evaluation.scores import Scores
from newkinds.evaluation.truth import read_truth
from newkinds.images import Source, in_memory, open_images, open_pair
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import LESSONS
from newkinds.networks.files import network_about
from newkinds.networks.foreign import Foreign, check_admitted
from newkinds.networks.sources import largest_side, open_given
from newkinds.pipeline.pretraining import NETWORK, lesson_run, pretrain_run
from newkinds.pipeline.stages import Pipeline
from newkinds.predict import Predictions, predict
from newkinds.presets import Preset, layered, preset_for
from newkinds.progress import QUIET, Progress
from newkinds.report.figures import draw_figures
from newkinds.runs import RunFolder
from newkinds.runs.results import PAGE, read_result, report_run, score_run
from newkinds.settings import Settings, make_settings, merge, read_toml


def discover(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    kinds: int | str | None = None,
    method: str | None = None,
    variant: str | None = None,
    network: str | None = None,
    seed: int | None = None,
    truth: str | Path | None = None,
    weights: str | Path | None = None,
    data: str | Path | None = None,
    preset: str | None = None,
    settings: Settings | Mapping[str, Any] | str | Path | None = None,
    lessons: Mapping[str, str | Path] | None = None,
    page: bool = True,
    model: bool = True,
    progress: Progress = QUIET,
) -> Discovery:
    """Find new kinds among unsorted pictures: pretrain on the known ones, count, cluster, report.

    known: a folder with one folder a kind; a .csv or .parquet list with the columns `path` and `label`; an .npz file
    with `images` or `embeddings` and `labels`; a name from `newkinds datasets`; a mapping from kind to paths; a pair of
    paths, of an array or of arrays and their labels; or an ImageSet: all that `open_images` takes.
    unsorted: the same without kinds; labels, if any, are for scores only.
    out: the run folder. The same call again continues an interrupted run, and returns a finished one at once.
    kinds: the number of new kinds, or "auto" to estimate it. method: a name from `newkinds methods`, default "dtc",
    whose variant is "baseline", "pi", "te" or "tep". network: a name from `newkinds networks`, `timm:NAME`, or
    `module:function`; the last two are trained already.
    weights: a network.safetensors to start from instead of pretraining, or a state dict of the network named.
    data: the folder that data sets called by name lie in, default $NEWKINDS_DATA.
    truth: "folders" (or labels, where the unsorted pictures have them) or a CSV file, for scores only.
    settings: a TOML file, nested values, or `Settings`.
    preset: a name from `newkinds presets`, or "paper", "authors" or "quick" for that of the data set; settings and the
    other arguments come over it. lessons: files that `prepare` made, by the lesson's name. page: whether the
    report is made. model: whether what `predict` needs is kept.
    """
    given = {"kinds": kinds, "method": method, "discover.variant": variant, "network": network, "seed": seed}
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, {key: value for key, value in given.items() if value is not None}, base)
    pipeline = _pipeline(known, unsorted, out, chosen, truth, weights, data, progress, lessons)
    return pipeline.result(page=page, model=model)


def pretrain_known(
    known: Source,
    *,
    out: str | Path,
    network: str | None = None,
    seed: int | None = None,
    preset: str | None = None,
    settings: Settings | Mapping[str, Any] | str | Path | None = None,
    weights: str | Path | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
) -> Path:
    """Train f on the known kinds alone and return the file of its weights, which `discover` takes as `weights`.

    weights: an f that goes on learning, such as one of fewer kinds. The other arguments are those of `discover`; the
    same call again continues an interrupted training.
    """
    given = {"network": network, "seed": seed}
    base = None if preset is None else preset_for(preset, known)
    chosen = combine(settings, {key: value for key, value in given.items() if value is not None}, base)
    file = None if weights is None else Path(weights)
    return pretrain_run(_known(known, out, chosen, file, data, progress), Path(out), chosen, file, progress)


def prepare(
    known: Source,
    lesson: str,
    *,
    out: str | Path,
    weights: str | Path | None = None,
    settings: Settings | Mapping[str, Any] | str | Path | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
) -> Path:
    """Learn from the known kinds alone what a method needs beside f; returns a file, one of `lessons` of `discover`.

    lesson: "similarity" for kcl and mcl, "centroids" for centroid-networks. The other arguments are those of
    `discover`; the same call again continues an interrupted training.
    """
    if lesson not in LESSONS:
        raise unknown_name("lesson", lesson, LESSONS)
    chosen, file = combine(settings, {}), None if weights is None else Path(weights)
    return lesson_run(_known(known, out, chosen, file, data, progress), Path(out), lesson, chosen, file, progress)


def count(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    network: str | None = None,
    seed: int | None = None,
    weights: str | Path | None = None,
    data: str | Path | None = None,
    preset: str | None = None,
    settings: Settings | Mapping[str, Any] | str | Path | None = None,
    progress: Progress = QUIET,
) -> dict[str, Any]:
    """Estimate how many new kinds there are (Algorithm 2) and return what `count.json` holds: "k" and the curves.

    The arguments are those of `discover`, which continues in the same run folder if it is called with the same.
    """
    given = {"kinds": "auto", "network": network, "seed": seed}
    base = None if preset is None else preset_for(preset, known, unsorted)
    chosen = combine(settings, {key: value for key, value in given.items() if value is not None}, base)
    pipeline = _pipeline(known, unsorted, out, chosen, None, weights, data, progress)
    try:
        return pipeline.count(pipeline.network())
    finally:
        pipeline.run.close()


def evaluate(
    run: str | Path,
    truth: str | Path,
    *,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
) -> tuple[Scores, Scores]:
    """Score a finished run against the truth and keep the scores in it.

    truth, data: as in `discover`. images: the run's unsorted pictures, where they have moved or were given in memory.
    Returns the scores of the kinds found and those of k-means on the features they started from.
    """
    folder = RunFolder.open(Path(run))
    return score_run(folder, read_truth(truth, unsorted_of(folder, data, progress, images)))


def report(
    run: str | Path, *, images: Source | None = None, data: str | Path | None = None, progress: Progress = QUIET
) -> Path:
    """Make a run's page again and return it. images: as in `evaluate`. data: as in `discover`."""
    folder = RunFolder.open(Path(run))
    report_run(folder, unsorted_of(folder, data, progress, images), progress=progress)
    return folder.path / PAGE


def figures(
    run: str | Path,
    *,
    out: str | Path | None = None,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
) -> list[Path]:
    """Draw the paper's figures of a finished run into `out`, default RUN/figures, and return the files.

    images: as in `evaluate`. data: as in `discover`.
    """
    folder = RunFolder.open(Path(run))
    where = folder.path / "figures" if out is None else Path(out)
    return draw_figures(folder, unsorted_of(folder, data, progress, images), where, progress)


def predict_images(
    run: str | Path,
    images: Source,
    *,
    among: str = "all",
    network: str | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
) -> Predictions:
    """Return which kind, discovered or known, new pictures belong to. data: as in `discover`.

    network: the run's, which has to be said again where it is a `module:function`: the run folder alone runs no code.
    """
    folder = RunFolder.open(Path(run))
    return predict(folder, _open_for(folder, images, data, progress), among=among, network=network, progress=progress)


def combine(
    settings: Settings | Mapping[str, Any] | str | Path | None,
    changes: Mapping[str, Any],
    preset: Preset | None = None,
) -> Settings:
    """Return settings from a preset, with a file, values or an object over it, and with dotted keys replaced.

    A network that only a file names is refused if it would run code: `changes` are what the user said.
    """
    if isinstance(settings, str | Path):
        where, settings = str(settings), read_toml(Path(settings))
        if "network" not in changes:
            check_admitted(str(settings.get("network")), None, where)
    if isinstance(settings, Settings):
        if preset is not None:
            raise UsageError(
                f"A Settings object has all values and leaves none to the preset {preset.name!r}.",
                hint="Give a dict or a file of those that are to differ from the preset.",
            )
        settings = settings.model_dump()
    layers = [{} if preset is None else preset.values, settings or {}]
    return make_settings(merge(layered(layers, changes.get("discover.variant")), changes))


def _pipeline(
    known: Source,
    unsorted: Source,
    out: str | Path,
    settings: Settings,
    truth: str | Path | None,
    weights: str | Path | None,
    data: str | Path | None,
    progress: Progress,
    lessons: Mapping[str, str | Path] | None = None,
) -> Pipeline:
    RunFolder.check_writable(Path(out))  # before minutes of decoding
    weights = None if weights is None else Path(weights)
    foreign = open_given(settings, weights)
    shape = _shape(settings, foreign, progress)
    pair = open_pair(
        named(known, labelled=True, data=data, **shape) or known,
        named(unsorted, data=data, **shape) or unsorted,
        **shape,
    )
    progress.say(f"{_summary(pair[0])} of {len(pair[0].classes)} kinds")
    progress.say(_summary(pair[1]))
    return Pipeline(
        *pair,
        Path(out),
        settings,
        weights=weights,
        foreign=foreign,
        lessons={name: Path(file) for name, file in (lessons or {}).items()},
        truth=truth,
        progress=progress,
    )


def _known(
    source: Source, out: str | Path, settings: Settings, weights: Path | None, data: str | Path | None, say: Progress
) -> ImageSet:
    """Open known pictures where there are no unsorted ones."""
    RunFolder.check_writable(Path(out))
    shape = _shape(settings, open_given(settings, weights), say)
    images = open_images(named(source, labelled=True, data=data, **shape) or source, labelled=True, **shape)
    say.say(f"{_summary(images)} of {len(images.classes)} kinds")
    return images


def _shape(settings: Settings, foreign: Foreign | None, progress: Progress) -> dict[str, Any]:
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


def _open_for(run: RunFolder, source: Source, data: str | Path | None, progress: Progress) -> ImageSet:
    """Open pictures in the shape that a run's model takes."""
    about = network_about(run.get(NETWORK), str(run.path / NETWORK))
    options = run.settings.images
    shape: dict[str, Any] = {
        "size": None if about["network"] == "identity" else about["size"],
        "channels": about["channels"],
        "fit": options.fit,
        "max_pixels": options.max_pixels,
        "progress": progress,
    }
    return open_images(named(source, data=data, **shape) or source, **shape)


def unsorted_of(run: RunFolder, data: str | Path | None, progress: Progress, images: Source | None = None) -> ImageSet:
    """Open a run's unsorted pictures again: `images`, if they are given, otherwise where the run found them."""
    source = run.sources["unsorted"] if images is None else images
    if isinstance(source, str) and in_memory(source):
        raise RunError(
            f"The unsorted pictures of the run in {run.path} were given in memory ({source}).",
            hint="Give them again, in Python, with images=.",
        )
    opened = _open_for(run, source, data, progress)
    # Those of an array are called by their numbers, which any other array of that length has, too.
    others = images is not None and opened.fingerprint != run.data["unsorted"]["fingerprint"]
    if others or opened.names != read_result(run).names:
        raise RunError(
            f"The pictures in {opened.source} are not, or no longer, those of the run in {run.path}.",
            hint="Put them back, or run `newkinds discover` again with another --out.",
        )
    return opened
