"""The nearest known kind with a threshold: the threshold by hand, what it finds, and what is too little to compare."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from blobs import NEW, heap, rightly_named

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
