"""Answers and random actions, for tests of what people say."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from newkinds.assignment import Assignment
from newkinds.corrections import (
    FRESH,
    Accept,
    Action,
    Batch,
    Confirm,
    CorrectionError,
    History,
    Merge,
    Move,
    Name,
    Part,
    Reject,
    Reopen,
    Split,
)

KNOWN = ("bolt", "nut")
NAMES = tuple(f"{number:02d}.jpg" for number in range(24))


def answer(pictures: int = 24, kinds: int = 5, seed: int = 0) -> Assignment:
    """Return an answer with new kinds, a known one, and pictures that are none."""
    numbers = np.random.default_rng(seed).dirichlet(np.full(kinds + 2, 0.3), pictures).astype(np.float32)
    columns = (*(f"new:{number}" for number in range(kinds)), "known:bolt", "none")
    names = NAMES if pictures == len(NAMES) else tuple(f"{number:06d}.jpg" for number in range(pictures))
    return Assignment(names, columns, numbers, {"method": "made up"})


@st.composite
def actions(draw: st.DrawFn, history: History) -> Action | None:
    """Return something that can be said now, as the journal writes it; None if what was drawn cannot."""
    state = history.state
    kinds = sorted({*state.kinds, *state.made, "known:nut", "none"})
    some = st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True)
    pictures = st.lists(st.sampled_from(state.names), min_size=1, max_size=6, unique=True)

    def single() -> Action:
        do = draw(st.sampled_from(("name", "merge", "split", "move", "confirm", "accept", "reject", "reopen")))
        kind = draw(st.sampled_from(kinds))
        inside = [state.names[row] for row in state.rows_of(state.current(kind))]
        if do == "name":
            return Name(kind=kind, name=draw(st.sampled_from(("", "washer", "Washer", "hinge"))))
        if do == "merge":
            return Merge(kinds=tuple(draw(some.filter(lambda found: len(found) > 1))))
        if do == "split" and len(inside) > 1:
            cut = draw(st.integers(1, len(inside) - 1))
            rest = draw(st.sampled_from(((), (Part(to=kind, pictures=tuple(inside[cut:])),))))
            return Split(kind=kind, parts=(Part(pictures=tuple(inside[:cut])), *rest))
        if do == "confirm" and inside:
            return Confirm(kind=kind, pictures=tuple(inside[: draw(st.integers(1, len(inside)))]))
        if do in ("accept", "reject", "reopen"):
            model = {"accept": Accept, "reject": Reject, "reopen": Reopen}[do]
            return model(kinds=tuple(draw(some)))
        return Move(pictures=tuple(draw(pictures)), to=draw(st.sampled_from((*kinds, FRESH))))

    said: Action = single()
    if draw(st.integers(0, 5)) == 0:
        said = Batch(actions=tuple(single() for _ in range(draw(st.integers(1, 3)))))  # type: ignore[arg-type]
    try:
        return history.resolved(said)  # type: ignore[return-value]
    except CorrectionError:
        return None
