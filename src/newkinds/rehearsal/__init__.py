"""Rehearsals: known kinds are hidden and sorted as if they were the heap, which shows how far to trust the result."""
