"""The page of results: what the files say, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from newkinds.errors import DataError
from newkinds.files import digest
from newkinds_bench import DOCS, TABLES, Results, render
from newkinds_bench.cells import row_name
from newkinds_bench.house import RESULTS
from newkinds_bench.measured import Measured
from newkinds_bench.setups import SETUPS


def result(folder: Path, name: str, **values: Any) -> None:
    part, _, _, _, seed = name.split("--")
    about = {"data": part.replace("-", ":", 1), "seed": int(seed), "acc": 0.5, "nmi_geometric": 0.25}
    Results(folder).put(part.partition("-")[0], name, about | values)


def row(page: str, start: str, table: str) -> list[str]:
    """Return the cells of the first row that begins with `start` in a table of the page."""
    lines = page[page.index(f"## {table}") :].splitlines()
    line = next(line for line in lines if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path) -> None:
    files = render(RESULTS, tmp_path)
    assert (DOCS / "results.md").read_bytes() == (tmp_path / "results.md").read_bytes()
    for file in files[1:]:
        assert (DOCS / file.relative_to(tmp_path)).exists(), f"{file.name} is not committed"


def test_every_committed_result_is_of_a_cell_of_some_table(tmp_path: Path) -> None:
    page = (DOCS / "results.md").read_text()
    patterns = [line.split("`")[1].removesuffix("*") for line in page.splitlines() if line.startswith("  - ")]
    for name in Results(RESULTS).all():
        start, _, rest = name.partition("--")
        dataset = start.partition("-")[0]
        assert name in page or any(  # those of a part of the data are listed by name
            pattern.startswith(dataset) and rest.startswith(pattern.partition("--")[2]) for pattern in patterns
        ), name


def test_published_figures_stand_beside_ours_with_both_backbones(tmp_path: Path) -> None:
    for seed, all_ in enumerate((0.5, 0.7)):
        values = {"all": all_, "old": 0.9, "new": 0.25, "f": {"network": "vgg6-5-1-slim"}, "pictures": 37_500}
        name = f"cifar10-gcd-heap--simgcd--k-true--ours--{seed}"
        about = {"data": "cifar10:gcd-heap", "seed": seed, "acc": 0.5, "nmi_geometric": 0.25}
        Results(tmp_path / "results").put("cifar10-gcd", name, {**about, **values})
    render(tmp_path / "results", tmp_path)
    page = (tmp_path / "results.md").read_text()
    table = "Generalized category discovery"
    head = row(page, "Method", table)
    assert head[1:3] == ["CIFAR-10, 5 \\| 5: published, ViT-B/16, DINO", "CIFAR-10, 5 \\| 5: ours, vgg6-5-1-slim"]
    assert len(head) == 6  # of groceries, nothing is published
    found = row(page, "SimGCD", table)
    assert found[1:3] == ["97.1 / 95.1 / 98.1", "60.0 ± 14.1 / 90.0 ± 0.0 / 25.0 ± 0.0"]
    assert row(page, "CMS", table)[1:] == ["", "", "82.3 / 85.7 / 75.5", "", ""]


def test_means_are_over_parts_and_spreads_over_seeds(tmp_path: Path) -> None:
    for seed, (first, second) in enumerate([(0.8, 0.9), (0.9, 1.0)]):
        for part, acc in (("omniglot-Tengwar", first), ("omniglot-Angelic", second)):
            result(tmp_path / "results", f"{part}--dtc-pi--k-true--ours--{seed}", acc=acc, nmi_geometric=acc / 2)
    render(tmp_path / "results", tmp_path)
    page = (tmp_path / "results.md").read_text()
    cells = row(page, "DTC-Π", "Table 1")
    assert cells[7:9] == ["89.0 / 0.949", "90.0 ± 7.1 (2 of 20) / 0.450 ± 0.035 (2 of 20)"]
    assert cells[2] == ""  # nothing of CIFAR-10
    assert row(page, "DTC", "Table 2")[2] == cells[8]  # the same runs
    assert row(page, "k-means", "Table 1")[8] == ""
    assert "`omniglot-*--dtc-pi--k-true--ours--*` (4) in `omniglot.jsonl`" in page


def test_seeds_that_not_all_parts_have_are_left_out_of_the_mean() -> None:
    def one(part: str, seed: int, acc: float) -> dict[str, Any]:
        return {"data": part, "seed": seed, "acc": acc}

    some = Measured((one("a", 0, 0.5), one("b", 0, 0.7), one("a", 1, 0.0)), 2)
    assert some.seeds == [0]
    assert some.text("acc", 100, 1) == "60.0"
    assert Measured((), 2).text("acc", 100, 1) == ""


def test_estimates_stand_beside_the_papers(tmp_path: Path) -> None:
    count = {"low": 20, "high": 24}
    name = "omniglot-Angelic--count--k-auto--ours--0"
    result(tmp_path / "results", name, kinds=22, true_kinds=20, error_in_k=2, count=count)
    render(tmp_path / "results", tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert row(page, "Angelic", "Tables 4 and 8") == ["Angelic", "20", "26", "22", "23", "22 (20 to 24)"]
    assert row(page, "mean error", "Tables 4 and 8")[2:] == ["6.35", "5.10", "4.60", ""]  # not of one alphabet
    assert "held the true number for 1 of 1 alphabets" in page


def test_studies_are_drawn_the_same_every_time(tmp_path: Path) -> None:
    rows = {one.label: one for one in TABLES["bottleneck-width"].rows}

    def name(width: int) -> str:
        return "--".join(["cifar100-unlabelled", *row_name("cifar100", rows[str(width)]), "ours", "0"])

    for width, acc in ((2, 0.3), (10, 0.6), (40, 0.5)):
        result(tmp_path / "results", name(width), acc=acc)
    first, second = (render(tmp_path / "results", tmp_path / name) for name in ("one", "two"))
    assert [file.name for file in first] == ["results.md", "bottleneck-width.svg", "bottleneck-width.png"]
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert b"<text" in first[1].read_bytes()  # text stays text
    assert row((tmp_path / "one" / "results.md").read_text(), "10", "Appendix A") == ["10", "60.0 / 0.250"]
    # Without its results a figure goes; what else lies there stays.
    (tmp_path / "one" / "figures" / "mine.png").write_bytes(b"mine")
    (tmp_path / "results" / "cifar100.jsonl").unlink()
    result(tmp_path / "results", "omniglot-Angelic--kmeans--k-true--ours--0", acc=0.75)
    assert [file.name for file in render(tmp_path / "results", tmp_path / "one")] == ["results.md"]
    assert [file.name for file in (tmp_path / "one" / "figures").iterdir()] == ["mine.png"]


def test_what_differs_is_said_in_words(tmp_path: Path) -> None:
    result(tmp_path / "results", "cifar100-unlabelled--kmeans--k-true--ours--0", acc=0.5)
    result(tmp_path / "results", "cifar100-unlabelled--kmeans--k-true--paper--0", acc=0.6)
    result(tmp_path / "results", "cifar100-unlabelled--mcl--k-true--ours--0", acc=0.4)
    render(tmp_path / "results", tmp_path)
    told = (tmp_path / "results.md").read_text()
    setup = SETUPS["cifar100"]
    assert f"- CIFAR-100, ours: what a user gets by default, the profile `pictures`; {setup.differs}." in told
    assert "- CIFAR-100, paper: " in told
    alone = '; KCL: `precision = "bfloat16"`; MCL: `precision = "bfloat16"`; '
    about = [line for line in told.splitlines() if line.startswith("- CIFAR-100, ours: ")]
    assert [alone in line for line in about] == [False, True]  # only where the table has their rows


def test_no_results_and_broken_ones_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no result"):
        render(tmp_path, tmp_path)
    (tmp_path / "svhn.jsonl").write_text('{"name":')
    with pytest.raises(DataError, match=r"Line 1 of .*svhn\.jsonl is no result"):
        render(tmp_path, tmp_path)
    assert not (tmp_path / "results.md").exists()


def test_what_was_measured_again_stands_beside_the_first(tmp_path: Path) -> None:
    name = "omniglot-Angelic--kmeans--k-true--ours--0"
    result(tmp_path / "results", name, acc=0.75)
    result(tmp_path / "results" / "again", name, acc=0.5)
    result(tmp_path / "results" / "again", "omniglot-Tengwar--kmeans--k-true--ours--0")  # not measured before
    render(tmp_path / "results", tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert row(page, name, "Measured again") == [name, "acc", "0.75", "0.5"]
    assert "Tengwar" not in page[page.index("Measured again") :]


def test_figures_measured_again_are_compared_by_the_hash_of_what_they_are_made_of(tmp_path: Path) -> None:
    name = "cifar10-unlabelled--dtc-pi--k-true--ours--0"
    result(tmp_path / "results", name, figures="0123456789abcdef")
    result(tmp_path / "results" / "again", name, figures="123456789abcdef0")
    render(tmp_path / "results", tmp_path / "docs")
    page = (tmp_path / "docs" / "results.md").read_text()
    line = next(line for line in page.splitlines() if "SHA-256" in line)
    assert line == f"| {name} | figures, SHA-256 | 0123456789ab | 123456789abc |"


def test_the_committed_figures_are_those_of_their_runs() -> None:
    drawn = {name: one["figures"] for name, one in Results(RESULTS).all().items() if "figures" in one}
    assert drawn == {file.stem: digest(file.read_bytes()) for file in (RESULTS / "figures").iterdir()}
