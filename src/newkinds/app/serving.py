"""Starting and stopping the workbench."""

from __future__ import annotations

import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from newkinds.app.guard import Guard, Keys
from newkinds.app.pictures import open_pictures
from newkinds.app.server import make_app
from newkinds.app.workbench import Workbench
from newkinds.errors import RunError, UsageError
from newkinds.images import Source
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder
from newkinds.runs.following import follow, has_journal
from newkinds.runs.pictures import is_remembered, remember
from newkinds.runs.results import read_assignment

ADDRESS = "127.0.0.1"
PATIENCE = 3  # seconds that requests under way get when it stops


class Server(uvicorn.Server):
    """uvicorn that stops at Ctrl-C without raising the signal again, which would look like a failure."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that ask to stop, and give them back afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Serving:
    """A workbench that is ready to be served. url: with the one-time token."""

    def __init__(self, bench: Workbench, port: int = 0, log: Callable[[str], None] = print) -> None:
        self.bench = bench
        self._socket = _listening(port)
        self.port = int(self._socket.getsockname()[1])
        self.keys = Keys()
        self.url = f"http://{ADDRESS}:{self.port}/?token={self.keys.token}"
        guarded = Guard(make_app(bench), self.port, self.keys, log)
        self._server = Server(
            uvicorn.Config(
                guarded, log_level="error", access_log=False, lifespan="off", ws="none", http="h11",
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=PATIENCE, limit_concurrency=200,
            )
        )  # fmt: skip

    def run(self) -> None:
        """Serve until Ctrl-C or `stop`; then bring kinds.csv up to what was said."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            _followed(self.bench)

    def stop(self) -> None:
        """Ask it to stop."""
        self._server.should_exit = True


def open_workbench(
    run: str | Path, *, images: Source | None = None, data: str | Path | None = None, progress: Progress = QUIET
) -> Workbench:
    """Return the workbench of a finished run. images: its pictures, where they have moved, which is remembered."""
    folder = RunFolder.open(Path(run))
    names = read_assignment(folder).names
    pictures = open_pictures(folder, names, images, data, progress)
    if is_remembered(images):
        with RunFolder.open(Path(run), writing=True) as written:
            remember(written, images)
    return Workbench(folder, pictures, progress)


def serve(
    run: str | Path,
    *,
    port: int = 0,
    browser: bool = True,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress = QUIET,
    say: Callable[[str], None] = print,
) -> None:
    """Open the workbench of a run on this machine, and return when it is stopped with Ctrl-C.

    port: 0 takes a free one. browser: whether to open the address in a browser. say: gets what is for the terminal.
    """
    bench = open_workbench(run, images=images, data=data, progress=progress)
    serving = Serving(bench, port, log=say)
    say(f"The workbench of {run} is open. Its address works once, and on this machine only:\n\n    {serving.url}\n")
    say("Everything is saved as you do it. Ctrl-C stops it.")
    if browser:
        threading.Thread(target=webbrowser.open, args=(serving.url,), daemon=True).start()
    serving.run()
    say("The workbench is closed. What was said is in the run's journal: newkinds journal " + str(run))


def _listening(port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise UsageError(f"--port {port} is no port.", hint="Give a number from 1024 to 65535, or leave it out.")
    # Named as TCP, so that asyncio lets it send at once: answers would wait 40 ms for one another.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((ADDRESS, port))
        found.listen(128)  # so that a browser that is quicker than the server waits
    except OSError as error:
        found.close()
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror or error}.", hint="Give another --port, or leave it out."
        ) from error
    return found


def _followed(bench: Workbench) -> None:
    """Bring kinds.csv up to the journal, unless somebody else is writing to the run, who will do so."""
    try:
        if has_journal(bench.run):
            with RunFolder.open(bench.run.path, writing=True) as run:
                follow(run)
    except RunError as error:
        bench.progress.warn(f"kinds.csv is not up to date: {error.message} `newkinds report` brings it up to date.")
