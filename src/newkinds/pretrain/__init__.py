"""Known kinds to f (Algorithm 1, line 2)."""

from newkinds.pretrain.pretraining import Pretraining

__all__ = ["Pretraining"]
