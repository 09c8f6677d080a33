"""The nearest known kind with a threshold: the threshold by hand, what it finds, and what is too little to compare."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from blobs import NEW, heap, rightly_named
from numpy.typing import NDArray

from newkinds.features import apply
from newkinds.methods.nearest_known import NearestKnownHead, leave_one_out, nearest_known, threshold
from newkinds.methods.registry import HEADS
from newkinds.networks.files import model_from_bytes, model_to_bytes


def test_leave_one_out_by_hand() -> None:
    half = math.sqrt(0.5)
    rows = np.array([[1, 0], [0, 1], [half, half], [0, 1]], dtype=np.float32)
    labels = np.array([0, 0, 0, 1])
    found = leave_one_out(rows, labels)
    # The others of the first are (0, 1) and (.71, .71), whose sum has the angle 67.5 degrees; of the third, 45.
    assert found[:3] == pytest.approx([math.cos(math.radians(67.5)), math.cos(math.radians(67.5)), 1.0])
    assert math.isnan(found[3])
    assert threshold(rows, labels, 0.0) == pytest.approx(math.cos(math.radians(67.5)))
    assert threshold(rows, labels, 0.75) == pytest.approx((math.cos(math.radians(67.5)) + 1) / 2)


def test_where_nothing_can_be_compared_everything_is_near_enough() -> None:
    assert threshold(np.eye(3, dtype=np.float32), np.arange(3), 0.05) == -1.0


def test_pictures_that_f_was_trained_on_do_not_tell_how_near_is_near_enough() -> None:
    random = np.random.default_rng(0)

    def around(axis: int, number: int, spread: float) -> NDArray[np.float32]:
        rows = np.eye(8)[axis] + random.normal(scale=spread, size=(number, 8))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    # Of either kind 45 learnt pictures and some others, of which the second has more: still, each kind counts alike.
    parts = [around(0, 45, 0.01), around(0, 5, 0.1), around(1, 45, 0.01), around(1, 200, 0.3)]
    known, labels = np.concatenate(parts), np.repeat([0, 1], [50, 245])
    not_learnt = np.r_[45:50, 95:295]
    heap = np.concatenate([around(0, 500, 0.1), around(1, 2450, 0.3)])
    means = np.stack([known[labels == kind].mean(axis=0) for kind in (0, 1)])
    likeness = (heap @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T)[
        np.arange(2950), np.repeat([0, 1], [500, 2450])
    ]
    assert (likeness < threshold(known, labels, 0.1, not_learnt)).mean() == pytest.approx(0.1, abs=0.04)
    learnt = np.setdiff1d(np.arange(295), not_learnt)
    assert (likeness < threshold(known, labels, 0.1, learnt)).mean() > 0.8


def test_each_kind_counts_by_its_pictures_however_few_were_held_out() -> None:
    angles = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    labels = np.zeros(6, dtype=np.int64)
    likeness = leave_one_out(rows, labels)
    assert threshold(rows, labels, 0.4, np.array([0, 2])) == pytest.approx(likeness[0])
    assert threshold(rows, labels, 0.6, np.array([0, 2])) == pytest.approx(likeness[2])


def test_the_method_judges_by_what_was_held_out() -> None:
    problem, _ = heap("nearest-known", {}, spread=1.0, each=200)
    labels = problem.known.labels
    assert labels is not None
    rows = problem.known.pixels.copy()
    learnt = np.arange(len(rows)) % 4 > 0
    rows[learnt] = np.eye(rows.shape[1], dtype=np.float32)[labels[learnt]]  # as an f has them that knows them by heart
    known = dataclasses.replace(problem.known, pixels=rows)
    shares = []
    for not_learnt in (None, np.flatnonzero(~learnt)):
        given = dataclasses.replace(problem, known=known, not_learnt=not_learnt)
        shares.append(float((nearest_known(given).assignment.labels[: len(rows)] >= NEW).mean()))
    assert shares[0] < shares[1]
    assert shares[1] > 0.85


def test_the_threshold_decides_between_the_best_new_and_the_best_known_kind() -> None:
    head = NearestKnownHead(2, 3, new=2, scale=1.0, threshold=0.6)
    with torch.no_grad():
        head.centres.copy_(torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]]))
    near, far = (torch.tensor([[c, math.sqrt(1 - c * c)]]) for c in (0.61, 0.59))
    assert head(near).argmax().item() == 2
    assert head(far).argmax().item() == 0
    # At the threshold: logits 0 of the nearest new kind, 0 of the known one, and -4 * .8 of the other new one.
    p = head(torch.tensor([[0.6, 0.8]])).exp()[0]
    assert p.tolist() == pytest.approx(np.array([1, math.exp(-3.2), 1]) / (2 + math.exp(-3.2)))


@pytest.mark.parametrize("mixed", [True, False])
def test_known_kinds_are_named_and_the_rest_is_clustered(mixed: bool) -> None:
    problem, columns = heap("nearest-known", {}, mixed=mixed)
    found = nearest_known(problem)
    assert found.assignment.columns == problem.columns
    assert rightly_named(found.assignment.labels, columns) >= (0.9 if mixed else 1.0)
    assert found.model is not None
    assert np.exp(apply(found.model, problem.unsorted)) == pytest.approx(found.assignment.probabilities, abs=1e-6)
    again, _, about = model_from_bytes(model_to_bytes(found.model, {}), "here", HEADS)
    assert about["new"] == NEW
    assert apply(again, problem.unsorted).tobytes() == apply(found.model, problem.unsorted).tobytes()


def test_a_larger_share_rejects_more_pictures() -> None:
    new = []
    for rejected in (0.0, 0.3, 0.9):
        problem, _ = heap("nearest-known", {"nearest_known": {"rejected": rejected}}, spread=1.0)
        new.append(int((nearest_known(problem).assignment.labels < NEW).sum()))
    assert new[0] < new[1] < new[2]


def test_a_heap_in_which_all_is_known_still_gives_each_new_kind_a_picture_to_begin_with() -> None:
    problem, _ = heap("nearest-known", {}, spread=0.01)
    alone = problem.unsorted.select(np.arange(20))  # of the first known kind
    given = type(problem)(
        problem.network,
        problem.known,
        problem.settings,
        unsorted=alone,
        kinds=NEW,
        features=alone.pixels,
        novelty=np.zeros(20, dtype=np.float32),
    )
    assert nearest_known(given).assignment.probabilities.shape == (20, 5)
