"""The pipeline: the stages of a run in order, each resolved, run, kept in the run folder and skipped if it is there."""
