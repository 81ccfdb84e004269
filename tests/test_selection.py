from __future__ import annotations

import numpy as np
import pytest

from supportmatch import SupportMatchingClassifier, load_problem, make_sources
from supportmatch.bags import GroupedBags
from supportmatch.config import DiscriminatorConfig, default_config
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.inputs import FeatureReader
from supportmatch.errors import SupportMatchWarning
from supportmatch.selection import (
    bag_accuracy,
    dependence,
    doubts_about,
    entropy,
    simplicity,
    worst_source_accuracy,
)
from supportmatch.sources import SourceGrid


def naming_of(seed: int, *, swapped: bool) -> tuple[bool, float]:
    """Plant a labelling on Colored MNIST whose purple rows (never labelled) are right, or have each other's class."""
    problem = load_problem("cmnist-ms", seed)
    grid, truth = problem.grid, problem.oracle_sources
    deploy = FeatureReader.fit(problem.X_train, problem.X_deploy).read(problem.X_deploy)
    y, s = np.divmod(truth, grid.n_subgroups)
    support = grid.support(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train))
    unseen = np.isin(s, support.missing_subgroups)
    noise = np.random.default_rng(seed).random(len(y)) < 0.02  # as wrong as clusters are
    classes = np.where((unseen & swapped) ^ noise, 1 - y, y)
    found = simplicity(classes, s, deploy, support, seed)
    assert found is not None
    probabilities = np.eye(2)[classes] * 0.98 + 0.01
    warned = any("exclusive-or" in doubt for doubt in doubts_about(found, probabilities, 2))
    return warned, found.margin


def test_a_swapped_solution_is_told_from_the_natural_one() -> None:
    assert naming_of(100, swapped=True)[0]
    assert not naming_of(100, swapped=False)[0]


@pytest.mark.slow
def test_swapped_solutions_are_warned_of_in_29_of_30_trials_and_natural_ones_in_at_most_one() -> None:
    swapped = [naming_of(seed, swapped=True)[0] for seed in range(30)]
    natural = [naming_of(seed, swapped=False)[0] for seed in range(30)]
    assert sum(swapped) >= 29
    assert sum(natural) <= 1


def same_thing(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in which class and subgroup move the same feature by the same amount."""
    y, s = rng.integers(2, size=(2, n))
    x = np.column_stack([3.0 * y + 3.0 * s + 0.5 * rng.normal(size=n), rng.normal(size=n)]).astype(np.float32)
    return x, y, s


def test_a_table_whose_class_and_subgroup_are_the_same_variation_ends_with_a_warning() -> None:
    rng = np.random.default_rng(0)
    x, y, s = same_thing(1_000, rng)
    kept = ~((y == 1) & (s == 0))
    x_deploy, _, _ = same_thing(1_000, rng)
    config = default_config(images=False, n_sources=4)
    config = config.model_copy(update={"matching": config.matching.model_copy(update={"steps": 30})})
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=config)
    with pytest.warns(SupportMatchWarning, match="unseen cluster 2: .* it was not found"):
        model.fit(x[kept], y[kept], s[kept], x_deploy)


def test_a_table_of_noise_ends_with_a_warning_and_without_confidence() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 4)).astype(np.float32)
    y, s = rng.integers(2, size=(2, 1_000))
    s[y == 1] = 1
    config = default_config(images=False, n_sources=4)
    config = config.model_copy(
        update={
            "matching": config.matching.model_copy(update={"steps": 30}),
            "clustering": config.clustering.model_copy(update={"heads": "linear"}),
        }
    )
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=config)
    with pytest.warns(SupportMatchWarning) as caught:
        model.fit(x[:1_000], y, s, x[1_000:])
    assert any("hardly better than guesses" in str(warning.message) for warning in caught)
    assert np.mean(model.predict_proba(x[1_000:]).max(axis=1)) < 0.75


def test_where_labels_contradict_the_clusters_z_has_the_last_word_and_a_warning_says_so() -> None:
    problem = make_sources(seed=0)
    train, deploy = problem.train, problem.deploy
    x, x_deploy = train.x.copy(), deploy.x.copy()
    for rows, subgroup in ((x, train.s), (x_deploy, problem.oracle.subgroup)):  # classes look exchanged in one subgroup
        rows[np.ix_(subgroup == 0, [0, 1])] = rows[np.ix_(subgroup == 0, [1, 0])]
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1])
    with pytest.warns(SupportMatchWarning, match="labels contradict"):
        model.fit(x, train.y, train.s, x_deploy)
    assert model.final_ is None
    np.testing.assert_array_equal(model.predict_proba(x), model.judge_by_z(x))


def test_a_fresh_discriminator_guesses_on_equal_sets_and_tells_shifted_ones() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 50)
    bags = (GroupedBags(groups, 8, 8, 0, "a"), GroupedBags(groups, 8, 8, 0, "b"))
    config = DiscriminatorConfig(hidden_before=(16,), row_size=8, gate_size=8, hidden_after=(16,))
    z, other = rng.normal(size=(2, 200, 3)).astype(np.float32)
    assert bag_accuracy(z, z.copy(), bags, config, 0, 60) < 0.7
    assert bag_accuracy(z, other + 2, bags, config, 0, 60) > 0.9


def test_dependence_is_full_where_z_is_the_class_and_none_where_it_is_noise() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    assert dependence((y[:, None] * 4 + rng.normal(size=(400, 1)) * 0.1).astype(np.float32), y) > 0.95
    assert dependence(rng.normal(size=(400, 3)).astype(np.float32), y) < 0.05
    assert np.isnan(dependence(rng.normal(size=(4, 3)).astype(np.float32), np.zeros(4, int)))


def test_the_worst_source_is_the_lowest_of_the_seen_ones() -> None:
    grid = SourceGrid((0, 1), ("a", "b"))
    train = Labeled(np.zeros((4, 1), np.float32), y=np.array([0, 0, 1, 1]), s=np.array([0, 1, 1, 1]), grid=grid)
    assert worst_source_accuracy(np.eye(2)[[0, 0, 1, 0]], train) == 0.5


def test_entropy_is_relative_to_the_number_of_classes() -> None:
    assert entropy(np.full((5, 3), 1 / 3)) == pytest.approx(1)


def test_one_missing_source_leaves_nothing_to_name() -> None:
    grid = SourceGrid((0, 1), ("a", "b"))
    support = grid.support(np.array([0, 0, 1]), np.array([0, 1, 1]))
    rows = Unlabeled(np.zeros((4, 2), np.float32))
    assert simplicity(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), rows, support, 0) is None
