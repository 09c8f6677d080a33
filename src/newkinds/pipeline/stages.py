"""All stages of a run in order, each kept in the run folder and skipped when it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.count import count_kinds, in_words, probe_kinds
from newkinds.discovery import Discovery
from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import as_numbers, read_truth
from newkinds.features import apply, extract_features
from newkinds.files import digest
from newkinds.images import check_known, check_unsorted
from newkinds.images.imageset import ImageSet, group_of
from newkinds.methods.base import Material, Moment, Tensors
from newkinds.methods.dtc import Clustered
from newkinds.methods.registry import METHODS
from newkinds.networks import Foreign, Network
from newkinds.networks.files import (
    clustering_to_bytes,
    from_bytes,
    network_to_bytes,
    to_bytes,
)
from newkinds.networks.sources import digest_of_given, given_network
from newkinds.parallel.processes import is_writer, make_accelerator
from newkinds.pipeline.pretraining import NETWORK, about, pretrained, read_lesson
from newkinds.pipeline.resolve import resolved, why_loss
from newkinds.predict import MODEL, kinds_csv, prototypes
from newkinds.progress import QUIET, Progress
from newkinds.report.count_plot import count_plot
from newkinds.runs import RunFolder
from newkinds.runs.results import (
    CHOICE,
    EMBEDDING,
    KNOWN,
    LAST,
    LAST_PROBABILITIES,
    PAGE,
    PROBABILITIES,
    put_moment,
    read_result,
    report_run,
    score_run,
)
from newkinds.settings import Settings


class Pipeline:
    """The stages of one run: pretrain, extract, count, cluster, score, report."""

    def __init__(
        self,
        known: ImageSet,
        unsorted: ImageSet,
        out: Path,
        settings: Settings,
        *,
        weights: Path | None = None,
        foreign: Foreign | None = None,
        lessons: Mapping[str, Path] | None = None,
        truth: str | Path | None = None,
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
        self.truth = None if truth is None else read_truth(truth, unsorted)
        self.weights = given_network(settings, known, weights, foreign)
        self.accelerator = make_accelerator()
        takes_f = settings.kinds == "auto" or METHODS[settings.method].takes_f(settings)
        self.settings = resolved(settings, known, self.weights, self.accelerator.device.type != "cpu", takes_f)
        self.trained, self.probes = self._split_known()
        data = {
            "known": about(known),
            "unsorted": about(unsorted),
            "weights": digest_of_given(self.weights, weights),
        }
        self.lessons = {name: read_lesson(file, name, known, self.settings) for name, file in (lessons or {}).items()}
        if lessons:
            data["lessons"] = {name: digest(file.read_bytes()) for name, file in lessons.items()}
        sources = {"known": known.source, "unsorted": unsorted.source}
        self.run = RunFolder.start(out, self.settings, data, sources, progress)
        torch.set_num_threads(self.run.threads)

    def _split_known(self) -> tuple[ImageSet, ImageSet]:
        """Split the known kinds into those that f is trained on and the probes of Algorithm 2.

        With few known kinds, or none to be counted, f needs them all: then the probes are the same kinds.
        """
        if self.settings.kinds != "auto" or self._finds_kinds:
            return self.known, self.known
        chosen = probe_kinds(self.known.classes, self.settings.count, self.settings.seed)
        given = self.weights is not None  # f is not trained here: what it was trained on is not known
        if chosen is None or (given and self.settings.count.probes == "auto"):
            return self.known, self.known
        others = sorted(set(range(len(self.known.classes))) - set(chosen))
        return self.known if given else self.known.with_classes(others), self.known.with_classes(chosen)

    def network(self) -> Network:
        """Train f on the known kinds, or take it from the run or from the weights given."""
        if self.weights is not None and not self.run.has(NETWORK):
            self.run.put(NETWORK, network_to_bytes(self.weights))
            self.run.sync()
        why = why_loss(self.settings.pretrain, self.known)
        return pretrained(self.run, self.trained, self.settings, self.accelerator, why, self.progress)

    def features(self, network: Network, which: str, images: ImageSet) -> NDArray[np.float32]:
        """Return f's features of a set of pictures."""
        name = f"features/{which}.npy"
        if not self.run.has(name):
            self.run.put_array(name, extract_features(network, images, progress=self.progress))
            self.run.sync()
        features: NDArray[np.float32] = self.run.get_array(name)
        return features

    def kinds(self, network: Network) -> int:
        """Return the number of kinds to look for: the one asked for, or Algorithm 2's estimate."""
        if self.settings.kinds != "auto":
            return self.settings.kinds
        if self._finds_kinds:
            return min(self.settings.pairs.most, len(self.unsorted) // 2)
        k: int = self.count(network)["k"]
        if k < 2:
            raise DataError(
                f"The estimate is {k} new kinds: the unsorted pictures look like one kind, or known.",
                hint="Look at count.json, and say the number with --kinds if you know better.",
            )
        return k

    @property
    def _finds_kinds(self) -> bool:
        """Whether the method finds the number of kinds itself, by dropping small ones."""
        return self.settings.method in ("kcl", "mcl") and self.settings.pairs.unknown == "drop"

    def count(self, network: Network) -> dict[str, Any]:
        """Return what count.json holds, Algorithm 2's estimate, made first if it is not there yet."""
        if not self.run.has("count.json"):
            probes, unsorted = (
                self.features(network, "probes", self.probes),
                self.features(network, "unsorted", self.unsorted),
            )
            if is_writer():
                self._count(probes, unsorted)
            self.run.sync()
        count: dict[str, Any] = self.run.get_json("count.json")
        self.progress.say(in_words(count))
        for remark in count["remarks"]:
            self.progress.warn(remark)
        return count

    def _count(self, probes: NDArray[np.float32], unsorted: NDArray[np.float32]) -> None:
        """Run Algorithm 2 on the features of probes and unsorted pictures and keep count.json, and a picture of it."""
        assert self.probes.labels is not None
        settings, seed = self.settings.count, self.settings.seed
        groups = None
        if settings.probe_groups == "apart":
            groups = [group_of(name) for name in self.probes.classes]
        found = count_kinds(
            probes, self.probes.labels, unsorted, settings, groups=groups, seed=seed, progress=self.progress
        )
        values = found.to_dict()
        if self.weights is None and self.probes is self.known:
            remark = (
                f"All {len(self.known.classes)} known kinds were learnt and are the probes as well, being fewer than "
                f"count.enough = {settings.enough}: the network tells them apart better than it does new kinds."
            )
            values["remarks"] = [*values["remarks"], remark]
        values["probes"] = list(self.probes.classes)
        self.run.put("count.png", count_plot(values))
        self.run.put_json("count.json", values)

    def cluster(self, network: Network, kinds: int, *, model: bool = True) -> None:
        """Run the method and keep its model (if it is wanted), the probabilities and kinds.csv."""
        if self.run.has("kinds.csv"):
            return
        checkpoints = self.run.checkpoints()
        found = METHODS[self.settings.method].run(
            Material(
                network,
                self.known,
                self.settings,
                unsorted=self.unsorted,
                kinds=kinds,
                features=self.features(network, "unsorted", self.unsorted),
                truth=None if self.truth is None else as_numbers(self.truth),
                accelerator=self.accelerator,
                checkpoints=checkpoints,
                log=self.run.log,
                progress=self.progress,
                keep=self._keep,
                watch=self._watch,
            )
        )
        kinds = found.probabilities.shape[1]
        empty = kinds - len(np.unique(found.kinds))
        if empty:
            self.progress.warn(
                f"{empty} of {kinds} kinds stayed empty: kinds have merged. Ask for fewer with --kinds, or try a lower "
                "discover.learning_rate or discover.consistency in a new run folder."
                if self.settings.method == "dtc"
                else f"{empty} of {kinds} kinds stayed empty. Ask for fewer with --kinds, or try another --method."
            )
        self.run.put_json(KNOWN, list(self.known.classes))
        words = {"known_classes": list(self.known.classes)}
        if model and found.network is not None:
            extra = prototypes(found.network, self.known, self.unsorted, found.kinds)
            self.run.put(MODEL, clustering_to_bytes(found.network, extra, **words))
        if isinstance(found, Clustered):
            self.run.put_json(CHOICE, found.choice.to_dict())
            if model and found.last is not None:
                self.run.put(LAST, clustering_to_bytes(found.last, {}, **words))
                self.run.put_array(LAST_PROBABILITIES, np.exp(apply(found.last, self.unsorted)))
        self.run.put_array(EMBEDDING, found.embedding)
        self.run.put_array(PROBABILITIES, found.probabilities)
        columns = [str(kind) for kind in range(kinds)]
        self.run.put("kinds.csv", kinds_csv(self.unsorted.names, columns, found.probabilities))
        self.run.sync()
        checkpoints.clear()

    def _watch(self, moment: Moment) -> None:
        """Keep a state on the way, for pictures of it."""
        put_moment(self.run, moment)

    def _keep(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return tensors that the run was given or has under a name, made first if there are none."""
        if name in self.lessons:
            return self.lessons[name]
        file = f"model/{name}.safetensors"
        if not self.run.has(file):
            self.run.put(file, to_bytes(make(), {}))
            self.run.sync()
        return from_bytes(self.run.get(file), str(self.run.path / file))[0]

    def score_and_report(self, page: bool) -> None:
        """Score the kinds where the truth is known, and make the page if it is wanted, unless both are there."""
        name = "scores.json"
        scored = self.run.has(name) and self.run.get_json(name)["truth"] == list(self.truth or ())
        if self.truth is not None and not scored:
            score_run(self.run, self.truth)
        if page and (not self.run.has(PAGE) or (self.truth is not None and not scored)):
            report_run(self.run, self.unsorted, progress=self.progress)

    def result(self, *, page: bool = True, model: bool = True) -> Discovery:
        """Run all stages and return what was found. page, model: whether the report and what `predict` needs are."""
        try:
            network = self.network()
            self.features(network, "unsorted", self.unsorted)
            self.cluster(network, self.kinds(network), model=model)
            if is_writer():
                self.score_and_report(page)
            self.run.sync()
            return replace(read_result(self.run), network=self.settings.network)
        finally:
            self.run.close()
