"""The variants of transfer clustering: each answers what p' is and what makes q."""

from __future__ import annotations

from torch import Tensor

from newkinds.equations import target


class Variant:
    """DTC-Baseline: no p', and q from the current p."""

    views = 1  # how many views of a picture a step looks at

    def __init__(self, balance: float = 1.0) -> None:
        self.balance = balance

    def other(self, log_p: Tensor) -> tuple[Tensor, Tensor | None]:
        """Split the predictions of all views, log p (views * B, K), into log p (B, K) and p' (B, K) or none."""
        return log_p, None

    def targets(self, p: Tensor) -> Tensor:
        """Return q (N, K) from the current p (N, K) of all pictures, unaugmented (Eq. 3).

        The mass of each kind that Eq. 3 divides by is raised to `balance`.
        """
        return target(p, p.sum(dim=0) ** self.balance)


class Pi(Variant):
    """DTC-Pi: p' is the prediction for a second view; gradients flow through both."""

    views = 2

    def other(self, log_p: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take the first half as log p and the second as p'."""
        first, second = log_p.chunk(2)
        return first, second.exp()


VARIANTS: dict[str, type[Variant]] = {"baseline": Variant, "pi": Pi}
