"""Which stage of a run makes which file, and from what: the table that tells what a damaged file takes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from newkinds.runs import names


@dataclass(frozen=True)
class Stage:
    """A stage of a run.

    outputs: the files that it makes; one that ends in "/" is every file in that folder that no other stage makes.
    needs: the stages whose outputs it reads. apart: its outputs are made one by one, so that one that is damaged is
    made alone; otherwise the stage makes all of them again.
    """

    name: str
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    apart: bool = False


# In the order in which a run goes through them; each needs stages above it. What is not here may have been used by any.
STAGES = (
    Stage("grown", (names.GROWN, "pictures/"), apart=True),
    Stage("network", (names.NETWORK,)),
    Stage("features", ("features/",), ("network",), apart=True),
    Stage("transfer", (names.TRANSFER,), ("features",)),
    Stage("known quality", (names.KNOWN_QUALITY,), ("network", "features", "transfer")),
    Stage("auxiliary", ("model/",), ("network",), apart=True),
    Stage("novelty", (names.NOVELTY, names.NOVELTIES), ("network", "features", "transfer")),
    Stage("count", (names.COUNT,), ("features", "transfer", "novelty")),
    Stage("count plot", (names.COUNT_PLOT,), ("count",)),
    Stage("rehearsals", ("rehearsal/",), ("network", "features", "transfer", "novelty", "count"), apart=True),
    Stage("rehearsal", (names.REHEARSAL,), ("rehearsals",)),
    Stage("again", (names.AGAIN,)),
    Stage(
        "sort",
        (
            names.KNOWN,
            names.MODEL,
            names.NEAREST_KNOWN,
            names.LAST_MODEL,
            names.LAST_PROBABILITIES,
            names.CHOICE,
            names.EMBEDDING,
            names.TRUST,
            names.UNCALIBRATED,
            names.PROBABILITIES,
            names.ASSIGNMENT,
            names.KINDS,
            f"{names.SNAPSHOTS}/",
        ),
        ("network", "features", "transfer", "auxiliary", "novelty", "count", "rehearsals", "rehearsal", "again"),
    ),
    Stage("scores", (names.SCORES,), ("features", "sort")),
    Stage("page", (names.PAGE,), ("known quality", "novelty", "count", "rehearsal", "sort", "scores")),
    Stage("cost", (names.COST,)),
)

_UNKNOWN = Stage("", (), apart=True)
_BY_NAME = {stage.name: stage for stage in (_UNKNOWN, *STAGES)}
_BY_OUTPUT = {output: stage for stage in STAGES for output in stage.outputs}


def stage_of(output: str) -> Stage:
    """Return the stage that makes a file; one without a name if the table does not have it."""
    folder = output[: output.rfind("/") + 1]
    return _BY_OUTPUT.get(output) or _BY_OUTPUT.get(folder) or _UNKNOWN


def needs_of(stage: Stage) -> set[str]:
    """Return the names of the stages that a stage was made from, directly; all are made from what is unknown."""
    return set() if stage is _UNKNOWN else {_UNKNOWN.name, *stage.needs}


def after(roots: set[str]) -> set[str]:
    """Return the names of the stages that were made from one of some stages, directly or not."""
    found: set[str] = set()
    for stage in STAGES:  # each needs stages above it
        if needs_of(stage) & (roots | found):
            found.add(stage.name)
    return found


class Ledger:
    """The outputs of a run that count, and those that fell: what is damaged, and all that was made from it.

    What fell is made again by the run that is continued. But where everything that an output was made from has come out
    as it was before, the output counts again, as it is.

    outputs: those that count, with their hashes. fallen: {"stages": those to be gone through again, "outputs": those
    that fell, with their hashes}, None if none did. is_intact: whether a file is there with a hash.
    """

    def __init__(
        self, outputs: dict[str, str], fallen: dict[str, Any] | None, is_intact: Callable[[str, str], bool]
    ) -> None:
        self.outputs = outputs
        self.fallen = fallen
        self._is_intact = is_intact

    def damaged(self) -> list[str]:
        """Return the outputs that are missing, or not what was written, sorted."""
        return sorted(name for name, known in self.outputs.items() if not self._is_intact(name, known))

    def drop(self, damaged: Iterable[str], broken: Iterable[str]) -> list[str]:
        """Let damaged outputs fall, and return the names of all that fell with them, sorted.

        broken: stages of which something else is lost.
        """
        damaged = set(damaged)
        stages = {stage_of(output) for output in damaged}
        again = {stage.name for stage in stages if not stage.apart} | set(broken)
        lost = again | after({stage.name for stage in stages} | again)
        gone = {name for name in self.outputs if name in damaged or stage_of(name).name in lost}
        before = self.fallen or {"stages": [], "outputs": {}}
        self.fallen = {
            "stages": sorted({*before["stages"], *again}),
            "outputs": {**before["outputs"], **{name: self.outputs.pop(name) for name in gone}},
        }
        return sorted(gone)

    def expected(self, name: str) -> str | None:
        """Return the hash that an output should have, None if it does not count."""
        if self.fallen is not None and name not in self.outputs and name in self.fallen["outputs"]:
            self._stands(stage_of(name))
            self._settle()
        return self.outputs.get(name)

    def add(self, name: str, known: str) -> None:
        """Let an output count that has just been written."""
        self.outputs[name] = known
        self._settle()

    def _stands(self, stage: Stage) -> bool:
        """Return whether the outputs of a stage are all as they were, after restoring those that can be."""
        assert self.fallen is not None
        own = {name: known for name, known in self.fallen["outputs"].items() if stage_of(name) is stage}
        missing = {name: known for name, known in own.items() if name not in self.outputs}
        may_count = missing and stage.name not in self.fallen["stages"]
        if may_count and all(self._stands(_BY_NAME[need]) for need in sorted(needs_of(stage))):
            found = {name: known for name, known in missing.items() if self._is_intact(name, known)}
            if stage.apart or found.keys() == missing.keys():
                self.outputs |= found
        return all(self.outputs.get(name) == known for name, known in own.items())

    def _settle(self) -> None:
        """Forget what fell when all of it is there again."""
        if self.fallen is not None and self.fallen["outputs"].keys() <= self.outputs.keys():
            self.fallen = None
