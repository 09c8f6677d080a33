"""The tables and the plot of docs/trust.md, from what the study `rehearsal` measured."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from newkinds.report.figures import STYLE
from newkinds_bench.house import DOCS
from studies.tools.results import put_table

PAGE, PICTURE = DOCS / "trust.md", DOCS / "figures" / "trust.svg"
TITLES = {
    "grocery": "groceries, 54 kinds known, 28 unsorted",
    "tiny-imagenet": "Tiny-ImageNet, 30 kinds known, 10 unsorted",
    "grocery-few": "the same groceries, 6 pictures of each unsorted kind",
    "tiny-imagenet-few": "the same Tiny-ImageNet kinds, 6 pictures of each unsorted kind",
    "omniglot": "OmniGlot, 25 alphabets known, one unsorted, f trained here",
    "cifar100": "CIFAR-100, 80 classes known, 10 unsorted, f trained here",
    "digits": "digits, 5 known, 5 unsorted, f trained here",
    "nothing": "Tiny-ImageNet, 30 kinds known, 10 unsorted, f trained from scratch for one epoch",
}
COLOURS_OF_DATA = ("#0072b2", "#d55e00", "#7f7f7f", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
COLOURS = dict(zip(TITLES, COLOURS_OF_DATA, strict=True))
STAGES = {"features": "features", "transfer": "transfer", "rehearsals": "rehearse", "sorting": "sort"}


def render(cases: dict[str, dict[str, Any]], tuned: dict[str, dict[str, Any]]) -> None:
    """Make the tables and the plot of the page. tuned: of heaps for tuning, what was foretold and what came."""
    reported = [case for case in cases.values() if not case["tuning"]]
    tables = {"cases": by_data(reported), "cost": costs(reported), "all": all_cases(cases), "tuning": by_others(tuned)}
    for name, lines in tables.items():
        put_table(PAGE, name, lines)
    PICTURE.write_bytes(drawn(reported))


def by_others(tuned: dict[str, dict[str, Any]]) -> list[str]:
    """Return how far heaps for tuning were from what was foretold by other data sets."""
    if not tuned:
        return []
    missed = np.array([one["expected_acc"] - one["acc"] for one in tuned.values()])
    held = sum(is_inside(one) for one in tuned.values())
    return [
        f"{len(tuned)} tuning heaps, predicted from the other data sets: the mean difference is "
        f"{np.abs(missed).mean():.3f}, the root mean square {np.sqrt(np.square(missed).mean()):.3f}, the largest "
        f"{np.abs(missed).max():.3f}; {held} of the {len(tuned)} ranges hold. The mean calibration error of a heap is "
        f"{np.mean([one['error'] for one in tuned.values()]):.3f}."
    ]


def is_inside(case: dict[str, Any]) -> bool:
    """Return whether the share that was right is in the range that was said."""
    return bool(case["expected_low"] <= case["acc"] <= case["expected_high"])


def by_data(cases: list[dict[str, Any]]) -> list[str]:
    """Return a row for each data set, and one for all."""
    columns = ["pictures", "heaps", "actual ACC", "predicted ACC", "mean difference", "in the range"]
    columns += ["calibration error (by chance)", "of all heaps pooled", "before calibration"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for data, title in {**TITLES, "": "all"}.items():
        some = [case for case in cases if not data or case["data"] == data]
        if not some:
            continue
        acc, foretold = (np.array([case[key] for case in some]) for key in ("acc", "expected_acc"))
        inside = [is_inside(case) for case in some]
        bins = [tuple(one) for case in some for one in case["bins"]]
        error, before = (np.mean([case[key] for case in some]) for key in ("error", "error_before"))
        pooled, chance = pooled_error(bins), np.mean([error_by_chance(case["bins"]) for case in some])
        lines.append(
            f"| {title} | {len(some)} | {acc.mean():.3f} | {foretold.mean():.3f} | {np.abs(acc - foretold).mean():.3f} "
            f"| {sum(inside)} of {len(inside)} | {error:.3f} ({chance:.3f}) | {pooled:.3f} | {before:.3f} |"
        )
    if len(cases) > 2:
        rank = spearmanr([case["acc"] for case in cases], [case["expected_acc"] for case in cases]).statistic
        lines += ["", f"Rank correlation over all heaps: {rank:.2f}."]
    return lines


def pooled_error(bins: list[tuple[float, ...]]) -> float:
    """Return the calibration error of all heaps' pictures together, by ten bins of what was said."""
    pictures, said, right = (np.array(column) for column in zip(*bins, strict=True))
    place = np.minimum(np.floor(said * 10).astype(np.int64), 9)
    total = 0.0
    for one in np.unique(place):
        here = place == one
        total += abs(float((pictures * (said - right))[here].sum()))
    return total / float(pictures.sum())


def error_by_chance(bins: list[list[float]]) -> float:
    """Return the calibration error that probabilities would show on a heap if they were right.

    The share that is right in a bin differs from what was said as binomial numbers do: on average by
    sqrt(2 p (1 - p) / (pi n)).
    """
    pictures, said, _ = (np.array(column) for column in zip(*bins, strict=True))
    return float((pictures * np.sqrt(2 * said * (1 - said) / (np.pi * pictures))).sum() / pictures.sum())


def costs(cases: list[dict[str, Any]]) -> list[str]:
    """Return the mean seconds of the processor that stages take, for each data set."""
    lines = [f"| pictures | {' | '.join(STAGES)} |", "|---" * (len(STAGES) + 1) + "|"]
    for data, title in TITLES.items():
        some = [case["cpu_seconds"] for case in cases if case["data"] == data]
        if some:
            means = [np.mean([one.get(stage, 0.0) for one in some]) for stage in STAGES]
            lines.append(f"| {title} | {' | '.join(f'{mean:.0f}' for mean in means)} |")
    return lines


def all_cases(cases: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row for each case, those for tuning marked."""
    lines = ["| heap | actual ACC | predicted ACC (range) | ACC of each rehearsal | chosen settings |"]
    lines.append("|---" * 5 + "|")
    for name, case in cases.items():
        between = f"{case['expected_acc']:.3f} ({case['expected_low']:.2f} to {case['expected_high']:.2f})"
        past = ", ".join(f"{acc:.2f}" for acc in case["rehearsed"]) or "none"
        told = f"{case['chosen']}{', hopeless' if case['hopeless'] else ''}"
        if "acc_as_set" in case:
            told += f" (as set: {case['acc_as_set']:.3f})"
        lines.append(
            f"| {name}{' (tuning)' if case['tuning'] else ''} | {case['acc']:.3f} | {between} | {past} | {told} |"
        )
    return lines


def drawn(cases: list[dict[str, Any]]) -> bytes:
    """Return the plot: what came against what was foretold, and what was right against what was said."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": "trust"}):
        figure = Figure(figsize=(9, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axis in (left, right):
            axis.plot([0, 1], [0, 1], color="#999999", linewidth=1)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1)
            axis.set_aspect("equal")
        for data, title in TITLES.items():
            some = [case for case in cases if case["data"] == data]
            if not some:
                continue
            acc, foretold, low, high = (
                np.array([case[key] for case in some])
                for key in ("acc", "expected_acc", "expected_low", "expected_high")
            )
            left.errorbar(
                foretold,
                acc,
                xerr=[foretold - low, high - foretold],
                fmt="o",
                markersize=4,
                linewidth=0.7,
                color=COLOURS[data],
                label=title.partition(",")[0],
            )
            bins = np.array([one for case in some for one in case["bins"]])
            right.plot(bins[:, 1], bins[:, 2], "o", markersize=2.5, alpha=0.6, color=COLOURS[data])
        left.set_xlabel("predicted ACC, with its range")
        left.set_ylabel("actual ACC")
        left.legend(loc="upper left", fontsize=7)
        right.set_xlabel("probability of a picture's kind, tenths of each heap")
        right.set_ylabel("share that was right")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()
