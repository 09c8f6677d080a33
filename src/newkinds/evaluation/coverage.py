"""How much of a heap the truth covers, and whether that is enough for scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from newkinds.evaluation.truth import UNKNOWN

# What a truth about a part of the pictures needs, or there are no scores. Of FEWEST pictures picked at random, a share
# has a standard error of at most 9 points. ACC matches kinds on the very pictures that it scores: with one picture for
# each of five or more true kinds, even kinds drawn at random have an ACC above .5; with PER_KIND, an ACC of .5 or more
# is at most 2 points too high on average.
FEWEST = 30  # pictures
PER_KIND = 5  # pictures for each true kind, on average
KINDS = 2  # true kinds


@dataclass(frozen=True)
class Coverage:
    """The number of pictures that have a truth, of how many in all, and how many true kinds they are of."""

    pictures: int
    of: int
    kinds: int

    @property
    def complete(self) -> bool:
        """Whether all pictures have a truth."""
        return self.pictures == self.of

    @property
    def part(self) -> str:
        """The pictures that have a truth, in words: "212 of 360 pictures"."""
        return f"{self.pictures:,} of {self.of:,} pictures"

    @property
    def needed(self) -> int:
        """The number of pictures with a truth that scores need: all of them, where there are no more than that."""
        return min(self.of, max(FEWEST, PER_KIND * self.kinds))

    @property
    def enough(self) -> bool:
        """Whether there are scores: a complete truth is no sample, and always has them."""
        return self.complete or (self.pictures >= self.needed and self.kinds >= KINDS)

    def in_words(self) -> str:
        """Return what to say beside the scores, or instead of them; "" where all pictures have a truth."""
        if self.complete:
            return ""
        if self.enough:
            others = "the other picture has" if self.of - self.pictures == 1 else "the other pictures have"
            chosen = f"The scores apply to all pictures only if these {self.pictures:,} were picked at random."
            return f"Scored on {self.part}; {others} no known truth. {chosen}"
        have = f"{self.part} {'has' if self.pictures == 1 else 'have'} a known truth"
        if self.pictures >= self.needed:
            return f"{have}, all of one kind: scores need pictures of at least {KINDS} kinds."
        each = f", {PER_KIND} for each of the {self.kinds:,} kinds named" if PER_KIND * self.kinds > FEWEST else ""
        return f"{have}, too few for scores: these need at least {self.needed:,}{each}."


def coverage(truth: Sequence[str]) -> Coverage:
    """Return how much a truth covers: the true kinds of N pictures, "" where they are not known."""
    named = [kind for kind in truth if kind != UNKNOWN]
    return Coverage(len(named), len(truth), len(set(named)))
