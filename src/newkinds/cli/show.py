"""The output of commands: results as lines and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newkinds.cli.base import out

MIXED, PURE = 3, 0.7  # at most so many kinds are named as mixed, each below this share of one true kind

if TYPE_CHECKING:
    from rich.table import Table

    from newkinds import Comparison, Discovery
    from newkinds.evaluation.mixed import MixedScores
    from newkinds.evaluation.scores import Scores
    from newkinds.images import Scan
    from newkinds.pipeline.rehearsing import Rehearsal
    from newkinds.runs.journal import Journal


def show_rows(rows: Iterable[Iterable[str]]) -> None:
    """Print rows of text in columns, without markup."""
    from rich.markup import escape

    table = _table()
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def show_scan(scan: Scan) -> None:
    """Print how many pictures there are of each kind or in each folder, and what is skipped."""
    nowhere = "(without a kind)" if scan.listing else "(not in a folder)"
    groups = Counter(str(scan.kind_of(one.name) or nowhere) for one in scan.found)
    for group, number in sorted(groups.items()):
        out.print(f"{number:8d}  {group}", markup=False)
    for skipped in scan.skipped:
        out.print(f" skipped  {skipped.name}: {skipped.reason}", markup=False)
    what = "kinds" if scan.listing else "folders"
    out.print(f"{len(scan.found)} pictures in {len(groups)} {what}, {len(scan.skipped)} files skipped")


def show_discovery(found: Discovery) -> None:
    """Print what was found, how far to trust it, what to look at, where the files are, and what to do next."""
    from newkinds.report.text import plural

    if found.machine is not None:
        out.print(f"{found.assignment.summary()}, as corrected by people", markup=False)
    elif any(not column.startswith("new:") for column in found.columns):
        out.print(found.assignment.summary(), markup=False)
    else:
        sizes = Counter(found.labels.tolist()).values()
        low, high = min(sizes), max(sizes)
        each = f"{low} to {high} pictures" if low < high else plural(low, "picture")
        asked = found.probabilities.shape[1]
        empty = f"; {asked - found.n_kinds} of {asked} stayed empty" if found.n_kinds < asked else ""
        out.print(f"{len(found.names)} pictures in {found.n_kinds} new kinds, with {each} each{empty}")
    news = () if found.since is None else found.since.in_words()
    for sentence in (*news, *_how_many(found), *_how_sure(found), *_look_at(found)):
        out.print(sentence, markup=False)
    if found.scores is not None and found.kmeans_scores is not None:
        show_scores(found.scores, found.kmeans_scores)
    if found.choice is not None and found.choice["kept"] != "last":
        out.print(
            "The result is from the best state of training, not from its end: some kinds merged later on.", markup=False
        )
    _show_files(found)
    out.print(
        "Next: open the report, or run newkinds open to correct, name and accept kinds. newkinds predict sorts more "
        "pictures into these kinds; newkinds grow continues with the next heap.",
        markup=False,
    )


def _how_many(found: Discovery) -> list[str]:
    """Return what is known of the number of kinds, where it was estimated."""
    from newkinds.report.history import count_range

    if found.count is not None and found.count.get("cannot_tell"):
        return [f"The number of kinds cannot be estimated reliably: {found.count['cannot_tell']}."]
    likely = count_range(found.count)
    if likely is None or likely.coverage is None:
        return []
    between = f"{likely.low} to {likely.high}" if likely.low < likely.high else f"{likely.low} and no other"
    return [
        f"Their number was estimated: {between}. Such a range holds the true number in {likely.cases} cases like this."
    ]


def _how_sure(found: Discovery) -> list[str]:
    """Return how many pictures are probably right and why, and what rehearsals chose or warned of."""
    from newkinds.rehearsal.outcome import AS_SET

    if found.trust is None:
        return [
            "How many of them are right cannot be told, because no rehearsals were made. --rehearsals 5 makes them."
        ]
    said = [found.trust.in_words(), *found.trust.remarks]
    rehearsal = found.rehearsal or {}
    if rehearsal.get("hopeless"):
        said.append(f"Do not trust these kinds. {rehearsal['hopeless']}")
    if (chosen := rehearsal.get("chosen", AS_SET)) != AS_SET:
        said.append(
            f"Sorted with other settings ({chosen}), which did clearly better in rehearsals; --choose off keeps yours."
        )
    return said


def _look_at(found: Discovery) -> list[str]:
    """Return what is worth a look first: the kinds least likely to be one, and pictures that are probably wrong."""
    from newkinds.report.kinds import DOUBTFUL

    said = []
    if found.trust is not None:
        pure = [
            (share, kind) for kind, share in zip(found.columns, found.trust.purity, strict=True) if share is not None
        ]
        mixed = [f"{kind} (about {share:.0%} of one kind)" for share, kind in sorted(pure)[:MIXED] if share < PURE]
        if mixed:
            said.append(f"kinds that are probably mixed: {', '.join(mixed)}")
    if found.assignment.calibrated and (wrong := int((found.assignment.probability < DOUBTFUL).sum())):
        said.append(f"{wrong} {'picture that is' if wrong == 1 else 'pictures that are'} more likely wrong than right")
    return [f"Look first at {'; and '.join(said)}."] if said else []


def show_rehearsal(found: Rehearsal) -> None:
    """Print how well hidden kinds were sorted, what was tried, and what that means."""
    if not found.rehearsed:
        out.print(found.in_words(), markup=False)
        return
    table = _table("kinds hidden", "pictures", "sorted right", "k-means on pixels", "chance")
    for one in found.rehearsed:
        pixels = "" if one.pixels is None else f"{one.pixels:.0%}"
        right = f"{one.trials[found.chosen].acc:.0%}"
        table.add_row(str(len(one.hidden)), str(one.pictures), right, pixels, f"{one.chance:.0%}")
    out.print(table)
    if len(found.tried) > 1:
        compared = _table("settings", "sorted right", "difference")
        for tried in found.tried:
            error = "" if tried.gain_error is None else f" ± {tried.gain_error:.3f}"
            chosen = " (chosen)" if tried.name == found.chosen else ""
            gain = "" if tried is found.tried[0] else f"{tried.gain:+.3f}{error}"
            compared.add_row(f"{tried.name}{chosen}", f"{tried.acc:.1%}", gain)
        out.print(compared)
    out.print(found.in_words(), markup=False)


def show_journal(found: Journal) -> None:
    """Print each line with its number, time and what was said, what was undone since, and what holds in all."""
    from newkinds.corrections import Again, Redo, Undo, in_words
    from newkinds.report.text import plural, visible

    holding = {done.line for done in found.history.done}
    for line in found.lines:
        taken_back = not isinstance(line.said, Undo | Redo | Again) and line.number not in holding
        when = line.time[:19].replace("T", " ")
        undone = "  (undone)" if taken_back else ""
        out.print(f"{line.number:6d}  {when}  {visible(in_words(line.said))}{undone}", markup=False)
    state = found.state
    if not found.lines:
        out.print("Nothing has been said about this run yet.")
        return
    counts = [f"{int(state.confirmed.sum()):,} of {len(state):,} pictures confirmed"]
    counts += [f"{plural(len(state.called), 'kind')} named", f"{len(state.merged):,} merged into others"]
    for status in ("accepted", "rejected"):
        counts.append(f"{list(state.status.values()).count(status):,} {status}")
    out.print(f"{plural(len(holding), 'action')} in force: {', '.join(counts)}.", markup=False)
    ways = ["--undo takes back the last of them"] if holding else []
    if found.history.undone:
        ways.append(f"--redo restores up to {len(found.history.undone):,} that were undone")
    if ways:
        out.print(f"{', and '.join(ways)}.", markup=False)


def show_scores(found: Scores, baseline: Scores) -> None:
    """Print the scores of the kinds found, below those of k-means on the features that they started from.

    Where a part of the pictures has a truth, that is said, and the true kinds are those at least; where the part is too
    small for scores, nothing else is.
    """
    covered = found.coverage
    if not covered.complete:
        out.print(covered.in_words(), markup=False)
    if not covered.enough:
        return
    out.print(
        f"Measured against the truth, {found.acc:.1%} of the pictures are sorted correctly; k-means on the features "
        f"alone gets {baseline.acc:.1%}.",
        markup=False,
    )
    table = _table("", "ACC", "NMI (geometric)", "NMI (arithmetic)", "ARI", "kinds found", "true kinds")
    for title, scores in (("k-means on the features", baseline), ("discovered", found)):
        numbers = (scores.acc, scores.nmi_geometric, scores.nmi_arithmetic, scores.ari)
        true = str(scores.n_true) if covered.complete else f"{scores.n_true} or more"
        table.add_row(title, *(f"{number:.3f}" for number in numbers), str(scores.n_found), true)
    out.print(table)
    if found.mixed is not None:
        _show_mixed(found.mixed, baseline.mixed)


def _show_mixed(found: MixedScores, baseline: MixedScores | None) -> None:
    """Print how well pictures of known and of new kinds are told apart, and how many were rightly called none."""
    numbers = f"Old ({found.n_old:,})", f"New ({found.n_new:,})"
    table = _table("known and new kinds", "All", *numbers, "right by name", "known or new, AUROC")
    for title, one in (("k-means on the features", baseline), ("discovered", found)):
        if one is not None:
            values = (one.all, one.old, one.new, one.named, one.auroc)
            table.add_row(title, *("" if value is None else f"{value:.3f}" for value in values))
    out.print(table)
    if found.rejected:
        rightly = found.rejected - found.rejected_wrongly
        out.print(f"{found.rejected:,} called none of these, {rightly:,} of them correctly", markup=False)


def show_count(count: Mapping[str, Any], folder: Path) -> None:
    """Print the number of new kinds and its interval; folder: the run folder, which has the curves."""
    from newkinds.count import in_words
    from newkinds.runs import names

    out.print(in_words(count), markup=False)
    out.print(f"The curves are in {folder / names.COUNT} and {folder / names.COUNT_PLOT}", markup=False)


def show_comparison(found: Comparison) -> None:
    """Print a row for each method: its scores where the truth is known, on which pictures, and what it cost."""
    if found.remark:
        out.print(found.remark, markup=False)
    names = {"method": "method", "acc": "ACC", "nmi_geometric": "NMI", "ari": "ARI"}
    names |= {"all": "All", "old": "Old", "new": "New", "named": "by name", "auroc": "AUROC"}
    names |= {"kinds": "kinds", "seconds": "seconds", "megabytes": "MB"}
    shown = [name for name in names if any(row.get(name) is not None for row in found.methods)]
    table = _table(*(names[name] for name in shown))
    for row in found.methods:
        table.add_row(*(row[name] if name == "method" else _measured(row[name], row[f"{name}_std"]) for name in shown))
    out.print(table)
    out.print(f"report  {found.page}", markup=False)


def _table(*titles: str) -> Table:
    """Return an empty table; titles: of its columns, of which all but the first hold numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=bool(titles))
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left")
    return table


def _show_files(found: Discovery) -> None:
    from newkinds.runs import names

    out.print(f"kinds   {found.path / names.KINDS}\nreport  {found.path / names.PAGE}", markup=False)


def _measured(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.3g}" if deviation is None else f"{mean:.3g} ± {deviation:.2g}"
