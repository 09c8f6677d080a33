"""Several methods side by side: one f, nothing done twice, a table that says what the runs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.compare import COST, compare
from newkinds.errors import NewkindsError, RunError, UsageError
from newkinds.evaluate import score
from newkinds.methods import METHODS
from newkinds.runs import RunFolder
from newkinds.settings import Settings
from pictures import write_embeddings

FAST = {"kinds": 3, "discover": {"warmup_epochs": 1, "epochs": 2}, "lsc": {"landmarks": 20}}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return embeddings of known kinds, and of three new ones."""
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def made(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> nk.Comparison:
    out = tmp_path_factory.mktemp("compared") / "run"
    return compare(*sets, out=out, methods=["kmeans", "lsc", "dtc"], seeds=2, truth="folders", settings=FAST)


def test_every_method_has_its_settings_and_a_line() -> None:
    assert set(METHODS) == set(Settings.model_fields["method"].annotation.__args__)  # type: ignore[union-attr]
    for method in METHODS.values():
        assert method.line
        assert all(section in Settings.model_fields for section in method.sections)


def test_the_table_says_what_the_runs_say(made: nk.Comparison, sets: tuple[Path, Path]) -> None:
    labels = np.load(sets[1])["labels"]
    assert [row["method"] for row in made.methods] == ["kmeans", "lsc", "dtc"]
    for row in made.methods:
        accs = []
        for seed in (0, 1):
            run = RunFolder.open(made.path / f"{row['method']}-{seed}")
            assert (run.settings.method, run.settings.seed) == (row["method"], seed)
            accs.append(score(run.get_array("features/probabilities.npy").argmax(axis=1), labels).acc)
            assert not (run.path / "report").exists()
        assert row["acc"] == pytest.approx(np.mean(accs))
        assert row["acc_std"] == pytest.approx(np.std(accs, ddof=1))
        assert row["acc"] > 0.9
        assert row["seconds"] > 0
    assert np.diag(made.agreement) == pytest.approx(1)
    assert np.array(made.agreement) == pytest.approx(np.array(made.agreement).T)
    assert made.table().decode().splitlines()[0].startswith("method,line,acc,acc_std,")
    assert json.loads((made.path / "table.json").read_text())["methods"] == list(made.methods)


def test_the_page_shows_them(made: nk.Comparison) -> None:
    page = made.page.read_text()
    assert "Methods side by side" in page
    for row in made.methods:
        assert f">{row['method']}</th>" in page
    assert page.count('class="heat ') == 9


def test_again_nothing_is_repeated_and_more_can_be_added(
    made: nk.Comparison, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    plain = nk.api.discover

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(options["out"])
        return plain(*arguments, **options)

    monkeypatch.setattr("newkinds.api.discover", counted)
    methods = ["kmeans", "lsc", "dtc"]
    again = compare(*sets, out=made.path, methods=methods, seeds=2, truth="folders", settings=FAST)
    assert not asked
    assert again == made
    more = compare(*sets, out=made.path, methods=["kmeans", "constrained-kmeans"], seeds=2, settings=FAST)
    assert [path.name for path in asked] == ["constrained-kmeans-0", "constrained-kmeans-1"]
    assert len(more.methods) == 2
    # A run that was killed has no cost yet: it goes on, and its time is not known.
    (made.path / "lsc-1" / COST).unlink()
    compare(*sets, out=made.path, methods=methods, seeds=2, truth="folders", settings=FAST)
    assert asked[-1].name == "lsc-1"
    assert json.loads((made.path / "lsc-1" / COST).read_text())["seconds"] is None


def test_side_by_side_gives_the_same(made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path) -> None:
    both = compare(*sets, out=tmp_path / "run", methods=["kmeans", "lsc"], seeds=1, settings=FAST, jobs=2)
    for row in both.methods:
        assert row["acc"] is None
        one, two = (RunFolder.open(path / f"{row['method']}-0").get("kinds.csv") for path in (made.path, both.path))
        assert one == two


def test_the_number_of_kinds_may_be_estimated(sets: tuple[Path, Path], tmp_path: Path) -> None:
    settings = {**FAST, "kinds": "auto", "count": {"max_kinds": 8, "splits": 2, "enough": 4}}
    found = compare(*sets, out=tmp_path / "run", methods=["kmeans"], seeds=1, settings=settings)
    assert found.methods[0]["kinds"] == json.loads((found.path / "f" / "count.json").read_text())["k"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["kmeans", "k-means"]}, "k-means"),
        ({"methods": ["kmeans", "kmeans"]}, "named once"),
        ({"methods": []}, "named once"),
        ({"seeds": 0}, "seeds=0"),
        ({"backend": "pigeons"}, "pigeons"),
    ],
)
def test_what_cannot_be_compared(options: dict[str, Any], words: str, sets: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        compare(*sets, out=tmp_path / "run", settings=FAST, **options)
    assert not (tmp_path / "run").exists()


def test_other_settings_or_a_folder_of_something_else(
    made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="other settings"):
        compare(*sets, out=made.path, methods=["kmeans"], seeds=1, settings={**FAST, "kinds": 4})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NewkindsError, match="not empty"):
        compare(*sets, out=tmp_path, methods=["kmeans"], seeds=1, settings=FAST)
