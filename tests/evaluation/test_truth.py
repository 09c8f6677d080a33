"""The true kinds of pictures from folders, arrays and CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import as_numbers, read_truth
from newkinds.images.imageset import ImageSet
from newkinds.progress import Warnings

NAMES = ("cat/1.png", "cat/deep/2.png", "dog/1.png", "loose.png")


def pictures(
    names: tuple[str, ...] = NAMES, labels: list[int] | None = None, classes: tuple[str, ...] = ()
) -> ImageSet:
    pixels = np.zeros((len(names), 1, 4, 4), dtype=np.uint8)
    return ImageSet(pixels, names, None if labels is None else np.array(labels), classes, "photos", "no mark")


def written(path: Path, text: str | bytes) -> Path:
    file = path / "truth.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_folders_are_the_first_below_the_source() -> None:
    assert read_truth("folders", pictures()) == ("cat", "cat", "dog", "")
    assert read_truth(Path("folders"), pictures()) == ("cat", "cat", "dog", "")


def test_labels_win_over_folders() -> None:
    images = pictures(labels=[1, 1, 0, 1], classes=("a", "b"))
    assert read_truth("folders", images) == ("b", "b", "a", "b")


def test_no_folders() -> None:
    with pytest.raises(UsageError) as caught:
        read_truth("folders", pictures(("1.png", "2.png")))
    assert "photos has no folders" in caught.value.message
    assert "--truth" in caught.value.hint


def test_csv(tmp_path: Path) -> None:
    file = written(tmp_path, "path,kind\nloose.png,bird\ncat/1.png,cat\ndog/1.png,dog\ncat/deep/2.png,cat\n")
    assert read_truth(file, pictures()) == ("cat", "cat", "dog", "bird")
    assert read_truth(str(file), pictures()) == ("cat", "cat", "dog", "bird")


@pytest.mark.parametrize(
    "text",
    [
        "kind,note,path\ncat,x,cat/1.png\n",  # other columns and another order, as in kinds.csv
        "\ufeffpath,kind\r\ncat/1.png,cat\r\n",  # as spreadsheets write it
        'path,kind\n"cat/1.png","cat"\n',
        "path;kind\ncat/1.png;cat\n",
        "Path,Label\ncat/1.png,cat\n",
        "path,kind\ncat/1.png,cat\nunheard-of.png,dog\n",
        "path,kind\ncat/1.png,cat\ndog/1.png,\nloose.png\n",  # an empty kind, and a row that is too short
        "path,kind\ncat/1.png,cat,extra\n",
    ],
)
def test_partial_truth_and_what_csv_files_look_like(text: str, tmp_path: Path) -> None:
    assert read_truth(written(tmp_path, text), pictures()) == ("cat", "", "", "")


def test_names_with_commas_quotes_and_other_scripts(tmp_path: Path) -> None:
    names = ('a,"b".png', "猫/1.png")
    file = written(tmp_path, 'path,kind\n"a,""b"".png","x,y"\n猫/1.png,猫\n')
    assert read_truth(file, pictures(names)) == ("x,y", "猫")


@pytest.mark.parametrize("text", ["", "\n", "file,kind\na,b\n", "path;size\na;b\n"])
def test_missing_columns(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_truth(written(tmp_path, text), pictures())
    assert "path" in caught.value.message
    assert "truth.csv" in caught.value.message
    assert "path,kind" in caught.value.hint


def test_nothing_in_common(tmp_path: Path) -> None:
    file = written(tmp_path, "path,kind\n/home/me/cat/1.png,cat\n")
    with pytest.raises(DataError, match=r"None of the 1 paths .* 4 pictures, such as 'cat/1.png'") as caught:
        read_truth(file, pictures())
    assert "kinds.csv" in caught.value.hint


def test_rows_that_name_no_picture_are_told(tmp_path: Path) -> None:
    file, progress = written(tmp_path, "path,kind\ncat/1.png,cat\nx.png,dog\ny.png,dog\n"), Warnings()
    assert read_truth(file, pictures(), progress) == ("cat", "", "", "")
    (told,) = progress.texts
    assert "2 of 3 paths in " in told
    assert "4 pictures" in told
    assert "'x.png'" in told
    silent = Warnings()
    read_truth(written(tmp_path, "path,kind\ncat/1.png,cat\n"), pictures(), silent)
    assert not silent.texts


def test_a_path_with_two_kinds_is_refused(tmp_path: Path) -> None:
    assert read_truth(written(tmp_path, "path,kind\ndog/1.png,dog\ndog/1.png,dog\n"), pictures())[2] == "dog"
    with pytest.raises(DataError, match=r"two kinds for 'dog/1.png': 'dog' and, in row 4, 'cat'"):
        read_truth(written(tmp_path, "path,kind\ndog/1.png,dog\n\ndog/1.png,cat\n"), pictures())


def test_paths_without_a_kind(tmp_path: Path) -> None:
    file = written(tmp_path, "path,kind\ncat/1.png,\ndog/1.png,\n")
    with pytest.raises(DataError, match=r"truth\.csv gives no kind for any of the 4 pictures"):
        read_truth(file, pictures())


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            read_truth(path, pictures())
        assert "folders" in caught.value.hint


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00\x01path", b"path,kind\n\xe9t\xe9.png,x\n", b"\x89PNG\r\n\x1a\n\x00\x00"]
)
def test_files_that_are_not_utf8(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"truth\.csv"):
        read_truth(written(tmp_path, data), pictures())


def test_random_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for size in (1, 10, 100, 1000, 200_000):
        for alphabet in (256, 128, 64):
            data = random.integers(0, alphabet, size, dtype=np.uint8).tobytes()
            for head in (b"", b"path,kind\n"):
                with pytest.raises(DataError):
                    read_truth(written(tmp_path, head + data), pictures())


def test_as_numbers() -> None:
    assert as_numbers(("dog", "", "cat", "dog")).tolist() == [1, -1, 0, 1]
    assert as_numbers(("dog", "", "cat", "dog")).dtype == np.int64
    assert as_numbers(("", "")).tolist() == [-1, -1]
