"""The run folder and its checkpoints: the only reader and writer of run state."""

from newkinds.runs.folder import DamagedError, RunFolder

__all__ = ["DamagedError", "RunFolder"]
