"""Studies beside the paper's tables, one file each: `python benchmarks/study.py NAME`."""
