"""What can be said about an answer: each action a small model that is checked when it is read.

Pictures are called by their names, as in kinds.csv, and kinds by what never changes: "new:3", "known:bolt", "none". A
kind that does not exist yet is "fresh", or "fresh:LABEL" where one request speaks of it several times; the journal
writes the number that it gets, which no kind of the run has ever had.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from newkinds.errors import UsageError

FRESH = "fresh"
LONGEST_NAME = 200  # characters of a kind's name
LONGEST_PATH = 4096  # of a picture's
MOST = 1_000_000  # pictures, kinds or actions in one


class CorrectionError(UsageError):
    """What was said cannot be done: a picture or a kind is not there, or not any more."""


def clean_name(name: str) -> str:
    """Return a name of a kind without blanks around it, in composed form; raise a ValueError if it cannot be shown."""
    name = unicodedata.normalize("NFC", name).strip()
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise ValueError("a name is one line of text without control characters")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a name has at most {LONGEST_NAME} characters, not {len(name)}")
    return name


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values):
        raise ValueError("something stands there twice")
    return values


Kind: TypeAlias = Annotated[
    str, Field(pattern=r"^(new:(0|[1-9][0-9]{0,8})|known:.+|none|fresh(:\w{1,40})?)$", max_length=LONGEST_PATH)
]
Picture: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]
Pictures: TypeAlias = Annotated[tuple[Picture, ...], Field(min_length=1, max_length=MOST), AfterValidator(_distinct)]
Kinds: TypeAlias = Annotated[tuple[Kind, ...], Field(min_length=1, max_length=MOST), AfterValidator(_distinct)]
Line: TypeAlias = Annotated[int, Field(ge=1, strict=True)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Name(_Said):
    """Call a new kind something; an empty name takes its name away."""

    do: Literal["name"] = "name"
    kind: Kind
    name: Annotated[str, AfterValidator(clean_name)]


class Merge(_Said):
    """Say that several kinds are one: the known one among them, or the one with the lowest number, remains."""

    do: Literal["merge"] = "merge"
    kinds: Annotated[Kinds, Field(min_length=2)]


class Part(_Said):
    """Pictures of a kind that is split, and the kind that they are from then on: a fresh one, or the same."""

    to: Kind = FRESH
    pictures: Pictures


class Split(_Said):
    """Say that some pictures of a kind are of other kinds; those that are in no part stay, by the machine's word."""

    do: Literal["split"] = "split"
    kind: Kind
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=MOST)]


class Move(_Said):
    """Say of which kind pictures are, which confirms them."""

    do: Literal["move"] = "move"
    pictures: Pictures
    to: Kind


class Confirm(_Said):
    """Say that pictures are of the kind that they are in."""

    do: Literal["confirm"] = "confirm"
    kind: Kind
    pictures: Pictures


class Accept(_Said):
    """Say that these are kinds."""

    do: Literal["accept"] = "accept"
    kinds: Kinds


class Reject(_Said):
    """Say that these are no kinds: the answer counts their pictures as none."""

    do: Literal["reject"] = "reject"
    kinds: Kinds


class Reopen(_Said):
    """Take back that kinds were accepted or rejected."""

    do: Literal["reopen"] = "reopen"
    kinds: Kinds


Single: TypeAlias = Annotated[
    Name | Merge | Split | Move | Confirm | Accept | Reject | Reopen, Field(discriminator="do")
]


class Batch(_Said):
    """Several actions that are done, and undone, as one. note: what they are, such as where they were imported from."""

    do: Literal["batch"] = "batch"
    actions: Annotated[tuple[Single, ...], Field(min_length=1, max_length=MOST)]
    note: Annotated[str, Field(max_length=1000)] = ""


class Undo(_Said):
    """Take back the last action that holds. line: where the journal has it."""

    do: Literal["undo"] = "undo"
    line: Line


class Redo(_Said):
    """Do again what was undone last. line: where the journal has it."""

    do: Literal["redo"] = "redo"
    line: Line


class Again(_Said):
    """Note that the machine has sorted the pictures again, by what was said up to a line; nobody can undo that."""

    do: Literal["again"] = "again"
    line: Annotated[int, Field(ge=0, strict=True)]


Action: TypeAlias = Name | Merge | Split | Move | Confirm | Accept | Reject | Reopen | Batch
Request: TypeAlias = Action | Undo | Redo
Said: TypeAlias = Request | Again
_REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="do")])
_SAID: TypeAdapter[Said] = TypeAdapter(Annotated[Said, Field(discriminator="do")])


def parse_action(values: Any) -> Request:
    """Return an action, an undo or a redo from plain values, as JSON has them; raise a CorrectionError if it is none.

    No value is converted: a number is no text.
    """
    try:
        return _REQUEST.validate_python(values)
    except ValidationError as error:
        raise _no_action(error) from None


def parse_line(values: Any) -> Said:
    """Return what a line of the journal says: an action, an undo or a redo, or a note that only newkinds writes."""
    try:
        return _SAID.validate_python(values)
    except ValidationError as error:
        raise _no_action(error) from None


def _no_action(error: ValidationError) -> CorrectionError:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return CorrectionError(
        f"This is not something that can be said about kinds: {where or 'it'}: {first['msg']}{more}.",
        hint='Say for example {"do": "move", "pictures": ["a.jpg"], "to": "new:3"}.',
    )


def flat(action: Action) -> Iterator[Name | Merge | Split | Move | Confirm | Accept | Reject | Reopen]:
    """Yield an action, or those of a batch."""
    if isinstance(action, Batch):
        yield from action.actions
    else:
        yield action


def kinds_in(action: Action) -> Iterator[str]:
    """Yield every kind that an action speaks of."""
    for one in flat(action):
        if isinstance(one, Merge | Accept | Reject | Reopen):
            yield from one.kinds
        elif isinstance(one, Move):
            yield one.to
        else:
            yield one.kind
        if isinstance(one, Split):
            yield from (part.to for part in one.parts)
