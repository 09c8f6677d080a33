"""The page and the figures of all results: made from the result files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from newkinds.bench.cells import row_name
from newkinds.bench.figures import drawn_again, study_figure
from newkinds.bench.setups import OURS, PRESETS, SETUPS
from newkinds.bench.tables import ESTIMATED, ESTIMATED_ELSEWHERE, MEAN_ERRORS, TABLES, Figures, Row, Table
from newkinds.errors import DataError
from newkinds.files import digest, write_atomic

PAGE, FIGURES = "results.md", "figures"
AGAIN = "again"  # beside the folder of results: some of them, measured once more
Result = dict[str, Any]

INTRODUCTION = """# The paper's tables, measured again

Made by `newkinds bench --render` from the files in `bench/results/`, one for each run; nothing here is written by hand.

- **Paper**: what the paper prints, ACC in percent and NMI. **Ours**: the mean over the seeds and, with several seeds,
  ± their standard deviation; NMI is the geometric one, as in the paper. Of OmniGlot and ImageNet figures are means over
  all alphabets or sets, and where some are missing their number stands behind the figure.
- f is trained once, with the seed 0, for all rows and seeds; the paper does not say how often it trains f for its ten
  runs.
- Cells without a run are empty.
"""
PRESET_WORDS = {
    OURS: "this project's defaults",
    "paper": "the paper's settings",
    "authors": "the settings of the authors' code",
    "quick": "quick settings",
}


@dataclass(frozen=True)
class Measured:
    """The results of a row on a data set: by part and seed."""

    results: tuple[Result, ...]
    parts: int

    @property
    def complete(self) -> int:
        """How many parts have a result."""
        return len({result["data"] for result in self.results})

    @property
    def seeds(self) -> list[int]:
        """The seeds that all parts that have any result have."""
        by_part: dict[str, set[int]] = {}
        for result in self.results:
            by_part.setdefault(result["data"], set()).add(result["seed"])
        return sorted(set.intersection(*by_part.values())) if by_part else []

    def over_seeds(self, key: str) -> list[float]:
        """Return for each seed that all parts have the mean over the parts."""
        return [mean(r[key] for r in self.results if r["seed"] == seed) for seed in self.seeds]

    def text(self, key: str, scale: float, digits: int) -> str:
        """Return the mean over the seeds, with its spread, and how many parts it is of where some are missing."""
        values = [scale * value for value in self.over_seeds(key)]
        if not values:
            return ""
        spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        of = "" if self.complete == self.parts else f" ({self.complete} of {self.parts})"
        return f"{mean(values):.{digits}f}{spread}{of}"


def read_results(folder: Path) -> dict[str, Result]:
    """Return all results by the name of their file."""
    return {file.stem: _read(file) for file in sorted(folder.glob("*.json"))}


def _read(file: Path) -> Result:
    try:
        result: Result = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} is no result: {error}.", hint="Remove it, and measure it again.") from None
    return result


def measured(results: dict[str, Result], setup: str, row: Row, preset: str) -> Measured:
    """Return the results of a row of a table."""
    middle = "--".join(row_name(setup, row))
    parts = SETUPS[setup].unsorted
    starts = tuple(f"{part.replace(':', '-')}--{middle}--{preset}--" for part in parts)
    whole = (value for name, value in results.items() if name.startswith(starts) and not is_of_a_part(value))
    return Measured(tuple(whole), len(parts))


def is_of_a_part(result: Result) -> bool:
    """Return whether a result is of fewer pictures than were published."""
    setup = SETUPS[result.get("setup") or result["data"].partition(":")[0]]
    return "each" in result or bool(result.get("pictures", setup.whole) < setup.whole)


def render(results: Path, docs: Path) -> list[Path]:
    """Write docs/results.md and the figures it shows, and return their files; figures without results are removed."""
    found = read_results(results)
    if not found:
        raise DataError(f"There is no result in {results}.", hint="Measure one: newkinds bench known-k --data ROOT.")
    blocks, files = [INTRODUCTION], []
    for table in TABLES.values():
        lines = [f"## {table.title}", ""]
        lines += [table.about, ""] if table.about else []
        if table.kind == "scores":
            lines += _scores(table, found)
        elif table.kind == "counts":
            lines += _counts(found)
        elif table.kind == "study":
            lines += _study(table, found)
            files += _figures(table, found, docs)
        else:
            lines += _figure(table, results, docs, files)
        blocks.append("\n".join([*lines, "", *_command(table), *_files(table, found)]))
    for file in {docs / FIGURES / f"{name}.{kind}" for name in TABLES for kind in ("svg", "png")} - set(files):
        file.unlink(missing_ok=True)  # of results that are gone
    blocks += _parts(found) + _again(found, results, results.parent / AGAIN)
    docs.mkdir(parents=True, exist_ok=True)
    write_atomic(docs / PAGE, ("\n\n".join(block.rstrip("\n") for block in blocks) + "\n").encode())
    return [docs / PAGE, *files]


def _used(table: Table, found: dict[str, Result]) -> list[tuple[str, str]]:
    """Return the columns that have a result: data set and preset."""
    return [
        (setup, preset)
        for setup in table.setups
        for preset in PRESETS
        if any(measured(found, setup, row, preset).results for row in table.rows)
    ]


def _scores(table: Table, found: dict[str, Result]) -> list[str]:
    """Return a table of ACC and NMI: of each data set the paper's, and beside it ours by preset."""
    used = _used(table, found)
    head, rule = ["Method"], ["---"]
    for setup in table.setups:
        head.append(f"{SETUPS[setup].title}: paper")
        head += [f"{preset if preset != OURS else 'ours'}" for name, preset in used if name == setup] or ["ours"]
        rule += ["---"] * (len(head) - len(rule))
    lines = [_line(head), _line(rule)]
    for row in table.rows:
        cells = [row.label]
        for setup in table.setups:
            cells.append(_printed(row.paper.get(setup)))
            ours = [measured(found, setup, row, preset) for name, preset in used if name == setup]
            cells += [_pair(one) for one in ours] or [""]
        lines.append(_line(cells))
    return [*lines, "", *_differences(table, used)]


def _printed(figures: Figures | None) -> str:
    if figures is None:
        return ""
    acc, nmi = figures
    return " / ".join([f"{acc:.1f}" if acc is not None else "-", f"{nmi:.3f}" if nmi is not None else "-"])


def _pair(one: Measured) -> str:
    return f"{one.text('acc', 100, 1)} / {one.text('nmi_geometric', 1, 3)}" if one.results else ""


def _differences(table: Table, used: Sequence[tuple[str, str]]) -> list[str]:
    """Return in words how each measured column differs from the paper's set-up."""
    lines = []
    for setup, preset in used:
        words = f"- {SETUPS[setup].title}, {preset}: {PRESET_WORDS[preset]}"
        if preset == OURS:
            own = _settings(SETUPS[setup].own)
            words += f", but for {own}" if own else ""
            for row in table.rows:
                if alone := _settings(SETUPS[setup].own_of.get(row.method, {})):
                    words += f"; {row.label}: {alone}"
            words += f"; {SETUPS[setup].differs}" if SETUPS[setup].differs else ""
        lines.append(f"{words}. Each result file lists every setting that differs from the paper's.")
    return lines


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in values.items())


def _counts(found: dict[str, Result]) -> list[str]:
    """Return the estimates of the number of kinds: OmniGlot by alphabet beside the paper's table, then the others."""
    row = TABLES["k-estimates"].rows[0]
    parts = SETUPS["omniglot"].unsorted
    lines = [_line(["Alphabet", "True", *(f"{name} (paper)" for name in ESTIMATED), "Ours"]), _line(["---"] * 6)]
    ours = {result["data"]: result for result in measured(found, "omniglot", row, OURS).results if result["seed"] == 0}
    errors = []
    for number, part in enumerate(parts):
        result = ours.get(part)
        mine = ""
        if result is not None:
            mine = f"{result['kinds']} ({result['count']['low']} to {result['count']['high']})"
            errors.append(result["error_in_k"])
        true = "" if result is None else str(result["true_kinds"])
        name = part.partition(":")[2].replace("_", " ")
        lines.append(_line([name, true, *(str(of[number]) for of in ESTIMATED.values()), mine]))
    total = f"{mean(errors):.2f}" if len(errors) == len(parts) else ""
    lines.append(_line(["mean error", "", *(f"{MEAN_ERRORS[name]:.2f}" for name in ESTIMATED), total]))
    if errors:
        held = [r for r in ours.values() if r["count"]["low"] <= r["true_kinds"] <= r["count"]["high"]]
        lines += ["", f"In brackets the interval, which held the true number for {len(held)} of {len(ours)} alphabets."]
    lines += ["", _line(["Data", "True", "Paper", "Ours"]), _line(["---"] * 4)]
    for setup, (paper, error) in ESTIMATED_ELSEWHERE.items():
        results = measured(found, setup, row, OURS).results
        kinds = ", ".join(str(r["kinds"]) for r in results)
        true = ", ".join(sorted({str(r["true_kinds"]) for r in results}))
        lines.append(_line([SETUPS[setup].title, true, f"{', '.join(map(str, paper))} (error {error:.2f})", kinds]))
    return [*lines, "", *_differences(TABLES["k-estimates"], _used(TABLES["k-estimates"], found))]


def _study(table: Table, found: dict[str, Result]) -> list[str]:
    """Return a study's points as a table, with its figure."""
    used = _used(table, found)
    if not used:
        return ["Not measured yet."]
    lines = [_line([table.x, *(f"{preset}: ACC / NMI" for _, preset in used)]), _line(["---"] * (1 + len(used)))]
    lines += [
        _line([row.label, *(_pair(measured(found, setup, row, preset)) for setup, preset in used)])
        for row in table.rows
    ]
    return [*lines, "", f"![{table.title}]({FIGURES}/{table.name}.svg)", "", *_differences(table, used)]


def _figures(table: Table, found: dict[str, Result], docs: Path) -> list[Path]:
    """Draw a study where it has points."""
    files = []
    for setup, preset in _used(table, found)[:1]:
        points = []
        for row in table.rows:
            one = measured(found, setup, row, preset)
            if one.results:
                values = one.over_seeds("acc"), one.over_seeds("nmi_geometric")
                points.append((float(row.label), mean(values[0]), mean(values[1])))
        files += study_figure(docs / FIGURES / table.name, table, SETUPS[setup].title, points)
    return files


def _figure(table: Table, results: Path, docs: Path, files: list[Path]) -> list[str]:
    """Draw a figure from what was kept of a run, and return the lines that show it."""
    kept = sorted((results / FIGURES).glob("*.json"))
    if not kept or table.name == "tsne-with-images":
        return [] if kept else ["Not drawn yet."]
    files += drawn_again(table.name, json.loads(kept[0].read_text()), docs / FIGURES / table.name)
    return [f"![{table.title}]({FIGURES}/{table.name}.svg)", "", f"Run: `{kept[0].stem}`."]


def _parts(found: dict[str, Result]) -> list[str]:
    """Return the results of data sets that were there only in part: they prove that the commands work, no more."""
    rows = [
        [
            name,
            f"{result['pictures']:,}",
            f"{100 * result['acc']:.1f}" if "acc" in result else "",
            str(result["kinds"]),
            " ".join(result.get("note", "").replace("|", "\\|").split()),
        ]
        for name, result in found.items()
        if is_of_a_part(result)
    ]
    if not rows:
        return []
    lines = [
        "## Data sets that were there only in part",
        "",
        "These runs prove that the commands work. They stand beside no figure of the paper, whose data is larger.",
        "",
        _line(["Result file", "Pictures", "ACC", "Kinds", "Note"]),
        _line(["---"] * 5),
    ]
    return ["\n".join([*lines, *(_line(row) for row in rows)])]


def _again(found: dict[str, Result], results: Path, again: Path) -> list[str]:
    """Return what was measured twice, from nothing but the data and the weights, and whether it agrees."""
    rows = []
    for name, result in read_results(again).items():
        if name in found:
            key, first = ("acc", found[name]) if "acc" in result else ("kinds", found[name])
            rows.append([name, key, f"{first[key]:g}", f"{result[key]:g}"])
            drawn = [folder / FIGURES / f"{name}.json" for folder in (results, again)]
            if all(file.exists() for file in drawn):
                rows.append([name, "figures, SHA-256", *(digest(file.read_bytes())[:12] for file in drawn)])
    if not rows:
        return []
    lines = [
        "## Measured again",
        "",
        f"Runs made once more from scratch, with `--results bench/{AGAIN} --runs runs/{AGAIN}`.",
        "",
        _line(["Result file", "What", "First", "Again"]),
        _line(["---"] * 4),
    ]
    return ["\n".join([*lines, *(_line(row) for row in rows)])]


def _command(table: Table) -> list[str]:
    return [f"Command: `newkinds bench {table.name} --data ROOT`.", ""]


def _files(table: Table, found: dict[str, Result]) -> list[str]:
    """Return which files each filled cell is made of."""
    lines = []
    for setup, preset in _used(table, found):
        for row in table.rows:
            one = measured(found, setup, row, preset)
            if one.results:
                start = "*" if one.parts > 1 else SETUPS[setup].unsorted[0].replace(":", "-")
                start = f"{setup}-*" if one.parts > 1 else start
                name = "--".join([start, *row_name(setup, row), preset, "*.json"])
                lines.append(f"  - {row.label}, {SETUPS[setup].title}: `{name}` ({len(one.results)})")
    return ["<details><summary>Result files</summary>", "", *lines, "", "</details>"] if lines else []


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
