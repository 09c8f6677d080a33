"""The bench: cells by name, what is there is not measured again, what differs from the paper is written down."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from newkinds.errors import DataError, NewkindsError, UsageError
from newkinds.files import digest
from newkinds.runs import RunFolder
from newkinds_bench import TABLES, Results, Where, bench, measure, render
from newkinds_bench.cells import Cell, cells, settings_of, shared_settings
from newkinds_bench.setups import OURS, SETUPS, Trained
from newkinds_bench.starts import opened
from newkinds_bench.tables import Row
from publishers import write_cifar10, write_omniglot

FAST: dict[str, Any] = {
    "discover.warmup_epochs": 1,
    "discover.epochs": 1,
    "similarity.epochs": 1,
    "similarity.milestones": (),
    "pairs.epochs": 1,
    "pairs.milestones": (),
    "count.max_kinds": 4,
    "count.splits": 1,
}


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Where:
    """Make a small OmniGlot and let all go fast."""
    opened.cache_clear()
    write_omniglot(tmp_path / "data", characters=3, drawers=6)
    recipe = {"network": "vgg6-4-2-slim", "pretrain.loss": "prototypical", "pretrain.epochs": 1}
    first = Trained("f-25", "omniglot:train", recipe)
    then = Trained("f-30", "omniglot:background", recipe, after=first)
    small = replace(SETUPS["omniglot"], f=then, f_but_probes=first, own=FAST)
    monkeypatch.setitem(SETUPS, "omniglot", small)
    return Where(tmp_path / "results", tmp_path / "runs", tmp_path / "weights", tmp_path / "data")


def drop(where: Where, name: str) -> None:
    """Take the line of a run out of its file."""
    file = where.results / "omniglot.jsonl"
    lines = [line for line in file.read_text().splitlines(keepends=True) if f'"name":"{name}"' not in line]
    file.write_text("".join(lines))


def test_every_table_names_what_there_is() -> None:
    for table in TABLES.values():
        assert table.rows
        for row in table.rows:
            assert set(row.paper) <= set(table.setups) or table.kind == "figure"
        for cell in cells(table, OURS, 1):
            assert settings_of(cell).method == (cell.row.method if cell.row.method != "count" else "dtc")
        names = [cell.name for cell in cells(table, OURS, 2)]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[\w()-]+", name) for name in names)


def test_the_same_work_has_one_name_in_all_tables() -> None:
    pi = "omniglot-Tengwar--dtc-pi--k-true--ours--0"
    assert sum(pi in {cell.name for cell in cells(TABLES[name], OURS, 1)} for name in TABLES) == 2
    te = "cifar100-unlabelled--dtc-te--k-true--ours--0"
    assert all(te in {cell.name for cell in cells(TABLES[name], OURS, 1)} for name in ("known-k", "kcl-mcl"))


def test_a_result_says_what_was_measured_and_is_not_measured_again(where: Where) -> None:
    only = ["omniglot:Tengwar", "kmeans-on-pixels", "dtc"]
    names = bench("omniglot-imagenet", only=only, where=where)
    assert names == ["omniglot-Tengwar--kmeans-on-pixels--k-true--ours--0", "omniglot-Tengwar--dtc-pi--k-true--ours--0"]
    found = Results(where.results).all()[names[1]]
    assert (found["data"], found["known"], found["kinds"]) == ("omniglot:Tengwar", "omniglot:background", 3)
    assert 0 <= found["acc"] <= 1
    assert {"nmi_geometric", "nmi_arithmetic", "ari", "version", "machine", "seconds"} <= set(found)
    assert found["epochs"] == {"discover": 2}
    assert found["f"]["epochs"] == 1
    assert found["differs_from_paper"]["network"] == ["vgg6-4-2-slim", "vgg6-4-2"]
    assert found["differs_from_paper"]["discover.epochs"] == [1, 90]
    assert "discover.beta" not in found["differs_from_paper"]  # the same in both
    run = where.runs / names[1]
    before = {path: path.stat().st_mtime_ns for path in [*run.rglob("*"), *where.results.glob("*.jsonl")]}
    assert bench("omniglot-imagenet", only=only, where=where) == names
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # A result that is lost is made again from the run that is there, without running it.
    drop(where, names[1])
    bench("omniglot-imagenet", only=only, where=where)
    again = Results(where.results).all()[names[1]]
    assert again["seconds"] is None  # it was not measured in one go
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_an_estimate_is_made_once_and_taken_by_every_row(where: Where) -> None:
    names = bench("unknown-k", only=["omniglot:Tengwar", "dtc"], where=where)
    counted = Results(where.results).all()["omniglot-Tengwar--count--k-auto--ours--0"]
    found = Results(where.results).all()[names[0]]
    assert found["kinds_asked"] == "auto"
    assert found["kinds"] == counted["kinds"]
    assert (counted["known"], found["known"]) == ("omniglot:background", "omniglot:train")
    assert counted["f"] == found["f"]  # which has not seen the probes
    assert counted["error_in_k"] == abs(counted["kinds"] - 3)
    assert counted["count"]["low"] <= counted["kinds"] <= counted["count"]["high"]


def test_f_of_all_known_kinds_goes_on_from_that_without_probes(where: Where) -> None:
    (name,) = bench("known-k", only=["omniglot:Tengwar", "kmeans"], where=where)
    first, then = (RunFolder.open(where.runs / run) for run in ("f-25", "f-30"))
    assert [run.sources["known"] for run in (first, then)] == ["omniglot:train", "omniglot:background"]
    found = Results(where.results).all()[name]
    assert found["f"]["sha256"] == digest(then.get("network.safetensors"))
    assert found["f"]["after"] == digest(first.get("network.safetensors"))


def test_pairs_share_their_similarity_network_and_drop_what_is_small(where: Where) -> None:
    names = bench("kcl-mcl-our-k", only=["omniglot:Tengwar", "KCL", "MCL"], where=where)
    assert len(names) == 2
    assert [path.name for path in where.runs.glob("similarity*")] == ["similarity-omniglot-ours"]
    assert not list(where.runs.glob("*/model/similarity.safetensors.*"))
    assert not (where.runs / names[0] / "model" / "similarity.safetensors").exists()


def test_data_that_is_not_there_is_left_out_or_an_error(where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NewkindsError, match="CIFAR-100"):
        bench("wrong-k", where=where)
    names = bench("omniglot-imagenet", only=["kmeans", "omniglot:Tengwar"], where=where)
    assert names == ["omniglot-Tengwar--kmeans-on-pixels--k-true--ours--0"]


def test_what_fails_is_said_and_the_rest_goes_on(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    real = measure._measure

    def fails(cell: Cell, where: Where) -> None:
        if cell.row.method == "lsc":
            raise DataError("lost")
        real(cell, where)

    monkeypatch.setattr(measure, "_measure", fails)
    with pytest.raises(DataError, match=r"2 of 3 results could not be measured.*lost"):
        bench("omniglot-imagenet", only=["omniglot:Tengwar", "lsc", "kmeans"], where=where)
    assert list(Results(where.results).all()) == ["omniglot-Tengwar--kmeans-on-pixels--k-true--ours--0"]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ("nown-k", {}, "Did you mean 'known-k'"),
        ("known-k", {"preset": "papers"}, "Did you mean 'paper'"),
        ("known-k", {"only": ["tengwar"]}, "omniglot:Tengwar"),
        ("known-k", {"seeds": 0}, "at least 1"),
        ("known-k", {"jobs": 0}, "at least 1"),
        ("known-k", {"backend": "slurm"}, "loky"),
    ],
)
def test_what_is_asked_for_wrongly_is_named(table: str, options: dict[str, Any], words: str, where: Where) -> None:
    with pytest.raises(UsageError) as caught:
        bench(table, where=where, **options)
    assert words in str(caught.value)
    assert not where.results.exists()


def test_presets_train_their_own_f() -> None:
    cell = Cell("omniglot", "omniglot:Tengwar", Row("KCL", "kcl", {}), "paper", 3)
    chosen = settings_of(cell)
    assert (chosen.method, chosen.seed, chosen.network) == ("kcl", 3, "vgg6-4-2")
    assert chosen.similarity.start == "fresh"
    assert shared_settings(cell).seed == 0


def test_single_methods_have_settings_of_their_own() -> None:
    row = {method: Row(method, method, {}) for method in ("kcl", "mcl", "dtc")}
    found = {
        (method, preset): settings_of(Cell("omniglot", "omniglot:Tengwar", row[method], preset, 0)).precision
        for method in row
        for preset in (OURS, "paper")
    }
    assert {key for key, precision in found.items() if precision == "bfloat16"} == {("kcl", OURS), ("mcl", OURS)}


def test_a_part_of_the_pictures_is_named_so(where: Where) -> None:
    noted = replace(where, note="three | of\nmany")
    (name,) = bench("omniglot-imagenet", only=["omniglot:Tengwar", "kmeans-on-pixels"], each=4, where=noted)
    assert name == "omniglot-Tengwar-4-each--kmeans-on-pixels--k-true--ours--0"
    found = Results(where.results).all()[name]
    assert (found["pictures"], found["each"], found["true_kinds"]) == (12, 4, 3)
    render(where.results, where.runs)
    page = (where.runs / "results.md").read_text()
    row = next(line for line in page[page.index("only in part") :].splitlines() if line.startswith(f"| {name} | 12 |"))
    assert row.endswith(" | 3 | three \\| of many |")
    assert "`omniglot" not in page  # it fills no cell
    with pytest.raises(UsageError, match="at least 2"):
        bench("omniglot-imagenet", each=1, where=where)


def test_a_network_from_elsewhere_takes_the_place_of_f(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar10(tmp_path / "data")
    (tmp_path / "elsewhere.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Flatten()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    network = "elsewhere:build"
    (name,) = bench("imagenet-to-cifar10", only=["kmeans"], network=network, each=2, where=where)
    assert name == "cifar10-all-2-each--kmeans--k-true--ours-elsewhere_build--0"
    found = Results(where.results).all()[name]
    assert (found["known"], found["kinds"], found["f"]) == ("cifar10:labelled", 10, {"network": network})


def test_f_is_trained_on_what_its_set_up_says() -> None:
    for setup in SETUPS.values():
        assert setup.f is None or setup.f.known == setup.known
        assert setup.f_but_probes is None or setup.f_but_probes.known == setup.but_probes


def test_parts_are_those_of_the_data_sets(tmp_path: Path) -> None:
    for setup in SETUPS.values():
        for part in (setup.known, setup.but_probes or setup.known, setup.counted_with, *setup.unsorted):
            with pytest.raises(DataError):  # there is no data; a part that is not known would be a UsageError
                opened(part.replace("DRAW", "0"), tmp_path)


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Where:
    """Make a small CIFAR-10 whose f is trained in a moment."""
    opened.cache_clear()
    write_cifar10(tmp_path / "data")
    setup = SETUPS["cifar10-gcd"]
    assert setup.f is not None
    f = replace(setup.f, recipe={"network": "vgg6-4-2-slim", "pretrain.epochs": 1})
    short = {"gcd.epochs": 1, "gcd.projection": (8, 4)}
    monkeypatch.setitem(SETUPS, "cifar10-gcd", replace(setup, f=f, own={**setup.own, **short}))
    return Where(tmp_path / "results", tmp_path / "runs", tmp_path / "weights", tmp_path / "data")


def test_a_mixed_heap_is_scored_by_one_matching(mixed: Where) -> None:
    names = bench("gcd", only=["cifar10-gcd", "gcd", "nearest-known"], where=mixed)
    assert names == [f"cifar10-gcd-heap--{name}--k-true--ours--0" for name in ("nearest-known", "gcd")]
    for name in names:
        found = Results(mixed.results).all()[name]
        assert (found["data"], found["known"]) == ("cifar10:gcd-heap", "cifar10:gcd-labelled")
        assert (found["pictures"], found["true_kinds"]) == (75, 5)
        assert found["all"] == pytest.approx((found["old"] * 25 + found["new"] * 50) / 75, abs=1e-4)
        assert 0 <= found["auroc"] <= 1
        assert found["f"]["network"] == "vgg6-4-2-slim"
        run = RunFolder.open(mixed.runs / name)
        assert run.settings.heap == "mixed"
    with pytest.raises(UsageError, match="no settings 'paper'"):
        bench("gcd", only=["cifar10-gcd", "gcd"], preset="paper", where=mixed)


def test_rows_of_published_figures_alone_are_not_measured() -> None:
    assert any(row.label == "CMS" for row in TABLES["gcd"].rows)
    assert {cell.row.method for cell in cells(TABLES["gcd"], OURS, 1)} == {
        "nearest-known",
        "gcd",
        "pim",
        "simgcd",
        "dtc",
    }
