"""Algorithm 1 as a task of the training loop: f, the bottleneck and the centres learn from targets that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.discover.variants import VARIANTS
from newkinds.equations import clustering_accuracy, consistency, kl_divergence, objective, omega
from newkinds.features import apply, as_input, device_of
from newkinds.images.augment import augment, policy
from newkinds.images.imageset import ImageSet
from newkinds.initialise import Start
from newkinds.networks import ClusteringNetwork, Network
from newkinds.settings import Discover, Optimiser
from newkinds.training import Phase, Record, Task


class ClusteringTask(Task):
    """Train f, the bottleneck and the centres on the unsorted pictures (Algorithm 1, lines 3 to 12).

    truth: int64 (N,), -1 where not known, or None; used for the log only, never for training.
    """

    stage = "discover"
    title = "Discovering new kinds"

    def __init__(
        self,
        network: Network,
        start: Start,
        unsorted: ImageSet,
        settings: Discover,
        seed: int,
        truth: NDArray[np.int64] | None = None,
    ) -> None:
        self.module: nn.Module = _with_start(network, start, settings.alpha)
        self.images = unsorted
        self.names = unsorted.names
        self.settings = settings
        self.batch_size = settings.batch_size
        self.seed = seed
        self.truth = truth
        self.variant = VARIANTS[settings.variant](settings.balance)
        self.how = policy(settings.augmentation, unsorted.size)
        self.targets = torch.from_numpy(start.targets)  # q
        self.labels = torch.from_numpy(start.labels)

    def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
        """Give f a learning rate of its own beside the bottleneck's and the centres'."""
        rate = optimiser.learning_rate
        backbone = [w for name, w in self.module.named_parameters() if "network." in name]
        head = [w for name, w in self.module.named_parameters() if "network." not in name]
        return [{"params": backbone, "lr": rate * self.settings.backbone_rate}, {"params": head, "lr": rate}]

    def set_mode(self) -> None:
        """Train with batch norm as in evaluation, unless the settings say otherwise.

        Otherwise a step sees other features than the targets were made from: those of its batch's statistics.
        """
        self.module.train()
        if self.settings.batch_norm == "frozen":
            for layer in self.module.modules():
                if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                    layer.eval()

    def losses(self, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return Eq. 6 for a batch, and its two terms."""
        device = device_of(self.module)
        log_p, p_other = self.variant.other(self.module(self._views(items, epoch, device)))
        q = self.targets[torch.from_numpy(items)].to(device)
        weight = omega(epoch, self.settings.ramp_epochs, self.settings.consistency)
        losses = {"loss": objective(q, log_p, p_other, weight, self.settings.kl_normalisation)}
        losses["kl"] = kl_divergence(q, log_p.detach(), self.settings.kl_normalisation)
        if p_other is not None:
            losses["consistency"] = consistency(log_p.detach().exp(), p_other.detach())
        return losses

    def _views(self, items: NDArray[np.int64], epoch: int, device: torch.device) -> Tensor:
        """Return the variant's views of a batch, one below the other: one pass, so that they share batch statistics."""
        pixels = self.images.pixels[items]
        if self.images.is_embedding:
            return as_input(pixels, device).repeat(self.variant.views, 1)
        batch = torch.from_numpy(pixels).to(device)
        plain = policy("none", self.images.size)
        views = []
        for view in range(self.variant.views):
            how = plain if view == 0 and self.settings.first_view == "plain" else self.how
            views.append(augment(batch, items, how, seed=self.seed, epoch=epoch, view=view))
        return torch.cat(views)

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Update q when it is due (Algorithm 1, lines 7 and 11) and log how many assignments changed."""
        p = self.predict()
        labels = p.argmax(dim=1)
        record: Record = {
            "changed": float((labels != self.labels).float().mean()),
            "smallest_kind": int(torch.bincount(labels, minlength=p.shape[1]).min()),
        }
        if self.truth is not None:
            named = self.truth >= 0
            record["acc"] = clustering_accuracy(labels[torch.from_numpy(named)], self.truth[named])
        self.labels = labels
        # Line 7: after warm-up, whose targets stay the first ones; line 11: after each epoch of the main loop.
        in_main = epoch + 1 - self.settings.warmup_epochs
        if last_of_phase if phase.name == "warmup" else in_main % self.settings.update_every == 0:
            self.targets = self.variant.targets(p)
        return record

    def predict(self) -> Tensor:
        """Return p(k|i) of all pictures as they are, float32 (N, K) (Algorithm 1, line 13)."""
        return torch.from_numpy(apply(self.module, self.images)).exp()

    def state(self) -> dict[str, Tensor]:
        """Return q and the last assignments."""
        return {"targets": self.targets, "labels": self.labels}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take q and the last assignments back."""
        self.targets, self.labels = state["targets"], state["labels"]


def _with_start(network: Network, start: Start, alpha: float) -> ClusteringNetwork:
    """Return f with the bottleneck and the centres of `start` behind it."""
    kinds, width = start.centres.shape
    module = ClusteringNetwork(network, kinds, width, alpha)
    with torch.no_grad():
        module.bottleneck.weight.copy_(torch.from_numpy(start.weight))
        module.bottleneck.bias.copy_(torch.from_numpy(start.bias))
        module.centres.copy_(torch.from_numpy(start.centres))
    return module
