"""The demo: what it prints and leaves, and that it can be run again."""

from __future__ import annotations

from pathlib import Path

import pytest

import newkinds as nk
from newkinds.cli.show import show_discovery
from newkinds.datasets.letters import PARTS, Part
from newkinds.errors import NewkindsError

QUICK = {
    "count": {"max_kinds": 6, "restarts": 1, "splits": 2},
    "pretrain": {"epochs": 1},
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, Part(part.letters[:20], 8, 10))


def test_the_demo_prints_scores_and_leaves_a_run_that_another_seed_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(out: Path, seed: int) -> str:
        show_discovery(nk.demo(out, seed=seed, settings=QUICK))
        printed = capsys.readouterr()
        assert all(line.startswith("Warning: ") for line in printed.err.splitlines())  # nobody watches
        return printed.out

    out = tmp_path / "demo"
    shown = show(out, 0)
    assert "k-means on" in shown  # a narrow terminal breaks the line
    assert "discovered" in shown
    assert str(out / "report" / "index.html") in shown
    first = (out / "kinds.csv").read_bytes()
    assert b"georgian/ban-00" in first
    assert (out / "count.json").is_file()
    assert show(out, 0) == shown
    assert (out / "kinds.csv").read_bytes() == first
    show(out, 1)
    assert (out / "kinds.csv").read_bytes() != first


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("precious")
    with pytest.raises(NewkindsError):
        nk.demo(tmp_path / "demo")
    assert (tmp_path / "demo" / "thesis.txt").read_text() == "precious"
