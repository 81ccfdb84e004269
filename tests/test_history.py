from __future__ import annotations

import json

import pytest

from supportmatch.history import History


@pytest.fixture
def history() -> History:
    history = History()
    history.append(0, total=0.1 + 0.2, norm=1e-30)
    history.append(1, total=-1.0, norm=3.0)
    return history


def test_a_history_is_one_row_per_step(history: History) -> None:
    assert history.rows[1] == {"step": 1, "total": -1.0, "norm": 3.0}
    assert history.column("step") == [0, 1]


def test_a_history_comes_back_from_lines_exactly(history: History) -> None:
    assert History.from_jsonl(history.to_jsonl().splitlines()) == history


def test_each_line_is_a_json_object_of_its_own(history: History) -> None:
    lines = history.to_jsonl().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1]


def test_an_empty_history_is_an_empty_file() -> None:
    assert History().to_jsonl() == ""
    assert History.from_jsonl([]) == History()


def test_two_histories_do_not_share_rows() -> None:
    History().append(0, total=1.0)
    assert History().rows == []
