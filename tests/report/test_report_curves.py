"""Charts: round ticks, points where they belong, records of all sorts."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.report.curves import HEIGHT, WIDTH, Chart, Guide, Line, chart_json, frame, svg, ticks
from newkinds.report.history import count_charts, training_charts

finite = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 1, (0, 0.25, 0.5, 0.75, 1)),
        (0.03, 2.3, (0, 1, 2, 3)),
        (5, 5, (4.5, 4.75, 5, 5.25, 5.5)),
        (0, 0, (-1, -0.5, 0, 0.5, 1)),
    ],
)
def test_ticks_are_round(low: float, high: float, wanted: tuple[float, ...]) -> None:
    assert ticks(low, high) == wanted


@given(st.lists(finite, min_size=1, max_size=30), st.booleans())
def test_every_chart_is_drawn_within_its_frame(values: list[float], shares: bool) -> None:
    chart = Chart(
        "k", "title", "epoch", (Line("a", tuple((float(i), y) for i, y in enumerate(values))),), shares=shares
    )
    axes = frame(chart)
    for x, y in chart.lines[0].points:
        assert 0 <= axes.x(x) <= WIDTH
        assert 0 <= axes.y(y) <= HEIGHT
    ET.fromstring(svg(chart))


def test_text_is_escaped() -> None:
    line = Line("<b>&", ((0.0, 1.0), (1.0, 2.0)))
    drawn = str(svg(Chart("k", '<script>"', "epoch", (line,), guides=(Guide(1, "<i>"),))))
    assert "<script" not in drawn
    assert "<i>" not in drawn
    assert "&lt;i&gt;" in ET.tostring(ET.fromstring(drawn), encoding="unicode")


def test_values_to_read_off() -> None:
    chart = Chart("k", "t", "epoch", (Line("a", ((0, 1), (1, 2))), Line("b", ((1, 0.5),))))
    read = chart_json(chart)
    assert read["at"] == ["epoch 0", "epoch 1"]
    assert [[cell and cell[1] for cell in line] for line in read["lines"]] == [["1.00", "2.00"], [None, "0.500"]]


def test_training_charts_from_records() -> None:
    records = [
        {"stage": "pretrain", "epoch": 0, "loss": np.float32(2.0)},
        {"stage": "pretrain", "epoch": 1, "loss": float("nan")},
        {"stage": "discover", "phase": "warmup", "epoch": 0, "loss": 1.0, "kl": 0.5},
        {"stage": "discover", "phase": "main", "epoch": 0, "loss": 0.5, "changed": 0.25},
        {"stage": "something else"},
        {"stage": "teacher", "epoch": 0, "loss": 3.0},
    ]
    stages = {"teacher": "Loss of the teacher"}
    charts = {chart.key: chart for chart in training_charts(records, stages, "discover")}
    assert list(charts) == ["pretrain-loss", "teacher-loss", "loss", "changed"]
    assert charts["teacher-loss"].title == "Loss of the teacher"
    assert charts["pretrain-loss"].lines[0].points == ((0.0, 2.0),)
    assert charts["loss"].lines[0].points == ((0.0, 1.0), (1.0, 0.5))  # phases count from 0 again
    assert charts["loss"].early == 0.0
    assert [line.label for line in charts["loss"].lines] == ["total", "KL to the targets"]
    assert charts["changed"].lines[0].points == ((1.0, 0.25),)


def test_no_records_no_charts() -> None:
    assert training_charts([], {}, None) == []
    assert count_charts(None) == []
    assert count_charts({"k": 3}) == []


def test_count_charts_show_the_chosen_number_their_best_and_their_spread() -> None:
    curve = [{"k": k, "accuracy": 1 - abs(k - 3) / 10, "index": 0.1 * k if k > 1 else None} for k in range(6)]
    curve = [{**row, "accuracy_spread": 0.1, "index_spread": None} for row in curve]
    accuracy, index = count_charts({"k": 4, "k_mean": 4, "k_accuracy": 3, "k_index": 5, "curve": curve})
    assert (accuracy.guides, accuracy.focus) == ((Guide(4.0, "mean of both: 4"),), 3.0)
    assert accuracy.spotlight(accuracy.lines[0]) == (3.0, 1.0)
    assert accuracy.lines[0].band[3] == pytest.approx((3, 0.9, 1.0))  # a share is 1 at most
    assert accuracy.lines[0].band[0] == pytest.approx((0, 0.6, 0.8))
    assert svg(accuracy).count('class="band line0"') == 1
    assert frame(accuracy).y0 <= 0.6  # the spread lies inside
    assert index.lines[0].points[0][0] == 2.0
    assert not index.lines[0].band
    assert "band" not in svg(index)
    assert index.at(5) == "5 new clusters"
