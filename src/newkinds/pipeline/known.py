"""The stages of a run that need the known pictures only: f, its features, the transfer, and rehearsals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.cache import Cache
from newkinds.count import probe_kinds
from newkinds.features import extract_features
from newkinds.files import digest, read_plain
from newkinds.images import check_known
from newkinds.images.imageset import ImageSet
from newkinds.memory import check_room
from newkinds.methods.registry import METHODS
from newkinds.networks import Foreign, Network
from newkinds.networks.files import network_about, network_to_bytes
from newkinds.parallel.processes import from_writer, is_writer, make_accelerator
from newkinds.pipeline.backbone import pretrained_digest, pretrained_network, told_by
from newkinds.pipeline.frozen import Views
from newkinds.pipeline.frozen import in_words as in_words_of_transfer
from newkinds.pipeline.heap import Heap
from newkinds.pipeline.known_quality import (
    keep_quality,
    quality_of_features,
    quality_of_given,
    quality_of_training,
)
from newkinds.pipeline.pretraining import about, network_of_run, read_auxiliary
from newkinds.pipeline.rehearsing import Rehearsal, Stage, rehearse
from newkinds.pipeline.resolve import resolved
from newkinds.pretrain.pretraining import Learnt, what_was_learnt
from newkinds.pretrain.resolve import why_loss
from newkinds.profiles import in_words as profile_in_words
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_tensors
from newkinds.settings import CoreSettings
from newkinds.tensors import to_bytes
from newkinds.transfer import TAKES, Transfer, from_tensors, to_tensors

WORK = 12  # bytes at least, for each number of all embeddings, that stages behind the transfer hold beside these


class KnownStages:
    """The stages that need known pictures only, each kept in the run folder and skipped if it is there.

    heap: the unsorted pictures, where there are any. auxiliary: files of methods' networks, by name. asked: the
    settings as the user gave them, if others are passed; weights_digest: what stands for the weights, if the file that
    was given is not there any more: both for a run that is opened from its folder alone.
    """

    def __init__(
        self,
        known: ImageSet,
        heap: ImageSet | None,
        out: Path,
        settings: CoreSettings,
        *,
        weights: Path | None = None,
        foreign: Foreign | None = None,
        auxiliary: Mapping[str, Path] | None = None,
        device: str | None = None,
        cache: Cache | None = None,
        progress: Progress = QUIET,
        asked: CoreSettings | None = None,
        weights_digest: str | None = None,
    ) -> None:
        warning = check_known(known, 1 if known.is_embedding or foreign is not None else 2)
        if warning is not None:
            progress.warn(warning)
        self.known, self.heap = known, heap
        self.progress = progress
        self.cache = cache or Cache()
        self.asked = asked or settings
        self.weights = pretrained_network(settings, known, weights, foreign)
        self._told = told_by(weights)
        self.accelerator = make_accelerator(device)
        self.method = METHODS[settings.method]
        takes_features = settings.kinds == "auto" or self.method.takes_features(settings)
        self.settings = resolved(settings, known, self.weights, self.accelerator.device, takes_features)
        self._check_room()
        progress.say(profile_in_words(self.settings.profile))
        self.trained, self.probes = self._split_known()
        data = {"known": about(known), "weights": weights_digest or pretrained_digest(self.weights, weights)}
        sources = {"known": known.source}
        if heap is not None:
            data["unsorted"] = about(heap)
            sources["unsorted"] = heap.source
        files = auxiliary or {}
        self.auxiliary = {name: read_auxiliary(file, name, known, self.settings) for name, file in files.items()}
        if files:
            data["auxiliary"] = {name: digest(read_plain(file)) for name, file in files.items()}
        data |= self.identity()
        self.run = RunFolder.start(out, self.settings, data, sources, progress)
        self._features: dict[str, NDArray[np.float32]] = {}  # already read or computed
        self._transfer: Transfer | None = None
        torch.set_num_threads(self.run.threads)

    def _check_room(self) -> None:
        """Raise an OutOfMemoryError, before anything is computed or written, if embeddings take too much."""
        if not self.known.is_embedding:
            return
        sets = [self.known] if self.heap is None else [self.known, self.heap]
        learns = self.known.pixels.size * TAKES if self.transfers and self.settings.transfer.kind != "none" else 0
        every = sum(one.pixels.size for one in sets)
        rows = sum(map(len, sets))
        check_room(
            every * 4 + max(learns, every * WORK),
            f"Work on {rows:,} embeddings of {self.known.channels:,} numbers",
            "Give fewer pictures or shorter embeddings; --set transfer.kind=none also needs less.",
        )

    def identity(self) -> dict[str, Any]:
        """Return what identifies the run beside its pictures and its weights."""
        return {}

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

    @property
    def rehearses(self) -> bool:
        """Whether rehearsals are wanted, and possible with the method: those with auxiliary networks train too long."""
        wanted = self.settings.rehearse.rehearsals > 0 and self.method.auxiliary is None
        return wanted and self.method.takes_features(self.settings)

    @property
    def _kinds_by_method(self) -> int | None:
        """The number of kinds to begin with, if the method finds their number itself."""
        return None if self.heap is None else self.method.finds_kinds(self.settings, len(self.heap))

    def _split_known(self) -> tuple[ImageSet, ImageSet]:
        """Split the known kinds into those that f is trained on and the probes, of Algorithm 2 and of rehearsals.

        With few known kinds, or if nothing needs probes, f is trained on all of them, and they are the probes, too.
        """
        counts = self.settings.kinds == "auto" and self._kinds_by_method is None
        if not counts and not (self.rehearses and self.weights is None):
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
                found = self.extract(network, images, view)
                self.run.put_array(name, found)
                self.run.sync()
            self._features[which] = found
        return self._features[which]

    def extract(self, network: Network, images: ImageSet, view: str) -> NDArray[np.float32]:
        """Return f's features of pictures, computed or from the cache."""
        return extract_features(network, images, view=view, cache=self.cache, progress=self.progress)

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
        with self.run.understood(names.TRANSFER):
            self._transfer = from_tensors(*read_tensors(self.run, names.TRANSFER))
        self.progress.say(in_words_of_transfer(self._transfer))
        return self._transfer

    def learnt(self, network: Network) -> Learnt | None:
        """Return what f has learnt of the known pictures; None if nothing, or if that is not known."""
        if self.transfers or not network.has_weights:
            return None
        told = self._told if self.weights is not None else network_about(self.run.get(names.NETWORK), names.NETWORK)
        return what_was_learnt(told, self.known)

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

    def rehearse(self, network: Network, kinds: int, pictures: int, heap: Heap | None = None) -> Rehearsal:
        """Return what came of rehearsals for a heap of so many kinds and pictures, made first if they are missing.

        heap: what the heap holds, if that is not new kinds alone; then kinds and pictures are those of new ones.
        """
        stage = self._stage(network, heap or Heap())
        found = Rehearsal(why=self._why_none()) if stage is None else rehearse(stage, kinds=kinds, pictures=pictures)
        if not self.run.has(names.REHEARSAL):
            self.run.put_json(names.REHEARSAL, found.to_dict())
            self.run.sync()
        return found

    def rehearse_alone(self, network: Network) -> Rehearsal:
        """Return what came of rehearsals without a heap: a third of the known kinds, as large as they are."""
        assert self.known.labels is not None
        kinds = max(2, len(self.known.classes) // 3) if self.settings.kinds == "auto" else self.settings.kinds
        return self.rehearse(network, kinds, kinds * int(np.bincount(self.known.labels).max()))

    def _why_none(self) -> str:
        """Return why there are no rehearsals, as the end of a sentence."""
        if self.method.auxiliary is not None:
            return f"the method {self.settings.method!r} takes too long to be rehearsed"
        if not self.method.takes_features(self.settings):
            return f"the method {self.settings.method!r} works on pixels, not on features"
        if self.weights is not None:
            return "the network that was given may have been trained on all known kinds, so none can be hidden"
        return (
            f"the network was trained on all {len(self.known.classes)} known kinds; with "
            f"{self.settings.count.enough} or more, some would be kept out of training"
        )

    def _stage(self, network: Network, heap: Heap) -> Stage | None:
        """Return what rehearsals need; None where there are no known kinds that f has not learnt from."""
        if not self.rehearses:
            return None
        if self.transfers:
            pictures, rows = self.known, self.views(network, "known", self.known)
            way: str | None = self.transfer(network).chosen if self.method.takes_transfer else "none"
        else:
            pictures, way = self._unseen(), None
            if len(pictures.classes) < 2:
                return None
            rows = Views((self.features(network, "probes", pictures),))
        return Stage(
            self.run,
            network,
            self.known,
            pictures,
            rows,
            way,
            self.settings,
            self.asked,
            self.accelerator,
            self.cache,
            self.progress,
            heap,
        )

    def _unseen(self) -> ImageSet:
        """Return the known pictures of kinds that f was not trained on, as far as that is known."""
        if self.probes is not self.known:
            return self.probes
        told = self._told.get("classes")
        if self.weights is None or not isinstance(told, list):
            return self.known.with_classes([])
        return self.known.with_classes([i for i, name in enumerate(self.known.classes) if name not in told])
