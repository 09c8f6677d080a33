"""Small pictures that every stage can be run on in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pictures import KNOWN, UNSORTED, write_pictures


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos/known, photos/unsorted and photos/today, to be read only."""
    root = tmp_path_factory.mktemp("shop")
    write_pictures(root / "photos" / "known", KNOWN)
    write_pictures(root / "photos" / "unsorted", UNSORTED)
    write_pictures(root / "photos" / "today", (KNOWN[0], UNSORTED[0]), each=3, seed=1)
    return root / "photos"
