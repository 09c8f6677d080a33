"""Loading images: folders, lists and arrays are scanned, decoded and held as an ImageSet."""

from newkinds.images.arrays import load_npz
from newkinds.images.decode import MAX_PIXELS, ImageError
from newkinds.images.imageset import ImageSet, Skipped, fingerprint
from newkinds.images.lists import Listing
from newkinds.images.overlap import check_out, check_places, check_shared
from newkinds.images.scan import Found, Scan, scan
from newkinds.images.sources import Source, files_of, in_memory, opened_once
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
    "Listing",
    "Scan",
    "Shape",
    "Skipped",
    "Source",
    "check_known",
    "check_out",
    "check_places",
    "check_shared",
    "check_unsorted",
    "files_of",
    "fingerprint",
    "in_memory",
    "infer_shape",
    "load",
    "load_npz",
    "open_images",
    "open_pair",
    "opened_once",
    "scan",
]
