"""Checkpoints on disk: atomic, hashed, two generations of each stage."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from newkinds.errors import DataError
from newkinds.files import digest, write_atomic
from newkinds.parallel.processes import is_writer
from newkinds.progress import QUIET, Progress
from newkinds.tensors import from_bytes, to_bytes

GENERATIONS = 2
_NAME = re.compile(r"(?P<stage>[a-z]+)-(?P<epoch>\d{6})-(?P<hash>[0-9a-f]{64})\.safetensors")


class DiskCheckpoints:
    """Save the state of the training loop in a folder.

    A checkpoint's name holds its epoch and the hash of its content, so that one rename makes it valid: there is no
    second file that could disagree with it. One that does not match its hash is skipped for the one before.

    seconds: the least time between two checkpoints. When they are written does not affect the result.
    """

    def __init__(self, folder: Path, *, seconds: float = 10.0, progress: Progress = QUIET) -> None:
        self.folder = folder
        self.seconds = seconds
        self.progress = progress
        self._written = time.monotonic()

    def due(self) -> bool:
        """Return whether it is time to write one."""
        return time.monotonic() - self._written >= self.seconds

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        """Save the state after `epoch` epochs of a stage, and delete all but the newest two."""
        data = to_bytes(tensors, {"stage": stage, "epoch": epoch})
        write_atomic(self.folder / f"{stage}-{epoch:06d}-{digest(data)}.safetensors", data)
        for _, old in self._of(stage)[GENERATIONS:]:
            old.unlink()
        self._written = time.monotonic()

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        """Return the newest intact state of a stage, with its epoch; None if there is none."""
        for epoch, path in self._of(stage):
            data = path.read_bytes()
            if digest(data) in path.name:
                try:
                    return epoch, from_bytes(data, str(path))[0]
                except DataError:
                    pass
            self.progress.warn(f"The checkpoint {path.name} is damaged; going on from the one before.")
        return None

    def clear(self) -> None:
        """Delete all checkpoints, when the run no longer needs them; with several processes, only the writer does."""
        if not is_writer():
            return
        for path in self.folder.glob("*.safetensors"):
            path.unlink()

    def _of(self, stage: str) -> list[tuple[int, Path]]:
        """Return the checkpoints of a stage, newest first."""
        named = [(_NAME.fullmatch(path.name), path) for path in self.folder.glob(f"{stage}-*.safetensors")]
        return sorted(((int(match["epoch"]), path) for match, path in named if match), reverse=True)
