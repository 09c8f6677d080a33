"""How far to trust it: what the page makes of rehearsals, and how it draws them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import rehearsed, trusted

from newkinds.report import write_report
from newkinds.report.history import count_range
from newkinds.report.text import cases, of_100
from newkinds.report.trust import HowFar, how_far
from newkinds.report.trust_plot import LEFT, MOST, RIGHT, WIDTH, rehearsal_plot, reliability_plot


def section(page: Path) -> str:
    """Return the section's HTML, with single spaces."""
    found = re.search(r'<section id="trust".*?</section>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return " ".join(found[0].split())


def test_what_rehearsals_showed_is_of_what_was_chosen(make_data: Any) -> None:
    found = how_far(make_data(60, 4))
    assert found is not None
    assert [one.right for one in found.rehearsed] == [0.8] * 5  # with k-means, which was chosen
    assert [(one.name, one.changes, one.words, one.chosen) for one in found.tried] == [
        ("as set", "", "", False),
        ("k-means", "method = kmeans", "another method, kmeans", True),
    ]
    assert found.missed == "7"
    assert replace(found, trust=replace(found.trust, error=0.001)).missed == "less than 1"
    assert how_far(make_data(60, 4, rehearsals=0)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"initialise.neighbours": 3, "discover.neighbours": 3},
            "each picture is sorted together with the 3 most similar ones",
        ),
        ({"initialise.neighbours": 0, "discover.neighbours": 0}, "each picture is sorted on its own"),
        ({"transfer.kind": "none"}, "nothing learnt from the known kinds is used"),
        ({"discover.power": 3}, ""),
    ],
)
def test_changed_settings_in_words(changes: dict[str, Any], words: str, make_data: Any) -> None:
    data = make_data(60, 4)
    name = data.rehearsal["tried"][1]["name"]
    found = how_far(replace(data, rehearsal={**data.rehearsal, "changes": {name: changes}}))
    assert found is not None
    assert found.tried[1].words == words


def test_the_section_tells_it_all(make_data: Any, tmp_path: Path) -> None:
    data = make_data(60, 4)
    html = section(write_report(data, tmp_path))
    assert data.trust.in_words() in html
    assert "It is &lt;made up&gt;." in html
    assert html.count('<svg class="plot"') == 2
    assert "they differ by <b>7</b> in 100 pictures" in html
    assert "should hold the true share in 8 of 10 cases" in html
    assert '+10.0 <span class="quiet">± 3.0</span>' in html
    assert "k-means (chosen)" in html
    assert "as set (chosen)" not in html
    assert html.count("&lt;/bdi&gt;&lt;b&gt;dog") == 5
    assert "1,200" in html
    assert "45.0%" in html
    assert "40.0%" in html


def test_one_candidate_is_no_table(make_data: Any, tmp_path: Path) -> None:
    alone = rehearsed()
    alone |= {"tried": alone["tried"][:1], "chosen": "as set"}
    html = section(write_report(make_data(60, 4, rehearsal=alone), tmp_path))
    assert "What was tried" not in html
    assert "Each rehearsal" in html


def test_embeddings_have_no_pixels(make_data: Any, tmp_path: Path) -> None:
    known = rehearsed()
    known["rehearsed"] = [{**one, "pixels": None} for one in known["rehearsed"]]
    html = section(write_report(make_data(60, 4, rehearsal=known, pictures=False), tmp_path))
    assert "by pixels alone" not in html
    assert 'class="pixels"' not in html


def test_too_few_known_kinds_to_rehearse(make_data: Any, tmp_path: Path) -> None:
    why = "rehearsals need 8 known kinds"
    trust = replace(trusted(4), rehearsals=0, rehearsed=None, error=None, bins=(), nmi=None, why=why)
    none = rehearsed(0) | {"tried": [], "chosen": "as set", "why": why}
    html = section(write_report(make_data(60, 4, trust=trust, rehearsal=none), tmp_path))
    assert f"This estimate comes from other data sets: {why}." in html
    assert "<svg" not in html


def test_without_rehearsals_it_cannot_be_told(make_data: Any, tmp_path: Path) -> None:
    html = section(write_report(make_data(60, 4, rehearsals=0), tmp_path))
    assert "Cannot tell, because no rehearsals were made." in html
    assert "%" not in html


def test_what_is_hopeless_is_an_alarm(make_data: Any, tmp_path: Path) -> None:
    sentence = "Rehearsals say that this would not work: 12% <right>."
    page = write_report(make_data(60, 4, rehearsal=rehearsed(hopeless=sentence)), tmp_path).read_text()
    assert 'class="alarm" role="note" id="hopeless"' in page
    assert "would not work: 12% &lt;right&gt;." in page
    assert 'class="alarm"' not in write_report(make_data(60, 4), tmp_path).read_text()


def test_rehearsals_are_drawn_to_scale(make_data: Any) -> None:
    found = how_far(make_data(60, 4))
    assert found is not None
    drawing = str(rehearsal_plot(found))
    wide = WIDTH - LEFT - RIGHT
    dots = [float(x) for x in re.findall(r'class="dot line0" cx="([\d.]+)"', drawing)]
    assert dots == pytest.approx([LEFT + 0.81 * wide, *[LEFT + 0.8 * wide] * 5], abs=0.06)
    band = re.search(r'class="expected" x="([\d.]+)" y="\d+" width="([\d.]+)"', drawing)
    assert band is not None
    assert [float(x) for x in band.groups()] == pytest.approx([LEFT + 0.75 * wide, 0.12 * wide], abs=0.11)
    chance = [float(x) for x in re.findall(r'class="chance" d="M([\d.]+) ', drawing)]
    assert chance == pytest.approx([LEFT + 0.4 * wide] * 5, abs=0.06)
    assert "81% expected for this heap, 75% to 87%; in rehearsals 80%, 80%, 80%, 80%, 80%." in drawing
    many = HowFar(found.trust, found.rehearsed * 10)
    assert str(rehearsal_plot(many)).count("kinds hidden") == MOST


def test_reliability_is_drawn_to_scale() -> None:
    drawing = str(reliability_plot(trusted(4)))
    dots = [(float(x), float(y)) for x, y in re.findall(r'class="dot line0" cx="([\d.]+)" cy="([\d.]+)"', drawing)]
    assert len(dots) == 3
    line = re.search(r'class="guide" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', drawing)
    assert line is not None
    x0, y0, x1, y1 = (float(v) for v in line.groups())
    shares = [((x - x0) / (x1 - x0), (y - y0) / (y1 - y0)) for x, y in dots]
    assert [value for pair in shares for value in pair] == pytest.approx([0.3, 0.35, 0.6, 0.5, 0.9, 0.95], abs=0.002)
    assert "35% of those at 30%, 50% of those at 60%, 95% of those at 90%." in drawing


def test_the_range_of_the_number_of_kinds() -> None:
    assert count_range(None) is None
    assert count_range({"k": 3, "low": None, "high": 4}) is None
    assert count_range({"k": 3, "low": 2, "high": 4, "coverage": 0.8, "cannot_tell": "It is flat."}) is None
    plain = count_range({"k": 3, "low": 2, "high": 4, "cannot_tell": ""})
    assert plain is not None
    assert (plain.low, plain.high, plain.coverage, plain.cases) == (2, 4, None, "")
    measured = count_range({"k": 3, "low": 2, "high": 4, "coverage": 0.8})
    assert measured is not None
    assert measured.cases == "8 of 10"


def test_shares_in_words() -> None:
    assert [of_100(share) for share in (0, 0.001, 0.834, 0.9999, 1)] == [0, 1, 83, 99, 100]
    assert [cases(share) for share in (0.8, 0.85, 0.99, 0.001, 1.0)] == [
        "8 of 10",
        "85 of 100",
        "99 of 100",
        "1 of 100",
        "100 of 100",
    ]
