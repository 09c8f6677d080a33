"""f over a set of pictures: eval mode, whatever batch, finite."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import newkinds.features as module
from newkinds.errors import NumericsError
from newkinds.features import apply, as_input, averaged_features, batch_size, device_of, extract_features
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network, build_network
from newkinds.randomness import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def unsorted(pixels: NDArray) -> ImageSet:
    names = tuple(f"{i}.png" for i in range(len(pixels)))
    return ImageSet(pixels, names, None, (), "made up", "no mark")


def pictures(n: int, channels: int = 3, size: int = 8) -> ImageSet:
    return unsorted(np.random.default_rng(0).integers(0, 256, (n, channels, size, size), dtype=np.uint8))


@pytest.fixture
def network() -> Network:
    """A network whose running statistics are not the batch's: in train mode its features are others."""
    network = build_network("vgg6-5-1-slim", 3, 8, seed=0)
    network.train()
    for _ in range(3):
        network(torch.from_numpy(np.random.default_rng(1).random((16, 3, 8, 8), dtype=np.float32)))
    return network


def test_a_picture_alone_has_the_features_it_has_in_a_batch(network: Network) -> None:
    images = pictures(20)
    together = extract_features(network, images)
    assert (together.shape, together.dtype) == ((20, network.feature_dim), np.float32)
    alone = np.concatenate([extract_features(network, images.select([i])) for i in range(20)])
    assert np.abs(together - alone).max() < 1e-5 * np.abs(together).max()
    # The test can fail: in train mode the batch matters.
    network.train()
    x = as_input(images.pixels, torch.device("cpu"))
    assert not torch.allclose(network(x)[:2], network(x[:2]), atol=1e-2)


def test_features_are_averaged_over_views(network: Network) -> None:
    images = pictures(40)
    plain = extract_features(network, images)
    assert averaged_features(network, images, plain, 0, "crop-flip", 0) is plain
    assert averaged_features(network, images, plain, 4, "none", 0) is plain  # all views would be the same

    def away(views: int, seed: int) -> NDArray:
        return averaged_features(network, images, plain, views, "crop-flip", seed).astype(np.float64) - plain

    # One view weighs half; the views of two seeds come closer to one another the more there are.
    assert np.array_equal(away(3, 0), away(3, 0))
    apart = [np.linalg.norm(away(views, 0) - away(views, 1)) for views in (1, 16)]
    assert 0 < apart[1] < 0.6 * apart[0]
    # A picture that looks the same shifted and mirrored keeps its features.
    even = unsorted(np.full((3, 3, 8, 8), 90, np.uint8))
    same = extract_features(network, even)
    assert np.allclose(averaged_features(network, even, same, 3, "crop-flip", 0), same, rtol=1e-5, atol=1e-6)


def test_parts_are_put_together_in_order(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(11)
    whole = extract_features(network, images)
    monkeypatch.setattr(module, "BATCH", 4)
    assert np.abs(extract_features(network, images) - whole).max() < 1e-5 * np.abs(whole).max()


def test_the_mode_is_put_back_and_nothing_is_changed(network: Network) -> None:
    before = {name: value.clone() for name, value in network.state_dict().items()}
    for training in (True, False):
        network.train(training)
        network.backbone.layers[1].train(training)
        extract_features(network, pictures(3))
        assert network.training is training
        assert network.backbone.layers[1].training is training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_parts_that_had_a_mode_of_their_own_get_it_back(network: Network) -> None:
    frozen = network.backbone.layers[1]
    network.train()
    frozen.eval()
    extract_features(network, pictures(3))
    assert network.training
    assert network.backbone.layers[0].training
    assert not frozen.training


def test_the_mode_is_put_back_after_an_error(network: Network) -> None:
    network.train()
    with pytest.raises(RuntimeError):
        extract_features(network, pictures(2, channels=2))
    assert network.training


def test_features_that_are_not_finite_name_their_pictures(network: Network) -> None:
    class Breaks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            features = x.flatten(1)[:, :4].clone()
            features[x[:, 0, 0, 0] > 0.9, 2] = torch.inf
            features[x[:, 0, 0, 0] < 0.1, 1] = torch.nan
            return features

    pixels = np.full((9, 3, 8, 8), 128, dtype=np.uint8)
    pixels[3], pixels[7] = 255, 0
    network.backbone = Breaks()  # type: ignore[assignment]
    with pytest.raises(NumericsError) as caught:
        extract_features(network, unsorted(pixels))
    assert "2 of 9 pictures are not finite: 3.png, 7.png" in caught.value.message
    assert "pretrain.learning_rate" in caught.value.hint


def test_pixels_become_0_to_1_and_embeddings_stay() -> None:
    pixels = as_input(np.array([[[[0, 51, 255]]]], dtype=np.uint8), torch.device("cpu"))
    assert pixels.dtype == torch.float32
    assert pixels.flatten().tolist() == pytest.approx([0, 0.2, 1])
    embeddings = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert (as_input(embeddings, torch.device("cpu")).numpy() == embeddings).all()
    assert (extract_features(build_network("identity", 3, 1, seed=0), unsorted(embeddings)) == embeddings).all()


def test_input_is_not_changed(network: Network) -> None:
    images = pictures(3)
    before = images.pixels.copy()
    extract_features(network, images)
    assert (images.pixels == before).all()


def test_call_takes_another_method() -> None:
    network = build_network("identity", 3, 1, seed=0)
    embeddings = np.ones((2, 3), dtype=np.float32)
    assert (apply(network, unsorted(embeddings), call=lambda x: x.sum(dim=1)) == [3, 3]).all()


def test_prepare_sees_pixels_and_their_numbers(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(11)
    monkeypatch.setattr(module, "BATCH", 4)
    seen: list[int] = []

    def prepare(pixels: Tensor, items: NDArray[np.int64]) -> Tensor:
        assert (pixels.numpy() == images.pixels[items]).all()
        assert pixels.dtype == torch.uint8
        seen.extend(items.tolist())
        return (255 - pixels).float() / 255

    prepared = apply(network, images, prepare=prepare)
    assert seen == list(range(11))
    expected = extract_features(network, unsorted(255 - images.pixels))
    assert np.abs(prepared - expected).max() < 1e-5 * np.abs(expected).max()
    assert np.abs(prepared - extract_features(network, images)).max() > 0.01 * np.abs(expected).max()


def test_larger_pictures_come_in_smaller_batches() -> None:
    sides = {64: 256, 128: 64, 256: 16, 2048: 8}
    for side, size in sides.items():
        assert batch_size(nn.Sequential(build_network("vgg6-5-1-slim", 3, 8, seed=0, network_size=side))) == size
    assert batch_size(nn.Linear(2, 2)) == 256


@pytest.mark.parametrize("name", ["identity", "vgg6-4-2-slim"])
def test_device_of(name: str) -> None:
    assert device_of(build_network(name, 1, 4, seed=0)) == torch.device("cpu")
