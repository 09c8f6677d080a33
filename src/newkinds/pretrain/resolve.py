"""Values for the settings of pretraining that are "auto", chosen from the known kinds."""

from __future__ import annotations

import math

import numpy as np

from newkinds.images.augment import suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.settings import Pretrain

FEW_KINDS = 20  # below it, quarter turns count as further kinds, which are worth learning twice as long
LONGER = 2
FEWEST_EPOCHS, MOST_EPOCHS = 5, 60
FEWEST_BY_COMPARING = 12  # epochs of a prototypical or triplet loss, which learns more slowly
MANY_KINDS, FEW_PICTURES = 50, 40  # at least this many kinds of at most this many pictures: prototypical loss
MOST_SHOTS = 5


def resolved_pretrain(settings: Pretrain, known: ImageSet) -> Pretrain:
    """Return the settings of pretraining on `known` without "auto"."""
    turns, wanted = settings.quarter_turns, settings.pictures
    if turns == "auto":
        turns = len(known.classes) < FEW_KINDS and not known.is_embedding
        wanted *= LONGER if turns else 1
    loss = _suited_loss(known) if settings.loss == "auto" else settings.loss
    epochs = settings.epochs
    if epochs == "auto":
        seen = len(known) * (1 - settings.held_out) * (4 if turns else 1)
        fewest = FEWEST_EPOCHS if loss == "cross-entropy" else FEWEST_BY_COMPARING
        epochs = min(max(math.ceil(wanted / seen), fewest), MOST_EPOCHS)
    values = {
        "augmentation": suited_policy(settings.augmentation, known),
        "quarter_turns": turns,
        "epochs": epochs,
        "loss": loss,
    }
    # Half of the smallest kind's training pictures, at most the authors' 5, for each of support and query.
    smallest = _smallest_kind(known)
    most = min(MOST_SHOTS, max(1, (smallest - max(1, round(settings.held_out * smallest))) // 2))
    values |= {name: most for name in ("support", "query") if getattr(settings, name) == "auto"}
    return settings.model_copy(update=values)


def _suited_loss(known: ImageSet) -> str:
    """Return the loss that suits the known kinds: a metric loss if each has too few pictures to be classified."""
    many_of_few = len(known.classes) >= MANY_KINDS and _typical_kind(known) <= FEW_PICTURES
    return "prototypical" if many_of_few and _smallest_kind(known) > 2 else "cross-entropy"


def why_loss(settings: Pretrain, known: ImageSet) -> str:
    """Return in words why this loss is used."""
    suited = _suited_loss(known)
    have = f"{len(known.classes)} known kinds of typically {_typical_kind(known)} pictures"
    if settings.loss != suited:
        return f"asked for; {have} would suit the {suited} loss"
    if suited == "prototypical":
        return f"{have}, many kinds with few pictures each, are learned by comparing"
    return f"{have} are few enough kinds, or enough pictures of each, to learn by name"


def _smallest_kind(known: ImageSet) -> int:
    assert known.labels is not None
    return int(np.bincount(known.labels, minlength=len(known.classes)).min())


def _typical_kind(known: ImageSet) -> int:
    assert known.labels is not None
    return int(np.median(np.bincount(known.labels, minlength=len(known.classes))))
