"""Detail tables: the workers find each pair once, parts are about equal, and rows come in the order of the key."""

import random

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.analyses import readiness, visibility
from analytics.spark.engine import entry
from analytics.spark.engine import pairs as engine_pairs
from analytics.spark.engine.pairs import PairOrder, PairPacker, SortedPairs, cut_evenly, part_count
from analytics.spark.schemas import read_table, write_table
from analytics.tables import READINESS, READINESS_DETAIL, VISIBILITY, VISIBILITY_DETAIL

USERS, NAMESPACES = 40, 6


def tenant(tenant_of):
    """Some users see much, most see little, and one namespace is much larger than the others."""
    entities = [(1, "instance", "cdap", None, "live")]
    entities += [(10 + n, "namespace", f"ns{n}", 10 + n, "live") for n in range(NAMESPACES)]
    entities += [(100 + n, "dataset", f"ns{n % NAMESPACES if n % 4 else 0}.d{n}", 10 + (n % NAMESPACES if n % 4 else 0), "live")
                 for n in range(200)]
    users = [(n, f"user{n:02}") for n in range(1, USERS + 1)]
    dice = random.Random(5)
    admin = [("user", user, 100 + dice.randrange(200)) for user in range(1, USERS + 1) for _ in range(1 + 60 // user)]
    admin += [("group", 1, 100 + n) for n in range(0, 200, 7)]
    return tenant_of(entities=entities, users=users, groups=[(1, "all")], memberships=[(user, 1) for user in range(1, USERS, 2)],
                     admin=sorted(set(admin)))


@pytest.mark.parametrize(("analysis", "rows", "detail", "pairs"), [
    (visibility, VISIBILITY, VISIBILITY_DETAIL, "visible"), (readiness, READINESS, READINESS_DETAIL, "missing"),
])
@pytest.mark.spark
def test_each_row_passes_the_workers_once_and_the_parts_cover_the_key(
    spark, tenant_of, tmp_path, monkeypatch, analysis, rows, detail, pairs
):
    """Counts with accumulators, which would count a row again if Spark ran the workers again, for example to sample ranges."""
    monkeypatch.setattr(engine_pairs, "PAIRS_PER_PART", 200)
    received, found, merged = (spark.sparkContext.accumulator(0) for _ in range(3))
    stages = entry.pair_table_stages

    def counted_stages(*arguments):
        pack, merge = stages(*arguments)

        def counted_pack(batches):
            def counted():
                for batch in batches:
                    received.add(batch.num_rows)
                    yield batch

            yield from pack(counted())

        def counted_merge(batches):
            def counted():
                for batch in batches:
                    found.add(sum(len(packed) - 1 for packed in batch.column("rules").to_pylist()))
                    yield batch

            for batch in merge(counted()):
                merged.add(batch.num_rows)
                yield batch

        return counted_pack, counted_merge

    monkeypatch.setattr(entry, "pair_table_stages", counted_stages)
    analysis_input = tenant(tenant_of)
    write_table(analysis.rows(analysis_input), rows, f"file://{tmp_path}/rows")
    analysis_input.earlier["rows"] = read_table(spark, rows, f"file://{tmp_path}/rows")
    expected = analysis_input.earlier["rows"].groupBy().sum(pairs).first()[0]
    made = analysis.detail(analysis_input)
    sent = made.source if analysis_input.tables.is_small else None
    write_table(made, detail, f"file://{tmp_path}/detail")
    written = [tuple(row) for row in read_table(spark, detail, f"file://{tmp_path}/detail").collect()]
    assert len(written) == len(set(written)) == expected == merged.value == found.value > 1_000
    files = sorted((tmp_path / "detail").glob("part-*.parquet"))
    by_file = [[tuple(row.values()) for row in pa.parquet.read_table(file).to_pylist()] for file in files]
    in_order = [row for part in by_file for row in part]
    assert in_order == sorted(in_order, key=lambda row: [text.encode() for text in row])
    if sent is None:
        # one user or namespace may exceed the wanted size, and so may a cut between users of a namespace
        assert len(files) > 3 and max(map(len, by_file)) <= 3 * 200
        assert 0 < received.value < 1_000


def test_ranges_have_about_the_same_weight_whoever_has_the_pairs():
    weights = np.array([0, 0, 10, 1_000, 10, 10, 0, 10, 10, 900, 50])
    assert cut_evenly(weights, 1, 4).tolist() == [0, 3, 9]
    assert cut_evenly(np.array([0, 400, 0]), 100, 4).tolist() == [0, 125, 150, 175]
    assert cut_evenly(np.zeros(5), 1, 3).tolist()[0] == 0 and cut_evenly(np.zeros(0), 1, 3).tolist() == [0]


@pytest.mark.parametrize(("pairs", "partitions", "parts"), [
    (0, 8, 1), (99_999, 8, 1), (800_000, 8, 8), (300_000, 8, 3), (141_000_000, 8, 36), (141_000_000, 1_280, 1_280),
])
def test_parts_fit_in_memory_and_keep_every_core_busy(pairs, partitions, parts):
    assert part_count(np.array([pairs]), partitions) == parts


class Names:
    """The part of a directory that the rows need."""

    user_count = 30
    user_names = pa.array([f"user{n:02}" for n in range(30)])
    namespace_names = pa.array(["", "a", "b"])


@pytest.mark.parametrize("waiting", [1, 50, 10_000])
def test_pairs_that_are_packed_in_any_batches_come_sorted(waiting):
    """Two workers send pairs of the same and of different entities, in several batches each."""
    dice = np.random.default_rng(3)
    operations, order = ("list", "get", "list"), PairOrder(np.array([0, 4, 20]), has_namespace=False)
    names = [pa.array([f"dataset:sales.d{n * 7 % 40}" for n in range(40)]), pa.array([f"stream:hr.s{n}" for n in range(40)])]
    expected, packed = [], []
    for some in names:
        packer = PairPacker(order)
        for _ in range(5):
            chosen = dice.choice(30 * 40 * 3, 100, replace=False)
            place, entity, rule, after = chosen // 120, chosen // 3 % 40, chosen % 3, bool(dice.integers(2))
            packer.add(place, entity, rule, after)
            expected += [(f"user{p:02}", some[int(e)].as_py(), operations[r], not after, after)
                         for p, e, r in zip(place.tolist(), entity.tolist(), rule.tolist(), strict=True)]
            if packer._count >= waiting:
                packed += packer.pack(some)
        packed += packer.pack(some)
    rows = [row for batch in packed for row in batch.to_pylist()]
    made = []
    for part, first in enumerate(order.first_positions.tolist()):
        pairs = SortedPairs([row for row in rows if row["part"] == part], operations)
        for batch in pairs.batches(("user", "entity", "operation", "before", "after"), first, Names):
            made += [tuple(row.values()) for row in batch.to_pylist()]
    assert made == sorted(expected, key=lambda row: (*row[:3], row[4]))
