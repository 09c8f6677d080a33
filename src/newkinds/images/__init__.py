"""Files to pixels: find the pictures, decode them, and hold them as an ImageSet."""

from newkinds.images.arrays import load_npz
from newkinds.images.decode import MAX_PIXELS, ImageError
from newkinds.images.imageset import ImageSet, Skipped, fingerprint
from newkinds.images.scan import Found, Scan, scan
from newkinds.images.store import (
    Shape,
    check_known,
    check_unsorted,
    infer_shape,
    load,
    open_images,
    open_pair,
)

__all__ = [
    "MAX_PIXELS",
    "Found",
    "ImageError",
    "ImageSet",
    "Scan",
    "Shape",
    "Skipped",
    "check_known",
    "check_unsorted",
    "fingerprint",
    "infer_shape",
    "load",
    "load_npz",
    "open_images",
    "open_pair",
    "scan",
]
