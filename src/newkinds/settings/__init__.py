"""Settings: frozen, validated, each with its default and description. `newkinds.configure` combines them all."""

from newkinds.settings.base import Optimiser, PolicyName, Section
from newkinds.settings.core import CoreSettings
from newkinds.settings.count import Count
from newkinds.settings.images import Images
from newkinds.settings.initialise import Initialise
from newkinds.settings.pretrain import Pretrain
from newkinds.settings.transfer import Transfer

__all__ = [
    "CoreSettings",
    "Count",
    "Images",
    "Initialise",
    "Optimiser",
    "PolicyName",
    "Pretrain",
    "Section",
    "Transfer",
]
