"""What a run that goes on from another one is made of: known pictures, the heap, and what people said."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, sort_of
from newkinds.cache import Cache
from newkinds.corrections import State
from newkinds.corrections.carried import Carried
from newkinds.corrections.corrected import current_column
from newkinds.corrections.state import number_of
from newkinds.errors import DataError, RunError, UsageError
from newkinds.files import digest
from newkinds.images import Source
from newkinds.images.imageset import ImageSet, image_set, numbered
from newkinds.images.lists import list_to_json
from newkinds.pipeline.earlier import Elsewhere, Files, Part, open_earlier, picture_files, some_of
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.growth import Growth, read_growth
from newkinds.runs.journal import Journal
from newkinds.runs.pictures import Which, open_for

FEWEST = 2  # pictures of a kind that is known


@dataclass(frozen=True, eq=False)
class Composed:
    """The known pictures and the heap of a grown run, with the file of each picture, and what came along.

    parts: the earlier run's pictures, by "known" and "unsorted".
    """

    earlier: RunFolder
    known: ImageSet
    known_files: Files
    unsorted: ImageSet
    unsorted_files: Files
    growth: Growth
    identity: Mapping[str, Any]
    parts: Mapping[Which, Part]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of the files by which the run finds its pictures again."""
        for which, images, files in (
            ("known", self.known, self.known_files),
            ("unsorted", self.unsorted, self.unsorted_files),
        ):
            kinds = None if images.labels is None else [images.classes[label] for label in images.labels.tolist()]
            paths = [file for file in files if file is not None]
            if len(paths) == len(files):
                yield names.pictures(which), list_to_json(images.names, paths, kinds)
            else:
                yield names.pictures(which, files=False), _npz(images, kinds)

    def recalled(self, weights: str | None) -> dict[str, dict[bytes, NDArray[np.float32]]]:
        """Return the features that the earlier run has, by view and by the content of the picture.

        weights: the hash of f, where it comes from elsewhere; if the earlier run had another one, there are none.
        """
        if weights is not None and self.earlier.data.get("weights") not in (None, weights):
            return {}
        found: dict[str, dict[bytes, NDArray[np.float32]]] = {}
        for which, part in self.parts.items():
            for view, ending in (("plain", ""), ("mirrored", "-mirrored")):
                rows = self.earlier.find_array(names.features(f"{which}{ending}")) if part.intact else None
                if rows is not None and len(rows) > part.rows.max(initial=-1):
                    own = zip(part.images.row_keys, part.rows.tolist(), strict=True)
                    found.setdefault(view, {}).update({key: rows[row] for key, row in own})
        return found


def compose(
    earlier: RunFolder,
    heap: Source,
    *,
    where: Elsewhere,
    line: int | None = None,
    cache: Cache | None = None,
    progress: Progress = QUIET,
) -> Composed:
    """Return what goes on from a run with a new heap, by what people said about it.

    line: the last of its journal's lines that counts; None: all. Kinds that people accepted, and pictures that they put
    into known kinds, are known from now on; all other pictures stay in the heap, before the new ones.
    """
    if not earlier.lists(names.KINDS):
        raise RunError(
            f"{earlier.path} is not finished: its pictures have not been sorted yet.",
            hint="Run the command that started it again, which finishes it, and then this one.",
        )
    journal = Journal.open(earlier, progress)
    if line is not None and journal.last > line:
        progress.warn(
            f"People have said more about {earlier.path} since this run was started; this run uses only "
            f"the first {line} lines of its journal. To use everything, start again with another --out."
        )
    line = journal.last if line is None else line
    history, machine = journal.at(line), journal.answer
    state = history.state
    before = read_growth(earlier)
    known = open_earlier(earlier, "known", where.known, where.data, cache, progress)
    old = open_earlier(earlier, "unsorted", where.unsorted, where.data, cache, progress, machine.names)
    new = open_for(earlier, heap, where.data, progress, cache=cache)
    now = [current_column(state, state.kinds[state.kind[row]]) for row in old.rows.tolist()]
    fate, accepted = _fates(state, now, old, machine.kinds.tolist())
    is_known = np.array([one is not None for one in fate], dtype=np.bool_)
    stays = np.flatnonzero(~is_known)
    taken, left_out = _not_there_yet(known.images, old.images, new, str(earlier.path), progress)
    kinds = [*_kinds_of(known.images), *(one for one in fate if one is not None)]
    week = 2 if before is None else before.week + 1
    both = _joined(known, old, np.flatnonzero(is_known), kinds)
    unsorted, files = _heap(old, stays, new, taken, picture_files(new, heap), f"week-{week}")
    since = np.full(len(old.images), 1) if before is None else before.weeks[old.rows]
    carried = _carried(state, [now[row] for row in stays.tolist()], old.rows[stays], accepted, history.next_number)
    was = {} if before is None else dict(before.was)
    growth = Growth(
        week=week,
        run=str(earlier.path.resolve()),
        line=line,
        weeks=np.concatenate([since[stays], np.full(len(taken), week)]).astype(np.int64),
        carried=carried,
        was=was | {name: kind for kind, name in accepted.items() if name not in was},
        accepted={name: sum(one == kind for one in now) for kind, name in accepted.items()},
        confirmed=int(is_known.sum()) - sum(one in accepted for one in now),
        left_out=left_out,
    )
    _say(growth, state, progress)
    identity = {"from": earlier.data["unsorted"]["fingerprint"], "line": line, "heap": new.fingerprint}
    identity |= {"known": both[0].fingerprint, "carried": digest(json.dumps(carried.to_dict()).encode())}
    parts: dict[Which, Part] = {"known": known, "unsorted": old}
    return Composed(earlier, *both, unsorted, files, growth, identity, parts)


def _fates(
    state: State, now: Sequence[str], old: Part, machine: Sequence[str]
) -> tuple[list[str | None], dict[str, str]]:
    """Return the known kind that each earlier picture is of from now on, None if it stays in the heap; and what
    accepted kinds are called.

    A person decides by accepting a kind, by putting a picture into a known one or confirming it there, and by saying
    that a new kind is a known one.
    """
    accepted = {
        kind: state.name_of(kind) or f"kind-{number_of(kind)}"
        for kind, status in state.status.items()
        if status == "accepted" and kind not in state.merged and now.count(kind) >= FEWEST
    }
    fate: list[str | None] = []
    for row, kind in zip(old.rows.tolist(), now, strict=True):
        decided = sort_of(kind) == "known" and (state.said[row] or machine[row] != kind)
        fate.append(accepted.get(kind) or (kind.partition(":")[2] if decided else None))
    return fate, accepted


def _not_there_yet(
    known: ImageSet, old: ImageSet, new: ImageSet, earlier: str, progress: Progress
) -> tuple[NDArray[np.int64], int]:
    """Return which of the new pictures are not among the earlier ones, by content, and how many are."""
    if known.pixels.shape[1:] != new.pixels.shape[1:]:
        raise DataError(
            f"{new.source} has pictures of shape {new.pixels.shape[1:]}, but those in {earlier} have "
            f"shape {known.pixels.shape[1:]}.",
            hint="Give pictures of the same shape.",
        )
    there = {*known.row_keys, *old.row_keys}
    taken = [row for row, key in enumerate(new.row_keys) if key not in there]
    again = [new.names[row] for row, key in enumerate(new.row_keys) if key in there]
    if not taken:
        raise UsageError(
            f"All {len(new):,} pictures in {new.source} are already in {earlier}.",
            hint="Give new pictures; to sort the same ones again, use `newkinds discover ... --again`.",
        )
    if again:
        progress.warn(
            f"{len(again):,} of {len(new):,} pictures in {new.source} are already in {earlier}, and stay "
            f"as they are there: {some_of(again)}."
        )
    return np.array(taken, dtype=np.int64), len(again)


def _kinds_of(images: ImageSet) -> list[str]:
    """Return the kind of each known picture."""
    assert images.labels is not None
    return [images.classes[label] for label in images.labels.tolist()]


def _joined(known: Part, old: Part, rows: NDArray[np.int64], kinds: Sequence[str]) -> tuple[ImageSet, Files]:
    """Return the known pictures and some earlier ones, with the kinds that they are of, and their files."""
    labels, classes = numbered(kinds)
    more = [old.images.names[row] for row in rows.tolist()]
    images = image_set(
        np.concatenate([known.images.pixels, old.images.pixels[rows]]),
        [*known.images.names, *_unlike(more, known.images.names, "heap")],
        labels,
        classes,
        known.images.source,
        labelled=True,
        skipped=known.images.skipped,
    )
    return images, (*known.files, *(old.files[row] for row in rows.tolist()))


def _heap(
    old: Part, stays: NDArray[np.int64], new: ImageSet, taken: NDArray[np.int64], files: Files, week: str
) -> tuple[ImageSet, Files]:
    """Return the earlier pictures that stay in the heap, then the new ones, with their true kinds where they have some,
    and their files.
    """
    before = [old.images.names[row] for row in stays.tolist()]
    truth = [*_truth(old.images, stays), *_truth(new, taken)]
    labels, classes = numbered(truth)
    images = image_set(
        np.concatenate([old.images.pixels[stays], new.pixels[taken]]),
        [*before, *_unlike([new.names[row] for row in taken.tolist()], old.images.names, week)],
        labels if any(truth) else None,
        classes if any(truth) else (),
        new.source,
        labelled=False,
        skipped=new.skipped,
    )
    return images, (*(old.files[row] for row in stays.tolist()), *(files[row] for row in taken.tolist()))


def _truth(images: ImageSet, rows: NDArray[np.int64]) -> list[str]:
    """Return the true kinds of pictures, "" where they are not known: by their labels, or the folders they lie in."""
    if images.labels is not None:
        return [images.classes[label] for label in images.labels[rows].tolist()]
    return [images.names[row].split("/", 1)[0] if "/" in images.names[row] else "" for row in rows.tolist()]


def _unlike(more: Sequence[str], before: Sequence[str], folder: str) -> list[str]:
    """Return names of pictures; if one of them is taken, all are as if they lay in a folder."""
    taken, prefix = set(before), ""
    while taken.intersection(prefix + name for name in more):
        prefix += f"{folder}/"
    return [prefix + name for name in more]


def _carried(
    state: State, kinds: Sequence[str], rows: NDArray[np.int64], accepted: Mapping[str, str], next_number: int
) -> Carried:
    """Return what people said of the pictures that stay in the heap, int64 (E,), which are of these kinds now."""
    own = (state.kinds[kind] for kind in state.kind[rows].tolist())
    rejected = [now == NONE and kind != NONE for now, kind in zip(kinds, own, strict=True)]
    said = state.said[rows] | np.array(rejected, dtype=np.bool_)
    open_ = {kind for kind in kinds if sort_of(kind) == "new"}
    targets = {state.current(kind) for kind in state.merged}
    spoken = {kind for kind, yes in zip(kinds, state.said[rows], strict=True) if yes}
    spoken |= {*state.called, *targets, *state.made, *(k for k, s in state.status.items() if s == "accepted")}
    held = sorted(open_ & spoken, key=lambda kind: number_of(kind) or 0)
    return Carried(
        kinds=tuple(kinds),
        said=said,
        confirmed=state.confirmed[rows].copy(),
        held=tuple(held),
        called={kind: state.called[kind] for kind in held if kind in state.called},
        accepted=tuple(kind for kind in held if state.status.get(kind) == "accepted" and kind not in accepted),
        next_number=next_number,
    )


def _say(growth: Growth, state: State, progress: Progress) -> None:
    """Say what comes along from the earlier run."""
    if not growth.accepted:
        progress.warn(
            f"No new kind in {growth.run} has been accepted, so its new kinds stay open and its pictures "
            "stay in the heap. Name and accept kinds with `newkinds open`."
        )
    for name, number in growth.accepted.items():
        progress.say(f"Known from now on: {name} ({number:,} pictures, formerly {growth.was[name]}).")
    small = [kind for kind in growth.carried.accepted if state.status.get(kind) == "accepted"]
    if small:
        progress.warn(
            f"Accepted, but too small to become known kinds (fewer than {FEWEST} pictures): {', '.join(small)}."
        )
    came = int((~growth.is_new).sum())
    progress.say(f"Week {growth.week}: {int(growth.is_new.sum()):,} new pictures, {came:,} earlier ones.")


def _npz(images: ImageSet, kinds: Sequence[str] | None) -> bytes:
    """Return pictures or embeddings as an .npz file."""
    arrays: dict[str, NDArray[Any]] = {"names": np.array(images.names)}
    if images.is_embedding:
        arrays["embeddings"] = images.pixels
    else:
        arrays["images"] = images.pixels.transpose(0, 2, 3, 1)
    if kinds is not None:
        arrays["labels"] = np.array(kinds)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
