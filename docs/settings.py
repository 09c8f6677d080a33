"""Write docs/settings.md from the settings as they are declared: `make docs`."""

from __future__ import annotations

from pathlib import Path

from newkinds.configure import Settings
from newkinds.settings.words import page

if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(Settings), encoding="utf-8")
