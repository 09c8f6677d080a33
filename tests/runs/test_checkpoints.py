"""Checkpoints on disk: hashed, two generations, a damaged one passed over."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import Tensor

import newkinds.runs.checkpoints as module
from newkinds.files import digest
from newkinds.progress import Progress
from newkinds.runs.checkpoints import DiskCheckpoints
from newkinds.tensors import to_bytes


def state(epoch: int) -> dict[str, Tensor]:
    return {
        "module.weight": torch.full((2, 3), float(epoch)),
        "task.labels": torch.tensor([epoch, 7]),
        "optimiser.0.step": torch.tensor(float(epoch)),
    }


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def kept(tmp_path: Path, said: io.StringIO) -> DiskCheckpoints:
    return DiskCheckpoints(tmp_path, seconds=0, progress=Progress("quiet", said))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def newest(folder: Path) -> Path:
    return max(folder.iterdir())


def test_round_trip(kept: DiskCheckpoints) -> None:
    assert kept.load("discover") is None
    kept.save("discover", 3, state(3))
    loaded = kept.load("discover")
    assert loaded is not None
    epoch, tensors = loaded
    assert epoch == 3
    assert tensors.keys() == state(3).keys()
    assert all(torch.equal(tensors[name], value) for name, value in state(3).items())
    assert {name: value.dtype for name, value in tensors.items()} == {n: v.dtype for n, v in state(3).items()}


def test_the_name_holds_epoch_and_hash(kept: DiskCheckpoints) -> None:
    kept.save("discover", 12, state(12))
    (file,) = kept.folder.iterdir()
    assert file.name == f"discover-000012-{digest(file.read_bytes())}.safetensors"


def test_two_generations_are_kept(kept: DiskCheckpoints, said: io.StringIO) -> None:
    for epoch in (1, 2, 9, 10, 11):
        kept.save("discover", epoch, state(epoch))
        assert kept.load("discover")[0] == epoch
    assert [name[:15] for name in names(kept.folder)] == ["discover-000010", "discover-000011"]
    assert said.getvalue() == ""


def test_stages_are_kept_apart(kept: DiskCheckpoints) -> None:
    for epoch in (5, 6, 7):
        kept.save("pretrain", epoch, state(epoch))
    kept.save("discover", 1, state(1))
    kept.save("discover", 2, state(2))
    assert kept.load("pretrain")[0] == 7
    assert kept.load("discover")[0] == 2
    assert kept.load("pre") is None
    assert len(names(kept.folder)) == 4


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "junk"])
def test_a_damaged_one_is_passed_over_with_a_warning(damage: str, kept: DiskCheckpoints, said: io.StringIO) -> None:
    for epoch in (1, 2):
        kept.save("discover", epoch, state(epoch))
    file = newest(kept.folder)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes({"flip": bytes(data), "cut": data[:-7], "empty": b"", "junk": b"\x80\x04junk"}[damage])
    epoch, tensors = kept.load("discover")
    assert epoch == 1
    assert torch.equal(tensors["module.weight"], state(1)["module.weight"])
    warning = said.getvalue()
    assert warning.startswith("Warning: ")
    assert file.name in warning.replace("\n", "")
    assert "damaged" in warning
    # The run goes on, and what it writes next is taken.
    kept.save("discover", 2, state(2))
    assert kept.load("discover")[0] == 2
    kept.save("discover", 3, state(3))
    assert kept.load("discover")[0] == 3


def test_both_damaged_start_anew(kept: DiskCheckpoints, said: io.StringIO) -> None:
    for epoch in (1, 2):
        kept.save("discover", epoch, state(epoch))
    for file in kept.folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert kept.load("discover") is None
    assert said.getvalue().count("Warning") == 2


def test_a_right_hash_over_wrong_content_is_damaged(kept: DiskCheckpoints, said: io.StringIO) -> None:
    kept.save("discover", 1, state(1))
    (kept.folder / f"discover-000002-{digest(b'junk')}.safetensors").write_bytes(b"junk")
    assert kept.load("discover")[0] == 1
    assert "damaged" in said.getvalue()


def test_a_hash_of_another_file_is_damaged(kept: DiskCheckpoints, said: io.StringIO) -> None:
    kept.save("discover", 1, state(1))
    other = to_bytes(state(2), {})
    (kept.folder / f"discover-000002-{digest(b'')}.safetensors").write_bytes(other)
    assert kept.load("discover")[0] == 1
    assert "damaged" in said.getvalue()


def test_other_files_are_left_alone(kept: DiskCheckpoints, said: io.StringIO) -> None:
    strangers = ["notes.txt", "discover-000009.safetensors", ".tmp-discover-000009-x.safetensors", "discover-9-ab.pt"]
    for name in strangers:
        (kept.folder / name).write_text("mine")
    for epoch in (1, 2, 3):
        kept.save("discover", epoch, state(epoch))
    assert kept.load("discover")[0] == 3
    assert set(strangers) < set(names(kept.folder))
    assert said.getvalue() == ""


def test_equal_states_have_equal_bytes(kept: DiskCheckpoints, tmp_path: Path) -> None:
    kept.save("discover", 1, state(1))
    again = tmp_path / "again"
    again.mkdir()
    DiskCheckpoints(again).save("discover", 1, dict(reversed(state(1).items())))
    assert newest(again).read_bytes() == (kept.folder / newest(again).name).read_bytes()


def test_a_failed_write_keeps_the_older_ones(kept: DiskCheckpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    for epoch in (1, 2):
        kept.save("discover", epoch, state(epoch))
    before = names(kept.folder)

    def fail(path: Path, data: bytes, root: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_atomic", fail)
    with pytest.raises(OSError, match="No space left"):
        kept.save("discover", 3, state(3))
    assert names(kept.folder) == before
    assert kept.load("discover")[0] == 2


def test_clear(kept: DiskCheckpoints) -> None:
    kept.save("discover", 1, state(1))
    kept.save("pretrain", 1, state(1))
    (kept.folder / "notes.txt").write_text("mine")
    kept.clear()
    assert names(kept.folder) == ["notes.txt"]
    assert kept.load("discover") is None


def test_due_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    checkpoints = DiskCheckpoints(tmp_path, seconds=10)
    assert not checkpoints.due()
    now[0] = 109.9
    assert not checkpoints.due()
    now[0] = 110.0
    assert checkpoints.due()
    checkpoints.save("discover", 1, state(1))
    assert not checkpoints.due()
    now[0] = 121.0
    assert checkpoints.due()
    assert DiskCheckpoints(tmp_path, seconds=0).due()
