"""CelebA: classes are smiling or not, subgroups are the two sexes the annotators recorded (paper, 'CelebA').

The pictures are not part of this package. Get them from their makers (Liu et al., 2015,
https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html), who allow **non-commercial research only and no redistribution**,
and point to a folder that holds

- `img_align_celeba/*.jpg`, all of the aligned pictures or any part of them, and
- `list_attr_celeba.txt` as distributed, or `list_attr_celeba.csv` with a column `image_id`.

The central 178 x 178 pixels are resized to 64 x 64 once and kept in `.supportmatch-cache/` inside the folder (or, if
that cannot be written, in the user's cache directory), under a name that changes with the files; a cache may be deleted
at any time, and falls under the same licence as the pictures. Networks see values in [-1, 1].
"""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from supportmatch.data.containers import Labeled
from supportmatch.data.images import cache_places, decode_once
from supportmatch.data.problems import Problem, Setting
from supportmatch.data.removal import drop_sources, named_source_ids
from supportmatch.errors import DataFolderError, SupportMatchWarning
from supportmatch.progress import progress_bar
from supportmatch.seeding import stream

CROP = 178
"""Side of the central square that is kept of a picture, in pixels."""
SIZE = 64
"""Side of the square that networks see, in pixels."""

_PICTURES = "img_align_celeba"
_ATTRIBUTES = ("list_attr_celeba.txt", "list_attr_celeba.csv")
_EXPECTED = f"a CelebA folder holds `{_PICTURES}/*.jpg` and `{_ATTRIBUTES[0]}` (or `{_ATTRIBUTES[1]}`)"
_YES_OR_NO = {"1": True, "-1": False, "0": False}

_CACHE_VERSION = f"centre {CROP}, bilinear {SIZE}, int8"

_DEPLOY_SHARE, _TEST_SHARE = 0.5, 0.2  # of all pictures; the others are for training


@dataclass(frozen=True, eq=False)
class Listing:
    """The pictures of a folder that have labels, in the order of their names."""

    folder: Path
    names: tuple[str, ...]
    """File names, ascending."""
    smiling: NDArray[np.bool_]
    male: NDArray[np.bool_]
    n_without_picture: int
    """Rows of the attribute file that were dropped because their picture is not there."""
    hash: str
    """Changes with the attribute file, with the names and sizes of the pictures, and with the way they are cut."""
    cache_key: str
    """Changes with `hash` and with the times of the pictures, so it is of use on one machine only."""

    def __len__(self) -> int:
        return len(self.names)


def load_celeba(setting: Setting, seed: int, folder: str | Path | None) -> Problem:
    """Build one of the four CelebA settings, a pure function of the setting, the seed and the files.

    The pictures are split at random, 30 % for training, 50 % for deployment and 20 % for testing; then the missing
    source is dropped from training. All four settings share the split of a seed. Rows are `int8` (see `Rows`), and are
    copied into memory: about 2.5 GB for all of CelebA, although the cache they come from is memory-mapped.

    Training must show every source but the missing one, and deployment must show the missing one. Other gaps, which
    small folders have, are allowed; if the test set lacks sources, numbers that need them are undefined, and robust
    accuracy is the lowest among the subgroups that have rows.

    Args:
        setting: Says which source training lacks.
        seed: Chooses the split.
        folder: Where the pictures are; the module says what it must hold.
    """
    listing = list_pictures(folder)
    if listing.n_without_picture:
        warnings.warn(
            f"{listing.n_without_picture} rows of the attribute file have no picture and are left out; {len(listing)} "
            "are used.",
            SupportMatchWarning,
            stacklevel=2,
        )
    n_deploy, n_test = round(_DEPLOY_SHARE * len(listing)), round(_TEST_SHARE * len(listing))
    order = stream(seed, "celeba split").permutation(len(listing))
    # Sorted, because a cache on disk is read many times faster in its own order.
    deploy, test, train = (np.sort(rows) for rows in np.split(order, (n_deploy, n_deploy + n_test)))
    grid = setting.grid
    y, s = listing.smiling.astype(np.int64), listing.male.astype(np.int64)  # the order of the declared names
    sources = grid.source_ids(y, s)
    train = train[drop_sources(sources[train], named_source_ids(grid, setting.missing))]
    for part, rows, expected in (
        ("training", train, setting.support.seen_sources),
        ("deployment", deploy, setting.support.missing_sources),  # without them there is nothing to be learnt there
    ):
        lacking = sorted(set(expected) - set(sources[rows].tolist()))
        if lacking:
            raise DataFolderError(
                f"the {part} set of seed {seed} has no row of {', '.join(map(grid.source_name, lacking))}, because "
                f"{folder} holds only {len(listing)} pictures with labels: add pictures."
            )
    pictures = open_pictures(listing)
    train_set, deploy_set, test_set = (
        Labeled(pictures[rows], y=y[rows], s=s[rows], grid=grid) for rows in (train, deploy, test)
    )
    return Problem.from_labeled(setting.name, train_set, deploy_set, test_set)


def hash_folder(folder: str | Path | None) -> str:
    """Return a short hash that changes with the files (`Listing.hash`), without opening a picture."""
    return list_pictures(folder).hash


def list_pictures(folder: str | Path | None) -> Listing:
    """Match the attribute file with the pictures that are there, without opening them."""
    if folder is None:
        raise DataFolderError(
            "CelebA may not be redistributed, so you must say where it is: pass `--data DIR` on the command line or "
            f"`folder=` in Python; {_EXPECTED}."
        )
    folder = Path(folder)
    if not folder.is_dir():
        raise DataFolderError(f"there is no folder {folder}: {_EXPECTED}.")
    attributes = next((folder / name for name in _ATTRIBUTES if (folder / name).is_file()), None)
    if attributes is None:
        raise DataFolderError(f"{folder} has no attribute file: {_EXPECTED}.")
    if not (folder / _PICTURES).is_dir():
        raise DataFolderError(f"{folder} has no folder `{_PICTURES}`: {_EXPECTED}.")

    content = attributes.read_bytes()
    labels = _read_labels(attributes, content)
    with os.scandir(folder / _PICTURES) as entries:
        stats = {entry.name: entry.stat() for entry in entries if entry.name in labels and entry.is_file()}
    if not stats:
        example = next(iter(labels), "000001.jpg")
        raise DataFolderError(
            f"none of the {len(labels)} pictures named in {attributes} (such as {example}) is in "
            f"{folder / _PICTURES}: {_EXPECTED}."
        )
    names = tuple(sorted(stats))
    digest = hashlib.sha256(_CACHE_VERSION.encode())
    digest.update(content)
    digest.update("".join(f"{name} {stats[name].st_size}\n" for name in names).encode())
    timed = digest.copy()
    timed.update("".join(f"{stats[name].st_mtime_ns}\n" for name in names).encode())
    smiling, male = np.array([labels[name] for name in names]).T
    n_without_picture = len(labels) - len(names)
    return Listing(folder, names, smiling, male, n_without_picture, digest.hexdigest()[:16], timed.hexdigest()[:16])


def open_pictures(listing: Listing) -> NDArray[np.int8]:
    """Return all pictures, (rows, 3, 64, 64), as a memory-mapped array; they are decoded the first time only."""
    pictures = (_decode(listing.folder / _PICTURES / name) for name in listing.names)
    with progress_bar("reading faces", enabled=True) as report:
        decoded: NDArray[np.int8] = decode_once(
            list(cache_places(listing.folder)),
            f"faces-{listing.cache_key}.npy",
            (len(listing), 3, SIZE, SIZE),
            np.int8,
            lambda: pictures,
            report,
        )
    return decoded


def make_celeba_folder(path: str | Path, n: int = 64, seed: int = 0) -> Path:
    """Draw n simple faces in the layout of CelebA, to try commands without the real pictures.

    The four sources are equally frequent. Smiling mouths curve upwards; women have long hair, men short hair and a
    beard; colours, positions and sizes vary.

    Args:
        path: The folder to make, or one without pictures and attribute file, since those would be overwritten.
        n: How many pictures.
        seed: Same seed, same faces.

    Returns:
        The folder.
    """
    folder, rng = Path(path), stream(seed, "drawn faces")
    taken = next((name for name in _ATTRIBUTES if (folder / name).exists()), None)
    if taken is None and any((folder / _PICTURES).glob("*")):
        taken = f"{_PICTURES}/*"
    if taken is not None:
        raise DataFolderError(f"{folder} already holds `{taken}`, which is not to be overwritten: name a new folder.")
    (folder / _PICTURES).mkdir(parents=True, exist_ok=True)
    lines = [str(n), "Male Smiling"]
    for number, source in enumerate(rng.permutation(np.arange(n) % 4), start=1):
        smiling, male = divmod(int(source), 2)
        name = f"{number:06d}.jpg"
        _draw_face(bool(smiling), bool(male), rng).save(folder / _PICTURES / name, quality=90)
        lines.append(f"{name} {2 * male - 1:2d} {2 * smiling - 1:2d}")
    (folder / _ATTRIBUTES[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _read_labels(path: Path, content: bytes) -> dict[str, tuple[bool, bool]]:
    """Return (smiling, male) of every picture that the attribute file names."""
    is_csv = path.suffix == ".csv"
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    rows = (
        (number, [field.strip() for field in line.replace('"', "").split(",")] if is_csv else line.split())
        for number, line in enumerate(lines, start=1)
        if line.strip()
    )
    nothing: tuple[int, list[str]] = 1, []
    count_at, count = (0, None) if is_csv else next(rows, nothing)
    columns = [*([] if is_csv else ["image_id"]), *next(rows, nothing)[1]]
    if count is not None and not (len(count) == 1 and count[0].isdecimal()):
        raise DataFolderError(
            f"line {count_at} of {path} must be the number of rows, but it is {' '.join(count)[:40]!r}: use the "
            "file as distributed (the number, the names of the attributes, then `000001.jpg -1 1 ...`)."
        )
    needed = ("image_id", "Smiling", "Male")
    lacking = [name for name in needed if name not in columns]
    if lacking:
        raise DataFolderError(
            f"{path} lacks the columns {', '.join(lacking)}: it must have {', '.join(needed[:-1])} and {needed[-1]}."
        )
    name_at, smiling_at, male_at = map(columns.index, needed)

    labels: dict[str, tuple[bool, bool]] = {}
    for number, fields in rows:
        if (
            len(fields) != len(columns)
            or fields[smiling_at] not in _YES_OR_NO
            or fields[male_at] not in _YES_OR_NO
            or fields[name_at] in labels
        ):
            raise DataFolderError(
                f"line {number} of {path} ({' '.join(fields)[:40]!r}) is malformed: a line must hold a picture name "
                f"that occurs once and {len(columns) - 1} values, -1 (or 0) for no and 1 for yes."
            )
        labels[fields[name_at]] = _YES_OR_NO[fields[smiling_at]], _YES_OR_NO[fields[male_at]]
    if count is not None and len(labels) != int(count[0]):
        raise DataFolderError(
            f"line {count_at} of {path} announces {count[0]} rows, but there are {len(labels)}: get the whole file, or "
            "correct the number if you shortened it."
        )
    return labels


def _decode(path: Path) -> NDArray[np.int8]:
    """Return the centre of a picture as signed bytes (3, 64, 64)."""
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise DataFolderError(f"the picture {path} cannot be decoded ({error}): replace or delete it.") from error
    if min(picture.size) < CROP:
        width, height = picture.size
        raise DataFolderError(
            f"the picture {path} is {width} x {height} pixels, but at least {CROP} x {CROP} are needed: use the "
            "aligned pictures as distributed (178 x 218)."
        )
    left, top = ((side - CROP) // 2 for side in picture.size)
    square = picture.crop((left, top, left + CROP, top + CROP)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    # Flipping the highest bit takes 0..255 to -128..127.
    return (np.asarray(square) ^ np.uint8(128)).view(np.int8).transpose(2, 0, 1)


def _draw_face(smiling: bool, male: bool, rng: np.random.Generator) -> Image.Image:
    """Draw one face of 178 x 218 pixels."""

    def near(colour: tuple[int, int, int], spread: int) -> tuple[int, int, int]:
        r, g, b = (int(v) for v in np.clip(np.array(colour) + rng.integers(-spread, spread + 1, size=3), 0, 255))
        return r, g, b

    image = Image.new("RGB", (CROP, 218), near((128, 128, 128), 90))
    draw = ImageDraw.Draw(image)
    skin, hair = near((200, 160, 130), 35), near((70, 50, 40), 40)
    x, y = (89 + int(rng.integers(-6, 7)), 115 + int(rng.integers(-6, 7)))
    w, h = (46 + int(rng.integers(-4, 5)), 60 + int(rng.integers(-4, 5)))

    draw.ellipse((x - w - 12, y - h - 14, x + w + 12, y + 10), fill=hair)
    if not male:
        draw.rectangle((x - w - 12, y - 20, x + w + 12, y + h + 25), fill=hair)
    draw.ellipse((x - w, y - h, x + w, y + h), fill=skin)
    if male:
        draw.chord((x - w, y - h, x + w, y + h), 25, 155, fill=hair)
    for side in (-1, 1):
        draw.ellipse((x + side * 20 - 6, y - 16, x + side * 20 + 6, y - 8), fill=(30, 30, 30))
    mouth = (x - 20, y + 14, x + 20, y + 40)
    if smiling:
        draw.chord(mouth, 0, 180, fill=(245, 240, 240), outline=(150, 40, 50), width=3)
    else:
        draw.line((x - 16, y + 30, x + 16, y + 30), fill=(150, 40, 50), width=5)
    return image
