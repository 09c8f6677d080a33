"""Run one of the studies: python benchmarks/study.py NAME [OPTIONS]; without a name, list them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from runpy import run_module

STUDIES = {file.stem: file for file in sorted((Path(__file__).parent / "studies").glob("[a-z]*.py"))}


def main() -> None:
    """Run the study that is named, with the options that follow its name; the harness can be imported there."""
    name, *options = sys.argv[1:] or [""]
    if name not in STUDIES:
        for known, file in STUDIES.items():
            about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            print(f"{known:15} {about.splitlines()[0].partition(': python ')[0]}")
        sys.exit(None if name in ("", "-h", "--help") else f"There is no study called {name!r}.")
    sys.argv[:] = [f"{sys.argv[0]} {name}", *options]
    run_module(f"studies.{name}", run_name="__main__")


if __name__ == "__main__":
    main()
