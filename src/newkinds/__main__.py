"""`python -m newkinds` and the command `newkinds`: signals are handled before anything slow is imported."""

from __future__ import annotations

from typing import NoReturn

from newkinds.stopping import Stopped, handle_signals, leave


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        handle_signals()
        from newkinds.cli import main as run

        run()
    except Stopped as stopped:  # between two lines of ours, outside of what the command line catches
        leave(stopped.number)


if __name__ == "__main__":
    main()
