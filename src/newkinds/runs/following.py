"""The answer of a run after what people said: what kinds.csv, the page, scores, exports and predictions go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment, known_kind
from newkinds.corrections import State, corrected
from newkinds.corrections.again import Said
from newkinds.corrections.corrected import current_column
from newkinds.evaluation.scores import Scores, score_answer
from newkinds.progress import QUIET, Progress
from newkinds.rehearsal.trust import Trust
from newkinds.runs import names
from newkinds.runs.folder import RunFolder
from newkinds.runs.growth import Since, read_growth, since
from newkinds.runs.journal import Journal
from newkinds.runs.results import read_assignment, read_scores, read_trust

OF_MACHINE = "of_machine"  # in scores.json: they are the machine's, against what people said


@dataclass(frozen=True)
class Answer:
    """What a run found, and what people said about it.

    assignment: what holds. machine: what the method said, the same one where nothing that was said holds. called: names
    of kinds. line: the last one of the journal, 0 where nothing was ever said; actions: how many hold. state: None
    where there is no journal.
    """

    assignment: Assignment
    machine: Assignment
    called: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    actions: int = 0
    state: State | None = None

    @property
    def is_corrected(self) -> bool:
        """Whether something that was said changes the answer."""
        return self.assignment is not self.machine

    @property
    def is_again(self) -> bool:
        """Whether the machine has sorted the pictures again by what people said."""
        return "again" in self.machine.source

    @property
    def holds(self) -> int:
        """The line of the journal that files which follow it go up to: 0 where they are the machine's alone."""
        return self.line if self.is_corrected else 0

    def now_of(self, columns: Sequence[str]) -> NDArray[np.float32]:
        """Return which of the kinds now (C) some that the machine had (K) are: float32 (K, C), a 1 in each row, or none
        where the kind is gone.
        """
        into = np.zeros((len(columns), len(self.assignment.columns)), dtype=np.float32)
        for row, column in enumerate(columns):
            now = column if self.state is None else current_column(self.state, column)
            if now in self.assignment.columns:
                into[row, self.assignment.columns.index(now)] = 1
        return into


def read_answer(run: RunFolder, progress: Progress = QUIET) -> Answer:
    """Return the answer of a run that has sorted its pictures."""
    if not has_journal(run) and not run.said and not run.followed(names.KINDS) and not run.lists(names.GROWN):
        found = read_assignment(run)
        return Answer(found, found)
    return answer_by(Journal.open(run, progress))


def answer_by(journal: Journal) -> Answer:
    """Return the answer of a run by its journal."""
    state = journal.state
    called = {kind: name for kind, name in state.called.items() if kind not in state.merged}
    actions = len(journal.history.done)
    return Answer(corrected(journal.answer, state), journal.answer, called, journal.last, actions, state)


def has_journal(run: RunFolder) -> bool:
    """Return whether anybody has said anything about a run."""
    file = run.path / names.JOURNAL
    return file.is_symlink() or (file.is_file() and file.stat().st_size > 0)


def follow(run: RunFolder, answer: Answer | None = None) -> Answer:
    """Bring kinds.csv up to the last line of the journal, and return the answer; the run is open for writing."""
    answer = answer or read_answer(run)
    run.remember_said(answer.line if answer.actions else 0)
    if run.followed(names.KINDS) != answer.holds:
        run.put_followed(names.KINDS, answer.assignment.table(), answer.holds)
    return answer


def pinned_again(run: RunFolder, pictures: int) -> NDArray[np.bool_]:
    """Return which pictures people had spoken of when the machine sorted them, bool (N,), also in earlier weeks."""
    growth = read_growth(run)
    told = np.zeros(pictures, np.bool_) if growth is None else growth.carried.over(pictures, growth.carried.said)
    pinned = Said.from_dict(run.get_json(names.AGAIN)).pinned if run.lists(names.AGAIN) else ()
    return told | pinned if len(pinned) == pictures else told


def read_since(run: RunFolder, answer: Answer) -> Since | None:
    """Return what is new since the last week in the answer of a run that goes on from another one."""
    growth = read_growth(run)
    return None if growth is None else since(growth, answer.assignment, answer.called)


def known_columns(run: RunFolder) -> dict[str, str]:
    """Return the column of each known kind of a run by its name, {"bolt": "known:bolt"}."""
    return {name: known_kind(name) for name in run.get_json(names.KNOWN)} if run.lists(names.KNOWN) else {}


def read_current_scores(run: RunFolder, answer: Answer) -> tuple[Scores, Scores, tuple[str, ...]] | None:
    """Return the scores of the answer as it is now, those of k-means, and the truth, if the run was scored."""
    kept = read_scores(run)
    if kept is None or not answer.is_corrected or run.get_json(names.SCORES).get(OF_MACHINE):
        return kept
    _, baseline, truth = kept
    return score_answer(answer.assignment, truth, known_columns(run)), baseline, truth


def read_current_trust(run: RunFolder, answer: Answer) -> Trust | None:
    """Return what to expect of the answer as it is now, None if no rehearsals were asked for.

    Confirmed pictures are right, and of one kind; the others are as pure as the kinds that the machine put them into.
    """
    trust = read_trust(run)
    if trust is None or answer.state is None or not (answer.is_corrected or answer.state.told.any()):
        return trust
    confirmed = answer.state.confirmed
    acc, open_ = float(answer.assignment.probability.mean()), float((~confirmed).mean())
    pure = np.array([1.0 if share is None else share for share in trust.purity])[answer.machine.labels]
    pure[confirmed] = 1
    sizes = answer.assignment.sizes
    shares = np.bincount(answer.assignment.labels, pure, len(sizes)) / np.maximum(sizes, 1)
    number = int(confirmed.sum())
    remark = (f"{number:,} {'picture is' if number == 1 else 'pictures are'} confirmed by a person.",) if number else ()
    return replace(
        trust,
        acc=acc,
        low=max(0.0, acc - open_ * (trust.acc - trust.low)),
        high=min(1.0, acc + open_ * (trust.high - trust.acc)),
        purity=tuple(float(share) if size else None for share, size in zip(shares, sizes.tolist(), strict=True)),
        remarks=(*trust.remarks, *remark),
    )
