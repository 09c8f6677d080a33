"""A finished comparison that is asked for something else, or of which a file is damaged: never the old table."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import QUIET, WAYS, harm, outcome
from tallies import Tally

import newkinds as nk
from newkinds.errors import NewkindsError, RunError, UsageError
from newkinds.runs import RunFolder
from newkinds.runs.lock import FolderLock
from pictures import write_embeddings

PROMISE = "A damaged file of a comparison is noticed: the same table again, or refused"
FEW, MANY, DRAWS = 3, 25, 8
FAST = {"kinds": 3, "discover": {"warmup_epochs": 1, "epochs": 2}}
METHODS = ["kmeans", "dtc"]


def compare(sets: tuple[Path, Path], out: Path, **options: Any) -> nk.Comparison:
    given = {"methods": METHODS, "seeds": 2, "truth": "folders", "settings": FAST, "progress": QUIET, **options}
    return nk.compare(*sets, out=out, **given)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def made(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compare(sets, tmp_path_factory.mktemp("compared") / "run").path


@pytest.fixture(scope="module")
def other(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a comparison like it, with other settings."""
    settings = {**FAST, "discover": {"warmup_epochs": 1, "epochs": 1}}
    return compare(sets, tmp_path_factory.mktemp("other") / "run", settings=settings).path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def row(found: nk.Comparison) -> dict[str, Any]:
    """Return the scores of a comparison: times differ from one run to the next."""
    return {one["method"]: (one["acc"], one["acc_std"], one["nmi_geometric"], one["kinds"]) for one in found.methods}


# Something else is asked for


def test_another_truth_is_scored_again(copy: Path, sets: tuple[Path, Path], tmp_path: Path) -> None:
    before = json.loads((copy / "table.json").read_text())["methods"][0]["acc"]
    kinds = np.load(sets[1])["labels"]
    truth = tmp_path / "truth.csv"
    names = RunFolder.open(copy / "kmeans-0").get("kinds.csv").decode().splitlines()[1:]
    rows = [f"{line.split(',')[0]},{kind % 2}" for line, kind in zip(names, kinds, strict=True)]
    truth.write_text("\n".join(["path,kind", *rows]))
    found = compare(sets, copy, truth=truth)
    assert found.methods[0]["acc"] < before
    assert found.methods[0]["acc_std"] is not None
    fresh = compare(sets, tmp_path / "fresh", truth=truth)
    assert row(found) == row(fresh)


def test_a_missing_score_is_made_again(copy: Path, sets: tuple[Path, Path], made: Path) -> None:
    (copy / "dtc-1" / "scores.json").unlink()
    found = compare(sets, copy)
    assert (copy / "dtc-1" / "scores.json").read_bytes() == (made / "dtc-1" / "scores.json").read_bytes()
    assert all(one["acc_std"] is not None for one in found.methods)


def test_a_mean_is_over_all_seeds_or_none(copy: Path, sets: tuple[Path, Path]) -> None:
    found = compare(sets, copy, seeds=3, truth=None)  # the third is not scored
    assert [one["acc"] for one in found.methods] == [None, None]
    assert [one["acc_std"] is None for one in compare(sets, copy, truth=None).methods] == [False, False]


def test_other_pictures_are_refused(copy: Path, sets: tuple[Path, Path], tmp_path: Path) -> None:
    held = dict(np.load(sets[1]))
    held["embeddings"][0] += 1
    np.savez(tmp_path / "unsorted.npz", **held)
    with pytest.raises(UsageError, match=r"data\.unsorted\.fingerprint"):
        compare((sets[0], tmp_path / "unsorted.npz"), copy)


def test_other_weights_are_refused(copy: Path, sets: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a comparison with other weights"):
        compare(sets, copy, weights=copy / "f" / "network.safetensors")


def test_what_was_refused_at_once_binds_nobody(sets: tuple[Path, Path], made: Path, tmp_path: Path) -> None:
    with pytest.raises(NewkindsError, match="is not a safetensors file"):
        compare(sets, tmp_path / "run", methods=["kmeans"], weights=__file__)
    found = row(compare(sets, tmp_path / "run", methods=["kmeans"]))
    assert found["kmeans"] == row(compare(sets, made))["kmeans"]


def test_two_comparisons_in_one_folder(copy: Path, sets: tuple[Path, Path]) -> None:
    held = FolderLock(copy)
    with pytest.raises(RunError, match="Another process"):
        compare(sets, copy)
    held.release()


def test_nothing_is_written_through_links(sets: tuple[Path, Path], copy: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(copy / "dtc-1")
    (copy / "dtc-1").symlink_to(elsewhere)
    with pytest.raises(RunError, match="through links"):
        compare(sets, copy)
    assert not list(elsewhere.iterdir())


# Damage


def check(
    copy: Path,
    sets: tuple[Path, Path],
    made: Path,
    name: str,
    way: str,
    dice: random.Random,
    other: Path | None = None,
) -> str:
    """Damage one file of a comparison and make it again; the table is the same, or it is refused."""
    harm(copy, name, way, other or made, dice)
    found = outcome(lambda: compare(sets, copy))
    if found is NewkindsError:
        return "refused"
    expected = json.loads((made / "table.json").read_text())
    assert row(found) == {
        one["method"]: (one["acc"], one["acc_std"], one["nmi_geometric"], one["kinds"]) for one in expected["methods"]
    }, f"{name} was {way}"
    assert json.loads((copy / "table.json").read_text())["agreement"] == expected["agreement"]
    for folder in set(made.iterdir()) - {
        made / "report"
    }:  # the runs themselves are as they were, but for what they cost
        for file in folder.glob("*"):
            if file.is_file() and file.name not in ("cost.json", "run.json", ".lock"):
                assert (copy / folder.name / file.name).read_bytes() == file.read_bytes(), f"{file} after {name}, {way}"
    return "repaired"


@pytest.mark.parametrize("way", ["changed", "emptied", "deleted"])
@pytest.mark.parametrize("name", ["compare.json", "dtc-1/cost.json", "f/cost.json", "report/index.html"])
def test_what_belongs_to_the_comparison(name: str, way: str, copy: Path, sets: tuple[Path, Path], made: Path) -> None:
    assert check(copy, sets, made, name, way, random.Random(0)) == "repaired"


def test_a_log_with_more_than_was_written(copy: Path, sets: tuple[Path, Path], made: Path) -> None:
    assert check(copy, sets, made, "dtc-1/log.jsonl", "lengthened", random.Random(0)) == "repaired"


def drawn(
    number: int,
    seed: int,
    sets: tuple[Path, Path],
    made: Path,
    folder: Path,
    tally: Tally,
    other: Path | None = None,
) -> None:
    """Damage so many files, and count what was repaired and refused. other: a comparison, for files to be swapped."""
    dice, ways = random.Random(seed), [way for way in WAYS if way != "swapped" or other is not None]
    files = sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file() and path.name != ".lock")
    for one in range(number):
        copy = Path(shutil.copytree(made, folder / str(one) / "run"))
        tally.add(check(copy, sets, made, dice.choice(files), dice.choice(ways), dice, other))
        shutil.rmtree(copy.parent)


@pytest.mark.promise(PROMISE)
def test_a_few_random_damages(sets: tuple[Path, Path], made: Path, tmp_path: Path, tally: Tally) -> None:
    drawn(FEW, 0, sets, made, tmp_path, tally)
    assert tally.outcomes["repaired"] >= FEW // 2


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, DRAWS + 1))
def test_many_random_damages(
    seed: int, sets: tuple[Path, Path], made: Path, other: Path, tmp_path: Path, tally: Tally
) -> None:
    drawn(MANY, seed, sets, made, tmp_path, tally, other)
    assert tally.outcomes["repaired"] >= MANY * 3 // 4
