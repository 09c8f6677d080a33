"""Known kinds that the tests of pretraining make up, and stand-ins for the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.images.imageset import ImageSet
from newkinds.networks import build_network
from newkinds.pretrain.tasks import TASKS, KnownTask
from newkinds.settings import Pretrain

RESOLVED: dict[str, Any] = {
    "loss": "cross-entropy",
    "support": 2,
    "query": 2,
    "epochs": 3,
    "augmentation": "none",
    "quarter_turns": False,
    "batch_size": 16,
    "learning_rate": 0.01,
}


def labelled(labels: Any, size: int = 8, pixels: NDArray[Any] | None = None) -> ImageSet:
    """Grey pictures with noise, each kind bright in a corner of its own."""
    labels = np.asarray(labels, dtype=np.int64)
    if pixels is None:
        pixels = np.random.default_rng(0).integers(0, 60, (len(labels), 1, size, size), dtype=np.uint8)
        half = size // 2
        for picture, label in zip(pixels, labels, strict=True):
            top, left = divmod(int(label), 2)
            picture[0, top * half : (top + 1) * half, left * half : (left + 1) * half] += 150
    classes = tuple(f"kind {c}" for c in range(int(labels.max()) + 1))
    names = tuple(f"{i}.png" for i in range(len(labels)))
    return ImageSet(pixels, names, labels, classes, "made up", "no mark")


def make_task(
    images: ImageSet, kept: NDArray[np.int64] | None = None, held_out: NDArray[np.int64] | None = None, **changes: Any
) -> KnownTask:
    """Return the task of a loss, cross-entropy by default; all pictures are trained on and kept back by default."""
    network = build_network("vgg6-4-2-slim", images.channels, images.size, seed=0)
    settings = Pretrain(**{**RESOLVED, **changes})
    everything = np.arange(len(images))
    kept, held_out = (everything if some is None else some for some in (kept, held_out))
    return TASKS[settings.loss](network, images, kept, held_out, settings, seed=0)


class Recorder(nn.Module):
    """Stands for the network: answers with fixed logits, whatever it is shown."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits[: len(x)]


class Lookup(nn.Module):
    """Stands for f: the features of the picture whose pixels are all i are row i of a table (N, d), N up to 256."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(table).float())

    def forward(self, x: Tensor) -> Tensor:
        table: Tensor = self.get_buffer("table")
        return table[x.flatten(1).amax(dim=1).mul(255).round().long()]


def numbered(labels: Any) -> ImageSet:
    """Pictures for `Lookup`: all pixels of picture i are i."""
    labels = np.asarray(labels)
    pixels = np.broadcast_to(np.arange(len(labels), dtype=np.uint8)[:, None, None, None], (len(labels), 1, 8, 8))
    return labelled(labels, pixels=np.ascontiguousarray(pixels))


class InMemory:
    """Checkpoints in memory, one after each epoch: copies, as the ones on disk are."""

    def __init__(self) -> None:
        self.kept: dict[int, dict[str, Tensor]] = {}

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        assert stage == "pretrain"
        return max(self.kept.items(), key=lambda pair: pair[0]) if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        assert stage == "pretrain"
        self.kept[epoch] = {name: value.detach().clone() for name, value in tensors.items()}
