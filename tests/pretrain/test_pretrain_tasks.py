"""The tasks of pretraining: which pictures stand in a batch, how they are turned, and how f is scored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import RESOLVED, Lookup, Recorder, labelled, make_task, numbered
from numpy.typing import NDArray
from torch import Tensor

from newkinds.images.augment import Augmentation
from newkinds.pretrain.losses import prototypical_loss, triplet_loss
from newkinds.pretrain.tasks import TRIALS, EpisodeTask, KnownTask, PrototypicalTask, TripletTask
from newkinds.randomness import one_thread
from newkinds.settings import Pretrain


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def test_label_smoothing_reaches_the_loss() -> None:
    known = labelled([0, 1, 0, 1])
    losses = []
    for smoothing in (0.0, 0.2):
        task = make_task(known, label_smoothing=smoothing)
        logits = torch.tensor([[10.0, -10.0]] * 2)
        losses.append(float(task.losses(logits, np.array([0, 2]), 0)["loss"]))
    assert losses == pytest.approx([0, 0.1 * 20], abs=1e-4)  # half of 0.2 goes to the other kind, at a distance of 20


# Quarter turns


def test_quarter_turns_by_hand() -> None:
    pixels = np.zeros((2, 1, 4, 4), dtype=np.uint8)
    pixels[:, 0, 0] = 255  # a bar at the top
    task = make_task(labelled([0, 1], pixels=pixels), quarter_turns=True)
    assert task.names == ("0.png", "1.png") * 4
    assert task.module.head[-1].out_features == 8
    assert sorted(np.concatenate(task.batches(0)).tolist()) == list(range(8))
    # Item 2 t + i is picture i turned t times: anticlockwise the bar goes left, down, right.
    items = np.array([0, 3, 4, 7])
    bars = {0: np.s_[0, :], 1: np.s_[:, 0], 2: np.s_[3, :], 3: np.s_[:, 3]}
    for turn, view in enumerate(task.inputs(items, 0)):
        expected = torch.zeros(4, 4)
        expected[bars[turn]] = 1
        assert torch.equal(view[0], expected), turn


def test_quarter_turns_have_labels_of_their_own() -> None:
    task = make_task(labelled([0, 1, 2]), quarter_turns=True)
    items = np.array([1, 3, 8, 10])
    labels = [1, 3 + 0, 6 + 2, 9 + 1]  # kind + 3 x turns
    logits = torch.full((4, 12), -50.0)
    logits[range(4), labels] = 50.0
    assert float(task.losses(logits, items, 0)["loss"]) == pytest.approx(0)
    for row in range(4):
        wrong = logits.roll(1, dims=1) if row == 0 else logits.clone()
        wrong[row] = logits[row].roll(1)
        assert float(task.losses(wrong, items, 0)["loss"]) > 20


def test_turned_pictures_are_augmented_first_and_apart() -> None:
    images = labelled([0, 1], size=8)
    task = make_task(images, quarter_turns=True)
    task.how = Augmentation(border=3)
    views = task.inputs(np.array([0, 2, 4, 6]), epoch=0)
    upright = [torch.rot90(view, -turn, dims=(1, 2)) for turn, view in enumerate(views)]
    assert not all(torch.equal(upright[0], other) for other in upright[1:])


def test_without_quarter_turns_nothing_is_turned() -> None:
    images = labelled([0, 1, 1])
    task = make_task(images)
    assert task.names == images.names
    views = task.inputs(np.array([2, 0, 1]), 0)
    assert torch.equal(views, torch.from_numpy(images.pixels[[2, 0, 1]]).float() / 255)


def test_held_out_accuracy_counts_upright_kinds_only() -> None:
    task = make_task(labelled([0, 1, 1, 0]), quarter_turns=True)
    logits = torch.zeros(4, 8)
    logits[:, 2:] = 9.0  # turned kinds are the likeliest everywhere, and do not count
    logits[range(4), [0, 1, 1, 1]] = 1.0
    task.module = Recorder(logits)
    assert task.score() == 0.75


@pytest.mark.parametrize("loss", ["cross-entropy", "prototypical", "triplet"])
def test_items_are_the_pictures_trained_on_by_their_own_numbers(loss: str) -> None:
    images, kept = labelled([0, 1, 2, 0, 1, 2]), np.array([1, 3, 4, 5])
    task = make_task(images, kept, np.array([0, 2]), loss=loss, quarter_turns=True)
    assert task.names == ("1.png", "3.png", "4.png", "5.png") * 4
    assert task.labels(np.arange(8)).tolist() == [1, 0, 1, 2, 4, 3, 4, 5]
    assert torch.equal(task.inputs(np.array([2]), 0)[0], torch.from_numpy(images.pixels[4]).float() / 255)
    assert task.held_out.names == ("0.png", "2.png")


# Episodes


def episodes(
    labels: NDArray[Any], support: int, query: int, episode_kinds: int, turns: int = 1, seed: int = 0
) -> EpisodeTask:
    """Return a task that has what it takes to make batches, without a network."""
    task = PrototypicalTask.__new__(PrototypicalTask)
    task.settings = Pretrain(**{**RESOLVED, "support": support, "query": query, "episode_kinds": episode_kinds})
    task.picture_labels, task.kept, task.classes = labels, np.arange(len(labels)), int(labels.max()) + 1
    task.turns, task.seed = turns, seed
    return task


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=9),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(2, 12),
    st.sampled_from([1, 4]),
    st.integers(0, 5),
)
def test_an_episode_has_as_many_kinds_and_pictures_as_was_said(
    more: list[int], support: int, query: int, episode_kinds: int, turns: int, epoch: int
) -> None:
    each = support + query
    sizes = [each + extra for extra in more]
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    task = episodes(labels, support, query, episode_kinds, turns)
    batches = task.batches(epoch)
    kinds = len(sizes) * turns
    rounds = max(1, round(np.mean(sizes) / each))
    assert len(batches) % rounds == 0
    a_round = len(batches) // rounds
    for start in range(0, len(batches), a_round):
        seen: list[int] = []
        for batch in batches[start : start + a_round]:
            assert batch.dtype == np.int64
            groups = batch.reshape(-1, each)
            assert 2 <= len(groups) <= max(episode_kinds, 3)  # a kind alone has nothing to be told apart from
            for group in groups:
                assert len(set(group.tolist())) == each  # different pictures
                assert len(set(task.labels(group).tolist())) == 1  # of one kind
                assert len(set((group // len(labels)).tolist())) == 1  # turned alike
                seen.append(int(task.labels(group)[0]))
        assert sorted(seen) == list(range(kinds))  # every kind, and every turned one, once a round
        lengths = [len(batch) // each for batch in batches[start : start + a_round]]
        assert max(lengths) - min(lengths) <= 1
        if kinds % episode_kinds == 0:
            assert set(lengths) == {episode_kinds}
    assert [batch.tolist() for batch in task.batches(epoch)] == [batch.tolist() for batch in batches]


def test_episodes_see_about_all_pictures_once_an_epoch() -> None:
    labels = np.repeat(np.arange(6), 20)
    for turns in (1, 4):
        items = np.concatenate(episodes(labels, 2, 2, 3, turns).batches(0))
        assert len(items) == 120 * turns
        if turns == 1:
            assert len(set(items.tolist())) > 60  # drawn anew in each round, so not each exactly once


def test_episodes_differ_by_epoch_seed_and_round_and_hang_on_nothing_else() -> None:
    labels = np.repeat(np.arange(6), 12)
    drawn = {
        (seed, epoch): tuple(np.concatenate(episodes(labels, 1, 2, 3, seed=seed).batches(epoch)).tolist())
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    }
    assert len(set(drawn.values())) == 6
    first_round, second_round = drawn[0, 0][:18], drawn[0, 0][18:36]
    assert first_round != second_round
    task = episodes(labels, 1, 2, 3)
    torch.manual_seed(3)
    task.batches(5)  # in whatever order they are asked for
    assert tuple(np.concatenate(task.batches(2)).tolist()) == drawn[0, 2]


@pytest.mark.parametrize("turns", [1, 4])
def test_kinds_of_a_group_meet(turns: int) -> None:
    # Three alphabets of 6 characters, episodes of 6: each is of one alphabet, turned one way.
    labels = np.repeat(np.arange(18), 4)
    task = episodes(labels, 2, 2, 6, turns)
    task.images = replace(labelled(labels), classes=tuple(f"alphabet {k % 3}/{k}" for k in range(18)))
    met = [set(task.labels(batch).tolist()) for batch in task.batches(0)]
    assert any(len({kind % 3 for kind in kinds}) > 1 for kinds in met)
    task.settings = task.settings.model_copy(update={"episodes_of": "group"})
    orders = set()
    for epoch in range(3):
        batches = task.batches(epoch)
        met = [set(task.labels(batch).tolist()) for batch in batches]
        assert len(met) == 3 * turns
        assert sorted(kind for kinds in met for kind in kinds) == list(range(18 * turns))
        for kinds in met:
            assert len({kind % 18 % 3 for kind in kinds}) == 1
            assert len({kind // 18 for kind in kinds}) == 1
        orders.add(tuple(np.concatenate(batches).tolist()))
    assert len(orders) == 3


def test_every_picture_has_its_turn() -> None:
    task = episodes(np.repeat(np.arange(3), [5, 9, 14]), 1, 1, 3)
    counts = np.zeros(28, dtype=int)
    for epoch in range(200):
        for batch in task.batches(epoch):
            np.add.at(counts, batch, 1)
    by_kind = [counts[:5], counts[5:14], counts[14:]]
    assert len({int(some.sum()) for some in by_kind}) == 1  # kinds are seen equally often, large or small
    for some in by_kind:
        assert some.min() > 0.8 * some.mean()
        assert some.max() < 1.2 * some.mean()


@pytest.mark.parametrize(("loss", "kind"), [("prototypical", PrototypicalTask), ("triplet", TripletTask)])
def test_the_loss_of_an_episode_is_that_of_its_kinds(loss: str, kind: type[KnownTask]) -> None:
    task = make_task(labelled(np.repeat([0, 1, 2], 6)), loss=loss, support=2, query=1, margin=0.7, quarter_turns=True)
    assert isinstance(task, kind)
    batch = task.batches(0)[0]
    outputs = torch.from_numpy(np.random.default_rng(0).normal(size=(len(batch), 5)))
    losses = task.losses(outputs, batch, 0)
    if loss == "prototypical":
        expected = prototypical_loss(outputs.reshape(12, 3, 5), 2)
    else:
        # Kind c turned t times is 3 t + c; a turned kind is a stranger to the upright one.
        turned = torch.from_numpy(batch // 18 * 3 + batch % 18 // 6)
        assert len(set(turned.tolist())) == 12
        expected = triplet_loss(outputs, turned, 0.7)
    assert torch.equal(losses["loss"], expected)


# The few-shot score


def few_shot(features: NDArray[Any], labels: NDArray[Any], kept: NDArray[Any], **changes: Any) -> EpisodeTask:
    """Return a task whose f gives the said features."""
    held_out = np.setdiff1d(np.arange(len(labels)), kept)
    task = make_task(numbered(labels), kept, held_out, **{"loss": "prototypical", **changes})
    task.network = Lookup(features)  # type: ignore[assignment]
    assert isinstance(task, EpisodeTask)
    return task


def test_few_shot_score_by_hand() -> None:
    # Trained on: kind 0 at 0 and 2, kind 1 at 10 and 20. Their means are 1 and 15, so the border is at 8. Kept back: of
    # kind 0 at 3 and 7.9, of kind 1 at 8.1 and, on the wrong side, at 7.9.
    features = np.array([0, 2, 10, 20, 3, 7.9, 8.1, 7.9])[:, None]
    labels = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    task = few_shot(features, labels, np.arange(4), support=2)
    assert task.score() == 0.75
    assert task.finish() == 0.75
    assert task.measure == "few_shot_accuracy"


def kinds_of_many(n_kinds: int, each: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return labels and the numbers of those trained on, the first half of each kind."""
    labels = np.repeat(np.arange(n_kinds), each)
    return labels, np.flatnonzero(np.arange(len(labels)) % each < each // 2)


def test_perfect_features_score_1_and_shuffled_ones_by_chance() -> None:
    labels, kept = kinds_of_many(5, 50)
    random = np.random.default_rng(0)
    perfect = np.eye(5)[labels] + random.normal(0, 0.05, (250, 5))
    assert few_shot(perfect, labels, kept).score() == 1.0
    for support in (1, 5):
        shuffled = few_shot(random.permutation(perfect), labels, kept, support=support)
        assert shuffled.score() == pytest.approx(1 / 5, abs=0.08)
    # Of two kinds at a time, chance is a half.
    assert few_shot(perfect, labels, kept, episode_kinds=2).score() == 1.0
    shuffled = few_shot(random.permutation(perfect), labels, kept, episode_kinds=2)
    assert shuffled.score() == pytest.approx(1 / 2, abs=0.1)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 99), st.integers(2, 6), st.integers(1, 4), st.integers(2, 8))
def test_few_shot_score_is_what_plain_loops_give(seed: int, n_kinds: int, shots: int, episode_kinds: int) -> None:
    labels, kept = kinds_of_many(n_kinds, 10)
    features = np.random.default_rng(seed).normal(size=(len(labels), 3)) + labels[:, None] * 0.7
    task = few_shot(features, labels, kept, support=shots, episode_kinds=episode_kinds)
    right, asked = 0, 0
    for trial in range(TRIALS):
        kinds, support = task._trial(trial, shots)
        assert len(set(kinds.tolist())) == len(kinds) == min(episode_kinds, n_kinds)
        groups = kept[support].reshape(len(kinds), shots)
        assert (labels[groups] == kinds[:, None]).all()
        assert all(len(set(group.tolist())) == shots for group in groups)
        for i in np.setdiff1d(np.arange(len(labels)), kept):
            if labels[i] in kinds:
                distances = [math.dist(features[i], features[group].mean(axis=0)) for group in groups]
                right += int(kinds[np.argmin(distances)] == labels[i])
                asked += 1
    assert task.score() == pytest.approx(right / asked)
    assert task.score() == task.score()  # the same trials each time


def test_scoring_leaves_the_network_as_it_was() -> None:
    task = make_task(labelled(np.repeat([0, 1], 8)), loss="triplet")
    task.set_mode()
    before = {name: value.clone() for name, value in task.network.state_dict().items()}
    task.score()
    assert task.network.training
    assert all(torch.equal(before[name], value) for name, value in task.network.state_dict().items())


# Which weights are kept


def constant(task: KnownTask) -> Tensor:
    return next(iter(task.network.parameters()))


def score_with(task: KnownTask, monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> list[float]:
    """Let epochs have these scores, and in epoch i set all weights of the first layer to i; return what is logged."""
    logged = []
    for epoch, score in enumerate(scores):
        monkeypatch.setattr(task, "score", lambda score=score: score)
        torch.nn.init.constant_(constant(task), epoch)
        record = task.epoch_done(None, epoch, last_of_phase=epoch + 1 == len(scores))  # type: ignore[arg-type]
        logged.append(record[task.measure])
    return logged


@pytest.mark.parametrize("loss", ["cross-entropy", "prototypical", "triplet"])
@pytest.mark.parametrize(("keep", "epoch", "score"), [("best", 1, 0.8), ("last", 4, 0.6)])
def test_the_best_or_the_last_weights(
    loss: str, keep: str, epoch: int, score: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(labelled([0, 1] * 4), loss=loss, keep=keep)
    scores = [0.5, 0.8, 0.2, 0.8, 0.6]  # the first of equal ones is the best
    assert score_with(task, monkeypatch, scores) == scores
    assert task.finish() == score
    assert (constant(task) == epoch).all()


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_the_best_weights_survive_a_checkpoint(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images, scores = labelled([0, 1] * 4), [0.5, 0.8, 0.2, 0.8, 0.6]
    first = make_task(images, keep="best")
    score_with(first, monkeypatch, scores[:stop])
    state = {name: value.clone() for name, value in first.state().items()}
    assert state["best_score"].item() == max(scores[:stop])
    torch.nn.init.constant_(constant(first), -1)  # what was kept is a copy
    second = make_task(images, keep="best")
    second.load_state(state)
    for epoch in range(stop, 5):
        monkeypatch.setattr(second, "score", lambda epoch=epoch: scores[epoch])
        torch.nn.init.constant_(constant(second), epoch)
        second.epoch_done(None, epoch, last_of_phase=epoch == 4)  # type: ignore[arg-type]
    assert second.finish() == 0.8
    assert (constant(second) == 1).all()


def test_the_last_weights_need_no_state() -> None:
    task = make_task(labelled([0, 1] * 4), keep="last")
    task.epoch_done(None, 0, last_of_phase=True)  # type: ignore[arg-type]
    assert task.state() == {}
    task.load_state({})
    assert task.best == {}
