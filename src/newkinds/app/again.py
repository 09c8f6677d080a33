"""Sorting a run again by what was said, in the background, while the page goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from newkinds.cache import open_cache
from newkinds.errors import NewkindsError, UsageError
from newkinds.pipeline.reopening import reopened
from newkinds.progress import Progress, Step
from newkinds.runs import RunFolder, names


class Telling(Progress):
    """Tells somebody else what is being done: the last line, or how far a step has come."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__("silent")
        self._tell = tell

    def say(self, text: str) -> None:
        """Tell a line."""
        self._tell(text)

    def _shown(self, step: Step) -> None:
        self._tell(f"{step.title} {step.done:,}/{step.total:,}")


class Again:
    """Sorts a run again, once at a time: the same as `newkinds discover ... --again`."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._lock = Lock()
        self._thread: Thread | None = None
        self._words = self._error = ""
        self._times = 0  # that it ended

    def start(self) -> None:
        """Begin; raise an error if it is under way."""
        with self._lock:
            if self.is_running:
                raise UsageError("The pictures are being sorted again already.", hint="Wait until that is done.")
            self._words, self._error = "Opening the pictures", ""
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it is under way."""
        return self._thread is not None and self._thread.is_alive()

    def told(self) -> dict[str, Any] | None:
        """Return what can be said about it, None if it was never asked for. times: how often it has ended."""
        if self._thread is None:
            return None
        return {"running": self.is_running, "words": self._words, "error": self._error, "times": self._times}

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is done."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        say = Telling(self._take)
        try:
            page = RunFolder.open(self._run).lists(names.PAGE)
            reopened(self._run, cache=open_cache(say), progress=say).result(page=page, anyway=True, again=True)
        except NewkindsError as error:
            self._error = f"{error.message} {error.hint}".strip()
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
        finally:
            self._times += 1

    def _take(self, words: str) -> None:
        self._words = words
