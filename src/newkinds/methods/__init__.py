"""Methods of sorting unsorted pictures: deep transfer clustering and what it is compared with; see `registry.py`."""
