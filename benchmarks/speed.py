"""How fast: every stage, in one run, side by side, against the machine's own rate.

    python benchmarks/speed.py                   # every section, into speed.json and docs/explanation/speed.md
    python benchmarks/speed.py --only step,start # some of them; the others stay as they were measured

Each section runs in a process of its own with nothing beside it, so let the machine rest. Times are medians of repeats.
Nothing here is a test: machines differ, and this one may be busy.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SPECIFICATION = HERE.parent / "examples" / "method_in_one_file.py"
RESULT, PAGE = HERE / "speed.json", HERE.parent / "docs" / "explanation" / "speed.md"
_PART = re.compile(r"(<!-- generated: speed -->\n).*?(<!-- end generated -->)", flags=re.DOTALL)


@dataclass(frozen=True)
class Line:
    """One measurement."""

    what: str
    value: float
    unit: str
    note: str = ""


Lines = Iterator[Line]


def timed(work: Callable[[], object], repeats: int = 7, warm_up: int = 1) -> float:
    """Return the median seconds of a piece of work."""
    return side_by_side({"it": work}, repeats, warm_up)["it"]


def side_by_side(works: dict[str, Callable[[], object]], repeats: int = 7, warm_up: int = 1) -> dict[str, float]:
    """Return the median seconds of several pieces of work, done in turns, so that all see the same machine."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warm_up + repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}


def matrix_rate(threads: int, size: int = 1_024) -> float:
    """Return what `torch.mm` reaches here, in GFLOP/s."""
    import torch

    with threads_set_to(threads):
        a = torch.randn(size, size)
        return 2 * size**3 / timed(lambda: a @ a, 21, 5) / 1e9


@contextmanager
def threads_set_to(n: int) -> Iterator[None]:
    """Let torch use so many threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def specification() -> ModuleType:
    """Import the one-file specification."""
    spec = importlib.util.spec_from_file_location("method_in_one_file", SPECIFICATION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def digits(seed: int = 0) -> tuple[Any, Any]:
    """Return training and deployment set of `cmnist-sb`."""
    from supportmatch import load_problem
    from supportmatch.data.inputs import FeatureReader

    p = load_problem("cmnist-sb", seed)
    reader = FeatureReader.fit(p.X_train, p.X_deploy)
    names = {"subgroup_names": p.subgroup_names, "class_names": p.class_names}
    return reader.read_labeled(p.X_train, p.y_train, p.subgroup_train, **names), reader.read(p.X_deploy)


def stepper(train: Any, deploy: Any, config: Any) -> Callable[[], object]:
    """Return a function that makes one whole step of matching: bags, rows, both players, averages."""
    from supportmatch.bags import PlainBags, TrainingBags
    from supportmatch.matching import AveragedPlayer, new_game, play_step, read_batch

    bags = config.bags
    train_bags = TrainingBags.of(train, bags.n_bags, bags.bag_size, 0)
    deploy_bags = PlainBags(len(deploy), bags.n_bags, bags.bag_size, 0)
    game = new_game(train, config, 0)
    averaged = AveragedPlayer(game.player, config.matching.averaging)
    steps = iter(range(10**9))

    def step() -> None:
        number = next(steps)
        play_step(game, read_batch(train, deploy, train_bags, deploy_bags, number))
        averaged.update(number)

    return step


def section_step() -> Lines:
    """The matching step of the package against that of the one-file specification, at the same configuration."""
    import torch

    from supportmatch.bags import GroupedBags, TrainingBags
    from supportmatch.config import AutoencoderConfig, BagConfig, Config, DiscriminatorConfig, MatchingConfig
    from supportmatch.data.containers import Labeled, Unlabeled
    from supportmatch.matching import AveragedPlayer, new_game, play_step, read_batch
    from supportmatch.sources import SourceGrid

    torch.set_num_threads(1)  # as the specification has it
    one_file = specification()
    n_bags, size, hidden, code, rate, decay = (
        one_file.N_BAGS,
        one_file.BAG_SIZE,
        64,
        one_file.CODE_SIZE,
        one_file.LEARNING_RATE,
        one_file.AVERAGING,
    )
    config = Config(
        autoencoder=AutoencoderConfig(kind="mlp", widths=(hidden,), code_size=code),
        discriminator=DiscriminatorConfig(
            hidden_before=(hidden,), row_size=32, gate_size=hidden, hidden_after=(hidden,)
        ),
        bags=BagConfig(n_bags=n_bags, bag_size=size),
        matching=MatchingConfig(
            learning_rate=rate,
            discriminator_learning_rate=rate,
            averaging=decay,
            decay_from=1.0,
            adversarial_loss="minimax",
            **{f"{name}_weight": weight for name, weight in one_file.WEIGHTS.items()},
        ),
    )
    for n in (250, 10_000, 250_000):
        rng = np.random.default_rng(0)
        x, y, s = one_file.make_rows(n, rng)
        kept = (y != one_file.MISSING[0]) | (s != one_file.MISSING[1])
        x, y, s = x[kept], y[kept], s[kept]
        x_deploy, y_deploy, s_deploy = one_file.make_rows(n, rng)
        clusters, sources = y_deploy * 2 + s_deploy, y * 2 + s
        seen = np.isin(np.arange(4), sources).reshape(2, 2)
        train = Labeled(x, y=y, s=s, grid=SourceGrid(one_file.CLASSES, one_file.SUBGROUPS))
        deploy = Unlabeled(x_deploy)
        train_bags, deploy_bags = TrainingBags.of(train, n_bags, size, 0), GroupedBags(clusters, n_bags, size, 0)
        game = new_game(train, config, 0)
        averaged = AveragedPlayer(game.player, decay)
        player = one_file.EncoderPlayer(x.shape[1], hidden, code, 2, 2)
        theirs = one_file.Game(
            player, one_file.SetDiscriminator(code - player.side, hidden, 32), rate, one_file.WEIGHTS
        )
        average = deepcopy(player)

        def of_package(  # type: ignore[no-untyped-def]
            game=game, averaged=averaged, train=train, deploy=deploy, train_bags=train_bags, deploy_bags=deploy_bags
        ) -> None:  # fmt: skip
            for step in range(100):
                play_step(game, read_batch(train, deploy, train_bags, deploy_bags, step))
                averaged.update(step)

        def of_specification(  # type: ignore[no-untyped-def]
            x=x, y=y, s=s, sources=sources, seen=seen, x_deploy=x_deploy, clusters=clusters, theirs=theirs,
            player=player, average=average, rng=rng,
        ) -> None:  # fmt: skip
            for step in range(100):
                rows = one_file.draw_training_bags(sources, seen, n_bags, size, rng).reshape(-1)
                deploy_rows = one_file.draw_deployment_bags(clusters, n_bags, size, rng).reshape(-1)
                both = torch.from_numpy(np.concatenate([x[rows], x_deploy[deploy_rows]]))
                theirs.play_step(both, torch.from_numpy(y[rows]), torch.from_numpy(s[rows]), n_bags)
                one_file.update_average(average, player, decay, step)

        found = side_by_side({"package": of_package, "one file": of_specification}, 9)
        rows_said = f"{len(x) + len(x_deploy):,} rows"
        for name, seconds in found.items():
            yield Line(f"step of the {name}, {rows_said}", seconds * 10, "ms")
        yield Line(f"one file / package, {rows_said}", found["one file"] / found["package"], "times")


def section_convolution() -> Lines:
    """FLOP/s of the training step on images against `torch.mm` in the same process."""
    from torch.utils.flop_counter import FlopCounterMode

    from supportmatch.bags import PlainBags, TrainingBags
    from supportmatch.config import default_config
    from supportmatch.matching import new_game, play_step, read_batch

    train, deploy = digits()
    config = default_config(images=True, n_sources=4)
    bags = config.bags
    samplers = (
        TrainingBags.of(train, bags.n_bags, bags.bag_size, 0),
        PlainBags(len(deploy), bags.n_bags, bags.bag_size, 0),
    )
    game = new_game(train, config, 0)
    batch = read_batch(train, deploy, *samplers, 0)
    with FlopCounterMode(display=False) as counter:
        play_step(game, batch)
    work = counter.get_total_flops() / 1e9
    yield Line("a step of matching on images", work, "GFLOP", f"{len(batch.x)} images of 32 x 32")
    for threads in sorted({1, os.cpu_count() or 1}):
        with threads_set_to(threads):
            seconds = timed(lambda: play_step(game, batch), 21, 3)
            drawing = timed(lambda: [bags_.draw(3) for bags_ in samplers], 51, 5)
            peak = matrix_rate(threads)
        said = f"{threads} thread{'s' * (threads > 1)}"
        yield Line(f"step, {said}", seconds * 1e3, "ms")
        yield Line(f"images, {said}", len(batch.x) / seconds, "per second")
        yield Line(f"step, {said}", work / seconds, "GFLOP/s")
        yield Line(f"torch.mm, {said}", peak, "GFLOP/s", "1,024 x 1,024")
        yield Line(f"step / torch.mm, {said}", 100 * work / seconds / peak, "%")
        yield Line(f"drawing bags / step, {said}", 100 * drawing / seconds, "%")


def section_paper() -> Lines:
    """The authors' configuration as it was run, `cmnist-sb`: steps times the measured time of a step."""
    from supportmatch.clustering.codes import learn_codes
    from supportmatch.clustering.rank_statistics import rank_statistics_probabilities
    from supportmatch.config import preset

    train, deploy = digits()
    config = preset("paper-cmnist-sb")
    clustering = config.clustering

    def pretrain(steps: int) -> Any:
        return learn_codes(train, deploy, clustering.model_copy(update={"pretrain_steps": steps}), 0, lambda: None)

    few, more = timed(lambda: pretrain(5), 3), timed(lambda: pretrain(15), 3)
    of_pretraining = (more - few) / 10 * clustering.pretrain_steps + few
    codes, deploy_codes = pretrain(5)

    def head(steps: int) -> object:
        lean = clustering.model_copy(update={"head_steps": steps})
        return rank_statistics_probabilities(codes, train.source_ids, deploy_codes, 4, lean, 0, lambda: None)

    few, more = timed(lambda: head(5), 3), timed(lambda: head(25), 3)
    of_head = (more - few) / 20 * clustering.head_steps
    of_matching = timed(stepper(train, deploy, config), 15, 3) * config.matching.steps
    yield Line("pre-training", of_pretraining, "s", f"{clustering.pretrain_steps:,} steps, extrapolated")
    yield Line("rank statistics", of_head, "s", f"{clustering.head_steps:,} steps, extrapolated")
    yield Line("matching", of_matching, "s", f"{config.matching.steps:,} steps, extrapolated")
    yield Line(
        "the authors' configuration in all", of_pretraining + of_head + of_matching, "s", "their networks and steps"
    )


def _end_to_end(setting: str) -> Lines:
    """Everything from raw data to the test score in a new process, by stage."""
    began = time.perf_counter()
    from supportmatch import SupportMatchingClassifier, estimator, load_problem

    marks = {"importing": time.perf_counter() - began}

    def measured(name: str, function: str) -> None:
        original = getattr(estimator, function)

        def wrapped(*arguments: Any, **others: Any) -> Any:
            start = time.perf_counter()
            result = original(*arguments, **others)
            marks[name] = time.perf_counter() - start
            return result

        setattr(estimator, function, wrapped)

    measured("clustering", "cluster_deployment")
    measured("matching", "match_supports")
    measured("naming clusters", "pair_clusters")
    measured("classifier", "fit_classifier")
    measured("final classifier", "fit_final")
    start = time.perf_counter()
    problem = load_problem(setting, 0)
    marks["loading"] = time.perf_counter() - start
    model = SupportMatchingClassifier(subgroup_names=problem.subgroup_names, class_names=problem.class_names)
    start = time.perf_counter()
    model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    within = sum(seconds for name, seconds in marks.items() if name not in ("importing", "loading"))
    marks["the rest of fitting"] = time.perf_counter() - start - within
    start = time.perf_counter()
    robust = problem.score(model.predict(problem.X_test)).robust_accuracy
    marks["evaluation"] = time.perf_counter() - start
    total = time.perf_counter() - began
    for name, seconds in marks.items():
        yield Line(f"{setting}: {name}", seconds, "s", f"{100 * seconds / total:.0f} %")
    yield Line(f"{setting}: raw data to test score", total, "s", f"robust accuracy {robust:.3f}, seed 0")
    yield Line(f"{setting}: peak memory", peak_memory("self"), "MB")


def section_digits() -> Lines:
    """Colored MNIST, subgroup bias."""
    yield from _end_to_end("cmnist-sb")


def section_accuracy() -> Lines:
    """Time to robust accuracy 0.98 on `cmnist-sb`: the classifier on z is trained and tested on the way (not timed)."""
    from supportmatch import SupportMatchingClassifier, load_problem
    from supportmatch.classifier import fit_classifier, predict_rows, transform_rows
    from supportmatch.data.containers import Rows

    enough = 0.98
    problem = load_problem("cmnist-sb", 0)
    reached: list[tuple[int, float, float]] = []

    class Tested(SupportMatchingClassifier):
        """Tests the averaged encoder every 50 steps, with labels that have no part in training."""

        began, pauses = 0.0, 0.0

        def _started(self, game: Any) -> None:
            self.train = self.reader_.read_labeled(
                problem.X_train,
                problem.y_train,
                problem.subgroup_train,
                subgroup_names=problem.subgroup_names,
                class_names=problem.class_names,
            )

        def _watch(self, step: int, averaged: Any, game: Any) -> None:
            if reached or (step + 1) % 50:
                return
            pause = time.perf_counter()
            player = deepcopy(averaged).eval()
            head = fit_classifier(player, self.train, self.config_.classifier, self.seed_)
            z = transform_rows(player, self.reader_.read(problem.X_test))
            names = np.array(self.train.grid.classes)[predict_rows(head, Rows(z)).argmax(axis=1)]
            robust = problem.score(names).robust_accuracy
            if robust >= enough:
                reached.append((step + 1, pause - self.began - self.pauses, robust))
            self.pauses += time.perf_counter() - pause

    model = Tested(subgroup_names=problem.subgroup_names, class_names=problem.class_names)
    model.began = time.perf_counter()
    model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    for step, seconds, robust in reached:
        yield Line(
            "clustering and matching until then", seconds, "s", f"{step} steps, robust accuracy {robust:.3f}, seed 0"
        )
    if not reached:
        yield Line("not reached", float("nan"), "s", "seed 0")


def section_three_digits() -> Lines:
    """Colored MNIST, three digits."""
    yield from _end_to_end("cmnist-3digit")


def section_adult() -> Lines:
    """Adult, subgroup bias."""
    yield from _end_to_end("adult-sb")


def section_clustering() -> Lines:
    """Clustering with pre-training, 10,000 deployment images."""
    from supportmatch.clustering import cluster_deployment
    from supportmatch.config import default_config
    from supportmatch.data.containers import Unlabeled

    train, deploy = digits()
    rows = np.random.default_rng(0).integers(len(deploy), size=10_000)
    many = Unlabeled(np.ascontiguousarray(deploy.x[rows]))
    config = default_config(images=True, n_sources=4).clustering
    yield Line("clustering", timed(lambda: cluster_deployment(train, many, config, 0), 3), "s", "10,000 images")


def section_predict() -> Lines:
    """Rows a second through a fitted model."""
    from supportmatch import SupportMatchingClassifier, load_problem
    from supportmatch.config import default_config

    for setting, n in (("adult-sb", 200_000), ("cmnist-sb", 20_000)):
        problem = load_problem(setting, 0)
        config = default_config(images=setting != "adult-sb", n_sources=4)
        config = config.model_copy(update={"matching": config.matching.model_copy(update={"steps": 3})})
        model = SupportMatchingClassifier(
            subgroup_names=problem.subgroup_names, class_names=problem.class_names, config=config
        )
        model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        rows = np.random.default_rng(0).integers(len(problem.X_deploy), size=n)
        few: Any = problem.X_deploy
        many = few.iloc[rows] if setting == "adult-sb" else few[rows]
        yield Line(f"predict, {setting}", n / timed(partial(model.predict, many), 5), "rows per second")
        yield Line(f"transform, {setting}", n / timed(partial(model.transform, many), 5), "rows per second")


def section_rows() -> Lines:
    """What a step costs as sets, features, subgroups and bags grow."""
    import torch

    from supportmatch.config import default_config
    from supportmatch.data.containers import Labeled, Unlabeled
    from supportmatch.sources import SourceGrid

    rng = np.random.default_rng(0)

    def sets(shape: tuple[int, ...], n: int, n_subgroups: int = 2) -> tuple[Labeled, Unlabeled]:
        x: Any = rng.standard_normal((n, *shape), dtype=np.float32) if len(shape) == 1 else None
        if x is None:
            x = rng.integers(0, 256, size=(n, *shape), dtype=np.uint8)
        grid = SourceGrid((0, 1), tuple(range(n_subgroups)))
        y, s = rng.integers(2, size=n), rng.integers(n_subgroups, size=n)
        return Labeled(x, y=y, s=s, grid=grid), Unlabeled(x)

    def cost(shape: tuple[int, ...], n: int, n_subgroups: int = 2, bag_size: int | None = None) -> float:
        config = default_config(images=len(shape) == 3, n_sources=2 * n_subgroups)
        if bag_size is not None:
            config = config.model_copy(update={"bags": config.bags.model_copy(update={"bag_size": bag_size})})
        return timed(stepper(*sets(shape, n, n_subgroups), config), 41, 5) * 1e3

    torch.set_num_threads(1)
    for n in (10**4, 10**5, 10**6, 10**7):
        yield Line(f"step on a table, {n:,} rows in either set", cost((62,), n), "ms")
    for n in (10**3, 10**4, 10**5):
        yield Line(f"step on images, {n:,} in either set", cost((3, 32, 32), n), "ms")
    for features in (10, 100, 1_000):
        yield Line(f"step on a table, {features:,} features", cost((features,), 10**4), "ms")
    for subgroups in (2, 4, 8):
        yield Line(f"step on a table, {subgroups} subgroups", cost((62,), 10**4, subgroups), "ms", "bag sizes differ")
    for size in (8, 32, 128):
        yield Line(f"step on a table, bags of {size}", cost((62,), 10**4, bag_size=size), "ms", "32 bags")


def section_files() -> Lines:
    """The command line on files: audit, fit and predict, with their peak memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, deploy = adult_tables()
        write_table(train, folder / "train.csv", 50_000)
        write_table(deploy, folder / "deploy.csv", 50_000)
        options = ["--label", "income", "--subgroup", "sex", "--subgroups", "Female,Male"]
        both = ["train.csv", *options, "--deploy", "deploy.csv"]
        yield command(folder, ["audit", "train.csv", *options], "audit, CSV of 50,000 rows", repeats=5)
        yield command(folder, ["audit", *both], "audit, two CSVs of 50,000 rows", repeats=5)
        write_table(train, folder / "adult.csv")
        write_table(deploy, folder / "adult-deploy.csv")
        fit = ["fit", "adult.csv", *options, "--deploy", "adult-deploy.csv", "--out", "model", "--quiet", "--overwrite"]
        yield command(folder, fit, "fit, Adult from CSV")
        for n in (10**6, 5 * 10**6):
            write_table(deploy, folder / "many.csv", n)
            predict = ["predict", "model", "many.csv", "--out", "predicted.csv", "--overwrite", "--quiet"]
            line = command(folder, predict, f"predict, CSV of {n:,} rows")
            yield line
            yield Line(line.what, n / line.value, "rows per second")
        for old in ("many.csv", "predicted.csv"):
            (folder / old).unlink()
        write_table(train, folder / "many.parquet", 10**7)
        yield command(folder, ["audit", "many.parquet", *options], "audit, Parquet of 10,000,000 rows")


def section_large() -> Lines:
    """Peak memory of fitting many rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_numbers(folder / "train.parquet", 700_000, 62, labels=True)
        write_numbers(folder / "deploy.parquet", 300_000, 62, labels=False)
        (folder / "few.toml").write_text("[matching]\nsteps = 200\n[classifier]\nepochs = 1\n")
        options = ["--label", "y", "--subgroup", "s", "--subgroups", "a,b", "--deploy", "deploy.parquet"]
        fit = ["fit", "train.parquet", *options, "--config", "few.toml", "--out", "model", "--quiet", "--no-examples"]
        yield command(folder, fit, "fit, Parquet of 1,000,000 rows x 62, 200 steps")
        code = (
            "import numpy as np\n"
            "from supportmatch import SupportMatchingClassifier, preset\n"
            "shape = (50_000, 3, 64, 64)\n"
            "x = np.lib.format.open_memmap('images.npy', mode='w+', dtype=np.uint8, shape=(2 * shape[0], *shape[1:]))\n"
            "rng = np.random.default_rng(0)\n"
            "for i in range(0, len(x), 1_000): x[i : i + 1_000] = rng.integers(0, 256, (1_000, *shape[1:]), np.uint8)\n"
            "del x\n"
            "x = np.load('images.npy', mmap_mode='c')\n"
            "y, s = rng.integers(2, size=(2, shape[0]))\n"
            "config = preset('faces')\n"
            "few = config.matching.model_copy(update={'steps': 20})\n"
            "config = config.model_copy(update={'matching': few})\n"
            "import warnings; warnings.simplefilter('ignore')\n"
            "SupportMatchingClassifier(config=config).fit(x[: shape[0]], y, subgroup=s, X_deploy=x[shape[0] :])\n"
        )
        yield run_measured(folder, [sys.executable, "-c", code], "fit, 100,000 images of 64 x 64 in a file, 20 steps")


def section_start() -> Lines:
    """Starting."""
    for what, arguments in (
        ("import supportmatch", ["-c", "import supportmatch"]),
        ("supportmatch --help", ["-m", "supportmatch", "--help"]),
        ("supportmatch audit --help", ["-m", "supportmatch", "audit", "--help"]),
    ):
        run = partial(subprocess.run, [sys.executable, *arguments], check=True, capture_output=True)
        yield Line(what, timed(run, 7), "s")


def command(folder: Path, arguments: list[str], what: str, repeats: int = 1) -> Line:
    """Run a command of ours and return its seconds, with its peak memory as the note."""
    lines = [run_measured(folder, [sys.executable, "-m", "supportmatch", *arguments], what) for _ in range(repeats)]
    return sorted(lines, key=lambda line: line.value)[len(lines) // 2]


def run_measured(folder: Path, arguments: list[str], what: str) -> Line:
    """Run a process and return its seconds, with its own peak memory (files mapped into it not counted) as the note."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(str(process.pid), "RssAnon"))
        time.sleep(0.02)
    seconds = time.perf_counter() - began
    assert process.stderr is not None
    if process.returncode not in (0, 3):  # 3: an audit that found sources missing
        raise RuntimeError(process.stderr.read().decode())
    return Line(what, seconds, "s", f"peak memory {peak:,} MB")


def peak_memory(process: str, field: str = "VmHWM") -> int:
    """Return a field of a process's memory, in MB; zero where the system does not tell."""
    try:
        found = re.search(rf"{field}:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    except OSError:
        return 0
    return round(int(found[1]) / 1_024) if found else 0


def adult_tables() -> tuple[Any, Any]:
    """Return the Adult training rows with labels, and deployment rows without, as Arrow tables."""
    import pyarrow as pa

    from supportmatch import load_problem

    problem = load_problem("adult-sb", 0)
    features: Any = problem.X_train
    labelled = features.assign(income=problem.y_train, sex=problem.subgroup_train)
    return (pa.Table.from_pandas(frame, preserve_index=False) for frame in (labelled, problem.X_deploy))  # type: ignore[return-value]


def write_table(table: Any, path: Path, n: int | None = None) -> None:
    """Write rows of a table, drawn with repetition if a number is given, as CSV or Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng, left, writer = np.random.default_rng(0), len(table) if n is None else n, None
    while left:
        size = min(left, 10**6)
        piece = table if n is None else table.take(pa.array(rng.integers(len(table), size=size)))
        if writer is None:
            writer = (pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter)(path, piece.schema)
        writer.write_table(piece)
        left -= size
    assert writer is not None
    writer.close()


def write_numbers(path: Path, n: int, n_columns: int, *, labels: bool) -> None:
    """Write random numbers, and labels from which one source is missing."""
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(n)
    columns: dict[str, Any] = {f"x{i}": rng.standard_normal(n, dtype=np.float32) for i in range(n_columns)}
    if labels:
        y, s = rng.integers(2, size=(2, n))
        s[y == 1] = 1
        columns |= {"y": np.array(["no", "yes"])[y], "s": np.array(["a", "b"])[s]}
    pa.parquet.write_table(pa.table(columns), path)


SECTIONS: dict[str, Callable[[], Lines]] = {
    name.removeprefix("section_"): function for name, function in list(globals().items()) if name.startswith("section_")
}


def measure(names: list[str]) -> dict[str, Any]:
    """Run sections, each in a process of its own, and return everything."""
    found = {}
    for name in names:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        done = subprocess.run(
            [sys.executable, __file__, "--section", name], check=True, stdout=subprocess.PIPE, text=True
        )
        found[name] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for line in found[name]:
            print(f"  {line['what']:58} {line['value']:12,.4g} {line['unit']:16} {line['note']}", flush=True)
    packages = ("supportmatch", "torch", "numpy", "pyarrow", "scikit-learn")
    return {
        "sections": found,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def processor() -> str:
    """Return the name of the processor, where the system tells."""
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else platform.processor()


def tables(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    machine = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    parts = [f"Measured on {result['date']} with {machine['cores']} cores ({machine['processor']}); {versions}."]
    for name, lines in result["sections"].items():
        rows = "\n".join(f"| {o['what']} | {o['value']:,.4g} | {o['unit']} | {o['note']} |" for o in lines)
        parts.append(f"**{SECTIONS[name].__doc__}**\n\n| what | value | unit | |\n|---|---|---|---|\n{rows}")
    return "\n\n".join(parts)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"sections, with commas: {', '.join(SECTIONS)}")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.section:
        for line in SECTIONS[asked.section]():
            print(json.dumps(asdict(line)), flush=True)
        return
    names = asked.only.split(",") if asked.only else list(SECTIONS)
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"there is no section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    result = measure(names)
    if asked.only and RESULT.is_file():
        known = json.loads(RESULT.read_text(encoding="utf-8"))["sections"] | result["sections"]
        result["sections"] = {name: known[name] for name in SECTIONS if name in known}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PART.sub(lambda found: f"{found[1]}\n{tables(result)}\n\n{found[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
