"""Pictures of every kind become bytes of one shape, once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from supportmatch.data import images
from supportmatch.data.images import CACHE, decode, open_images
from supportmatch.errors import DataFolderError


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] = (40, 30), seed: int = 0) -> Path:
    values = np.random.default_rng(seed).integers(256, size=(size[1], size[0], 4), dtype=np.uint8)
    if mode == "I;16":
        Image.fromarray(values[..., 0].astype(np.uint16) * 257).save(path)
    else:
        Image.fromarray(values, "RGBA").convert(mode).save(path)
    return path


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16", "CMYK"])
@pytest.mark.parametrize("size", [(40, 30), (16, 64), (8, 8)])
def test_every_mode_and_size_becomes_bytes_of_one_shape(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    suffix = ".tif" if mode in ("CMYK", "I;16") else ".png"
    x = decode(picture(tmp_path / f"p{suffix}", mode, size), side=16)
    assert (x.shape, x.dtype) == ((3, 16, 16), np.uint8)
    assert x.std() > 0


def test_a_transparent_picture_is_laid_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (20, 20), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (decode(tmp_path / "clear.png", 16) == 255).all()


def test_deep_grey_keeps_its_range(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 20), 65_535, np.uint16)).save(tmp_path / "deep.png")
    assert (decode(tmp_path / "deep.png", 16) == 255).all()


def test_the_centre_is_kept(tmp_path: Path) -> None:
    values = np.zeros((32, 96, 3), np.uint8)
    values[:, 32:64] = 200
    Image.fromarray(values).save(tmp_path / "wide.png")
    assert (decode(tmp_path / "wide.png", 16)[:, :, 2:-2] == 200).all()


def test_pictures_are_decoded_once_and_again_when_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [picture(tmp_path / f"{i}.png", seed=i) for i in range(5)]
    first = open_images(paths, side=16)
    assert isinstance(first, np.memmap)
    assert np.array_equal(first[3], decode(paths[3], 16))
    monkeypatch.setattr(images, "decode", lambda path, side: pytest.fail("decoded again"))
    assert np.array_equal(open_images(paths, side=16), first)
    monkeypatch.undo()
    picture(paths[3], seed=99)
    assert not np.array_equal(open_images(paths, side=16)[3], first[3])


def test_order_and_size_are_part_of_what_is_kept(tmp_path: Path) -> None:
    paths = [picture(tmp_path / f"{i}.png", seed=i) for i in range(3)]
    assert np.array_equal(open_images(paths[::-1], side=16), open_images(paths, side=16)[::-1])
    assert open_images(paths, side=24).shape == (3, 3, 24, 24)


def test_unreadable_pictures_are_named_together_and_leave_no_cache(tmp_path: Path) -> None:
    paths = [picture(tmp_path / f"{i}.png") for i in range(6)]
    paths[1].write_bytes(paths[1].read_bytes()[:60])
    paths[4].write_text("no picture")
    with pytest.raises(DataFolderError, match="2 of 6 pictures cannot be read") as caught:
        open_images(paths, side=16)
    assert "1.png" in str(caught.value)
    assert "4.png" in str(caught.value)
    assert not (tmp_path / CACHE).exists()


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataFolderError, match="decompression bomb"):
        decode(picture(tmp_path / "p.png"), 16)


def test_missing_pictures_and_none_at_all_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match=r"1 of 2 pictures are not there, the first is .*no.png"):
        open_images([picture(tmp_path / "p.png"), tmp_path / "no.png"])
    with pytest.raises(DataFolderError, match="the list of files is empty"):
        open_images([])
