"""Every choice that changes a result, with its default and the reason for it."""

from newkinds.settings.settings import *  # noqa: F403
