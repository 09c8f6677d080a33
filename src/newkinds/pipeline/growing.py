"""A run that goes on from another one: its stages, in which kinds keep their numbers and what people said holds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment, known_kind
from newkinds.corrections.carried import Carried
from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet, image_set
from newkinds.methods.registry import METHODS
from newkinds.networks import Network
from newkinds.pipeline.composing import Composed
from newkinds.pipeline.heap import Heap
from newkinds.pipeline.stages import Pipeline
from newkinds.runs import names

FEW = 8  # pictures that are probably new: of fewer, nobody can say how many kinds they are
TEACHES = 2  # pictures of a kind that the machine can learn it from


class GrowingPipeline(Pipeline):
    """The stages of a run that goes on from another one.

    The open kinds that people spoke of are taught like known ones, and keep their numbers. All other pictures of
    earlier weeks that are of no known kind are sorted anew together with the new ones; kinds that persist are matched
    by their pictures.
    """

    def __init__(self, composed: Composed, out: Path, settings: Any, **options: Any) -> None:
        """Take the pictures of a grown run; the rest is as in `Pipeline`."""
        self.composed = composed
        self.carried: Carried = composed.growth.carried
        self.taught = tuple(kind for kind in self.carried.held if len(self.carried.members(kind)) >= TEACHES)
        super().__init__(_with_taught(composed, self.taught), composed.unsorted, out, settings, **options)
        try:
            for name, data in composed.files():
                if not self.run.has(name):
                    self.run.put(name, data)
            if not self.run.has(names.GROWN):
                self.run.put_json(names.GROWN, composed.growth.to_dict())
            self.run.sync()
        except BaseException:
            self.run.close()  # so that the same process can try again
            raise

    def identity(self) -> dict[str, Any]:
        """Return which run this one goes on from, up to which line of its journal, and with which heap."""
        return {"grown": self.composed.identity}

    @property
    def given(self) -> ImageSet:
        """The pictures of kinds that are known."""
        return self.composed.known

    @property
    def said_before(self) -> NDArray[np.bool_]:
        """Of which pictures people said in earlier weeks what they are, bool (N,)."""
        return self.carried.over(len(self.unsorted), self.carried.said)

    def unsaid(self, none: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the probability of none of pictures of which no person had said anything, (N,), None if none is."""
        if none is None:
            return None
        none = np.where(self.said_before, 0.0, none)
        return none if none.any() else None

    def gone(self, none: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the same with pictures of which a person had said that they are none."""
        said = np.zeros(len(self.unsorted))
        said[: len(self.carried.kinds)] = [kind == NONE for kind in self.carried.kinds]
        said[~self.said_before] = 0
        return np.maximum(said, 0 if none is None else none) if said.any() else none

    @property
    def to_judge(self) -> NDArray[np.int64]:
        """The pictures that may be of any kind: the new ones, and earlier ones that nobody has spoken of."""
        decided = self.carried.over(len(self.unsorted), ~self.carried.undecided)
        return np.flatnonzero(~decided)

    def over_all(self, heap: Heap) -> Heap:
        """Return what the heap holds: those that were not judged are of kinds that people spoke of, or of none."""
        assert heap.novelty is not None
        novelty = np.zeros(len(self.unsorted), dtype=np.float32)
        novelty[self.to_judge] = heap.novelty
        return replace(heap, novelty=novelty, judged=len(self.to_judge))

    def kinds(self, network: Network, heap: Heap) -> int:
        """Return how many kinds there are among the pictures that are probably new: one may be enough here."""
        fewest = 1 if METHODS[self.settings.method].takes_known else 2
        if self.settings.kinds != "auto" or self._kinds_by_method is not None:
            return super().kinds(network, heap)
        if int((heap.mixed >= 0.5).sum()) < FEW:
            return fewest
        return max(fewest, int(self.count(network, heap)["k"]))

    def settled(self, found: Assignment) -> tuple[Assignment, tuple[str, ...]]:
        """Return what a method found in the kinds of all weeks, and what its columns are in the order that they had."""
        settled, head = self.carried.numbered(found, {known_kind(kind): kind for kind in self.taught})
        order = {"head": list(head), "sorted": list(settled.columns)}
        return replace(settled, source={**settled.source, **order}), head

    def pinned(self, answer: Assignment) -> Assignment:
        """Return an answer in which what people said in earlier weeks holds."""
        return self.carried.pinned(answer)

    def extract(self, network: Network, images: ImageSet, view: str) -> NDArray[np.float32]:
        """Return f's features of pictures, of which those that the earlier run has are not computed again."""
        keys, recalled = images.row_keys, self._recalled.get(view, {})
        there = {key: recalled[key] for key in keys if key in recalled}
        missing = [row for row, key in enumerate(keys) if key not in there]
        if len(missing) == len(keys):
            return super().extract(network, images, view)
        made = super().extract(network, images.select(missing), view) if missing else None
        width = len(next(iter(there.values())))
        found = np.empty((len(keys), width), dtype=np.float32)
        for row, key in enumerate(keys):
            if key in there:
                found[row] = there[key]
        if made is not None:
            found[missing] = made
        return found

    @cached_property
    def _recalled(self) -> dict[str, dict[bytes, NDArray[np.float32]]]:
        """The features of the earlier run's pictures by view and content; none if f is another one."""
        return self.composed.recalled(self.run.data.get("weights"))


def _with_taught(composed: Composed, taught: tuple[str, ...]) -> ImageSet:
    """Return the known pictures, and after them those of open kinds that people spoke of, as classes of their own."""
    known, unsorted, carried = composed.known, composed.unsorted, composed.growth.carried
    assert known.labels is not None
    if not taught:
        return known
    if same := set(taught) & set(known.classes):
        raise DataError(
            f"A known kind is called {min(same)!r}, which is also the number of a new kind.",
            hint="Rename its folder.",
        )
    rows = [carried.members(kind) for kind in taught]
    labels = np.repeat(len(known.classes) + np.arange(len(taught)), [len(some) for some in rows])
    items = np.concatenate(rows)
    return image_set(
        np.concatenate([known.pixels, unsorted.pixels[items]]),
        [*known.names, *(f"heap: {unsorted.names[item]}" for item in items)],
        np.concatenate([known.labels, labels]),
        [*known.classes, *taught],
        known.source,
        labelled=True,
        skipped=known.skipped,
    )
