"""Pretraining: f is trained on the known kinds (Algorithm 1, line 2)."""

from newkinds.pretrain.pretraining import Pretraining

__all__ = ["Pretraining"]
