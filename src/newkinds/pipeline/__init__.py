"""The stages of a run in order: what decides about each, runs it, keeps it, and skips it when it is there."""
