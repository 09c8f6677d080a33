"""What a damaged file takes with it, and what counts again when it has come out as before."""

from __future__ import annotations

import pytest

from newkinds.runs import names
from newkinds.runs.outputs import STAGES, Ledger, after, stage_of

ALL = (
    names.NETWORK, names.features("unsorted"), names.features("known"), names.TRANSFER, names.KNOWN_QUALITY,
    names.COUNT, names.COUNT_PLOT, names.rehearsal(0), names.rehearsal(1), names.REHEARSAL, names.TRUST, names.MODEL,
    names.PROBABILITIES, names.KINDS, names.snapshot(0), names.SCORES, names.PAGE,
)  # fmt: skip


class Disk:
    """Files that are there, by their hashes."""

    def __init__(self) -> None:
        self.there = {name: f"hash of {name}" for name in ALL}

    def ledger(self) -> Ledger:
        return Ledger(dict(self.there), None, lambda name, known: self.there.get(name) == known)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def fell(disk: Disk, *damaged: str) -> tuple[Ledger, set[str]]:
    ledger = disk.ledger()
    for name in damaged:
        disk.there[name] = "damaged"
    assert ledger.damaged() == sorted(damaged)
    return ledger, set(ledger.drop(damaged, []))


def test_each_stage_needs_stages_above_it() -> None:
    above: set[str] = set()
    for stage in STAGES:
        assert set(stage.needs) <= above, stage.name
        above.add(stage.name)
    assert len(above) == len(STAGES)


def test_every_file_name_has_its_stage() -> None:
    folders = {names.CHECKPOINTS, names.SNAPSHOTS, names.REPORT, names.FIGURES}
    state = {names.ABOUT, names.SETTINGS, names.LOG, names.LOCK, names.JOURNAL, names.JOURNAL_ASIDE}
    files = {value for key, value in vars(names).items() if key.isupper()} - folders - state
    assert all(stage_of(file).name for file in files)
    assert stage_of(names.features("probes-mirrored")).name == "features"
    assert stage_of(names.PROBABILITIES).name == "sort"
    assert stage_of(names.auxiliary("similarity")).name == "auxiliary"
    assert stage_of(names.snapshot(7)).name == "sort"
    assert stage_of(names.rehearsal(3)).name == "rehearsals"
    assert stage_of("new.json").name == ""


def test_what_falls(disk: Disk) -> None:
    assert fell(Disk(), names.PAGE)[1] == {names.PAGE}
    assert fell(Disk(), names.SCORES)[1] == {names.SCORES, names.PAGE}
    assert fell(Disk(), names.KNOWN_QUALITY)[1] == {names.KNOWN_QUALITY, names.PAGE}
    assert fell(Disk(), names.COUNT_PLOT)[1] == {names.COUNT_PLOT}
    sort = {names.TRUST, names.MODEL, names.PROBABILITIES, names.KINDS, names.snapshot(0), names.SCORES, names.PAGE}
    assert fell(Disk(), names.MODEL)[1] == sort
    assert fell(Disk(), names.TRUST)[1] == sort
    assert fell(Disk(), names.REHEARSAL)[1] == sort | {names.REHEARSAL}
    assert fell(Disk(), names.rehearsal(1))[1] == sort | {names.REHEARSAL, names.rehearsal(1)}
    assert {names.rehearsal(0), names.rehearsal(1)} <= fell(Disk(), names.COUNT)[1]
    assert fell(Disk(), names.features("known"))[1] == set(ALL) - {names.NETWORK, names.features("unsorted")}
    assert fell(Disk(), names.NETWORK)[1] == set(ALL)
    assert after({"network"}) == {stage.name for stage in STAGES} - {"grown", "network", "again", "cost"}


def test_an_output_that_the_table_does_not_know_may_have_been_used_by_all(disk: Disk) -> None:
    disk.there["new.json"] = "new"
    assert fell(disk, "new.json")[1] == {*ALL, "new.json"}


def test_what_comes_out_as_before_brings_the_rest_back(disk: Disk) -> None:
    ledger, _ = fell(disk, names.features("unsorted"))
    assert ledger.expected(names.KINDS) is None
    name = names.features("unsorted")
    disk.there[name] = f"hash of {name}"
    ledger.add(name, disk.there[name])
    assert ledger.expected(names.KINDS) == disk.there[names.KINDS]
    assert {names.MODEL, names.snapshot(0), names.TRANSFER, names.COUNT} <= ledger.outputs.keys()
    assert names.PAGE not in ledger.outputs  # nobody has asked for it yet
    for name in (names.PAGE, names.COUNT_PLOT):
        assert ledger.expected(name) == disk.there[name]
    assert ledger.fallen is None
    assert ledger.outputs == disk.there


def test_what_comes_out_otherwise_does_not(disk: Disk) -> None:
    ledger, _ = fell(disk, names.features("unsorted"))
    ledger.add(names.features("unsorted"), "other")
    for name in (names.TRANSFER, names.COUNT, names.KINDS, names.SCORES, names.PAGE):
        assert ledger.expected(name) is None


def test_a_stage_is_gone_through_again_as_a_whole(disk: Disk) -> None:
    ledger, _ = fell(disk, names.MODEL)
    for name in (names.KINDS, names.snapshot(0), names.PAGE):  # intact on disk
        assert ledger.expected(name) is None
    made = (names.TRUST, names.MODEL, names.PROBABILITIES, names.KINDS)
    for name in made:
        ledger.add(name, f"hash of {name}")
    assert ledger.expected(names.SCORES) is None  # one of the stage's outputs is not there yet
    ledger.add(names.snapshot(0), f"hash of {names.snapshot(0)}")
    assert ledger.expected(names.SCORES) == disk.there[names.SCORES]
    assert ledger.expected(names.PAGE) == disk.there[names.PAGE]
    assert ledger.fallen is None


def test_what_was_damaged_after_it_fell_does_not_come_back(disk: Disk) -> None:
    ledger, _ = fell(disk, names.features("unsorted"))
    disk.there[names.MODEL] = "damaged meanwhile"
    ledger.add(names.features("unsorted"), f"hash of {names.features('unsorted')}")
    assert ledger.expected(names.KINDS) is None


def test_a_stage_may_lose_something_that_is_no_output(disk: Disk) -> None:
    ledger = disk.ledger()
    assert set(ledger.drop([], ["sort"])) >= {names.KINDS, names.MODEL, names.SCORES, names.PAGE}
    assert ledger.expected(names.KINDS) is None
