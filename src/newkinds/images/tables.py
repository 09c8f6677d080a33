"""Tables of picture paths: CSV as spreadsheets write it, or Parquet. No cell is ever evaluated."""

from __future__ import annotations

import csv
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

from newkinds.errors import DataError, UsageError

SUFFIXES = (".csv", ".parquet")
MAX_BYTES = 1 << 28  # of a table: some millions of rows; anything larger is not a list of pictures
MAX_ROWS = 10_000_000
MAX_LINE = 1 << 20  # characters of a line of CSV

_LABELS = ("label", "kind")  # the column of kinds; newkinds itself writes `kind`
_DELIMITERS = ",;\t"
_BATCH = 1 << 16  # rows of Parquet read at a time
_FIRST_ROW = "Its first row should name the columns: path,label or path,kind, or path alone where no kinds are needed."
_SAVE_AS = "Save it as CSV in UTF-8, or as Parquet."


class Row(NamedTuple):
    """A row of a table: its number, its path as written, and its label, None where there is none.

    number: for CSV as a spreadsheet shows it, with the header in row 1; for Parquet counted from 0.
    """

    number: int
    path: str
    label: str | int | None


class _Opened(NamedTuple):
    """An open table: the names and types of its columns, and a function that yields the rows of two of them.

    types: "text", "integer", or another type as the file names it. rows: takes the index of the column of paths and
    that of labels, or None, and yields the rows that are not empty.
    """

    names: list[str]
    types: list[str]
    rows: Callable[[int, int | None], Iterator[Row]]


def is_table(path: Path) -> bool:
    """Return whether a path is a table, judging by its suffix; a folder never is."""
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def read_table(path: Path, *, labelled: bool) -> list[Row]:
    """Return the columns `path` and `label` (or `kind`) of a table, without empty rows.

    Column names are case-insensitive. CSV is UTF-8, with commas, semicolons or tabs between cells;
    spaces around a cell and rows of empty cells are dropped. A whole number below 0 in Parquet counts as no label.

    labelled: whether a table without labels is an error. Otherwise a label column that is neither text nor integer is
        ignored.
    """
    _check_file(path)
    with _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path) as table:
        rows = list(islice(table.rows(*_columns(path, table, labelled)), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise DataError(
            f"{path} has more than {MAX_ROWS:,} rows.", hint="Split it, or give the folder of the pictures."
        )
    return rows


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.", hint="Give a list that is there: a .csv or .parquet file.") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} is not a file.", hint="Give a .csv or .parquet file.")
    if status.st_size > MAX_BYTES:
        raise DataError(
            f"{path} has {status.st_size:,} bytes; a list may have {MAX_BYTES:,}.",
            hint="Leave out the columns that are not needed, or give the folder of the pictures.",
        )


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be read ({error.strerror}).", hint=f"Look at its permissions: ls -l {path}")


def _columns(path: Path, table: _Opened, labelled: bool) -> tuple[int, int | None]:
    """Return the indices of the columns of paths and of labels."""
    names = [name.casefold() for name in table.names]
    paths = [index for index, name in enumerate(names) if name == "path"]
    labels = [index for index, name in enumerate(names) if name in _LABELS]
    if len(paths) > 1 or len(labels) > 1:
        twice = ", ".join(f"`{table.names[index]}`" for index in (paths if len(paths) > 1 else labels))
        raise DataError(f"{path} has the columns {twice}, of which one should be left.", hint="Delete the others.")
    if not paths or (labelled and not labels):
        missing = "`label` (or `kind`)" if paths else "`path`"
        raise DataError(f"{path} has {_shown(table.names)}; {missing} is missing.", hint=_FIRST_ROW)
    if table.types[paths[0]] != "text":
        raise _wrong_type(path, table, paths[0], "text is needed")
    if labels and table.types[labels[0]] not in ("text", "integer"):
        if labelled:
            raise _wrong_type(path, table, labels[0], "text or whole numbers are needed")
        labels = []
    return paths[0], labels[0] if labels else None


def _wrong_type(path: Path, table: _Opened, column: int, needed: str) -> DataError:
    return DataError(
        f"{path} has the column `{table.names[column]}` of type {table.types[column]}; {needed}.",
        hint="Write the column again in that type.",
    )


def _shown(names: Sequence[str]) -> str:
    """Return column names for an error message: the first ten, shortened, with unprintable characters escaped."""
    if not names:
        return "no columns"
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:40]}...") for name in names[:10])
    return f"the columns {shown}" + (f" and {len(names) - 10} more" if len(names) > 10 else "")


# CSV


@contextmanager
def _csv(path: Path) -> Iterator[_Opened]:
    """Open a CSV file, in which everything is text."""

    def rows(of_paths: int, of_labels: int | None) -> Iterator[Row]:
        for number, cells in records:
            if any(cells):
                label = cells[of_labels] if of_labels is not None and of_labels < len(cells) else ""
                yield Row(number, cells[of_paths] if of_paths < len(cells) else "", label or None)

    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            records = _records(path, stream)
            _, names = next(records, (0, []))
            yield _Opened(names, ["text"] * len(names), rows)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a CSV file in UTF-8 ({error.reason}).", hint=_SAVE_AS) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _records(path: Path, stream: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the records from the first one that is not blank, each with its row number."""
    lines, number = _lines(path, stream), 0
    for first in lines:
        number += 1
        if first.strip(' "\r\n' + _DELIMITERS):
            break
    else:
        return
    try:
        for record in csv.reader(
            chain([first], lines), delimiter=_delimiter(first), strict=True, skipinitialspace=True
        ):
            yield number, [cell.strip() for cell in record]
            number += 1
    except csv.Error as error:
        raise DataError(f"{path} is not a CSV file: row {number} cannot be read ({error}).", hint=_SAVE_AS) from None


def _lines(path: Path, stream: IO[str]) -> Iterator[str]:
    while line := stream.readline(MAX_LINE + 1):
        if "\0" in line or len(line) > MAX_LINE:
            why = "it has bytes of 0" if "\0" in line else f"it has a line of more than {MAX_LINE:,} characters"
            raise DataError(f"{path} is not a CSV file: {why}.", hint=_SAVE_AS)
        yield line


def _delimiter(header: str) -> str:
    """Return the delimiter that gives the header a column `path`; a comma where none or several do."""
    for delimiter in _DELIMITERS:
        if "path" in (name.strip('" \r\n').casefold() for name in header.split(delimiter)):
            return delimiter
    return max(_DELIMITERS, key=header.count)


# Parquet


@contextmanager
def _parquet(path: Path) -> Iterator[_Opened]:
    try:
        import pyarrow.types
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UsageError(
            f"{path} is a Parquet file, and pyarrow, which reads them, cannot be imported.",
            hint="Install it with: pip install 'newkinds[tables]'. Or give a CSV file.",
        ) from error
    try:
        with ParquetFile(path) as file:
            schema = file.schema_arrow
            types = [_type(field.type, pyarrow.types) for field in schema]
            yield _Opened(list(schema.names), types, partial(_parquet_rows, file))
    except DataError:
        raise
    except Exception as error:  # on broken bytes, pyarrow may raise anything
        why = str(error).split("\n")[0][:200]
        raise DataError(f"{path} is not a Parquet file that can be read ({why}).", hint=_SAVE_AS) from error


def _type(kind: Any, types: ModuleType) -> str:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "integer" if types.is_integer(kind) else str(kind)


def _parquet_rows(file: Any, of_paths: int, of_labels: int | None) -> Iterator[Row]:
    names = [file.schema_arrow.names[index] for index in (of_paths, of_labels) if index is not None]
    number = 0
    for batch in file.iter_batches(batch_size=_BATCH, columns=names):
        paths = batch.column(names[0]).to_pylist()
        labels = [None] * len(paths) if of_labels is None else batch.column(names[1]).to_pylist()
        for path, label in zip(paths, labels, strict=True):
            if label == "" or (isinstance(label, int) and label < 0):
                label = None
            if path or label is not None:
                yield Row(number, path or "", label)
            number += 1
