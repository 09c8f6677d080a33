"""Checkpoints on disk: atomic, hashed, two generations of each stage."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from newkinds.errors import DataError
from newkinds.files import digest, read_plain, write_atomic
from newkinds.parallel.processes import is_writer
from newkinds.progress import QUIET, Progress
from newkinds.runs.log import Mark, RunLog, is_mark
from newkinds.tensors import from_bytes, to_bytes

GENERATIONS = 2
_NAME = re.compile(r"(?P<stage>[a-z]+)-(?P<epoch>\d{6})-(?P<hash>[0-9a-f]{64})\.safetensors")


class DiskCheckpoints:
    """Save the state of the training loop in a folder.

    A checkpoint's name holds its epoch and the hash of its content, so that one rename makes it valid: there is no
    second file that could disagree with it. It says which run, stage and epoch it is of, and how far the log was. One
    that does not match its hash, its name, the run or the log is skipped for the one before.

    run: what tells this run from others. log: of the run. seconds: the least time between two checkpoints. When they
    are written does not affect the result.
    """

    def __init__(
        self,
        folder: Path,
        *,
        run: str = "",
        log: RunLog | None = None,
        seconds: float = 10.0,
        progress: Progress = QUIET,
    ) -> None:
        self.folder = folder
        self.run = run
        self.log = log
        self.seconds = seconds
        self.progress = progress
        self._written = time.monotonic()

    def due(self) -> bool:
        """Return whether it is time to write one."""
        return time.monotonic() - self._written >= self.seconds

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        """Save the state after `epoch` epochs of a stage, and delete all but the newest two."""
        about: dict[str, Any] = {"stage": stage, "epoch": epoch, "run": self.run}
        if self.log is not None:
            about["log"] = self.log.mark()
        data = to_bytes(tensors, about)
        name = f"{stage}-{epoch:06d}-{digest(data)}.safetensors"
        write_atomic(self.folder / name, data, root=self.folder.parent)
        for _, old in self._of(stage)[GENERATIONS:]:
            old.unlink()
        self._written = time.monotonic()

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        """Return the newest intact state of a stage, with its epoch; None if there is none."""
        for epoch, path in self._of(stage):
            found = self._read(path)
            if found is not None:
                return epoch, found[0]
            self.progress.warn(
                f"The checkpoint {path.name} is damaged, or not of this run; going on from the one before."
            )
        return None

    def marks(self) -> list[Mark]:
        """Return how far the log was at each checkpoint that is intact and of this run."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.safetensors")) if _NAME.fullmatch(path.name)]
        return [one[1]["log"] for one in found if one is not None and "log" in one[1]]

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the tensors and the metadata of a checkpoint, None if it is not one of this run, intact."""
        name = _NAME.fullmatch(path.name)
        try:
            data = read_plain(path)
            if name is None or digest(data) != name["hash"]:
                return None
            tensors, about = from_bytes(data, str(path))
        except (OSError, DataError):
            return None
        ours = {"stage": name["stage"], "epoch": int(name["epoch"]), "run": self.run}
        mark: Any = about.get("log")
        log_holds = self.log is None or (is_mark(mark) and self.log.is_intact([mark])[0])
        return (tensors, about) if log_holds and ours == {key: about.get(key) for key in ours} else None

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
