"""The four variants of deep transfer clustering: each defines p' and how q is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from newkinds.equations import corrected, ensemble, target


class Variant:
    """DTC-Baseline: no p', and q from the current p.

    make_targets: from p (N, K) to q (N, K), Eq. 3 or another. beta: the momentum of the ensembles (Eq. 4).
    """

    views = 1  # of each picture in a step

    def __init__(self, make_targets: Callable[[Tensor], Tensor] = target, beta: float = 0.6) -> None:
        self.make_targets = make_targets
        self.beta = beta

    def other(self, log_p: Tensor, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """Split the predictions of all views, log p (views * B, K), into log p (B, K) and p' (B, K) or none.

        items: int64 (B,), which pictures they are of.
        """
        return log_p, None

    def epoch_done(self, p: Tensor, seen: Tensor) -> None:
        """Record p (N, K) of all pictures at the end of an epoch.

        seen: (N, K), what the epoch's steps predicted for each picture's first view.
        """

    def targets(self, p: Tensor) -> Tensor:
        """Return q (N, K) from the current p (N, K) of all pictures, unaugmented."""
        return self.make_targets(p)

    def state(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""


class Pi(Variant):
    """DTC-Pi: p' is the prediction for a second view; gradients flow through both."""

    views = 2

    def other(self, log_p: Tensor, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take the first half as log p and the second as p'."""
        first, second = log_p.chunk(2)
        return first, second.exp()


class _Ensemble(Variant):
    """A variant that keeps a moving average of all epochs' predictions."""

    def __init__(self, make_targets: Callable[[Tensor], Tensor] = target, beta: float = 0.6) -> None:
        super().__init__(make_targets, beta)
        self.average: Tensor | None = None  # P^t (N, K) (Eq. 4)
        self.epochs = 0  # t

    def add(self, p: Tensor) -> None:
        """Add the predictions of another epoch, p (N, K), to the average."""
        previous = torch.zeros_like(p) if self.average is None else self.average
        self.average = ensemble(previous, p, self.beta)
        self.epochs += 1

    def mean(self) -> Tensor | None:
        """Return the bias-corrected average (Eq. 5), or None before the first epoch has ended."""
        return None if self.average is None else corrected(self.average, self.beta, self.epochs)

    def state(self) -> dict[str, Tensor]:
        """Return the average."""
        return {} if self.average is None else {"average": self.average, "epochs": torch.tensor(self.epochs)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the average."""
        if state:
            self.average, self.epochs = state["average"], int(state["epochs"])


class TE(_Ensemble):
    """DTC-TE: p' is the ensemble of the predictions for augmented pictures in earlier epochs' steps.

    In the first epoch there is none yet, and therefore no consistency term.
    """

    def other(self, log_p: Tensor, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take p' from the ensemble, as a constant."""
        mean = self.mean()
        return log_p, None if mean is None else mean[items].to(log_p)

    def epoch_done(self, p: Tensor, seen: Tensor) -> None:
        """Add the predictions of this epoch's steps to the ensemble."""
        self.add(seen)


class TEP(_Ensemble):
    """DTC-TEP: q is made from the ensemble of the unaugmented predictions after each epoch; no p'."""

    def epoch_done(self, p: Tensor, seen: Tensor) -> None:
        """Add p to the ensemble."""
        self.add(p)

    def targets(self, p: Tensor) -> Tensor:
        """Return q (N, K) from the ensemble (Eq. 5)."""
        mean = self.mean()
        return super().targets(p if mean is None else mean)


VARIANTS: dict[str, type[Variant]] = {"baseline": Variant, "pi": Pi, "te": TE, "tep": TEP}
