"""The addresses of the workbench: the page, its files, pictures, and questions and actions as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from newkinds.app import suggestions
from newkinds.app.pictures import MissingError
from newkinds.app.workbench import Moment, Workbench
from newkinds.corrections import CorrectionError
from newkinds.errors import NewkindsError, RunError
from newkinds.report.page import embed_json
from newkinds.report.palette import LIGHT, SHAPES, palette_css
from newkinds.report.text import visible
from newkinds.runs.journal import StaleError
from newkinds.version import __version__

KEPT = "private, max-age=86400"  # pictures: their addresses have the run's mark in them
MEDIA = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
SHARED = ("base.css", "painters.js")  # of the report
WAIT = 0.05  # seconds that a request waits for what is still computed
MOST_NAMES = 500  # in one request


class Refusal(NewkindsError):
    """A request that cannot be understood."""


def make_app(bench: Workbench) -> Starlette:
    """Return the application, which lets everybody in: `Guard` goes in front of it."""
    routes = [
        Route("/", _page(bench)),
        Route("/static/{name}", _static),
        Route("/thumb/{mark}/{row}", _picture(bench, whole=False)),
        Route("/picture/{mark}/{row}", _picture(bench, whole=True)),
    ]
    reading = (state, kind, names, picture, parts, queue, grow, suggest, map_)
    writing = (say, undo, redo, refuse, again)
    routes += [Route(f"/api/{one.__name__.strip('_')}", _answered(one, bench)) for one in reading]
    routes += [Route(f"/api/{one.__name__}", _answered(one, bench), methods=["POST"]) for one in writing]
    return Starlette(routes=routes)


def _answered(answer: Callable[[Workbench, Any], Any], bench: Workbench) -> Callable[[Request], Any]:
    """Return a handler that gives a function what was asked and sends what it returns, or its error, as JSON."""

    async def handler(request: Request) -> Response:
        given = _body(await request.body()) if request.method == "POST" else dict(request.query_params)
        return await run_in_threadpool(_tried, answer, bench, given)

    return handler


def _tried(answer: Callable[[Workbench, Any], Any], bench: Workbench, given: Any) -> Response:
    try:
        if isinstance(given, Exception):
            raise given
        return JSONResponse(answer(bench, given))
    except StaleError as error:
        return _error(error, 409)
    except (CorrectionError, Refusal) as error:
        return _error(error, 422)
    except NewkindsError as error:
        return _error(error, 400 if error.exit_code == 2 else 500)
    except OSError as error:  # such as a run folder that was moved away, or a disk that is full
        where = f" ({error.filename})" if error.filename else ""
        hint = "Mend that, and reload the page. What was said before is saved."
        return _error(RunError(f"The run cannot be used: {error.strerror or error}{where}.", hint=hint), 500)


def _error(error: NewkindsError, status: int) -> Response:
    return JSONResponse({"error": error.message, "hint": error.hint}, status)


def _body(data: bytes) -> Any:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return Refusal("The request is no JSON.", hint="Send an object.")
    return found if isinstance(found, dict) else Refusal("The request is no JSON object.", hint="Send an object.")


def _number(given: Any, key: str, *, least: int = 0, default: int | None = None) -> int:
    """Return a whole number of a request, or raise an error."""
    value = given.get(key, default)
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if type(value) is not int or value < least:
        raise Refusal(f"{key} = {value!r} is not a whole number from {least} on.", hint="Reload the page.")
    return value


def _numbers(given: Any, key: str, most: int) -> list[int]:
    """Return whole numbers of a request, "1,2,3" or a list."""
    value = given.get(key, [])
    parts = value.split(",") if isinstance(value, str) and value else value or []
    if not isinstance(parts, list) or len(parts) > most:
        raise Refusal(f"{key} should be at most {most} whole numbers.", hint="Ask for fewer.")
    return [_number({key: part}, key) for part in parts]


def _row(bench: Workbench, given: Any, key: str = "row") -> int:
    row = _number(given, key)
    if row >= len(bench.pictures.names):
        raise Refusal(f"There is no picture {row}.", hint=f"The last is {len(bench.pictures.names) - 1}.")
    return row


# What the page asks


def state(bench: Workbench, given: Any) -> Any:
    """Return the kinds, the progress, and what can be undone; only the version if nothing was said `since`."""
    since = given.get("since")
    if since is not None and _number(given, "since") == bench.now().version:
        told = bench.again.told()
        return {"version": int(since), **({} if told is None else {"again": told})}
    return bench.overview()


def kind(bench: Workbench, given: Any) -> Any:
    """Return all pictures of a kind in an order, with what is known of each."""
    to = _row(bench, given, "to") if "to" in given else None
    now, rows = bench.ordered(str(given.get("kind", "")), str(given.get("order", "typical")), to)
    return {"version": now.version, **_tiles(bench, now, rows)}


def names(bench: Workbench, given: Any) -> Any:
    """Return the names of some pictures."""
    rows = _numbers(given, "rows", MOST_NAMES)
    return {"names": {row: visible(bench.pictures.names[_row(bench, {"row": row})]) for row in rows}}


def picture(bench: Workbench, given: Any) -> Any:
    """Return what is known of a picture: its name and path, its kind, and what the machine said."""
    row = _row(bench, given)
    now, answer = bench.now(), bench.journal.answer
    path = bench.pictures.path(row)
    order = np.argsort(-answer.probabilities[row], kind="stable")[:3].tolist()
    said = [(answer.columns[one], float(answer.probabilities[row, one])) for one in order]
    following = int(now.looks.next[row])
    return {
        "row": row,
        "name": visible(bench.pictures.names[row]),
        "path": None if path is None else visible(str(path.absolute())),
        "there": path is None or path.is_file(),
        "kind": now.kinds[int(now.kind[row])],
        "next": now.kinds[following] if following >= 0 else None,
        "confirmed": bool(now.confirmed[row]),
        "said": bool(now.said[row]),
        "machine": [{"kind": one, "probability": probability} for one, probability in said],
        "calibrated": answer.calibrated,
    }


def parts(bench: Workbench, given: Any) -> Any:
    """Return how a kind could be split: in `n`, or around `seeds`."""
    number = _number(given, "n", least=2) if "n" in given else None
    now, found = bench.parts(str(given.get("kind", "")), number, _numbers(given, "seeds", 50))
    return {"version": now.version, "parts": [rows.tolist() for rows in found]}


def queue(bench: Workbench, given: Any) -> Any:
    """Return what is worth asking next, the best first."""
    now, found = bench.queue(set(str(given.get("passed", "")).split(",")))
    shown = [
        {
            "key": one.key,
            "sort": one.sort,
            "kind": now.kinds[one.kind],
            "other": now.kinds[one.other] if one.other >= 0 else None,
            **_tiles(bench, now, one.rows),
        }
        for one in found[:3]
    ]
    return {"version": now.version, "waiting": len(found), "questions": shown}


def grow(bench: Workbench, given: Any) -> Any:
    """Return undecided pictures that are likely of a kind."""
    now, rows = bench.grow(str(given.get("kind", "")))
    return {"version": now.version, **_tiles(bench, now, rows)}


def suggest(bench: Workbench, given: Any) -> Any:
    """Return pictures that look like those of another kind, kinds that look like one, and repeated pictures."""
    now, near = bench.now(), bench.near(WAIT)
    nothing = {"rows": [], "flags": [], "guess": [], "sure": 0}
    if near is None:
        return {"version": now.version, "ready": False, "moves": nothing, "merges": [], "repeated": []}
    kinds = now.for_suggestions
    moves = suggestions.elsewhere(near, bench.points, now.looks.centres, kinds, bench.asked(now).refused)
    merges = suggestions.alike(near, kinds)
    again = suggestions.repeated(near, bench.points, kinds)
    sizes = np.bincount(now.kind, minlength=len(now.kinds)).tolist()
    return {
        "version": now.version,
        "ready": True,
        "moves": {
            **_tiles(bench, now, moves.rows),
            "guess": [now.kinds[one] for one in moves.targets.tolist()],
            "sure": int((moves.gain > 0).sum()),
        },
        "merges": [
            {
                "kinds": [now.kinds[m.first], now.kinds[m.second]],
                "close": [round(m.shares[0] * sizes[m.first]), round(m.shares[1] * sizes[m.second])],
                "sizes": [sizes[m.first], sizes[m.second]],
            }
            for m in merges
        ],
        "repeated": [
            {"kinds": [now.kinds[one] for one in np.unique(now.kind[rows])], **_tiles(bench, now, rows)}
            for rows in again
        ],
    }


def map_(bench: Workbench, given: Any) -> Any:
    """Return where pictures lie on the map; nothing while it is still drawn."""
    now, found = bench.now(), bench.map()
    if found is None:
        return {"version": now.version, "ready": False}
    rows, places = found
    grid = np.rint(places * 10_000).astype(int)
    return {
        "version": now.version,
        "ready": True,
        "rows": rows.tolist(),
        "x": grid[:, 0].tolist(),
        "y": grid[:, 1].tolist(),
        "kinds": list(now.kinds),
        "kind": now.kind[rows].tolist(),
    }


# What the page says


def say(bench: Workbench, given: Any) -> Any:
    """Write an action into the journal. base: the last line that the speaker has seen, if that matters."""
    base = _number(given, "base") if given.get("base") is not None else None
    return _written(bench, bench.say(given.get("action"), base))


def undo(bench: Workbench, given: Any) -> Any:
    """Take back the last action that holds."""
    return _written(bench, bench.undo(_number(given, "line", least=1)))


def redo(bench: Workbench, given: Any) -> Any:
    """Do again what was undone last."""
    return _written(bench, bench.redo(_number(given, "line", least=1)))


def refuse(bench: Workbench, given: Any) -> Any:
    """Offer pictures no more for a kind; this is not in the journal."""
    bench.refuse(str(given.get("kind", "")), _numbers(given, "rows", 100_000))
    return {"version": bench.now().version}


def again(bench: Workbench, given: Any) -> Any:
    """Sort the pictures again by what was said, in the background; what comes of it is in the state."""
    bench.again.start()
    return bench.overview()


def _written(bench: Workbench, lines: list[Any]) -> Any:
    return {
        "saved": [line.to_dict()["line"] for line in lines],
        "said": lines[-1].said.model_dump(mode="json"),
        **bench.overview(),
    }


def _tiles(bench: Workbench, now: Moment, rows: Any) -> dict[str, Any]:
    """Return rows with what is shown on their pictures. flags: 1 confirmed, 2 said by a person."""
    flags = now.confirmed[rows].astype(int) + 2 * now.said[rows].astype(int)
    return {"rows": rows.tolist(), "flags": flags.tolist()}


# The page and its files


def _page(bench: Workbench) -> Callable[[Request], Response]:
    environment = Environment(
        loader=PackageLoader("newkinds", "app/templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    marks = embed_json({"paths": SHAPES, "colours": len(LIGHT)})

    def handler(request: Request) -> Response:
        page = environment.get_template("workbench.html.j2")
        return HTMLResponse(page.render(title=visible(bench.title), marks=marks, version=__version__))

    return handler


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    data = _files().get(name)
    if data is None:
        return PlainTextResponse("There is no such file.\n", 404)
    return Response(data, media_type=MEDIA[name[name.rindex(".") :]])


@cache
def _files() -> dict[str, bytes]:
    """Return the files of the page by name: its own, those that it shares with the report, and the palette."""
    own = resources.files("newkinds.app").joinpath("static")
    shared = resources.files("newkinds.report").joinpath("static")
    found = {file.name: file.read_bytes() for file in own.iterdir() if file.name[file.name.rfind(".") :] in MEDIA}
    found |= {name: shared.joinpath(name).read_bytes() for name in SHARED}
    return {**found, "palette.css": palette_css().encode()}


def _picture(bench: Workbench, *, whole: bool) -> Callable[[Request], Response]:
    def handler(request: Request) -> Response:
        gone = PlainTextResponse("There is no such picture.\n", 404)
        if request.path_params["mark"] != bench.mark:
            return gone
        try:
            row = _row(bench, request.path_params)
            found = bench.pictures.whole(row) if whole else bench.pictures.thumbnail(row)
        except Refusal:
            return gone
        except MissingError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return Response(found.data, media_type=found.media_type, headers={"Cache-Control": KEPT})

    return handler
