"""Changed pairs: each user with each entity whose answer changes; the rows of the detail tables."""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import BATCH_ROWS, BatchFunction
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.evaluate import RuleGroup, changed_bits, chunk_users, group_rules
from analytics.spark.engine.facts import FactBits, find_entries
from analytics.spark.engine.layout import WORD_BITS, Unit, split_into_units
from analytics.spark.engine.members import Directory, Shared
from analytics.spark.engine.rows import NONE, Array, decode

cloudpickle.register_pickle_by_value(sys.modules[__name__])

PAIRS = "user string, entity string, operation string, after boolean"


def pair_stages(rules: CompiledRules, operations: tuple[str, ...], each_user: bool, shared: Shared) -> tuple[BatchFunction]:
    return (find_pairs(rules, operations, shared, each_user=each_user),)


def find_pairs(rules: CompiledRules, operations: tuple[str, ...], shared: Shared, *, each_user: bool) -> BatchFunction:
    """A function from tenant rows with names to PAIRS. operations: by rule.

    each_user: evaluates all users, also those who hold nothing; needed where is_met_without_grants.
    """
    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if not received:
            return
        directory, rows = Directory.load(shared), decode(received)
        for unit, mine in split_into_units(rows, directory):
            facts = [FactBits(directory, unit, entries) for entries in find_entries(unit, mine, rules, directory)]
            is_evaluated = np.full(directory.user_count, each_user)
            for fact in facts:
                fact.mark_holders(is_evaluated)
            groups = list(group_rules(unit, rules))
            for users in chunk_users(np.nonzero(is_evaluated)[0], sum(fact.width for fact in facts)):
                held = [fact.of(users) for fact in facts]
                for group in groups:
                    changed = changed_bits(unit, facts, held, len(users), group)
                    for user, target, rule, after in _pairs(unit, users, group, changed):
                        yield pa.record_batch({
                            "user": directory.user_names.take(pa.array(directory.user_places[user])),
                            "entity": rows.names.take(pa.array(unit.target_row[target])),
                            "operation": pa.array(operations, pa.string()).take(pa.array(rule)),
                            "after": np.full(len(user), after)})

    return find


def _pairs(unit: Unit, users: Array, group: RuleGroup,
           changed: tuple[Array, Array | None]) -> Iterator[tuple[Array, Array, Array, bool]]:
    """(user indexes, targets of the unit, rule numbers, the answer after)."""
    begin = int(unit.run_begin[group.runs[0]])
    for after, bits in zip((True, False), changed, strict=True):
        if bits is None:
            continue
        # Few enough users to keep the batches small.
        step = max(1, BATCH_ROWS // max(1, bits.shape[1] * WORD_BITS // 8))
        for first in range(0, len(bits), step):
            some = np.ascontiguousarray(bits[first : first + step])
            user, bit = np.nonzero(np.unpackbits(some.view(np.uint8), axis=1, bitorder="little"))
            target = np.searchsorted(unit.position, bit + begin * WORD_BITS)
            run = np.searchsorted(unit.run_begin[group.runs], bit // WORD_BITS + begin, side="right") - 1
            for rules in group.rules:
                which = np.nonzero(rules[run] != NONE)[0]
                if len(which):
                    yield users[first + user[which]], target[which], rules[run[which]], after
