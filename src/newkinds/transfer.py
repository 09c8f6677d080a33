"""Transfer: what the known kinds teach about the features of a frozen backbone.

The known kinds say in which directions pictures of one kind differ. Features x, at length 1, become

    z = A (x - m) / |A (x - m)|

where m is the mean of the known pictures and A is made of two parts. *Whitening* divides by the pooled covariance W of
the known kinds about their own means, shrunk towards a sphere, so that what varies inside kinds counts less; all
directions are kept (but for a PCA that drops those of no variance to speak of). The *projection* is a linear map that
starts as the identity and learns, for a few steps, to bring pictures of a known kind near their prototype. How far to
shrink, how many steps, and whether to transfer at all, is chosen on known kinds that neither part has seen: never on
the heap.

A way to transfer has a name: "none", "whiten-0.1" (by how much W is shrunk), "project-75" (the steps), or
"whiten-0.1+project-75".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from newkinds.clustering.neighbours import directions, directions_float32, nearest_by_direction
from newkinds.memory import check_room, row_blocks
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, one_thread
from newkinds.settings.transfer import Transfer as TransferSettings

NEIGHBOURS = 10  # pictures around a hidden one, of which those of its kind are counted
FEWEST_KINDS, FEWEST_PICTURES = 4, 8  # known kinds, and pictures more than kinds, without which nothing can be learnt
MANY = 4096  # pictures that are enough for the principal components of features wider than this
TIGHTEST = 1e-6  # of the whole variance: what varies inside kinds counts as at least this
TAKES = 34  # bytes for each number of the features: at length 1, centred, some of them, and these about their means
DIGITS = 4  # of the share of neighbours, beyond which ways count as equally good


@dataclass(frozen=True, eq=False)
class Transfer:
    """A linear map of features, and what was found about the ways to make one.

    mean: m, float32 (d,). matrix: A transposed, float32 (d, w), or None for features that stay as they are but for
    their length. tried: for each way, the mean share of a hidden picture's neighbours that are of its kind and its
    standard error over the folds. chosen: which of them it is.
    """

    mean: NDArray[np.float32]
    matrix: NDArray[np.float32] | None
    chosen: str
    tried: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features (N, d) of the backbone, transferred: float32 (N, w), of length 1."""
        if self.matrix is None:
            return directions_float32(features)
        matrix = self.matrix.astype(np.float64)
        moved = np.empty((len(features), matrix.shape[1]), np.float32)
        for rows in row_blocks(*features.shape):
            moved[rows] = directions_float32((directions(features[rows]) - self.mean) @ matrix)
        return moved


def learn_transfer(
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    settings: TransferSettings,
    *,
    further: Sequence[NDArray[np.float32]] = (),
    seed: int = 0,
    progress: Progress = QUIET,
) -> Transfer:
    """Return the transfer that the known kinds choose among the ways that the settings allow.

    features: of the known pictures, float32 (N, d). labels: int64 (N,). further: features of the same pictures in other
    views, (N, d) each, to learn from: ways are compared by the pictures as they are.
    """
    rows = len(features) * (1 + len(further))
    check_room(
        rows * features.shape[1] * TAKES if settings.kind != "none" else 0,
        f"Learning from {rows:,} known features of {features.shape[1]:,} numbers",
        "Give fewer known pictures, or say --set transfer.kind=none.",
    )
    plain = np.arange(rows) < len(features)
    features = np.concatenate([features, *further]) if further else features
    labels = np.tile(labels, 1 + len(further))
    folds = _folds(labels, settings.folds, seed) if _enough(labels) and _leaves_a_choice(settings) else []
    if settings.kind == "none" or (settings.kind == "auto" and not folds):
        return untouched(features.shape[1])
    unit = directions(features)
    mean, basis = principal(unit, settings.dimensions)
    reduced = (unit - mean) @ basis
    shares: dict[str, list[float]] = {}

    def compare(ways: list[str]) -> None:
        """Add what hidden kinds say of each way."""
        for number, hidden in enumerate(folds):
            kept = ~np.isin(labels, hidden)
            looked_at = ~kept & plain
            matrices = _matrices(reduced[kept], labels[kept], settings, ways, seed, number)
            for way in ways:
                moved = reduced[looked_at] @ matrices[way] if way != "none" else unit[looked_at]
                shares.setdefault(way, []).append(share_of_kind(moved, labels[looked_at]))
            bar.advance()

    with progress.step("What the known kinds teach about features", 2 * len(folds)) as bar:
        first = _first_ways(settings)
        compare(first)
        second = _second_ways(settings, _best(first, shares, "whiten"))
        compare(second)
    chosen = _best(second if settings.kind == "both" else [*first, *second], shares)
    tried = {way: (float(np.mean(s)), float(np.std(s, ddof=1) / np.sqrt(len(s)))) for way, s in shares.items()}
    if chosen == "none":
        return untouched(features.shape[1], tried)
    matrix = basis @ _matrices(reduced, labels, settings, [chosen], seed, -1)[chosen]
    return Transfer(mean.astype(np.float32), matrix.astype(np.float32), chosen, tried)


def untouched(width: int, tried: Mapping[str, tuple[float, float]] | None = None) -> Transfer:
    """Return the transfer that leaves features of this width as they are, but for their length."""
    return Transfer(np.zeros(width, np.float32), None, "none", tried or {})


def choose(shares: Mapping[str, Sequence[float]]) -> str:
    """Return the way that is best on average, the simplest of those that are as good.

    shares: for each way, simplest first, a number for each fold, of which more is better.
    """
    return max(shares, key=lambda way: round(float(np.mean(shares[way])), DIGITS))


def share_of_kind(features: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Return the mean share of each picture's nearest neighbours, itself left out, that are of its kind."""
    near = nearest_by_direction(features, NEIGHBOURS + 1)
    same = labels[near] == labels[:, None]
    return float((same.sum(axis=1) - 1).mean() / (near.shape[1] - 1))


def only(way: str) -> dict[str, Any]:
    """Return the settings of transfer under which this way is taken and no other is tried."""
    parts = _parts(way)
    kind = "both" if len(parts) > 1 else next(iter(parts), "none")
    changes: dict[str, Any] = {"kind": kind}
    if "whiten" in parts:
        changes["shrinkage"] = (parts["whiten"],)
    if "project" in parts:
        changes["steps"] = (int(parts["project"]),)
    return changes


def _leaves_a_choice(settings: TransferSettings) -> bool:
    sorts = {"none": 1, "whiten": len(settings.shrinkage), "project": len(settings.steps)}
    return settings.kind == "auto" or sorts.get(settings.kind, len(settings.shrinkage) * len(settings.steps)) > 1


def _first_ways(settings: TransferSettings) -> list[str]:
    """Return the names of the ways that stand alone, simplest first: the strongest shrinkage, the fewest steps."""
    none = ["none"] if settings.kind in ("auto", "none") else []
    if settings.kind == "project":
        return [f"project-{steps}" for steps in sorted(settings.steps)]
    return none + [f"whiten-{one:g}" for one in sorted(settings.shrinkage, reverse=True)]


def _second_ways(settings: TransferSettings, whiten: str) -> list[str]:
    """Return the names of the ways that project behind a way of whitening."""
    wanted = sorted(settings.steps) if settings.kind in ("auto", "both") else []
    return [f"{whiten}+project-{steps}" for steps in wanted]


def _best(ways: Sequence[str], found: Mapping[str, Sequence[float]], beginning: str = "") -> str:
    """Return the best of the ways whose names begin so, the simplest where none was measured; "" if there is none."""
    some = [way for way in ways if way.startswith(beginning)]
    measured = {way: found[way] for way in some if way in found}
    return choose(measured) if measured else next(iter(some), "")


def _parts(way: str) -> dict[str, float]:
    """Return the parts of a way by name with their numbers."""
    return {name: float(number) for name, _, number in (part.partition("-") for part in way.split("+")) if number}


def _enough(labels: NDArray[np.int64]) -> bool:
    counts = np.bincount(labels)
    return bool(np.count_nonzero(counts) >= FEWEST_KINDS and len(labels) >= np.count_nonzero(counts) + FEWEST_PICTURES)


def _folds(labels: NDArray[np.int64], number: int, seed: int) -> list[NDArray[np.int64]]:
    """Return sets of kinds to hide, each about a third of all and at least two."""
    kinds = np.unique(labels)
    size = max(2, len(kinds) // 3)
    return [generator(seed, "hidden kinds of the transfer", fold).permutation(kinds)[:size] for fold in range(number)]


def principal(features: NDArray[np.float64], dimensions: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean (d,) and the first principal components (d, w), w at most `dimensions`.

    By the covariance, or where features are wider than pictures are many, by the products of pictures. Of very wide
    features, some of the pictures are enough.
    """
    with one_thread():
        mean = features.mean(axis=0)
        if features.shape[1] > MANY < len(features):
            features = features[np.linspace(0, len(features) - 1, MANY).astype(np.int64)]
        centred = features - mean
        wide = len(centred) < centred.shape[1]
        products = centred @ centred.T if wide else centred.T @ centred
        values, vectors = np.linalg.eigh(products / len(centred))
        kept = max(1, min(dimensions, len(centred) - 1, int((values > values[-1] * 1e-10).sum())))
        found = vectors[:, ::-1][:, :kept]
        return mean, directions((centred.T @ found).T).T if wide else found


def _matrices(
    reduced: NDArray[np.float64],
    labels: NDArray[np.int64],
    settings: TransferSettings,
    ways: Sequence[str],
    seed: int,
    fold: int,
) -> dict[str, NDArray[np.float64]]:
    """Return for each way the matrix (w, w) that it puts behind the principal components (N, w), "none" left out."""
    found: dict[str, NDArray[np.float64]] = {}
    before: dict[str, list[str]] = {}  # ways that project, by what comes before the projection
    for way in ways:
        parts = _parts(way)
        if "project" in parts:
            before.setdefault(way.partition("+")[0] if "whiten" in parts else "", []).append(way)
        elif parts:
            found[way] = whitening(reduced, labels, parts["whiten"])
    for first, some in before.items():
        matrix = whitening(reduced, labels, _parts(first)["whiten"]) if first else np.eye(reduced.shape[1])
        steps = {int(_parts(way)["project"]): way for way in some}
        moved = directions_float32(reduced @ matrix)
        for number, projection in projections(moved, labels, settings, list(steps), seed, fold).items():
            found[steps[number]] = matrix @ projection.astype(np.float64)
    return found


def whitening(features: NDArray[np.float64], labels: NDArray[np.int64], shrinkage: float) -> NDArray[np.float64]:
    """Return the matrix (w, w) after which features (N, w) vary alike in all directions inside kinds.

    W = the pooled covariance about the kinds' means, W <- (1 - s) W + s (tr W / w) I, and the matrix is W^-1/2 up to a
    rotation.
    """
    with one_thread():
        kinds, place = np.unique(labels, return_inverse=True)
        inside = features - _means(features, labels)[place]
        covariance = inside.T @ inside / max(1, len(inside) - len(kinds))
        width = len(covariance)
        covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / width * np.eye(width)
        values, vectors = np.linalg.eigh(covariance)
        least = max(TIGHTEST * float(np.square(features).mean()), 1e-30)  # kinds may be single points
        whitener: NDArray[np.float64] = vectors / np.sqrt(np.maximum(values, least))
        return whitener


def _means(features: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each kind that is there, in the order of their numbers."""
    kinds, place = np.unique(labels, return_inverse=True)
    total = np.zeros((len(kinds), features.shape[1]))
    np.add.at(total, place, features)
    return total / np.bincount(place)[:, None]


def projections(
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    settings: TransferSettings,
    wanted: Sequence[int],
    seed: int,
    fold: int,
) -> dict[int, NDArray[np.float32]]:
    """Return the matrix (w, w) after each number of steps that is wanted, from the identity on."""
    kept: dict[int, NDArray[np.float32]] = {}
    x, width = torch.from_numpy(features), features.shape[1]
    members = [np.flatnonzero(labels == kind) for kind in np.unique(labels)]
    members = [one for one in members if len(one) > 1]  # a prototype needs another picture
    with one_thread():
        matrix = torch.eye(width, requires_grad=True)
        optimiser = torch.optim.Adam([matrix], lr=settings.learning_rate)
        for step in range(max(wanted)):
            random = generator(seed, "projection", fold, step)
            kinds = random.permutation(len(members))[: settings.episode_kinds]
            drawn = [random.permutation(members[kind])[: settings.each] for kind in kinds]
            own = torch.from_numpy(np.repeat(np.arange(len(drawn)), [len(one) for one in drawn]))
            loss = leave_one_out_loss(x[torch.from_numpy(np.concatenate(drawn))] @ matrix, own, settings.temperature)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if step + 1 in wanted:
                kept[step + 1] = matrix.detach().numpy().copy()
    return kept


def leave_one_out_loss(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return the cross-entropy of naming each picture by the nearest prototype, its own made without the picture.

    embeddings: float (B, w), brought to length 1 here. labels: int64 (B,), 0 to W - 1, each at least twice.
    """
    z = F.normalize(embeddings, dim=1)
    sums = z.new_zeros(int(labels.max()) + 1, z.shape[1]).index_add(0, labels, z)
    logits = z @ F.normalize(sums, dim=1).T
    own = (z * F.normalize(sums[labels] - z, dim=1)).sum(dim=1)
    return F.cross_entropy(logits.scatter(1, labels[:, None], own[:, None]) / temperature, labels)


def to_tensors(transfer: Transfer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a transfer as tensors and words, as files keep it."""
    tensors = {"mean": torch.from_numpy(transfer.mean)}
    if transfer.matrix is not None:
        tensors["matrix"] = torch.from_numpy(transfer.matrix)
    return tensors, {"chosen": transfer.chosen, "tried": [[way, *told] for way, told in transfer.tried.items()]}


def from_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Transfer:
    """Take back what `to_tensors` gave."""
    tried = {str(way): (float(mean), float(error)) for way, mean, error in about["tried"]}
    if tried and str(about["chosen"]) not in tried:
        raise ValueError(f"{about['chosen']} was chosen, and not tried")
    matrix = tensors["matrix"].numpy() if "matrix" in tensors else None
    return Transfer(tensors["mean"].numpy(), matrix, str(about["chosen"]), tried)
