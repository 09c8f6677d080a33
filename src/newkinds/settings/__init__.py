"""Settings: frozen values, checked, each with its default and its reason. `newkinds.configure` puts all together."""

from newkinds.settings.base import Optimiser, PolicyName, Section
from newkinds.settings.core import CoreSettings, Count, Images, Initialise, Pretrain

__all__ = ["CoreSettings", "Count", "Images", "Initialise", "Optimiser", "PolicyName", "Pretrain", "Section"]
