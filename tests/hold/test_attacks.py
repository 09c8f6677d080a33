"""Ways that once led to a traceback, a crash or a leftover, by group: each ends well, or with a clear error."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openTSNE
import pytest
import torch
from children import Job, in_turn
from commands import Commands, kept
from damage import QUIET, discover
from PIL import Image
from tallies import Tally

import newkinds as nk
from newkinds import memory
from newkinds.cache import open_cache
from newkinds.errors import DataError, NewkindsError, OutOfMemoryError, RunError, UsageError
from newkinds.files import digest, sealed, unsealed
from newkinds.images.decode import ImageError, decode
from newkinds.images.scan import read_file, scan
from newkinds.networks import build_network
from newkinds.networks.files import network_to_bytes, read_network
from newkinds.parallel import jobs
from newkinds.progress import Progress, Warnings
from newkinds.report.embedding_map import follow, make_map
from newkinds.runs import RunFolder
from newkinds.stopping import signals_waiting
from newkinds.tensors import from_bytes, to_bytes
from pictures import write_embeddings

PROGRAM = [sys.executable, "-m", "newkinds"]


# Arrays of somebody else's

ARRAYS = "Arrays: members that are no arrays, headers that lie, names that no table can hold"


def archive(path: Path, **members: Any) -> Path:
    """Write an .npz whose members are arrays, or bytes as they are."""
    with zipfile.ZipFile(path, "w") as file:
        for name, value in members.items():
            stream = io.BytesIO()
            if isinstance(value, bytes):
                file.writestr(name, value)
            else:
                np.save(stream, value)
                file.writestr(f"{name}.npy", stream.getvalue())
    return path


@pytest.mark.promise(ARRAYS)
@pytest.mark.parametrize("name", ["embeddings", "images", "labels", "names"])
@pytest.mark.parametrize("content", [b"", b"words", b"\x93NUMPY\x03\x00", b"PK\x03\x04"])
def test_members_that_are_no_arrays(name: str, content: bytes, tmp_path: Path) -> None:
    good = {"embeddings": np.ones((6, 3), np.float32), "labels": np.arange(6) % 2}
    with pytest.raises(DataError, match=r"a\.npz "):
        nk.open_images(archive(tmp_path / "a.npz", **{**good, name: content}), labelled=True, progress=QUIET)


@pytest.mark.promise(ARRAYS)
def test_headers_that_lie_take_no_memory(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.ones((6, 3), np.float32))
    lie = stream.getvalue().replace(b"(6, 3), }            ", b"(6000000000, 3), }   ")
    assert lie != stream.getvalue()
    with pytest.raises(DataError, match="says that it has 72,000,000,000 bytes"):
        nk.open_images(archive(tmp_path / "a.npz", **{"embeddings.npy": lie}), progress=QUIET)


@pytest.mark.promise(ARRAYS)
@pytest.mark.parametrize("odd", ["a\rb", "\ud800", "\x00b", "=1+1"])
def test_names_that_no_table_could_hold(odd: str, tmp_path: Path) -> None:
    known, heap = write_embeddings(tmp_path)
    held = dict(np.load(heap))
    called = [odd, *(f"p{n}" for n in range(1, len(held["labels"])))]
    np.savez(tmp_path / "odd.npz", **held, names=np.array(called))
    found = discover(
        (known, tmp_path / "odd.npz"), tmp_path / "run", method="kmeans", kinds=3, rehearsals=0, page=False
    )
    assert nk.load(tmp_path / "run").names == found.names
    assert len(set(found.names)) == len(called)
    found.names[0].encode()


@pytest.mark.promise(ARRAYS)
@pytest.mark.parametrize("odd", ["a\rb", "\ud800", "\x1b[31m"])
def test_kinds_that_no_table_could_hold(odd: str, tmp_path: Path) -> None:
    labels = np.array([odd, "b"] * 3)
    found = nk.open_images(archive(tmp_path / "a.npz", embeddings=np.ones((6, 2)), labels=labels), labelled=True)
    assert all(name.isprintable() for name in found.classes)
    both = np.array([odd, found.classes[0] if found.classes[0] != "b" else found.classes[1]] * 3)
    with pytest.raises(DataError, match="the same in print"):
        nk.open_images(archive(tmp_path / "b.npz", embeddings=np.ones((6, 2)), labels=both), labelled=True)


@pytest.mark.promise(ARRAYS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_characters_that_do_not_exist(order: str, tmp_path: Path) -> None:
    names = np.array([0x110000, 0x7FFFFFFF], dtype=f"{order}u4").view(f"{order}U1")
    with pytest.raises(DataError, match="2 strings are needed"):
        nk.open_images(archive(tmp_path / "a.npz", embeddings=np.ones((2, 2)), names=names))


@pytest.mark.promise(ARRAYS)
def test_kinds_of_a_single_picture(tmp_path: Path) -> None:
    known, heap = write_embeddings(tmp_path)
    np.savez(tmp_path / "single.npz", embeddings=np.load(known)["embeddings"], labels=np.arange(64))
    found = discover((tmp_path / "single.npz", heap), tmp_path / "run", kinds=3, rehearsals=0, page=False)
    assert found.n_kinds


# Signals

SIGNALS = "Ctrl-C and SIGTERM at any moment, once or twice: no traceback, nothing half-written, the same line continues"


def stopped(commands: Commands, name: str, number: int, seed: int, folder: Path, tally: Tally) -> None:
    """Stop a command at random moments, sometimes twice, and type it again."""
    commands.ends(name)
    dice, plan = random.Random(seed), []
    for one in range(number):
        when, which = dice.uniform(0.0, 0.95) * commands.seconds[name], dice.choice((signal.SIGINT, signal.SIGTERM))
        signals = [[when, int(which)]]
        if dice.random() < 0.5:
            signals.append([when + dice.uniform(0.0, 0.2), int(which)])
        plan.append(commands.job(name, fresh=True, signals=signals, copy=str(folder / f"{one}-at")))
        plan.append(commands.job(name, keep=str(folder / str(one))))
    answers = in_turn(plan, folder)
    for one, (first, again) in enumerate(zip(answers[::2], answers[1::2], strict=True)):
        assert first["code"] in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM), first["said"]
        assert "Traceback" not in first["said"] + again["said"]
        if first["code"]:
            assert f"newkinds {name}" in first["said"]
        assert not list((folder / f"{one}-at").rglob(".tmp-*"))
        assert again["code"] == 0, again["said"]
        assert kept(folder / str(one)) == commands.ends(name)
        tally.add("stopped, same bytes" if first["code"] else "ended before")


@pytest.mark.promise(SIGNALS)
def test_a_few_signals(commands: Commands, tmp_path: Path, tally: Tally) -> None:
    stopped(commands, "predict", 4, 0, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.promise(SIGNALS)
@pytest.mark.parametrize("name", ["discover", "count", "compare", "report", "predict"])
def test_many_signals(name: str, commands: Commands, tmp_path: Path, tally: Tally) -> None:
    stopped(commands, name, 20, 1, tmp_path, tally)


def interrupted(line: list[str], number: int, longest: float, seed: int, tally: Tally) -> None:
    """Stop the real program at random moments, at first while it is imported."""
    dice = random.Random(seed)
    for _ in range(number):
        program = subprocess.Popen([*PROGRAM, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(dice.uniform(0.12, longest))
        for _ in range(dice.choice((1, 2))):
            program.send_signal(signal.SIGINT)
            time.sleep(dice.uniform(0.0, 0.05))
        said = program.communicate(timeout=60)[1]
        # Before the first line of ours has run, it is Python that is stopped, and that has not installed its own yet.
        assert "Traceback" not in said or "newkinds/" not in said, said
        tally.add("stopped" if program.returncode else "ended before")


@pytest.mark.promise(SIGNALS)
def test_ctrl_c_while_it_is_imported(tally: Tally) -> None:
    interrupted(["methods"], 3, 1.5, 0, tally)


@pytest.mark.slow
@pytest.mark.promise(SIGNALS)
def test_ctrl_c_while_it_is_imported_many_times(tmp_path: Path, tally: Tally) -> None:
    write_embeddings(tmp_path)
    line = ["count", str(tmp_path / "known.npz"), str(tmp_path / "unsorted.npz"), "--out", str(tmp_path / "run")]
    interrupted(line, 30, 5.0, 1, tally)


@pytest.fixture
def heard() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also where a shell has told its background jobs to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.promise(SIGNALS)
@pytest.mark.usefixtures("heard")
def test_a_signal_waits_where_an_exception_would_crash() -> None:
    inside = []

    def interrupted_twice(*, is_let_through: bool) -> None:
        with signals_waiting() as let_signals_through:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            inside.append("it waits")
            if is_let_through:
                let_signals_through()
            inside.append("to the end")

    for is_let_through in (True, False):
        with pytest.raises(KeyboardInterrupt):
            interrupted_twice(is_let_through=is_let_through)
    assert inside == ["it waits", "it waits", "to the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.promise(SIGNALS)
@pytest.mark.usefixtures("heard")
def test_a_signal_does_not_crash_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of openTSNE's that an exception leaves unfinished is freed as if it were whole."""
    tree, built = openTSNE.tsne.QuadTree, []

    def interrupted_tree(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        built.append(tree(*given))
        return built[-1]

    monkeypatch.setattr(openTSNE.tsne, "QuadTree", interrupted_tree)
    points = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    kinds, places = np.zeros(40, np.int64), np.zeros((40, 2))
    for call in (lambda: make_map(points, kinds, 0), lambda: follow(points, places, 0)):
        built.clear()
        with pytest.raises(KeyboardInterrupt):
            call()
        assert built


# Output

OUTPUT = "Output to an ASCII terminal, a closed pipe, a full disk or nowhere: no traceback"


def said(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell, in which $N is newkinds."""
    environment = {**os.environ, "N": " ".join(PROGRAM), **environ}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.promise(OUTPUT)
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("$N cache | true; exit ${PIPESTATUS[0]}", None, ""),
        ("$N cache > /dev/full", 1, "annot write to standard output: No space left on device"),
        ("$N cache >&-", 0, ""),
        ("$N cache --nosuch >&- 2>&-", 2, ""),
        ("$N cache --nosuch 2> /dev/full", None, ""),
        ("PYTHONIOENCODING=ascii NEWKINDS_CACHE=/nonexistent/é $N cache", 0, ""),
        ("PYTHONIOENCODING=ascii $N --help", 0, ""),
    ],
)
def test_output(line: str, code: int | None, words: str) -> None:
    done = said(line)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert words in done.stderr
    assert code is None or done.returncode == code, done.stderr


class _Closed(io.TextIOBase):
    """A stream whose reader has gone."""

    encoding = "ascii"

    def write(self, text: str, /) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


@pytest.mark.promise(OUTPUT)
def test_progress_that_nobody_reads_ends_no_run() -> None:
    progress = Progress("plain", _Closed())  # type: ignore[arg-type]
    progress.say("é")
    progress.warn("\ud800")


# Memory

MEMORY = "Memory that does not suffice: said before, or what needed it, what is free and what lowers it"


@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("kilobytes", [300_000, 600_000, 1_000_000])
def test_ulimit_is_noticed_before_libraries_crash(kilobytes: int) -> None:
    done = said(f"ulimit -v {kilobytes}; $N methods")
    assert done.returncode == 1
    assert "of address space; ulimit -v allows" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("kilobytes", [1_300_000, 1_400_000, 1_600_000, 2_000_000])
def test_ulimit_works_or_says_so(kilobytes: int, tmp_path: Path) -> None:
    write_embeddings(tmp_path)
    line = "$N discover known.npz unsorted.npz --kinds 3 --out run --rehearsals 1 -q"
    done = said(f"cd {tmp_path}; ulimit -v {kilobytes}; {line}")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "memory" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("command", ["discover", "count", "rehearse", "predict", "report"])
def test_a_small_run_stays_below_a_gigabyte(command: str, commands: Commands, tmp_path: Path) -> None:
    """What a control group of 1 GB would allow; a group of our own can be made on few machines."""
    place = Path(shutil.copytree(commands.root, tmp_path / "place"))
    program = subprocess.Popen([*PROGRAM, *commands.lines()[command]], cwd=place, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(program.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert used.ru_maxrss / 1024 < 1000


@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 12.3 GiB for an array with shape (3, 4) and data type float64"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_an_error_of_memory_says_what_lowers_it(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("newkinds.api.open_pipeline", fail)
    with pytest.raises(OutOfMemoryError, match=r"not enough memory for discover.* are free") as raised:
        nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run")
    assert "discover.batch_size" in raised.value.hint


@pytest.mark.promise(MEMORY)
def test_arrays_that_do_not_fit_are_refused_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = write_embeddings(tmp_path)
    monkeypatch.setattr(memory, "free_memory", lambda: (1000, " (the limit of its control group)"))
    with pytest.raises(OutOfMemoryError, match=r"0 MB of memory or more\. 0 MB are free \(the limit of its control"):
        nk.open_images(file)


@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("version", [1, 2])
def test_control_groups_are_read(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = version == 1
    folder = tmp_path / ("memory/shop/run" if old else "shop/run")
    folder.mkdir(parents=True)
    limit, usage, cached = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if old
        else ("memory.max", "memory.current", "inactive_file")
    )
    for place, most in ((folder, "max" if version == 2 else str(2**63 - 4096)), (folder.parent, str(10**9))):
        (place / limit).write_text(f"{most}\n")
        (place / usage).write_text("400000000\n")
        (place / "memory.stat").write_text(f"anon 3\n{cached} 100000000\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    controllers = "memory" if old else ""
    monkeypatch.setattr(memory, "_memberships", lambda: [["4" if old else "0", controllers, "/shop/run"]])
    assert memory._cgroup()[0] == 10**9 - 4 * 10**8 + 10**8
    assert memory.free_memory() is not None


# Workers

WORKERS = "A worker process that is killed is started again; if that goes on, it is said"


def die_once(flag: str, value: int) -> int:
    """Kill this process, the first time."""
    if value == 1 and not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def die(value: int) -> int:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return value


@pytest.mark.slow
@pytest.mark.promise(WORKERS)
def test_a_killed_worker_is_started_again(tmp_path: Path) -> None:
    warned = Warnings()
    work = [(str(tmp_path / "flag"), value) for value in range(4)]
    assert list(jobs.spread(die_once, work, title="Trying", jobs=2, progress=warned)) == [0, 1, 2, 3]
    assert warned.texts == ["A worker process was killed; what it was at is started again."]
    with pytest.raises(RunError, match=r"Trying: worker processes were killed 3 times") as raised:
        list(jobs.spread(die, [(1,), (2,)], title="Trying", jobs=2, progress=warned))
    assert "lower --jobs" in raised.value.hint


@pytest.mark.promise(WORKERS)
def test_workers_that_are_killed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def results(threads: int, call: Any, work: Any, *_: Any) -> Any:
        begun.append(len(work))
        yield work[0][0]
        raise jobs.TerminatedWorkerError("killed")

    monkeypatch.setattr(jobs, "_results", results)
    found = jobs.spread(int, [(n,) for n in range(9)], title="Trying", jobs=2, progress=QUIET)
    with pytest.raises(RunError, match="killed 3 times"):
        list(found)
    assert begun == [9, 8, 7]  # what is done is not done again


# What somebody has changed

TAMPERED = "Numbers that somebody has changed in run.json, settings or weights take no memory, and start no threads"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tampered")
    return discover(write_embeddings(folder), folder / "run", kinds=3, rehearsals=0, page=False).path


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("threads", [0, -1, 1_000_000, 10**30, 1.5, "2", None, True, [1]])
def test_threads_of_a_tampered_run(threads: Any, run: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(run, tmp_path / "run"))
    about = unsealed((path / "run.json").read_bytes())
    (path / "run.json").write_bytes(sealed({**about, "threads": threads}))
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        RunFolder.open(path)


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("value", [0, -1, 10**9, 10**30, 1.5, "8", None, True, [8], {}])
@pytest.mark.parametrize("key", ["channels", "size", "network_size", "transfer"])
def test_numbers_of_tampered_weights(key: str, value: Any, tmp_path: Path) -> None:
    if (key, value) == ("transfer", None):
        value = 10**7  # None is a transfer without a matrix
    tensors, about = from_bytes(network_to_bytes(build_network("vgg6-4-2-slim", 1, 8, seed=0)), "here")
    (tmp_path / "a.safetensors").write_bytes(to_bytes(tensors, {**about, key: value}))
    with pytest.raises(NewkindsError):
        read_network(tmp_path / "a.safetensors")


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("key", ["kinds", "width"])
def test_a_head_of_a_thousand_million_kinds(key: str, run: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(run, tmp_path / "run"))
    file = path / "model/weights.safetensors"
    tensors, about = from_bytes(file.read_bytes(), "here")
    data = to_bytes(tensors, {**about, key: 10**9})
    told = unsealed((path / "run.json").read_bytes())
    told["outputs"]["model/weights.safetensors"] = digest(data)
    file.write_bytes(data)
    (path / "run.json").write_bytes(sealed(told))
    with pytest.raises(DataError, match="do not fit the network"):
        nk.predict(path, np.ones((2, 8), np.float32), progress=QUIET)


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64])
def test_weights_of_another_type(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors, about = from_bytes(network_to_bytes(build_network("vgg6-4-2-slim", 1, 8, seed=0)), "here")
    changed = {name: value.to(dtype) if value.is_floating_point() else value for name, value in tensors.items()}
    (tmp_path / "a.safetensors").write_bytes(to_bytes(changed, about))
    if dtype == torch.float8_e4m3fn:
        read_network(tmp_path / "a.safetensors")  # floats of fewer digits
        return
    with pytest.raises(DataError, match="of another type"):
        read_network(tmp_path / "a.safetensors")


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("text", ["[" * 5000, "a = " + "[" * 5000, "seed = " + "1" * 5000, "\x00", "= 1", "a.b.c = 1"])
def test_settings_of_somebody_else(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UsageError):
        nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run", settings=tmp_path / "a.toml")


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize(
    ("setting", "value"),
    [("transfer.learning_rate", 1e300), ("discover.learning_rate", 1e38), ("transfer.folds", 100_000)],
)
def test_numbers_that_nothing_can_be_computed_with(setting: str, value: float, tmp_path: Path) -> None:
    """They overflow, or are worked at for weeks."""
    section, _, name = setting.partition(".")
    with pytest.raises(UsageError, match="should be"):
        nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run", settings={section: {name: value}})


# Variables, full disks

VARIABLES = "Environment variables that make no sense: named, with what to set them to"
DISK = "A full disk: the file is named, nothing temporary is left, and with room the same line ends with the same bytes"
WRONG = (
    "NEWKINDS_CHECKPOINT_SECONDS=abc", "NEWKINDS_CHECKPOINT_SECONDS=nan", "NEWKINDS_CACHE_MB=-5", "WORLD_SIZE=two",
    "WORLD_SIZE=0", "RANK=x", "LOCAL_RANK=1.5", "MASTER_PORT=x", "ACCELERATE_TORCH_DEVICE=foo",
)  # fmt: skip


@pytest.mark.promise(VARIABLES)
@pytest.mark.parametrize("text", WRONG)
def test_variables_that_make_no_sense(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, value = text.split("=")
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=name):
        discover(write_embeddings(tmp_path), tmp_path / "run", kinds=3, rehearsals=0, cache=True)


@pytest.mark.promise(VARIABLES)
@pytest.mark.parametrize("folder", ["x" * 5000, "/".join(["y" * 200] * 30)])
def test_a_cache_that_no_folder_can_be_called(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWKINDS_CACHE", folder)
    monkeypatch.chdir(tmp_path)
    warned = Warnings()
    rows = open_cache(warned).rows("pixels", {}, [b"k" * 16], lambda items: np.ones((len(items), 2)))
    assert rows.tolist() == [[1, 1]]
    assert "File name too long" in warned.texts[0]
    assert "NEWKINDS_CACHE names another folder" in warned.texts[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.promise(VARIABLES)
def test_a_variable_that_accelerate_does_not_understand(commands: Commands, tmp_path: Path) -> None:
    (answer,) = in_turn([commands.job("discover", fresh=True, environ={"ACCELERATE_USE_CPU": "maybe"})], tmp_path)
    assert answer["code"] == 2, answer["said"]
    assert "ACCELERATE_" in answer["said"]


def test_a_backend_of_matplotlib_that_does_not_exist() -> None:
    line = [sys.executable, "-c", "import newkinds.plotting"]
    assert subprocess.run(line, env={**os.environ, "MPLBACKEND": "nonsense"}).returncode == 0


def filled(commands: Commands, name: str, limits: list[int], folder: Path, tally: Tally) -> None:
    """Let no file grow beyond some sizes, as on a disk that is full, and type the line again with room."""
    commands.ends(name)
    plan: list[Job] = []
    for number, most in enumerate(limits):
        at, end = str(folder / f"{number}-at"), str(folder / str(number))
        plan.append(commands.job(name, fresh=True, limits={"RLIMIT_FSIZE": most}, copy=at))
        plan.append(commands.job(name, keep=end))
    answers = in_turn(plan, folder)
    for number, (full, again) in enumerate(zip(answers[::2], answers[1::2], strict=True)):
        assert full["code"] in (0, 1), full["said"]
        assert "Traceback" not in full["said"]
        if full["code"]:
            assert "new" in full["said"], full["said"]  # the file
            assert "File too large" in full["said"]
        assert not list((folder / f"{number}-at").rglob(".tmp-*"))
        assert again["code"] == 0, again["said"]
        assert kept(folder / str(number)) == commands.ends(name)
        tally.add("named, then the same bytes" if full["code"] else "had room")


@pytest.mark.promise(DISK)
def test_a_few_full_disks(commands: Commands, tmp_path: Path, tally: Tally) -> None:
    filled(commands, "predict", [600, 900], tmp_path, tally)
    assert tally.outcomes == {"named, then the same bytes": 2}


@pytest.mark.slow
@pytest.mark.promise(DISK)
def test_many_full_disks(commands: Commands, tmp_path: Path, tally: Tally) -> None:
    dice = random.Random(0)  # what the command says goes to a file, too, which must have room
    filled(commands, "discover", [int(2 ** dice.uniform(10, 18)) for _ in range(24)], tmp_path, tally)


@pytest.mark.slow
@pytest.mark.promise(DISK)
@pytest.mark.parametrize("kilobytes", [30, 60, 90, 120])
def test_a_disk_that_is_really_full(kilobytes: int, commands: Commands, tmp_path: Path) -> None:
    """Of its own, in a name space of its own."""
    mount = f"mount -t tmpfs -o size={kilobytes}k tmpfs {tmp_path}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no disks of our own can be mounted here")
    known, heap = commands.root / "known.npz", commands.root / "unsorted.npz"
    command = f"{' '.join(PROGRAM)} discover {known} {heap} --out {tmp_path}/run --kinds 3 --rehearsals 1 -q"
    line = f"{mount} && {command}; find {tmp_path} -name '.tmp-*'"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", line], capture_output=True, text=True)
    assert "No space left on device" in done.stderr
    assert f"{tmp_path}/run/" in done.stderr
    assert "Traceback" not in done.stderr
    assert ".tmp-" not in done.stdout


# libtiff

TIFF = "What libtiff says is said with the name of the file, and what it finds broken is refused"


@pytest.mark.promise(TIFF)
@pytest.mark.parametrize("how", ["tiff_lzw", "tiff_adobe_deflate", "group4"])
def test_the_words_of_libtiff(how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "broken.tif"
    (picture.convert("1") if how == "group4" else picture).save(file, compression=how)
    data = bytearray(file.read_bytes())
    decode(bytes(data), size=8, channels=1)
    for at in range(200, min(600, len(data))):
        data[at] ^= 0x55
    file.write_bytes(data)
    with pytest.raises(ImageError, match=r"^broken \(\w"):
        decode(bytes(data), size=8, channels=1)
    (skipped,) = scan(tmp_path, verify=True).skipped
    assert skipped.name == "a/broken.tif"
    assert skipped.reason.startswith("broken (")
    assert capfd.readouterr().err == ""


# What Python is given

ARGUMENTS = "Arguments that are no paths, names or settings: said so"


@pytest.mark.promise(ARGUMENTS)
@pytest.mark.parametrize("odd", [None, 3, b"x", [], "\0", "\ud800"])
def test_what_is_no_path(odd: Any, run: Path, tmp_path: Path) -> None:
    sets = write_embeddings(tmp_path)
    for call in (
        lambda: nk.load(odd),
        lambda: nk.report(odd),
        lambda: nk.load_network(odd),
        lambda: nk.journal(odd),
        lambda: nk.export(run, "csv", odd, progress=QUIET),
        lambda: nk.discover(*sets, out=odd, progress=QUIET),
        lambda: nk.load(run).to_csv(odd),
        lambda: nk.open_images(odd),
        lambda: nk.predict(run, odd, progress=QUIET),
    ):
        with pytest.raises(NewkindsError):
            call()


@pytest.mark.promise(ARGUMENTS)
@pytest.mark.parametrize("odd", [3, b"x", 1.5])
def test_what_is_no_name_and_no_settings(odd: Any, run: Path, tmp_path: Path) -> None:
    sets = write_embeddings(tmp_path)
    for call in (
        lambda: nk.discover(*sets, out=tmp_path / "run", settings=odd),
        lambda: nk.discover(*sets, out=tmp_path / "run", preset=odd),
        lambda: nk.export(run, odd, tmp_path / "e"),
        lambda: nk.predict(run, sets[1], among=odd, progress=QUIET),
        lambda: nk.Progress(odd),
        lambda: nk.journal(run, say=odd, progress=QUIET),
    ):
        with pytest.raises(NewkindsError):
            call()


MANY = (b"x", [], {}, ["a"], np.zeros(3))


@pytest.mark.promise(ARGUMENTS)
@pytest.mark.parametrize("odd", MANY, ids=repr)
def test_many_values_where_one_is_wanted(odd: Any, run: Path, tmp_path: Path) -> None:
    known, heap = write_embeddings(tmp_path)
    options = ("kinds", "estimator", "method", "variant", "network", "tune", "heap", "seed", "rehearsals", "choose",
               "truth", "data", "profile", "preset", "device")  # fmt: skip
    for option in options:
        with pytest.raises(NewkindsError):
            nk.discover(known, heap, out=tmp_path / "run", **{option: odd})
    for call in (
        lambda: nk.compare(known, heap, out=tmp_path / "run", seeds=odd),
        lambda: nk.compare(known, heap, out=tmp_path / "run", jobs=odd),
        lambda: nk.predict(run, heap, among=odd, progress=QUIET),
        lambda: nk.predict(run, heap, none=odd, progress=QUIET),
        lambda: nk.journal(run, undo=True, times=odd),
        lambda: nk.scan(odd, progress=QUIET),
    ):
        with pytest.raises(NewkindsError):
            call()
    assert not (tmp_path / "run").exists()


@pytest.mark.promise(ARGUMENTS)
@pytest.mark.parametrize("odd", [None, "x", 1.5, float("nan"), True])
def test_what_is_no_number(odd: Any, run: Path, tmp_path: Path) -> None:
    known, heap = write_embeddings(tmp_path)
    for call in (
        lambda: nk.compare(known, heap, out=tmp_path / "run", seeds=odd),
        lambda: nk.compare(known, heap, out=tmp_path / "run", jobs=odd),
        lambda: nk.compare(known, heap, out=tmp_path / "run", methods=odd or 3),
        lambda: nk.discover(known, heap, out=tmp_path / "run", auxiliary=odd or 3),
        lambda: nk.journal(run, undo=True, times=odd),
        lambda: nk.predict(run, heap, none=2 if odd is None else -1 if odd == 1.5 else odd, progress=QUIET),
    ):
        with pytest.raises(NewkindsError):
            call()


@pytest.mark.promise(ARGUMENTS)
def test_pictures_for_a_run_of_embeddings(run: Path, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match="has pictures") as caught:
        nk.predict(run, tmp_path, progress=QUIET)
    assert caught.value.hint


# Where tables and figures go

TARGETS = "A table or figures go over nothing but older ones: no input, link, device, pipe, folder or file of a run"


@pytest.mark.promise(TARGETS)
@pytest.mark.parametrize("what", ["input", "link", "pipe", "folder", "picture", "run", "nowhere", "empty name"])
def test_a_table_goes_over_nothing_else(what: str, run: Path, tmp_path: Path) -> None:
    known, _ = write_embeddings(tmp_path)
    old = nk.load(run)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "link").symlink_to("picture.png")
    os.mkfifo(tmp_path / "pipe")
    target = {"input": known, "picture": tmp_path / "picture.png", "folder": tmp_path, "run": run / "kinds.csv"}.get(
        what, Path("" if what == "empty name" else tmp_path / what / "a.csv" if what == "nowhere" else tmp_path / what)
    )
    before = target.read_bytes() if target.is_file() else b""
    with pytest.raises(NewkindsError) as caught:
        old.to_csv(target)
    assert caught.value.hint
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert not target.is_file() or target.read_bytes() == before


@pytest.mark.promise(TARGETS)
def test_a_table_is_not_called_what_it_is_not(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.parquet is to be a CSV table"):
        nk.load(run).to_csv(tmp_path / "a.parquet")


@pytest.mark.promise(ARRAYS)
def test_arrays_that_are_to_be_scanned(tmp_path: Path) -> None:
    known, _ = write_embeddings(tmp_path)
    with pytest.raises(DataError, match="pictures are scanned") as caught:
        nk.scan(known, progress=QUIET)
    assert "npz" not in caught.value.hint


@pytest.mark.promise(TARGETS)
def test_a_table_goes_over_an_older_one(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "kinds.csv"
    file.touch()
    for _ in range(2):
        nk.load(run).to_csv(file)
    assert file.read_bytes() == (run / "kinds.csv").read_bytes()


@pytest.mark.promise(TARGETS)
def test_figures_go_neither_among_pictures_nor_over_a_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a folder"):
        nk.figures(run, out=tmp_path / "file", progress=QUIET)


# Pipes and devices

PIPES = "A pipe or a device in the place of a file is refused at once: nothing waits for it, or reads for ever"
Call = Callable[[Path, Path, Path], object]


@contextmanager
def at_once() -> Iterator[None]:
    """End what waits."""

    def end(number: int, frame: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 30)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def piped(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


WHERE: dict[str, Call] = {
    "weights": lambda known, heap, at: nk.discover(known, heap, out=at / "new", weights=piped(at / "w")),
    "settings": lambda known, heap, at: nk.discover(known, heap, out=at / "new", settings=piped(at / "s.toml")),
    "network": lambda known, heap, at: nk.discover(known, heap, out=at / "new", network=str(piped(at / "n.onnx"))),
    "arrays": lambda known, heap, at: nk.discover(known, piped(at / "h.npz"), out=at / "new"),
    "list": lambda known, heap, at: nk.discover(known, piped(at / "h.csv"), out=at / "new"),
    "truth": lambda known, heap, at: nk.evaluate(at / "run", piped(at / "t.csv")),
    "names": lambda known, heap, at: nk.export(at / "run", "csv", at / "e.csv", names=piped(at / "n.json")),
    "table": lambda known, heap, at: nk.journal(at / "run", take=piped(at / "j.csv")),
    "Label Studio": lambda known, heap, at: nk.journal(at / "run", take=piped(at / "j.json")),
    "run.json": lambda known, heap, at: discover((known, heap), piped(at / "run" / "run.json").parent),
    "settings.toml": lambda known, heap, at: nk.predict(piped(at / "run" / "settings.toml").parent, heap),
    "model": lambda known, heap, at: nk.predict(piped(at / "run/model/weights.safetensors").parents[1], heap),
    "journal": lambda known, heap, at: nk.journal(piped(at / "run" / "journal.jsonl").parent),
    "lock": lambda known, heap, at: nk.report(piped(at / "run" / ".lock").parent),
    "compare.json": lambda known, heap, at: nk.compare(known, heap, out=piped(at / "c" / "compare.json").parent),
}


@pytest.mark.promise(PIPES)
@pytest.mark.parametrize("what", WHERE)
def test_pipes_are_refused(what: str, run: Path, tmp_path: Path) -> None:
    known, heap = write_embeddings(tmp_path)
    shutil.copytree(run, tmp_path / "run")
    with at_once(), pytest.raises(NewkindsError) as caught:
        WHERE[what](known, heap, tmp_path)
    assert caught.value.hint


@pytest.mark.promise(PIPES)
def test_pipes_among_pictures_are_left_out(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    piped(tmp_path / "b.png")
    (tmp_path / "c.png").symlink_to("/dev/zero")
    with at_once():
        found = scan(tmp_path)
    assert [one.name for one in found.found] == ["a.png"]
    for name in ("b.png", "c.png"):
        with at_once(), pytest.raises(ImageError, match="a pipe or a device"):
            read_file(tmp_path / name)


# Options that mean nothing

OPTIONS = "An option that means nothing where it is given is refused, and not left out without a word"


@pytest.mark.promise(OPTIONS)
@pytest.mark.parametrize("options", [{"images": "unsorted.npz"}, {"network": "vgg6-4-2-slim"}, {"link": True}])
def test_options_of_an_export_that_has_no_use_for_them(options: dict[str, Any], run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="n export to 'csv'"):
        nk.export(run, "csv", tmp_path / "a.csv", **options)


@pytest.mark.promise(OPTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"variant": "te", "method": "kmeans"},
        {"estimator": "paper", "kinds": 3},
        {"choose": "auto", "rehearsals": 0},
    ],
)
def test_options_of_a_discovery_that_have_no_say(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--variant|--estimator|--choose"):
        nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.promise(OPTIONS)
@pytest.mark.parametrize("options", [{"times": 3}, {"confirm": True}])
def test_options_of_a_journal_that_have_no_say(options: dict[str, Any], run: Path) -> None:
    with pytest.raises(UsageError):
        nk.journal(run, **options)


@pytest.mark.promise(ARGUMENTS)
def test_more_is_undone_than_was_said(run: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(run, tmp_path / "run"))
    nk.journal(path, say={"do": "name", "kind": "new:0", "name": "star"})
    with at_once(), pytest.raises(NewkindsError, match="nothing to undo"):
        nk.journal(path, undo=True, times=10**9)
    assert len(nk.journal(path).lines) == 1


@pytest.mark.promise(TAMPERED)
@pytest.mark.parametrize("name", ["references", "kinds", "centre", "scale", "coefficients", "levels"])
@pytest.mark.parametrize("how", ["cut", "missing", "nan", "a matrix more"])
def test_what_a_model_keeps_of_its_kinds(name: str, how: str, run: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(run, tmp_path / "run"))
    file = path / "model/weights.safetensors"
    tensors, about = from_bytes(file.read_bytes(), "here")
    key = f"extra.unlike.{name}"
    old = tensors.pop(key)
    if how != "missing":
        wrong = {"cut": old[:-1], "nan": old.float() * torch.nan, "a matrix more": old[None]}[how]
        tensors[key] = wrong.contiguous()
    if (name, how) in (("references", "cut"), ("references", "missing")):
        tensors["extra.unlike.references"] = old[:0]
    data = to_bytes(tensors, about)
    told = unsealed((path / "run.json").read_bytes())
    told["outputs"]["model/weights.safetensors"] = digest(data)
    file.write_bytes(data)
    (path / "run.json").write_bytes(sealed(told))
    with pytest.raises((DataError, RunError)):
        nk.predict(path, np.ones((2, 8), np.float32), progress=QUIET)
