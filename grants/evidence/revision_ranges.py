"""Sets of revisions as sorted ranges.

A range contains the revisions from its start up to, but not including, its end.
"""

from collections.abc import Iterable

Range = tuple[int, int]
# sorted, without overlaps and without gaps of length zero
Ranges = tuple[Range, ...]

EMPTY: Ranges = ()


def union(parts: Iterable[Iterable[Range]]) -> Ranges:
    """Return the revisions that are in at least one part."""
    merged: list[Range] = []
    for start, end in sorted(range_ for part in parts for range_ in part if range_[0] < range_[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """Return the revisions that are in both sets, in time that is linear in their lengths."""
    common, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            common.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)
