"""`python -m newkinds`."""

from newkinds.cli import main

main()
