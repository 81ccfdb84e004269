"""Pictures in files: decoded once into a memory-mapped array, or batch by batch.

Every picture becomes `channels x side x side` bytes: turned upright, its centre cut to a square, resized. Grey pictures
become RGB, transparent ones are laid on white.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import DTypeLike, NDArray
from PIL import Image, ImageOps

from supportmatch.errors import DataFolderError
from supportmatch.progress import Report, silent

SIDE = 64
"""Pixels of a side, unless the user says otherwise."""
CACHE = ".supportmatch-cache"
"""Folder, beside pictures, for what was decoded from them; it may be deleted at any time."""

_VERSION = "upright, centre square, bilinear, RGB on white"
_SHOWN_PROBLEMS = 3

PREPARED = (
    "turned upright, cut to their central square, resized to {side} x {side} pixels, and brought to RGB, on white"
)
"""What becomes of pictures, in words."""


def open_images(
    paths: Sequence[str | Path], *, side: int = SIDE, cache: str | Path | None = None, report: Report = silent
) -> NDArray[np.uint8]:
    """Return pictures as a memory-mapped array (rows, 3, side, side) of bytes; they are decoded the first time only.

    Args:
        paths: The files, in the order of the rows.
        side: Pixels of a side.
        cache: Folder for the decoded pictures; by default one in the folder of the first picture, or, if that cannot
            be written, in the user's cache directory.
        report: Told about progress.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise DataFolderError("there are no pictures to read: the list of files is empty.")
    lacking = [file for file in files if not file.is_file()]
    if lacking:
        raise DataFolderError(
            f"{len(lacking)} of {len(files)} pictures are not there, the first is {lacking[0]}: check the folder and "
            "the column of file names."
        )
    digest = hashlib.sha256(f"{_VERSION}, {side}".encode())
    for file in files:
        stat = file.stat()
        digest.update(f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    places = [Path(cache)] if cache is not None else list(cache_places(files[0].parent))
    return decode_once(
        places,
        f"pictures-{digest.hexdigest()[:16]}.npy",
        (len(files), 3, side, side),
        np.uint8,
        lambda: decode_all(files, side),
        report,
    )


def decode_all(paths: Sequence[Path], side: int) -> Iterator[NDArray[np.uint8]]:
    """Yield every picture; unreadable ones are counted to the end and then refused together."""
    problems = []
    for path in paths:
        try:
            yield decode(path, side)
        except DataFolderError as error:
            problems.append(str(error))
            yield np.zeros((3, side, side), np.uint8)
    if problems:
        more = f" (and {len(problems) - _SHOWN_PROBLEMS} more)" if len(problems) > _SHOWN_PROBLEMS else ""
        raise DataFolderError(
            f"{len(problems)} of {len(paths)} pictures cannot be read{more}: {'; '.join(problems[:_SHOWN_PROBLEMS])}. "
            "Replace them, or take their lines out of the table."
        )


def decode(path: Path, side: int) -> NDArray[np.uint8]:
    """Return one picture as bytes (3, side, side)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                picture = _to_rgb(ImageOps.exif_transpose(opened))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataFolderError(f"{path} ({error})") from error
    square = ImageOps.fit(picture, (side, side), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def decode_once(
    places: Sequence[Path],
    name: str,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    rows: Callable[[], Iterator[NDArray[Any]]],
    report: Report = silent,
) -> NDArray[Any]:
    """Return a memory-mapped array from the first place that has it, or make it in the first that can be written.

    Args:
        places: Folders to look in, the best first.
        name: File name, which must change with the content.
        shape: Of the array.
        dtype: Of the array.
        rows: Makes the rows, one by one.
        report: Told about progress.
    """
    for place in places:
        found = _read(place / name, shape, dtype)
        if found is not None:
            return found
        if _make_folder(place):
            return _build(place / name, shape, dtype, rows, report)
    tried = " or ".join(map(str, places))
    raise DataFolderError(
        f"there is nowhere to keep the decoded pictures: make {tried} a folder that can be written to."
    )


def cache_places(folder: Path) -> Iterator[Path]:
    """Say where the decoded pictures of a folder may be kept, the best place first."""
    yield folder / CACHE
    try:
        of_user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers
        return
    yield Path(of_user) / "supportmatch"


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        values = np.asarray(picture, dtype=np.float64)
        top = 65_535 if values.max() > 255 else 255
        picture = Image.fromarray(np.clip(values / top * 255, 0, 255).astype(np.uint8))
    if "A" in picture.getbands() or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return picture.convert("RGB")


def _make_folder(place: Path) -> bool:
    """Make a folder unless it is there, and tell whether it can be written to."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK | os.X_OK)


def _build(
    target: Path,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    rows: Callable[[], Iterator[NDArray[Any]]],
    report: Report,
) -> NDArray[Any]:
    """Write every row into `target`, or wait for another process that is about to."""
    kind = target.name.partition("-")[0]
    draft, lock = target.with_name(f"{target.name}.part"), target.with_name(f"{kind}.lock")
    try:
        # The system frees the lock when its owner dies, so whoever holds it may remove the drafts of the dead.
        with FileLock(lock):
            built = _read(target, shape, dtype)
            if built is not None:
                return built
            for abandoned in target.parent.glob(f"{kind}-*.part"):
                abandoned.unlink()
            try:
                with draft.open("xb") as out:
                    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(out, header)
                    for done, row in enumerate(rows(), start=1):
                        out.write(row.tobytes())
                        report(done, shape[0])
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
    except OSError as error:
        size = np.prod(shape) * np.dtype(dtype).itemsize / 1e6
        raise DataFolderError(
            f"the decoded pictures ({size:,.0f} MB) cannot be kept in {target.parent} ({error.strerror}): make room, "
            "or correct its permissions."
        ) from error
    finally:
        if not target.exists():
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # only if there is nothing else in it
                target.parent.rmdir()
    return _map(target)


def _map(path: Path) -> NDArray[Any]:
    # "c": torch warns of arrays that cannot be written; what is written to this one stays in memory.
    pictures: NDArray[Any] = np.load(path, mmap_mode="c")
    return pictures


def _read(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any] | None:
    """Return a cache that is whole, or None."""
    try:
        pictures = _map(path)
    except (OSError, ValueError, EOFError):
        return None
    return pictures if pictures.shape == shape and pictures.dtype == dtype else None
