from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from supportmatch.errors import ConfigError
from supportmatch.seeding import check_seed, seeded_initialisation, stream, torch_stream


def test_a_stream_is_a_function_of_seed_name_and_counters() -> None:
    assert np.array_equal(stream(3, "bags", 7, 1).random(5), stream(3, "bags", 7, 1).random(5))


def test_streams_that_differ_in_seed_name_or_counters_differ() -> None:
    streams = [
        (0, "bags"),
        (1, "bags"),
        (0, "clusters"),
        (0, "bags", 1),
        (0, "bags", 2),
        (0, "bags", 1, 2),
        (0, "bags", 0),
        (0, "bags", 0, 0),
        (2**32 + 5, "bags"),
        (5, "bags", 1),
    ]
    for one, other in combinations(streams, 2):
        assert not np.array_equal(stream(*one).random(5), stream(*other).random(5)), (one, other)


def test_streams_are_the_same_in_every_process_and_release() -> None:
    assert stream(0, "bags").bit_generator.random_raw(2).tolist() == [11877631172088632740, 8600890380715131383]


def test_torch_streams_follow_the_same_rules() -> None:
    draws = [
        torch.rand(4, generator=torch_stream(*key)) for key in ((0, "a", 1), (0, "a", 1), (0, "a", 2), (1, "a", 1))
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])


def test_layers_are_initialised_by_seed_and_name_alone() -> None:
    weights = []
    for global_seed, seed, name in ((0, 5, "a"), (1, 5, "a"), (0, 6, "a"), (0, 5, "b")):
        torch.manual_seed(global_seed)
        with seeded_initialisation(seed, name):
            weights.append(torch.nn.Linear(3, 3).weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[3])


def test_the_global_generator_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with seeded_initialisation(1, "networks"):
        torch.rand(10)
    assert torch.equal(torch.rand(3), expected)


def test_the_global_generator_is_left_as_it_was_also_after_an_error() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with pytest.raises(RuntimeError), seeded_initialisation(1, "networks"):
        raise RuntimeError
    assert torch.equal(torch.rand(3), expected)


def test_a_random_state_is_a_number_or_gives_a_fresh_one() -> None:
    assert check_seed(7) == 7
    assert type(check_seed(np.int64(7))) is int
    assert check_seed(np.random.RandomState(0)) == check_seed(np.random.RandomState(0))
    assert check_seed(None) != check_seed(None)


@pytest.mark.parametrize("value", [-1, 1.5, "seven"])
def test_other_random_states_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="random_state"):
        check_seed(value)
