"""The page: one HTML file that opens from disk, runs only its own script and makes no network requests.

Script, style, data and thumbnails are all embedded. So a content security policy that all browsers interpret alike
(hashes and data: only; what 'self' means for file: differs) can forbid everything else, the page can be sent to others
as it is, and replacing it is one atomic rename that touches no other file in the folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from newkinds.errors import RunError
from newkinds.files import write_atomic
from newkinds.progress import QUIET, Progress
from newkinds.report import content, curves, text, trust_plot
from newkinds.report.content import Content
from newkinds.report.data import ReportData
from newkinds.report.palette import mark, palette_css

NAME = "index.html"
GENERATOR = '<meta name="generator" content="newkinds'  # marks a page as ours, which may be replaced
SCRIPTS = (
    "base.js",
    "names.js",
    "charts.js",
    "points.js",
    "painters.js",
    "map.js",
    "select.js",
    "explore.js",
    "journey.js",
)


def write_report(data: ReportData, out: Path, progress: Progress = QUIET) -> Path:
    """Write the page into the folder `out` and return its path, `out`/index.html.

    An older report there stays until the new one is complete; other files in the folder are not touched. The same data
    gives the same bytes.
    """
    out = Path(out)
    check_target(out)
    page = make_page(data, progress)
    target = out / NAME
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(target, page)
    except OSError as error:
        raise RunError(
            f"The report cannot be written to {out}: {error.strerror or error}.",
            hint="Give another folder, or free some space and try again.",
        ) from error
    return target


def make_page(data: ReportData, progress: Progress = QUIET) -> bytes:
    """Return the page as the bytes of a file."""
    return render(content.gather(data, progress)).encode("utf-8")


def render(shown: Content) -> str:
    """Return the whole page as text."""
    style = "\n".join([_static("base.css"), _static("report.css"), palette_css(), _sprite_css(shown)])
    script = "\n".join(_static(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader("newkinds", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        visible=text.visible,
        whole=text.whole,
        percent=text.percent,
        number=text.number,
        kind=shown.data.kind_name,
        of_100=text.of_100,
    )
    environment.globals.update(
        mark=mark,
        plural=text.plural,
        svg=curves.svg,
        rehearsal_plot=trust_plot.rehearsal_plot,
        reliability_plot=trust_plot.reliability_plot,
    )
    return environment.get_template("index.html.j2").render(
        shown=shown,
        data=shown.data,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        payload=embed_json(shown.payload),
        sheets=_later_sheets(shown),
    )


def embed_json(value: Any) -> Markup:
    """Return JSON that is safe inside a script element: no character in it can end the element or start markup."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _sprite_css(shown: Content) -> str:
    """Return CSS rules for the sheets and for the place of each picture on a card: inline styles are not allowed.

    Sheets that only the map needs come later, see `_later_sheets`: a browser would load them before it shows anything.
    """
    sprites = shown.sprites
    if sprites is None:
        return ""
    rules = [f".thumb{{aspect-ratio:{sprites.width}/{sprites.height}}}"]
    if sprites.pixelated:
        rules.append(".thumb,canvas{image-rendering:pixelated}")
    later = dict(_later_sheets(shown))
    for i, sheet in enumerate(sprites.sheets):
        size = f"{_share(sheet.width, sprites.width)} {_share(sheet.height, sprites.height)}"
        image = "" if i in later else f"background-image:url({sheet.uri});"
        rules.append(f".sheet{i}{{{image}background-size:{size}}}")
    for item in shown.on_cards:
        if place := sprites.places.get(item):
            sheet = sprites.sheets[place.sheet]
            x, y = _share(place.x, sheet.width - sprites.width), _share(place.y, sheet.height - sprites.height)
            rules.append(f".p{item}{{background-position:{x} {y}}}")
    return "\n".join(rules)


def _later_sheets(shown: Content) -> list[tuple[int, str]]:
    """Return the sheets that no card needs, with their data: URIs: the script loads them when they are needed."""
    sprites = shown.sprites
    if sprites is None:
        return []
    needed = {sprites.places[item].sheet for item in shown.on_cards if item in sprites.places}
    return [(i, sheet.uri) for i, sheet in enumerate(sprites.sheets) if i not in needed]


def _share(part: int, whole: int) -> str:
    """Return a CSS percentage: thumbnails on cards grow and shrink with the card."""
    return f"{part / whole * 100:.6g}%"


def _static(name: str) -> str:
    found = resources.files("newkinds.report").joinpath("static", name).read_text(encoding="utf-8")
    return found.replace("\r\n", "\n")  # as browsers do before they compare the hash


def _hash(inline: str) -> str:
    # The element's text is what the browser hashes: the template puts nothing else between the tags.
    digest = hashlib.sha256(inline.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def check_target(out: Path) -> None:
    """Refuse a target where the page would replace something that is not a report."""
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file, but the report needs a folder.", hint="Give another folder for the report.")
    page = out / NAME
    if not page.exists():
        return
    try:
        with page.open("rb") as stream:
            head = stream.read(4096)
    except OSError:
        head = b""
    if GENERATOR.encode() not in head:
        raise RunError(
            f"{page} exists and is not a newkinds report.", hint="Give another folder, or move that file away."
        )
