"""The run folder: the only code that reads and writes the outputs of a run."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.configure import make_settings
from newkinds.environment import number_from
from newkinds.errors import NewkindsError, RunError, UsageError, told
from newkinds.files import (
    digest,
    file_digest,
    opened_folder,
    remove_leftovers,
    sealed,
    write_atomic,
)
from newkinds.parallel.processes import check_same, is_writer, wait_for_all
from newkinds.progress import QUIET, Progress
from newkinds.runs import claim, forms, names
from newkinds.runs.about import LAYOUT, read_about, set_sources, source_of
from newkinds.runs.checkpoints import DiskCheckpoints
from newkinds.runs.claim import flat, make_folder
from newkinds.runs.lock import PATIENCE, FolderLock
from newkinds.runs.log import RunLog
from newkinds.runs.outputs import Ledger, stage_of
from newkinds.settings import CoreSettings
from newkinds.settings.files import read_toml
from newkinds.training import Record
from newkinds.version import __version__

CHECKPOINT_SECONDS = "NEWKINDS_CHECKPOINT_SECONDS"
_SETTLED = 1.0  # seconds in which a file and its hash in run.json, written one after the other, come to agree


class DamagedError(RunError):
    """An output of a run is missing, or not what the run wrote. name: of the file in the run folder."""

    def __init__(self, message: str, *, hint: str, name: str) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class RunFolder:
    """One run on disk.

    `run.json` records the data of the run and its outputs, each with its hash: an output counts if it is intact *and*
    listed. A run that is restarted looks at all of them, makes what is damaged anew, with what was made from it (see
    `newkinds.runs.outputs`), and continues with the first stage that is not listed. Whoever writes holds the lock;
    whoever reads needs none, and sees each output as it was before or after a write.
    """

    def __init__(self, path: Path, progress: Progress = QUIET) -> None:
        self.path = path
        self.progress = progress
        self._lock: FolderLock | None = None
        self._is_continued = False  # by `start`: outputs that fell may count again
        self._about: dict[str, Any] = {}
        self._log = RunLog(path / names.LOG)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        run._is_continued = True
        if is_writer():
            run._start(settings, data, sources)
        run.sync()
        return run

    def _start(self, settings: CoreSettings, data: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        make_folder(self.path)
        self._lock = FolderLock(self.path)
        try:
            if self._file(names.ABOUT).exists():
                self._about = self._read_about()
                self._mend_settings(settings)
                self._check_same(settings, data)
                set_sources(self._about, sources)
                remove_leftovers(self.path)
                self._mend()
            else:
                remove_leftovers(self.path)
                text = settings.to_toml().encode()
                write_atomic(self._file(names.SETTINGS), text)
                self._about = {
                    "version": __version__,
                    "layout": LAYOUT,
                    "threads": torch.get_num_threads(),
                    "outputs": {},
                    "settings": digest(text),
                    "log": {},
                }
                self._about["data"] = dict(data)
                set_sources(self._about, sources)
            self._write_about()
        except BaseException:
            self.close()  # so that the same process can try again
            raise

    def sync(self) -> None:
        """Wait for all processes, and read what the writer has written."""
        wait_for_all()
        if not is_writer():
            self._about = self._read_about()

    @classmethod
    def open(cls, path: Path, *, writing: bool = False) -> RunFolder:
        """Open a run folder for reading; or for writing an output of a finished run, until `close`."""
        run = cls(path)
        if not run._file(names.ABOUT).is_file():
            raise RunError(
                f"{path} is not a run folder: it has no run.json.",
                hint="Give the folder that `newkinds discover ... --out RUN` made.",
            )
        if writing:
            run._lock = FolderLock(path, wait=PATIENCE)
        try:
            run._about = run._read_about()
        except BaseException:
            run.close()
            raise
        return run

    @property
    def settings(self) -> CoreSettings:
        """The run's settings, all of them."""
        if not self.has_settings:
            raise self._damaged(names.SETTINGS)
        return make_settings(read_toml(self._file(names.SETTINGS)))

    @property
    def has_settings(self) -> bool:
        """Whether its settings are there as they were written, as far as run.json tells."""
        expected, file = self._about.get("settings"), self._file(names.SETTINGS)
        return expected is None or (file.is_file() and file_digest(file) == expected)

    @property
    def data(self) -> Mapping[str, Any]:
        """What identifies its data, such as hashes."""
        found: Mapping[str, Any] = self._about["data"]
        return found

    @property
    def sources(self) -> dict[str, str]:
        """Where the pictures came from, as of the last start of the run."""
        return dict(self._about["sources"])

    def source(self, which: str) -> str:
        """Return where the "known" or "unsorted" pictures are: relative to where the run was started, if they are."""
        return source_of(self._about, which, self.path)

    def remember(self, which: str, source: str) -> None:
        """Record where pictures have moved to; only what is open for writing can."""
        if self._lock is not None and source != self._about["sources"].get(which):
            self._about["sources"][which] = source
            self._write_about()

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
        with opened_folder(folder, self.path):  # which makes it, and refuses a link
            pass
        return DiskCheckpoints(
            folder,
            run=digest(sealed({key: self._about.get(key) for key in ("data", "settings")})),
            log=self._log if "log" in self._about else None,
            seconds=number_from(CHECKPOINT_SECONDS, 10.0, of="seconds"),
            progress=self.progress,
        )

    def lists(self, name: str) -> bool:
        """Return whether the run says that it has an output; `get` raises an error if that is damaged."""
        return self._expected(name) is not None

    def has(self, name: str) -> bool:
        """Return whether an output is there, intact."""
        expected = self._expected(name)
        return expected is not None and self._is_intact(name, expected)

    def listed(self, folder: str) -> list[str]:
        """Return the sorted names of the outputs in one of the run's folders."""
        return [name for name in sorted(self._about["outputs"]) if name.startswith(f"{folder}/")]

    @property
    def is_whole(self) -> bool:
        """Whether all that the run has written is there, as it was written."""
        marks: Any = self._about.get("log")  # none in a run of an earlier version: its log is taken as it is
        outputs_hold = "fallen" not in self._about and not self._ledger().damaged()
        return self.has_settings and (marks is None or self._log.is_whole(marks.values())) and outputs_hold

    def wrote(self, name: str) -> bool:
        """Return whether an output was ever written by the run, be it damaged by now."""
        return name in self._about["outputs"] or name in self._about.get("fallen", {}).get("outputs", {})

    def put(self, name: str, data: bytes) -> None:
        """Write an output and list it; with several processes, only the writer does."""
        if not is_writer():
            return
        self._write(name, data)
        ledger = self._ledger()
        ledger.add(name, digest(data))
        self._keep(ledger)
        self._follow(name, None)
        self._mark_log(name)
        self._write_about()

    def restore(self, name: str, data: bytes) -> bool:
        """Write an output that is damaged once more, if this is what it was; return whether it is."""
        if digest(data) != self._about["outputs"].get(name):
            return False
        self._write(name, data)
        self._follow(name, None)
        self._write_about()
        return True

    def forget(self, name: str) -> None:
        """List an output no more: until it is put again, a run that is continued makes it anew."""
        if is_writer():
            self._about["outputs"].pop(name, None)
            self._follow(name, None)
            self._write_about()

    def put_followed(self, name: str, data: bytes, line: int) -> None:
        """Write an output as it is after the journal's first lines, up to `line`; what the machine made stays listed.

        If it is damaged, the stage that made it makes it anew, as it was before anybody said anything. A crash at any
        moment leaves a file that counts.
        """
        before = self._about.get("follows", {}).get(name, {"line": 0, "sha256": []})
        self._follow(name, {"line": before["line"], "sha256": [*before["sha256"][-1:], digest(data)]})
        self._write_about()
        self._write(name, data)
        self.set_followed(name, line)

    def set_followed(self, name: str, line: int) -> None:
        """Record up to which line of the journal an output goes, as it is now; 0: nothing that was said changes it."""
        self._follow(name, {"line": line, "sha256": [file_digest(self._file(name))]} if line else None)
        self._write_about()

    def followed(self, name: str) -> int:
        """Return up to which line of the journal an output goes, 0 if it is the machine's alone."""
        return int(self._about.get("follows", {}).get(name, {}).get("line", 0))

    @property
    def said(self) -> int:
        """How many lines the journal had when the run was last written to: there cannot be fewer."""
        return int(self._about.get("said", 0))

    def remember_said(self, lines: int) -> None:
        """Record how many lines the journal has."""
        if lines != self.said:
            self._about.pop("said", None)
            self._about |= {"said": lines} if lines else {}
            self._write_about()

    def _follow(self, name: str, mark: dict[str, Any] | None) -> None:
        follows = {key: value for key, value in self._about.pop("follows", {}).items() if key != name}
        follows |= {} if mark is None else {name: mark}
        if follows:
            self._about["follows"] = follows

    def _write(self, name: str, data: bytes) -> None:
        assert self._lock is not None, "opened for reading"
        try:
            write_atomic(self._file(name), data, root=self.path)
        except OSError as error:
            raise RunError(
                f"{self._file(name)} cannot be written: {error.strerror or error}.",
                hint="Make room, or mend that, and type the same line again.",
            ) from error

    def get(self, name: str) -> bytes:
        """Return an output, or raise an error if it is missing or not what was written."""
        until = time.monotonic() + _SETTLED
        while True:
            file, expected = self._file(name), self._expected(name)
            data = file.read_bytes() if file.is_file() else None
            if data is not None and expected is not None and digest(data) in self._hashes(name, expected):
                return data
            if self._lock is not None or time.monotonic() > until:
                raise self._damaged(name) if expected is not None or data is not None else self._unfinished(name)
            time.sleep(_SETTLED / 20)  # somebody may be writing it
            self._about = self._read_about()

    def _unfinished(self, name: str) -> RunError:
        return RunError(f"{self.path} has no {name} yet.", hint="Run the same `newkinds discover` again to finish it.")

    def _damaged(self, name: str) -> DamagedError:
        what = "is not what the run wrote: its hash differs" if self._file(name).is_file() else "is missing"
        return DamagedError(
            f"{self._file(name)} {what}.",
            hint="Run the same `newkinds discover` again: it makes what is damaged anew.",
            name=name,
        )

    def put_json(self, name: str, value: Any) -> None:
        """Write an output as JSON."""
        self.put(name, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    def get_json(self, name: str) -> Any:
        """Return an output that is JSON."""
        with self.understood(name):
            value = json.loads(self.get(name))
            forms.check(name, value)
            return value

    def put_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array as .npy."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        self.put(name, buffer.getvalue())

    def get_array(self, name: str) -> NDArray[Any]:
        """Return an array that was written as .npy."""
        with self.understood(name):
            return _array(io.BytesIO(self.get(name)))

    def find_array(self, name: str) -> NDArray[Any] | None:
        """Return such an array if it is there, intact: memory-mapped, what is written to it does not reach the file."""
        if not self.has(name):
            return None
        with self.understood(name):
            return np.asarray(_array(self._file(name), mmap_mode="c"))

    @contextmanager
    def understood(self, name: str) -> Iterator[None]:
        """Turn what reading an output may raise into a DamagedError: its hash is right, but it makes no sense.

        Nothing that newkinds wrote is so; a run folder may come from somebody else.
        """
        try:
            yield
        except NewkindsError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise DamagedError(
                f"{self._file(name)} does not say what it should ({told(error)}).",
                hint="Take the run folder as it was made, or run the same `newkinds discover` with another --out.",
                name=name,
            ) from error

    def log(self, record: Record) -> None:
        """Append a line to log.jsonl; with several processes, only the writer does."""
        if is_writer():
            self._log.append(record)

    def history(self) -> list[Record]:
        """Return the log's records, the last one of each stage and epoch: a resumed run may repeat some."""
        marks = self._about.get("log") or {}
        if not all(self._log.is_intact(marks.values())):
            raise self._damaged(names.LOG)
        return self._log.records()

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _file(self, name: str) -> Path:
        return self.path / name

    def _is_intact(self, name: str, expected: str) -> bool:
        file = self._file(name)
        return file.is_file() and file_digest(file) in self._hashes(name, expected)

    def _hashes(self, name: str, expected: str) -> tuple[str, ...]:
        """Return the hashes that an output may have: that of what the machine made, and of what people made of it."""
        return (expected, *self._about.get("follows", {}).get(name, {}).get("sha256", ()))

    def _ledger(self) -> Ledger:
        return Ledger(self._about["outputs"], self._about.get("fallen"), self._is_intact)

    def _keep(self, ledger: Ledger) -> None:
        """Take over what a ledger says has fallen."""
        self._about.pop("fallen", None)
        if ledger.fallen is not None:
            self._about["fallen"] = ledger.fallen

    def _expected(self, name: str) -> str | None:
        """Return the hash that an output should have, None if it is not listed."""
        listed: str | None = self._about["outputs"].get(name)
        if listed is not None or not self._is_continued or "fallen" not in self._about:
            return listed
        ledger = self._ledger()
        found = ledger.expected(name)
        self._keep(ledger)
        if found is not None and is_writer():
            self._write_about()
        return found

    def _mend_settings(self, settings: CoreSettings) -> None:
        """Write settings.toml again if it is damaged and those that are asked for now are those of the run."""
        text, expected = settings.to_toml().encode(), self._about.get("settings")
        if self.has_settings:
            return
        if digest(text) != expected:
            raise UsageError(
                f"{self._file(names.SETTINGS)} is damaged, and the settings asked for now are not those of the run.",
                hint="Ask for the same as when the run was started, or choose another folder with --out.",
            )
        self.progress.warn(f"{self._file(names.SETTINGS)} was damaged, and is written again.")
        write_atomic(self._file(names.SETTINGS), text)

    def _mend(self) -> None:
        """Look at all that the run has written, and let fall what is damaged, with what was made from it."""
        marks: Any = self._about.get("log")  # none in a run of an earlier version: its log is taken as it is
        ledger, damaged = self._ledger(), self._ledger().damaged()
        broken = (
            []
            if not marks
            else [stage for stage, holds in zip(marks, self._log.is_intact(marks.values()), strict=True) if not holds]
        )
        checkpoints = self.checkpoints() if self._file(names.CHECKPOINTS).exists() else None
        if damaged or broken:
            if checkpoints is not None:
                checkpoints.clear()  # an output that was made on the way to one would be missing for good
            fallen = ledger.drop(damaged, broken)
            self._keep(ledger)
            for stage in broken:
                del marks[stage]
            self._warn_of([*damaged, *([names.LOG] if broken else [])], fallen)
            self._write_about()
        if marks is None:
            self._log.end_line()
        else:
            self._log.cut([*marks.values(), *(checkpoints.marks() if checkpoints else ())])

    def _warn_of(self, damaged: list[str], fallen: list[str]) -> None:
        others = sorted(set(fallen) - set(damaged))
        made = f", with what was made from it: {', '.join(others)}" if others else ""
        score = " Scores need the truth again: --truth, or `newkinds evaluate`." if names.SCORES in damaged else ""
        self.progress.warn(f"Damaged or missing in {self.path}: {', '.join(damaged)}. It is made anew{made}.{score}")

    def _mark_log(self, name: str) -> None:
        """Record how far the log goes, if it has grown since the last time, for the stage that made an output."""
        marks = self._about.get("log")
        if marks is not None:
            mark = self._log.mark()
            if mark["bytes"] > max((one["bytes"] for one in marks.values()), default=0):
                marks[stage_of(name).name] = mark

    def _read_about(self) -> dict[str, Any]:
        return read_about(self.path)

    def _write_about(self) -> None:
        write_atomic(self._file(names.ABOUT), sealed(self._about))

    def _check_same(self, settings: CoreSettings, data: Mapping[str, Any]) -> None:
        """Refuse to continue if settings or data are not those of the run."""
        theirs = {**self.settings.model_dump(mode="json"), "data": self._about["data"]}
        claim.check_same(self.path, theirs, {**settings.model_dump(mode="json"), "data": dict(data)})
        if self.version != __version__:
            self.progress.warn(f"{self.path} was started by newkinds {self.version}; this is {__version__}.")


def _array(file: io.BytesIO | Path, mmap_mode: Literal["c"] | None = None) -> NDArray[Any]:
    """Return the array of a file in the .npy format, of finite numbers; raise a ValueError if it is not that."""
    try:
        array = np.load(file, mmap_mode=mmap_mode, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # on broken bytes, numpy may raise anything
        raise ValueError(told(error)) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError("it is no array of numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("its numbers are not all finite")
    return array
