"""What the report refuses, and what it makes of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up_runs import trusted

from newkinds.configure import make_settings
from newkinds.errors import DataError
from newkinds.report.kinds import runners_up, summarise_kinds
from newkinds.report.run import used_settings


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"probabilities": np.ones((3, 4), dtype=np.float32)}, "do not go with 6 pictures"),
        ({"features": np.full((6, 2), np.nan, dtype=np.float32)}, "6 of 6 pictures"),
        ({"probabilities": np.full((6, 4), 1.5, dtype=np.float32)}, "outside"),
        ({"pixels": np.zeros((6, 2, 8, 8), dtype=np.uint8)}, "1 or 3"),
        ({"truth": ("a",)}, "1 entries for 6"),
        ({"trust": trusted(3)}, "of 3 kinds, and there are 4"),
    ],
)
def test_wrong_data_is_refused(make_data: Any, change: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        make_data(6, 4, **change)


def test_no_pictures_are_refused(make_data: Any) -> None:
    none = np.zeros((0, 1), dtype=np.float32)
    with pytest.raises(DataError, match="no pictures"):
        make_data(1, 1, names=(), probabilities=none, features=none, pixels=None, truth=None)


def test_kinds_by_hand(make_data: Any) -> None:
    p = np.array([[0.9, 0.1, 0.0], [0.4, 0.35, 0.25], [0.2, 0.7, 0.1], [0.6, 0.0, 0.4]], dtype=np.float32)
    data = make_data(4, 3, kinds=np.array([0, 0, 1, 0]), probabilities=p, truth=("a", "b", "b", "a"), pictures=False)
    first, second, third = summarise_kinds(data)
    assert (first.size, first.share, first.doubtful) == (3, 0.75, 1)
    assert first.mean_probability == pytest.approx((0.9 + 0.4 + 0.6) / 3)
    assert first.purity == 0.95
    assert sorted(pick.item for pick in first.central_picks) == [0, 3]
    assert [(pick.item, pick.runner_up) for pick in first.doubtful_picks] == [(1, 1)]
    assert first.truths == (("a", 2), ("b", 1))
    assert second.doubtful_picks == ()
    assert (third.size, third.mean_probability, third.central_picks) == (0, None, ())
    unsure = make_data(4, 3, kinds=data.labels, probabilities=p, pictures=False, rehearsals=0)
    assert [(kind.purity, kind.doubtful) for kind in summarise_kinds(unsure)] == [(None, None)] * 3


def test_runner_up_is_another_kind(make_data: Any) -> None:
    data = make_data(50, 5)
    second, probability = runners_up(data)
    assert (second != data.labels).all()
    for i in range(50):
        others = np.delete(data.probabilities[i], data.labels[i])
        assert probability[i] == pytest.approx(others.max())


def test_one_kind_has_no_runner_up(make_data: Any) -> None:
    data = make_data(5, 1)
    assert (runners_up(data)[0] == -1).all()
    assert summarise_kinds(data)[0].central_picks[0].runner_up is None


def test_central_doubtful_and_border_pictures(make_data: Any) -> None:
    own = np.array([0.99, 0.98, 0.97, 0.6, 0.55, 0.5, 0.5, 0.5, 0.5, 0.96, 0.95, 0.94], dtype=np.float32)
    p = np.stack([own, (1 - own) * 0.9, (1 - own) * 0.1], axis=1)
    p[3] = [0.6, 0.2, 0.2]  # as sure as 4, nearly, but not between two kinds
    features = np.abs(np.arange(12, dtype=np.float32) - 10)[:, None]
    data = make_data(12, 3, kinds=np.zeros(12, dtype=np.int64), probabilities=p, features=features, pictures=False)
    kind = summarise_kinds(data)[0]
    assert [pick.item for pick in kind.doubtful_picks] == [5, 6, 7, 8, 4]
    middle = features.mean()
    distances = [abs(features[pick.item, 0] - middle) for pick in kind.central_picks]
    assert distances == sorted(distances)
    rest = {pick.item for pick in kind.central_picks} | {4, 5, 6, 7, 8}
    assert {pick.item for pick in kind.border_picks}.isdisjoint(rest)
    margins = [pick.probability - pick.runner_up_probability for pick in kind.border_picks]
    assert margins == sorted(margins)


def test_settings_of_methods_that_had_no_part_are_not_shown() -> None:
    settings = make_settings({}).model_dump(mode="json")
    shown = used_settings(settings, {"dtc"})
    assert {"seed", "images", "count", "discover"} <= shown.keys()
    assert not {"lsc", "pim", "kmeans", "simgcd"} & shown.keys()
    assert {"discover", "lsc"} <= used_settings(settings, {"dtc", "lsc"}).keys()
