"""`python -m newkinds` and the command `newkinds`: signals are handled before anything slow is imported."""

from __future__ import annotations

from typing import NoReturn

from newkinds.stopping import handle_signals


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    handle_signals()
    from newkinds.cli import main as run

    run()


if __name__ == "__main__":
    main()
