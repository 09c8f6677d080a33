"""newkinds discovers new visual categories among unsorted pictures, with the help of pictures that are sorted."""

from newkinds.api import count, discover, evaluate, figures, load, prepare, report
from newkinds.api import predict_images as predict
from newkinds.assignment import Assignment
from newkinds.clustering import ConstrainedKMeans
from newkinds.compare import Comparison, compare
from newkinds.configure import Settings
from newkinds.count import count_kinds
from newkinds.discovery import Discovery
from newkinds.errors import NewkindsError
from newkinds.export import export_run as export
from newkinds.features import extract_features
from newkinds.images import ImageSet, open_images
from newkinds.methods.dtc import cluster
from newkinds.pretrain import pretrain
from newkinds.progress import Progress
from newkinds.version import __version__

__all__ = [
    "Assignment",
    "Comparison",
    "ConstrainedKMeans",
    "Discovery",
    "ImageSet",
    "NewkindsError",
    "Progress",
    "Settings",
    "__version__",
    "cluster",
    "compare",
    "count",
    "count_kinds",
    "discover",
    "evaluate",
    "export",
    "extract_features",
    "figures",
    "load",
    "open_images",
    "predict",
    "prepare",
    "pretrain",
    "report",
]
