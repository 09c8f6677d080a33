"""Features: f over a set of pictures, always in eval mode, plain or averaged over random views."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.cache import Cache, code_of
from newkinds.errors import NumericsError
from newkinds.files import digest
from newkinds.images.augment import augment, policy
from newkinds.images.imageset import ImageSet
from newkinds.memory import explained
from newkinds.networks import Foreign, Model, Network, efficientnet, folding
from newkinds.networks.files import network_to_bytes
from newkinds.networks.folding import folded
from newkinds.parallel.devices import no_gradients, to_device
from newkinds.parallel.processes import gathered_rows, share
from newkinds.progress import QUIET, Progress, Step
from newkinds.training import NAMES_SHOWN

Prepare = Callable[[Tensor, NDArray[np.int64]], Tensor]  # uint8 pictures and their numbers to inputs
FIRST_VIEW = 2  # number of the first view to average over: training uses views 0 and 1
CACHED_PIXELS = 4 * 224**2  # in a batch on a CPU: what lies between two layers should stay in its caches
MOST_FILLED = 32  # pictures in such a batch, the last of which is filled up
BATCH = 256  # pictures in a batch, of up to 64 x 64 pixels; fewer of larger ones, as memory grows with the pixels


def mirrored(pixels: Tensor, items: NDArray[np.int64]) -> Tensor:
    """Return pictures uint8 (B, C, H, W) as a network takes them, float32 in [0, 1], left and right exchanged."""
    return pixels.flip(3).float().div_(255)


VIEWS: dict[str, Prepare | None] = {"plain": None, "mirrored": mirrored}


def extract_features(
    network: Network,
    images: ImageSet,
    *,
    view: str = "plain",
    cache: Cache | None = None,
    progress: Progress = QUIET,
) -> NDArray[np.float32]:
    """Return the features z = f(x) of all pictures, float32 (N, d), on the device where the network is.

    view: of VIEWS. cache: where features of networks from elsewhere are looked for, and kept.
    """
    title = f"Features of {len(images)} pictures"
    if isinstance(network.backbone, Foreign):
        return _extract_foreign(network, network.backbone, images, view, cache or Cache(), title, progress)
    features = apply(network, images, prepare=VIEWS[view], title=title, progress=progress)
    _check_finite(features, images, np.arange(len(images)))
    return features


def _extract_foreign(
    network: Network, backbone: Foreign, images: ImageSet, view: str, cache: Cache, title: str, progress: Progress
) -> NDArray[np.float32]:
    """Return features of a network that is not trained here: folded, and only of pictures that the cache has not.

    Features do not depend, to the last bit, on which pictures are computed together.
    """
    if backbone.code is None:
        cache = Cache()
    mine = share(np.arange(len(images), dtype=np.int64))
    keys = [b""] * len(mine)
    if cache.folder is not None:
        keys = [images.row_keys[item] for item in mine]
    with progress.step(title, len(mine)) as step:
        module = folded(network)

        def make(places: NDArray[np.int64]) -> NDArray[np.float32]:
            rows = _in_equal_batches(module, images, mine[places], VIEWS[view], step)
            _check_finite(rows, images, mine[places])
            return rows

        rows = cache.rows("features", _about_features(network, backbone, view), keys, make, found=step.advance)
    return gathered_rows(rows)


def _about_features(network: Network, backbone: Foreign, view: str) -> dict[str, Any]:
    """Return what features depend on beside the pixels."""
    # On a CPU, the order of sums depends on its instructions and on the number of threads.
    cpu = [torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()] if network.device.type == "cpu" else []
    return {
        "network": digest(network_to_bytes(network)),
        "view": view,
        "code": [backbone.code, torch.__version__, code_of(efficientnet, folding, sys.modules[__name__])],
        "device": [network.device.type, *cpu],
    }


def _in_equal_batches(
    module: Network, images: ImageSet, items: NDArray[np.int64], prepare: Prepare | None, step: Step
) -> NDArray[np.float32]:
    """Return features of some pictures, (B, d), in batches of one size: with others, sums are rounded otherwise."""
    size = batch_size(module)
    if module.device.type == "cpu":
        size = min(MOST_FILLED, max(2, CACHED_PIXELS // module.network_size**2))
    outputs = []
    with no_gradients(module.device):
        for start in range(0, len(items), size):
            batch = items[start : start + size]
            filled = np.concatenate([batch, np.repeat(batch[-1:], size - len(batch))])
            with explained(f"a network on {size} pictures"):
                pixels = to_device(images.pixels[filled], module.device)
                pixels = pixels.contiguous(memory_format=torch.channels_last)  # in which they are scaled faster
                x = as_floats(pixels) if prepare is None else prepare(pixels, filled)
                outputs.append(module(x)[: len(batch)].float().cpu().numpy())
            step.advance(len(batch))
    return np.concatenate(outputs)


def _check_finite(features: NDArray[np.float32], images: ImageSet, items: NDArray[np.int64]) -> None:
    """Raise an error that names the pictures, numbers `items`, whose features (B, d) are not finite."""
    bad = items[~np.isfinite(features).all(axis=1)]
    if len(bad):
        shown = ", ".join(images.names[i] for i in bad[:NAMES_SHOWN])
        raise NumericsError(
            f"The features of {len(bad)} of {len(images)} pictures are not finite: {shown}.",
            hint="Lower pretrain.learning_rate and start the run in a new folder.",
        )


def averaged_features(
    network: Network,
    images: ImageSet,
    features: NDArray[np.float32],
    views: int,
    augmentation: str,
    seed: int,
    progress: Progress = QUIET,
) -> NDArray[np.float32]:
    """Return f's features of each picture, (N, d), averaged over the plain picture and `views` random views of it."""
    how = policy(augmentation, images.size)
    if views == 0 or how == policy("none", images.size):
        return features
    total = features.astype(np.float64)
    for number in range(views):

        def view(pixels: Tensor, items: NDArray[np.int64], number: int = number) -> Tensor:
            return augment(pixels, items, how, seed=seed, epoch=0, view=FIRST_VIEW + number)

        total += apply(network, images, prepare=view, title=f"View {number + 1} of {views}", progress=progress)
    return (total / (1 + views)).astype(np.float32)


def apply(
    module: nn.Module,
    images: ImageSet,
    *,
    call: Callable[[Tensor], Tensor] | None = None,
    prepare: Prepare | None = None,
    alone: bool = False,
    title: str = "",
    progress: Progress = QUIET,
) -> NDArray[np.float32]:
    """Return a module's output (N, ...), or that of its method `call`, over all pictures.

    Pictures are passed as they are, or as `prepare` returns them for their pixels (uint8) and numbers. The module is in
    eval mode during this; the modes of its parts are restored afterwards. Several processes share the pictures: all of
    them must call this, and all get the whole result, unless one does it `alone`.
    """
    every = np.arange(len(images), dtype=np.int64)
    mine = every if alone else share(every)
    modes = {part: part.training for part in module.modules()}
    module.eval()
    rows = np.empty((0, 0), np.float32)
    done = 0
    try:
        with no_gradients(device_of(module)), progress.step(title, len(mine)) as step:
            for items in np.array_split(mine, math.ceil(len(mine) / batch_size(module))):
                with explained(f"a network on {len(items)} pictures"):
                    output = (call or module)(_batch(module, images, items, prepare)).float().cpu().numpy()
                    if done == 0:
                        rows = np.empty((len(mine), *output.shape[1:]), np.float32)
                rows[done : done + len(items)] = output
                done += len(items)
                step.advance(len(items))
    finally:
        for part, training in modes.items():
            part.training = training
    return rows if alone else gathered_rows(rows)


def _batch(
    module: nn.Module,
    images: ImageSet,
    items: NDArray[np.int64],
    prepare: Prepare | None,
) -> Tensor:
    pixels = images.pixels[items[0] : items[-1] + 1]
    if prepare is None:
        return as_input(pixels, device_of(module))
    return prepare(to_device(pixels, device_of(module)), items)


def batch_size(module: nn.Module) -> int:
    """Return the batch size for a module, by the side that its network scales pictures to."""
    side = max((layer.network_size for layer in module.modules() if isinstance(layer, Network)), default=0)
    return BATCH if side <= 64 else max(8, BATCH * 64**2 // side**2)


def as_input(pixels: NDArray[Any], device: torch.device) -> Tensor:
    """Return pixels as a network's input: uint8 pictures as float32 in [0, 1], embeddings as they are."""
    return as_floats(to_device(pixels, device))


def as_floats(pixels: Tensor) -> Tensor:
    """Return uint8 pixels as float32 in [0, 1], embeddings as they are."""
    return pixels.float().div_(255) if pixels.dtype == torch.uint8 else pixels


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's weights or, without any, of its buffers."""
    for tensor in module.parameters():
        return tensor.device
    return next(iter(module.buffers())).device


class ModelOutputs(NamedTuple):
    """The outputs of a model for N pictures: features (N, d), embedding (N, w) and log p(k|i) (N, K), all float32."""

    features: NDArray[np.float32]
    embedding: NDArray[np.float32]
    log_p: NDArray[np.float32]


def model_outputs(model: Model, images: ImageSet, *, title: str = "", progress: Progress = QUIET) -> ModelOutputs:
    """Return all outputs of a model for a set of pictures, in one pass; see `apply`."""
    rows = apply(model, images, call=lambda x: torch.cat(model.outputs(x), dim=1), title=title, progress=progress)
    ends = np.cumsum([model.network.feature_dim, rows.shape[1] - model.network.feature_dim - model.kinds])
    features, embedding, log_p = (np.ascontiguousarray(part) for part in np.split(rows, ends, axis=1))
    return ModelOutputs(features, embedding, log_p)
