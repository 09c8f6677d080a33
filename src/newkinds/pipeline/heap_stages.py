"""The stages that look at a heap before it is sorted: what it holds, and how many new kinds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.count import Rehearsal as CountRehearsal
from newkinds.count import can_rehearse, count_kinds, count_rehearsed, hidden_draws, in_words
from newkinds.errors import DataError, UsageError
from newkinds.evaluation.same_kinds import Pairs
from newkinds.evaluation.same_kinds import in_words as same_in_words
from newkinds.images.imageset import ImageSet, group_of
from newkinds.networks import Network
from newkinds.novelty import Novelty
from newkinds.parallel.processes import from_writer, is_writer
from newkinds.pipeline.heap import Heap, Parts, judged, of_frozen, of_trained, parted, same_among
from newkinds.pipeline.known import KnownStages
from newkinds.randomness import generator
from newkinds.report.count_plot import count_plot
from newkinds.runs import names

FEWEST_KINDS = 9  # known, of which a third can be hidden
REHEARSED = 10_000  # unsorted pictures that rehearsals take, at most


class HeapStages(KnownStages):
    """The stages that look at the unsorted pictures, each kept in the run folder and skipped if it is there."""

    unsorted: ImageSet
    _parts: dict[str, list[Parts]]  # of the known pictures, by the way of transfer

    def heap_of(self, network: Network) -> Heap:
        """Return what the heap holds: new kinds alone, as in the paper, or known kinds, too, where that may be."""
        if self.settings.heap == "new" or (self.settings.heap == "auto" and not self._tells_novelty):
            return Heap()
        if not self._tells_novelty:
            raise UsageError(
                f"The method {self.settings.method!r} works on pixels, which cannot show known kinds in the heap.",
                hint="Use another --method, or --heap new.",
            )
        if not (self.run.has(names.NOVELTY) and self.run.has(names.NOVELTIES)):
            same = self._same_kinds(network)
            origin = self.transfers or self.learnt(network) is not None
            found = self.over_all(judged(self._novelty(network, self.to_judge), self.settings.heap, same, origin))
            if is_writer():
                assert found.novelty is not None
                self.run.put_array(names.NOVELTIES, found.novelty)
                self.run.put_json(names.NOVELTY, found.to_dict())
            self.run.sync()
        with self.run.understood(names.NOVELTY):
            heap = Heap.from_dict(self.run.get_json(names.NOVELTY), self.run.get_array(names.NOVELTIES))
        self.progress.say(heap.in_words())
        if heap.same:
            self.progress.warn(same_in_words(heap.same))
        return heap

    @property
    def _tells_novelty(self) -> bool:
        """Whether there are features of known pictures that tell known kinds in the heap."""
        return self.method.takes_features(self.settings)

    @property
    def to_judge(self) -> NDArray[np.int64]:
        """The pictures of the heap of which it is asked whether they are new, int64 (n,): all of them."""
        return np.arange(len(self.unsorted))

    def over_all(self, heap: Heap) -> Heap:
        """Return what the heap holds, told of all its pictures and not only of those that were judged."""
        return heap

    def _novelty(self, network: Network, rows: NDArray[np.int64]) -> Novelty:
        """Return how new some of the heap's pictures are."""
        assert self.known.labels is not None
        if self.transfers:
            known, heap = (self.views(network, *of) for of in (("known", self.known), ("unsorted", self.unsorted)))
            way = self.transfer(network).chosen
            parts = self._parted(network, way)
            return of_frozen(known, self.known.labels, heap.of(rows), way, self.settings, self.cache, parts)
        features = self.features(network, "known", self.known)
        unsorted = self.features(network, "unsorted", self.unsorted)[rows]
        return of_trained(self.known, self.learnt(network), features, unsorted, self.settings)

    def _parted(self, network: Network, way: str) -> list[Parts]:
        """Return parts of the known pictures with a transfer each that has seen one of them, by the way of transfer."""
        if way not in self._parts:
            assert self.known.labels is not None
            known = self.views(network, "known", self.known)
            self._parts[way] = parted(known, self.known.labels, way, self.settings, self.cache)
        return self._parts[way]

    def _same_kinds(self, network: Network) -> Pairs:
        """Return which known kinds cannot be told from one another."""
        features = self.features(network, "known", self.known)
        if not self.transfers:
            return same_among(self.known, features, self.settings)
        views, parts = self.views(network, "known", self.known), self._parted(network, self.transfer(network).chosen)
        return same_among(self.known, features, self.settings, views, parts)

    def kinds(self, network: Network, heap: Heap) -> int:
        """Return the number of new kinds: the one asked for, or Algorithm 2's estimate."""
        if self.settings.kinds != "auto":
            return self.settings.kinds
        if self._kinds_by_method is not None:
            return self._kinds_by_method
        k: int = self.count(network, heap)["k"]
        if k < 2:
            raise DataError(
                f"The number of new kinds is estimated as {k}: the unsorted pictures look like a single "
                "kind, or like known ones.",
                hint="Look at count.json, and give the number with --kinds if you know it.",
            )
        return k

    def count(self, network: Network, heap: Heap) -> dict[str, Any]:
        """Return the contents of count.json, Algorithm 2's estimate, which is made first if it is not there yet."""
        if not (self.run.has(names.COUNT) and self.run.has(names.COUNT_PLOT)):
            rows = heap.counted(len(self.unsorted))
            rehearsals = self._rehearsals(network, rows) if self.settings.count.estimator == "rehearsed" else []
            counted = None if rehearsals else self._counted(network, rows)
            if is_writer():
                self._count(rehearsals, counted)
            self.run.sync()
        count: dict[str, Any] = self.run.get_json(names.COUNT)
        self.progress.say(in_words(count))
        for remark in count["remarks"]:
            self.progress.warn(remark)
        return count

    def _rehearsals(self, network: Network, rows: NDArray[np.int64]) -> list[CountRehearsal]:
        """Return draws of hidden known kinds beside the heap, under f and transfers that have not seen them.

        Where f is not trained here, several thirds of the known kinds; otherwise the probes, each group on its own if
        `count.probe_groups` says so. None if there are too few kinds. rows: the pictures of the heap that count.
        """
        whole = len(rows)
        some = np.sort(generator(self.settings.seed, "heap of the rehearsals").permutation(whole)[:REHEARSED])
        some = rows[some]
        if self.transfers and self.settings.count.probes == "auto":
            if len(self.known.classes) < FEWEST_KINDS:
                return []
            assert self.known.labels is not None
            known, labels = self.views(network, "known", self.known), self.known.labels
            heap = self.views(network, "unsorted", self.unsorted).of(some)
            way, found = self.transfer(network).chosen, []
            for hidden in hidden_draws(len(self.known.classes), self.settings.count.rehearsals, self.settings.seed):
                out = np.isin(labels, hidden)
                taught = np.flatnonzero(~out)
                transfer = from_writer(partial(known.learn_from, taught, labels, way, self.settings, self.cache))
                mine = known.of(np.flatnonzero(out)).transferred(transfer)
                found.append(CountRehearsal(mine, labels[out], heap.transferred(transfer), whole))
            return found
        if self.probes is self.known:
            return []
        assert self.probes.labels is not None
        probes, unsorted = self._counted(network, np.arange(len(self.unsorted)))
        groups = np.zeros(len(self.probes), np.int64)
        if self.settings.count.probe_groups == "apart":
            groups = np.array([group_of(name) for name in self.probes.classes])[self.probes.labels]
        parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        heap_rows = unsorted[some]
        found = [CountRehearsal(probes[part], self.probes.labels[part], heap_rows, whole) for part in parts]
        return found if can_rehearse(found) else []

    def _counted(self, network: Network, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the features of probes and of rows of the heap, after a transfer that has not seen the probes."""
        if not self.transfers:
            probes = self.features(network, "probes", self.probes)
            return probes, self.features(network, "unsorted", self.unsorted)[rows]
        assert self.known.labels is not None
        known, unsorted = self.views(network, "known", self.known), self.views(network, "unsorted", self.unsorted)
        is_probe = np.isin(np.array(self.known.classes)[self.known.labels], self.probes.classes)
        taught = np.flatnonzero(~is_probe) if self.probes is not self.known else np.arange(len(self.known))
        labels = self.known.labels[taught]
        transfer = from_writer(lambda: known.of(taught).learn(labels, self.settings, self.cache))
        probes = known.of(np.flatnonzero(is_probe)).transferred(transfer)
        return probes, unsorted.of(rows).transferred(transfer)

    def _count(
        self, rehearsals: list[CountRehearsal], counted: tuple[NDArray[np.float32], NDArray[np.float32]] | None
    ) -> None:
        """Estimate the number of kinds from rehearsals, or by Algorithm 2 from probes; keep count.json and a plot."""
        assert self.probes.labels is not None
        settings, seed = self.settings.count, self.settings.seed
        if counted is None:
            found = count_rehearsed(rehearsals, settings, seed=seed, progress=self.progress)
        else:
            groups = None
            if settings.probe_groups == "apart":
                groups = [group_of(name) for name in self.probes.classes]
            labels = self.probes.labels
            found = count_kinds(
                counted[0], labels, counted[1], settings, groups=groups, seed=seed, progress=self.progress
            )
        values = found.to_dict()
        if counted is not None and settings.estimator == "rehearsed":
            remark = (
                f"{len(self.known.classes)} known kinds are too few to hide some for rehearsals, so the "
                "number was estimated by the paper's Algorithm 2."
            )
            values["remarks"] = [*values["remarks"], remark]
        if counted is not None and self.weights is None and self.probes is self.known:
            remark = (
                f"The number was judged by the {len(self.known.classes)} known kinds that the network "
                f"was trained on, which it tells apart better than new ones. With {settings.enough} "
                "known kinds or more (count.enough), some would be kept out of training."
            )
            values["remarks"] = [*values["remarks"], remark]
        values["probes"] = list(self.probes.classes)
        self.run.put(names.COUNT_PLOT, count_plot(values))
        self.run.put_json(names.COUNT, values)
