"""Novelty: what tells new from known pictures, and how many are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import newkinds as nk
from newkinds import novelty
from newkinds.images.imageset import image_set
from newkinds.known_at_most import known_at_most
from newkinds.novelty import Draw, Scale, by_held_out, judge, shifted, signals, untold
from newkinds.pipeline.heap import Heap, holds, judged, of_trained
from newkinds.pretrain.pretraining import about_learnt, what_was_learnt


def world(
    seed: int, known: int, new: int, *, kinds: int = 8, each: int = 30, apart: float = 0.35
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], list[Draw]]:
    """Return labelled pictures, `each` of so many kinds, their labels, a heap of so many a kind, and three rehearsals.

    The heap has the known kinds and six new ones. apart: how far pictures of a kind are from their centre.
    """
    random = np.random.default_rng(seed)
    centres = random.normal(size=(kinds + 12, 12))

    def blobs(around: NDArray[np.float64], number: int) -> NDArray[np.float32]:
        rows = np.repeat(around, number, axis=0)
        return (rows + apart * random.normal(size=rows.shape)).astype(np.float32)

    labelled, labels = blobs(centres[:kinds], each), np.repeat(np.arange(kinds), each)
    heap = np.concatenate([blobs(centres[:kinds], known), blobs(centres[-6:], new)])
    draws = []
    for number in range(3):
        order = np.random.default_rng(number).permutation(len(labels))
        hidden = np.isin(labels, np.random.default_rng(number).permutation(kinds)[: kinds // 3])[order]
        taught, new_ones, out = order[~hidden][::2], order[hidden], order[~hidden][1::2]
        own = np.unique(labels[taught], return_inverse=True)[1]
        draws.append(Draw(labelled[taught], own, labelled[new_ones], labels[new_ones], labelled[out]))
    return labelled, labels, heap, draws


@pytest.mark.parametrize(("known", "new"), [(0, 30), (10, 30), (30, 10), (30, 0)])
def test_the_share_of_known_pictures_is_found_and_new_ones_are_told_apart(known: int, new: int) -> None:
    labelled, labels, heap, draws = world(0, known, new)
    found = judge(labelled, labels, heap, draws)
    is_new = np.arange(len(heap)) >= 8 * known
    assert abs(found.known - (1 - is_new.mean())) < 0.12
    assert found.low <= found.known <= found.high
    assert found.draws >= 3
    if 0 < is_new.mean() < 1:
        assert roc_auc_score(is_new, found.probability) > 0.97


@pytest.mark.parametrize("each", [5, 8])
def test_new_kinds_of_few_pictures_are_not_taken_for_known_ones(each: int) -> None:
    labelled, labels, heap, draws = world(5, 0, each, kinds=12, each=60, apart=0.7)
    found = judge(labelled, labels, heap, draws)
    assert found.low <= found.pure
    assert found.known < 0.15
    assert (found.probability > 0.5).mean() > 0.9


def test_few_pictures_are_rehearsed_several_times_with_kinds_of_several_sizes() -> None:
    _, _, _, draws = world(6, 0, 10)
    few, many = (draws[0].at(0.3, new) for new in (0.3, 1.2))
    assert len(few) > len(many) == 1
    assert len({one.signals.tobytes() for one in few}) == len(few)
    for one in few:
        assert one.is_new.sum() == len(one.new_alone)
        assert (~one.is_new).sum() == len(one.known_alone)


def test_without_rehearsals_other_data_sets_speak() -> None:
    labelled, labels, heap, _ = world(1, 20, 20)
    found = judge(labelled, labels, heap, [])
    assert found.draws == 0
    assert roc_auc_score(np.arange(len(heap)) >= 160, found.probability) > 0.9


@pytest.mark.parametrize(("known", "new"), [(0, 30), (10, 20), (20, 10)])
def test_held_out_pictures_tell_the_share_where_new_ones_are_clearly_strange(known: int, new: int) -> None:
    labelled, labels, heap, _ = world(7, known, new, kinds=5, each=60)
    out = np.arange(len(labels)) % 3 == 0
    found = by_held_out(labelled[~out], labels[~out], labelled[out], heap)
    assert found is not None
    is_new = np.arange(len(heap)) >= 5 * known
    assert abs(found.known - (1 - is_new.mean())) < 0.12
    assert found.low <= found.known <= found.high
    assert ((found.probability > 0.5) == is_new).mean() > 0.95
    assert (found.draws, found.held_out) == (0, 100)


@pytest.mark.parametrize(("new", "apart"), [(20, 0.9), (0, 0.35)])
def test_held_out_pictures_tell_nothing_where_new_ones_are_like_known_ones_or_there_are_none(
    new: int, apart: float
) -> None:
    labelled, labels, heap, _ = world(8, 20, new, kinds=5, each=60, apart=apart)
    out = np.arange(len(labels)) % 3 == 0
    assert by_held_out(labelled[~out], labels[~out], labelled[out], heap) is None


@pytest.mark.parametrize(("known", "new"), [(0, 40), (10, 30), (40, 0)])
def test_how_many_can_be_known_at_most_is_no_less_than_are(known: int, new: int) -> None:
    labelled, labels, heap, _ = world(3, known, new, kinds=5, each=200, apart=0.9)
    held_out = labelled[np.arange(len(labels)) % 3 == 0]
    true = 5 * known / len(heap)
    most = known_at_most(held_out, heap)
    assert true <= most <= true + 0.25


def test_that_hardly_any_picture_is_known_can_be_told_where_no_share_can() -> None:
    labelled, labels, heap, _ = world(8, 0, 40, kinds=5, each=200, apart=0.5)
    found = untold(labelled, labels, heap, labelled[::3])
    assert found.known <= found.high < 0.1
    assert holds(found, "auto") == "new"
    assert "at most" in judged(found, "auto").in_words()
    likely = world(8, 40, 0, kinds=5, each=200, apart=0.5)[2]
    all_known = untold(labelled, labels, likely, labelled[::3])
    assert (all_known.high, holds(all_known, "auto")) == (1.0, "new")
    assert "cannot be told" in judged(all_known, "auto").in_words()
    assert (all_known.probability >= 0.5).mean() < 0.2  # if the user says that some are known


def test_signals_do_not_depend_on_the_scale_of_features() -> None:
    labelled, labels, heap, _ = world(2, 10, 10)
    expected = signals(labelled, labels, heap)
    assert expected.shape == (len(heap), len(novelty.NAMES))
    assert np.allclose(signals(7 * labelled, labels, 7 * heap), expected, atol=1e-5)


def test_a_known_kind_with_one_picture_and_a_heap_of_one_do_no_harm() -> None:
    labelled, labels, heap, _ = world(3, 5, 5)
    alone = np.append(labels, 8)
    assert np.isfinite(signals(np.concatenate([labelled, heap[-1:]]), alone, heap)).all()
    assert np.isfinite(signals(labelled, labels, heap[:1])).all()


def test_probabilities_follow_the_share() -> None:
    half = np.array([0.2, 0.5, 0.9])
    assert np.allclose(shifted(half, 0.5), half)
    assert (shifted(half, 0.1) < half).all()
    assert np.isclose(shifted(np.array([0.5]), 0.3)[0], 0.3)


@pytest.mark.parametrize(("known", "new"), [(1, 30), (3, 30)])
def test_a_small_share_of_known_pictures_is_neither_missed_nor_made_up(known: int, new: int) -> None:
    labelled, labels, heap, draws = world(9, known, new, kinds=12, each=60, apart=0.5)
    found = judge(labelled, labels, heap, draws)
    assert abs(found.known - 12 * known / len(heap)) < 0.03


@pytest.mark.parametrize(("known", "new", "asked"), [(40, 4, "mixed"), (30, 0, "known"), (0, 40, "new")])
def test_a_few_pictures_that_surely_are_of_the_other_sort_are_enough(known: int, new: int, asked: str) -> None:
    # Of the first heap, the count says that all is known: 4.8 % are new, and as many surely are.
    labelled, labels, heap, draws = world(12, known, new, kinds=12, each=60, apart=0.6)
    found = judge(labelled, labels, heap, draws)
    assert holds(found, "auto") == asked
    assert found.surely_known <= found.known <= 1 - found.surely_new
    if asked == "mixed":
        probably = found.probability >= 0.5
        assert (np.flatnonzero(probably) >= 12 * known).mean() > 0.9
        assert 0 < probably.sum() <= 6 * new


@pytest.mark.parametrize(("known", "new"), [(30, 0), (30, 6), (10, 40)])
def test_held_out_pictures_say_where_known_ones_are_beside_the_real_heap(known: int, new: int) -> None:
    # A transfer that knows its own pictures by heart, as that of a rehearsal does not: they lie nearer to one another.
    labelled, labels, heap, draws = world(20, known, new, kinds=12, each=60, apart=0.6)
    out = np.arange(len(labels)) % 10 == 9
    kept = labelled.copy()
    for kind in np.unique(labels):
        own = (labels == kind) & ~out
        kept[own] = 0.7 * kept[own] + 0.3 * kept[own].mean(axis=0)
    true = 12 * known / len(heap)
    alone = judge(kept[~out], labels[~out], heap, draws)  # which may be far off
    found = judge(kept[~out], labels[~out], heap, draws, labelled[out])
    assert abs(found.known - true) < 0.08
    if not new:
        assert holds(alone, "auto") == "mixed"
    assert holds(found, "auto") == ("mixed" if new else "known")


def test_signals_beside_a_heap_are_those_of_one_more_picture_in_it() -> None:
    labelled, labels, heap, _ = world(2, 10, 10)
    own = novelty._within_kinds(labelled, labels)
    both = novelty._signals(labelled, own, heap, heap[5:6] + 0.1)
    one_more = signals(labelled, labels, np.concatenate([heap, heap[5:6] + 0.1]))
    assert np.array_equal(both[:-1], signals(labelled, labels, heap))
    assert np.allclose(both[-1], one_more[-1], atol=0.1)  # its likes do not count it


def test_a_small_share_counts_only_if_more_are_surely_known_than_in_heaps_of_new_kinds() -> None:
    labelled, labels, heap, draws = world(1, 2, 40)
    found = dataclasses.replace(judge(labelled, labels, heap, draws), low=0.0, pure=0.1)
    assert holds(dataclasses.replace(found, surely_known=0.05), "auto") == "mixed"
    assert holds(dataclasses.replace(found, surely_known=0.01), "auto") == "new"


def test_where_hidden_kinds_look_no_newer_than_others_nothing_is_said() -> None:
    labelled, labels, heap, draws = world(0, 30, 30, apart=30.0)
    found = judge(labelled, labels, heap, draws)
    assert not found.tells
    assert (found.low, found.high) == (0.0, 1.0)
    assert (holds(found, "auto"), holds(found, "mixed")) == ("new", "mixed")
    assert ("cannot be told: in rehearsals, pictures of hidden kinds looked hardly newer") in judged(
        found, "auto"
    ).in_words()


@pytest.mark.parametrize("seed", range(3))
def test_a_heap_of_known_kinds_that_overlap_with_others_has_nothing_new(seed: int) -> None:
    # Among known pictures, a few of hidden kinds look known: that says nothing of a heap of new kinds alone.
    labelled, labels, heap, draws = world(seed, 30, 0, kinds=12, each=60, apart=1.0)
    found = judge(labelled, labels, heap, draws)
    assert found.pure < 0.3
    assert holds(found, "auto") == "known"


def test_the_scale_comes_back_from_its_file_or_is_refused() -> None:
    scale = novelty.beginning()
    assert Scale.from_dict(scale.to_dict()).to_dict() == scale.to_dict()
    with pytest.raises(ValueError, match="1 and 11 levels, not 11"):
        Scale.from_dict({**scale.to_dict(), "of_known": [0.5]})


def test_what_counts_as_new_kinds_is_clearly_new_unless_that_is_little() -> None:
    some = np.array([0.1, 0.6, 0.85, 0.9, 0.95, 0.4], np.float32)
    assert Heap("mixed", some).counted(6).tolist() == [2, 3, 4]
    assert Heap("mixed", np.minimum(some, 0.62)).counted(6).tolist() == [1, 2, 3, 4]
    assert Heap("new", some).counted(6).tolist() == list(range(6))


def test_features_that_were_trained_tell_nothing_without_pictures_that_were_held_out() -> None:
    labelled, labels, heap, _ = world(10, 20, 20)
    names = [f"{row}" for row in range(len(labels))]
    known = image_set(labelled, names, labels, [f"kind {kind}" for kind in range(8)], "here", labelled=True)
    settings = nk.Settings()
    told = {"classes": list(known.classes), **about_learnt(known, settings.pretrain, seed=0)}
    learnt = what_was_learnt(told, known)
    here, elsewhere = (of_trained(known, one, labelled, heap, settings) for one in (learnt, None))
    assert (here.held_out, here.draws) == (24, 0)
    assert holds(here, "auto") == "mixed"
    assert (elsewhere.low, elsewhere.high) == (0, 1)
    assert holds(elsewhere, "auto") == "new"
    assert "the network was trained on all known kinds" in judged(elsewhere, "auto").in_words()
    unknown = judged(elsewhere, "auto", origin=False)
    again = Heap.from_dict(unknown.to_dict(), elsewhere.probability)
    assert "cannot be told: it is not known which pictures the network was trained on" in again.in_words()
    assert holds(elsewhere, "mixed") == "mixed"
