"""The stages of a discovery in order, each kept in the run folder and skipped if it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment
from newkinds.cache import Cache
from newkinds.corrections.actions import Again
from newkinds.corrections.again import Said, sorted_anew, what_was_said
from newkinds.discovery import Discovery, read_discovery
from newkinds.errors import HopelessError, UsageError
from newkinds.evaluation.coverage import coverage
from newkinds.evaluation.truth import as_numbers, read_truth
from newkinds.features import apply
from newkinds.images import check_unsorted
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem, Snapshot, Solution, Tensors
from newkinds.methods.mixed import named_by_nearest, solve
from newkinds.methods.registry import METHODS
from newkinds.networks import Foreign, Network, build_network, is_foreign
from newkinds.networks.files import model_to_bytes
from newkinds.networks.tuning import freeze_but_last
from newkinds.parallel.processes import is_writer
from newkinds.pipeline.frozen import as_embeddings, behind
from newkinds.pipeline.heap import Heap
from newkinds.pipeline.heap_stages import HeapStages
from newkinds.pipeline.known_quality import remedies
from newkinds.pipeline.rehearsing import Rehearsal
from newkinds.pipeline.scoring import score_again, score_run
from newkinds.pipeline.strangers import Told, called_none, references_of, unlike_in_heap, with_none, with_remark
from newkinds.predict import prototypes
from newkinds.progress import QUIET, Progress
from newkinds.rehearsal.calibration import carried_over
from newkinds.rehearsal.likeness import far_in_words, likeness
from newkinds.rehearsal.outcome import AS_SET, choice_in_words, why_hopeless
from newkinds.rehearsal.signals import signals
from newkinds.rehearsal.trust import judge
from newkinds.report.known_kinds import find_nearest_known
from newkinds.report.run import report_run
from newkinds.runs import names
from newkinds.runs.following import Answer, follow, pinned_again, read_answer
from newkinds.runs.journal import Journal
from newkinds.runs.results import put_assignment, put_snapshot, put_tensors, read_scores, read_tensors
from newkinds.settings import CoreSettings
from newkinds.training import Checkpoints
from newkinds.transfer import Transfer, untouched
from newkinds.unlike import Unlike

OF_METHOD = ("head", "sorted")  # of an answer: its columns as the method had them, for what was kept in their order


class Pipeline(HeapStages):
    """The stages of one run: pretrain, extract, count, rehearse, sort, score, report."""

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
        asked: CoreSettings | None = None,
        weights_digest: str | None = None,
    ) -> None:
        check_unsorted(unsorted)
        if isinstance(settings.kinds, int) and settings.kinds > len(unsorted):
            raise UsageError(
                f"{settings.kinds} kinds were asked for, but there are only {len(unsorted)} unsorted pictures.",
                hint=f"Ask for 2 to {len(unsorted)} with --kinds, or give more pictures.",
            )
        self.unsorted = unsorted
        self._parts = {}
        self.truth = None if truth is None else read_truth(truth, unsorted, progress)
        super().__init__(
            known,
            unsorted,
            out,
            settings,
            weights=weights,
            foreign=foreign,
            auxiliary=auxiliary,
            device=device,
            cache=cache,
            progress=progress,
            asked=asked,
            weights_digest=weights_digest,
        )

    def settled(self, found: Assignment) -> tuple[Assignment, tuple[str, ...]]:
        """Return what a method found in the kinds of the run, and what its columns are in the order that they had."""
        return found, found.columns

    def pinned(self, answer: Assignment) -> Assignment:
        """Return an answer in which what people had said before the pictures were sorted holds."""
        return answer

    def unsaid(self, none: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the probability of none of pictures of which no person had said anything, (N,) as it is given."""
        return none

    def gone(self, none: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the same with pictures of which a person had said that they are none."""
        return none

    @property
    def said_before(self) -> NDArray[np.bool_]:
        """Of which pictures people had said before they were sorted what they are, bool (N,)."""
        return np.zeros(len(self.unsorted), dtype=np.bool_)

    @property
    def given(self) -> ImageSet:
        """The pictures of kinds that are known, of which the first of `known` are."""
        return self.known

    def rehearsal(self, network: Network, kinds: int, heap: Heap, *, anyway: bool) -> Rehearsal:
        """Return what came of rehearsals; without `anyway`, stop where they say that it is not worth going on."""
        if not self.settings.rehearse.rehearsals:
            return Rehearsal()
        found = self.rehearse(network, kinds, len(heap.rows(len(self.unsorted), kinds)), heap)
        if not found.hopeless:
            if found.chosen != AS_SET:
                self.progress.say(choice_in_words(found.tried, found.chosen))
            return found
        why = why_hopeless(found.rehearsed, found.chosen)
        if not anyway:
            epochs = self.settings.pretrain.epochs
            trained_for = epochs if self.weights is None and isinstance(epochs, int) else None
            help_ = "; ".join(remedies(self.known, trained_for))
            raise HopelessError(why, hint=f"What may help: {help_}. To sort the heap all the same, add --anyway.")
        self.progress.warn(why)
        return found

    def rehearsed(self, network: Network) -> Rehearsal:
        """Return what came of rehearsals alone, whatever they say."""
        heap = self.heap_of(network)
        if heap.holds == "known":
            return Rehearsal(why="nothing new was found in the heap")
        return self.rehearsal(network, self.kinds(network, heap), heap, anyway=True)

    def sort(self, network: Network, kinds: int, heap: Heap, rehearsal: Rehearsal, *, model: bool = True) -> None:
        """Run the method and keep its answer and, if wanted, its model."""
        if self.run.has(names.KINDS):
            return
        checkpoints = self.run.checkpoints()
        settings = self.settings.with_changes(rehearsal.changes[rehearsal.chosen])
        method = METHODS[settings.method]
        problem = self._problem(network, kinds, heap, settings, checkpoints)
        found = solve(method, problem)
        last = None if found.last is None else np.exp(apply(found.last, problem.unsorted))
        if self.frozen and method.takes_transfer:
            transfer = self._transfer_of(network, settings)
            found = behind(network.with_transfer(transfer.mean, transfer.matrix), found)
        new = found.assignment.of_sort("new")
        empty = int((found.assignment.sizes[new] == 0).sum())
        if empty:
            self.progress.warn(f"{empty} of {len(new)} new kinds stayed empty. {method.advice}")
        told = self._strangers(network, found.assignment, settings)
        named, head = self.settled(found.assignment)
        found = replace(found, assignment=named)
        self.run.put_json(names.KNOWN, list(self.given.classes))
        beside = self._beside(network, problem)
        none = self.unsaid(called_none(told, self.settings))
        found = replace(found, assignment=with_remark(found.assignment, told, self.progress))
        answer = self.pinned(self._judged(found.assignment, problem.features, rehearsal, beside, none))
        if model:
            unlike = None if told is None else references_of(told, self.gone(none))
            self._put_models(found, answer, head, last, settings, unlike)
        if found.choice is not None:
            self.run.put_json(names.CHOICE, found.choice.to_dict())
        self.run.put_array(names.EMBEDDING, found.embedding)
        if self.run.has(names.AGAIN):
            said = Said.from_dict(self.run.get_json(names.AGAIN))
            answer = self._sorted_by(said, problem.features, rehearsal, beside, answer)
        put_assignment(self.run, answer)
        self.run.sync()
        checkpoints.clear()

    def name_known(self, network: Network) -> None:
        """Keep an answer for a heap in which nothing is new: the nearest known kind of each picture."""
        if self.run.has(names.KINDS):
            return
        problem = self._problem(network, 0, Heap(), self.settings, self.run.checkpoints())
        known = problem.known_points("features")
        self.run.put_json(names.KNOWN, list(self.given.classes))
        self.run.put_array(names.EMBEDDING, problem.features)
        found = named_by_nearest(problem, known)
        told = self._strangers(network, found, self.settings)
        none = self.unsaid(called_none(told, self.settings))
        found = self.pinned(with_none(self.settled(found)[0], none))
        put_assignment(self.run, with_remark(found, told, self.progress))
        self.run.sync()

    def _strangers(self, network: Network, found: Assignment, settings: CoreSettings) -> Told | None:
        """Return what tells pictures that are of no kind; None where f is trained on these pictures.

        Others of their kinds would then seem unlike them.
        """
        if not self.frozen:
            return None
        assert self.known.labels is not None
        known, heap = self.views(network, "known", self.known), self.features(network, "unsorted", self.unsorted)
        takes = METHODS[settings.method].takes_transfer
        transfer = self._transfer_of(network, settings) if takes else untouched(heap.shape[1])
        parts = self._parted(network, transfer.chosen)
        return unlike_in_heap(known, self.known.labels, heap, found, transfer, settings, parts)

    def sort_again(self, network: Network, kinds: int, heap: Heap, rehearsal: Rehearsal) -> None:
        """Sort the pictures of a sorted run anew by what people said since, and keep that answer in its place."""
        answer = read_answer(self.run, self.progress)
        if self._is_sorted_again(answer):
            self.progress.say("Nothing has been said since the pictures were last sorted again.")
            return
        if answer.state is None or not answer.is_corrected:
            raise UsageError(
                f"Nobody has said anything about the kinds in {self.run.path} that could be used to sort again.",
                hint="Move or confirm pictures, merge or split kinds, or leave --again out.",
            )
        said = what_was_said(answer.machine, answer.state, answer.line)
        settings = self.settings.with_changes(rehearsal.changes[rehearsal.chosen])
        problem = self._problem(network, kinds, heap, settings, self.run.checkpoints())
        self.run.put_json(names.AGAIN, said.to_dict())
        self.run.forget(names.KINDS)  # a crash from here on is mended by the same line, which sorts by what was said
        beside = self._beside(network, problem)
        found = self._sorted_by(said, problem.features, rehearsal, beside, answer.machine)
        put_assignment(self.run, found)
        if is_writer():
            self._say_again(said.line)
        self.run.sync()
        changed = int((found.kinds != answer.assignment.kinds).sum())
        self.progress.say(f"Sorted again, using what people said: {changed:,} of {len(found):,} pictures changed kind.")

    def _is_sorted_again(self, answer: Answer) -> bool:
        """Return whether an answer holds all that was said; if a crash left that half recorded, record it."""
        line = answer.machine.source.get("again")
        if line is None:
            return False
        since = [one.said for one in Journal.open(self.run, self.progress).lines[line:]]
        if since not in ([], [Again(line=line)]):
            return False
        if is_writer():
            self._say_again(None if since else line)
        self.run.sync()
        return True

    def _say_again(self, line: int | None) -> None:
        """Record in the journal that its first lines, up to `line`, are in the answer, and score that."""
        if line is not None:
            Journal.open(self.run, self.progress).say(Again(line=line))
        score_again(self.run, self._features.get("unsorted"))

    def _sorted_by(
        self,
        said: Said,
        features: NDArray[np.float32],
        rehearsal: Rehearsal,
        known: NDArray[np.float32] | None,
        before: Assignment,
    ) -> Assignment:
        """Return the pictures sorted by what people said, with probabilities as `_judged` makes them.

        before: the answer that they said it about.
        """
        source = {"method": METHODS[self.settings.method].name, "seed": self.settings.seed}
        source |= {key: before.source[key] for key in OF_METHOD if key in before.source}
        return self._judged(sorted_anew(self.unsorted.names, said, features, source), features, rehearsal, known)

    def _beside(self, network: Network, problem: Problem) -> NDArray[np.float32] | None:
        """Return the features of known pictures that f has not learnt from, beside which the heap may be far away."""
        if problem.known.is_embedding:
            return problem.known.pixels.astype(np.float32, copy=False)
        if self.transfers or not self.rehearses or not (unseen := self._unseen()).classes:
            return None
        return self.features(network, "probes", unseen)

    def _judged(
        self,
        found: Assignment,
        features: NDArray[np.float32],
        rehearsal: Rehearsal,
        known: NDArray[np.float32] | None,
        none: NDArray[np.float64] | None = None,
    ) -> Assignment:
        """Return the answer with calibrated probabilities, and keep what to expect of it and what the method said.

        none: the probability of none of pictures that are of no kind, 0 of the others, (N,), None where there are none
        of them. What is expected is said of the others.
        """
        if not self.settings.rehearse.rehearsals:
            return with_none(found, none)
        chosen, labels = rehearsal.chosen, found.labels
        sorted_ = np.ones(len(labels), dtype=bool) if none is None else none == 0
        rehearsed = [one.likeness for one in rehearsal.rehearsed if one.likeness is not None]
        far = "" if known is None else far_in_words(likeness(features, known, seed=self.settings.seed), rehearsed)
        trust, own = judge(
            signals(labels, features, seed=self.settings.seed)[sorted_],
            labels[sorted_],
            len(found.columns) + (none is not None and NONE not in found.columns),
            rehearsal.right.get(chosen, ()),
            rehearsal.pure.get(chosen, ()),
            [one.trials[chosen] for one in rehearsal.rehearsed],
            hidden=max((len(one.hidden) for one in rehearsal.rehearsed), default=0),
            why=rehearsal.why,
            remarks=[far] if far else [],
        )
        self.run.put_json(names.TRUST, trust.to_dict())
        self.run.put_array(names.UNCALIBRATED, found.probabilities)
        probability = found.probability.astype(np.float64)
        probability[sorted_] = own
        return with_none(found.with_own(probability), none)

    def _transfer_of(self, network: Network, settings: CoreSettings) -> Transfer:
        """Return the transfer of the run, or none where what was chosen leaves features as they are."""
        transfer = self.transfer(network)
        return transfer if settings.transfer.kind == self.settings.transfer.kind else untouched(len(transfer.mean))

    def _problem(
        self, network: Network, kinds: int, heap: Heap, settings: CoreSettings, checkpoints: Checkpoints
    ) -> Problem:
        """Return what the method is to solve: pictures and f, or features where f is frozen.

        Where the last blocks of f are trained, the start is that of frozen features.
        """
        known, unsorted, features = self.known, self.unsorted, self.features(network, "unsorted", self.unsorted)
        if self.transfers and METHODS[settings.method].takes_transfer:
            transfer = self._transfer_of(network, settings)
            features = self.views(network, "unsorted", unsorted).transferred(transfer)
            if self.frozen:
                known = as_embeddings(known, self.views(network, "known", known).transferred(transfer))
                unsorted = as_embeddings(unsorted, features)
                network = build_network("identity", features.shape[1], 1, settings.seed).to(network.device)
            else:
                network = network.with_transfer(transfer.mean, transfer.matrix)
        if self.transfers and not self.frozen:
            freeze_but_last(network)
        learnt = self.learnt(network)
        return Problem(
            network,
            known,
            settings,
            unsorted=unsorted,
            kinds=kinds,
            features=features,
            truth=as_numbers(self.truth) if self.truth is not None and coverage(self.truth).enough else None,
            accelerator=self.accelerator,
            checkpoints=checkpoints,
            log=self.run.log,
            progress=self.progress,
            keep=self._keep,
            watch=self._watch,
            novelty=heap.mixed if heap.holds == "mixed" else None,
            not_learnt=None if learnt is None else learnt.not_learnt,
        )

    def _put_models(
        self,
        found: Solution,
        answer: Assignment,
        head: tuple[str, ...],
        last: NDArray[np.float32] | None,
        settings: CoreSettings,
        unlike: Unlike | None,
    ) -> None:
        """Keep what `predict` needs, and the nearest known kinds, which the page shows.

        answer: what was found, with probabilities that are calibrated where they can be. head: the kinds that the
        model tells apart, in its order, and perhaps more. last: the probabilities of the last state, float32 (N, K), if
        another one was kept. unlike: what tells pictures that are of no kind.
        """
        words = {"known_classes": list(self.given.classes)}
        if found.model is not None:
            assert found.features is not None
            assert self.given.labels is not None
            known = self._known_under(found.model.network, settings)[: len(self.given)]
            columns = head[: found.model.kinds]
            new = len(answer.of_sort("new"))
            is_new = answer.labels < new
            extra = prototypes(self.given, known, found.features[is_new], answer.labels[is_new], new)
            extra |= {} if unlike is None else unlike.to_tensors()
            if answer.calibrated:
                said, own = found.assignment.probability, answer.probability.astype(np.float64)
                place = {column: number for number, column in enumerate(columns)}
                labels = np.array([place.get(column, -1) for column in answer.columns])[answer.labels]
                told = (labels >= 0) & ~self.said_before
                table = carried_over(said[told], own[told], labels[told], len(columns))
                extra["calibration"] = torch.from_numpy(table)
            if columns != answer.columns[: len(columns)] or len(columns) > new:
                words["columns"] = list(columns)
            self.run.put(names.MODEL, model_to_bytes(found.model, extra, **words))
            near = find_nearest_known(extra, new, found.features)
            if near is not None:
                put_tensors(self.run, names.NEAREST_KNOWN, near.to_tensors())
        if found.last is not None and last is not None:
            self.run.put(names.LAST_MODEL, model_to_bytes(found.last, {}, **words))
            self.run.put_array(names.LAST_PROBABILITIES, last)

    def _known_under(self, network: Network, settings: CoreSettings) -> NDArray[np.float32]:
        """Return the known pictures' features under the final f: where it is frozen, they are there already."""
        if network.transfer is None or not self.frozen:
            return apply(network, self.known)
        return self.views(network, "known", self.known).transferred(self._transfer_of(network, settings))

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
        answer = follow(self.run)
        said = np.zeros(len(self.unsorted), np.bool_) if answer.state is None else answer.state.said
        if spoken := int((said & ~pinned_again(self.run, len(said))).sum()):
            what = "a picture" if spoken == 1 else f"{spoken:,} pictures"
            self.progress.say(
                f"People have said something about {what} since the pictures were sorted; --again uses "
                "it to sort the others."
            )
        stale = self.run.followed(names.PAGE) != answer.holds
        if page and (not self.run.has(names.PAGE) or stale or (self.truth is not None and not scored)):
            report_run(self.run, self.unsorted, progress=self.progress)

    def _discover(self, network: Network, heap: Heap, *, model: bool, anyway: bool, again: bool) -> None:
        """Count, rehearse and sort; arguments as in `result`."""
        kinds = self.kinds(network, heap)
        rehearsal = self.rehearsal(network, kinds, heap, anyway=anyway)
        self.sort(network, kinds, heap, rehearsal, model=model)
        if again or (self.run.wrote(names.AGAIN) and not self.run.has(names.AGAIN)):  # damaged: the journal has it
            self.sort_again(network, kinds, heap, rehearsal)

    def result(self, *, page: bool = True, model: bool = True, anyway: bool = False, again: bool = False) -> Discovery:
        """Run all stages and return the result.

        page, model: whether to make the report, and to keep the model. anyway: whether to sort even where rehearsals
        say that it would not work. again: whether to sort anew by what people said, once everything is there.
        """
        try:
            network = self.network()
            self.features(network, "unsorted", self.unsorted)
            self.known_quality(network)
            heap = self.heap_of(network)
            if heap.holds == "known":
                self.name_known(network)
            else:
                self._discover(network, heap, model=model, anyway=anyway, again=again)
            if is_writer():
                self.score_and_report(page)
            self.run.sync()
            own = self.settings.network if is_foreign(self.settings.network) else None
            return read_discovery(self.run, own)
        finally:
            self.run.close()
