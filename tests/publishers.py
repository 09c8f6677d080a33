"""Tiny copies of the data sets, in their publishers' layouts."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import savemat

from newkinds.datasets.omniglot import EVALUATION, PROBES, TRAIN
from newkinds.images.decode import encode

CIFAR10_NAMES = [f"kind{number}".encode() for number in range(10)]
CIFAR100_NAMES = [f"fine{number:02d}".encode() for number in range(100)]


def random(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def as_python_2(value: Any) -> bytes:
    """Return a pickle of protocol 2 as Python 2 writes it: bytes are its strings, arrays name numpy.core."""
    return b"\x80\x02" + _python_2(value) + b"."


def _python_2(value: Any) -> bytes:
    if isinstance(value, bytes):
        return b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_python_2, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_python_2(key) + _python_2(item) for key, item in value.items()) + b"u"
    assert isinstance(value, np.ndarray)
    kind = value.dtype.str
    shape = b"(" + b"".join(map(_python_2, value.shape)) + b"t"
    dtype = b"cnumpy\ndtype\n(" + _python_2(kind[1:].encode()) + b"K\x00K\x01tR"
    dtype += b"(K\x03" + _python_2(kind[:1].encode()) + b"NNN" + _python_2(-1) * 2 + b"K\x00tb"
    start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + _python_2(b"b") + b"tR"
    return start + b"(K\x01" + shape + dtype + b"\x89" + _python_2(value.tobytes()) + b"tb"


def write_cifar10(root: Path, each: int = 20) -> NDArray[np.uint8]:
    """Write five batches, of which picture i of all has the label i % 10; return all pixels."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    pixels = random(5 * each, 3072)
    labels = [item % 10 for item in range(5 * each)]
    for number in range(5):
        rows = slice(number * each, (number + 1) * each)
        content = {b"batch_label": b"a batch", b"labels": labels[rows], b"data": pixels[rows]}
        (folder / f"data_batch_{number + 1}").write_bytes(as_python_2(content))
    (folder / "batches.meta").write_bytes(as_python_2({b"label_names": CIFAR10_NAMES, b"num_vis": 3072}))
    return pixels


def write_cifar100(root: Path, each: int = 2) -> NDArray[np.uint8]:
    """Write one file as Python 3 does, of which picture i has the fine label i % 100; return all pixels."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    pixels = random(100 * each, 3072)
    labels = [item % 100 for item in range(100 * each)]
    content = {b"data": pixels, b"fine_labels": labels, b"coarse_labels": [0] * len(labels)}
    (folder / "train").write_bytes(pickle.dumps(content, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": CIFAR100_NAMES}, protocol=2))
    return pixels


def write_svhn(path: Path, n: int = 40) -> NDArray[np.uint8]:
    """Write n digits 1, 2, ..., 9, 0 (as 10), 1, ...; return all pixels, (32, 32, 3, n)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random(32, 32, 3, n)
    labels = np.array([item % 10 + 1 for item in range(n)], dtype=np.uint8)
    savemat(path, {"X": pixels, "y": labels[:, None]}, do_compression=True)
    return pixels


def drawing(seed: int, sheet: int = 0) -> NDArray[np.uint8]:
    """Return one published character, (1, 105, 105): a black stroke on white paper, and a grey mark for each sheet."""
    pixels = np.full((1, 105, 105), 255, dtype=np.uint8)
    row = 10 + 7 * (seed % 12)
    pixels[0, row : row + 8, 15:90] = 0
    pixels[0, 98:, 90:97], pixels[0, 98:, 98:] = 255 - sheet % 64, 255 - sheet // 64
    return pixels


def write_omniglot(root: Path, characters: int = 2, drawers: int = 2) -> None:
    """Write images_background and images_evaluation, all alphabets with a few characters each."""
    number = 0
    for folder, alphabets in (("images_background", TRAIN + PROBES), ("images_evaluation", EVALUATION)):
        for alphabet in alphabets:
            for character in range(1, characters + 1):
                number += 1
                path = root / folder / alphabet / f"character{character:02d}"
                path.mkdir(parents=True)
                for drawer in range(1, drawers + 1):
                    (path / f"{number:04d}_{drawer:02d}.png").write_bytes(
                        encode(drawing(character, 20 * number + drawer), "png")
                    )


def write_imagenet(folder: Path, n_classes: int = 24, each: int = 2) -> list[str]:
    """Write a folder `train`, and lists beside it: the last nine classes are held out, three a list; return all."""
    classes = [f"n{number:08d}" for number in range(n_classes)]
    for number, name in enumerate(classes):
        (folder / "train" / name).mkdir(parents=True)
        for picture in range(each):
            shade = np.full((3, 40, 50), 10 * number + picture, dtype=np.uint8)
            (folder / "train" / name / f"{name}_{picture}.JPEG").write_bytes(encode(shade, "jpeg"))
    held_out = classes[-9:]
    (folder / "imagenet_118.txt").write_text("\n".join(reversed(held_out)) + "\n")
    for letter, names in zip("ABC", (held_out[:3], held_out[3:6], held_out[6:]), strict=True):
        lines = [f"{name} a description, of it" for name in names]
        (folder / f"imagenet_30_{letter}.txt").write_text("# a comment\n\n" + "\r\n".join(lines))
    return classes
