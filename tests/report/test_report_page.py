"""The page as a file: complete, safe, the same for the same data, replaced whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_runs import near_known

from newkinds.errors import RunError
from newkinds.evaluation.known_quality import KnownQuality
from newkinds.images.imageset import Skipped
from newkinds.report import content, write_report
from newkinds.report.page import embed_json


class Reader(HTMLParser):
    """Collect what a browser would see: elements with their attributes, and the text in each sort of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        self.inside.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open][-1] += data

    @property
    def text(self) -> str:
        return " ".join(part for tag, parts in self.inside.items() if tag not in ("script", "style") for part in parts)


def write(data: Any, out: Path) -> tuple[str, Reader, dict[str, Any]]:
    page = write_report(data, out).read_text(encoding="utf-8")
    reader = Reader(page)
    payload = next(s for s in reader.inside["script"] if s.startswith("{"))
    return page, reader, json.loads(payload)


def test_page_says_what_was_found(make_data: Any, tmp_path: Path) -> None:
    _, reader, payload = write(make_data(60, 4), tmp_path / "new" / "report")
    text = " ".join(reader.text.split())
    for words in (
        "60 pictures,",
        "4 new kinds",
        "Kind 3",
        "15 pictures",
        "93.0%",
        "0.871",
        "best at 4 new clusters",
        "mean of both: 4",
        "Their answers range from 3 to 6. How often such a range holds the true number was not measured.",
        "The curves are <made up>.",
    ):
        assert words in text
    for words in ("discover.augment", "0.1, 0.01", "broken.png", "the file ends early", "cat", "class 2", "1.2.3"):
        assert words in text
    assert payload["points"]["name"][7] == "unsorted/00007.png"
    assert os.listdir(tmp_path / "new" / "report") == ["index.html"]


def test_same_data_same_bytes(make_data: Any, tmp_path: Path) -> None:
    first, second = (write_report(make_data(40, 3), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_policy_admits_only_what_is_in_the_page(make_data: Any, tmp_path: Path) -> None:
    page, reader, _ = write(make_data(), tmp_path)
    policy = next(a["content"] for t, a in reader.tags if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    for tag in ("style", "script"):
        body = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert len(body) == 1
        assert f"{tag}-src 'sha256-{b64encode(hashlib.sha256(body[0].encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert not any({"src", "style", "action"} & a.keys() or any(k.startswith("on") for k in a) for _, a in reader.tags)
    links = [a["href"] for _, a in reader.tags if "href" in a]
    assert links
    assert all(link is not None and link.startswith("#") for link in links)
    ids = {a.get("id") for _, a in reader.tags}
    assert all(link is not None and link[1:] in ids for link in links)


def test_nasty_text_stays_text(make_data: Any, nasty: tuple[str, ...], tmp_path: Path) -> None:
    n = len(nasty)
    plain = write(make_data(n, 2), tmp_path / "plain")[1]
    data = make_data(
        n,
        2,
        names=nasty,
        truth=nasty,
        title=nasty[0],
        known_classes=nasty,
        settings={nasty[0]: nasty[2], "table": {nasty[1]: [nasty[3]]}},
        skipped=tuple(Skipped(name, name) for name in nasty),
        scores={nasty[0]: 0.5},
        version=nasty[0],
    )
    page, reader, payload = write(data, tmp_path / "nasty")
    assert {t for t, _ in reader.tags} == {t for t, _ in plain.tags}
    assert not any("onerror" in a for _, a in reader.tags)
    assert "49" not in payload["points"]["name"][2]
    assert payload["points"]["name"][0] == nasty[0]
    assert payload["points"]["name"][3] == "line\\nbreak\\r\\ttab\\x00null"
    assert nasty[0] in reader.text
    assert "\u202e" not in page
    assert "bad bytes \\xff\\x80.png" in page


def test_embedded_json_cannot_end_its_element() -> None:
    value = {"</script>": ["<!--", "&", "\u2028", "]]>"]}
    embedded = str(embed_json(value))
    assert not set("<>&\u2028") & set(embedded)
    assert json.loads(embedded) == value


def test_ready_made_embeddings_have_no_thumbnails(make_data: Any, tmp_path: Path) -> None:
    page, reader, payload = write(make_data(30, 3, pictures=False), tmp_path)
    assert payload["sprites"] is None
    assert "data:image" not in page
    assert "unsorted/00004.png" in reader.text


def test_little_is_enough(make_data: Any, tmp_path: Path) -> None:
    nothing = {"history": [], "count": None, "scores": None, "settings": {}, "skipped": (), "known_classes": ()}
    _, reader, payload = write(make_data(2, 1, with_truth=False, **nothing), tmp_path)
    assert "2 pictures," in reader.text
    assert "1 new kind" in reader.text
    assert payload["points"]["second"] == [-1, -1]
    assert not {"count", "training", "skipped"} & {a.get("id") for _, a in reader.tags}


@pytest.mark.parametrize("k", [1, 9, 100])
def test_any_number_of_kinds(make_data: Any, tmp_path: Path, k: int) -> None:
    _, reader, payload = write(make_data(110, k), tmp_path)
    assert sum(t == "article" for t, _ in reader.tags) == k
    assert len(payload["kinds"]) == k


def test_an_empty_kind_is_said(make_data: Any, tmp_path: Path) -> None:
    data = make_data(10, 3, kinds=np.zeros(10, dtype=np.int64))
    assert "No picture belongs to this kind." in write(data, tmp_path)[1].text


def test_thinned_map_says_so(make_data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, few = content.make_map, content.make_sprites
    monkeypatch.setattr(content, "make_map", lambda *a, **k: small(*a, **k, limit=50))
    monkeypatch.setattr(content, "make_sprites", lambda *a, **k: few(*a, **k, limit=45))
    _, reader, payload = write(make_data(90, 2), tmp_path)
    assert "50 of 90 pictures" in reader.text
    missing = sum(place is None for place in payload["points"]["sprite"])
    assert missing > 0
    assert f"{missing} points have no thumbnail" in " ".join(reader.text.split())


def test_best_is_said_only_where_it_was_measured(make_data: Any, tmp_path: Path) -> None:
    data = make_data(10, 9)
    data.count.update(k_accuracy=2, curve=data.count["curve"][:4])
    text = " ".join(write(data, tmp_path)[1].text.split())
    assert "best at 2 new clusters" in text
    assert "best at 3 new clusters" not in text
    assert "at 3 new clusters" in text


def test_long_lists_are_cut(make_data: Any, tmp_path: Path) -> None:
    skipped = tuple(Skipped(f"{i}.png", "broken") for i in range(500))
    _, reader, _ = write(make_data(10, 2, skipped=skipped), tmp_path)
    assert "The first 200:" in reader.text
    assert "199.png" in reader.text
    assert "200.png" not in reader.text


def test_old_report_stays_until_the_new_one_is_whole(
    make_data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write_report(make_data(10, 2), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    old = page.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="No space left"):
            write_report(make_data(12, 3), tmp_path)
    assert page.read_bytes() == old
    assert sorted(os.listdir(tmp_path)) == ["index.html", "notes.txt"]
    write_report(make_data(12, 3), tmp_path)
    assert page.read_bytes() != old
    assert sorted(os.listdir(tmp_path)) == ["index.html", "notes.txt"]


def test_other_peoples_files_are_not_replaced(make_data: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>my site</h1>")
    with pytest.raises(RunError, match="not a newkinds report"):
        write_report(make_data(10, 2), tmp_path)
    assert (tmp_path / "index.html").read_text() == "<h1>my site</h1>"
    with pytest.raises(RunError, match="is a file"):
        write_report(make_data(10, 2), tmp_path / "index.html")


def said(data: Any, out: Path) -> str:
    """Return the page's text, with single spaces."""
    return " ".join(write(data, out)[1].text.split())


def test_headline_says_how_many_and_how_sure(make_data: Any, tmp_path: Path) -> None:
    data = make_data(60, 4)
    _, reader, _ = write(data, tmp_path)
    assert reader.inside["dt"][:2] == ["Probably right", "Actually right"]
    assert reader.inside["small"][0].strip() == "75% to 87%"
    text = " ".join(reader.text.split())
    assert "about 72% of its pictures are of one kind" in text
    assert "judging by rehearsals" not in text  # its range is not measured
    data.count["coverage"] = 0.8
    text = said(data, tmp_path)
    assert "probably between 3 and 6, judging by rehearsals" in text
    assert "between 3 and 6; such a range holds the true number in 8 of 10 cases like this." in text
    assert "was not measured" not in text
    data.count["cannot_tell"] = "the curves are flat <here>"
    page, reader, _ = write(data, tmp_path)
    assert "the curves are flat <here>." in reader.text
    assert 'class="alarm" role="note" id="cannot-tell"' in page
    assert "judging by rehearsals" not in page
    given = said(make_data(60, 4, count=None), tmp_path)
    assert "between" not in given


def test_the_papers_terms_stand_behind_how_it_was_found(make_data: Any, tmp_path: Path) -> None:
    page, _, _ = write(make_data(60, 4, with_snapshots=True), tmp_path)
    before, how = page.split('<section id="how"')
    for term in ("ACC", "NMI", "ARI", "Algorithm 2", "probes", "Q, what"):
        assert term not in before.split("<body>")[1], term
        assert term in how, term
    assert "confidence" not in page.lower()


def test_without_rehearsals_pictures_are_ordered_and_nothing_is_said_in_percent(make_data: Any, tmp_path: Path) -> None:
    data = make_data(60, 4, with_truth=False, rehearsals=0, with_snapshots=True)
    page, reader, payload = write(data, tmp_path)
    text = " ".join(reader.text.split())
    assert "cannot be told, because no rehearsals were made" in text
    assert "--rehearsals 5" in text
    assert '<span class="p"' not in page
    assert "of one kind" not in text
    assert "Probably wrong" not in text
    assert "The 24 pictures that the method is least sure of" in text
    shares = re.findall(r"[\d.]+%", page.split("<body>")[1].split('<section id="how"')[0])
    assert set(shares) == {"25.0%", "25.000%"}  # of the pictures, in each kind
    own = data.own_probability
    ranks = np.argsort(np.argsort(own, kind="stable"), kind="stable")
    assert payload["points"]["percent"] == (ranks * 100 // 60).tolist()
    assert not payload["points"]["calibrated"]
    assert payload["certainty"][0] == "least sure tenth"
    assert "the method's ranking" in reader.text
    same = np.eye(4, dtype=np.float32)[data.labels]
    page, reader, payload = write(make_data(60, 4, probabilities=same, rehearsals=0), tmp_path)
    assert payload["certainty"] is None
    assert "the method's ranking" not in reader.text
    assert "equally sure of every picture" in " ".join(reader.text.split())


def test_calibrated_percentages_say_what_they_mean(make_data: Any, tmp_path: Path) -> None:
    data = make_data(60, 4)
    page, _, payload = write(data, tmp_path)
    assert payload["points"]["percent"] == [min(99, round(p * 100)) for p in data.own_probability.tolist()]
    said = re.findall(r'<span class="p" title="the kind is right for (\d+) of 100 such pictures">(\d+)%</span>', page)
    assert len(said) > 50
    assert all(title == shown for title, shown in said)
    assert payload["certainty"][9] == "90 to 100 of 100"
    assert "second_probability" not in payload["points"]  # the other kinds' are not calibrated


def test_the_quality_of_the_known_kinds(make_data: Any, tmp_path: Path) -> None:
    good = KnownQuality(0.87, 240, 50, 0.02, "held-out")
    page, reader, _ = write(make_data(60, 4, known_quality=good), tmp_path / "good")
    assert good.in_words() in " ".join(reader.text.split())
    assert "87.0%" in page
    assert 'class="alarm"' not in page
    bad = replace(good, accuracy=0.03, remedies=("more <kinds>", "another network: `pip install it`"))
    page, reader, _ = write(make_data(60, 4, known_quality=bad), tmp_path / "bad")
    assert 'class="alarm"' in page
    assert "do not trust the new kinds" in reader.text
    assert "<li>more &lt;kinds&gt;</li>" in page
    assert "<code>pip install it</code>" in page
    unknown = replace(good, accuracy=None, why="of too few pictures")
    page, reader, _ = write(make_data(60, 4, known_quality=unknown), tmp_path / "unknown")
    assert "could not be measured: of too few pictures." in " ".join(reader.text.split())
    assert "Known kinds right" not in page
    assert "known kinds right" not in write(make_data(60, 4), tmp_path / "none")[0].lower()


def test_other_numbers_of_kinds_are_shown(make_data: Any, tmp_path: Path) -> None:
    data = make_data(60, 4)
    table = [row.k for row in content.gather(data).alternatives]
    assert table == [1, 2, 3, 4, 5, 6, 7]
    text = said(data, tmp_path)
    assert "4 (chosen)" in text
    assert "± 2.0%" in text
    edge = make_data(60, 4)
    edge.count.update(k_mean=0)
    assert [(row.k, row.chosen) for row in content.gather(edge).alternatives][:2] == [(0, True), (1, False)]
    odd = make_data(10, 2)
    odd.count["curve"][1].update(accuracy=None, index=None)
    assert "–" in said(odd, tmp_path)


def test_mistakes_are_shown_with_names_as_text(make_data: Any, nasty: tuple[str, ...], tmp_path: Path) -> None:
    truth = tuple(nasty[(i * i) % 5] for i in range(60))
    _, reader, _ = write(make_data(60, 4, truth=truth), tmp_path)
    assert "Where it is wrong" in reader.text
    assert "The largest mistakes" in reader.text
    assert not any(tag == "img" for tag, _ in reader.tags)
    assert {"wrong"} <= {attributes.get("id") for _, attributes in reader.tags}
    without = write(make_data(60, 4, with_truth=False), tmp_path)[1]
    assert "Where it is wrong" not in without.text


def test_a_truth_about_a_part_is_said_beside_the_scores(make_data: Any, tmp_path: Path) -> None:
    truth = tuple(f"class {i % 4}" if i < 40 else "" for i in range(60))
    _, reader, _ = write(make_data(60, 4, truth=truth), tmp_path)
    text = " ".join(reader.text.split())
    assert "Scored on 40 of 60 pictures; the other pictures have no known truth." in text
    assert "ACC on 40" in reader.inside["dt"]
    assert "Actually right on 40" in reader.inside["dt"]
    assert "the truth is not known for 20 more" in text
    assert "10 of 10" in reader.inside["td"]
    whole = write(make_data(60, 4), tmp_path)[1]
    assert "no known truth" not in whole.text
    assert "ACC" in whole.inside["dt"]


def test_too_few_with_a_truth_give_no_percentage(make_data: Any, tmp_path: Path) -> None:
    truth = ("class 0", "class 1", *[""] * 58)
    page, reader, payload = write(make_data(60, 4, truth=truth, scores=None), tmp_path)
    assert "2 of 60 pictures have a known truth, too few for scores: these need at least 30." in reader.text
    assert not any(word in label for label in reader.inside["dt"] for word in ("ACC", "Actually", "truth"))
    assert "wrong" not in {attributes.get("id") for _, attributes in reader.tags}
    assert "acc" not in payload["charts"]  # the log has it, from another truth
    cards = re.findall(r'<span class="truth"><bdi>(.*?)</bdi>\s+(.*?)</span>', page)
    assert cards == [("class 0", "×1"), ("unknown", "×14"), ("class 1", "×1"), ("unknown", "×14")]


def test_the_nearest_known_kind_is_named(make_data: Any, tmp_path: Path) -> None:
    _, reader, payload = write(make_data(60, 4, nearest_known=near_known(60, 4)), tmp_path)
    assert reader.text.count("Nearest known kind") == 4
    assert payload["known"] == ["cat", "dog"]
    assert payload["points"]["known"][:4] == [0, 1, 0, 1]
    assert "1 picture lies more than twice as far" in " ".join(reader.text.split())
    _, reader, payload = write(make_data(60, 4), tmp_path)
    assert "Nearest known kind" not in reader.text
    assert payload["points"]["known"] is None


def test_moments_become_a_slider_and_panels(make_data: Any, tmp_path: Path) -> None:
    _, reader, payload = write(make_data(40, 3, with_snapshots=True), tmp_path)
    assert payload["frames"]["epoch"] == [0, 4, 8]
    assert len(payload["frames"]["x"][0]) == len(payload["frames"]["points"]) == 40
    panels = [a for tag, a in reader.tags if tag == "img"]
    assert [panel["alt"] for panel in panels[:3]] == ["P at the start", "Q at the start", "P after epoch 4"]
    assert all((panel["src"] or "").startswith("data:image/png;base64,") for panel in panels)
    assert "map-epoch" in {a.get("id") for _, a in reader.tags}
    _, reader, payload = write(make_data(40, 3), tmp_path)
    assert payload["frames"] is None
    assert "map-epoch" not in {a.get("id") for _, a in reader.tags}


def test_pictures_that_are_there_twice_are_shown(make_data: Any, flat: Any, tmp_path: Path) -> None:
    pixels = flat(40)
    pixels[8] = pixels[1]  # both of kind 1 of 7, as 1 and 8 are
    pixels[9] = pixels[3]
    text = said(make_data(40, 7, pixels=pixels), tmp_path)
    assert "4 pictures in 2 groups with the same pixels" in text
    assert "in 2 kinds" in text
    assert "4 pictures that appear more than once" in text


def test_sheets_that_no_card_needs_come_later(make_data: Any, tmp_path: Path) -> None:
    pixels = np.zeros((2_000, 1, 64, 64), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(2_000) % 256
    page, reader, payload = write(make_data(2_000, 2, pixels=pixels), tmp_path)
    assert len(payload["sprites"]["sheets"]) == 3
    later = {a["id"] for tag, a in reader.tags if tag == "script" and a.get("type") == "text/plain"}
    assert later == {"sheet1", "sheet2"}
    assert page.count("background-image:url(data:image/webp") == 1
