"""The command line: what it prints, what it leaves, and how it fails."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from newkinds import cli
from newkinds.methods.registry import METHODS
from newkinds.networks import FOREIGN, NETWORKS
from pictures import KNOWN, UNSORTED, write_embeddings, write_pictures

QUICK = ["--set", "pretrain.epochs=25", "--set", "discover.epochs=6", "--set", "discover.warmup_epochs=4"]
QUICK += ["--set", "count.max_kinds=6", "--set", "count.restarts=2", "--set", "rehearse.rehearsals=1"]


class Outcome:
    """What a command printed and left with."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def last_line(self) -> str:
        return self.err.strip().splitlines()[-1]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Outcome]]:
    """Run a command in this process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["newkinds", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def finished(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run folder, made by the installed command, with the number of kinds estimated."""
    folder = tmp_path_factory.mktemp("runs") / "shop"
    command = [sys.executable, "-m", "newkinds", "discover", photos / "known", photos / "unsorted"]
    done = subprocess.run(
        [*map(str, command), "--out", str(folder), "--truth", "folders", *QUICK], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "48 pictures in 3 new kinds" in done.stdout
    assert str(folder / "report" / "index.html") in done.stdout
    assert "New kinds: 3" in done.stderr
    return folder


def test_a_run_leaves_what_is_promised(finished: Path) -> None:
    left = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert left >= {
        "settings.toml", "log.jsonl", "network.safetensors", "features/unsorted.npy", "count.json", "kinds.csv",
        "model/weights.safetensors", "report/index.html", "scores.json", "run.json",
    }  # fmt: skip
    rows = list(csv.DictReader((finished / "kinds.csv").open()))
    assert list(rows[0]) == ["path", "kind", "probability", "runner_up"]
    assert [row["path"] for row in rows] == sorted(f"{k}/{n:02d}.png" for k in UNSORTED for n in range(16))
    assert {row["kind"] for row in rows} == {"new:0", "new:1", "new:2"}
    assert all(row["kind"] != row["runner_up"] and 1 / 3 < float(row["probability"]) <= 1 for row in rows)
    assert json.loads((finished / "scores.json").read_text())["discovered"]["acc"] > 0.85


def test_the_same_line_again_does_nothing_new(finished: Path, photos: Path, run: Callable[..., Outcome]) -> None:
    before = (finished / "kinds.csv").stat().st_mtime_ns
    again = run("discover", photos / "known", photos / "unsorted", "--out", finished, "--truth", "folders", *QUICK)
    assert again.code == 0
    assert "48 pictures in 3 new kinds" in again.out
    assert (finished / "kinds.csv").stat().st_mtime_ns == before


def test_predict_finds_new_and_known_kinds(finished: Path, photos: Path, run: Callable[..., Outcome]) -> None:
    rows = list(csv.DictReader(run("predict", finished, photos / "today", "-q").out.splitlines()))
    assert [row["kind"] for row in rows if row["path"].startswith("bolt")] == ["known:bolt"] * 3
    found = {row["path"]: row["kind"] for row in csv.DictReader((finished / "kinds.csv").open())}
    assert [row["kind"] for row in rows if row["path"].startswith("hinge")] == [found["hinge/00.png"]] * 3


def test_predict_among_known_kinds_to_a_file(
    finished: Path, photos: Path, run: Callable[..., Outcome], tmp_path: Path
) -> None:
    table = tmp_path / "today.csv"
    assert run("predict", finished, photos / "today", "--among", "known", "--to", table).code == 0
    kinds = {row["kind"] for row in csv.DictReader(table.open())}
    assert kinds <= {f"known:{kind}" for kind in KNOWN}


def test_evaluate_from_a_csv_gives_the_same_scores_as_from_folders(
    finished: Path, run: Callable[..., Outcome], tmp_path: Path
) -> None:
    truth = tmp_path / "truth.csv"
    names = [row["path"] for row in csv.DictReader((finished / "kinds.csv").open())]
    truth.write_text("path,kind\n" + "".join(f"{name},{name.split('/')[0]}\n" for name in names))
    by_csv, by_folders = (run("evaluate", finished, "--truth", t, "-q").out for t in (truth, "folders"))
    assert by_csv == by_folders
    assert "ARI" in by_csv


def test_report_makes_the_same_page_again(finished: Path, run: Callable[..., Outcome]) -> None:
    page = finished / "report" / "index.html"
    before = page.read_bytes()
    page.unlink()
    assert run("report", finished, "-q").code == 0
    assert page.read_bytes() == before


def test_the_estimator_can_be_named(photos: Path, run: Callable[..., Outcome], tmp_path: Path) -> None:
    arguments = [photos / "known", photos / "unsorted", "--out", tmp_path / "run", *QUICK]
    refused = run("count", *arguments, "--estimator", "guess")
    assert refused.code == 2
    assert "count.estimator" in refused.err
    assert run("count", *arguments, "--estimator", "labelled").code == 0
    assert json.loads((tmp_path / "run" / "count.json").read_text())["estimator"] == "labelled"


def test_count_alone_then_discover_in_the_same_folder(
    photos: Path, run: Callable[..., Outcome], tmp_path: Path
) -> None:
    arguments = [photos / "known", photos / "unsorted", "--out", tmp_path / "run", *QUICK]
    counted = run("count", *arguments)
    assert counted.code == 0
    assert counted.out.startswith("New kinds: 3, ")
    assert "with other known kinds as the probes" in counted.out
    assert (tmp_path / "run" / "count.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "run" / "kinds.csv").exists()
    assert run("discover", *arguments).code == 0
    assert (tmp_path / "run" / "kinds.csv").exists()


def test_scan_lists_what_is_there_and_what_is_broken(run: Callable[..., Outcome], tmp_path: Path) -> None:
    write_pictures(tmp_path, ("bolt", "nut"), each=3)
    (tmp_path / "nut" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    (tmp_path / "nut" / "notes.txt").write_text("not a picture")
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    scanned = run("scan", tmp_path, "-q")
    assert scanned.code == 0
    assert "6 pictures in 2 folders, 2 files skipped" in scanned.out
    assert "nut/broken.jpg: " in scanned.out
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_methods_are_listed_with_a_line_each(run: Callable[..., Outcome]) -> None:
    lines = run("methods").out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    for line, method in zip(lines, METHODS.values(), strict=True):
        assert line.rstrip().endswith(method.line)


def test_networks_and_settings_are_listed(run: Callable[..., Outcome], tmp_path: Path, photos: Path) -> None:
    assert all(name in run("networks").out for name in [*NETWORKS, *FOREIGN])
    (tmp_path / "my.toml").write_text(run("settings").out)
    refused = run(
        "count", photos / "known", tmp_path / "missing", "--out", tmp_path / "r", "--settings", tmp_path / "my.toml"
    )
    assert refused.code == 1  # the settings were fine, the folder is not


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "scan",
        "discover",
        "compare",
        "pretrain",
        "count",
        "predict",
        "evaluate",
        "report",
        "methods",
        "networks",
    ],
)
def test_help_shows_an_example(command: str, run: Callable[..., Outcome]) -> None:
    shown = run(command, "--help")
    assert shown.code == 0
    assert f"Example: newkinds {command}" in shown.out


def test_version_and_help_load_nothing_heavy() -> None:
    program = """
import sys
from contextlib import suppress
from typer.main import get_command
from newkinds import cli
for line in ("--version", "--help", *(f"{name} --help" for name in get_command(cli.app).commands)):
    sys.argv = ["newkinds", *line.split()]
    with suppress(SystemExit):
        cli.main()
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & set(sys.stdin.read().split())))
"""
    heavy = "torch numpy scipy sklearn pydantic matplotlib PIL accelerate joblib jinja2 openTSNE safetensors"
    done = subprocess.run([sys.executable, "-c", program], input=heavy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("newkinds ")
    assert "Example: newkinds presets" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_results_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    line = "photos/:cat:/[bold]" + "x" * 200
    cli.out.print(line, markup=False)
    assert capsys.readouterr().out == line + "\n"


# How it fails: value, limit and way out; 1 for bad data, 2 for bad words; nothing half-written.


def refused(outcome: Outcome, code: int, *words: str) -> None:
    assert outcome.code == code, outcome.err
    assert any(line.startswith(("Error: ", "Usage: ")) for line in outcome.err.splitlines())
    for word in words:
        assert word in outcome.err, outcome.err
    assert "Traceback" not in outcome.err


def test_bad_folders_are_refused(run: Callable[..., Outcome], photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    empty, one, single, junk = (tmp_path / name for name in ("empty", "one", "single", "junk"))
    empty.mkdir()
    write_pictures(one, ("bolt",))
    write_pictures(single, KNOWN[:2])
    write_pictures(single, KNOWN[2:3], each=1)
    (junk / "bolt").mkdir(parents=True)
    (junk / "bolt" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nno")

    def discover(known: Path, unsorted: Path = photos / "unsorted") -> Outcome:
        return run("discover", known, unsorted, "--out", out)

    refused(discover(tmp_path / "missing"), 1, str(tmp_path / "missing"))
    refused(discover(empty), 1, str(empty))
    refused(discover(one), 1, "1 class", "at least 2")
    for method in METHODS:
        refused(run("discover", one, photos / "unsorted", "--out", out, "--method", method), 1, "1 class", "at least 2")
    refused(discover(single), 1, "nut (1)", "at least 2")
    refused(discover(junk), 1, "newkinds scan")
    refused(discover(photos / "known", empty), 1, str(empty))
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--kinds", "49"], 2, ["49", "48"]),
        (["--kinds", "0"], 2, ["0", "2"]),
        (["--kinds", "1"], 2, ["1", "2"]),
        (["--kinds", "many"], 2, ["many", "auto"]),
        (["--network", "vgg7"], 2, ["vgg7", "vgg6-4-2", "resnet18-slim"]),
        (["--variant", "omega"], 2, ["omega", "baseline", "pi"]),
        (["--method", "k-means"], 2, ["k-means", *METHODS]),
        (["--method", "lsc", "--kinds", "1"], 2, ["1", "2"]),
        (["--method", "lsc", "--kinds", "49"], 2, ["49", "48"]),
        (["--set", "discover.epoch=3"], 2, ["discover.epoch", "did you mean discover.epochs"]),
        (["--set", "discover.epochs=three"], 2, ["discover.epochs", "three"]),
        (["--set", "discover.epochs"], 2, ["="]),
        (["--settings", "missing.toml"], 2, ["missing.toml"]),
        (["--truth", "missing.csv"], 2, ["missing.csv", "folders"]),
        (["--weights", "missing.safetensors"], 1, ["missing.safetensors"]),
        (["--seed", "-1"], 2, ["-1"]),
    ],
)
def test_bad_options_are_refused(
    options: list[str], code: int, words: list[str], run: Callable[..., Outcome], photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    refused(run("discover", photos / "known", photos / "unsorted", "--out", out, *options), code, *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "kmeans,lcs"], ["'lcs'", "Did you mean 'lsc'?", *METHODS]),
        (["--methods", "kmeans,kmeans"], ["kmeans, kmeans", "newkinds methods"]),
        (["--kinds", "1"], ["1", "2"]),
        (["--kinds", "many"], ["many", "auto"]),
        (["--seeds", "0"], ["0", "at least 1"]),
        (["--jobs", "0"], ["0", "at least 1"]),
        (["--backend", "slurm"], ["slurm", "loky", "threading", "dask", "ray"]),
    ],
)
def test_bad_options_of_compare_are_refused(
    options: list[str], words: list[str], run: Callable[..., Outcome], photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    refused(run("compare", photos / "known", photos / "unsorted", "--out", out, *options), 2, *words)
    assert not out.exists()


def test_embeddings_below_0_are_refused_where_none_may_be(run: Callable[..., Outcome], tmp_path: Path) -> None:
    known, unsorted = write_embeddings(tmp_path)
    given = np.load(unsorted)
    np.savez(tmp_path / "centred.npz", embeddings=given["embeddings"] - 3, labels=given["labels"])
    arguments = [known, tmp_path / "centred.npz", "--kinds", "3", "--out"]
    refused(run("discover", *arguments, tmp_path / "run", "--method", "lpnmf"), 1, "-3", "lpnmf", "lsc or kmeans")
    # Of a comparison, what is done is kept: the same line without it ends at once.
    methods = ["--seeds", "1", "--methods"]
    refused(run("compare", *arguments, tmp_path / "all", *methods, "kmeans,lpnmf"), 1, "-3", "lpnmf", "lsc or kmeans")
    done = (tmp_path / "all" / "kmeans-0" / "kinds.csv").stat().st_mtime_ns
    assert run("compare", *arguments, tmp_path / "all", *methods, "kmeans").code == 0
    assert (tmp_path / "all" / "kmeans-0" / "kinds.csv").stat().st_mtime_ns == done


def test_weights_that_are_no_safetensors_are_refused(run: Callable[..., Outcome], photos: Path, tmp_path: Path) -> None:
    weights = tmp_path / "network.pt"
    np.save(weights.open("wb"), np.zeros(3))
    outcome = run("discover", photos / "known", photos / "unsorted", "--out", tmp_path / "run", "--weights", weights)
    refused(outcome, 1, "network.pt", "safetensors")
    assert not (tmp_path / "run").exists()


def test_an_output_that_cannot_be_written_is_refused(run: Callable[..., Outcome], photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    outcome = run("discover", photos / "known", photos / "unsorted", "--out", tmp_path / "file" / "run")
    refused(outcome, 1, str(tmp_path / "file"), "--out")


def test_a_folder_of_another_run_is_refused_with_the_differing_keys(
    finished: Path, photos: Path, run: Callable[..., Outcome], tmp_path: Path
) -> None:
    arguments = [photos / "known", photos / "unsorted", "--out", finished, *QUICK]
    refused(run("discover", *arguments, "--seed", "3", "--variant", "baseline"), 2, "seed (0 there, 3 now)", "variant")
    write_pictures(tmp_path / "other", UNSORTED, each=4)
    refused(run("discover", photos / "known", tmp_path / "other", *arguments[2:]), 2, "data.unsorted.fingerprint")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    refused(run("discover", *arguments[:2], "--out", tmp_path / "mine"), 1, "not a run folder")
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


def test_values_that_are_not_finite_stop_the_run_before_a_checkpoint(
    run: Callable[..., Outcome], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWKINDS_CHECKPOINT_SECONDS", "0")
    arguments = [photos / "known", photos / "unsorted", "--out", tmp_path / "run", *QUICK]
    outcome = run("discover", *arguments, "--set", "pretrain.learning_rate=1e12")
    refused(outcome, 1, "pretrain.learning_rate", ".png")
    assert not list((tmp_path / "run" / "checkpoint").iterdir())
    assert not (tmp_path / "run" / "network.safetensors").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_stops_the_run_and_says_how_to_continue(number: signal.Signals, photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "newkinds", "discover", str(photos / "known"), str(photos / "unsorted")]
    command += ["--out", str(tmp_path / "run"), "--set", "pretrain.epochs=5000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert printed.strip().splitlines()[-1] == f"newkinds {' '.join(command[3:])}"


def test_a_signal_during_the_imports_needs_no_traceback(tmp_path: Path) -> None:
    # Instead of torch, a module that takes long and says when it has begun.
    (tmp_path / "torch.py").write_text("import sys, time\nsys.stderr.write('begun\\n')\ntime.sleep(100)\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "newkinds", "methods"],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in printed
    assert printed.splitlines()[-1] == "newkinds methods"
