"""The drawings of rehearsals, as inline SVG: how many pictures were right in each, and what a percentage was worth."""

from __future__ import annotations

from markupsafe import Markup

from newkinds.rehearsal.trust import Trust
from newkinds.report import text
from newkinds.report.trust import HowFar, Rehearsed

WIDTH = 360
LEFT, RIGHT, TOP, BOTTOM = 96, 40, 8, 20  # margins around the rows
ROW = 22  # pixels of height
SIDE, EDGE = 180, 44  # of the reliability diagram: the height of the plot, and the margin left and below
MOST = 20  # rehearsals that are drawn
GRID = (0.0, 0.25, 0.5, 0.75, 1.0)


def rehearsal_plot(found: HowFar) -> Markup:
    """Draw a row for this heap, with its range, and one for each rehearsal: right, chance and k-means on pixels."""
    trust, rows = found.trust, found.rehearsed[:MOST]
    bottom = TOP + ROW * (len(rows) + 1)
    parts = [_open(bottom + BOTTOM, _rehearsals_in_words(trust, rows))]
    wide = round(_x(trust.high) - _x(trust.low), 1)
    band = '<rect class="expected" x="{}" y="{}" width="{}" height="{}"/>'
    parts.append(Markup(band).format(_x(trust.low), TOP, wide, bottom - TOP))
    for share in GRID:
        line = '<path class="rule" d="M{0} {1}V{2}"/><text class="mid" x="{0}" y="{3}">{4:.0%}</text>'
        parts.append(Markup(line).format(_x(share), TOP, bottom, bottom + 15, share))
    parts.append(Markup('<path class="guide" d="M{} {}V{}"/>').format(_x(trust.acc), TOP, bottom))
    parts.append(_row(0, "this heap", trust.acc, "guide-label"))
    for number, one in enumerate(rows, start=1):
        y = TOP + ROW * number + ROW / 2
        if one.pixels is not None:
            box = '<rect class="pixels" x="{}" y="{}" width="7" height="7"/>'
            parts.append(Markup(box).format(round(_x(one.pixels) - 3.5, 1), y - 3.5))
        parts.append(Markup('<path class="chance" d="M{} {}v10"/>').format(_x(one.chance), y - 5))
        parts.append(_row(number, text.plural(len(one.hidden), "kind") + " hidden", one.right))
    return Markup("").join([*parts, Markup("</svg>")])


def reliability_plot(trust: Trust) -> Markup:
    """Draw what was said against what was right, a dot for each bin; on the diagonal both are the same."""
    height = TOP + SIDE + EDGE
    wide = WIDTH - EDGE - 12

    def x(share: float) -> float:
        return round(EDGE + share * wide, 1)

    def y(share: float) -> float:
        return round(TOP + (1 - share) * SIDE, 1)

    bins = ", ".join(f"{text.percent(right, 0)} of those at {text.percent(said, 0)}" for _, said, right in trust.bins)
    parts = [_open(height, f"How many pictures were right: {bins}.")]
    for share in GRID:
        across = '<path class="rule" d="M{} {}H{}"/><text class="end" x="{}" y="{}">{:.0%}</text>'
        parts.append(Markup(across).format(EDGE, y(share), x(1), EDGE - 6, round(y(share) + 4, 1), share))
        parts.append(Markup('<text class="mid" x="{}" y="{}">{:.0%}</text>').format(x(share), y(0) + 15, share))
    parts.append(Markup('<path class="guide" d="M{} {}L{} {}"/>').format(x(0), y(0), x(1), y(1)))
    steps = "L".join(f"{x(said)} {y(right)}" for _, said, right in trust.bins)
    parts.append(Markup('<path class="curve line0" d="M{}"/>').format(steps))
    dot = Markup('<circle class="dot line0" cx="{}" cy="{}" r="4"/>')
    parts.extend(dot.format(x(said), y(right)) for _, said, right in trust.bins)
    parts.append(Markup('<text class="end" x="{}" y="{}">percentage given</text>').format(x(1), height - 8))
    parts.append(Markup('<text x="{}" y="{}">actually right</text>').format(EDGE + 6, TOP + 12))
    return Markup("").join([*parts, Markup("</svg>")])


def _open(height: float, words: str) -> Markup:
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, height, words)


def _x(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _row(number: int, label: str, right: float, style: str = "") -> Markup:
    """Draw a row: its label, a dot at the share that is right, and the share."""
    y = TOP + ROW * number + ROW / 2
    row = (
        '<text class="{0}" x="0" y="{1}">{2}</text><circle class="dot line0" cx="{3}" cy="{4}" r="4"/>'
        '<text class="end {0}" x="{5}" y="{1}">{6}</text>'
    )
    return Markup(row).format(style, y + 4, label, _x(right), y, WIDTH, text.percent(right, 0))


def _rehearsals_in_words(trust: Trust, rows: tuple[Rehearsed, ...]) -> str:
    """Describe the rows, for screen readers."""
    shares = ", ".join(text.percent(one.right, 0) for one in rows)
    low, high = text.percent(trust.low, 0), text.percent(trust.high, 0)
    return f"Right: {text.percent(trust.acc, 0)} expected for this heap, {low} to {high}; in rehearsals {shares}."
