"""f over a set of pictures: always in eval mode, never augmented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.errors import NumericsError
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network
from newkinds.progress import QUIET, Progress
from newkinds.training import NAMES_SHOWN

BATCH = 256  # pictures at once, of up to 64 x 64 pixels; of larger ones fewer, as the memory goes with the pixels


def extract_features(network: Network, images: ImageSet, *, progress: Progress = QUIET) -> NDArray[np.float32]:
    """Return the features z = f(x) of all pictures, float32 (N, d), on the device where the network is."""
    features = apply(network, images, title=f"Features of {len(images)} pictures", progress=progress)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        shown = ", ".join(images.names[i] for i in bad[:NAMES_SHOWN])
        raise NumericsError(
            f"The features of {len(bad)} of {len(images)} pictures are not finite: {shown}.",
            hint="Lower pretrain.learning_rate and start the run in a new folder.",
        )
    return features


def apply(
    module: nn.Module,
    images: ImageSet,
    *,
    call: Callable[[Tensor], Tensor] | None = None,
    title: str = "",
    progress: Progress = QUIET,
) -> NDArray[np.float32]:
    """Return a module's output (N, ...), or that of its method `call`, over all pictures as they are.

    The module is in eval mode meanwhile; its own mode is put back afterwards.
    """
    was_training = module.training
    module.eval()
    outputs = []
    try:
        with torch.inference_mode(), progress.step(title, len(images)) as step:
            size = batch_size(module)
            for start in range(0, len(images), size):
                batch = as_input(images.pixels[start : start + size], device_of(module))
                outputs.append((call or module)(batch).float().cpu().numpy())
                step.advance(len(batch))
    finally:
        module.train(was_training)
    return np.concatenate(outputs)


def batch_size(module: nn.Module) -> int:
    """Return how many pictures a module is given at once, by the side that its network brings them to."""
    side = max((layer.network_size for layer in module.modules() if isinstance(layer, Network)), default=0)
    return BATCH if side <= 64 else max(8, BATCH * 64**2 // side**2)


def as_input(pixels: NDArray[Any], device: torch.device) -> Tensor:
    """Return pixels as a network takes them: uint8 pictures as float32 in [0, 1], embeddings as they are."""
    tensor = torch.from_numpy(np.ascontiguousarray(pixels)).to(device)
    return tensor.float().div_(255) if tensor.dtype == torch.uint8 else tensor


def device_of(module: nn.Module) -> torch.device:
    """Return the device where a module's weights, or its buffers, are."""
    for tensor in module.parameters():
        return tensor.device
    return next(iter(module.buffers())).device
