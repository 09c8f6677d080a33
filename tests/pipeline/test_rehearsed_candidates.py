"""What was observed of a rehearsal belongs to the candidate that it was observed of, also after reading its file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from newkinds.pipeline import rehearsing
from newkinds.rehearsal.outcome import AS_SET, Rehearsed, Trial, choice_in_words
from newkinds.rehearsal.signals import NAMES
from newkinds.tensors import from_bytes, to_bytes

RIGHT = {AS_SET: (True, True, True, False), "3 neighbours": (True, False, False, False), "k-means": (True,) * 4}


def files(*_: Any) -> list[tuple[dict[str, torch.Tensor], Rehearsed]]:
    """Return what `_files` reads of two equal rehearsals."""
    tensors: dict[str, torch.Tensor] = {}
    for number, right in enumerate(RIGHT.values()):
        tensors |= {
            f"{number}-signals": torch.zeros(4, len(NAMES)),
            f"{number}-kinds": torch.zeros(4, dtype=torch.int64),
        }
        tensors |= {f"{number}-{what}": torch.tensor(right) for what in ("right", "pure")}
    trials = {name: Trial(sum(right) / 4, 0.5) for name, right in RIGHT.items()}
    kept = to_bytes(tensors, Rehearsed(("a", "b"), 2, 4, 0.5, None, trials).to_dict())
    tensors, told = from_bytes(kept, "a file")
    return [(tensors, Rehearsed.from_dict(told))] * 2


def test_observations_stay_with_their_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsing, "draw_heaps", lambda *_, **__: ["a draw"])
    monkeypatch.setattr(rehearsing, "_files", files)
    rehearse = SimpleNamespace(rehearsals=2, pictures=20)
    settings = SimpleNamespace(rehearse=rehearse, count=SimpleNamespace(probe_groups="all"), seed=0)
    stage: Any = SimpleNamespace(
        settings=settings,
        labels=None,
        pictures=SimpleNamespace(classes=()),
        way=None,
        progress=None,
        candidates={name: {} for name in RIGHT},
    )
    found = rehearsing.rehearse(stage, kinds=2, pictures=4)
    for name, right in RIGHT.items():
        assert [one.yes.tolist() for one in found.right[name]] == [list(right)] * 2
    assert found.tried[0].name == AS_SET
    assert ("100.0% of the hidden pictures correctly; the settings as given, 75.0%") in choice_in_words(
        found.tried, "k-means"
    )


@pytest.mark.parametrize(("hidden", "few"), [(2, True), (8, False)])
def test_rehearsals_of_few_kinds_say_that_more_are_harder(hidden: int, few: bool) -> None:
    one = Rehearsed(tuple(map(str, range(hidden))), hidden, 80, 0.1, None, {AS_SET: Trial(0.9, 0.9)})
    told = rehearsing.Rehearsal((one, one)).in_words()
    assert told.startswith(f"In 2 rehearsals with {hidden} of your own kinds hidden, 90% of their pictures")
    assert ("expect less with more kinds" in told) is few
