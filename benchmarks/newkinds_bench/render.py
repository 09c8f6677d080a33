"""The page and the figures of all results: made from the result files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from newkinds.errors import DataError
from newkinds.files import write_atomic
from newkinds_bench.cells import row_name
from newkinds_bench.figures import drawn_again, study_figure
from newkinds_bench.house import AGAIN, FIGURES
from newkinds_bench.measured import Measured, is_of_a_part, measured
from newkinds_bench.results import Result, Results
from newkinds_bench.setups import OURS, PRESETS, SETUPS
from newkinds_bench.tables import ESTIMATED, ESTIMATED_ELSEWHERE, MEAN_ERRORS, TABLES, Figures, Table

PAGE = "results.md"  # in the folder of documents; figures are in `FIGURES` there

INTRODUCTION = """# The paper's tables, measured again

Made by `newkinds bench --render` from the files in `benchmarks/results/`, one for each data set with a line for each
run; nothing here is written by hand.

- **Paper**: what the paper prints, ACC in percent and NMI. **Ours**: the mean over the seeds and, with several seeds,
  ± their standard deviation; NMI is the geometric one, as in the paper. Of OmniGlot and ImageNet figures are means over
  all alphabets or sets, and where some are missing their number stands behind the figure.
- f is trained once, with the seed 0, for all rows and seeds; the paper does not say how often it trains f for its ten
  runs.
- Cells without a run are empty.
"""
PRESET_WORDS = {
    OURS: "what a user gets by default, the profile",
    "paper": "the paper's settings",
    "authors": "the settings of the authors' code",
    "quick": "quick settings",
}


def render(results: Path, docs: Path) -> list[Path]:
    """Write docs/results.md and the figures it shows, and return their files; figures without results are removed."""
    found = Results(results).all()
    if not found:
        raise DataError(f"There is no result in {results}.", hint="Measure one: newkinds bench known-k --data ROOT.")
    blocks, files = [INTRODUCTION], []
    for table in TABLES.values():
        lines = [f"## {table.title}", ""]
        lines += [table.about, ""] if table.about else []
        if table.kind == "scores":
            lines += _scores(table, found)
        elif table.kind == "mixed":
            lines += _mixed(table, found)
        elif table.kind == "counts":
            lines += _counts(found)
        elif table.kind == "study":
            lines += _study(table, found)
            files += _figures(table, found, docs)
        else:
            lines += _figure(table, results, docs, files)
        blocks.append("\n".join([*lines, "", *_command(table), *_runs(table, found)]))
    for file in {docs / FIGURES / f"{name}.{kind}" for name in TABLES for kind in ("svg", "png")} - set(files):
        file.unlink(missing_ok=True)  # of results that are gone
    blocks += _parts(found) + _again(found, Results(results / AGAIN).all())
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


def _mixed(table: Table, found: dict[str, Result]) -> list[str]:
    """Return a table of All, Old and New: of each data set the published and ours, each with its backbone."""
    head, columns = ["Method"], []
    for setup in table.setups:
        if any(setup in row.published for row in table.rows):
            head.append(f"{_title(setup)}: published, {table.backbone}")
            columns.append([_triple(row.published.get(setup)) for row in table.rows])
        ours = [measured(found, setup, row, OURS) for row in table.rows]
        networks = sorted({str(result["f"]["network"]) for one in ours for result in one.results})
        head.append(f"{_title(setup)}: ours, {', '.join(networks) or 'not measured'}")
        columns.append([_threefold(one) for one in ours])
    rows = zip((row.label for row in table.rows), *columns, strict=True)
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return [*lines, "", *_differences(table, _used(table, found))]


def _triple(figures: tuple[float, float, float] | None) -> str:
    return "" if figures is None else " / ".join(f"{one:.1f}" for one in figures)


def _threefold(one: Measured) -> str:
    return " / ".join(one.text(key, 100, 1) for key in ("all", "old", "new")) if one.results else ""


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
            words += f" `{SETUPS[setup].profile}`"
            own = _settings(SETUPS[setup].own)
            words += f", but for {own}" if own else ""
            for row in table.rows:
                if alone := _settings(SETUPS[setup].own_of.get(row.method, {})):
                    words += f"; {row.label}: {alone}"
            words += f"; {SETUPS[setup].differs}" if SETUPS[setup].differs else ""
        if SETUPS[setup].is_mixed:
            lines.append(f"{words}.")
            continue
        lines.append(f"{words}. Each run's result has every setting that differs from the paper's.")
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
        _line(["Run", "Pictures", "ACC", "Kinds", "Note"]),
        _line(["---"] * 5),
    ]
    return ["\n".join([*lines, *(_line(row) for row in rows)])]


def _again(found: dict[str, Result], again: dict[str, Result]) -> list[str]:
    """Return what was measured twice, from nothing but the data and the weights, and whether it agrees."""
    rows = []
    for name, second in again.items():
        if name in found:
            first, key = found[name], "acc" if "acc" in second else "kinds"
            rows.append([name, key, f"{first[key]:g}", f"{second[key]:g}"])
            if FIGURES in first and FIGURES in second:
                rows.append([name, "figures, SHA-256", first[FIGURES][:12], second[FIGURES][:12]])
    if not rows:
        return []
    lines = [
        "## Measured again",
        "",
        f"Runs made once more from scratch, with `--results benchmarks/results/{AGAIN} --runs runs/{AGAIN}`.",
        "",
        _line(["Run", "What", "First", "Again"]),
        _line(["---"] * 4),
    ]
    return ["\n".join([*lines, *(_line(row) for row in rows)])]


def _command(table: Table) -> list[str]:
    return [f"Command: `newkinds bench {table.name} --data ROOT`.", ""]


def _runs(table: Table, found: dict[str, Result]) -> list[str]:
    """Return which runs each filled cell is made of, and the file that they are in."""
    lines = []
    for setup, preset in _used(table, found):
        for row in table.rows:
            one = measured(found, setup, row, preset)
            if one.results:
                start = f"{setup}-*" if one.parts > 1 else SETUPS[setup].unsorted[0].replace(":", "-")
                name = "--".join([start, *row_name(setup, row), preset, "*"])
                lines.append(
                    f"  - {row.label}, {SETUPS[setup].title}: `{name}` ({len(one.results)}) in `{setup}.jsonl`"
                )
    return ["<details><summary>Runs</summary>", "", *lines, "", "</details>"] if lines else []


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _title(setup: str) -> str:
    """Return the title of a data set, for a cell of a table."""
    return SETUPS[setup].title.replace("|", "\\|")
