"""CelebA from a folder: layout, labels, pixels, split, cache, and what is said when something is wrong."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from supportmatch.config import preset
from supportmatch.data import celeba
from supportmatch.data.celeba import (
    DataFolderError,
    hash_folder,
    list_pictures,
    make_celeba_folder,
    open_pictures,
)
from supportmatch.data.containers import Rows, Unlabeled, check_unlabeled
from supportmatch.data.inputs import FeatureReader
from supportmatch.data.problems import SETTINGS, Problem, load_problem
from supportmatch.errors import FeatureMismatchError, SupportMatchError, SupportMatchWarning
from supportmatch.networks.encoders import build_decoder, build_encoder
from supportmatch.sources import Ids
from supportmatch.tensors import iterate_rows, read_rows

FACES = [name for name, setting in SETTINGS.items() if setting.needs_folder]
NAME = "celeba-no-smiling-female"
PICTURES, ATTRIBUTES = "img_align_celeba", "list_attr_celeba.txt"


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 drawn faces, never changed by a test."""
    return make_celeba_folder(tmp_path_factory.mktemp("faces"), n=64, seed=0)


@pytest.fixture
def own(faces: Path, tmp_path: Path) -> Path:
    """A copy of the faces that a test may spoil."""
    return Path(shutil.copytree(faces, tmp_path / "own", ignore=shutil.ignore_patterns(".supportmatch-cache")))


def sources_of(problem: Problem) -> tuple[Ids, Ids, Ids]:
    grid = problem.grid
    train = grid.source_ids(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train))
    test = grid.source_ids(grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test))
    return train, problem.oracle_sources, test


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_the_missing_source_is_missing_and_only_from_training(faces: Path, name: str, seed: int) -> None:
    setting, problem = SETTINGS[name], load_problem(name, seed, faces)
    train, deploy, test = sources_of(problem)
    assert problem.name == name
    assert (problem.class_names, problem.subgroup_names) == (setting.class_names, setting.subgroup_names)
    assert set(train.tolist()) == set(setting.support.seen_sources)
    assert len(setting.support.missing_sources) == len(setting.missing) == 1
    assert set(deploy.tolist()) == set(test.tolist()) == {0, 1, 2, 3}
    assert [len(problem.X_train), len(problem.X_deploy), len(problem.X_test)] == [len(train), 32, 13]


def test_the_split_is_thirty_fifty_twenty_and_no_picture_is_used_twice(faces: Path) -> None:
    pictures = open_pictures(list_pictures(faces))
    problems = [load_problem(name, 0, faces) for name in FACES]
    train = {row.tobytes() for problem in problems for row in np.asarray(problem.X_train)}
    deploy, test = ({row.tobytes() for row in np.asarray(x)} for x in (problems[0].X_deploy, problems[0].X_test))
    assert (len(train), len(deploy), len(test)) == (19, 32, 13)
    assert train | deploy | test == {row.tobytes() for row in pictures}


def test_labels_stay_with_their_pictures(faces: Path) -> None:
    listing = list_pictures(faces)
    pictures = open_pictures(listing)
    label = {
        picture.tobytes(): (("not smiling", "smiling")[smiling], ("female", "male")[male])
        for picture, smiling, male in zip(pictures, listing.smiling.astype(int), listing.male.astype(int), strict=True)
    }
    problem = load_problem(NAME, 0, faces)
    for x, y, s in (
        (problem.X_train, problem.y_train, problem.subgroup_train),
        (problem.X_deploy, problem.oracle.y, problem.oracle.subgroup),
        (problem.X_test, problem.y_test, problem.subgroup_test),
    ):
        assert [label[row.tobytes()] for row in np.asarray(x)] == list(zip(y.tolist(), s.tolist(), strict=True))


def test_the_split_depends_on_the_seed_and_on_nothing_else(faces: Path) -> None:
    first, again, other = (np.asarray(load_problem(NAME, seed, faces).X_deploy) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(first, load_problem(FACES[-1], 0, faces).X_deploy)


def test_a_picture_is_the_central_square_resized_and_on_the_scale_of_minus_one_to_one(own: Path) -> None:
    ramp = np.linspace(0, 255, 218).astype(np.uint8)
    picture = np.stack([np.repeat(ramp[:, None], 178, axis=1)] * 3, axis=2)
    picture[..., 1], picture[..., 2] = 0, 255
    name = list_pictures(own).names[0]
    Image.fromarray(picture).save(own / PICTURES / name, format="png")  # without losses, whatever it is called
    stored = open_pictures(list_pictures(own))[:1]
    seen = read_rows(Rows(stored), slice(0, 1))[0].numpy()
    expected = np.asarray(Image.fromarray(picture[20:198]).resize((64, 64), Image.Resampling.BILINEAR)) / 127.5 - 1
    np.testing.assert_allclose(seen, expected.transpose(2, 0, 1), atol=1e-6)
    assert set(np.unique(seen[1])) == {-1.0}
    assert set(np.unique(seen[2])) == {1.0}
    assert -0.85 < seen[0, 0, 0] < -0.75  # 20 of 218 rows are cut off at the top, so the ramp does not start at -1


def test_every_signed_byte_is_read_as_its_byte_on_the_scale_of_minus_one_to_one() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    signed = Rows((levels ^ 128).view(np.int8))
    expected = levels.astype(np.float32) / 127.5 - 1
    np.testing.assert_allclose(read_rows(signed, slice(None)).numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(next(iterate_rows(signed)).numpy(), expected, atol=1e-7)
    assert np.array_equal(read_rows(Rows(levels), slice(None)).numpy(), levels.astype(np.float32) / 255)


def test_signed_bytes_are_neither_copied_nor_mixed_with_other_scales() -> None:
    signed = np.zeros((4, 3, 8, 8), dtype=np.int8)
    reader = FeatureReader.fit(signed)
    rows = reader.read(signed)
    assert np.shares_memory(rows.x, signed)
    for other in (signed.view(np.uint8), signed.astype(np.float32)):
        with pytest.raises(FeatureMismatchError, match=r"where training images are signed bytes \(int8\)"):
            reader.read(other)
        with pytest.raises(FeatureMismatchError, match=r"new images are signed bytes \(int8\) where training"):
            check_unlabeled(signed, like=Unlabeled(other), what="new")


def test_tables_of_small_integers_are_still_numbers() -> None:
    assert Rows(np.ones((2, 3), dtype=np.int8)).x.dtype == np.float32


def test_rows_without_a_picture_are_left_out_and_counted(own: Path) -> None:
    before = list_pictures(own)
    for name in before.names[:3]:
        (own / PICTURES / name).unlink()
    after = list_pictures(own)
    assert (after.n_without_picture, before.n_without_picture) == (3, 0)
    assert after.names == before.names[3:]
    assert np.array_equal(after.smiling, before.smiling[3:])
    assert np.array_equal(after.male, before.male[3:])
    with pytest.warns(SupportMatchWarning, match=r"^3 rows .* no picture and are left out; 61 are used\."):
        load_problem(NAME, 0, own)


def test_pictures_without_a_row_are_not_used(own: Path) -> None:
    before = list_pictures(own)
    shutil.copy(own / PICTURES / before.names[0], own / PICTURES / "stranger.jpg")
    assert list_pictures(own).names == before.names
    assert hash_folder(own) == before.hash


@pytest.mark.parametrize("no", ["-1", "0"])
def test_a_csv_gives_the_same_labels_as_the_text_file(own: Path, no: str) -> None:
    listing = list_pictures(own)
    (own / ATTRIBUTES).unlink()
    rows = zip(listing.names, listing.smiling, listing.male, strict=True)
    lines = [f"{'1' if male else no},{name},1,{'1' if smiling else no}" for name, smiling, male in rows]
    (own / "list_attr_celeba.csv").write_text("\r\n".join(["Male,image_id,Young,Smiling", *lines, ""]))
    from_csv = list_pictures(own)
    assert from_csv.names == listing.names
    assert np.array_equal(from_csv.smiling, listing.smiling)
    assert np.array_equal(from_csv.male, listing.male)


def test_the_distributed_layout_with_forty_attributes_and_runs_of_blanks_is_read(own: Path) -> None:
    names = [f"Attribute_{i}" for i in range(40)]
    names[20], names[31] = "Male", "Smiling"
    values = [["-1"] * 40 for _ in range(2)]
    values[1][20] = values[0][31] = " 1"
    lines = ["2", " ".join(names) + " ", *(f"00000{i + 1}.jpg  {'  '.join(row)}" for i, row in enumerate(values))]
    (own / ATTRIBUTES).write_text("\n".join(lines) + "\n")
    listing = list_pictures(own)
    assert listing.names == ("000001.jpg", "000002.jpg")
    assert listing.smiling.tolist() == [True, False]
    assert listing.male.tolist() == [False, True]


def caches(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / ".supportmatch-cache").glob("*") if path.name != "faces.lock")


def test_pictures_are_decoded_once_and_read_from_disk_afterwards(own: Path) -> None:
    listing = list_pictures(own)
    first = np.array(open_pictures(listing))
    assert len(caches(own)) == 1
    for name in listing.names:
        (own / PICTURES / name).write_bytes(b"no longer a picture")
    again = open_pictures(listing)
    assert isinstance(again, np.memmap)
    assert np.array_equal(first, again)


def test_changed_files_change_the_hash_and_get_a_new_cache(own: Path) -> None:
    hashes, listing = [], list_pictures(own)
    open_pictures(listing)

    def remember() -> None:
        hashes.append(hash_folder(own))
        open_pictures(list_pictures(own))

    remember()
    with (own / PICTURES / listing.names[0]).open("ab") as picture:
        picture.write(b"\0")
    remember()
    (own / PICTURES / listing.names[1]).unlink()
    remember()
    text = (own / ATTRIBUTES).read_text()
    (own / ATTRIBUTES).write_text(text.replace("-1", " 1", 1))
    remember()
    assert len(set(hashes)) == 4
    assert len(caches(own)) == 4


def test_a_picture_replaced_by_one_of_the_same_size_is_decoded_again_under_the_same_hash(own: Path) -> None:
    before = list_pictures(own)
    open_pictures(before)
    small, large = sorted((own / PICTURES / name for name in before.names[:2]), key=lambda path: path.stat().st_size)
    old = large.stat()
    large.write_bytes(small.read_bytes().ljust(old.st_size, b"\0"))
    os.utime(large, ns=(old.st_atime_ns, old.st_mtime_ns + 1_000_000_000))
    after = list_pictures(own)
    first, second = open_pictures(after)[:2]
    assert np.array_equal(first, second)
    assert after.hash == before.hash


def test_a_cut_off_cache_is_built_again(own: Path) -> None:
    listing = list_pictures(own)
    whole = np.array(open_pictures(listing))
    (cache,) = caches(own)
    cache.write_bytes(cache.read_bytes()[:1_000])
    assert np.array_equal(open_pictures(listing), whole)
    assert caches(own) == [cache]


def test_a_folder_that_cannot_be_written_uses_the_cache_directory_of_the_user(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (own / ".supportmatch-cache").write_text("in the way")
    listing = list_pictures(own)
    pictures = open_pictures(listing)
    assert pictures.filename == tmp_path / "cache" / "supportmatch" / f"faces-{listing.cache_key}.npy"
    assert np.array_equal(open_pictures(listing), pictures)
    shutil.rmtree(tmp_path / "cache" / "supportmatch")
    (tmp_path / "cache" / "supportmatch").write_text("in the way, too")
    with pytest.raises(DataFolderError, match=r"nowhere to keep the decoded pictures: make .* or .* be written to\.$"):
        open_pictures(listing)


def test_a_user_without_a_home_needs_none_if_the_folder_can_be_written(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    listing = list_pictures(own)
    assert len(open_pictures(listing)) == 64
    shutil.rmtree(own / ".supportmatch-cache")
    (own / ".supportmatch-cache").write_text("in the way")
    with pytest.raises(DataFolderError, match=r"make \S+\.supportmatch-cache a folder that can be written to\.$"):
        open_pictures(listing)


def test_of_builders_at_the_same_time_one_decodes_and_the_others_wait(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, built, decoded = list_pictures(own), [], []
    start, decode = threading.Barrier(3), celeba._decode

    def count(path: Path) -> np.ndarray:
        decoded.append(path.name)
        return decode(path)

    def build() -> None:
        start.wait()
        built.append(np.array(open_pictures(listing)))

    monkeypatch.setattr(celeba, "_decode", count)
    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 3
    assert all(np.array_equal(built[0], other) for other in built[1:])
    assert decoded == list(listing.names)
    assert [path.suffix for path in caches(own)] == [".npy"]


def test_what_killed_builders_left_is_removed_and_built_again(own: Path) -> None:
    listing, place = list_pictures(own), own / ".supportmatch-cache"
    place.mkdir()
    for name in (f"faces-{listing.cache_key}.npy.part", "faces-of-other-pictures.npy.part", "faces.lock"):
        (place / name).write_bytes(b"half")
    assert len(open_pictures(listing)) == 64
    assert [path.name for path in caches(own)] == [f"faces-{listing.cache_key}.npy"]


@pytest.mark.parametrize("content", [b"", b"not a picture", None])
def test_a_broken_picture_is_named_and_leaves_no_cache(own: Path, content: bytes | None) -> None:
    picture = own / PICTURES / list_pictures(own).names[5]
    picture.write_bytes(picture.read_bytes()[:1_500] if content is None else content)
    with pytest.raises(DataFolderError, match=rf"{picture.name} cannot be decoded .*: replace or delete it\.$"):
        load_problem(NAME, 0, own)
    assert caches(own) == []


def test_a_small_picture_is_refused(own: Path) -> None:
    picture = own / PICTURES / list_pictures(own).names[5]
    Image.new("RGB", (178, 100)).save(picture)
    with pytest.raises(DataFolderError, match=rf"{picture.name} is 178 x 100 pixels, but at least 178 x 178"):
        load_problem(NAME, 0, own)


def test_without_a_folder_one_is_asked_for() -> None:
    for attempt in (lambda: load_problem(NAME), SETTINGS[NAME].data_hash):
        with pytest.raises(
            DataFolderError, match=r"pass `--data DIR` on the command line or `folder=` in Python.*\.jpg"
        ):
            attempt()


def drop_attributes(folder: Path) -> None:
    (folder / ATTRIBUTES).unlink()


def drop_pictures(folder: Path) -> None:
    shutil.rmtree(folder / PICTURES)


def empty_pictures(folder: Path) -> None:
    drop_pictures(folder)
    (folder / PICTURES).mkdir()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (shutil.rmtree, "there is no folder"),
        (drop_attributes, "has no attribute file"),
        (drop_pictures, "has no folder `img_align_celeba`"),
        (empty_pictures, r"none of the 64 pictures named in .* \(such as 000001.jpg\) is in"),
    ],
)
def test_an_incomplete_folder_is_refused_with_what_it_should_hold(
    own: Path, spoil: Callable[[Path], None], complaint: str
) -> None:
    spoil(own)
    expected = (
        r": a CelebA folder holds `img_align_celeba/\*.jpg` and `list_attr_celeba.txt` \(or `list_attr_celeba.csv`\)"
    )
    with pytest.raises(DataFolderError, match=complaint + ".*" + expected):
        load_problem(NAME, 0, own)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1 of .* must be the number of rows, but it is ''"),
        ("Male Smiling\n000001.jpg 1 1\n", "line 1 of .* must be the number of rows, but it is 'Male Smiling'"),
        ("1\nMale Young\n000001.jpg 1 1\n", "lacks the columns Smiling: it must have image_id, Smiling and Male"),
        ("1\nMale Smiling\n000001.jpg 1\n", r"line 3 of .* \('000001.jpg 1'\) is malformed: a line must hold"),
        ("1\nMale Smiling\n000001.jpg 1 2\n", "line 3 of .* is malformed.* and 2 values"),
        ("2\nMale Smiling\n000001.jpg 1 1\n000001.jpg 1 1\n", "line 4 of .* is malformed.* that occurs once"),
        ("3\nMale Smiling\n000001.jpg 1 1\n", "announces 3 rows, but there are 1: get the whole file"),
        ("\n1\n\nMale Smiling\n \n000001.jpg 1\n", "line 6 of .* is malformed"),
        ("\nMale Smiling\n000001.jpg 1 1\n", "line 2 of .* must be the number of rows, but it is 'Male Smiling'"),
        ("\n\n3\nMale Smiling\n000001.jpg 1 1\n", "line 3 of .* announces 3 rows, but there are 1"),
    ],
)
def test_a_malformed_attribute_file_is_refused_with_its_line(own: Path, text: str, complaint: str) -> None:
    (own / ATTRIBUTES).write_text(text)
    with pytest.raises(DataFolderError, match=complaint):
        list_pictures(own)


def test_a_csv_may_have_blanks_around_its_fields_and_blank_lines_count(own: Path) -> None:
    drop_attributes(own)
    file = own / "list_attr_celeba.csv"
    text = 'image_id, "Male" , Smiling\n\n000001.jpg, -1, 1\n 000002.jpg ,1 ,-1\n'
    file.write_text(text)
    listing = list_pictures(own)
    assert listing.names == ("000001.jpg", "000002.jpg")
    assert (listing.male.tolist(), listing.smiling.tolist()) == ([False, True], [True, False])
    file.write_text(text + "000003.jpg, 1\n")
    with pytest.raises(DataFolderError, match=r"line 5 of .* is malformed"):
        list_pictures(own)


def test_a_csv_without_the_names_of_pictures_is_refused(own: Path) -> None:
    drop_attributes(own)
    (own / "list_attr_celeba.csv").write_text("Male,Smiling\n1,1\n")
    with pytest.raises(DataFolderError, match="lacks the columns image_id"):
        list_pictures(own)


def test_too_few_pictures_to_train_on_every_seen_source_are_refused(tmp_path: Path) -> None:
    folder = make_celeba_folder(tmp_path, n=8)
    with pytest.raises(
        SupportMatchError, match=r"the training set of seed 0 has no row of .* holds only 8 pictures.*: add pictures"
    ):
        load_problem(NAME, 0, folder)


def relabel(folder: Path, male: str, smiling: str, kept: Callable[[str], bool]) -> None:
    """Turn the smile of every picture of one source around, except of those that are to be kept."""
    lines = (folder / ATTRIBUTES).read_text().splitlines()
    for i, line in enumerate(lines[2:], start=2):
        name, *labels = line.split()
        if labels == [male, smiling] and not kept(name):
            lines[i] = f"{name} {male} {-int(smiling)}"
    (folder / ATTRIBUTES).write_text("\n".join(lines))


def test_only_the_missing_source_is_needed_in_deployment_and_none_in_the_test_set(own: Path) -> None:
    pictures = open_pictures(list_pictures(own))
    problem = load_problem(NAME, 0, own)
    in_training = {row.tobytes() for row in np.asarray(problem.X_train)}
    relabel(own, "1", "-1", kept=lambda name: pictures[int(name[:6]) - 1].tobytes() in in_training)
    train, deploy, test = sources_of(problem := load_problem(NAME, 0, own))
    assert [set(sources.tolist()) for sources in (train, deploy, test)] == [{0, 1, 3}, {0, 2, 3}, {0, 2, 3}]
    assert problem.score(problem.y_test).robust_accuracy == 1
    with pytest.raises(DataFolderError, match=r"the deployment set of seed 0 has no row of not smiling/male, because"):
        load_problem("celeba-no-nonsmiling-male", 0, own)


@pytest.mark.parametrize("name", FACES)
def test_drawn_faces_serve_seeds_whose_test_set_lacks_a_source(faces: Path, name: str) -> None:
    _, deploy, test = sources_of(load_problem(name, 13, faces))
    assert (len(set(deploy.tolist())), len(set(test.tolist()))) == (4, 3)


@pytest.mark.parametrize("there", [ATTRIBUTES, "list_attr_celeba.csv", f"{PICTURES}/000001.jpg"])
def test_drawn_faces_never_replace_what_a_folder_holds(tmp_path: Path, there: str) -> None:
    (tmp_path / PICTURES).mkdir()
    (tmp_path / there).write_text("precious")
    with pytest.raises(
        DataFolderError, match=r"already holds `.*`, which is not to be overwritten: name a new folder\.$"
    ):
        make_celeba_folder(tmp_path, n=1)
    assert (tmp_path / there).read_text() == "precious"
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / there}


def test_drawn_faces_look_like_their_labels(faces: Path, tmp_path: Path) -> None:
    listing = list_pictures(faces)
    assert np.bincount(2 * listing.smiling + listing.male).tolist() == [16] * 4
    with Image.open(faces / PICTURES / listing.names[0]) as picture:
        assert (picture.size, picture.mode) == ((178, 218), "RGB")
    x = open_pictures(listing).astype(np.float64)
    whitest = x.min(axis=1).max(axis=(1, 2))  # teeth
    assert whitest[listing.smiling].min() > whitest[~listing.smiling].max()
    beard = abs(x[:, :, 51, 32] - x[:, :, 20, 32]).sum(axis=1)  # the chin is not of the colour of the forehead
    assert beard[listing.male].min() > beard[~listing.male].max()
    assert hash_folder(make_celeba_folder(tmp_path / "again", 64, seed=0)) == listing.hash
    assert hash_folder(make_celeba_folder(tmp_path / "other", 64, seed=1)) != listing.hash


@pytest.mark.parametrize(("name", "code_size"), [("faces", 96), ("paper-celeba", 128)])
def test_the_presets_for_faces_restore_pictures_of_this_size(faces: Path, name: str, code_size: int) -> None:
    config, shape = preset(name), (3, 64, 64)
    pictures = read_rows(Rows(open_pictures(list_pictures(faces))), slice(0, 2))
    for network in (config.autoencoder, config.clustering.autoencoder):
        code = build_encoder(network, shape)(pictures)
        assert build_decoder(network, shape)(code).shape == pictures.shape
    assert build_encoder(config.autoencoder, shape)(pictures).shape == (2, code_size)
    assert config.bags.bag_size % 4 == 0
