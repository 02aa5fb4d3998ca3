"""Ranges of revisions behave as the sets that they stand for."""

import random

import pytest

from grants.evidence.revision_ranges import intersection, union

BOUNDS = (0, 40)


def members(ranges):
    return {revision for start, end in ranges for revision in range(start, end)}


def random_ranges(rng):
    points = sorted(rng.sample(range(*BOUNDS), 2 * rng.randint(0, 5)))
    return tuple(zip(points[::2], points[1::2], strict=True))


@pytest.mark.parametrize("seed", range(50))
def test_operations_agree_with_sets_of_revisions(seed):
    rng = random.Random(seed)
    first, second = random_ranges(rng), random_ranges(rng)
    first, second = union([first]), union([second])
    assert members(union([first, second])) == members(first) | members(second)
    assert members(intersection(first, second)) == members(first) & members(second)


def test_a_union_merges_ranges_that_touch():
    assert union([[(1, 3)], [(3, 5), (7, 8)], [(5, 5)]]) == ((1, 5), (7, 8))
