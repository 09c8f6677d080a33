"""Names and numbers as people read them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.report.text import flat_settings, number, percent, plural, visible


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.png", "plain.png"),
        ("café 👩‍🔬 שלום.png", "café 👩‍🔬 שלום.png"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\u202egnp", "\\u202egnp"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\u2028\U000e0041", "\\u2028\\U000e0041"),
    ],
)
def test_visible_shows_what_cannot_be_seen(name: str, shown: str) -> None:
    assert visible(name) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_visible_text_can_be_written_and_stays_on_its_line(name: str) -> None:
    shown = visible(name)
    shown.encode("utf-8")
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.5, "50.0%"),
        (0.12345, "12.3%"),
        (0.99999, ">99.9%"),
        (0.00001, "<0.1%"),
        (float("nan"), "–"),
        (None, "–"),
    ],
)
def test_percent_never_rounds_to_all_or_nothing(share: float | None, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (-0.5, "-0.500"),
        (1e-7, "1.00e-07"),
        (None, "–"),
    ],
)
def test_number_has_three_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_plural() -> None:
    assert [plural(n, "kind") for n in (0, 1, 1200)] == ["0 kinds", "1 kind", "1,200 kinds"]


def test_settings_are_flattened_in_order() -> None:
    tables = flat_settings({"b": 1, "t": {"x": [1, 2], "u": {"y": None}, "z": True}, "a": "text\n", "empty": {}})
    assert tables == [
        ("", [("b", "1"), ("a", "text\\n")]),
        ("t", [("x", "1, 2"), ("z", "true")]),
        ("t.u", [("y", "–")]),
    ]
