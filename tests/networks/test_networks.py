"""The networks: the paper's layouts and widths, any size and channels, weights that depend on the seed only."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models import student
from newkinds.equations import assignment
from newkinds.errors import UsageError
from newkinds.networks import NETWORKS, UNTRAINED, bfloat16, build_network, default_network
from newkinds.networks.catalogue import build_backbone
from newkinds.randomness import one_thread

PICTURES = [name for name in NETWORKS if name != "identity"]
SLIM = [name for name in PICTURES if name.endswith("-slim")]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny products on several threads are slower than on one, and very slow on a busy machine."""
    with one_thread():
        yield


def pictures(n: int, channels: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, channels, size, size), dtype=np.float32))


def widths(module: nn.Module) -> list[int]:
    """The channels behind each convolution, but for the 1x1 ones of shortcuts."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    return [layer.out_channels for layer in layers if layer.kernel_size[0] > 1]


def n_weights(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "size", "features"),
    [
        ("vgg6-4-2", 1, 32, 1024),  # OmniGlot
        ("vgg6-5-1", 3, 32, 512),  # CIFAR-100
        ("resnet18", 3, 32, 512),  # CIFAR-10 and SVHN
        ("resnet18-imagenet", 3, 64, 512),
        ("vgg6-4-2-half", 1, 32, 512),
        ("vgg6-5-1-half", 3, 32, 256),
        ("resnet18-half", 3, 32, 256),
        ("resnet18-imagenet-half", 3, 64, 256),
        ("vgg6-4-2-slim", 1, 32, 256),
        ("vgg6-5-1-slim", 3, 32, 128),
        ("resnet18-slim", 3, 32, 128),
        ("resnet18-imagenet-slim", 3, 64, 128),
    ],
)
def test_features_are_as_wide_as_published(name: str, channels: int, size: int, features: int) -> None:
    network = build_network(name, channels, size, seed=0).eval()
    assert network.feature_dim == features
    assert f"{features}-d" in NETWORKS[name].description
    with torch.inference_mode():
        assert network(pictures(2, channels, size)).shape == (2, features)


def test_vgg6_layers_as_published() -> None:
    four, five = build_backbone("vgg6-4-2", 1, 32), build_backbone("vgg6-5-1", 3, 32)
    assert widths(four) == [64, 128, 256, 256]
    assert widths(five) == [64, 128, 256, 512, 512]
    for backbone, blocks in ((four, 4), (five, 5)):
        kinds = [type(layer) for layer in backbone.layers]
        assert kinds == [nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.ReLU] * blocks  # ReLU and maximum commute
    # With the head the first has four convolutions and two linear layers, the second five and one.
    assert [type(layer) for layer in four.make_head(10)] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    head = five.make_head(10)
    assert isinstance(head, nn.Linear)
    assert (head.in_features, head.out_features) == (512, 10)
    assert four.make_head(7)(torch.zeros(2, 1024)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "millions"),
    # torchvision's ResNet18 has 11.69 million with its last layer of 513,000; with a 3x3 stem 7,680 fewer.
    [("resnet18-imagenet", 11_689_512 - 513_000), ("resnet18", 11_689_512 - 513_000 - 7_680)],
)
def test_resnet18_has_the_well_known_number_of_weights(name: str, millions: int) -> None:
    backbone = build_backbone(name, 3, 32)
    assert n_weights(backbone) == millions
    assert widths(backbone) == [64] * 5 + [128] * 4 + [256] * 4 + [512] * 4


@pytest.mark.parametrize("name", SLIM)
def test_slim_is_a_quarter_as_wide(name: str) -> None:
    full = build_backbone(name.removesuffix("-slim"), 3, 32)
    slim = build_backbone(name, 3, 32)
    assert widths(full) == [4 * width for width in widths(slim)]
    assert [type(layer) for layer in full.modules() if not isinstance(layer, type(full))] == [
        type(layer) for layer in slim.modules() if not isinstance(layer, type(slim))
    ]


@pytest.mark.parametrize("name", SLIM)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [4, 5, 6, 7, 8, 12, 16, 28, 32, 33, 64, 96])
def test_any_size_and_channels_train(name: str, channels: int, size: int) -> None:
    network = build_network(name, channels, size, seed=0)
    features = network(pictures(2, channels, size))
    assert features.shape == (2, network.feature_dim)
    assert network.feature_dim == build_network(name, 3, 32, seed=0).feature_dim
    features.square().sum().backward()
    # Every layer takes part: the gradient reaches the first convolution's weights.
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in network.parameters())


@pytest.mark.parametrize("name", [name for name in PICTURES if name not in UNTRAINED])
def test_weights_depend_on_the_seed_only(name: str) -> None:
    before = torch.get_rng_state()
    first = build_network(name, 1, 8, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    second, other = build_network(name, 1, 8, seed=3), build_network(name, 1, 8, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    convolutions = [pair for pair in zip(first.parameters(), other.parameters(), strict=True) if pair[0].ndim == 4]
    assert len(convolutions) >= 4
    assert not any(torch.equal(a, b) for a, b in convolutions)
    torch.set_rng_state(before)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", [1, 1500])  # below and above what is read at once
def test_normalise_by_is_mean_and_standard_deviation(channels: int, n: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (n, channels, 4, 4), dtype=np.uint8)
    pixels[:, 0] //= 2  # so that channels differ
    network = build_network("vgg6-4-2-slim", channels, 4, seed=0)
    network.normalise_by(pixels)
    values = pixels.astype(np.float64) / 255
    assert network.mean.flatten().numpy() == pytest.approx(values.mean(axis=(0, 2, 3)), rel=1e-6)
    assert network.std.flatten().numpy() == pytest.approx(values.std(axis=(0, 2, 3)), rel=1e-5)
    assert set(network.state_dict()) >= {"mean", "std"}


def test_normalisation_is_applied() -> None:
    network = build_network("vgg6-5-1-slim", 3, 8, seed=0).eval()
    x = pictures(2, 3, 8)
    plain = network(x)
    network.mean.fill_(0.25)
    network.std.fill_(0.5)
    assert torch.allclose(network(x * 0.5 + 0.25), plain, atol=1e-5)


def test_pixels_of_one_value_do_not_divide_by_nothing() -> None:
    network = build_network("vgg6-4-2-slim", 1, 4, seed=0)
    network.normalise_by(np.full((3, 1, 4, 4), 255, dtype=np.uint8))
    assert float(network.mean) == 1
    assert float(network.std) == pytest.approx(1e-3)
    assert network(torch.ones(2, 1, 4, 4)).isfinite().all()


def test_identity_returns_embeddings_as_they_are() -> None:
    network = build_network("identity", 7, 1, seed=0)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    assert torch.equal(network(x), x)
    assert network.feature_dim == 7
    assert not network.has_weights
    assert build_network("vgg6-4-2-slim", 1, 4, seed=0).has_weights


def test_unknown_network_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError) as caught:
        build_network("resnet-18", 3, 32, seed=0)
    assert "'resnet-18'" in caught.value.message
    assert "Did you mean 'resnet18'?" in caught.value.hint
    assert all(name in caught.value.hint for name in NETWORKS)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_that_are_too_small(name: str) -> None:
    with pytest.raises(UsageError, match=r"3x3 are too small .* at least 4x4"):
        build_network(name, 3, 3, seed=0)


@pytest.mark.parametrize("accelerator", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [4, 28, 32, 128, 224])
def test_default_network_exists_and_is_slim_on_a_cpu(channels: int, size: int, accelerator: bool) -> None:
    name = default_network(channels, size, embeddings=False, accelerator=accelerator)
    assert name in NETWORKS
    assert name.endswith("-slim") is not accelerator
    assert ("vgg6-4-2" in name) is (channels == 1)
    assert ("imagenet" in name) is (channels == 3 and size > 100)
    assert default_network(5, 1, embeddings=True, accelerator=accelerator) == "identity"


def test_clustering_network_is_eq_1_behind_the_bottleneck() -> None:
    model = student(build_network("identity", 3, 1, seed=0), 2, 2, 2.0)
    with torch.no_grad():
        model.head.bottleneck.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 2.0, 0]]))
        model.head.bottleneck.bias.copy_(torch.tensor([0.0, 1.0]))
        model.head.centres.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    x = torch.tensor([[1.0, 0.0, 9.0]])
    assert model.outputs(x).embedding.tolist() == [[1.0, 1.0]]
    # On the first centre, and at a squared distance of 2 from the second: weights 1 and (1 + 2/2)^-1.5.
    second = 2**-1.5
    assert model(x).exp().tolist()[0] == pytest.approx([1 / (1 + second), second / (1 + second)])
    assert torch.allclose(model(x).exp(), assignment(model.outputs(x).embedding, model.head.centres, 2.0))
    assert math.isclose(model(x).exp().sum().item(), 1, rel_tol=1e-6)
    names = {name for name, _ in model.named_parameters()}
    assert names == {"head.bottleneck.weight", "head.bottleneck.bias", "head.centres"}


def test_f_in_bfloat16_and_nothing_else() -> None:
    network = build_network("vgg6-4-2-slim", 1, 32, seed=0)
    whole = student(network, 3, 3)
    x = pictures(6, 1, 32)
    exact = network(x).detach()
    seen: list[torch.dtype] = []
    convolution = next(layer for layer in network.modules() if isinstance(layer, nn.Conv2d))
    convolution.register_forward_hook(lambda layer, inputs, output: seen.append(output.dtype))
    with bfloat16(whole):
        features, p = network(x), whole(x)
        features.sum().backward()
    assert (features.dtype, p.dtype) == (torch.float32, torch.float32)
    assert all(weight.dtype == torch.float32 for weight in whole.parameters())
    assert convolution.weight.grad is not None
    assert convolution.weight.grad.dtype == torch.float32
    assert not torch.equal(features, exact)
    assert float((features.detach() - exact).norm() / exact.norm()) < 0.02
    with bfloat16(whole, wanted=False):
        network(x)
    network(x)
    assert seen == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]


def test_bfloat16_ends_with_an_error() -> None:
    network = build_network("vgg6-4-2-slim", 1, 32, seed=0)
    with pytest.raises(KeyboardInterrupt), bfloat16(network):
        raise KeyboardInterrupt
    assert not network.in_bfloat16
