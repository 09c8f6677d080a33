"""Formats that are not read, or only with something to install: what such files are called, and how to convert them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from newkinds.images.imageset import Skipped

HEAD = 64  # bytes of a file that `by_content` looks at


@dataclass(frozen=True)
class Unread:
    """A sort of files that people keep among their pictures.

    reason: why one is skipped. use: how to use them. endings: of their names, with a space between two.
    """

    one: str
    many: str
    reason: str
    use: str
    endings: str

    def counted(self, number: int) -> str:
        """Return so many of them in words."""
        return f"{number:,} {self.one if number == 1 else self.many}"


HEIC = Unread(
    "HEIC picture",
    "HEIC pictures",
    "a HEIC or HEIF picture, which needs pillow-heif",
    "To read HEIC, `pip install 'newkinds[heic]'`, or convert it: `magick mogrify -format jpg *.heic`",
    ".heic .heif .hif",
)
AVIF = Unread(
    "AVIF picture",
    "AVIF pictures",
    "an AVIF picture, which needs Pillow 11.3 or later",
    "To read AVIF, `pip install 'pillow>=11.3'`, or convert it: `magick mogrify -format jpg *.avif`",
    ".avif .avifs",
)
RAW = Unread(
    "camera raw file",
    "camera raw files",
    "a camera raw file, which is not read",
    "To use raw files, convert them, as by `darktable-cli photo.dng photo.jpg`",
    ".3fr .arw .cr2 .cr3 .crw .dcr .dng .erf .fff .iiq .kdc .mef .mos .mrw .nef .nrw .orf .pef .raf .rw2 .rwl .sr2 "
    ".srf .srw .x3f",
)
VIDEO = Unread(
    "video",
    "videos",
    "a video, not a picture",
    "To use a video, take pictures out of it, here one a second: `ffmpeg -i film.mp4 -vf fps=1 frames/%05d.jpg`",
    ".3gp .avi .flv .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .webm .wmv",
)
UNREAD = (HEIC, AVIF, RAW, VIDEO)

_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
_SOUND_BRANDS = {b"M4A ", b"M4B ", b"M4P "}
_SIGNATURES = (
    # Panasonic, Olympus, Canon's two older formats (a TIFF with CR in it, and before that CIFF), Fuji, Sigma, Minolta
    (rb"IIU\x00|IIR[OS]|MMOR|II\*\x00.{4}CR|II.{4}HEAPCCDR|FUJIFILMCCD-RAW|FOVb|\x00MRM", RAW),
    # AVI, Matroska and WebM, Flash, Windows Media, MPEG-1 and -2, and QuickTime from before it had brands
    (rb"RIFF.{4}AVI |\x1aE\xdf\xa3|FLV\x01|0&\xb2u\x8ef\xcf\x11|\x00\x00\x01[\xb3\xba]|.{4}(moov|mdat|wide)", VIDEO),
)


def by_content(head: bytes) -> Unread | None:
    """Return which of these sorts a file is that begins with `head`, HEAD bytes or all; None for anything else."""
    if head[4:8] == b"ftyp":
        return _by_brands(head)
    return next((sort for pattern, sort in _SIGNATURES if re.match(pattern, head, re.DOTALL)), None)


def by_ending(ending: str) -> Unread | None:
    """Return which of these sorts a file is called, by its ending, such as ".MOV"; None for any other."""
    return next((sort for sort in UNREAD if ending.lower() in sort.endings.split()), None)


def left_out(skipped: Iterable[Skipped]) -> tuple[str, str] | None:
    """Return how many files of each sort are among those skipped, and how to use them; None if there are none."""
    numbers = Counter(one.reason for one in skipped)
    there = [sort for sort in UNREAD if numbers[sort.reason]]
    if not there:
        return None
    counted = [sort.counted(numbers[sort.reason]) for sort in there]
    what = counted[-1] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"
    return what, ". ".join(sort.use for sort in there) + "."


def _by_brands(head: bytes) -> Unread | None:
    """Tell the formats apart that share ISO's container, by the names in its first box."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
    if brands & {b"avif", b"avis"}:
        return AVIF
    if brands & _HEIC_BRANDS:
        return HEIC
    if b"crx " in brands:  # Canon's raw files of today
        return RAW
    return None if head[8:12] in _SOUND_BRANDS else VIDEO
