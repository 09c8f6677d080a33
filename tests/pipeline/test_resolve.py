"""From "auto" to values."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from newkinds.configure import Settings
from newkinds.errors import UsageError
from newkinds.images.imageset import ImageSet
from newkinds.methods.centroid_networks import Centroids, episodes_of
from newkinds.methods.dtc.settings import Discover, resolved_discover
from newkinds.networks import build_network
from newkinds.pipeline.resolve import resolved
from newkinds.pretrain.resolve import FEW_KINDS, FEWEST_EPOCHS, MOST_EPOCHS, resolved_pretrain, why_loss
from newkinds.settings import Pretrain


def known(n: int = 100, channels: int = 3, size: int = 32, kinds: int = 5, embeddings: bool = False) -> ImageSet:
    shape = (n, channels) if embeddings else (n, channels, size, size)
    pixels = np.zeros(shape, dtype=np.float32 if embeddings else np.uint8)
    names, classes = tuple(map(str, range(n))), tuple(f"kind {c}" for c in range(kinds))
    return ImageSet(pixels, names, np.arange(n) % kinds, classes, "made up", "no mark")


CPU, MPS = torch.device("cpu"), torch.device("mps")  # MPS stands for anything faster


def resolve(images: ImageSet, changes: dict[str, Any] | None = None, accelerator: bool = False) -> Settings:
    return resolved(Settings().with_changes(changes or {}), images, None, MPS if accelerator else CPU)


def autos(values: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        found += autos(value, f"{prefix}{key}.") if isinstance(value, dict) else [prefix + key] * (value == "auto")
    return found


@pytest.mark.parametrize("images", [known(), known(channels=1), known(channels=7, embeddings=True)])
def test_nothing_but_the_number_of_kinds_stays_open(images: ImageSet) -> None:
    # The embedding's scale is a rule of its own, decided from the features; three settings hang on the heap,
    # which kinds are probes on the seed, and what rehearsals choose on them.
    left = {"kinds", "heap", "pim.sureness", "transfer.kind", "count.probes", "initialise.scale", "rehearse.choose"}
    left |= {"discover.epochs", "discover.alpha", "discover.consistency"}
    assert set(autos(resolve(images).model_dump())) <= left
    once = resolve(images)
    assert resolved(once, images, None, CPU) == once
    # So that a finished run's settings are those of the same run continued, wherever that is.
    assert resolved(once, images, None, MPS) == once


def test_what_was_said_stays() -> None:
    said = {
        "network": "vgg6-5-1-slim",
        "pretrain.epochs": 3,
        "pretrain.augmentation": "none",
        "pretrain.quarter_turns": False,
        "pretrain.loss": "triplet",
        "pretrain.support": 3,
        "pretrain.query": 2,
        "discover.augmentation": "crop",
        "discover.first_view": "plain",
        "similarity.augmentation": "crop",
        "pairs.augmentation": "none",
        "gcd.augmentation": "crop",
        "simgcd.augmentation": "none",
        "centroids.augmentation": "affine",
        "centroids.episodes": 7,
        "kinds": 4,
        "precision": "float32",
        "tune": "all",
    }
    chosen = resolve(known(), {**said, "profile": "none"})
    derived = {"images.size": 32, "network_size": 32, "network_features": "last", "profile": "none"}
    assert chosen == Settings().with_changes({**said, **derived})


@pytest.mark.parametrize(
    ("images", "accelerator", "network", "augmentation"),
    [
        (known(), False, "vgg6-5-1-slim", "crop-flip"),
        (known(), True, "resnet18", "crop-flip"),
        (known(channels=1), False, "vgg6-4-2-slim", "affine"),
        (known(channels=1), True, "vgg6-4-2", "affine"),
        (known(n=4, size=128, kinds=2), False, "resnet18-imagenet-slim", "crop-flip"),
        (known(channels=9, embeddings=True), True, "identity", "none"),
    ],
)
def test_network_and_augmentation_follow_the_pictures(
    images: ImageSet, accelerator: bool, network: str, augmentation: str
) -> None:
    chosen = resolve(images, accelerator=accelerator)
    assert chosen.network == network
    for section in (chosen.pretrain, chosen.discover, chosen.similarity, chosen.pairs, chosen.centroids):
        assert section.augmentation == augmentation
    assert chosen.images.size == images.size


def test_what_hangs_on_the_number_of_kinds_and_on_the_views() -> None:
    few, many = (resolved_discover(Discover(), known(channels=1), kinds) for kinds in (2, 40))
    assert (few.alpha, few.consistency) == (1.0, 12.0)
    assert (many.alpha, many.consistency) == (10.0, 240.0)
    assert many.first_view == "plain"  # views are warped
    # 100 pictures of 2 kinds or of 40: few of a kind are learnt by heart, unless f is frozen; many take time.
    assert (few.epochs, many.epochs) == (40, 10)
    assert resolved_discover(Discover(), known(channels=1), 40, frozen=True).epochs == 40
    heaps = [known(n, 4, kinds=5, embeddings=True) for n in (5_000, 10_000, 100_000)]
    assert [resolved_discover(Discover(), heap, 5).epochs for heap in heaps] == [40, 25, 10]
    # Shifted and mirrored: pi has a second view for that, the others learn from the only one.
    views = {name: resolved_discover(Discover(variant=name), known(), 40).first_view for name in ("pi", "te")}
    assert views == {"pi": "plain", "te": "augmented"}
    said = Discover(epochs=7, alpha=1.0, consistency=3.0, first_view="plain", augmentation="crop")
    assert resolved_discover(said, known(), 40) == said


@pytest.mark.parametrize(
    ("centroids", "episodes"),
    [
        ({}, 0),  # f is as it is by default
        ({"start": "f"}, 0),
        ({"start": "fresh"}, 10_000),  # published
        ({"start": "fresh", "episodes": 0}, 0),
        ({"start": "f", "episodes": 50}, 50),
    ],
)
def test_episodes_of_centroid_networks_hang_on_their_start(centroids: dict[str, Any], episodes: int) -> None:
    assert episodes_of(Centroids(**centroids)) == episodes
    changes = {f"centroids.{key}": value for key, value in centroids.items()}
    assert resolve(known(), changes).centroids.episodes == episodes


@pytest.mark.parametrize(("kinds", "turns"), [(2, True), (FEW_KINDS - 1, True), (FEW_KINDS, False)])
def test_quarter_turns_with_few_kinds(kinds: int, turns: bool) -> None:
    assert resolve(known(kinds=kinds)).pretrain.quarter_turns is turns
    assert resolve(known(kinds=kinds, embeddings=True)).pretrain.quarter_turns is False


def test_epochs_by_the_number_of_pictures() -> None:
    options = {"pretrain.pictures": 9000, "pretrain.held_out": 0.1}
    # 900 of 1,000 pictures are trained on: ten times for 9,000; turned by quarters, a quarter of it.
    assert resolve(known(n=1000), {**options, "pretrain.quarter_turns": False}).pretrain.epochs == 10
    assert resolve(known(n=500), {**options, "pretrain.quarter_turns": True}).pretrain.epochs == 5
    assert resolve(known(n=300), {**options, "pretrain.quarter_turns": True}).pretrain.epochs == 9  # 8.33, rounded up
    assert resolve(known(n=300), options).pretrain.epochs == 17  # turned because kinds are few: twice as many pictures
    assert resolve(known(n=2), {**options, "pretrain.quarter_turns": False}).pretrain.epochs == MOST_EPOCHS
    assert resolve(known(n=5000), {**options, "pretrain.quarter_turns": False}).pretrain.epochs == FEWEST_EPOCHS


# The loss, from the numbers of kinds and pictures


def kinds_of(*sizes: int) -> ImageSet:
    """Known kinds of these sizes."""
    images = known(n=sum(sizes), channels=7, kinds=len(sizes), embeddings=True)
    return dataclasses.replace(images, labels=np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize(
    ("sizes", "loss"),
    [
        ([20] * 50, "prototypical"),  # as OmniGlot: many kinds of few pictures
        ([20] * 49, "cross-entropy"),
        ([40] * 50, "prototypical"),
        ([41] * 50, "cross-entropy"),
        ([40] * 26 + [500] * 24, "prototypical"),  # the typical kind decides, not the mean
        ([40] * 24 + [500] * 26, "cross-entropy"),
        ([20] * 49 + [3], "prototypical"),
        ([20] * 49 + [2], "cross-entropy"),  # one is kept back, and one alone makes no support and query
        ([5] * 3, "cross-entropy"),
    ],
)
def test_the_loss_follows_the_numbers_of_kinds_and_pictures(sizes: list[int], loss: str) -> None:
    assert resolved_pretrain(Pretrain(), kinds_of(*sizes)).loss == loss
    for said in ("cross-entropy", "prototypical", "triplet"):
        assert resolved_pretrain(Pretrain(loss=said), kinds_of(*sizes)).loss == said


@pytest.mark.parametrize(
    ("sizes", "loss", "words"),
    [
        (
            [20] * 60,
            "auto",
            "60 known kinds of typically 20 pictures, many kinds with few pictures each, are learned",
        ),
        ([99, 100, 300], "auto", "3 known kinds of typically 100 pictures are few enough kinds, or enough pictures of"),
        ([20] * 60, "triplet", "asked for; 60 known kinds of typically 20 pictures would suit the prototypical loss"),
        ([100] * 3, "prototypical", "asked for; 3 known kinds of typically 100 pictures would suit the cross-entropy"),
    ],
)
def test_the_words_for_the_loss(sizes: list[int], loss: str, words: str) -> None:
    images = kinds_of(*sizes)
    assert why_loss(resolved_pretrain(Pretrain(loss=loss), images), images).startswith(words)


@pytest.mark.parametrize(("smallest", "shots"), [(2, 1), (3, 1), (4, 1), (5, 2), (7, 3), (10, 4), (11, 5), (20, 5)])
def test_support_and_query_by_the_smallest_kind(smallest: int, shots: int) -> None:
    images = kinds_of(30, smallest, 50)
    chosen = resolved_pretrain(Pretrain(), images)
    assert (chosen.support, chosen.query) == (shots, shots)
    chosen = resolved_pretrain(Pretrain(query=7), images)
    assert (chosen.support, chosen.query) == (shots, 7)


# Networks and weights


def test_the_side_before_the_network() -> None:
    assert resolve(known()).network_size == 32
    assert resolve(known(), {"network_size": 48}).network_size == 48
    assert resolve(known(channels=9, embeddings=True)).network_size == 1
    with pytest.raises(UsageError, match="network_size = 48 applies to pictures"):
        resolve(known(channels=9, embeddings=True), {"network_size": 48})
    weights = build_network("vgg6-5-1-slim", 3, 32, seed=0, network_size=16)
    assert resolved(Settings(), known(), weights, MPS).network_size == 16
    with pytest.raises(UsageError, match="scales pictures to 16 pixels, not to 48"):
        resolved(Settings(network_size=48), known(), weights, MPS)


def test_which_layers_the_features_are_of() -> None:
    assert resolve(known()).network_features == "last"
    assert resolve(known(), {"network_features": "last"}).network_features == "last"
    with pytest.raises(UsageError, match="'stages' is not possible: the network 'auto' gives 'last'"):
        resolve(known(), {"network_features": "stages"})
    lite = build_network("efficientnet-lite0", 3, 32, seed=0, network_size=32, pretrained=False)
    assert resolved(Settings(), known(), lite, CPU).network_features == "stages"
    with pytest.raises(UsageError, match="'last' is not possible: the network 'efficientnet-lite0' gives 'stages'"):
        resolved(Settings(network_features="last"), known(), lite, CPU)


def test_weights_bring_their_network() -> None:
    weights = build_network("vgg6-5-1-slim", 3, 32, seed=0)
    assert resolved(Settings(), known(), weights, MPS).network == "vgg6-5-1-slim"
    assert resolved(Settings(network="vgg6-5-1-slim"), known(), weights, MPS).network == "vgg6-5-1-slim"
    with pytest.raises(UsageError, match="'vgg6-5-1-slim', not 'resnet18'") as caught:
        resolved(Settings(network="resnet18"), known(), weights, MPS)
    assert "--network" in caught.value.hint


@pytest.mark.parametrize("images", [known(size=16), known(channels=1), known(channels=9, embeddings=True)])
def test_weights_of_another_shape(images: ImageSet) -> None:
    with pytest.raises(UsageError, match="weights are for pictures of 3x32x32") as caught:
        resolved(Settings(), images, build_network("vgg6-5-1-slim", 3, 32, seed=0), CPU)
    assert "images.size to 32" in caught.value.hint


def test_pictures_and_embeddings_need_their_own_networks() -> None:
    with pytest.raises(UsageError, match=r"'resnet18' does not take ready-made embeddings"):
        resolve(known(channels=9, embeddings=True), {"network": "resnet18"})
    with pytest.raises(UsageError, match=r"'identity' does not take pictures"):
        resolve(known(), {"network": "identity"})
    assert resolve(known(channels=9, embeddings=True), {"network": "identity"}).network == "identity"
