"""The paper's figures of a run, as PNG and SVG: representation and assignments over the epochs, and failures."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.equations import matching
from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import UNKNOWN, as_numbers
from newkinds.files import write_atomic
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Snapshot
from newkinds.plotting import AnnotationBbox, Axes, Figure, ListedColormap, OffsetImage, mpl
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.report.embedding_map import make_map
from newkinds.report.palette import LIGHT
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_assignment, read_scores, read_snapshots

STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "newkinds", "font.size": 8}
MARKERS = "os^DPv*"
POINTS = 2_000  # in a projection
GRID = 36  # pictures across one that shows them
REACH = 2.5  # cells of that grid: how far a picture may be from its point
MARGIN = 0.04
SAMPLED = 50  # rows of the assignments, as in the paper
FAILURES, EACH = 4, 8  # confusions that are shown, and pictures of each


@dataclass(frozen=True)
class Shown:
    """The data for the figures of a run.

    kinds: found, int64 (N,). truth: int64 (N,) and the names of its classes, or None; where it is None, colours are
    those of the kinds.
    """

    images: ImageSet
    features: NDArray[np.float32]
    embedding: NDArray[np.float32]
    kinds: NDArray[np.int64]
    n_kinds: int
    snapshots: Sequence[Snapshot]
    truth: NDArray[np.int64] | None
    classes: tuple[str, ...]
    seed: int

    @property
    def colours(self) -> NDArray[np.int64]:
        """What points are coloured by."""
        return self.kinds if self.truth is None else self.truth

    @property
    def names(self) -> list[str]:
        """What the colours mean."""
        return [f"kind {kind}" for kind in range(self.n_kinds)] if self.truth is None else list(self.classes)


def shown(run: RunFolder, images: ImageSet) -> Shown:
    """Read the data for the figures from a finished run."""
    found, scored = read_assignment(run), read_scores(run)
    truth = scored[2] if scored is not None and scored[0].coverage.enough else None
    return Shown(
        images,
        run.get_array(names.features("unsorted")),
        run.get_array(names.EMBEDDING),
        found.labels,
        len(found.columns),
        read_snapshots(run),
        None if truth is None else as_numbers(truth),
        () if truth is None else tuple(sorted(set(truth) - {UNKNOWN})),
        run.settings.seed,
    )


def draw_figures(run: RunFolder, images: ImageSet, out: Path, progress: Progress = QUIET) -> list[Path]:
    """Draw all figures that a run has the data for, each as NAME.png and NAME.svg in `out`.

    Equal runs give equal bytes. t-SNE over the epochs and the assignments need snapshots (discover.snapshots), failures
    need the truth, and figures with pictures need pictures.
    """
    if os.path.lexists(out) and not out.is_dir():
        raise UsageError(f"{out} is not a folder, so figures cannot be written there.", hint="Choose another --out.")
    what = shown(run, images)
    drawn: list[Path] = []
    for name, draw in FIGURES.items():
        with mpl.rc_context(STYLE):
            figure = draw(what)
        if figure is None:
            progress.say(f"Left out {name}: the run has nothing to draw for it.")
            continue
        ours = out == run.path / names.FIGURES
        if not ours:
            out.mkdir(parents=True, exist_ok=True)
        drawn += save(figure, out / name, run.path if ours else None)
    if not drawn:
        raise DataError(f"There is nothing to draw in {run.path}.", hint="Run `newkinds discover` with --truth.")
    return drawn


def save(figure: Figure, path: Path, root: Path | None = None) -> list[Path]:
    """Write a figure as path.svg, with its text as text, and path.png. root: as in `newkinds.files.replacing`."""
    options: dict[str, dict[str, Any]] = {
        "svg": {"metadata": {"Date": None, "Creator": None}},
        "png": {"dpi": 150, "metadata": {"Software": None}},
    }
    files = []
    for ending, how in options.items():
        drawn, file = io.BytesIO(), path.with_name(f"{path.name}.{ending}")
        with mpl.rc_context(STYLE):
            figure.savefig(drawn, format=ending, **how)
        write_atomic(file, drawn.getvalue(), root)
        files.append(file)
    return files


@dataclass(frozen=True)
class Panel:
    """A projection of one snapshot: places (M, 2), from 0 to 1, and the groups that colour the points (M,)."""

    title: str
    places: NDArray[np.float64]
    groups: NDArray[np.int64]


@dataclass(frozen=True)
class Heat:
    """Probabilities of sampled pictures (rows) and kinds (columns)."""

    title: str
    values: NDArray[np.float64]


def over_epochs(what: Shown) -> Figure | None:
    """Draw t-SNE of the pictures in every snapshot."""
    return draw_panels(panels(what), what.names) if what.snapshots else None


def panels(what: Shown, limit: int = POINTS) -> list[Panel]:
    """Return t-SNE of the pictures in every snapshot; "init" is f's features, before the bottleneck."""
    found = []
    for number, moment in enumerate(what.snapshots):
        points = what.features[moment.items] if moment.epoch == 0 else moment.embedding
        groups = what.colours[moment.items]
        where = make_map(points, groups, what.seed, limit=limit)
        title = f"({chr(ord('a') + number % 26)}) {_when(moment)}"
        found.append(Panel(title, where.places, groups[where.items]))
    return found


def draw_panels(panels: Sequence[Panel], names: Sequence[str]) -> Figure:
    """Draw projections side by side."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.4 * columns, 2.4 * rows + 0.4), layout="constrained")
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            _scatter(axes, panel.places, panel.groups)
            axes.set_title(panel.title)
        _legend(figure, names)
    return figure


def with_images(what: Shown) -> Figure | None:
    """Draw t-SNE of the last state twice: coloured, and with the pictures themselves."""
    if what.images.is_embedding:
        return None
    figure = Figure(figsize=(6, 12.4), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    where = make_map(what.embedding, what.colours, what.seed, limit=POINTS)
    items, places = where.items, where.places
    _scatter(upper, places, what.colours[items])
    for number, place in tiled(places):
        picture = what.images.pixels[items[number]].transpose(1, 2, 0)
        grey = picture.shape[2] == 1
        image = OffsetImage(picture[..., 0] if grey else picture, zoom=11 / picture.shape[0], cmap="gray")
        lower.add_artist(AnnotationBbox(image, place, frameon=False))
    _unit(lower)
    _legend(figure, what.names)
    return figure


def tiled(places: NDArray[np.float64]) -> list[tuple[int, tuple[float, float]]]:
    """Return which of the points (M, 2) are shown as pictures, and where: on a grid, so that none hides another.

    Each goes to the nearest free cell, and is left out if none is within `REACH`.
    """
    centres = (np.stack(np.meshgrid(np.arange(GRID), np.arange(GRID)), axis=-1).reshape(-1, 2) + 0.5) / GRID
    free = np.ones(len(centres), dtype=bool)
    found = []
    for number, place in enumerate(places):
        away = np.where(free, np.square(centres - place).sum(axis=1), np.inf)
        nearest = int(away.argmin())
        if away[nearest] <= (REACH / GRID) ** 2:
            free[nearest] = False
            found.append((number, (float(centres[nearest, 0]), float(centres[nearest, 1]))))
    return found


def assignments(what: Shown) -> Figure | None:
    """Draw P and Q of sampled pictures in every snapshot."""
    return draw_heats(*heats(what)) if what.snapshots else None


def heats(what: Shown) -> tuple[Heat, list[Heat], list[Heat]]:
    """Return the ideal assignments, and P and Q of sampled pictures in every snapshot.

    Rows are sorted by the truth, or by the last kind; kinds are in the order of the classes they match, so that correct
    assignments are on the diagonal.
    """
    groups = what.colours[what.snapshots[-1].items]
    rows, order = _sampled(groups, what.seed), _kind_order(what)
    ideal = np.zeros((len(rows), what.n_kinds))
    ideal[np.arange(len(rows)), np.minimum(groups[rows], what.n_kinds - 1)] = 1
    p, q = (
        [Heat(f"{_when(moment)}: {name}", values[rows][:, order].astype(np.float64)) for moment, values in of_moments]
        for name, of_moments in (
            ("P", [(moment, moment.p) for moment in what.snapshots]),
            ("Q", [(moment, moment.q) for moment in what.snapshots]),
        )
    )
    return Heat("GT" if what.truth is not None else "kinds found", ideal), p, q


def draw_heats(ideal: Heat, p: Sequence[Heat], q: Sequence[Heat]) -> Figure:
    """Draw the ideal, and P above Q: rows are pictures, columns are kinds."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.2 * len(p) + 1.2, 5), layout="constrained")
        grid = figure.subplots(2, len(p) + 1, squeeze=False)
        _heat(grid[0, 0], ideal)
        grid[0, 0].set_ylabel("pictures, by class" if ideal.title == "GT" else "pictures, by kind")
        grid[1, 0].set_axis_off()
        for column, (above, below) in enumerate(zip(p, q, strict=True), start=1):
            _heat(grid[0, column], above)
            _heat(grid[1, column], below)
    return figure


def failures(what: Shown) -> Figure | None:
    """Draw pictures that are in another kind than the one that matches their class: the commonest confusions."""
    if what.truth is None or what.images.is_embedding:
        return None
    confusions = commonest_confusions(what)
    if not confusions:
        return None
    figure = Figure(figsize=(EACH * 0.9, 1.15 * len(confusions)), layout="constrained")
    panels = figure.subplots(len(confusions), EACH, squeeze=False)
    for row, (true, told, items) in enumerate(confusions):
        for column in range(EACH):
            axes = panels[row, column]
            _bare(axes)
            for spine in axes.spines.values():
                spine.set_visible(False)
            if column < len(items):
                picture = what.images.pixels[items[column]].transpose(1, 2, 0)
                axes.imshow(picture[..., 0] if picture.shape[2] == 1 else picture, cmap="gray", interpolation="nearest")
        words = f"{what.classes[true]} taken for {what.classes[told]} ({len(items)})"
        panels[row, 0].set_title(words, loc="left", parse_math=False)
    return figure


def commonest_confusions(what: Shown) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Return the commonest pairs of a class and another whose kind its pictures are in, with those pictures."""
    assert what.truth is not None
    told = _class_of_kind(what)[what.kinds]
    wrong = np.flatnonzero((told != what.truth) & (told >= 0) & (what.truth >= 0))
    pairs, counts = np.unique(np.stack([what.truth[wrong], told[wrong]], axis=1), axis=0, return_counts=True)
    found = []
    for place in np.argsort(-counts, kind="stable")[:FAILURES]:
        true, other = (int(number) for number in pairs[place])
        found.append((true, other, wrong[(what.truth[wrong] == true) & (told[wrong] == other)]))
    return found


FIGURES: dict[str, Callable[[Shown], Figure | None]] = {
    "tsne-over-epochs": over_epochs,
    "tsne-with-images": with_images,
    "p-and-q": assignments,
    "failures": failures,
}


def _when(snapshot: Snapshot) -> str:
    return "init" if snapshot.epoch == 0 else f"epoch {snapshot.epoch}"


def _scatter(axes: Axes, places: NDArray[np.float64], groups: NDArray[np.int64]) -> None:
    """Draw points, coloured by their group; those without one are grey."""
    for group in np.unique(groups):
        colour = "#999999" if group < 0 else LIGHT[group % len(LIGHT)]
        marker = MARKERS[max(group, 0) // len(LIGHT) % len(MARKERS)]
        x, y = places[groups == group].T
        axes.scatter(x, y, s=4, c=colour, marker=marker, linewidths=0, rasterized=True)
    _unit(axes)


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")


def _unit(axes: Axes) -> None:
    """Show the whole of a map, with a margin, at the same scale in all panels."""
    axes.set_xlim(-MARGIN, 1 + MARGIN)
    axes.set_ylim(-MARGIN, 1 + MARGIN)
    _bare(axes)


def _legend(figure: Figure, names: Sequence[str]) -> None:
    """Add a legend of the colours, unless there are too many."""
    if len(names) > 2 * len(LIGHT):
        return
    for number, name in enumerate(names):
        marker = MARKERS[number // len(LIGHT) % len(MARKERS)]
        label = name.replace("$", r"\$")
        figure.axes[0].scatter([], [], s=16, c=LIGHT[number % len(LIGHT)], marker=marker, label=label)
    figure.legend(loc="outside lower center", ncols=6, frameon=False)


def _heat(axes: Axes, heat: Heat) -> None:
    blues = ListedColormap([(1 - 0.84 * x, 1 - 0.6 * x, 1 - 0.26 * x) for x in np.linspace(0, 1, 256)])
    axes.imshow(heat.values, aspect="auto", vmin=0, vmax=1, cmap=blues, interpolation="nearest")
    axes.set_title(heat.title)
    axes.set_xticks([])
    axes.set_yticks([])


def _sampled(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return rows of some pictures of each group, as many of each, sorted by group."""
    present = [group for group in np.unique(groups) if group >= 0]
    each = max(2, SAMPLED // len(present))
    order = generator(seed, "sampled pictures").permutation(len(groups))
    return np.concatenate([np.sort(order[groups[order] == group][:each]) for group in present])


def _kind_order(what: Shown) -> NDArray[np.int64]:
    """Return the kinds in the order of the classes that they match; those that match none come last."""
    if what.truth is None:
        return np.arange(what.n_kinds)
    of_kind = _class_of_kind(what)
    return np.argsort(np.where(of_kind < 0, len(what.classes), of_kind), kind="stable")


def _class_of_kind(what: Shown) -> NDArray[np.int64]:
    """Return the class that each kind is matched with by the best one-to-one matching, -1 for those left over."""
    assert what.truth is not None
    named = what.truth >= 0
    found = matching(what.kinds[named], what.truth[named])
    return np.array([found.get(kind, -1) for kind in range(what.n_kinds)], dtype=np.int64)
