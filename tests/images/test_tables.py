"""Tables of paths and labels: what spreadsheets write is read, and everything else is refused in words."""

from __future__ import annotations

import builtins
import csv
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from newkinds.errors import DataError, UsageError
from newkinds.images import tables
from newkinds.images.tables import Row, is_table, read_table

ROWS = [Row(2, "a.png", "bolt"), Row(3, "b.png", "nut")]


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "list.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.png,bolt\nb.png,nut\n",
        "path,kind\na.png,bolt\nb.png,nut",  # without a last newline
        "\ufeffpath;label\r\na.png;bolt\r\nb.png;nut\r\n",  # as spreadsheets write it where the comma is decimal
        "path\tlabel\na.png\tbolt\nb.png\tnut\n",
        'Path , "LABEL"\n a.png , bolt\n"b.png", nut \n',
        "label,size,path\nbolt,3,a.png\nnut,,b.png\n",  # other columns, in another order
        "path,label\na.png,bolt,too,many\nb.png,nut,,,\n",
        "path,label,\na.png,bolt,\nb.png,nut,\n,,\n,,\n\n \n",  # rows that were once filled
        'path,"note; more",label\na.png,x,bolt\nb.png,"two\nlines",nut\n',
        "path,label\ra.png,bolt\rb.png,nut\r",
    ],
)
def test_what_spreadsheets_write(tmp_path: Path, text: str) -> None:
    assert read_table(written(tmp_path, text), labelled=True) == ROWS


def test_rows_have_the_numbers_that_a_spreadsheet_shows(tmp_path: Path) -> None:
    text = '\n,\npath,label\n\na.png,bolt\n"two\nlines.png",nut\n;\n,nut\nb.png\n'
    assert read_table(written(tmp_path, text), labelled=True) == [
        Row(5, "a.png", "bolt"),
        Row(6, "two\nlines.png", "nut"),
        Row(7, ";", None),
        Row(8, "", "nut"),
        Row(9, "b.png", None),
    ]


def test_labels_are_not_needed_where_nothing_is_known(tmp_path: Path) -> None:
    file = written(tmp_path, "path\na;b.png\nc.png\n")
    assert read_table(file, labelled=False) == [Row(2, "a;b.png", None), Row(3, "c.png", None)]
    with pytest.raises(
        DataError, match=r"list\.csv has the columns 'path'; `label` \(or `kind`\) is missing"
    ) as caught:
        read_table(file, labelled=True)
    assert "path,label" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no columns; `path` is missing"),
        ("\n\n,,\n", "has no columns; `path` is missing"),
        ("a.png,bolt\nb.png,nut\n", "the columns 'a.png', 'bolt'; `path` is missing"),
        ("file;label\na.png;bolt\n", "the columns 'file', 'label'; `path` is missing"),
        ("path,Path\na,b\n", "the columns `path`, `Path`, of which one"),
        ("path,kind,label\na,b,c\n", "the columns `kind`, `label`, of which one"),
        (",".join(f"c{n}" for n in range(12)), "'c9' and 2 more"),
        ("x" * 500, r"'x{40}\.\.\.'; "),
        ('path,label\na.png,bolt\n"b.png,nut\n', r"row 3 cannot be read \(unexpected end of data"),
        ('path,label\n"a".png,bolt\n', "row 2 cannot be read"),
        (f"path,label\n{'x' * 140_000},bolt\n", "row 2 cannot be read .field larger"),
        ("path,label\n" + "x" * (tables.MAX_LINE + 1), "a line of more than 1,048,576 characters"),
        ("path,label\na\0.png,bolt\n", "bytes of 0"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(DataError, match=message) as caught:
        read_table(file, labelled=True)
    assert str(file) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "data",
    ["path,label\nä.png,x\n".encode("latin-1"), "path,label\na.png,x\n".encode("utf-16"), b"\x89PNG\r\n\x1a\n\0"],
)
def test_files_in_another_encoding(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"is not a CSV file in UTF-8") as caught:
        read_table(written(tmp_path, data), labelled=True)
    assert "UTF-8" in caught.value.hint


def test_files_that_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / "list.csv", labelled=False)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is not a file"):  # and does not wait for a writer
        read_table(tmp_path / "pipe.csv", labelled=False)
    monkeypatch.setattr(tables, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="has 12 bytes; a list may have 10"):
        read_table(written(tmp_path, "path\na\nb\nc\n\n"), labelled=False)


def test_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    assert len(read_table(written(tmp_path, "path\na\nb\n"), labelled=False)) == 2
    with pytest.raises(DataError, match="more than 2 rows"):
        read_table(written(tmp_path, "path\na\nb\nc\n"), labelled=False)


def test_what_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert [is_table(tmp_path / name) for name in ("a.csv", "A.CSV", "a.parquet", "a.npz", "folder.csv")] == [
        True, True, True, False, False,
    ]  # fmt: skip


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS)), st.sampled_from(",;\t"), st.booleans())
@example([("a,b;c\td", '"quoted" \n')], ";", True)
def test_any_text_comes_back(tmp_path: Path, cells: list[tuple[str, str]], delimiter: str, mark: bool) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter).writerows([("path", "label"), *cells])
    text = ("\ufeff" if mark else "") + stream.getvalue()
    expected = [
        Row(number, path.strip(), label.strip() or None)
        for number, (path, label) in enumerate(cells, 2)
        if path.strip() or label.strip()
    ]
    assert read_table(written(tmp_path, text), labelled=True) == expected


def test_random_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for size in (1, 10, 100, 1000, 200_000):
        for alphabet in (256, 128, 64):
            data = random.integers(0, alphabet, size, dtype=np.uint8).tobytes()
            for head in (b"", b"path,label\n"):
                with suppress(DataError):
                    read_table(written(tmp_path, head + data), labelled=True)


# Parquet


@pytest.fixture
def parquet(tmp_path: Path) -> Any:
    """Return what writes columns, as lists or arrow arrays, into a Parquet file."""
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(**columns: Any) -> Path:
        path = tmp_path / "list.parquet"
        files.write_table(arrow.table(columns), path)
        return path

    return write


def test_parquet(parquet: Any) -> None:
    import pyarrow as arrow

    expected = [Row(0, "a.png", "bolt"), Row(1, "b.png", "nut")]
    paths, labels = ["a.png", "b.png"], ["bolt", "nut"]
    assert read_table(parquet(size=[1, 2], Label=labels, Path=paths), labelled=True) == expected
    encoded = arrow.array(labels).dictionary_encode()
    assert read_table(parquet(path=arrow.array(paths, "large_string"), kind=encoded), labelled=True) == expected
    assert read_table(parquet(path=paths), labelled=False) == [Row(0, "a.png", None), Row(1, "b.png", None)]
    assert read_table(parquet(path=paths, label=[10, 9]), labelled=True) == [Row(0, "a.png", 10), Row(1, "b.png", 9)]
    gaps = parquet(path=["a.png", None, None, "d.png", "e.png"], label=[1, None, 3, None, -1])
    assert read_table(gaps, labelled=True) == [
        Row(0, "a.png", 1),
        Row(2, "", 3),
        Row(3, "d.png", None),
        Row(4, "e.png", None),
    ]


def test_parquet_in_several_batches(parquet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BATCH", 3)
    paths = [f"{n}.png" for n in range(10)]
    assert read_table(parquet(path=paths), labelled=False) == [Row(n, path, None) for n, path in enumerate(paths)]


def test_parquet_of_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"path": ["b.png", "a.png"], "label": pandas.Categorical(["x", "y"])}, index=[7, 3])
    frame.to_parquet(tmp_path / "list.parquet")
    assert read_table(tmp_path / "list.parquet", labelled=True) == [Row(0, "b.png", "x"), Row(1, "a.png", "y")]


def test_parquet_mistakes_are_named(parquet: Any) -> None:
    with pytest.raises(DataError, match="the columns 'file', 'label'; `path` is missing"):
        read_table(parquet(file=["a"], label=["b"]), labelled=True)
    with pytest.raises(DataError, match="`path` of type integer; text is needed"):
        read_table(parquet(path=[1], label=["b"]), labelled=True)
    for labels, name in (([1.0], "double"), ([True], "bool"), ([b"x"], "binary"), ([["x"]], "list")):
        file = parquet(path=["a.png"], label=labels)
        with pytest.raises(DataError, match=f"`label` of type {name}.*; text or whole numbers are needed"):
            read_table(file, labelled=True)
        assert read_table(file, labelled=False) == [Row(0, "a.png", None)]


def test_broken_parquet_never_gives_a_traceback(parquet: Any) -> None:
    file = parquet(path=[f"{n}.png" for n in range(100)], label=["x"] * 100)
    good, random = file.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        data = bytearray(good)
        for at in random.integers(0, len(data), 5):
            data[at] = random.integers(0, 256)
        file.write_bytes(data[: random.integers(1, len(data) + 1)] if random.random() < 0.5 else data)
        with suppress(DataError):
            read_table(file, labelled=True)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def missing(name: str, *arguments: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return plain(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    (tmp_path / "list.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"list\.parquet is a Parquet file, and pyarrow") as caught:
        read_table(tmp_path / "list.parquet", labelled=False)
    assert "pip install 'newkinds[tables]'" in caught.value.hint
