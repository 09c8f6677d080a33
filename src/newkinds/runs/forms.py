"""What each JSON file of a run must say for it to be read: a file with the right hash may be somebody else's.

A form is a type, a form that may be None (`maybe`), a list or a table of one form (`each`, `table`), or a dictionary of
the keys that must be there. More keys may be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from newkinds.runs import names

Form = Callable[[Any], bool]
_WRONG = "a value is missing, or not of the type that stands there"
MOST = 10**12  # of a number: what is larger is no count, share or score


def text(value: Any) -> bool:
    """Return whether a value is a text that can be written to a file."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def kind(value: Any) -> bool:
    """Return whether a value is a kind: "none", "known:NAME" or "new:NUMBER"."""
    return text(value) and re.fullmatch(r"none|known:.*|new:[0-9]{1,9}", value, re.DOTALL) is not None


def number(value: Any) -> bool:
    """Return whether a value is a number, finite and not beyond all counts."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < MOST


def whole(value: Any) -> bool:
    """Return whether a value is a whole number, not below 0."""
    return number(value) and isinstance(value, int) and value >= 0


def flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def anything(value: Any) -> bool:
    """Return True."""
    return True


def maybe(form: Form) -> Form:
    """Return the form of what may be missing."""
    return lambda value: value is None or form(value)


def each(form: Form, length: int | None = None) -> Form:
    """Return the form of a list, of so many values if that is said."""
    return lambda value: isinstance(value, list) and length in (None, len(value)) and all(map(form, value))


def table(form: Form) -> Form:
    """Return the form of a table with any keys."""
    return lambda value: isinstance(value, dict) and all(map(text, value)) and all(map(form, value.values()))


def both(first: Form, second: Form) -> Form:
    """Return the form of what has two; the second is looked at only if the first holds."""
    return lambda value: first(value) and second(value)


def keys(forms: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    """Return the form of a table that has these keys, and may have the optional ones and others."""

    def holds(value: Any) -> bool:
        if not isinstance(value, dict) or not all(map(text, value)):
            return False
        there = {key: form for key, form in (optional or {}).items() if key in value}
        return all(key in value and form(value[key]) for key, form in {**forms, **there}.items())

    return holds


_SOURCE = keys({}, {"method": text, "calibrated": flag, "remark": text, "head": each(kind), "sorted": each(kind)})
_POINT = keys({"k": maybe(whole)}, {"accuracy": maybe(number), "index": maybe(number), "found": maybe(number)})
_MIXED = keys(
    {"all": number}
    | {name: maybe(number) for name in ("old", "new", "named", "auroc")}
    | dict.fromkeys(("n_old", "n_new", "rejected", "rejected_wrongly"), whole)
)
_SCORES = keys(
    {"n_found": whole, "n_true": whole, "error_in_k": maybe(number)},
    {name: maybe(number) for name in ("acc", "nmi_geometric", "nmi_arithmetic", "ari", "n", "of")}
    | {"mixed": maybe(_MIXED)},
)
_TRIAL = keys({"acc": number, "nmi": number})
_REHEARSED = keys(
    {"hidden": each(text), "pictures": whole, "chance": number, "trials": table(_TRIAL)},
    {"pixels": maybe(number), "asked": maybe(whole), "likeness": maybe(number)},
)

FORMS: dict[str, Form] = {
    names.COUNT: both(
        keys(
            {
                "k": whole,
                "low": maybe(whole),
                "high": maybe(whole),
                "confidence": maybe(number),
                "remarks": each(text),
                "curve": each(_POINT),
                "k_accuracy": maybe(number),
                "k_index": maybe(number),
                "k_mean": maybe(number),
                "error": maybe(number),
                "size_ratio": maybe(number),
                "cannot_tell": maybe(text),
                "estimator": text,
                "coverage": maybe(number),
                "answers": each(number),
            }
        ),
        lambda value: (
            value["estimator"] != "rehearsed"
            or value["cannot_tell"] is not None
            or None not in (value["confidence"], value["error"], value["size_ratio"])
        ),
    ),
    names.CHOICE: keys(
        {"kept": text, "why": text}, {"warning": maybe(text), "epoch": number, "monitor": maybe(number)}
    ),
    names.TRUST: keys(
        {
            "acc": number,
            "low": number,
            "high": number,
            "bins": each(each(number, 3)),
            "purity": each(maybe(number)),
            "rehearsed": maybe(each(number, 2)),
            "remarks": each(text),
            "rehearsals": whole,
            "hidden": whole,
            "why": text,
        },
        {"nmi": maybe(number), "error": maybe(number)},
    ),
    names.REHEARSAL: both(
        keys(
            {
                "chosen": text,
                "changes": table(table(anything)),
                "rehearsed": each(_REHEARSED),
                "tried": each(keys({"name": text, "acc": number, "gain": number}, {"gain_error": maybe(number)})),
            },
            {"hopeless": text, "why": text},
        ),
        lambda value: all(value["chosen"] in one["trials"] for one in value["rehearsed"]),
    ),
    names.KNOWN_QUALITY: keys(
        {"accuracy": maybe(number), "kinds": whole, "pictures": whole, "how": text, "remedies": each(text)},
        {"chance": maybe(number), "of": text, "why": text, "near_chance": flag},
    ),
    names.SCORES: keys({"truth": each(text), "discovered": _SCORES, "kmeans": _SCORES}),
    names.ASSIGNMENT: keys({"columns": each(kind), "source": _SOURCE}),
    names.KNOWN: each(text),
    names.NOVELTY: keys(
        {"holds": text, "known": number, "low": number, "high": number},
        {"same": each(each(text, 2)), "judged": whole, "held_out": whole, "origin": flag},
    ),
    names.AGAIN: both(
        keys(
            {"columns": each(text), "labels": each(whole), "pinned": each(whole), "parts": each(whole), "line": whole}
        ),
        lambda value: (
            len(value["labels"]) == len(value["parts"])
            and max(value["labels"], default=0) < len(value["columns"])
            and max(value["pinned"], default=0) < len(value["labels"])
        ),
    ),
    names.GROWN: both(
        keys(
            {
                "week": whole,
                "run": text,
                "line": whole,
                "weeks": each(whole),
                "was": table(kind),
                "accepted": table(whole),
                "confirmed": whole,
                "left_out": whole,
                "carried": keys(
                    {name: each(kind) for name in ("kinds", "held", "accepted")}
                    | {"said": each(whole), "confirmed": each(whole), "called": table(text), "next_number": whole}
                ),
            }
        ),
        lambda value: (
            len(value["carried"]["kinds"]) <= len(value["weeks"])
            and max([*value["carried"]["said"], *value["carried"]["confirmed"]], default=-1)
            < len(value["carried"]["kinds"])
        ),
    ),
    names.COST: keys({"seconds": maybe(number), "megabytes": maybe(number)}),
}


def check(name: str, value: Any) -> None:
    """Raise a TypeError if a JSON file of a run does not have the form of its name."""
    if name in FORMS and not FORMS[name](value):
        raise TypeError(_WRONG)


def check_rehearsed(value: Any, candidates: Iterable[str]) -> None:
    """Raise a TypeError if what is said of a rehearsal, beside its tensors, does not tell of each candidate."""
    if not (_REHEARSED(value) and set(candidates) <= set(value["trials"])):
        raise TypeError(_WRONG)
