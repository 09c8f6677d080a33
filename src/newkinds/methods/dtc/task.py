"""Algorithm 1 as a task of the training loop: f, the bottleneck and the centres learn from targets that they make."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.equations import clustering_accuracy, kl_divergence, objective, omega
from newkinds.features import apply, as_input
from newkinds.images.augment import augment, policy
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Choice, Snapshot
from newkinds.methods.dtc.monitor import BestState, agreement, effective_kinds, shared_information
from newkinds.methods.dtc.settings import Discover
from newkinds.methods.dtc.snapshots import Snapshots
from newkinds.methods.dtc.targets import Targets
from newkinds.methods.dtc.variants import VARIANTS
from newkinds.networks import Model, Network, StudentHead
from newkinds.parallel.devices import to_device
from newkinds.randomness import uniforms
from newkinds.settings import Optimiser
from newkinds.start import Start
from newkinds.training import Phase, Record, Task


class ClusteringTask(Task):
    """Train f, the bottleneck and the centres on the unsorted pictures (Algorithm 1, lines 3 to 12).

    truth: int64 (N,), -1 where not known, or None; used for the log only, never for training. watch: receives
    snapshots. neighbours: int64 (N, n), pictures similar under f, over which p is averaged for q; None: p as it is.
    held, new: in a mixed heap, the kinds of labelled pictures and how many kinds are new, see `Targets`.
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
        watch: Callable[[Snapshot], None] | None = None,
        neighbours: NDArray[np.int64] | None = None,
        held: NDArray[np.int64] | None = None,
        new: int | None = None,
    ) -> None:
        assert isinstance(settings.alpha, float)
        assert isinstance(settings.consistency, float)
        kinds, width = start.centres.shape
        self.head = StudentHead(network.feature_dim, kinds, width, settings.alpha)
        start.into(self.head)
        self.model = Model(network, self.head)
        self.module: nn.Module = self.model
        self.consistency = settings.consistency  # omega's maximum
        self.images = unsorted
        self.names = unsorted.names
        self.settings = settings
        self.batch_size = settings.batch_size
        self.seed = seed
        self.truth = truth
        make_targets = Targets(settings, start.labels, len(start.centres), neighbours, held, new)
        self.variant = VARIANTS[settings.variant](make_targets, settings.beta)
        # Inputs per picture. All views of an embedding are the same, so that it goes through the network once.
        self.one_for_all = unsorted.is_embedding and not settings.mixed
        self.views = 1 if self.one_for_all else self.variant.views + settings.mixed
        self.how = policy(settings.augmentation, unsorted.size)
        self.targets = make_targets(torch.from_numpy(start.probabilities))  # q
        self.start_labels = start.labels
        self.labels = start.labels
        self.seen = torch.from_numpy(start.probabilities).clone()  # p of each first view in this epoch's steps
        self.named = start.labels.copy()  # the label of each last view in them
        self.calm = 0  # consecutive epochs in which hardly an assignment changed
        self.best = BestState(settings.guard != "off")
        self.epoch, self.monitor = -1, math.nan  # of the last epoch that ended
        assert isinstance(settings.epochs, int)
        epochs = settings.warmup_epochs + settings.epochs
        heap = unsorted if held is None else unsorted.select(np.flatnonzero(held < 0))  # which come first
        self.snapshots = Snapshots(watch, settings.snapshots, epochs, heap, seed)

    def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
        """Give f, the bottleneck and the centres separate learning rates."""
        rate = optimiser.learning_rate
        return [
            {"params": list(self.model.network.parameters()), "lr": rate * self.settings.backbone_rate},
            {"params": list(self.head.bottleneck.parameters()), "lr": rate},
            {"params": [self.head.centres], "lr": rate * self.settings.centre_rate},
        ]

    def set_mode(self) -> None:
        """Put the module into train mode, but frozen batch norm, or all with `batch_norm = "frozen"`, into eval mode.

        In train mode a step sees other features than the targets were made from: those of its batch's statistics.
        """
        self.module.train()
        for layer in self.module.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                weights = list(layer.parameters())
                is_frozen = bool(weights) and not any(weight.requires_grad for weight in weights)
                if is_frozen or self.settings.batch_norm == "frozen":
                    layer.eval()

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return the variant's views of some pictures, one view after the other: they share batch statistics.

        With mixup, the last one is each picture mixed with another.
        """
        pixels = self.images.pixels[items]
        if self.one_for_all:
            return self._view(pixels, items, epoch, 0)
        views = [self._view(pixels, items, epoch, view) for view in range(self.variant.views)]
        if self.settings.mixed:
            others, share = self._mixed_with(items, epoch)
            share = share.view(-1, *[1] * (views[0].dim() - 1)).to(views[0])
            views.append(share * views[0] + (1 - share) * self._view(self.images.pixels[others], others, epoch, 0))
        return torch.cat(views)

    def _view(self, pixels: NDArray[Any], items: NDArray[np.int64], epoch: int, view: int) -> Tensor:
        """Return a view of some pictures; the first is the picture as it is, if the settings say so."""
        device = self.model.network.device
        if self.images.is_embedding:
            return as_input(pixels, device)
        how = policy("none", self.images.size) if view == 0 and self.settings.first_view == "plain" else self.how
        return augment(to_device(pixels, device), items, how, seed=self.seed, epoch=epoch, view=view)

    def _mixed_with(self, items: NDArray[np.int64], epoch: int) -> tuple[NDArray[np.int64], Tensor]:
        """Return which picture each is mixed with, and its own share (B,), at least half."""
        random = uniforms(self.seed, "mixed", epoch, items, 2)
        return (random[:, 0] * len(self.images)).astype(np.int64), torch.from_numpy((1 + random[:, 1]) / 2)

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return Eq. 6 for a batch, and its two terms; with mixup, its mean with the divergence of mixed pictures."""
        if self.one_for_all:
            outputs = outputs.repeat(self.variant.views, 1)
        if not self.settings.mixed:
            return self._eq6(outputs, items, epoch)
        of_views, of_mixed = outputs[: -len(items)], outputs[-len(items) :]
        found = self._eq6(of_views, items, epoch)
        others, share = self._mixed_with(items, epoch)
        share = share[:, None].to(self.targets)
        q = share * self.targets[torch.from_numpy(items)] + (1 - share) * self.targets[torch.from_numpy(others)]
        divergence = kl_divergence(q.to(outputs), of_mixed, self.settings.kl_normalisation)
        return found | {"loss": (found["loss"] + divergence) / 2, "mixed": divergence}

    def _eq6(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return Eq. 6 for the variant's views of a batch, and its two terms."""
        numbers = torch.from_numpy(items)
        log_p, p_other = self.variant.other(outputs, numbers)
        self.seen[numbers] = log_p.detach().exp().float().cpu()
        self.named[items] = outputs[-len(items) :].detach().argmax(dim=1).cpu().numpy()
        q = self.targets[numbers].to(outputs)
        found = objective(q, log_p, p_other, self._omega(epoch), self.settings.kl_normalisation)
        losses = {"loss": found.loss, "kl": found.divergence}
        return losses if found.consistency is None else {**losses, "consistency": found.consistency}

    def _omega(self, epoch: int) -> float:
        """Return the weight of the consistency; epochs count from the start of the warm-up or of the main loop."""
        since = epoch - (self.settings.warmup_epochs if self.settings.ramp_from == "main" else 0)
        return omega(since, self.settings.ramp_epochs, self.consistency) if since >= 0 else 0.0

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Update q when it is due (Algorithm 1, lines 7 and 11) and log the monitor's measures."""
        from_steps = self.settings.p_from == "steps"
        p = self.seen if from_steps else self.predict()
        # A view against the picture; if steps saw one view only, the previous epoch's labels.
        record = self._measure(p, self.labels if from_steps and self.variant.views == 1 else self.named)
        self.calm = self.calm + 1 if phase.name == "main" and record["changed"] <= self.settings.settled else 0
        self.labels = p.argmax(dim=1).numpy()
        self.variant.epoch_done(p, self.seen)
        # Line 7: after warm-up, whose targets stay the first ones; line 11: after each epoch of the main loop.
        in_main = epoch + 1 - self.settings.warmup_epochs
        if last_of_phase if phase.name == "warmup" else in_main % self.settings.update_every == 0:
            self.targets = self.variant.targets(p)
        self.snapshots.look(epoch + 1, self.model, self.targets)
        self.epoch, self.monitor = epoch, record["shared_information"]
        self.best.offer(self.model, epoch, self.monitor)
        return record

    def _measure(self, p: Tensor, other: NDArray[np.int64]) -> Record:
        """Return measures of p (N, K) that need no truth, and ACC where that is known.

        other: int64 (N,), labels of other views of the same pictures.
        """
        labels, kinds = p.argmax(dim=1).numpy(), p.shape[1]
        record: Record = {
            "changed": float((labels != self.labels).mean()),
            "smallest_kind": int(np.bincount(labels, minlength=kinds).min()),
            "effective_kinds": effective_kinds(labels, kinds),
            "start_agreement": agreement(labels, self.start_labels),
            "shared_information": shared_information(labels, other, kinds),
        }
        if self.truth is not None:
            named = self.truth >= 0
            record["acc"] = clustering_accuracy(labels[named], self.truth[named])
        return record

    def measure_start(self) -> None:
        """Offer the state before training to the guard: later states have to be better."""
        self.snapshots.look(0, self.model, self.targets)
        if self.settings.guard == "off":
            return
        other = self.predict(augmented=True).argmax(dim=1).numpy()
        self.monitor = self._measure(self.predict(), other)["shared_information"]
        self.best.offer(self.model, -1, self.monitor)

    def choose(self) -> tuple[Choice, Model | None]:
        """Restore the weights of the best state if the last is clearly worse by the monitor, and say which was kept.

        Returns the choice, and the last state if it was not the one kept.
        """
        last, best = self.monitor, self.best
        if self.settings.guard == "off":
            return Choice("last", self.epoch, math.nan, math.nan, "nobody watched: discover.guard is off"), None
        numbers = f"shared information of pictures and their views {last:.3f} at the end, {best.value:.3f} at its best"
        if last >= best.value - self.settings.guard_tolerance:
            return Choice("last", self.epoch, last, last, f"no sign of kinds merging: {numbers}"), None
        when = "before training" if best.epoch < 0 else f"after epoch {best.epoch + 1}"
        if self.settings.guard == "warn":
            warning = f"Kinds seem to merge or waver: {numbers}, {when}. The last state is kept, as asked for."
            return Choice("last", self.epoch, last, last, "asked for", warning), None
        ended = copy.deepcopy(self.model)
        self.model.load_state_dict(best.weights)
        why = f"kinds merged or wavered later: {numbers}, {when}"
        warning = f"The state {when} is kept, not the last: {why}. A lower discover.learning_rate may help."
        return Choice("best", best.epoch, best.value, last, why, warning), ended

    def settled(self) -> bool:
        """Return whether assignments have hardly changed for some epochs of the main loop."""
        return self.settings.settled > 0 and self.calm >= self.settings.settled_epochs

    def predict(self, augmented: bool = False) -> Tensor:
        """Return p(k|i) of all pictures as they are, float32 (N, K) (Algorithm 1, line 13), or of a view of each."""
        views = self._a_view if augmented and not self.images.is_embedding else None
        return torch.from_numpy(apply(self.module, self.images, prepare=views)).exp()

    def _a_view(self, pixels: Tensor, items: NDArray[np.int64]) -> Tensor:
        return augment(pixels, items, self.how, seed=self.seed, epoch=0, view=self.variant.views)

    def state(self) -> dict[str, Tensor]:
        """Return q, the last assignments, and the state of the variant and of the guard."""
        own = {"targets": self.targets, "labels": torch.from_numpy(self.labels), "calm": torch.tensor(self.calm)}
        own |= {f"variant.{name}": value for name, value in self.variant.state().items()}
        return own | {f"best.{name}": value for name, value in self.best.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.targets, self.labels, self.calm = state["targets"], state["labels"].numpy(), int(state["calm"])
        for prefix, owner in (("variant.", self.variant), ("best.", self.best)):
            owner.load_state({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
