"""Heads, which turn f's features into probabilities of kinds, and models: f followed by a head.

A head says how to rebuild it (`about`, `build`), so that a model can be saved, loaded, exported and applied to new
pictures whatever method it comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import Self

from newkinds.equations import log_assignment
from newkinds.networks.network import Network
from newkinds.randomness import seeded_torch


class Head(nn.Module, ABC):
    """Features (B, d) to log p(k|i), float32 (B, K)."""

    name: ClassVar[str]  # in a file of weights

    @property
    @abstractmethod
    def kinds(self) -> int:
        """K, how many kinds it tells apart."""

    @abstractmethod
    def embed(self, features: Tensor) -> Tensor:
        """Return the embedding (B, w) of features (B, d): the space in which the kinds are told apart."""

    @abstractmethod
    def log_p(self, embedding: Tensor) -> Tensor:
        """Return log p(k|i), float32 (B, K), of an embedding (B, w)."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what `build` needs to rebuild it, as JSON values; the weights are saved separately."""

    @classmethod
    @abstractmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return a head for features of this width, as `about` describes it; its weights are loaded afterwards."""

    def forward(self, features: Tensor) -> Tensor:
        """Return log p(k|i), float32 (B, K), of features (B, d)."""
        return self.log_p(self.embed(features))


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer whose weights will be replaced; torch's global generator is left untouched."""
    with seeded_torch(0, "bottleneck"):
        return nn.Linear(inputs, outputs)


class StudentHead(Head):
    """The paper's: the bottleneck (A, b) to (B, w), and a Student t around the centres U (K, w) (Eq. 1)."""

    name = "student-t"

    def __init__(self, feature_dim: int, kinds: int, width: int, alpha: float = 1.0) -> None:
        super().__init__()
        self.bottleneck = _linear(feature_dim, width)
        self.centres = nn.Parameter(torch.zeros(kinds, width))
        self.alpha = alpha

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return len(self.centres)

    def embed(self, features: Tensor) -> Tensor:
        """Return the embeddings z (B, w)."""
        embedding: Tensor = self.bottleneck(features)
        return embedding

    def log_p(self, embedding: Tensor) -> Tensor:
        """Return Eq. 1 in logarithms."""
        return log_assignment(embedding, self.centres, self.alpha)

    def about(self) -> dict[str, Any]:
        """Return the number of kinds, the width and the degrees of freedom."""
        return {"kinds": self.kinds, "width": self.centres.shape[1], "alpha": self.alpha}

    @classmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return one with centres at zero."""
        return cls(feature_dim, int(about["kinds"]), int(about["width"]), float(about["alpha"]))


class SoftmaxHead(Head):
    """A linear layer to logits (B, K) and a softmax."""

    name = "softmax"

    def __init__(self, feature_dim: int, kinds: int) -> None:
        super().__init__()
        self.bottleneck = _linear(feature_dim, kinds)

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return self.bottleneck.out_features

    def embed(self, features: Tensor) -> Tensor:
        """Return the logits (B, K)."""
        logits: Tensor = self.bottleneck(features)
        return logits

    def log_p(self, embedding: Tensor) -> Tensor:
        """Return the logarithm of the softmax."""
        return torch.log_softmax(embedding, dim=1)

    def about(self) -> dict[str, Any]:
        """Return the number of kinds."""
        return {"kinds": self.kinds}

    @classmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return one with fresh weights."""
        return cls(feature_dim, int(about["kinds"]))


class Outputs(NamedTuple):
    """The outputs of a model for B pictures: features (B, d), their embedding (B, w), log p(k|i) (B, K)."""

    features: Tensor
    embedding: Tensor
    log_p: Tensor


class Model(nn.Module):
    """f followed by a head: pictures to log p(k|i). The head is on f's device."""

    def __init__(self, network: Network, head: Head) -> None:
        super().__init__()
        self.network = network
        self.head = head.to(network.device)

    @property
    def kinds(self) -> int:
        """How many kinds it tells apart."""
        return self.head.kinds

    def outputs(self, x: Tensor) -> Outputs:
        """Return features, embedding and log p(k|i) of pictures (B, C, H, W), in one pass."""
        features: Tensor = self.network(x)
        embedding = self.head.embed(features)
        return Outputs(features, embedding, self.head.log_p(embedding))

    def forward(self, x: Tensor) -> Tensor:
        """Return log p(k|i), float32 (B, K)."""
        log_p: Tensor = self.head(self.network(x))
        return log_p
