"""The page in a real Chromium, opened from disk: what a person with a mouse, a keyboard or a phone gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.browser

SHOWN = "return !document.getElementById('tip').hidden"


@pytest.fixture(scope="session")
def nasty_page(pages: Callable[..., Path], nasty: tuple[str, ...]) -> Path:
    names = tuple(nasty[i % len(nasty)] + str(i) for i in range(60))
    return pages("nasty", 60, 4, names=names, truth=names, title=nasty[-1], known_classes=names)


@pytest.fixture
def plain(open_page: Any, pages: Callable[..., Path]) -> Any:
    return open_page(pages("plain", 60, 4))


def test_nothing_is_complained_of_and_nothing_leaves(plain: Any) -> None:
    plain.map_into_view()
    plain.hover(3)
    plain.run("document.querySelector('[data-tool=pictures]').click()")
    plain.painted()
    assert plain.complaints() == []
    asked = plain.requests()
    assert any(url.startswith("file:") for url in asked)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("pictures", [2, 40])
def test_a_truth_about_a_part(open_page: Any, pages: Callable[..., Path], pictures: int, screenshots: Path) -> None:
    truth = tuple(f"class {i % 4}" if i < pictures else "" for i in range(60))
    scores = {"acc": 0.93, "ari": 0.852} if pictures == 40 else None
    screen = open_page(pages(f"part-{pictures}", 60, 4, truth=truth, scores=scores))
    assert f"{pictures} of 60 pictures" in screen.text("scored-on")
    assert screen.run("return document.getElementById('scored-on').checkVisibility()")
    labels = screen.run("return [...document.querySelectorAll('.stats dt')].map((label) => label.textContent)")
    of_scores = ["Actually right on 40", "ACC on 40", "ARI on 40"]
    assert [label for label in labels if "A" in label] == (of_scores if scores else [])
    links = "return [...document.querySelectorAll('nav a')].map((link) => link.hash)"
    assert ("#wrong" in screen.run(links)) is (scores is not None)
    screen.map_into_view()
    screen.hover(59)
    assert screen.text("tip-truth") == "true kind: unknown"
    screen.save(screenshots / f"truth-of-{pictures}.png", whole=True)
    assert screen.complaints() == []


@pytest.mark.parametrize("side", [8, 64])
def test_hover_shows_the_picture(open_page: Any, pages: Callable[..., Path], flat: Any, side: int) -> None:
    colours = flat(60, side)
    screen = open_page(pages(f"side-{side}", 60, 4, pixels=colours))
    screen.map_into_view()
    for point in (0, 17, 59):
        screen.hover(point)
        assert screen.run(SHOWN)
        assert screen.text("tip-name") == f"unsorted/{point:05d}.png"
        assert screen.text("tip-kind").startswith(f"Kind {point % 4}, ")
        assert screen.text("tip-truth") == f"true kind: class {point % 4}"
        sheet, x, y = screen.run("return newkinds.data.points.sprite[arguments[0]]", point)
        scale = 2 * (64 // side)
        style = "return getComputedStyle(document.getElementById('tip-picture'))"
        assert screen.run(f"{style}.backgroundPosition") == f"-{x * scale}px -{y * scale}px"
        assert screen.run(f"{style}.backgroundImage").startswith('url("data:image/')
        assert sheet == 0
        seen = screen.colour_of("#tip-picture")
        distance = np.abs(colours[:, :, 0, 0].astype(int) - seen).sum(axis=1)
        assert distance.argmin() == point
        assert distance[point] <= (0 if side == 8 else 12)
    screen.mouse("mouseMoved", 5, 5)
    assert not screen.run(SHOWN)


def test_cards_show_the_right_pictures(plain: Any, flat: Any) -> None:
    colours = flat(60)[:, :, 0, 0].astype(int)
    thumbs = plain.run(
        "return [...document.querySelectorAll('.card .thumb')].map((t) => t.className.match(/p(\\d+)/)[1])"
    )
    assert len(thumbs) > 40
    for item in (thumbs[0], thumbs[13], thumbs[-1]):
        plain.run("document.querySelector(arguments[0]).scrollIntoView({behavior: 'instant'})", f".p{item}")
        assert np.abs(plain.colour_of(f".p{item}") - colours[int(item)]).max() == 0


def test_legend_highlights_a_kind(plain: Any) -> None:
    plain.map_into_view()
    ink = "return newkinds.map.state.kind"
    plain.run("document.querySelector('.legend [data-kind=\"2\"]').click()")
    assert plain.run(ink) == 2
    assert plain.run("return document.querySelector('.legend [aria-pressed=true]').dataset.kind") == "2"
    plain.hover(2)
    assert plain.text("tip-kind").startswith("Kind 2, ")
    plain.run("document.querySelector('.legend [data-kind=\"2\"]').click()")
    assert plain.run(ink) == -1
    plain.run("document.querySelector('[data-show=\"3\"]').click()")
    assert plain.run(ink) == 3


def test_wheel_zooms_where_the_pointer_is_and_drag_moves(plain: Any) -> None:
    plain.map_into_view()
    x, y = plain.place(10)
    plain.mouse("mouseMoved", x, y)
    plain.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    plain.painted()
    assert plain.run("return newkinds.map.view.zoom") > 1.2
    assert plain.place(10) == pytest.approx((x, y), abs=0.5)
    plain.mouse("mousePressed", x, y, button="left", clickCount=1)
    plain.mouse("mouseMoved", x - 40, y + 25, button="left")
    plain.mouse("mouseReleased", x - 40, y + 25, button="left", clickCount=1)
    assert plain.place(10) == pytest.approx((x - 40, y + 25), abs=0.5)
    plain.run("document.querySelector('[data-tool=reset]').click()")
    assert plain.place(10) == pytest.approx((x, y), abs=0.5)


def test_keyboard_goes_from_picture_to_picture(plain: Any) -> None:
    plain.map_into_view()
    plain.run("document.getElementById('map-canvas').focus({preventScroll: true})")
    plain.press("ArrowRight")
    assert plain.run(SHOWN)
    first = plain.run("return newkinds.map.state.chosen")
    seen = {first}
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        plain.press(key, key)
        seen.add(plain.run("return newkinds.map.state.chosen"))
    assert len(seen) > 2
    chosen = plain.run("return newkinds.map.state.chosen")
    assert plain.text("map-said").startswith(f"unsorted/{chosen:05d}.png, Kind {chosen % 4}, ")
    plain.press("+")
    assert plain.run("return newkinds.map.view.zoom") > 1
    plain.press("0")
    assert plain.run("return newkinds.map.view.zoom") == 1
    plain.press("Escape")
    assert not plain.run(SHOWN)


def test_charts_are_read_off_under_the_pointer(plain: Any) -> None:
    box = plain.run(
        "const c = document.querySelector('[data-chart=loss]');"
        "c.scrollIntoView({behavior: 'instant', block: 'center'});"
        "const b = c.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
    )
    before = plain.run("return document.querySelector('[data-readout=loss]').textContent")
    assert "at epoch 11" in before
    plain.mouse("mouseMoved", box[0] + box[2] * 44 / 360, box[1] + box[3] / 2)
    now = plain.run("return document.querySelector('[data-readout=loss]').textContent")
    assert "at epoch 0" in now
    assert "0.500" in now
    plain.mouse("mouseMoved", 1, 1)
    assert plain.run("return document.querySelector('[data-readout=loss]').textContent") == before


def test_light_and_dark(plain: Any, screenshots: Path) -> None:
    plain.map_into_view()
    brightness = {}
    for dark in (False, True):
        plain.look(dark=dark)
        plain.hover(20)
        plain.save(screenshots / f"map-{'dark' if dark else 'light'}.png")
        brightness[dark] = plain.pixels().mean()
        colour = "getComputedStyle(document.documentElement).getPropertyValue('--c0').trim()"
        assert plain.run(f"return {colour}") == ("#5884c1" if dark else "#2865bc")
    assert brightness[False] > 200
    assert brightness[True] < 60


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_no_width_needs_sideways_scrolling(open_page: Any, nasty_page: Path, screenshots: Path, width: int) -> None:
    screen = open_page(nasty_page)
    screen.look(width, 900)
    screen.painted()
    assert screen.run("return document.documentElement.scrollWidth") <= width
    out = "return [...document.querySelectorAll('main *, header *')].filter((e) => e.checkVisibility() && "
    out += "!e.closest('.hidden, .wide') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)"
    assert screen.run(out) == []
    screen.save(screenshots / f"nasty-{width}.png", whole=True)


def test_nasty_names_are_shown_and_never_run(open_page: Any, nasty_page: Path, nasty: tuple[str, ...]) -> None:
    screen = open_page(nasty_page)
    screen.map_into_view()
    screen.hover(0)
    assert screen.text("tip-name") == nasty[0] + "0"
    assert screen.run("return document.querySelectorAll('#tip img, main img:not(.cells)').length") == 0
    assert screen.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in screen.requests())


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 3), (400, 100)])
def test_few_and_many(open_page: Any, pages: Callable[..., Path], screenshots: Path, n: int, k: int) -> None:
    screen = open_page(pages(f"n{n}-k{k}", n, k))
    screen.map_into_view()
    screen.hover(n - 1)
    assert screen.text("tip-name") == f"unsorted/{n - 1:05d}.png"
    screen.save(screenshots / f"n{n}-k{k}.png")
    assert screen.complaints() == []


def test_without_pictures(open_page: Any, pages: Callable[..., Path], screenshots: Path) -> None:
    screen = open_page(pages("embeddings", 40, 3, pictures=False))
    screen.map_into_view()
    screen.hover(5)
    assert screen.text("tip-name") == "unsorted/00005.png"
    assert not screen.run("return document.getElementById('tip-picture').checkVisibility()")
    assert screen.run("return document.querySelector('[data-tool=pictures]')") is None
    screen.save(screenshots / "embeddings.png", whole=True)
    assert screen.complaints() == []


def nearest_mean(features: Any, means: Any, width: float) -> dict[str, Any]:
    """Return what a run would have found, had it taken the nearest of these means."""
    closeness = np.exp(-((features[:, None] - means) ** 2).sum(axis=-1) / width)
    probabilities = (closeness / closeness.sum(axis=1, keepdims=True)).astype(np.float32)
    return {"features": features, "probabilities": probabilities, "kinds": probabilities.argmax(axis=1)}


def test_digits(open_page: Any, pages: Callable[..., Path], screenshots: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits(n_class=5)
    target, features = digits.target[:300], digits.data[:300].astype(np.float32)
    means = np.stack([features[target == k].mean(axis=0) for k in range(5)])
    pixels = np.rint(digits.images[:300] * 255 / 16).astype(np.uint8)[:, None]
    found = nearest_mean(features, means, 150)
    screen = open_page(pages("digits", 300, 5, pixels=pixels, truth=tuple(str(t) for t in target), **found))
    for name, width, dark in (
        ("light", 1280, False),
        ("dark", 1280, True),
        ("phone", 360, False),
        ("wide", 2560, True),
    ):
        screen.look(width, 900, dark)
        screen.save(screenshots / f"digits-{name}.png", whole=True)
    screen.show_pictures(screenshots / "digits-pictures.png")
    assert screen.complaints() == []


@pytest.mark.parametrize("rehearsals", [5, 0])
def test_how_far_to_trust_it(
    open_page: Any, pages: Callable[..., Path], shut_out: Any, screenshots: Path, rehearsals: int
) -> None:
    screen = open_page(pages(f"trust-{rehearsals}", 60, 4, rehearsals=rehearsals))
    links = "return [...document.querySelectorAll('nav a')].map((link) => link.hash)"
    assert screen.run(links)[0] == "#trust"
    for width, dark in ((1280, False), (1280, True), (360, False), (360, True)):
        screen.look(width, 900, dark)
        assert screen.run("return document.documentElement.scrollWidth") <= width
        screen.run("document.getElementById('trust').scrollIntoView({behavior: 'instant'})")
        screen.save(screenshots / f"trust-{rehearsals}-{width}-{'dark' if dark else 'light'}.png")
    assert shut_out(screen) == []
    plots = "return [...document.querySelectorAll('.plot')].map((plot) => plot.getBoundingClientRect().width > 200)"
    assert screen.run(plots) == [True] * (2 if rehearsals else 0)
    screen.look()
    screen.map_into_view()
    screen.hover(17)
    percent = screen.run("return newkinds.data.points.percent[17]")
    right = f"Kind 1, right for {percent} of 100 such pictures" if rehearsals else "Kind 1"
    assert screen.text("tip-kind") == right
    assert screen.text("tip-second").startswith("or Kind ")
    assert "%" not in screen.text("tip-second")
    screen.set("map-colour", "probability", "change")
    labels = screen.run("return [...document.querySelectorAll('#legend bdi')].map((e) => e.textContent)")
    assert labels[-1] == ("90 to 100 of 100" if rehearsals else "surest tenth")
    screen.run("newkinds.selection.toggle(17)")
    shown = screen.run("return document.querySelector('#selection-pictures .p')?.textContent")
    assert shown == (f"{percent}%" if rehearsals else None)
    assert screen.complaints() == []
