"""The run folder: the only code that reads and writes the outputs of a run."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.configure import make_settings
from newkinds.errors import RunError, UsageError
from newkinds.files import TEMPORARY, digest, file_digest, remove_leftovers, write_atomic
from newkinds.parallel.processes import check_same, is_writer, wait_for_all
from newkinds.progress import QUIET, Progress
from newkinds.runs import names
from newkinds.runs.checkpoints import DiskCheckpoints
from newkinds.settings import CoreSettings
from newkinds.settings.files import read_toml
from newkinds.training import Record
from newkinds.version import __version__

CHECKPOINT_SECONDS = "NEWKINDS_CHECKPOINT_SECONDS"
LAYOUT = 2  # of the folder; 1, which was not recorded, named kinds by bare numbers


class RunFolder:
    """One run on disk.

    `run.json` records the data of the run and its outputs, each with its hash: an output counts if it is intact *and*
    listed. A run that is restarted therefore continues with the first stage that is not listed.
    """

    def __init__(self, path: Path, progress: Progress = QUIET) -> None:
        self.path = path
        self.progress = progress
        self._lock: int | None = None
        self._about: dict[str, Any] = {}

    @classmethod
    def start(
        cls,
        path: Path,
        settings: CoreSettings,
        data: Mapping[str, Any],
        sources: Mapping[str, str],
        progress: Progress = QUIET,
    ) -> RunFolder:
        """Make a run folder, or continue the one that is there if its settings and data are the same.

        data: what identifies the data, such as hashes. sources: where the data came from, which may change. With
        several processes, the first makes the folder and writes to it; the others see what it has written after `sync`.
        """
        check_same(flat({**settings.model_dump(mode="json"), "data": dict(data), "version": __version__}))
        run = cls(path, progress)
        if is_writer():
            run._start(settings, data, sources)
        run.sync()
        return run

    def _start(self, settings: CoreSettings, data: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self._make()
        self._check_ours()
        self._take_lock()
        try:
            if self._file(names.ABOUT).exists():
                self._about = self._read_about()
                self._check_same(settings, data)
                self._about["sources"] = dict(sources)
                remove_leftovers(self.path)
            else:
                remove_leftovers(self.path)
                write_atomic(self._file(names.SETTINGS), settings.to_toml().encode())
                self._about = {
                    "version": __version__,
                    "layout": LAYOUT,
                    "threads": torch.get_num_threads(),
                    "outputs": {},
                }
                self._about |= {"data": dict(data), "sources": dict(sources)}
            self._write_about()
            self._mend_log()
        except BaseException:
            self.close()  # so that the same process can try again
            raise

    def sync(self) -> None:
        """Wait for all processes, and read what the writer has written."""
        wait_for_all()
        if not is_writer():
            self._about = self._read_about()

    @staticmethod
    def check_writable(path: Path) -> None:
        """Raise an error if a run folder cannot be made at `path`; make nothing."""
        ancestor = path
        while not ancestor.exists() and ancestor != ancestor.parent:
            ancestor = ancestor.parent
        if not ancestor.is_dir():
            raise _unwritable(path, f"{ancestor} is not a folder")
        if not os.access(ancestor, os.W_OK | os.X_OK):
            raise _unwritable(path, f"permission denied for {ancestor}")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder for reading."""
        run = cls(path)
        if not run._file(names.ABOUT).is_file():
            raise RunError(
                f"{path} is not a run folder: it has no run.json.",
                hint="Give the folder that `newkinds discover ... --out RUN` made.",
            )
        run._about = run._read_about()
        return run

    @property
    def settings(self) -> CoreSettings:
        """The run's settings, all of them."""
        return make_settings(read_toml(self._file(names.SETTINGS)))

    @property
    def data(self) -> Mapping[str, Any]:
        """What identifies its data, such as hashes."""
        found: Mapping[str, Any] = self._about["data"]
        return found

    @property
    def sources(self) -> dict[str, str]:
        """Where the pictures came from, as of the last start of the run."""
        return dict(self._about["sources"])

    @property
    def threads(self) -> int:
        """The number of threads of the run's first start: with another one, gradients differ in their last bits."""
        return int(self._about["threads"])

    @property
    def version(self) -> str:
        """The version of newkinds that started the run."""
        return str(self._about["version"])

    def checkpoints(self) -> DiskCheckpoints:
        """Return the run's checkpoints."""
        folder = self._file(names.CHECKPOINTS)
        folder.mkdir(exist_ok=True)
        return DiskCheckpoints(folder, seconds=float(os.environ.get(CHECKPOINT_SECONDS, "10")), progress=self.progress)

    def has(self, name: str) -> bool:
        """Return whether an output is there, intact."""
        return self.find(name) is not None

    def find(self, name: str) -> bytes | None:
        """Return an output if it is there, intact; it is read and hashed once."""
        expected = self._about["outputs"].get(name)
        file = self._file(name)
        if expected is None or not file.is_file():
            return None
        data = file.read_bytes()
        return data if digest(data) == expected else None

    def listed(self, folder: str) -> list[str]:
        """Return the sorted names of the intact outputs in one of the run's folders."""
        return [name for name in sorted(self._about["outputs"]) if name.startswith(f"{folder}/") and self.has(name)]

    def put(self, name: str, data: bytes) -> None:
        """Write an output and list it; with several processes, only the writer does."""
        if not is_writer():
            return
        file = self._file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data)
        self._about["outputs"][name] = digest(data)
        self._write_about()

    def adopt(self, name: str) -> None:
        """List an output that other code has written atomically."""
        self._about["outputs"][name] = digest(self._file(name).read_bytes())
        self._write_about()

    def get(self, name: str) -> bytes:
        """Return an output, or raise an error if it is missing or not what was written."""
        if not self._file(name).is_file():
            raise RunError(
                f"{self.path} has no {name} yet.", hint="Run the same `newkinds discover` again to finish it."
            )
        data = self._file(name).read_bytes()
        if digest(data) != self._about["outputs"].get(name):
            raise RunError(
                f"{self._file(name)} is not what the run wrote: its hash differs.",
                hint="Run the same `newkinds discover` again: it makes what is damaged anew.",
            )
        return data

    def put_json(self, name: str, value: Any) -> None:
        """Write an output as JSON."""
        self.put(name, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    def get_json(self, name: str) -> Any:
        """Return an output that is JSON."""
        return json.loads(self.get(name))

    def put_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array as .npy."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        self.put(name, buffer.getvalue())

    def get_array(self, name: str) -> NDArray[Any]:
        """Return an array that was written as .npy."""
        return _array(self.get(name))

    def find_array(self, name: str) -> NDArray[Any] | None:
        """Return such an array if it is there, intact: memory-mapped, what is written to it does not reach the file."""
        file, expected = self._file(name), self._about["outputs"].get(name)
        if expected is None or not file.is_file() or file_digest(file) != expected:
            return None
        array: NDArray[Any] = np.asarray(np.load(file, mmap_mode="c", allow_pickle=False))
        return array

    def log(self, record: Record) -> None:
        """Append a line to log.jsonl; with several processes, only the writer does."""
        if not is_writer():
            return
        with self._file(names.LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def history(self) -> list[Record]:
        """Return the log's records, the last one of each stage and epoch: a resumed run repeats some."""
        if not self._file(names.LOG).exists():
            return []
        records: dict[tuple[Any, ...], Record] = {}
        for line in self._file(names.LOG).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # the line that was being written when the run was killed
            records[record.get("stage"), record.get("epoch")] = record
        return list(records.values())

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _file(self, name: str) -> Path:
        return self.path / name

    def _make(self) -> None:
        self.check_writable(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error.strerror or str(error)) from None

    def _check_ours(self) -> None:
        """Refuse a folder that is not a run folder, before anything in it is touched."""
        there = {entry.name for entry in self.path.iterdir()}
        begun = {names.LOCK, names.SETTINGS, *(name for name in there if name.startswith(TEMPORARY))}
        # A run takes its lock first: a settings.toml alone is the user's own file.
        if there and names.ABOUT not in there and (names.LOCK not in there or there - begun):
            raise RunError(
                f"{self.path} is not empty and is not a run folder.", hint="Choose another folder with --out."
            )

    def _take_lock(self) -> None:
        self._lock = os.open(self._file(names.LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise RunError(
                f"Another process is working in {self.path}.", hint="Wait for it, or choose another folder with --out."
            ) from None

    def _mend_log(self) -> None:
        """End a line that was half-written when the run was killed, so that the next one is separate."""
        log = self._file(names.LOG)
        if log.exists() and log.stat().st_size and not log.read_bytes().endswith(b"\n"):
            with log.open("ab") as file:
                file.write(b"\n")

    def _read_about(self) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads(self._file(names.ABOUT).read_bytes())
            about["version"], about["threads"], about["data"], about["sources"], about["outputs"]
        except (ValueError, KeyError, TypeError):
            raise RunError(
                f"{self._file(names.ABOUT)} is damaged.",
                hint=f"Delete {self.path} or choose another folder with --out.",
            ) from None
        layout = about.get("layout", 1)
        if layout != LAYOUT:
            raise RunError(
                f"{self.path} was made by newkinds {about['version']} in layout {layout}; this is {__version__}, which "
                f"reads layout {LAYOUT}. Nothing in it was changed.",
                hint="Run `newkinds discover` again with another --out, or use the version that made it.",
            )
        return about

    def _write_about(self) -> None:
        write_atomic(self._file(names.ABOUT), (json.dumps(self._about, indent=2, sort_keys=True) + "\n").encode())

    def _check_same(self, settings: CoreSettings, data: Mapping[str, Any]) -> None:
        """Refuse to continue if settings or data are not those of the run."""
        theirs, ours = flat(self.settings.model_dump(mode="json")), flat(settings.model_dump(mode="json"))
        theirs |= flat({"data": self._about["data"]})
        ours |= flat({"data": dict(data)})
        differing = [
            f"{key} ({theirs.get(key)!r} there, {ours.get(key)!r} now)"
            for key in sorted(theirs | ours)
            if theirs.get(key) != ours.get(key)
        ]
        if differing:
            raise UsageError(
                f"{self.path} holds a run made with other data or settings: {', '.join(differing)}.",
                hint="Choose another folder with --out, or ask for the same as before.",
            )
        if self.version != __version__:
            self.progress.warn(f"{self.path} was started by newkinds {self.version}; this is {__version__}.")


def _array(data: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _unwritable(path: Path, why: str) -> RunError:
    return RunError(f"The run folder {path} cannot be written: {why}.", hint="Choose another with --out.")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values under dotted keys."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
