"""docs/paper-to-code.md has a row for everything in the paper, and every row leads somewhere."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import typer

from newkinds.configure import Settings
from newkinds.methods.registry import METHODS
from references import resolves

PAGE = Path(__file__).parents[1] / "docs" / "paper-to-code.md"

EXPECTED = {
    *(f"Eq. {n}" for n in range(1, 9)),
    "omega(t)",
    "NMI",
    "Error in K",
    *(f"Alg. 1, line {n}" for n in range(1, 15)),
    *(f"Alg. 2, line {n}" for n in range(1, 13)),
    *(f"Table {n}" for n in range(1, 9)),
    *(f"Figure {n}" for n in range(1, 8)),
}


@dataclass(frozen=True)
class Row:
    """A row of one of the page's tables: what of the paper, and where."""

    paper: str
    targets: tuple[str, ...]
    planned: bool

    def items(self) -> list[str]:
        """Return the paper's items it stands for: "Alg. 1, lines 3 to 4" is two lines."""
        if span := re.fullmatch(r"(Alg\. \d), lines (\d+) to (\d+)", self.paper):
            return [f"{span[1]}, line {n}" for n in range(int(span[2]), int(span[3]) + 1)]
        return [self.paper]


def tables(header: str) -> list[list[str]]:
    """Return the cells of all rows of the tables whose first column is called `header`."""
    rows, inside = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == header:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


def rows(header: str) -> list[Row]:
    cells = tables(header)
    return [Row(c[0], tuple(re.findall(r"`([^`]+)`", c[-1])), c[-1].startswith("planned: ")) for c in cells]


ROWS, OTHERS = rows("paper"), rows("method")


def test_everything_in_the_paper_has_a_row() -> None:
    found = {item for row in ROWS for item in row.items()}
    assert sorted(EXPECTED - found) == []
    assert sorted(found - EXPECTED) == []


def test_every_method_has_a_row() -> None:
    assert {name for row in OTHERS for name in row.paper.split(", ")} - {"all"} == METHODS.keys() - {"dtc"}


@pytest.mark.parametrize("row", ROWS + OTHERS, ids=lambda row: f"{row.paper} {' '.join(row.targets)}")
def test_row_leads_somewhere(row: Row) -> None:
    assert row.targets, f"{row.paper} names nothing"
    for target in row.targets:
        assert re.fullmatch(r"newkinds( [a-z0-9-]+)+|newkinds[a-z_.]*:\w+(\.\w+)*", target), f"{target} is neither form"
        if row.planned:
            assert not resolves(target), f"{target} is there by now: drop 'planned' in its row of {row.paper}"
        else:
            assert resolves(target), f"{target} is not there: mend the row of {row.paper}, or mark it 'planned'"


def test_every_equation_function_is_on_the_page() -> None:
    equations = importlib.import_module("newkinds.equations")
    functions = {
        name
        for name, value in vars(equations).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == equations.__name__
    }
    named = {target.split(":")[1] for row in ROWS for target in row.targets if target.startswith("newkinds.equations:")}
    # The inside of Eq. 1, the result of Eq. 6 and the inside of Eq. 8.
    assert functions - named == {"squared_distances", "Objective", "silhouette_terms"}
    assert named <= functions


@pytest.mark.parametrize("page", [PAGE, PAGE.with_name("paper-vs-authors.md")], ids=lambda page: page.stem)
def test_settings_named_on_the_page_exist(page: Path) -> None:
    named = re.findall(r"`([a-z]+)\.([a-z_]+)`", page.read_text(encoding="utf-8"))
    assert len(tables("topic")) > 10
    assert len(named) > 15
    for section, field in named:
        if (section, field) not in (("section", "key"), ("choice", "json")):
            assert field in type(Settings.model_fields[section].default).model_fields, (
                f"there is no setting {section}.{field}"
            )


def test_the_ways_of_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolves("newkinds.equations:target")
    assert resolves("newkinds bench known-k")
    assert not resolves("newkinds bench no-such-table")
    assert not resolves("newkinds count known-k")
    assert resolves("newkinds.errors:NewkindsError.exit_code")
    assert not resolves("newkinds.equations:no_such_function")
    assert not resolves("newkinds.no_such_module:target")
    assert not resolves("newkinds:equations")  # a module is no function
    cli, bench = ModuleType("newkinds.cli"), typer.Typer()
    bench.command("known-k")(lambda: None)
    bench.command("wrong-k")(lambda: None)
    app = typer.Typer()
    app.command("demo")(lambda: None)
    app.add_typer(bench, name="bench")
    cli.app = app  # type: ignore[attr-defined]
    monkeypatch.setattr(importlib, "import_module", lambda name: cli)
    assert resolves("newkinds demo")
    assert resolves("newkinds bench known-k")
    assert not resolves("newkinds bench unknown-k")
    assert not resolves("newkinds discover")
