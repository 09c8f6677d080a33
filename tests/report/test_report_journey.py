"""How the run got there: points that move smoothly and end on the map, and pictures of P and Q."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_runs import snapshots
from PIL import Image

from newkinds.report.embedding_map import make_map
from newkinds.report.journey import MAX_FRAMES, Journey, make_journey, ramp


def follow(data: Any, **more: Any) -> Journey:
    layout = make_map(data.features, data.labels, 0)
    found = make_journey(data.snapshots, layout, data.labels, data.own_probability, 0, **more)
    assert found is not None
    return found


def test_points_move_smoothly_and_end_on_the_map(make_data: Any) -> None:
    data = make_data(150, 3)
    data = replace(data, snapshots=snapshots(data, (0, 7, 8)))
    layout = make_map(data.features, data.labels, 0)
    journey = follow(data)
    assert [frame.epoch for frame in journey.frames] == [0, 7, 8]
    start, middle, end = (frame.places for frame in journey.frames)
    away = np.linalg.norm(end - layout.places[journey.points], axis=1)
    assert np.median(away) < 0.1
    assert np.median(np.linalg.norm(middle - end, axis=1)) < 0.15
    assert ((start >= 0) & (start <= 1)).all()
    assert (journey.frames[-1].kinds == data.probabilities[journey.points].argmax(axis=1)).all()


def test_same_data_same_frames(make_data: Any) -> None:
    data = make_data(60, 3, with_snapshots=True)
    first, second = follow(data), follow(data)
    assert all(np.array_equal(a.places, b.places) for a, b in zip(first.frames, second.frames, strict=True))
    assert first.panels == second.panels


def test_only_some_points_move(make_data: Any) -> None:
    journey = follow(make_data(90, 3, with_snapshots=True), limit=30)
    assert len(journey.points) == 30
    assert all(frame.places.shape == (30, 2) for frame in journey.frames)


def test_moments_of_a_sample(make_data: Any) -> None:
    data = make_data(90, 3, with_snapshots=True)
    some = np.arange(0, 90, 3)
    part = [replace(m, items=some, embedding=m.embedding[some], p=m.p[some], q=m.q[some]) for m in data.snapshots]
    journey = follow(replace(data, snapshots=tuple(part)))
    assert (journey.points % 3 == 0).all()
    assert (journey.frames[-1].kinds == data.probabilities[journey.points].argmax(axis=1)).all()


def test_many_moments_are_thinned_and_broken_ones_left_out(make_data: Any) -> None:
    data = make_data(20, 2)
    many = snapshots(data, tuple(range(40)))
    journey = follow(replace(data, snapshots=many))
    assert len(journey.frames) == MAX_FRAMES
    assert (journey.frames[0].epoch, journey.frames[-1].epoch, journey.snapshots) == (0, 39, 40)
    broken = replace(many[1], embedding=np.full_like(many[1].embedding, np.nan))
    journey = follow(replace(data, snapshots=(many[0], broken, many[2])))
    assert [frame.epoch for frame in journey.frames] == [0, 2]


def test_without_moments_there_is_nothing_to_show(make_data: Any) -> None:
    data = make_data(20, 2)
    layout = make_map(data.features, data.labels, 0)
    assert make_journey((), layout, data.labels, data.own_probability, 0) is None


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_pictures(make_data: Any, n: int) -> None:
    journey = follow(make_data(n, 1, with_snapshots=True))
    assert all(np.isfinite(frame.places).all() for frame in journey.frames)


def test_heat_maps_have_a_pixel_a_number(make_data: Any) -> None:
    data = make_data(50, 4, with_snapshots=True)
    journey = follow(data)
    assert (journey.rows, journey.columns) == (50, 4)
    last = journey.panels[-1]
    order = np.lexsort((-data.own_probability, data.labels))
    for uri, values in ((last.p, data.snapshots[-1].p), (last.q, data.snapshots[-1].q)):
        raw = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
        pixels = np.asarray(Image.open(io.BytesIO(raw)).convert("RGB")).transpose(2, 0, 1)
        assert np.array_equal(pixels, ramp(np.sqrt(np.clip(values[order], 0, 1))))


def test_the_ramp_gets_brighter() -> None:
    colours = ramp(np.linspace(0, 1, 50)).astype(float)
    brightness = 0.2126 * colours[0] + 0.7152 * colours[1] + 0.0722 * colours[2]
    assert (np.diff(brightness) > 0).all()
