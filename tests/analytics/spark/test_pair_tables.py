"""Detail tables: the workers find each pair once, parts have about the same size, and rows have the order of
the key.
"""

import random

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.analyses import readiness, visibility
from analytics.spark.engine import entry
from analytics.spark.engine import pairs as engine_pairs
from analytics.spark.engine.pairs import PairOrder
from analytics.spark.schemas import read_table, write_table
from analytics.tables import READINESS, READINESS_DETAIL, VISIBILITY, VISIBILITY_DETAIL

USERS, NAMESPACES = 40, 6


def skewed_tenant(build_input):
    """Return the input for a tenant where some users see much, most see little, and one namespace is by far
    the largest.
    """
    entities = [(1, "instance", "cdap", None, "live")]
    entities += [(10 + n, "namespace", f"ns{n}", 10 + n, "live") for n in range(NAMESPACES)]
    entities += [
        (
            100 + n,
            "dataset",
            f"ns{n % NAMESPACES if n % 4 else 0}.d{n}",
            10 + (n % NAMESPACES if n % 4 else 0),
            "live",
        )
        for n in range(200)
    ]
    users = [(n, f"user{n:02}") for n in range(1, USERS + 1)]
    dice = random.Random(5)
    admin = [
        ("user", user, 100 + dice.randrange(200))
        for user in range(1, USERS + 1)
        for _ in range(1 + 60 // user)
    ]
    admin += [("group", 1, 100 + n) for n in range(0, 200, 7)]
    return build_input(
        entities=entities,
        users=users,
        groups=[(1, "all")],
        memberships=[(user, 1) for user in range(1, USERS, 2)],
        admin=sorted(set(admin)),
    )


@pytest.fixture
def pack_calls(spark, monkeypatch):
    """Return an accumulator that counts how often a worker packs a partition.

    It counts a partition again if Spark runs the workers again, for example to sample ranges.
    """
    calls, pack_pairs = spark.sparkContext.accumulator(0), entry.pack_pairs

    def counting_pack_pairs(*arguments):
        pack = pack_pairs(*arguments)

        def count(batches):
            calls.add(1)
            yield from pack(batches)

        return count

    monkeypatch.setattr(entry, "pack_pairs", counting_pack_pairs)
    return calls


@pytest.mark.parametrize(
    ("analysis", "table", "detail_table", "pair_column"),
    [
        (visibility, VISIBILITY, VISIBILITY_DETAIL, "visible"),
        (readiness, READINESS, READINESS_DETAIL, "missing"),
    ],
)
@pytest.mark.spark
def test_the_workers_find_the_pairs_once_and_the_parts_are_sorted(
    spark, build_input, tmp_path, monkeypatch, pack_calls, analysis, table, detail_table, pair_column
):
    monkeypatch.setattr(engine_pairs, "PAIRS_PER_PART", 200)
    analysis_input = skewed_tenant(build_input)
    write_table(analysis.rows(analysis_input), table, f"file://{tmp_path}/rows")
    analysis_input.earlier["rows"] = read_table(spark, table, f"file://{tmp_path}/rows")
    expected = analysis_input.earlier["rows"].groupBy().sum(pair_column).first()[0]
    write_table(analysis.detail(analysis_input), detail_table, f"file://{tmp_path}/detail")
    rows = [tuple(row) for row in read_table(spark, detail_table, f"file://{tmp_path}/detail").collect()]
    assert len(rows) == len(set(rows)) == expected > 1_000
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    assert pack_calls.value == (1 if analysis_input.tables.is_small else partitions)
    files = sorted((tmp_path / "detail").glob("part-*.parquet"))
    rows_by_file = [
        [tuple(row.values()) for row in pa.parquet.read_table(file).to_pylist()] for file in files
    ]
    all_rows = [row for file_rows in rows_by_file for row in file_rows]
    assert all_rows == sorted(all_rows, key=lambda row: [text.encode() for text in row])
    if not analysis_input.tables.is_small:
        # a part may be larger than PAIRS_PER_PART, because one user is never divided
        assert len(files) > 3 and max(map(len, rows_by_file)) <= 3 * 200


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
