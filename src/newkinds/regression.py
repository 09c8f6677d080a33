"""Logistic regression that begins from what is known already and is moved by observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from typing_extensions import Self

Array = NDArray[np.float64]

FREEDOM = 0.25  # of the strength of the beginning for the intercept, which differs most between data sets


@dataclass(frozen=True, eq=False)
class Regression:
    """A logistic regression of s signals.

    centre, scale: of the signals, float64 (s,). coefficients: float64 (s + 1,), the intercept first.
    """

    centre: Array
    scale: Array
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """Return the probability of a yes for each row of signals (N, s), float64 (N,)."""
        found: Array = expit(self._design(x) @ self.coefficients)
        return found

    def moved(
        self, x: Array, yes: NDArray[np.bool_], weights: Array, strength: float, freedom: float = FREEDOM
    ) -> Self:
        """Return the regression after observations: signals (n, s), answers (n,) and for how much each counts (n,).

        strength: observations that the beginning counts as, for each coefficient. freedom: of that for the intercept.
        """
        held = strength * np.array([freedom, *np.ones(len(self.centre))])
        found = _newton(self._design(x), yes.astype(np.float64), weights, self.coefficients, held)
        return type(self)(self.centre, self.scale, found)

    def _design(self, x: Array) -> Array:
        return np.concatenate([np.ones((len(x), 1)), (x - self.centre) / self.scale], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return {name: value.tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take back what `to_dict` gave."""
        return cls(**{name: np.array(values[name], dtype=np.float64) for name in ("centre", "scale", "coefficients")})


def _newton(x: Array, yes: Array, weights: Array, start: Array, held: Array) -> Array:
    """Minimise the weighted cross-entropy plus held/2 x the squared distance from the start; it is convex."""

    def loss(b: Array) -> float:
        t = x @ b
        return float(weights @ (np.logaddexp(0, t) - yes * t) + held @ np.square(b - start) / 2)

    b = start
    for _ in range(50):
        p = expit(x @ b)
        slope = x.T @ (weights * (p - yes)) + held * (b - start)
        curvature = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(held)
        step, size = np.linalg.solve(curvature, slope), 1.0
        while size > 1e-6 and loss(b - size * step) > loss(b):
            size /= 2
        b = b - size * step
        if np.abs(step).max() < 1e-9:
            break
    return b
