"""The parts of detail tables have about the same size."""

import numpy as np
import pytest

from analytics.spark.engine import pairs as engine_pairs
from analytics.spark.engine.pairs import PairOrder


def test_parts_have_about_the_same_number_of_pairs_for_any_distribution(monkeypatch):
    monkeypatch.setattr(engine_pairs, "MIN_PAIRS_PER_PART", 1)

    def first_keys(counts, width, parts):
        return PairOrder.split(("user",), np.array(counts), width, parts).first_keys.tolist()

    assert first_keys([0, 0, 10, 1_000, 10, 10, 0, 10, 10, 900, 50], 1, 4) == [0, 3, 9]
    assert first_keys([0, 400, 0], 100, 4) == [0, 125, 150, 175]
    assert first_keys([0, 0], 1, 3) == first_keys([], 1, 3) == [0]


@pytest.mark.parametrize(
    ("pairs", "partitions", "parts"),
    [
        (0, 8, 1),
        (99_999, 8, 1),
        (800_000, 8, 8),
        (300_000, 8, 3),
        (141_000_000, 8, 36),
        (141_000_000, 1_280, 1_280),
    ],
)
def test_parts_fit_into_memory_and_keep_every_core_busy(pairs, partitions, parts):
    assert PairOrder.split(("user",), np.array([pairs]), 10_000, partitions).part_count == parts
