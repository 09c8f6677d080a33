"""The file names of a run folder, defined here and nowhere else."""

from __future__ import annotations

ABOUT = "run.json"  # the data and the outputs of the run, each output with its hash
SETTINGS = "settings.toml"
LOG = "log.jsonl"
LOCK = ".lock"
JOURNAL = "journal.jsonl"  # what people said about the answer, only appended to; no command remakes or deletes it
JOURNAL_ASIDE = "journal-aside.jsonl"  # lines of it that were torn or broken
CHECKPOINTS = "checkpoint"  # a folder, empty when the run is finished

GROWN = "grown.json"  # in a run that goes on from another one: what came along from it
NETWORK = "network.safetensors"  # f before it met the unsorted pictures
KNOWN_QUALITY = "known-quality.json"  # how well the known kinds are told apart, beside guessing
TRANSFER = "transfer.safetensors"  # what the known kinds teach about features that are not trained
NOVELTY = "novelty.json"  # whether the heap holds known kinds, too, and how many pictures of them
NOVELTIES = "features/novelty.npy"  # how probably each unsorted picture is of a new kind
COUNT = "count.json"  # how the number of kinds was estimated
COUNT_PLOT = "count.png"
AGAIN = "again.json"  # what people had said when the pictures were sorted again
REHEARSAL = "rehearsal.json"  # how well hidden known kinds were sorted, and what was chosen by that
TRUST = "trust.json"  # what to expect of the answer
KINDS = "kinds.csv"  # the answer as a table; when it is there, the pictures are sorted
ASSIGNMENT = "assignment.json"  # the columns of the answer, and where it came from
PROBABILITIES = "features/probabilities.npy"  # its numbers
UNCALIBRATED = "features/uncalibrated.npy"  # what the method said, where rehearsals say what that means
EMBEDDING = "features/embedding.npy"
KNOWN = "known.json"  # the names of the known kinds
MODEL = "model/weights.safetensors"  # what `predict` uses
NEAREST_KNOWN = "features/nearest-known.safetensors"  # how near the known kinds are to kinds and pictures
CHOICE = "choice.json"  # which epoch's state was kept, and why
LAST_MODEL = "model/last.safetensors"  # the last state, where an earlier one was kept
LAST_PROBABILITIES = "features/probabilities-last.npy"
SNAPSHOTS = "snapshots"  # a folder
SCORES = "scores.json"
REPORT = "report"
PAGE = "report/index.html"
FIGURES = "figures"
COST = "cost.json"  # in a comparison: what the run took


def pictures(which: str, *, files: bool = True) -> str:
    """Return the file of a grown run's own "known" or "unsorted" pictures: a list of files, or the pictures."""
    return f"pictures/{which}.{'list.json' if files else 'npz'}"


def features(which: str) -> str:
    """Return the file of f's features of the "unsorted" pictures or of the "probes"."""
    return f"features/{which}.npy"


def rehearsal(number: int) -> str:
    """Return the file of what came of a rehearsal."""
    return f"rehearsal/{number:02d}.safetensors"


def auxiliary(name: str) -> str:
    """Return the file of an auxiliary network's weights."""
    return f"model/{name}.safetensors"


def snapshot(epoch: int) -> str:
    """Return the file of the snapshot after `epoch` epochs."""
    return f"{SNAPSHOTS}/{epoch:04d}.safetensors"
