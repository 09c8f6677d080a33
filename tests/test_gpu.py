"""The digits on a GPU: discovery comes to what it comes to on the CPU, and so does `predict`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newkinds import api
from newkinds.discovery import Discovery
from second_device import running_on

pytestmark = pytest.mark.gpu

CLOSE = 0.05  # ACC: sums in another order, and TF32, make another training of the same seed


def digits(device: str, out: Path, precision: str = "float32") -> Discovery:
    """Return what is discovered of the digits on a device; the network is the CPU's, also where a wider one fits."""
    settings = {"network": "vgg6-4-2-slim", "precision": precision}
    with running_on(device):
        return api.discover("digits:known", "digits:unsorted", out=out, kinds=5, truth="folders", settings=settings)


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Discovery:
    return digits("cpu", tmp_path_factory.mktemp("cpu") / "run")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_digits(precision: str, on_cpu: Discovery, tmp_path: Path) -> None:
    found = digits("cuda", tmp_path / "run", precision)
    assert found.scores is not None
    assert on_cpu.scores is not None
    assert found.scores.acc == pytest.approx(on_cpu.scores.acc, abs=CLOSE)


def test_predict(on_cpu: Discovery) -> None:
    with running_on("cpu"):
        expected = on_cpu.predict("digits:known").probabilities
    with running_on("cuda"):
        found = on_cpu.predict("digits:known").probabilities
    np.testing.assert_allclose(found, expected, atol=0.02)
