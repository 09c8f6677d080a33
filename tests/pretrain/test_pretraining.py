"""Training f on the known kinds, as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import RESOLVED, InMemory, labelled
from torch import Tensor

from newkinds.datasets import named
from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet
from newkinds.pretrain.pretraining import about_learnt, pretrain, split_held_out, what_was_learnt
from newkinds.pretrain.resolve import resolved_pretrain
from newkinds.pretrain.tasks import TASKS, KnownTask
from newkinds.randomness import one_thread
from newkinds.settings import Pretrain
from newkinds.training import Record


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


# The part kept back


@settings(deadline=None)
@given(st.lists(st.integers(2, 40), min_size=2, max_size=6), st.floats(0.01, 0.99), st.integers(0, 10))
def test_held_out_is_a_share_of_every_kind(sizes: list[int], share: float, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    known = labelled(labels, pixels=np.zeros((len(labels), 1, 4, 4), dtype=np.uint8))
    kept, held_out = split_held_out(known, share, seed)
    assert sorted([*kept.tolist(), *held_out.tolist()]) == list(range(len(labels)))
    assert (np.diff(kept) > 0).all()
    assert (np.diff(held_out) > 0).all()
    for label, size in enumerate(sizes):
        aside = int((labels[held_out] == label).sum())
        assert 1 <= aside <= size - 1
        assert abs(aside - share * size) <= 1
    again = split_held_out(known, share, seed)
    assert (again[0] == kept).all()
    assert (again[1] == held_out).all()


def test_held_out_depends_on_the_seed_and_on_the_kind() -> None:
    known = labelled(np.repeat([0, 1], 40))
    first, second = split_held_out(known, 0.25, 0)[1], split_held_out(known, 0.25, 1)[1]
    assert len(first) == len(second) == 20
    assert first.tolist() != second.tolist()
    assert first[:10].tolist() != (first[10:] - 40).tolist()  # kinds of equal size are not cut alike


# Learning


@pytest.mark.parametrize("network", ["vgg6-4-2-slim", "resnet18-slim"])
def test_learns_what_is_trivial(network: str) -> None:
    known = labelled(np.repeat([0, 1], 32))
    records: list[Record] = []
    found = pretrain(known, Pretrain(**RESOLVED), network=network, seed=0, log=records.append)
    assert (found.score, found.measure, found.loss) == (1.0, "held_out_accuracy", "cross-entropy")
    assert records[-1]["held_out_accuracy"] == 1.0
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]
    assert len(found.held_out) == 6
    assert found.epochs == len(records) == 3
    assert found.network.name == network
    # The normalisation is that of the pictures trained on, without those kept back.
    kept = np.setdiff1d(np.arange(64), found.held_out)
    assert found.network.mean.item() == pytest.approx(known.pixels[kept].mean() / 255, rel=1e-5)


@pytest.mark.parametrize("loss", list(TASKS))
def test_the_same_seed_gives_the_same_weights(loss: str) -> None:
    known = labelled(np.repeat([0, 1], 8))
    chosen = Pretrain(**{**RESOLVED, "loss": loss, "epochs": 1, "augmentation": "crop"})

    def weights(seed: int) -> dict[str, Tensor]:
        return pretrain(known, chosen, network="vgg6-4-2-slim", seed=seed).network.state_dict()

    first = weights(0)
    torch.rand(7)
    second, other = weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["backbone.layers.0.weight"], other["backbone.layers.0.weight"])


@pytest.mark.parametrize("loss", list(TASKS))
def test_held_out_pictures_are_not_trained_on(loss: str) -> None:
    labels = np.repeat([0, 1], 10)
    known = labelled(labels)
    _, held_out = split_held_out(known, 0.1, 0)
    altered = known.pixels.copy()
    altered[held_out] = 255 - altered[held_out]
    chosen = Pretrain(**{**RESOLVED, "loss": loss, "epochs": 1})
    first = pretrain(known, chosen, network="vgg6-4-2-slim").network.state_dict()
    second = pretrain(labelled(labels, pixels=altered), chosen, network="vgg6-4-2-slim").network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_embeddings_need_no_training() -> None:
    known = labelled(np.repeat([0, 1], 5), pixels=np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32))
    records: list[Record] = []
    found = pretrain(known, Pretrain(**RESOLVED), network="identity", log=records.append)
    assert found.network.name == "identity"
    assert found.epochs == 0
    assert np.isnan(found.score)
    assert records == []


def test_quarter_turns_learn() -> None:
    # Two pictures that differ by a turn only: a turned one of the first kind is not the second kind's.
    pixels = np.random.default_rng(0).integers(0, 80, (48, 1, 8, 8), dtype=np.uint8)
    labels = np.repeat([0, 1], 24)
    pixels[labels == 0, :, :3] += 150
    pixels[labels == 1, :, 2:6, 2:6] += 150
    chosen = Pretrain(**{**RESOLVED, "quarter_turns": True, "epochs": 4})
    found = pretrain(labelled(labels, pixels=pixels), chosen, network="vgg6-4-2-slim")
    assert found.score == 1.0


@pytest.mark.parametrize("loss", ["prototypical", "triplet"])
def test_metric_losses_learn_digits(loss: str) -> None:
    known = named("digits:known")
    assert known is not None

    def trained(epochs: int) -> tuple[float, list[Record]]:
        records: list[Record] = []
        chosen = Pretrain(loss=loss, support=1, query=4, epochs=epochs, quarter_turns=False)
        found = pretrain(known, chosen, network="vgg6-4-2-slim", log=records.append)
        assert (found.measure, found.loss) == ("few_shot_accuracy", loss)
        return found.score, records

    untrained, _ = trained(0)
    score, records = trained(4)
    assert score == records[-1]["few_shot_accuracy"]
    assert score > 0.9  # from one picture of each; chance is 0.2
    assert 1 - score < 0.5 * (1 - untrained)
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]


# Episodes that the pictures do not suffice for


@pytest.mark.parametrize("loss", ["prototypical", "triplet"])
def test_an_episode_larger_than_the_smallest_kind_is_refused(loss: str) -> None:
    known = labelled([0] * 9 + [1] * 5 + [2] * 7)  # one of each is kept back
    chosen = {**RESOLVED, "loss": loss, "support": 2, "query": 3, "epochs": 1}
    with pytest.raises(DataError) as caught:
        pretrain(known, Pretrain(**chosen), network="vgg6-4-2-slim")
    assert "5 pictures of each kind (2 support + 3 query)" in caught.value.message
    assert "'kind 1' has 4 to train on" in caught.value.message
    assert "pretrain.support" in caught.value.hint
    assert "pretrain.query" in caught.value.hint
    assert "pretrain.loss=cross-entropy" in caught.value.hint
    # One less is taken, and so is what the hint offers.
    pretrain(known, Pretrain(**{**chosen, "query": 2}), network="vgg6-4-2-slim")
    pretrain(known, Pretrain(**{**chosen, "loss": "cross-entropy"}), network="vgg6-4-2-slim")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(3, 30), min_size=2, max_size=5), st.floats(0.01, 0.1))
def test_what_is_left_open_suffices(sizes: list[int], held_out: float) -> None:
    known = labelled(np.repeat(np.arange(len(sizes)), sizes), pixels=np.zeros((sum(sizes), 4), dtype=np.float32))
    chosen = resolved_pretrain(Pretrain(held_out=held_out), known)
    kept, _ = split_held_out(known, held_out, 0)
    assert known.labels is not None
    fewest = int(np.bincount(known.labels[kept]).min())
    assert isinstance(chosen.support, int)
    assert chosen.support == chosen.query == min(5, max(1, fewest // 2))
    assert fewest < 2 or chosen.support + chosen.query <= fewest


def test_what_is_left_open_suffices_when_more_is_kept_back() -> None:
    known = labelled(np.repeat([0, 1], 9))
    chosen = Pretrain(loss="prototypical", held_out=0.2, epochs=1)  # 2 of 9: 7 are left, and 4 + 4 are asked for
    pretrain(known, chosen, network="vgg6-4-2-slim")


# Which weights are kept, and going on


class Scripted:
    """Scores that are said beforehand, one an epoch, with the weights that each was asked for; None interrupts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loss: str, *scores: float | None) -> None:
        self.scores = iter(scores)
        self.weights: list[dict[str, Tensor]] = []
        scripted = self

        def score(task: KnownTask) -> float:
            scripted.weights.append({name: value.clone() for name, value in task.network.state_dict().items()})
            value = next(scripted.scores)
            if value is None:
                raise KeyboardInterrupt
            return value

        monkeypatch.setattr(TASKS[loss], "score", score)


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("loss", list(TASKS))
def test_best_takes_the_weights_of_the_best_epoch(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = labelled(np.repeat([0, 1], 8))
    scores, options = (0.3, 0.9, 0.6, 0.5), {**RESOLVED, "loss": loss, "epochs": 4}

    def trained(keep: str, *said: float | None, checkpoints: InMemory | None = None) -> tuple[Any, Scripted]:
        script = Scripted(monkeypatch, loss, *said)
        chosen = Pretrain(**{**options, "keep": keep})
        return pretrain(known, chosen, network="vgg6-4-2-slim", checkpoints=checkpoints), script

    best, script = trained("best", *scores)
    assert best.score == 0.9
    assert same(best.network.state_dict(), script.weights[1])
    last, last_script = trained("last", *scores, 0.5)  # asked once more at the end
    assert last.score == 0.5
    assert same(last.network.state_dict(), script.weights[3])
    assert not same(best.network.state_dict(), last.network.state_dict())
    assert same(last_script.weights[1], script.weights[1])  # keeping the best changes nothing on the way

    # Interrupted after the best epoch and before it, then continued: the same weights.
    for until in (1, 2, 3):
        kept = InMemory()
        with pytest.raises(KeyboardInterrupt):
            trained("best", *scores[:until], None, checkpoints=kept)
        assert max(kept.kept) == until
        again, _ = trained("best", *scores[until:], checkpoints=kept)
        assert again.score == 0.9
        assert same(again.network.state_dict(), best.network.state_dict())


# What f has learnt of known pictures, by what its file tells


def told_of(known: ImageSet, **changes: Any) -> dict[str, Any]:
    """Return what the file of an f tells that was trained on these pictures."""
    return {"classes": list(known.classes), **about_learnt(known, Pretrain(), seed=3), **changes}


def test_what_was_held_out_is_known_from_the_file_even_if_kinds_were_hidden_from_training() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), 20))
    pixels = np.random.default_rng(1).integers(0, 255, (80, 1, 4, 4), dtype=np.uint8)
    known = labelled(labels, pixels=pixels)
    trained = known.with_classes([3, 1])
    found = what_was_learnt(told_of(trained), known)
    assert found is not None
    kept, held_out = split_held_out(trained, Pretrain().held_out, 3)
    assert [known.names[row] for row in found.kept] == [trained.names[row] for row in kept]
    assert [known.names[row] for row in found.held_out] == [trained.names[row] for row in held_out]
    assert set(labels[found.unseen]) == {0, 2}
    assert found.not_learnt.tolist() == sorted([*found.held_out, *found.unseen])
    assert len(found.kept) + len(found.not_learnt) == len(known)


@pytest.mark.parametrize("changes", [{"after": "0f"}, {"classes": ["elsewhere"]}, {"seed": None}, {"learnt_from": ""}])
def test_of_other_pictures_or_trainings_nothing_is_known(changes: dict[str, Any]) -> None:
    known = labelled(np.repeat(np.arange(2), 5), pixels=np.zeros((10, 1, 4, 4), dtype=np.uint8))
    assert what_was_learnt(told_of(known), known) is not None
    assert what_was_learnt(told_of(known, **changes), known) is None
    assert what_was_learnt(told_of(known), known.select(np.arange(9))) is None
