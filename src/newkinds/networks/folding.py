"""f for inference only: batch norms folded into the convolutions before them."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from newkinds.networks.network import Network


def folded(network: Network) -> Network:
    """Return a copy of f in eval mode with the same features, up to rounding, for less work; it cannot be trained.

    Folded is each batch norm that directly follows a convolution in an `nn.Sequential`: all of EfficientNet-Lite and
    VGG6, few of other networks.
    """
    copied = copy.deepcopy(network).eval()
    for part in [part for part in copied.modules() if isinstance(part, nn.Sequential)]:
        for place in range(len(part) - 1):
            convolution, norm = part[place], part[place + 1]
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                part[place] = fuse_conv_bn_eval(convolution, norm)
                part[place + 1] = nn.Identity()
    return copied.requires_grad_(False)
