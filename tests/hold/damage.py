"""Small runs, and the ways in which one file of a folder can come to harm."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import newkinds as nk
from newkinds.errors import NewkindsError
from newkinds.runs.checkpoints import DiskCheckpoints

WAYS = ("changed", "cut", "emptied", "deleted", "swapped", "lengthened")
QUIET = nk.Progress("silent")
SETTINGS: dict[str, Any] = {
    "discover": {"warmup_epochs": 1, "epochs": 3, "snapshots": 2},
    "count": {"max_kinds": 5, "splits": 2, "enough": 4},
    "rehearse": {"rehearsals": 2, "choose": "off"},
}


def discover(sets: tuple[Path, Path], out: Path, **options: Any) -> nk.Discovery:
    """Find kinds among embeddings, in a second."""
    given = {"kinds": "auto", "truth": "folders", "settings": SETTINGS, "cache": False, "progress": QUIET, **options}
    return nk.discover(*sets, out=out, **given)


class Killed(BaseException):
    """What stops a run here."""


def killed(sets: tuple[Path, Path], path: Path, **options: Any) -> Path:
    """Return the folder of a run that was killed after the third of its epochs; each had a checkpoint."""
    save = DiskCheckpoints.save

    def save_and_die(self: DiskCheckpoints, stage: str, epoch: int, tensors: dict[str, Tensor]) -> None:
        save(self, stage, epoch, tensors)
        if epoch == 3:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEWKINDS_CHECKPOINT_SECONDS", "0")
        patch.setattr(DiskCheckpoints, "save", save_and_die)
        with pytest.raises(Killed):
            discover(sets, path, **options)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder but locks, by its name."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def harm(folder: Path, name: str, way: str, other: Path, dice: random.Random) -> None:
    """Damage one file of a folder. other: a folder like it, for a file to be swapped with."""
    file = folder / name
    data = bytearray(file.read_bytes())
    if way == "deleted":
        file.unlink()
        return
    if way == "swapped":
        if (other / name).is_file():
            shutil.copyfile(other / name, file)
        return
    if way == "changed":
        for _ in range(dice.choice((1, 1, 4))):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif way == "cut":
        del data[dice.randrange(len(data)) :]
    elif way == "emptied":
        data.clear()
    else:
        data += bytes(dice.randrange(256) for _ in range(dice.randrange(1, 40)))
    file.write_bytes(data)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the class of errors that people are to see; anything else is a traceback."""
    try:
        return call()
    except NewkindsError:
        return NewkindsError
