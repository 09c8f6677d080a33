"""The map: the same for the same seed, whatever the data's size and shape."""

from __future__ import annotations

import numpy as np
import pytest

from newkinds.report.embedding_map import make_map, thin, thin_places


def blobs(n: int, width: int = 8, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    kinds = np.arange(n) % k
    return (rng.normal(size=(k, width))[kinds] * 8 + rng.normal(size=(n, width))).astype(np.float32), kinds


def test_same_seed_same_places() -> None:
    features, kinds = blobs(120)
    a, b, c = (make_map(features, kinds, seed) for seed in (0, 0, 1))
    assert np.array_equal(a.places, b.places)
    assert not np.array_equal(a.places, c.places)


def test_kinds_that_lie_apart_stay_apart() -> None:
    features, kinds = blobs(150)
    places = make_map(features, kinds, 0).places
    distances = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    assert (kinds[distances.argmin(axis=1)] == kinds).mean() > 0.98


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 30])
@pytest.mark.parametrize("width", [1, 2, 80])
def test_few_pictures(n: int, width: int) -> None:
    features, kinds = blobs(n, width, min(n, 3))
    places = make_map(features, kinds, 0).places
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert places.min() >= 0
    assert places.max() <= 1


@pytest.mark.parametrize("kind_of", ["equal", "half equal", "huge", "tiny", "no columns"])
def test_odd_features(kind_of: str) -> None:
    features, kinds = blobs(40)
    if kind_of == "equal":
        features[:] = 3
    elif kind_of == "half equal":
        features[::2] = features[0]
    elif kind_of == "no columns":
        features = features[:, :0]
    else:
        features = features * np.float32(1e30 if kind_of == "huge" else 1e-30)
    places = make_map(features, kinds, 0).places
    assert np.isfinite(places).all()
    assert len(np.unique(places.round(9), axis=0)) > 1


def test_wide_features_go_through_pca() -> None:
    features, kinds = blobs(90, 300)
    assert np.array_equal(make_map(features, kinds, 0).places, make_map(features, kinds, 0).places)


def test_thinning_keeps_small_kinds() -> None:
    kinds = np.zeros(10_000, dtype=np.int64)
    kinds[:30] = 1
    kinds[30:33] = 2
    items = thin(kinds, 0, 600)
    assert len(items) == 600
    assert (np.diff(items) > 0).all()
    assert np.bincount(kinds[items]).tolist()[1:] == [30, 3]
    assert np.array_equal(items, thin(kinds, 0, 600))
    assert not np.array_equal(items, thin(kinds, 1, 600))
    assert np.array_equal(thin(kinds[:50], 0, 600), np.arange(50))


def test_threads_do_not_matter() -> None:
    from openTSNE import TSNE

    features, _ = blobs(200)
    options = {"neighbors": "exact", "negative_gradient_method": "bh", "n_iter": 50, "early_exaggeration_iter": 50}
    one, two = (np.asarray(TSNE(n_jobs=jobs, random_state=0, **options).fit(features)) for jobs in (1, 2))
    assert np.array_equal(one, two)


def test_the_rest_lie_beside_their_neighbours() -> None:
    features, kinds = blobs(400)
    found = make_map(features, kinds, 0, sample=120)
    assert found.sampled == 120
    assert found.first.sum() == 120
    assert len(found.items) == 400
    middles = np.stack([np.median(found.places[found.first & (kinds == k)], axis=0) for k in range(3)])
    nearest = np.linalg.norm(found.places[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == kinds).mean() > 0.98
    assert ((found.places >= 0) & (found.places <= 1)).all()
    again = make_map(features, kinds, 0, sample=120)
    assert np.array_equal(found.places, again.places)


def test_dense_places_are_thinned_first() -> None:
    rng = np.random.default_rng(0)
    dense, thinly = rng.uniform(0.5, 0.52, (5_000, 2)), rng.uniform(0, 0.4, (300, 2))
    places = np.concatenate([dense, thinly])
    first = np.zeros(len(places), dtype=bool)
    first[:200] = True
    kept = thin_places(places, first, 0, 1_000)
    assert len(kept) == 1_000
    assert (np.diff(kept) > 0).all()
    assert (kept >= 5_000).sum() == 300
    assert (kept < 200).sum() == 200
    assert np.array_equal(kept, thin_places(places, first, 0, 1_000))
    assert np.array_equal(thin_places(places, first, 0, 6_000), np.arange(5_300))
