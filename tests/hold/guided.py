"""Look for files that break a reader, guided by coverage: python tests/hold/guided.py READER SECONDS [FOLDER].

Needs the extra `fuzz`. READER: a name of `readers.House.readers`, such as names.json. What breaks it is kept in FOLDER,
by default the current one, as atheris does; put it into tests/hold/corpus/ as READER--WHAT when it is mended.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["NEWKINDS_CACHE"] = ""
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import atheris  # noqa: E402

with atheris.instrument_imports(include=["newkinds"]):
    from readers import House

from newkinds.errors import NewkindsError  # noqa: E402


def main() -> None:
    """Fuzz one reader."""
    name, seconds, *rest = sys.argv[1:]
    root = Path(tempfile.mkdtemp())
    (reader,) = (one for one in House(root).readers() if one.name == name)
    corpus = root / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(seed)

    def read(data: bytes) -> None:
        folder = root / "here"
        folder.mkdir()
        try:
            reader.read(data, folder)
        except NewkindsError:
            pass
        finally:
            shutil.rmtree(folder)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        dice = random.Random(seed)
        try:
            changed = reader.mutate(data, dice)
        except Exception:  # it is no longer of the form that the mutation understands
            changed = data
        return bytes(atheris.Mutate(changed[:most], most))

    limits = [f"-max_total_time={seconds}", "-timeout=15", "-rss_limit_mb=3000", "-max_len=100000"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={Path(*rest or ['.'])}/", str(corpus)], read, custom_mutator=mutate
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
