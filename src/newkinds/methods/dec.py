"""Deep embedded clustering (Xie et al. 2016): the paper's Eq. 1 to 3 on the code of an autoencoder, without labels."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from newkinds.clustering import kmeans
from newkinds.equations import assignment
from newkinds.errors import UsageError
from newkinds.features import as_input, extract_features, model_outputs
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Method, Problem, Solution
from newkinds.methods.dtc.settings import Discover
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.networks import Network, build_network
from newkinds.networks.backbones import Encoder
from newkinds.parallel.devices import to_device
from newkinds.parallel.processes import from_writer
from newkinds.randomness import one_thread, seeded_torch, uniforms
from newkinds.settings import Optimiser
from newkinds.settings.base import BatchSize, LearningRate, Restarts
from newkinds.start import Start
from newkinds.training import Phase, Task

MOST_LAYERS, WIDEST = 9, 99_999  # that the name of an encoder can express


class Dec(Optimiser):
    """Deep embedded clustering, without labels (method dec)."""

    optimiser: Literal["sgd", "adam"] = Field(
        "adam",
        description='The rule by which weights are moved: "adam", or "sgd" with momentum. Published with SGD, at a '
        "rate of .1 for the autoencoder and .01 for clustering.",
    )
    widths: tuple[int, ...] = Field(
        (500, 500, 2000, 10),
        description="The widths of the encoder's layers, 1 to 9 of them; the decoder has the same backwards. The last "
        "is the length of the codes that are clustered. Published with these.",
    )
    batch_size: BatchSize = 256
    autoencoder_epochs: int = Field(
        100, ge=0, description="Epochs in which the autoencoder learns to reconstruct the pictures."
    )
    noise: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="The share of the inputs that is set to 0 while the autoencoder is trained. Published with .2, in "
        "every layer.",
    )
    epochs: int = Field(
        100, ge=0, description="The most epochs of clustering; it ends before that when assignments have settled."
    )
    learning_rate: LearningRate = 1e-3
    update_every: int = Field(1, ge=1, description="How many epochs the targets stay before they are made anew.")
    settled: float = Field(
        0.001,
        ge=0,
        le=1,
        description="Clustering ends when no more than this share of the assignments changes between two targets; 0: "
        "never before the last epoch. Published with .001.",
    )
    restarts: Restarts = Field(
        20,
        description="How often the k-means that finds the first centres begins anew; the best outcome is kept. "
        "Published with 20.",
    )


def dec(problem: Problem) -> Solution:
    """Train an autoencoder on the unsorted pictures, then its encoder to sharpen the clusters of its codes.

    Published, the autoencoder is trained layer by layer and then as a whole, for very long and by SGD; here as a whole
    from the start, with the optimiser of the settings.
    """
    chosen, seed, images = problem.settings.section(Dec), problem.settings.seed, problem.unsorted
    encoder = _trained_encoder(problem)
    codes = extract_features(encoder, images, progress=problem.progress)
    start = from_writer(lambda: _start(codes, problem.kinds, chosen.restarts, seed))
    task = DecTask(encoder, start, images, _as_discovery(chosen), seed, problem.truth)
    problem.train(task, Phase("main", chosen.epochs, chosen))
    said = model_outputs(task.model, images)
    p = torch.from_numpy(said.log_p).exp().numpy()
    return Solution(problem.assign(p), said.embedding, model=task.model.float().eval(), features=said.features)


class Autoencoder(nn.Module):
    """The encoder followed by its mirror image as the decoder, with ReLU between layers."""

    def __init__(self, encoder: Network, widths: tuple[int, ...], seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        inputs = encoder.channels * encoder.size**2
        with seeded_torch(seed, "decoder"):
            self.decoder = Encoder(widths[-1], [*widths[-2::-1], inputs]).to(encoder.device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the reconstruction of the inputs, (B, inputs)."""
        made: Tensor = self.decoder(self.encoder(x))
        return made

    def wanted(self, x: Tensor) -> Tensor:
        """Return what x should be reconstructed as: the input of the encoder's first layer, (B, inputs)."""
        return ((x - self.encoder.mean) / self.encoder.std).flatten(1)


class AutoencoderTask(Task):
    """Reconstruct the inputs from their code, with a share of them set to 0 (denoising): mean squared error.

    Inputs are those of the first layer, normalised: 0 is their mean.
    """

    stage = "autoencoder"
    title = "Learning to draw the pictures again"
    section = "dec"

    def __init__(self, encoder: Network, images: ImageSet, settings: Dec, seed: int) -> None:
        self.autoencoder = Autoencoder(encoder, settings.widths, seed)
        self.module: nn.Module = self.autoencoder
        self.images = images
        self.names = images.names
        self.batch_size = settings.batch_size
        self.noise = settings.noise
        self.seed = seed

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return the pictures with some of their values replaced by the mean, different ones in each epoch."""
        x = self._pictures(items)
        if not self.noise:
            return x
        lost = uniforms(self.seed, "noise of the autoencoder", epoch, items, x[0].numel()) < self.noise
        return torch.where(to_device(lost, x.device).view(x.shape), self.autoencoder.encoder.mean, x)

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the mean over pictures and inputs of (output - input)^2; the inputs here are without zeros."""
        return {"loss": F.mse_loss(outputs, self.autoencoder.wanted(self._pictures(items)))}

    def _pictures(self, items: NDArray[np.int64]) -> Tensor:
        return as_input(self.images.pixels[items], self.autoencoder.encoder.device)


class DecTask(ClusteringTask):
    """The KL divergence of Eq. 3's targets and p (Eq. 1, 2), with the codes themselves in place of a bottleneck's."""

    stage = "dec"
    title = "Deep embedded clustering"

    def __init__(
        self,
        encoder: Network,
        start: Start,
        images: ImageSet,
        settings: Discover,
        seed: int,
        truth: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(encoder, start, images, settings, seed, truth)
        self.head.bottleneck.requires_grad_(False)


def _trained_encoder(problem: Problem) -> Network:
    """Return the encoder of the autoencoder, trained unless the run has it."""
    chosen, seed, images = problem.settings.section(Dec), problem.settings.seed, problem.unsorted
    if not 1 <= len(chosen.widths) <= MOST_LAYERS or not all(1 <= width <= WIDEST for width in chosen.widths):
        raise UsageError(
            f"dec.widths = {list(chosen.widths)} make no encoder: 1 to {MOST_LAYERS} layers, each 1 to {WIDEST} wide, "
            "are possible.",
            hint="Published are dec.widths = [500, 500, 2000, 10].",
        )
    name = "-".join(["encoder", *map(str, chosen.widths)])
    encoder = build_network(name, images.channels, images.size, seed).to(problem.network.device)
    normalise(encoder, images)

    def make() -> dict[str, Tensor]:
        task = AutoencoderTask(encoder, images, chosen, seed)
        problem.train(task, Phase("main", chosen.autoencoder_epochs, chosen))
        return encoder.float().state_dict()

    encoder.load_state_dict(problem.keep("autoencoder", make))
    return encoder


def normalise(encoder: Network, images: ImageSet) -> None:
    """Normalise the encoder's inputs to mean 0 and variance 1: for each channel, or over all axes of embeddings.

    As published, the inputs are scaled to a mean square of 1. Embeddings are divided by a single number, which keeps
    the relative weight of their axes.
    """
    if not images.is_embedding:
        encoder.normalise_by(images.pixels)
        return
    mean = images.pixels.mean(axis=0, dtype=np.float64)
    spread = math.sqrt(float(images.pixels.var(axis=0, dtype=np.float64).mean()))
    encoder.mean.copy_(torch.from_numpy(mean))
    encoder.std.fill_(spread or 1.0)


def _start(codes: NDArray[np.float32], kinds: int, restarts: int, seed: int) -> Start:
    """Return centres by k-means on the codes (N, w), p by Eq. 1, and an identity bottleneck."""
    found = kmeans(codes, kinds, seed=seed, restarts=restarts)
    with one_thread():
        p = assignment(torch.from_numpy(codes).double(), torch.from_numpy(found.centres))
    width = codes.shape[1]
    return Start(
        weight=np.eye(width, dtype=np.float32),
        bias=np.zeros(width, dtype=np.float32),
        centres=found.centres.astype(np.float32),
        probabilities=p.float().numpy(),
        labels=found.labels,
    )


def _as_discovery(chosen: Dec) -> Discover:
    """Return the settings with which Algorithm 1's task is DEC's: no second view, no transfer, targets by Eq. 3.

    It ends when no more than `settled` of the assignments changed in any epoch between two updates of the targets.
    """
    return Discover(
        variant="baseline",
        warmup_epochs=0,
        epochs=chosen.epochs,
        batch_size=chosen.batch_size,
        p_from="pass",
        update_every=chosen.update_every,
        targets="eq3",
        alpha=1.0,
        consistency=0.0,
        augmentation="none",
        first_view="plain",
        settled=chosen.settled,
        settled_epochs=chosen.update_every,
        guard="off",
    )


METHODS = (
    Method(
        "dec",
        "deep embedded clustering, without labels (Xie et al. 2016)",
        dec,
        {"dec": Dec},
        stages={"autoencoder": "Loss of the autoencoder"},
        assigns="dec",
        takes_features=lambda settings: False,
    ),
)
