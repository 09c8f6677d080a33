"""A run's own pictures, opened again: the same names are not enough."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.errors import RunError
from newkinds.images.decode import encode

QUIET = nk.Progress("silent")
QUICK: dict[str, Any] = {
    "network": "pixels",
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1},
}


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a run and the folder of its unsorted pictures."""
    root = tmp_path_factory.mktemp("made")
    heap = Path(shutil.copytree(photos / "unsorted", root / "heap"))
    options: dict[str, Any] = {"kinds": 3, "settings": QUICK, "page": False, "cache": False, "progress": QUIET}
    nk.discover(photos / "known", heap, out=root / "run", **options)
    return root / "run", heap


def asked(run: Path, out: Path, **options: Any) -> dict[str, Callable[[], Any]]:
    return {
        "report": lambda: nk.report(run, progress=QUIET, **options),
        "evaluate": lambda: nk.evaluate(run, "folders", progress=QUIET, **options),
        "figures": lambda: nk.figures(run, out=out / "figures", progress=QUIET, **options),
        "export": lambda: nk.export(run, "folders", out / "sorted", progress=QUIET, **options),
        "link": lambda: nk.export(run, "folders", out / "links", link=True, progress=QUIET, **options),
    }


@pytest.mark.parametrize("command", ["report", "evaluate", "figures", "export", "link"])
def test_a_picture_that_was_replaced_under_its_name_is_noticed(
    command: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    run, heap = made
    moved = Path(shutil.copytree(heap, tmp_path / "heap"))
    assert asked(run, tmp_path / "same", images=moved)[command]()  # elsewhere, and the same
    file = moved / "hinge" / "03.png"
    file.write_bytes(encode(np.zeros((3, 12, 12), dtype=np.uint8), "png"))
    for source in (moved, heap):
        kept = (heap / "hinge" / "03.png").read_bytes()
        try:
            (heap / "hinge" / "03.png").write_bytes(file.read_bytes())
            options = {} if source is heap else {"images": moved}
            with pytest.raises(RunError, match="the same names, and other pixels") as caught:
                asked(run, tmp_path / "other", **options)[command]()
            assert caught.value.hint
        finally:
            (heap / "hinge" / "03.png").write_bytes(kept)
    assert not (tmp_path / "other").exists() or not list((tmp_path / "other").iterdir())


def test_more_pictures_do_not_hinder_an_export(made: tuple[Path, Path], tmp_path: Path) -> None:
    run, heap = made
    more = Path(shutil.copytree(heap, tmp_path / "heap"))
    shutil.copyfile(more / "hinge" / "03.png", more / "hinge" / "99.png")
    out = nk.export(run, "folders", tmp_path / "sorted", images=more, progress=QUIET)
    assert len(list(out.rglob("*.png"))) == 48
    with pytest.raises(RunError, match=r"there are 1 others, such as 'hinge/99.png'"):
        nk.report(run, images=more, progress=QUIET)
    (more / "hinge" / "03.png").unlink()
    with pytest.raises(RunError, match=r"1 of 48 are missing, such as 'hinge/03.png'"):
        nk.report(run, images=more, progress=QUIET)


def test_an_array_of_other_pictures_is_noticed(photos: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 3, 12, 12), dtype=np.uint8)
    options: dict[str, Any] = {"kinds": 2, "settings": QUICK, "page": False, "cache": False, "progress": QUIET}
    nk.discover(photos / "known", pixels, out=tmp_path / "run", **options)
    nk.export(tmp_path / "run", "folders", tmp_path / "same", images=pixels, progress=QUIET)
    with pytest.raises(RunError, match="other pixels"):
        nk.export(tmp_path / "run", "folders", tmp_path / "other", images=255 - pixels, progress=QUIET)
