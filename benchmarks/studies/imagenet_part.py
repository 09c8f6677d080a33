"""ImageNet's commands, run to the end on a part of Tiny-ImageNet.

ROOT/tiny-imagenet/train has one folder of JPEG files a class. Of the first 40 classes by name every second one, 18 in
all, is kept for discovery, in three lists of 6; the other 22 are known. They are laid out as ImageNet is, by links, and
`newkinds bench known-k` measures k-means and DTC-Baseline on the first list with 40 pictures of each class. Writes its
results to benchmarks/results/imagenet.jsonl; what is there is not measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import newkinds as nk
from newkinds_bench import Where, bench

CLASSES, KEPT, LISTS, EACH = 40, 18, "ABC", 40


def main() -> None:
    """Lay the classes out and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--layout", type=Path, default=Path("runs/imagenet-part"), help="where the links go")
    parser.add_argument("--results", type=Path, default=Where.results)
    parser.add_argument("--runs", type=Path, default=Where.runs)
    chosen = parser.parse_args()
    lay_out(chosen.root / "tiny-imagenet" / "train", chosen.layout / "imagenet")
    each_list = KEPT // len(LISTS)
    note = (
        f"of Tiny-ImageNet, 64 pixels wide: {CLASSES - KEPT} known classes and {each_list} unsorted ones, made by "
        "`benchmarks/study.py imagenet_part`"
    )
    where = Where(results=chosen.results, runs=chosen.runs, data=chosen.layout, note=note)
    only = ["imagenet:unlabelled-a", "k-means", "DTC-Baseline"]
    print("\n".join(bench("known-k", only=only, each=EACH, where=where, progress=nk.Progress())))


def lay_out(classes: Path, folder: Path) -> None:
    """Link the classes into `folder`/train and write the lists of those that are kept for discovery."""
    names = sorted(path.name for path in classes.iterdir() if path.is_dir())[:CLASSES]
    (folder / "train").mkdir(parents=True, exist_ok=True)
    for name in names:
        link = folder / "train" / name
        if not link.exists():
            link.symlink_to((classes / name).resolve(), target_is_directory=True)
    kept = names[::2][:KEPT]
    each_list = KEPT // len(LISTS)
    lists = {"imagenet_118.txt": kept}
    for number, letter in enumerate(LISTS):
        lists[f"imagenet_30_{letter}.txt"] = kept[number * each_list : (number + 1) * each_list]
    for name, some in lists.items():
        (folder / name).write_text("\n".join(some) + "\n")


if __name__ == "__main__":
    main()
