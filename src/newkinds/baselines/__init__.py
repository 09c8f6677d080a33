"""The systems that the paper compares with, each a method like DTC: they get the same and give the same."""
