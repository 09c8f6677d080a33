"""Batch norms folded into convolutions: the same features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from newkinds.networks import build_network
from newkinds.networks.folding import folded


@pytest.mark.parametrize("name", ["efficientnet-lite0", "vgg6-5-1-slim", "resnet18-slim"])
def test_the_features_stay_and_the_network_too(name: str) -> None:
    network = build_network(name, 3, 32, seed=0, network_size=32, pretrained=False)
    rng = np.random.default_rng(0)
    for norm in [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]:
        norm.running_mean = torch.from_numpy(rng.normal(0, 0.1, norm.num_features).astype(np.float32))
        norm.running_var = torch.from_numpy(rng.uniform(0.5, 2, norm.num_features).astype(np.float32))
    x = torch.from_numpy(rng.random((4, 3, 32, 32), dtype=np.float32))
    before = {key: value.clone() for key, value in network.state_dict().items()}
    found = folded(network)
    assert torch.allclose(found(x), network.eval()(x), atol=1e-4)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert not any(weight.requires_grad for weight in found.parameters())
    left = sum(isinstance(part, nn.BatchNorm2d) for part in found.modules())
    assert left == (0 if name != "resnet18-slim" else 16)  # those of its blocks stand in no row
