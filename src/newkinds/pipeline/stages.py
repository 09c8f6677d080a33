"""The stages of a discovery in order, each kept in the run folder and skipped if it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.cache import Cache
from newkinds.count import Rehearsal, can_rehearse, count_kinds, count_rehearsed, hidden_draws, in_words, probe_kinds
from newkinds.discovery import Discovery, read_discovery
from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import as_numbers, read_truth
from newkinds.features import apply, extract_features
from newkinds.files import digest
from newkinds.images import check_known, check_unsorted
from newkinds.images.imageset import ImageSet, group_of
from newkinds.methods.base import Problem, Snapshot, Solution, Tensors
from newkinds.methods.registry import METHODS
from newkinds.networks import Foreign, Network, build_network, is_foreign
from newkinds.networks.files import model_to_bytes, network_to_bytes
from newkinds.networks.tuning import freeze_but_last
from newkinds.parallel.processes import from_writer, is_writer, make_accelerator
from newkinds.pipeline.backbone import pretrained_digest, pretrained_network, told_by
from newkinds.pipeline.frozen import Views, as_embeddings, behind
from newkinds.pipeline.frozen import in_words as in_words_of_transfer
from newkinds.pipeline.known_quality import (
    keep_quality,
    quality_of_features,
    quality_of_given,
    quality_of_training,
)
from newkinds.pipeline.pretraining import about, network_of_run, read_auxiliary
from newkinds.pipeline.resolve import resolved
from newkinds.pipeline.scoring import score_run
from newkinds.predict import prototypes
from newkinds.pretrain.resolve import why_loss
from newkinds.profiles import in_words as profile_in_words
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.report.count_plot import count_plot
from newkinds.report.known_kinds import find_nearest_known
from newkinds.report.run import report_run
from newkinds.runs import RunFolder, names
from newkinds.runs.results import put_assignment, put_snapshot, put_tensors, read_scores, read_tensors
from newkinds.settings import CoreSettings
from newkinds.tensors import to_bytes
from newkinds.training import Checkpoints
from newkinds.transfer import Transfer, from_tensors, to_tensors

FEWEST_KINDS = 9  # known, of which a third can be hidden
REHEARSED = 10_000  # unsorted pictures that rehearsals take, at most


class Pipeline:
    """The stages of one run: pretrain, extract, count, sort, score, report."""

    def __init__(
        self,
        known: ImageSet,
        unsorted: ImageSet,
        out: Path,
        settings: CoreSettings,
        *,
        weights: Path | None = None,
        foreign: Foreign | None = None,
        auxiliary: Mapping[str, Path] | None = None,
        truth: str | Path | None = None,
        device: str | None = None,
        cache: Cache | None = None,
        progress: Progress = QUIET,
    ) -> None:
        check_known(known)
        check_unsorted(unsorted)
        if isinstance(settings.kinds, int) and settings.kinds > len(unsorted):
            raise UsageError(
                f"{settings.kinds} kinds were asked for, but there are {len(unsorted)} unsorted pictures.",
                hint=f"Ask for 2 to {len(unsorted)} with --kinds, or give more pictures.",
            )
        self.known = known
        self.unsorted = unsorted
        self.progress = progress
        self.cache = cache or Cache()
        self.truth = None if truth is None else read_truth(truth, unsorted)
        self.weights = pretrained_network(settings, known, weights, foreign)
        self._told = told_by(weights)
        self.accelerator = make_accelerator(device)
        self.method = METHODS[settings.method]
        takes_features = settings.kinds == "auto" or self.method.takes_features(settings)
        self.settings = resolved(settings, known, self.weights, self.accelerator.device, takes_features)
        progress.say(profile_in_words(self.settings.profile))
        self.trained, self.probes = self._split_known()
        data = {
            "known": about(known),
            "unsorted": about(unsorted),
            "weights": pretrained_digest(self.weights, weights),
        }
        files = auxiliary or {}
        self.auxiliary = {name: read_auxiliary(file, name, known, self.settings) for name, file in files.items()}
        if files:
            data["auxiliary"] = {name: digest(file.read_bytes()) for name, file in files.items()}
        sources = {"known": known.source, "unsorted": unsorted.source}
        self.run = RunFolder.start(out, self.settings, data, sources, progress)
        self._features: dict[str, NDArray[np.float32]] = {}  # already read or computed
        self._transfer: Transfer | None = None
        torch.set_num_threads(self.run.threads)

    @property
    def transfers(self) -> bool:
        """Whether discovery starts from features of a pretrained f, after what the known kinds teach about them.

        Methods that have auxiliary networks train their own f.
        """
        trains = self.method.auxiliary is not None
        return self.settings.tune in ("none", "last") and self.method.takes_features(self.settings) and not trains

    @property
    def frozen(self) -> bool:
        """Whether f is not trained: everything behind it works on features that are computed once."""
        return self.settings.tune == "none" and self.transfers

    def _split_known(self) -> tuple[ImageSet, ImageSet]:
        """Split the known kinds into those that f is trained on and the probes of Algorithm 2.

        With few known kinds, or if nothing is counted, f is trained on all of them, and the probes are the same kinds.
        """
        if self.settings.kinds != "auto" or self._kinds_by_method is not None:
            return self.known, self.known
        chosen = probe_kinds(self.known.classes, self.settings.count, self.settings.seed)
        given = self.weights is not None  # a pretrained f: which kinds it was trained on is not known
        if chosen is None or (given and not self.transfers and self.settings.count.probes == "auto"):
            return self.known, self.known
        others = sorted(set(range(len(self.known.classes))) - set(chosen))
        return self.known if given else self.known.with_classes(others), self.known.with_classes(chosen)

    def network(self) -> Network:
        """Return f, from the run or the weights given, or after training it on the known kinds."""
        if self.weights is not None and not self.run.has(names.NETWORK):
            self.run.put(names.NETWORK, network_to_bytes(self.weights))
            self.run.sync()
        why = why_loss(self.settings.pretrain, self.known)
        return network_of_run(self.run, self.trained, self.settings, self.accelerator, why, self.progress)

    def features(self, network: Network, which: str, images: ImageSet, view: str = "plain") -> NDArray[np.float32]:
        """Return f's features of the "unsorted" pictures or of the "probes": computed, or read and hashed, once."""
        if which not in self._features:
            name = names.features(which)
            found = self.run.find_array(name)
            if found is None:
                found = extract_features(network, images, view=view, cache=self.cache, progress=self.progress)
                self.run.put_array(name, found)
                self.run.sync()
            self._features[which] = found
        return self._features[which]

    def views(self, network: Network, which: str, images: ImageSet) -> Views:
        """Return f's features of pictures as they are and, of colour pictures, mirrored."""
        rows = [self.features(network, which, images)]
        if images.channels == 3 and not images.is_embedding and self.settings.transfer.mirrored:
            rows.append(self.features(network, f"{which}-mirrored", images, "mirrored"))
        return Views(tuple(rows))

    def transfer(self, network: Network) -> Transfer:
        """Return what the known kinds teach about frozen features, learnt first if it is not there yet."""
        if self._transfer is not None:
            return self._transfer
        if not self.run.has(names.TRANSFER):
            known = self.views(network, "known", self.known)
            if is_writer():
                assert self.known.labels is not None
                learnt = known.learn(self.known.labels, self.settings, self.cache, self.progress)
                self.run.put(names.TRANSFER, to_bytes(*to_tensors(learnt)))
            self.run.sync()
        self._transfer = from_tensors(*read_tensors(self.run, names.TRANSFER))
        self.progress.say(in_words_of_transfer(self._transfer))
        return self._transfer

    def known_quality(self, network: Network) -> None:
        """Measure how well an f that is not trained here tells the known kinds apart, keep it and say it.

        By its features if it comes from elsewhere. Where newkinds trained it, its file tells.
        """
        if not self.method.takes_features(self.settings) or (self.weights is None and not self.known.is_embedding):
            return
        quality = quality_of_training(self._told, self.known, self.settings)
        if quality is None and not (self.known.is_embedding or isinstance(network.backbone, Foreign)):
            quality = quality_of_given(self.known)
        elif quality is None and not self.run.has(names.KNOWN_QUALITY):
            views = self.views(network, "known", self.known)
            way = self.transfer(network).chosen if self.frozen and self.method.takes_transfer else "none"
            quality = from_writer(lambda: quality_of_features(views, self.known, self.settings, way, self.cache))
        keep_quality(self.run, quality, self.progress)

    def kinds(self, network: Network) -> int:
        """Return the number of kinds: the one asked for, or Algorithm 2's estimate."""
        if self.settings.kinds != "auto":
            return self.settings.kinds
        if self._kinds_by_method is not None:
            return self._kinds_by_method
        k: int = self.count(network)["k"]
        if k < 2:
            raise DataError(
                f"The estimate is {k} new kinds: the unsorted pictures look like one kind, or known.",
                hint="Look at count.json, and say the number with --kinds if you know better.",
            )
        return k

    @property
    def _kinds_by_method(self) -> int | None:
        """The number of kinds to begin with, if the method finds their number itself."""
        return self.method.finds_kinds(self.settings, len(self.unsorted))

    def count(self, network: Network) -> dict[str, Any]:
        """Return the contents of count.json, Algorithm 2's estimate, which is made first if it is not there yet."""
        if not self.run.has(names.COUNT):
            rehearsals = self._rehearsals(network) if self.settings.count.estimator == "rehearsed" else []
            counted = None if rehearsals else self._counted(network)
            if is_writer():
                self._count(rehearsals, counted)
            self.run.sync()
        count: dict[str, Any] = self.run.get_json(names.COUNT)
        self.progress.say(in_words(count))
        for remark in count["remarks"]:
            self.progress.warn(remark)
        return count

    def _rehearsals(self, network: Network) -> list[Rehearsal]:
        """Return draws of hidden known kinds beside the heap, under f and transfers that have not seen them.

        Where f is not trained here, several thirds of the known kinds; otherwise the probes, each group on its own if
        `count.probe_groups` says so. None if there are too few kinds.
        """
        whole = len(self.unsorted)
        some = np.sort(generator(self.settings.seed, "heap of the rehearsals").permutation(whole)[:REHEARSED])
        if self.transfers and self.settings.count.probes == "auto":
            if len(self.known.classes) < FEWEST_KINDS:
                return []
            assert self.known.labels is not None
            known, labels = self.views(network, "known", self.known), self.known.labels
            heap = self.views(network, "unsorted", self.unsorted).of(some)
            found = []
            for hidden in hidden_draws(len(self.known.classes), self.settings.count.rehearsals, self.settings.seed):
                out = np.isin(labels, hidden)
                taught = np.flatnonzero(~out)
                transfer = from_writer(partial(known.of(taught).learn, labels[taught], self.settings, self.cache))
                mine = known.of(np.flatnonzero(out)).transferred(transfer)
                found.append(Rehearsal(mine, labels[out], heap.transferred(transfer), whole))
            return found
        if self.probes is self.known:
            return []
        assert self.probes.labels is not None
        probes, unsorted = self._counted(network)
        groups = np.zeros(len(self.probes), np.int64)
        if self.settings.count.probe_groups == "apart":
            groups = np.array([group_of(name) for name in self.probes.classes])[self.probes.labels]
        parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        heap_rows = unsorted[some]
        found = [Rehearsal(probes[part], self.probes.labels[part], heap_rows, whole) for part in parts]
        return found if can_rehearse(found) else []

    def _counted(self, network: Network) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the features of probes and unsorted pictures, after a transfer that has not seen the probes."""
        if not self.transfers:
            probes = self.features(network, "probes", self.probes)
            return probes, self.features(network, "unsorted", self.unsorted)
        assert self.known.labels is not None
        known, unsorted = self.views(network, "known", self.known), self.views(network, "unsorted", self.unsorted)
        is_probe = np.isin(np.array(self.known.classes)[self.known.labels], self.probes.classes)
        taught = np.flatnonzero(~is_probe) if self.probes is not self.known else np.arange(len(self.known))
        labels = self.known.labels[taught]
        transfer = from_writer(lambda: known.of(taught).learn(labels, self.settings, self.cache))
        probes = known.of(np.flatnonzero(is_probe)).transferred(transfer)
        return probes, unsorted.transferred(transfer)

    def _count(
        self, rehearsals: list[Rehearsal], counted: tuple[NDArray[np.float32], NDArray[np.float32]] | None
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
                f"{len(self.known.classes)} known kinds are too few to hide some and rehearse: the number is estimated "
                "by the paper's Algorithm 2."
            )
            values["remarks"] = [*values["remarks"], remark]
        if self.weights is None and self.probes is self.known:
            remark = (
                f"All {len(self.known.classes)} known kinds were learnt and are the probes as well, being fewer than "
                f"count.enough = {settings.enough}: the network tells them apart better than it does new kinds."
            )
            values["remarks"] = [*values["remarks"], remark]
        values["probes"] = list(self.probes.classes)
        self.run.put(names.COUNT_PLOT, count_plot(values))
        self.run.put_json(names.COUNT, values)

    def sort(self, network: Network, kinds: int, *, model: bool = True) -> None:
        """Run the method and keep its answer and, if wanted, its model."""
        if self.run.has(names.KINDS):
            return
        checkpoints = self.run.checkpoints()
        problem = self._problem(network, kinds, checkpoints)
        found = self.method.run(problem)
        last = None if found.last is None else np.exp(apply(found.last, problem.unsorted))
        if self.frozen and self.method.takes_transfer:
            transfer = self.transfer(network)
            found = behind(network.with_transfer(transfer.mean, transfer.matrix), found)
        empty = len(found.assignment.columns) - found.assignment.n_kinds
        if empty:
            self.progress.warn(f"{empty} of {len(found.assignment.columns)} kinds stayed empty. {self.method.advice}")
        self.run.put_json(names.KNOWN, list(self.known.classes))
        if model:
            self._put_models(found, last)
        if found.choice is not None:
            self.run.put_json(names.CHOICE, found.choice.to_dict())
        self.run.put_array(names.EMBEDDING, found.embedding)
        put_assignment(self.run, found.assignment)
        self.run.sync()
        checkpoints.clear()

    def _problem(self, network: Network, kinds: int, checkpoints: Checkpoints) -> Problem:
        """Return what the method is to solve: pictures and f, or features where f is frozen.

        Where the last blocks of f are trained, the start is that of frozen features.
        """
        known, unsorted, features = self.known, self.unsorted, self.features(network, "unsorted", self.unsorted)
        if self.transfers and self.method.takes_transfer:
            transfer = self.transfer(network)
            features = self.views(network, "unsorted", unsorted).transferred(transfer)
            if self.frozen:
                known = as_embeddings(known, self.views(network, "known", known).transferred(transfer))
                unsorted = as_embeddings(unsorted, features)
                network = build_network("identity", features.shape[1], 1, self.settings.seed).to(network.device)
            else:
                network = network.with_transfer(transfer.mean, transfer.matrix)
        if self.transfers and not self.frozen:
            freeze_but_last(network)
        return Problem(
            network,
            known,
            self.settings,
            unsorted=unsorted,
            kinds=kinds,
            features=features,
            truth=None if self.truth is None else as_numbers(self.truth),
            accelerator=self.accelerator,
            checkpoints=checkpoints,
            log=self.run.log,
            progress=self.progress,
            keep=self._keep,
            watch=self._watch,
        )

    def _put_models(self, found: Solution, last: NDArray[np.float32] | None) -> None:
        """Keep what `predict` needs, and the nearest known kinds, which the page shows.

        last: the probabilities of the last state, float32 (N, K), if another one was kept.
        """
        words = {"known_classes": list(self.known.classes)}
        if found.model is not None:
            assert found.features is not None
            known = self._known_under(found.model.network)
            extra = prototypes(self.known, known, found.features, found.assignment.labels, found.model.kinds)
            self.run.put(names.MODEL, model_to_bytes(found.model, extra, **words))
            near = find_nearest_known(extra, found.model.kinds, found.features)
            if near is not None:
                put_tensors(self.run, names.NEAREST_KNOWN, near.to_tensors())
        if found.last is not None and last is not None:
            self.run.put(names.LAST_MODEL, model_to_bytes(found.last, {}, **words))
            self.run.put_array(names.LAST_PROBABILITIES, last)

    def _known_under(self, network: Network) -> NDArray[np.float32]:
        """Return the known pictures' features under the final f: where it is frozen, they are there already."""
        if network.transfer is None or not self.frozen:
            return apply(network, self.known)
        return self.views(network, "known", self.known).transferred(self.transfer(network))

    def _watch(self, taken: Snapshot) -> None:
        """Keep a snapshot, for the figures and the page."""
        put_snapshot(self.run, taken)

    def _keep(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return the tensors that the run was given or has under a name, after making them if there are none."""
        if name in self.auxiliary:
            return self.auxiliary[name]
        file = names.auxiliary(name)
        if not self.run.has(file):
            put_tensors(self.run, file, make())
            self.run.sync()
        return read_tensors(self.run, file)[0]

    def score_and_report(self, page: bool) -> None:
        """Score the kinds if the truth is known, and make the page if it is wanted, unless both are there."""
        kept = read_scores(self.run)
        scored = kept is not None and kept[2] == (self.truth or ())
        if self.truth is not None and not scored:
            score_run(self.run, self.truth, self._features.get("unsorted"))
        if page and (not self.run.has(names.PAGE) or (self.truth is not None and not scored)):
            report_run(self.run, self.unsorted, progress=self.progress)

    def result(self, *, page: bool = True, model: bool = True) -> Discovery:
        """Run all stages and return the result. page, model: whether to make the report, and to keep the model."""
        try:
            network = self.network()
            self.features(network, "unsorted", self.unsorted)
            self.known_quality(network)
            self.sort(network, self.kinds(network), model=model)
            if is_writer():
                self.score_and_report(page)
            self.run.sync()
            own = self.settings.network if is_foreign(self.settings.network) else None
            return read_discovery(self.run, own)
        finally:
            self.run.close()
