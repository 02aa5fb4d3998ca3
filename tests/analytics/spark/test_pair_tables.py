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
from analytics.spark.engine.pairs import PairOrder, PairPacker, SortedPairs, pair_part_count, split_evenly
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


class RowCounters:
    """Accumulators for the rows that the stages of a pair table receive and return.

    They count a row again if Spark runs the workers again, for example to sample ranges.
    """

    def __init__(self, spark):
        self.tenant_rows, self.packed_pairs, self.result_rows = (
            spark.sparkContext.accumulator(0) for _ in range(3)
        )

    def count_rows(self, stages):
        """Return the stages with counters."""
        tenant_rows, packed_pairs, result_rows = self.tenant_rows, self.packed_pairs, self.result_rows

        def stages_with_counters(*arguments):
            pack, merge = stages(*arguments)

            def counting_pack(batches):
                def counted_batches():
                    for batch in batches:
                        tenant_rows.add(batch.num_rows)
                        yield batch

                yield from pack(counted_batches())

            def counting_merge(batches):
                def counted_batches():
                    for batch in batches:
                        packed_pairs.add(sum(len(packed) - 1 for packed in batch.column("rules").to_pylist()))
                        yield batch

                for batch in merge(counted_batches()):
                    result_rows.add(batch.num_rows)
                    yield batch

            return counting_pack, counting_merge

        return stages_with_counters


@pytest.mark.parametrize(
    ("analysis", "table", "detail_table", "pair_column"),
    [
        (visibility, VISIBILITY, VISIBILITY_DETAIL, "visible"),
        (readiness, READINESS, READINESS_DETAIL, "missing"),
    ],
)
@pytest.mark.spark
def test_the_workers_process_each_row_once_and_the_parts_are_sorted(
    spark, build_input, tmp_path, monkeypatch, analysis, table, detail_table, pair_column
):
    monkeypatch.setattr(engine_pairs, "PAIRS_PER_PART", 200)
    counters = RowCounters(spark)
    monkeypatch.setattr(entry, "pair_table_stages", counters.count_rows(entry.pair_table_stages))
    analysis_input = skewed_tenant(build_input)
    write_table(analysis.rows(analysis_input), table, f"file://{tmp_path}/rows")
    analysis_input.earlier["rows"] = read_table(spark, table, f"file://{tmp_path}/rows")
    expected = analysis_input.earlier["rows"].groupBy().sum(pair_column).first()[0]
    write_table(analysis.detail(analysis_input), detail_table, f"file://{tmp_path}/detail")
    rows = [tuple(row) for row in read_table(spark, detail_table, f"file://{tmp_path}/detail").collect()]
    assert (
        len(rows)
        == len(set(rows))
        == expected
        == counters.result_rows.value
        == counters.packed_pairs.value
        > 1_000
    )
    files = sorted((tmp_path / "detail").glob("part-*.parquet"))
    rows_by_file = [
        [tuple(row.values()) for row in pa.parquet.read_table(file).to_pylist()] for file in files
    ]
    all_rows = [row for file_rows in rows_by_file for row in file_rows]
    assert all_rows == sorted(all_rows, key=lambda row: [text.encode() for text in row])
    if not analysis_input.tables.is_small:
        # a part may be larger than PAIRS_PER_PART, because one user is never divided
        assert len(files) > 3 and max(map(len, rows_by_file)) <= 3 * 200
        assert 0 < counters.tenant_rows.value < 1_000


def test_ranges_have_about_the_same_weight_for_any_distribution():
    weights = np.array([0, 0, 10, 1_000, 10, 10, 0, 10, 10, 900, 50])
    assert split_evenly(weights, 1, 4).tolist() == [0, 3, 9]
    assert split_evenly(np.array([0, 400, 0]), 100, 4).tolist() == [0, 125, 150, 175]
    assert split_evenly(np.zeros(5), 1, 3).tolist()[0] == 0 and split_evenly(np.zeros(0), 1, 3).tolist() == [
        0
    ]


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
    assert pair_part_count(np.array([pairs]), partitions) == parts


class NameDirectory:
    """The attributes of a Directory that SortedPairs reads."""

    user_count = 30
    user_names = pa.array([f"user{n:02}" for n in range(30)])
    namespace_names = pa.array(["", "a", "b"])


@pytest.mark.parametrize("buffer_size", [1, 50, 10_000])
def test_pairs_are_sorted_however_they_are_divided_into_batches(buffer_size):
    """Two workers send pairs of the same and of different entities, in several batches each."""
    dice = np.random.default_rng(3)
    operations, order = ("list", "get", "list"), PairOrder(np.array([0, 4, 20]), has_namespace=False)
    names_by_worker = [
        pa.array([f"dataset:sales.d{n * 7 % 40}" for n in range(40)]),
        pa.array([f"stream:hr.s{n}" for n in range(40)]),
    ]
    expected, packed = [], []
    for names in names_by_worker:
        packer = PairPacker(order)
        for _ in range(5):
            numbers = dice.choice(30 * 40 * 3, 100, replace=False)
            user_ranks, entities, rules, after = (
                numbers // 120,
                numbers // 3 % 40,
                numbers % 3,
                bool(dice.integers(2)),
            )
            packer.add(user_ranks, entities, rules, after)
            expected += [
                (f"user{rank:02}", names[entity].as_py(), operations[rule], not after, after)
                for rank, entity, rule in zip(
                    user_ranks.tolist(), entities.tolist(), rules.tolist(), strict=True
                )
            ]
            if packer._count >= buffer_size:
                packed += packer.flush(names)
        packed += packer.flush(names)
    packed_rows = [row for batch in packed for row in batch.to_pylist()]
    rows = []
    for part, first_key in enumerate(order.first_keys.tolist()):
        pairs = SortedPairs([row for row in packed_rows if row["part"] == part], operations)
        for batch in pairs.batches(
            ("user", "entity", "operation", "before", "after"), first_key, NameDirectory
        ):
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    assert rows == sorted(expected, key=lambda row: (*row[:3], row[4]))
