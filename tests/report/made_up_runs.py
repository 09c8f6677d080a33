"""Made-up runs to report on."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.count import Count, Point
from newkinds.images.imageset import Skipped
from newkinds.methods.base import Snapshot
from newkinds.rehearsal.trust import Trust
from newkinds.report import ReportData
from newkinds.report.known_kinds import NearestKnown

MakeData = Callable[..., ReportData]

NASTY = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"quotes\" & 'more' &amp; {{ 7 * 7 }}",
    "line\nbreak\r\ttab\x00null",
    "\u202egnp.exe and \u2066isolate",
    "שלום עולם.png",
    "bad bytes \udcff\udc80.png",
    "\u2028separators\u2029",
    "👩‍🔬 café ﷽.jpg",
    "very/" + "long-" * 60 + "name.png",
)


def flat_colours(n: int, side: int = 8) -> NDArray[np.uint8]:
    """Return (n, 3, side, side): each picture one colour of its own."""
    colours = [colorsys.hsv_to_rgb(i / n, 0.5 + 0.5 * (i % 2), 0.55 + 0.4 * (i % 3) / 2) for i in range(n)]
    flat = np.rint(np.asarray(colours) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(flat[:, :, None, None], (n, 3, side, side)))


def history(truth: bool) -> list[dict[str, Any]]:
    """Return the records of a short run."""
    records: list[dict[str, Any]] = [
        {"stage": "pretrain", "epoch": e, "loss": 2 * 0.7**e, "held_out_accuracy": 1 - 0.8**e} for e in range(8)
    ]
    for e in range(12):
        record = {"stage": "discover", "phase": "warmup" if e < 4 else "main", "epoch": e, "changed": 0.4 * 0.6**e}
        record |= {"loss": 0.5 * 0.8**e, "kl": 0.3 * 0.8**e, "consistency": 0.2 * 0.8**e}
        records.append(record | ({"acc": 0.9 - 0.3 * 0.7**e} if truth else {}))
    return records


def build(
    n: int = 60,
    k: int = 4,
    *,
    pictures: bool = True,
    with_truth: bool = True,
    with_snapshots: bool = False,
    rehearsals: int = 5,
    seed: int = 0,
    **more: Any,
) -> ReportData:
    """Return a run over n pictures in k well separated kinds; `names`, `kinds` and `probabilities` may be given.

    rehearsals: without any, probabilities are not calibrated, and nothing says how far to trust them.
    """
    rng = np.random.default_rng(seed)
    kinds = more.pop("kinds", np.arange(n, dtype=np.int64) % k)
    logits = rng.normal(size=(n, k)).clip(-1.9, 1.9)  # so that the own kind is the most probable
    logits[np.arange(n), kinds] += 4
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    fields: dict[str, Any] = {
        "title": "a made-up run",
        "pixels": flat_colours(n) if pictures else None,
        "assignment": Assignment.of_new(
            more.pop("names", tuple(f"unsorted/{i:05d}.png" for i in range(n))),
            more.pop("probabilities", probabilities.astype(np.float32)),
            {"calibrated": True} if rehearsals else {},
        ),
        "features": (rng.normal(size=(k, 6))[kinds] * 6 + rng.normal(size=(n, 6))).astype(np.float32),
        "truth": tuple(f"class {kind}" for kind in kinds) if with_truth else None,
        "history": history(with_truth),
        "count": counted(k),
        "scores": {"acc": 0.93, "nmi_geometric": 0.871, "ari": 0.852, "kmeans_acc": 0.8} if with_truth else None,
        "settings": {"method": "dtc", "discover": {"epochs": 60, "rates": [0.1, 0.01], "augment": {"flip": False}}},
        "seed": seed,
        "version": "1.2.3",
        "skipped": (Skipped("broken.png", "the file ends early"),),
        "known_classes": ("cat", "dog"),
        "assigns": "discover",
        "trust": trusted(k, rehearsals) if rehearsals else None,
        "rehearsal": rehearsed(rehearsals) if rehearsals else None,
    }
    data = ReportData(**(fields | more))
    return replace(data, snapshots=snapshots(data)) if with_snapshots else data


def snapshots(data: ReportData, epochs: tuple[int, ...] = (0, 4, 8)) -> tuple[Snapshot, ...]:
    """Return states on the way to what a run found: at first all pictures are alike."""
    items = np.arange(len(data), dtype=np.int64)
    rng = np.random.default_rng(5)
    found = []
    for epoch in epochs:
        share = epoch / max(epochs[-1], 1)
        embedding = data.features * share + rng.normal(size=data.features.shape) * (1 - share)
        p = data.probabilities * share + (1 - share) / data.n_kinds
        q = p**2 / (p**2).sum(axis=1, keepdims=True)
        values = (values.astype(np.float32) for values in (embedding, p, q))
        found.append(Snapshot(epoch, items, *values))
    return tuple(found)


def trusted(k: int, rehearsals: int = 5) -> Trust:
    """Return what rehearsals might say of k kinds, the purest first."""
    bins = ((10, 0.3, 0.35), (10, 0.6, 0.5), (10, 0.9, 0.95))
    purity = tuple(0.95 - 0.3 * kind / k for kind in range(k))
    return Trust(0.81, 0.75, 0.87, 0.8, purity, rehearsals, 3, (0.7, 0.9), 0.0667, bins, remarks=("It is <made up>.",))


def rehearsed(rehearsals: int = 5, hopeless: str = "") -> dict[str, Any]:
    """Return what rehearsal.json might hold."""
    trials = {"as set": {"acc": 0.7, "nmi": 0.8}, "k-means": {"acc": 0.8, "nmi": 0.8}}
    one = {"hidden": ["cat", "</bdi><b>dog", "eel"], "asked": 3, "pictures": 1200, "chance": 0.4, "pixels": 0.45}
    return {
        "rehearsed": [{**one, "trials": trials} for _ in range(rehearsals)],
        "tried": [
            {"name": "as set", "acc": 0.7, "gain": 0.0, "gain_error": 0.0},
            {"name": "k-means", "acc": 0.8, "gain": 0.1, "gain_error": 0.03},
        ],
        "changes": {"as set": {}, "k-means": {"method": "kmeans"}},
        "chosen": "k-means",
        "hopeless": hopeless,
        "why": "",
    }


def near_known(n: int, k: int, known: int = 2) -> NearestKnown:
    """Return made-up distances to known kinds; picture 3 is far from everything."""
    items = np.arange(n, dtype=np.int64)
    far = np.where(items == 3, 5.0, 1.0)
    return NearestKnown(np.arange(k) % known, np.full(k, 2.0), items % known, far + 1, far)


def counted(k: int) -> dict[str, Any]:
    """Return what Algorithm 2 might have found."""
    curve = [Point(i, 1 / (1 + abs(i - k)), 0.02, 0.2 - 0.01 * abs(i - k - 1), 0.005, float(i)) for i in range(9)]
    remarks = ("The curves are <made up>.",)
    return Count(k, k - 1, k + 2, 0.8, k, k + 1, k, (k,) * 10, tuple(curve), 0.0, remarks).to_dict()


def photographs(n: int, side: int = 48) -> NDArray[np.uint8]:
    """Return n pictures that compress about as badly as photographs do."""
    rng = np.random.default_rng(0)
    some = rng.normal(128, 40, (400, 3, side // 4, side // 4)).repeat(4, axis=2).repeat(4, axis=3)
    some = np.clip(some + rng.normal(0, 12, some.shape), 0, 255).astype(np.uint8)
    pictures = some[np.arange(n) % 400]
    pictures[:, 0, 0, 0] = np.arange(n) % 251  # so that most of them are of their own
    pictures[:, 1, 0, 0] = np.arange(n) // 400
    return pictures


def a_hundred_thousand() -> ReportData:
    """Return a run of 100,000 pictures in 50 kinds, with states on the way that have 5,000 of them."""
    data = build(100_000, 50, pixels=photographs(100_000))
    some = np.sort(np.random.default_rng(0).permutation(100_000)[:5_000])
    parts = snapshots(data, (0, 4, 8))
    kept = [replace(m, items=some, embedding=m.embedding[some], p=m.p[some], q=m.q[some]) for m in parts]
    return replace(data, snapshots=tuple(kept))
