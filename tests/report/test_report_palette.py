"""Colours: apart for every eye, and visible on either page. Measured, not believed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from newkinds.report.palette import DARK, LIGHT, mark

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colours: tuple[str, ...]) -> np.ndarray:
    srgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(np.clip(rgb, 0, 1) @ lms.T) @ lab.T


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_are_apart(colours: tuple[str, ...], eye: str) -> None:
    seen = oklab(linear(colours) @ np.array(EYES[eye]).T)
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.09


@pytest.mark.parametrize(("colours", "panel", "least"), [(LIGHT, "#ffffff", 2.3), (DARK, "#1a1d21", 3.0)])
def test_colours_are_seen(colours: tuple[str, ...], panel: str, least: float) -> None:
    luminance = linear((*colours, panel)) @ [0.2126, 0.7152, 0.0722] + 0.05
    contrast = np.maximum(luminance[:-1], luminance[-1]) / np.minimum(luminance[:-1], luminance[-1])
    assert contrast.min() > least


def test_a_hundred_kinds_differ() -> None:
    assert len({mark(kind) for kind in range(112)}) == 112
    assert mark(112) == mark(0)
