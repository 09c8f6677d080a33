"""What methods that train networks of their own share: where those start, what they see, what is kept of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from newkinds.images.augment import POLICIES
from newkinds.images.imageset import ImageSet
from newkinds.methods.auxiliary import ViewsTask, first_network, weights_of
from newkinds.networks import build_network

NETWORK, SIZE = "vgg6-4-2-slim", 8


class SeeingTask(ViewsTask):
    """A task that only looks."""

    def losses(self, outputs: Tensor, items: object, epoch: int) -> dict[str, Tensor]:
        raise NotImplementedError


def images(embeddings: bool = False) -> ImageSet:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 1, SIZE, SIZE), dtype=np.uint8)
    points = rng.normal(size=(3, 6)).astype(np.float32)
    return ImageSet(points if embeddings else pixels, ("a", "b", "c"), None, (), "made up", "no mark")


def test_a_fresh_network_has_f_s_shape_and_pixels_but_weights_of_the_seed() -> None:
    f = build_network(NETWORK, 1, SIZE, seed=7, network_size=16)
    f.normalise_by(images().pixels)
    copied, fresh, again, other = (
        first_network(f, start, seed) for start, seed in (("f", 0), ("fresh", 0), ("fresh", 0), ("fresh", 1))
    )
    assert copied is not f
    for name, value in f.state_dict().items():
        assert torch.equal(copied.state_dict()[name], value)
    weights = [dict(n.named_parameters())["backbone.layers.0.weight"] for n in (f, fresh, again, other)]
    assert torch.equal(weights[1], weights[2])
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[3])
    assert torch.equal(fresh.mean, f.mean)
    assert torch.equal(fresh.std, f.std)
    assert fresh.network_size == 16


def test_pictures_are_augmented_and_embeddings_are_not() -> None:
    items = np.array([1, 0])
    task = SeeingTask(build_network(NETWORK, 1, SIZE, seed=0), images(), "auto", seed=0)
    assert task.how == POLICIES["affine"]
    assert task.names == ("a", "b", "c")
    first, again, later = (task.inputs(items, epoch) for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    other = SeeingTask(task.module, images(), "auto", seed=1)
    assert not torch.equal(other.inputs(items, 0), first)
    plain = SeeingTask(task.module, images(), "none", seed=0).inputs(items, 0)
    assert torch.equal(plain, torch.from_numpy(images().pixels[items]).float() / 255)
    points = images(embeddings=True)
    seen = SeeingTask(build_network("identity", 6, 1, seed=0), points, "auto", seed=0).inputs(items, 0)
    assert (seen.numpy() == points.pixels[items]).all()


def test_weights_that_are_kept_are_the_module_s_no_longer() -> None:
    network = build_network(NETWORK, 1, SIZE, seed=0).double()
    kept = weights_of(network)
    assert kept.keys() == network.state_dict().keys()
    first = "backbone.layers.0.weight"
    assert kept[first].dtype == torch.float32
    before = kept[first].clone()
    with torch.no_grad():
        network.state_dict()[first].zero_()
    assert torch.equal(kept[first], before)
