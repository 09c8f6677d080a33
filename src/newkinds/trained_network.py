"""A saved network as an object: what it is, and its features of any pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.datasets import named
from newkinds.features import extract_features
from newkinds.files import as_path
from newkinds.images import Source, open_images
from newkinds.networks import Network
from newkinds.networks.files import read_network
from newkinds.parallel.devices import pick_device
from newkinds.progress import Progress, automatic
from newkinds.runs import names


@dataclass(frozen=True, eq=False, repr=False)
class TrainedNetwork:
    """A trained network in a file; it can be passed wherever the file's path can.

    path: the file. network: the module. about: its metadata, such as the kinds it was trained on.
    """

    path: Path
    network: Network
    about: dict[str, Any]

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """Its name, as in `newkinds networks`."""
        return self.network.name

    @property
    def classes(self) -> tuple[str, ...]:
        """The kinds that it was trained on; empty if the file does not say."""
        return tuple(self.about.get("classes", ()))

    def features(
        self,
        images: Source,
        *,
        fit: str = "crop",
        data: str | Path | None = None,
        device: str | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Return the features of pictures, float32 (N, feature_dim), in the order of their names.

        images: as in `newkinds.discover`. fit: how pictures that are not square are fitted, "crop" or "squash". data,
        device, progress: as in `discover`.
        """
        say = automatic(progress)
        network = self.network
        size = None if network.name == "identity" else network.size
        shape: dict[str, Any] = {"size": size, "channels": network.channels, "fit": fit, "progress": say}
        pictures = open_images(named(images, data=data, **shape) or images, **shape)
        return extract_features(network.to(pick_device(device)), pictures, progress=say)

    def __repr__(self) -> str:
        kinds = f", trained on {len(self.classes)} kinds" if self.classes else ""
        return f"<TrainedNetwork {self.name} in {self.path}: {self.network.feature_dim} features{kinds}>"


def load_network(path: str | Path, *, network: str | None = None) -> TrainedNetwork:
    """Return the network in a file, or in a run folder.

    path: a network.safetensors, or a run folder, for f as it was before discovery. network: its name, which has to be
    given if it is a `module:function`: a file alone runs no code.
    """
    file = as_path(path)
    file = file / names.NETWORK if file.is_dir() else file
    return TrainedNetwork(file, *read_network(file, network))
