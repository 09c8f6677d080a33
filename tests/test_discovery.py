"""A finished run as an object, and what the terminal says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.assignment import Assignment
from newkinds.cli.show import show_discovery
from newkinds.discovery import Discovery
from newkinds.rehearsal.trust import Trust
from pictures import write_embeddings

TRUST = Trust(0.81, 0.75, 0.87, 0.8, (0.95, 0.55, 0.6), 5, 3, (0.7, 0.9), 0.05, ((10, 0.3, 0.35),))
REHEARSAL: dict[str, Any] = {"rehearsed": [], "tried": [], "chosen": "as set", "hopeless": "", "why": ""}


def found(**more: Any) -> Discovery:
    """Return three kinds of four pictures, one of which is probably wrong."""
    p = np.full((4, 3), 0.05, dtype=np.float32)
    p[np.arange(4), [0, 1, 2, 2]] = (0.9, 0.8, 0.7, 0.4)
    answer = Assignment.of_new(tuple("abcd"), p, {"calibrated": "trust" in more})
    return Discovery(Path("runs/it"), answer, **more)


def said(capsys: pytest.CaptureFixture[str], one: Discovery) -> str:
    """Return what the terminal says of a result, with single spaces."""
    show_discovery(one)
    return " ".join(capsys.readouterr().out.split())


def test_how_sure_and_what_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, found(trust=TRUST, rehearsal=REHEARSAL))
    assert text.startswith("4 pictures in 3 new kinds, with 1 to 2 pictures each")
    assert TRUST.in_words() in text
    mixed = "Look first at kinds that are probably mixed: new:1 (about 55% of one kind), new:2 (about 60% of one kind)"
    assert f"{mixed}; and 1 picture that is more likely wrong than right." in text
    assert "Next: open the report" in text
    assert "confidence" not in text
    assert "Do not trust" not in text
    assert "other settings" not in text


def test_kinds_of_one_size(capsys: pytest.CaptureFixture[str]) -> None:
    alike = found(trust=TRUST, rehearsal=REHEARSAL)
    p = alike.probabilities[:3]
    assert "with 1 picture each " in said(capsys, replace(alike, assignment=Assignment.of_new(tuple("abc"), p)))
    twice = Assignment.of_new(tuple("abcdef"), np.repeat(p, 2, axis=0))
    assert "with 2 pictures each " in said(capsys, replace(alike, assignment=twice))


def test_what_rehearsals_chose_and_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    rehearsal = {**REHEARSAL, "chosen": "k-means", "hopeless": "Rehearsals say that this would not work."}
    trust = replace(TRUST, remarks=("It is far from the known kinds.",))
    text = said(capsys, found(trust=trust, rehearsal=rehearsal))
    assert "Do not trust these kinds. Rehearsals say that this would not work." in text
    assert "It is far from the known kinds." in text
    assert "Sorted with other settings (k-means), which did clearly better in rehearsals" in text


def test_without_rehearsals_it_cannot_tell(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, found())
    assert (
        "How many of them are right cannot be told, because no rehearsals were made. --rehearsals 5 makes them."
    ) in text
    assert "%" not in text


def test_the_number_of_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    count = {"k": 3, "low": 2, "high": 5}
    assert "estimated" not in said(capsys, found(count=count))
    text = said(capsys, found(count=count | {"coverage": 0.8, "cannot_tell": ""}))
    assert "Their number was estimated: 2 to 5. Such a range holds the true number in 8 of 10 cases like this." in text
    text = said(capsys, found(count=count | {"coverage": 0.8, "cannot_tell": "both curves are flat"}))
    assert "The number of kinds cannot be estimated reliably: both curves are flat." in text
    assert "2 to 5" not in text


def test_a_run_keeps_what_to_expect_of_it(tmp_path: Path) -> None:
    known, unsorted = write_embeddings(tmp_path)
    options: dict[str, Any] = {"kinds": 3, "settings": {"method": "kmeans"}, "page": False}
    without = nk.discover(known, unsorted, out=tmp_path / "without", rehearsals=0, **options)
    assert (without.trust, without.rehearsal) == (None, None)
    assert not without.assignment.calibrated
    assert "probably" not in repr(without)
    run = nk.discover(known, unsorted, out=tmp_path / "run", **options)
    assert run.trust is not None
    assert run.rehearsal is not None
    assert len(run.trust.purity) == 3
    again = nk.load(tmp_path / "run")
    assert (again.trust, again.rehearsal) == (run.trust, run.rehearsal)
    assert f"probably {run.trust.acc:.0%} right" in repr(again)


def test_pictures_of_no_kind_are_counted_apart() -> None:
    p = np.eye(4, dtype=np.float32)[[0, 1, 3, 3, 2]]
    answer = Assignment(tuple("abcde"), ("new:0", "new:1", "known:bolt", "none"), p)
    assert answer.summary() == "5 pictures in 2 new and 1 known kinds, 2 of them in none"
    assert answer.kinds.tolist() == ["new:0", "new:1", "none", "none", "known:bolt"]
    with pytest.raises(nk.NewkindsError, match="'nothing' is neither"):
        Assignment(("a",), ("nothing",), p[:1, :1])
