"""Counting targets by holder gives the counts of bits. Needs no Spark session."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.engine import held, sums
from analytics.spark.engine.compiled import UNMET, CompiledFact, CompiledRule, CompiledRules
from analytics.spark.engine.directory import Directory
from analytics.spark.engine.rows import EVERYONE, GRANT, GROUP, NONE, TARGET, USER, Rows
from analytics.spark.engine.units import Unit, split_into_units

USERS, GROUPS, NAMESPACES, TARGETS = 40, 8, 5, 2_000
# two operations on a kind can require the same
RULES = CompiledRules(
    tuple(
        CompiledRule(kind, UNMET, ("held", numbers))
        for kind, numbers in ((0, (0,)), (1, (0,)), (1, (1,)), (2, (0, 1)), (3, (2,)), (1, (0,)))
    ),
    (
        CompiledFact("self", (0,), frozenset({0, 1, 2})),
        CompiledFact("self", (1, 2), frozenset({1, 2})),
        CompiledFact("below", (0, 1, 2), frozenset({3})),
    ),
)


def tenant(seed: int, grants: int) -> tuple[list[Unit], Directory]:
    """Return random units and their directory. The namespaces themselves are of kind 3."""
    rng = np.random.default_rng(seed)
    ids = np.arange(TARGETS)
    namespaces = np.where(ids < NAMESPACES, ids, rng.integers(NAMESPACES, size=TARGETS))
    kinds = np.where(ids < NAMESPACES, 3, rng.integers(3, size=TARGETS))
    entities = rng.integers(TARGETS, size=grants)
    types = rng.integers(2, size=grants)
    principals = np.where(
        types == USER, rng.integers(USERS, size=grants), rng.choice([EVERYONE, *range(GROUPS)], size=grants)
    )
    members = pa.table(
        {"user_id": rng.integers(USERS, size=3 * USERS), "group_id": rng.integers(GROUPS, size=3 * USERS)}
    )
    directory = Directory.build(
        pa.table({"id": np.arange(USERS), "name": [f"user {number:02}" for number in range(USERS)]}),
        members.group_by(["user_id", "group_id"]).aggregate([]),
        pa.table(
            {
                "id": np.arange(NAMESPACES),
                "name": [f"ns{number}" for number in range(NAMESPACES)],
                "required": np.zeros(NAMESPACES, np.int64),
            }
        ),
    )

    def column(of_targets, of_grants):
        return np.concatenate(
            [np.broadcast_to(of_targets, TARGETS), np.broadcast_to(of_grants, grants)]
        ).astype(np.int64)

    rows = Rows(
        form=column(TARGET, GRANT),
        subtree=column(namespaces, namespaces[entities]),
        block=column(0, 0),
        kind=column(kinds, NONE),
        entity=column(ids, entities),
        application=column(NONE, NONE),
        principal_type=column(NONE, types),
        principal=column(NONE, principals),
        selector=column(NONE, rng.integers(3, size=grants)),
    )
    assert set(types) == {USER, GROUP}
    return list(split_into_units(rows, directory)), directory


def counts(
    unit: Unit,
    rules: tuple[list[held.HeldRules], CompiledRules],
    directory: Directory,
    by_segment: bool,
) -> dict[tuple[int, int, int], int]:
    """Return what users gain by rule, user and segment."""
    return {
        (rule, user, segment): count
        for rule, users, segments, gained, _ in sums.count_changes(unit, *rules, directory, by_segment)
        for user, segment, count in zip(users.tolist(), segments.tolist(), gained.tolist(), strict=True)
    }


@pytest.mark.parametrize("by_segment", [False, True])
@pytest.mark.parametrize("grants", [30, 1_000, 10_000])
def test_targets_with_one_and_with_several_holders_are_counted_like_their_bits(grants, by_segment):
    units, directory = tenant(grants, grants)
    split = held.split_rules(RULES)
    assert len(split[0]) == len({rule.after for rule in RULES.rules})
    assert all(rule.kind == NONE for rule in split[1].rules)
    by_holder = [counts(unit, split, directory, by_segment) for unit in units]
    assert by_holder == [counts(unit, ([], RULES), directory, by_segment) for unit in units]
    assert sum(map(len, by_holder)) > 30


def test_rules_that_need_more_than_one_held_fact_are_left_to_bits():
    rule, (fact, *others) = RULES.rules[0], RULES.facts
    of_namespace = replace(fact, form="namespace")
    rules = CompiledRules(
        (
            rule,
            replace(rule, before=("held", (1,))),
            replace(rule, after=("all", (rule.after, ("held", (1,))))),
            replace(rule, after=("held", (1, 2))),
            replace(rule, kind=NONE),
        ),
        (fact, others[0], of_namespace),
    )
    counted, others = held.split_rules(rules)
    assert counted == [held.HeldRules([fact], {rule.kind: [0]})]
    assert [other.kind for other in others.rules] == [NONE, 0, 0, 0, NONE]
    assert others.facts[1:] == rules.facts[1:]
