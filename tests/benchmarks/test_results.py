"""Result files: the same bytes in any order, whole after a kill, complete when several processes write."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from newkinds.errors import DataError
from newkinds_bench.house import AGAIN, RESULTS
from newkinds_bench.results import Results, _text
from newkinds_bench.setups import SETUPS

F = {"network": "vgg", "epochs": 3}


def result(number: int, **more: Any) -> dict[str, Any]:
    return {"data": "svhn:unlabelled", "seed": number, "machine": {"cores": 2}, "f": F, "acc": number / 8, **more}


def test_what_is_put_is_read_again(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    assert results.of("svhn") == results.all() == {}
    results.put("svhn", "b", result(1, note="zwölf\u2028Zeilen\n"))
    results.put("cifar10", "a", result(0))
    assert results.of("svhn") == {"b": result(1, note="zwölf\u2028Zeilen\n")}
    assert list(results.all().items()) == [
        ("a", {**result(0), "setup": "cifar10"}),
        ("b", {**result(1, note="zwölf\u2028Zeilen\n"), "setup": "svhn"}),
    ]
    results.put("svhn", "b", result(2))
    assert results.of("svhn") == {"b": result(2)}


def test_a_file_is_the_same_in_whatever_order_it_was_written(tmp_path: Path) -> None:
    several = [(f"run-{number}", result(number, f={"epochs": number % 2})) for number in range(6)]
    texts = set()
    for seed in range(3):
        folder = tmp_path / str(seed)
        for name, one in random.Random(seed).sample(several, len(several)):
            Results(folder).put("svhn", name, one)
        texts.add((folder / "svhn.jsonl").read_text())
    (text,) = texts
    lines = [json.loads(line) for line in text.splitlines()]
    assert [next(iter(line)) for line in lines] == ["shared"] * 3 + ["name"] * 6  # a machine and two f, once each
    assert [line["name"] for line in lines[3:]] == [name for name, _ in several]
    assert " " not in text


def test_what_no_run_shares_any_longer_goes(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.put("svhn", "a", result(0, f={"epochs": 1}))
    results.put("svhn", "a", result(0, f={"epochs": 2}))
    assert '{"epochs":1}' not in (tmp_path / "svhn.jsonl").read_text()


def write(folder: Path, name: str) -> None:
    for number in range(20):
        Results(folder).put("svhn", f"{name}-{number}", {"seed": number, "f": {"by": name}})


def killed_while_writing(folder: Path) -> None:
    os.replace = lambda *names, **folders: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    write(folder, "killed")


def started(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = get_context("fork").Process(target=target, args=arguments)
    process.start()
    return process


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    processes = [started(write, tmp_path, name) for name in ("one", "two")]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    found = Results(tmp_path).of("svhn")
    assert len(found) == 40
    assert all(result["f"]["by"] == name.partition("-")[0] for name, result in found.items())
    assert (tmp_path / "svhn.jsonl").read_text() == _text(found)


def test_a_writer_that_is_killed_leaves_the_file_and_no_lock(tmp_path: Path) -> None:
    Results(tmp_path).put("svhn", "before", result(0))
    text = (tmp_path / "svhn.jsonl").read_text()
    process = started(killed_while_writing, tmp_path)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / "svhn.jsonl").read_text() == text
    assert list(Results(tmp_path).all()) == ["before"]
    Results(tmp_path).put("svhn", "after", result(1))
    assert sorted(Results(tmp_path).all()) == ["after", "before"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"name":"b","acc":', "is no result"),
        ('["name"]', "is no result"),
        ('{"acc":1}', "is no result"),
        ('{"name":"b","f":"f-00000000"}', "f-00000000"),
        ('{"name":"a"}', "second result called a"),
    ],
)
def test_a_broken_line_is_told_by_its_number(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "svhn.jsonl"
    file.write_text(f'{{"name":"a"}}\n{line}\n')
    for call in (Results(tmp_path).all, lambda: Results(tmp_path).put("svhn", "c", {})):
        with pytest.raises(DataError, match=words) as caught:
            call()
        assert f"Line 2 of {file}" in caught.value.message
    assert file.read_text() == f'{{"name":"a"}}\n{line}\n'


@pytest.mark.parametrize("folder", [RESULTS, RESULTS / AGAIN], ids=lambda folder: folder.name)
def test_the_committed_files_are_as_they_would_be_written(folder: Path) -> None:
    files = sorted(folder.glob("*.jsonl"))
    assert {file.stem for file in files} <= SETUPS.keys()
    for file in files:
        assert file.read_text() == _text(Results(folder).of(file.stem))
