"""Every reader of a file: from which good files a mutated one is made, and how it is asked to read it."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from damage import QUIET, SETTINGS, discover, killed, outcome
from mutation import (
    Mutation,
    bytes_changed,
    journal_changed,
    json_changed,
    npz_changed,
    safetensors_changed,
    toml_changed,
)
from PIL import Image

import newkinds as nk
from newkinds.configure import make_settings
from newkinds.errors import DataError, NewkindsError
from newkinds.evaluation.truth import read_truth
from newkinds.export.names import read_names
from newkinds.files import digest, sealed, unsealed
from newkinds.images.decode import decode, probe
from newkinds.images.lists import list_to_json
from newkinds.networks.files import load_plain, read_network
from newkinds.runs import RunFolder, names
from newkinds.settings.files import read_toml
from pictures import photograph, write_embeddings, write_pictures


@dataclass(frozen=True)
class Reader:
    """A reader. seeds: good files. mutate: how they are changed, beside byte by byte. read: reads one, in a folder."""

    name: str
    seeds: tuple[bytes, ...]
    mutate: Mutation
    read: Callable[[bytes, Path], object]

    def mutated(self, dice: random.Random) -> bytes:
        """Return a changed file."""
        seed = dice.choice(self.seeds)
        return self.mutate(seed, dice) if dice.random() < 0.6 else bytes_changed(seed, dice)


class House:
    """Good files of all sorts, made once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sets = write_embeddings(root)
        self.run = root / "run"
        few = {**SETTINGS, "rehearse": {"rehearsals": 1, "choose": "off"}}
        discover(self.sets, self.run, settings=few)
        self.killed = killed(self.sets, root / "killed", settings=few)
        self.spoken = copied(self.run, root / "spoken")
        found = nk.load(self.spoken)
        pictures = found.names
        last = [name for name, kind in zip(found.names, found.kinds, strict=True) if kind == "new:2"][-2:]
        for said in (
            {"do": "name", "kind": "new:0", "name": "star"},
            {"do": "move", "pictures": list(pictures[:1]), "to": "new:1"},
            {"do": "split", "kind": "new:2", "parts": [{"pictures": last}]},
            {"do": "accept", "kinds": ["new:0"]},
        ):
            nk.journal(self.spoken, say=said, progress=QUIET)
        nk.journal(self.spoken, undo=True, progress=QUIET)
        self.grown = self._grown(root)
        write_pictures(root / "photos", ("bolt", "gear"), each=2)

    def _grown(self, root: Path) -> Path:
        """Return a run that goes on from the one that was spoken about."""
        with np.load(self.sets[1]) as arrays:
            np.savez(root / "next.npz", embeddings=arrays["embeddings"] + np.float32(0.01), labels=arrays["labels"])
        few = {"rehearsals": 0, "kinds": 2, "page": False, "cache": False, "progress": QUIET}
        nk.grow(self.spoken, root / "next.npz", out=root / "grown", **few)
        return root / "grown"

    def readers(self) -> list[Reader]:
        """Return all readers."""
        return [*self.of_pictures(), *self.of_lists(), *self.of_inputs(), *self.of_journals(), *self.of_runs()]

    # What users give

    def of_pictures(self) -> list[Reader]:
        def read(data: bytes, folder: Path) -> object:
            file = folder / "picture"
            file.write_bytes(data)
            probe(file, max_pixels=10**6)
            return decode(data, size=16, channels=3, max_pixels=10**6)

        made = {}
        colours = Image.fromarray(photograph(0, 32).transpose(1, 2, 0))
        for form, options in (
            ("PNG", {}),
            ("JPEG", {}),
            ("WEBP", {}),
            ("GIF", {}),
            ("BMP", {}),
            ("TIFF", {"compression": "tiff_lzw"}),
        ):
            stream = io.BytesIO()
            colours.save(stream, form, **options)
            made[form] = stream.getvalue()
        made["TIFF group 4"] = self._fax(colours)
        return [Reader(f"picture {form}", (data,), bytes_changed, read) for form, data in made.items()]

    @staticmethod
    def _fax(colours: Image.Image) -> bytes:
        stream = io.BytesIO()
        colours.convert("1").save(stream, "TIFF", compression="group4")
        return stream.getvalue()

    def of_lists(self) -> list[Reader]:
        paths = sorted(str(path) for path in (self.root / "photos").rglob("*.png"))
        table = "path,label\n" + "".join(f"{path},{Path(path).parent.name}\n" for path in paths)
        found = RunFolder.open(self.run).get(names.KINDS)

        def read(data: bytes, folder: Path) -> object:
            (folder / "list.csv").write_bytes(data)
            return nk.open_images(folder / "list.csv", labelled=True, progress=QUIET)

        def truth(data: bytes, folder: Path) -> object:
            (folder / "truth.csv").write_bytes(data)
            return read_truth(folder / "truth.csv", nk.open_images(self.sets[1], progress=QUIET), QUIET)

        def listed(data: bytes, folder: Path) -> object:
            (folder / "known.list.json").write_bytes(data)
            return nk.open_images(folder / "known.list.json", labelled=True, progress=QUIET)

        own = list_to_json([f"a{n}" for n in range(len(paths))], list(map(Path, paths)), ["bolt"] * len(paths))
        readers = [
            Reader("list.json", (own,), json_changed, listed),
            Reader("list.csv", (table.encode(), table.replace(",", ";").encode()), bytes_changed, read),
            Reader("truth.csv", (found,), bytes_changed, truth),
        ]
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            return readers
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"path": paths, "label": ["a"] * len(paths)}), stream)

        def parquet(data: bytes, folder: Path) -> object:
            (folder / "list.parquet").write_bytes(data)
            return nk.open_images(folder / "list.parquet", labelled=True, progress=QUIET)

        return [*readers, Reader("list.parquet", (stream.getvalue(),), bytes_changed, parquet)]

    def of_inputs(self) -> list[Reader]:
        def npz(data: bytes, folder: Path) -> object:
            (folder / "a.npz").write_bytes(data)
            found = nk.open_images(folder / "a.npz", labelled=True, progress=QUIET)
            return nk.Assignment.of_new(found.names, np.ones((len(found), 1), np.float32)).table()

        def settings(data: bytes, folder: Path) -> object:
            (folder / "a.toml").write_bytes(data)
            return make_settings(read_toml(folder / "a.toml")).to_toml()

        def called(data: bytes, folder: Path) -> object:
            (folder / "names.json").write_bytes(data)
            return read_names(folder / "names.json", ("new:0", "new:1", "new:2"), {}, "run", QUIET)

        def network(data: bytes, folder: Path) -> object:
            (folder / "a.safetensors").write_bytes(data)
            read_network(folder / "a.safetensors")
            loaded = nk.load_network(folder / "a.safetensors")
            outcome(lambda: load_plain(loaded.network, data, "here"))
            return loaded.classes, repr(loaded)

        stream = io.BytesIO()
        rng = np.random.default_rng(0)
        np.savez(
            stream,
            images=rng.integers(0, 256, (48, 8, 8), dtype=np.uint8),
            labels=np.arange(48) % 3,
            names=np.array([f"p{n}" for n in range(48)]),
        )
        given = b'{"newkinds": "names", "run": "run", "names": {"0": "circle", "1": "star"}}'
        return [
            Reader("arrays.npz", (stream.getvalue(), self.sets[0].read_bytes()), npz_changed, npz),
            Reader("settings file", ((self.run / names.SETTINGS).read_bytes(),), toml_changed, settings),
            Reader("names.json", (given,), json_changed, called),
            Reader("weights", ((self.run / names.NETWORK).read_bytes(),), safetensors_changed, network),
        ]

    def of_journals(self) -> list[Reader]:
        def journal(data: bytes, folder: Path) -> object:
            path = copied(self.spoken, folder / "run")
            (path / names.JOURNAL).unlink()
            (path / names.JOURNAL).write_bytes(data)
            found = [outcome(partial(ask, path, self.sets)) for ask in (_said, _load, _export, _mended)]
            if NewkindsError in map(_class, found):
                raise DataError("refused")
            return found

        def taken(ending: str) -> Callable[[bytes, Path], object]:
            def read(data: bytes, folder: Path) -> object:
                path = copied(self.spoken, folder / "run")
                unlinked(path / names.JOURNAL)
                (folder / f"said.{ending}").write_bytes(data)
                return nk.journal(path, take=folder / f"said.{ending}", progress=QUIET).lines

            return read

        table = (self.run / names.KINDS).read_bytes()
        studio = json.dumps(
            [
                {
                    "data": {"image": "00"},
                    "annotations": [{"result": [{"type": "choices", "value": {"choices": ["star"]}}]}],
                }
            ]
        ).encode()
        return [
            Reader(names.JOURNAL, ((self.spoken / names.JOURNAL).read_bytes(),), journal_changed, journal),
            Reader("corrections.csv", (table,), bytes_changed, taken("csv")),
            Reader("corrections.json", (studio,), json_changed, taken("json")),
        ]

    # What a run folder holds: also what somebody else has written into it, hashes and all

    def of_runs(self) -> list[Reader]:
        files = sorted(RunFolder.open(self.run)._about["outputs"])
        readers = [
            Reader(name, ((self.run / name).read_bytes(),), _mutation(name), self._in_run(name))
            for name in files
            if not name.endswith((".png", ".html"))
        ]
        for name, mutate in ((names.ABOUT, json_changed), (names.SETTINGS, toml_changed), (names.LOG, bytes_changed)):
            readers.append(Reader(name, ((self.run / name).read_bytes(),), mutate, self._in_run(name)))
        for name, mutate in ((names.GROWN, json_changed), (names.pictures("unsorted", files=False), npz_changed)):
            read = self._in_run(name, self.grown)
            readers.append(Reader(name, ((self.grown / name).read_bytes(),), mutate, read))
        file = max((self.killed / names.CHECKPOINTS).iterdir())
        kept = Reader("checkpoint", (file.read_bytes(),), safetensors_changed, self._checkpoint(file.name))
        return [*readers, kept]

    def _in_run(self, name: str, run: Path | None = None) -> Callable[[bytes, Path], object]:
        def read(data: bytes, folder: Path) -> object:
            path = copied(run or self.run, folder / "run")
            replace(path, name, data)
            few = run is not None or len(data) % 10  # the last two take most of the time, and do not grow
            some = ASKED[:4] if few else ASKED
            found = [outcome(partial(ask, path, self.sets)) for ask in some]
            if NewkindsError in map(_class, found):
                raise DataError("refused")
            return found

        return read

    def _checkpoint(self, name: str) -> Callable[[bytes, Path], object]:
        stage, epoch, _ = name.split("-")

        def read(data: bytes, folder: Path) -> object:
            path = copied(self.killed, folder / "run")
            (path / names.CHECKPOINTS / name).unlink()
            (path / names.CHECKPOINTS / f"{stage}-{epoch}-{digest(data)}.safetensors").write_bytes(data)
            run = RunFolder.open(path)
            return run.checkpoints().load(stage), run.checkpoints().marks()

        return read


def copied(run: Path, path: Path) -> Path:
    """Return a copy of a run folder: of links, but for the log, the only file that is written to in its place."""
    shutil.copytree(run, path, copy_function=os.link)
    unlinked(path / names.LOG)
    return path


def unlinked(file: Path) -> None:
    """Make a file that is a link one of its own."""
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)


def _class(found: object) -> object:
    return found if isinstance(found, type) else type(found)


def replace(path: Path, name: str, data: bytes) -> None:
    """Put another file into a run folder, with its hash in run.json, and run.json with its own."""
    about = unsealed((path / names.ABOUT).read_bytes())
    file = path / name
    file.unlink()
    file.write_bytes(data)
    if name == names.ABOUT:
        try:
            file.write_bytes(sealed(unsealed(data)))
        except (ValueError, TypeError):
            file.write_bytes(data)
        return
    if name == names.SETTINGS:
        about["settings"] = digest(data)
    elif name == names.LOG:
        about["log"] = {"sort": {"bytes": len(data), "sha256": digest(data)}}
    else:
        about["outputs"][name] = digest(data)
    (path / names.ABOUT).unlink()
    (path / names.ABOUT).write_bytes(sealed(about))


def _mutation(name: str) -> Mutation:
    if name.endswith(".json"):
        return json_changed
    return safetensors_changed if name.endswith(".safetensors") else bytes_changed


def _load(path: Path, sets: Sequence[Path]) -> Any:
    found = nk.load(path)
    return repr(found), found.labels, found.kinds, found.assignment.table(), found._repr_html_()


def _said(path: Path, sets: Sequence[Path]) -> Any:
    return nk.journal(path, progress=QUIET).lines


def _mended(path: Path, sets: Sequence[Path]) -> Any:
    return nk.journal(path, mend=True, progress=QUIET).lines


def _predict(path: Path, sets: Sequence[Path]) -> Any:
    return nk.predict(path, sets[1], progress=QUIET).table()


def _history(path: Path, sets: Sequence[Path]) -> Any:
    run = RunFolder.open(path)
    return run.history(), run.settings, run.is_whole, run.sources


def _export(path: Path, sets: Sequence[Path]) -> Any:
    target = path.parent / "table.csv"
    target.unlink(missing_ok=True)
    return nk.export(path, "csv", target, progress=QUIET)


def _report(path: Path, sets: Sequence[Path]) -> Any:
    return nk.report(path, progress=QUIET)


def _discover(path: Path, sets: Sequence[Path]) -> Any:
    few = {**SETTINGS, "rehearse": {"rehearsals": 1, "choose": "off"}}
    return discover((sets[0], sets[1]), path, settings=few)


ASKED: tuple[Callable[[Path, Sequence[Path]], Any], ...] = (_load, _history, _predict, _export, _report, _discover)
