"""Line charts as inline SVG: styled by the page's CSS, so that they follow its theme."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from newkinds.report import text

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 20, 30  # margins around the plot, for the axes' labels


@dataclass(frozen=True)
class Line:
    """One curve: rising x, finite y. band: x, least and largest y of its spread, if it has one."""

    label: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Guide:
    """A vertical line with a label."""

    x: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Curves over one axis.

    early: the x up to which a first phase lasted, shaded and labelled `early_label`.
    focus: the x whose values are shown until the reader hovers over others; None for the last.
    counts: whether the axis counts what its label names ("5 kinds", not "kinds 5").
    """

    key: str
    title: str
    x_label: str
    lines: tuple[Line, ...]
    shares: bool = False
    guides: tuple[Guide, ...] = ()
    early: float | None = None
    early_label: str = ""
    focus: float | None = None
    counts: bool = False

    def spotlight(self, line: Line) -> tuple[float, float]:
        """Return the point of a line that is shown first."""
        return next((point for point in line.points if point[0] == self.focus), line.points[-1])

    def at(self, x: float) -> str:
        """Format a place on the axis: "epoch 3", "5 kinds"."""
        return f"{x:g} {self.x_label}" if self.counts else f"{self.x_label} {x:g}"

    def show(self, value: float) -> str:
        """Format one of the chart's values."""
        return text.percent(value) if self.shares else text.number(value)


@dataclass(frozen=True)
class Frame:
    """The axes of a chart: data ranges and where they lie in the SVG."""

    x0: float
    x1: float
    y0: float
    y1: float
    y_ticks: tuple[float, ...]
    x_ticks: tuple[float, ...]

    def x(self, value: float) -> float:
        """Return the horizontal place of a data value."""
        return round(LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the vertical place of a data value."""
        return round(HEIGHT - BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM), 1)


def ticks(low: float, high: float, wanted: int = 4) -> tuple[float, ...]:
    """Return round numbers, evenly spaced, from at or below `low` to at or above `high`."""
    largest = max(abs(low), abs(high))
    if high - low <= max(largest * 1e-6, 1e-9):  # a flat line: noise in the last digits is not a slope
        pad = largest * 0.1 if largest > 1e-9 else 1.0
        low, high = low - pad, high + pad
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(i * step, 12) for i in range(first, last + 1))


def frame(chart: Chart) -> Frame:
    """Return the axes that hold all of a chart's points and guides."""
    xs = [x for line in chart.lines for x, _ in line.points] + [guide.x for guide in chart.guides]
    ys = [y for line in chart.lines for _, *some in (*line.points, *line.band) for y in some]
    x0, x1 = min(xs), max(xs)
    if x0 == x1:
        x0, x1 = x0 - 1, x1 + 1
    y_ticks = ticks(min(ys), max(ys))
    if chart.shares and min(ys) >= 0 and max(ys) <= 1:
        y_ticks = tuple(t for t in y_ticks if 0 <= t <= 1)  # 0 and 1 are multiples of every step, so the ends stay
    x_ticks = tuple(t for t in ticks(x0, x1, 5) if x0 <= t <= x1 and t == round(t))
    return Frame(x0, x1, y_ticks[0], y_ticks[-1], y_ticks, x_ticks)


def svg(chart: Chart) -> Markup:
    """Draw a chart; text is escaped, colours come from CSS classes."""
    axes = frame(chart)
    bottom = HEIGHT - BOTTOM
    parts = [
        Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-chart="{}">').format(
            WIDTH, HEIGHT, describe(chart), chart.key
        )
    ]
    if chart.early is not None and chart.early > axes.x0:
        band = '<rect class="early" x="{}" y="{}" width="{}" height="{}"/><text class="tick" x="{}" y="{}">{}</text>'
        width = round(axes.x(min(chart.early, axes.x1)) - LEFT, 1)
        parts.append(Markup(band).format(LEFT, TOP, width, bottom - TOP, LEFT, TOP - 6, chart.early_label))
    parts.extend(_y_tick(chart, axes, value) for value in axes.y_ticks)
    label = Markup('<text class="tick {}" x="{}" y="{}">{}</text>')
    parts.extend(label.format("mid", axes.x(value), bottom + 15, f"{value:g}") for value in axes.x_ticks)
    parts.append(label.format("end", WIDTH - RIGHT, HEIGHT - 2, chart.x_label))
    parts.extend(_guide(axes, guide) for guide in chart.guides)
    parts.extend(_curve(axes, line, i, chart.spotlight(line)) for i, line in enumerate(chart.lines))
    parts.append(Markup('<path class="cross" d="M0 {}V{}" visibility="hidden"/></svg>').format(TOP, bottom))
    return Markup("").join(parts)


def describe(chart: Chart) -> str:
    """Describe a chart in a sentence, for screen readers."""
    ends = []
    for line in chart.lines:
        (x0, y0), (x1, y1) = line.points[0], line.points[-1]
        ends.append(f"{line.label} {chart.show(y0)} at {chart.at(x0)}, {chart.show(y1)} at {chart.at(x1)}")
    return f"{chart.title} by {chart.x_label}: {'; '.join(ends)}."


def chart_json(chart: Chart) -> dict[str, object]:
    """Return what the page's script needs to read values off a chart: places in the SVG and the values as text."""
    axes = frame(chart)
    places = sorted({x for line in chart.lines for x, _ in line.points})
    lines = []
    for line in chart.lines:
        known = dict(line.points)
        lines.append([[axes.y(known[x]), chart.show(known[x])] if x in known else None for x in places])
    return {
        "at": [chart.at(x) for x in places],
        "x": [axes.x(x) for x in places],
        "lines": lines,
    }


def _curve(axes: Frame, line: Line, index: int, spot: tuple[float, float]) -> Markup:
    steps = [f"{axes.x(x)} {axes.y(y)}" for x, y in line.points]
    around = [f"{axes.x(x)} {axes.y(low)}" for x, low, _ in line.band]
    around += [f"{axes.x(x)} {axes.y(high)}" for x, _, high in reversed(line.band)]
    band = Markup('<path class="band line{}" d="M{}Z"/>').format(index, "L".join(around)) if around else Markup("")
    dot = Markup('<circle class="dot line{}" cx="{}" cy="{}" r="3"/>').format(index, axes.x(spot[0]), axes.y(spot[1]))
    return band + Markup('<path class="curve line{}" d="M{}"/>').format(index, "L".join(steps)) + dot


def _guide(axes: Frame, guide: Guide) -> Markup:
    x = axes.x(guide.x)
    anchor = "end" if x > WIDTH - 50 else "mid" if x > LEFT + 30 else ""
    return Markup('<path class="guide" d="M{} {}V{}"/><text class="guide-label {}" x="{}" y="{}">{}</text>').format(
        x, TOP, HEIGHT - BOTTOM, anchor, x, TOP - 6, guide.label
    )


def _y_tick(chart: Chart, axes: Frame, value: float) -> Markup:
    y = axes.y(value)
    return Markup('<path class="rule" d="M{} {}H{}"/><text class="tick end" x="{}" y="{}">{}</text>').format(
        LEFT, y, WIDTH - RIGHT, LEFT - 6, round(y + 4, 1), _tick(chart, axes, value)
    )


def _tick(chart: Chart, axes: Frame, value: float) -> str:
    step = axes.y_ticks[1] - axes.y_ticks[0]
    scale = 100 if chart.shares else 1
    digits = max(0, -math.floor(math.log10(step * scale) + 1e-9))
    if abs(step * scale * 10**digits - round(step * scale * 10**digits)) > 1e-6:
        digits += 1  # steps of 2.5
    if digits > 4 or abs(value) >= 1e6:
        return f"{value:.1e}"
    return f"{value * scale:,.{digits}f}{'%' if chart.shares else ''}"
