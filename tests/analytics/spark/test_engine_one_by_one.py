"""The engine gives the same answers as a reference that evaluates users and entities one by one, on random
tenants.
"""

import random
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.engine import bits, sums, units
from analytics.spark.engine.compiled import CompiledFact, CompiledRule, CompiledRules, fact_numbers
from analytics.spark.engine.directory import Directory, LocalBroadcast
from analytics.spark.engine.pairs import PairOrder, merge_pairs, pack_pairs
from analytics.spark.engine.rows import (
    ANYWHERE,
    BELOW,
    COLUMNS,
    EVERYONE,
    GRANT,
    GROUP,
    NAMESPACE_GRANT,
    NONE,
    PRECOMPUTED,
    TARGET,
    USER,
)
from analytics.spark.engine.sums import (
    SumOrder,
    count_by_subtree,
    merge_sums,
    pack_sums,
    readiness_rows,
    sum_rows,
)

APPLICATION, DATASET, NAMESPACE = range(3)
KINDS = frozenset({APPLICATION, DATASET, NAMESPACE})
FORMS = ("self", "application", "namespace", "instance", "below", "anywhere", "precomputed")
PRIVILEGES = range(4)
INSTANCE = 1


class Tenant:
    """A random tenant: subtrees of targets, users, groups and grants; `holds` tests a fact without the
    engine.

    Subtrees are split into blocks at random, as if they were too large for a unit.
    """

    def __init__(self, dice):
        self.dice = dice
        # user id to user rank
        self.users = {user: rank for rank, user in enumerate(dice.sample(range(1, 40), 7))}
        # a member that is not a user is inactive
        self.groups = {group: set(dice.sample([*self.users, 77], dice.randint(0, 5))) for group in range(4)}
        # targets: entity to (kind, subtree, block, application); blocks: subtree to its blocks
        self.targets, self.blocks, first_entity = {}, {}, 100
        for subtree in (NONE, 90, 91, 92):
            self._add_subtree(subtree, first_entity)
            first_entity = max([first_entity, *self.targets]) + 3
        entities = [*self.targets, INSTANCE]
        principals = [
            *((USER, user) for user in self.users),
            (USER, 78),
            *((GROUP, group) for group in self.groups),
        ]
        # (principal, privilege, entity)
        self.grants = [
            (dice.choice(principals), dice.choice(PRIVILEGES), dice.choice(entities)) for _ in range(60)
        ]
        # (principal, fact, entity)
        self.precomputed = [
            (dice.choice([*principals, (GROUP, EVERYONE)]), dice.randrange(4), dice.choice(entities))
            for _ in range(6)
        ]

    def _add_subtree(self, subtree, first_entity):
        dice, block_count = self.dice, self.dice.randint(1, 3) if subtree != NONE else 1
        applications = [NONE, first_entity, first_entity + 1]
        self.blocks[subtree] = range(block_count)
        if subtree != NONE:
            self.targets[subtree] = NAMESPACE, subtree, 0, NONE
        for application in applications[1:]:
            self.targets[application] = APPLICATION, subtree, application % block_count, application
        for entity in range(first_entity + 2, first_entity + 2 + dice.randint(0, 90)):
            application = dice.choice(applications)
            # all entities of an application are in one block
            hashed = application if application != NONE else entity
            self.targets[entity] = DATASET, subtree, hashed % block_count, application

    def rows(self):
        """Return the rows that Spark would send, each as a dict of columns."""
        rows = [
            {
                "form": TARGET,
                "subtree": subtree,
                "block": block,
                "kind": kind,
                "entity": entity,
                "application": application,
            }
            for entity, (kind, subtree, block, application) in self.targets.items()
        ]
        for principal, privilege, entity in self.grants:
            if entity != INSTANCE:
                holder = {"principal_type": principal[0], "principal": principal[1], "selector": privilege}
                rows += [holder | row for row in self._grant_rows(entity)]
        rows += [
            {
                "form": PRECOMPUTED,
                "subtree": self.targets[entity][1],
                "block": self.targets[entity][2],
                "entity": entity,
                "principal_type": principal_type,
                "principal": principal,
                "selector": fact,
            }
            for (principal_type, principal), fact, entity in self.precomputed
            if entity != INSTANCE
        ]
        self.dice.shuffle(rows)
        return rows

    def _grant_rows(self, entity):
        _, subtree, block, application = self.targets[entity]
        rows = [{"form": GRANT, "block": block, "entity": entity, "application": application}]
        blocks = self.blocks[subtree] if len(self.blocks[subtree]) > 1 else []
        rows += [{"form": ANYWHERE, "block": other, "entity": subtree} for other in blocks]
        if block:
            rows.append({"form": BELOW, "block": 0, "entity": subtree})
        if entity == subtree:
            rows += [
                {"form": NAMESPACE_GRANT, "block": other, "entity": subtree}
                for other in blocks
                if other != block
            ]
        return [row | {"subtree": subtree} for row in rows]

    def directory(self):
        """Return the directory. Names have the order of ids."""
        users, namespaces = names_of(self)
        directory = Directory.build(
            pa.table({"id": list(self.users), "name": [users[rank] for rank in self.users.values()]}),
            pa.table(
                {
                    "user_id": [user for members in self.groups.values() for user in members],
                    "group_id": [group for group, members in self.groups.items() for _ in members],
                }
            ),
            pa.table(
                {
                    "id": list(namespaces)[1:],
                    "name": list(namespaces.values())[1:],
                    "required": [9] * (len(namespaces) - 1),
                }
            ),
        )
        instance_grants = [
            (*principal, privilege) for principal, privilege, entity in self.grants if entity == INSTANCE
        ]
        if not instance_grants:
            return directory
        return directory.with_instance_grants(
            *(np.array(column, np.int64) for column in zip(*instance_grants, strict=True))
        )

    @property
    def broadcast(self):
        return LocalBroadcast(self.directory().to_dict())

    def holds(self, user, number, fact, entity):
        """Return whether the user holds the fact with this number on the entity."""
        principals = {
            (USER, user),
            (GROUP, EVERYONE),
            *((GROUP, group) for group, members in self.groups.items() if user in members),
        }
        if fact.form == "precomputed":
            return any(
                (principal in principals) and (number, entity) == (known_fact, known_entity)
                for principal, known_fact, known_entity in self.precomputed
            )
        counting = self._counting_entities(fact.form, entity)
        return any(
            principal in principals and privilege in fact.selectors and granted in counting
            for principal, privilege, granted in self.grants
        )

    def _counting_entities(self, form, entity):
        """Return the entities on which a grant counts for the entity."""
        kind, subtree, _, application = self.targets[entity]
        match form:
            case "self":
                return {entity}
            case "application":
                return {application} - {NONE}
            case "namespace":
                return {subtree} - {NONE}
            case "instance":
                return {INSTANCE}
            case "below":
                # only for containers
                return {
                    other
                    for other, (_, other_subtree, _, other_application) in self.targets.items()
                    if kind != DATASET and entity in (other_subtree, other_application)
                }
            case "anywhere":
                return {
                    other
                    for other, (_, other_subtree, *_) in self.targets.items()
                    if other_subtree == subtree
                }


def names_of(tenant):
    """Return (user names by rank, namespace names by id)."""
    return (
        {rank: f"user {rank:02}" for rank in tenant.users.values()},
        {subtree: f"ns{subtree}" if subtree != NONE else "" for subtree in tenant.blocks},
    )


def batches(tenant):
    rows = tenant.rows()
    columns = {name: np.array([row.get(name, NONE) for row in rows]) for name in COLUMNS}
    names = [f"e{row['entity']}" if row["form"] == TARGET else None for row in rows]
    batch = pa.record_batch({**columns, "name": pa.array(names, pa.string())})
    return iter([batch.slice(0, 40), batch.slice(40)])


def random_rules(dice):
    facts = tuple((dice.choice(FORMS), tuple(dice.sample(PRIVILEGES, dice.randint(1, 3)))) for _ in range(4))
    rules = tuple(
        CompiledRule(dice.choice(sorted(KINDS)), random_requirement(dice), random_requirement(dice))
        for _ in range(6)
    )
    return CompiledRules(
        rules,
        tuple(
            CompiledFact(form, (number,) if form == "precomputed" else privileges, _kinds(rules, number))
            for number, (form, privileges) in enumerate(facts)
        ),
    )


def _kinds(rules, number):
    return frozenset(
        rule.kind for rule in rules if number in fact_numbers(rule.before) | fact_numbers(rule.after)
    )


def random_requirement(dice, depth=2):
    operator = dice.choice(("held", "all", "any")) if depth else "held"
    if operator == "held":
        return operator, tuple(dice.sample(range(4), dice.randint(1, 2)))
    return operator, tuple(random_requirement(dice, depth - 1) for _ in range(dice.randint(0, 2)))


def is_met(requirement, holds):
    operator, operands = requirement
    if operator == "held":
        return any(map(holds, operands))
    return (all if operator == "all" else any)(is_met(operand, holds) for operand in operands)


def reference_changes(tenant, rules):
    """Return {(user, rule): {entity: the answer after}} of every answer that changes."""
    changes = {}
    for user, (number, rule), entity in product(tenant.users, enumerate(rules.rules), tenant.targets):
        if tenant.targets[entity][0] != rule.kind:
            continue

        def holds(fact, user=user, entity=entity):
            return tenant.holds(user, fact, rules.facts[fact], entity)

        before, after = is_met(rule.before, holds), is_met(rule.after, holds)
        if before != after:
            changes.setdefault((user, number), {})[entity] = after
    return changes


def reference_count(tenant, changes, user, rule, subtree):
    """Return [gained, lost]. subtree: None for all."""
    answers = [
        after
        for entity, after in changes.get((user, rule), {}).items()
        if subtree in (None, tenant.targets[entity][1])
    ]
    return np.array([sum(answers), len(answers) - sum(answers)])


def rows_of(result_batches):
    return [row for batch in result_batches for row in batch.to_pylist()]


def merge_parts(merge, packed, part_count):
    """Return the rows of all parts. Each part is merged alone."""
    rows = []
    for part in range(part_count):
        rows += rows_of(merge(iter([batch for batch in packed if batch.column("part")[0].as_py() == part])))
    return rows


@pytest.fixture(scope="module", params=range(10))
def tenant_rules_changes(request):
    """Return (a random tenant, random rules, the changes by the reference)."""
    dice = random.Random(request.param)
    tenant, rules = Tenant(dice), random_rules(dice)
    return tenant, rules, reference_changes(tenant, rules)


@pytest.fixture(params=[(1, 1, 1), (4_000, 100, 20), (bits.CHUNK_BYTES, units.UNIT_ENTITIES, 2_000_000)])
def sizes(request, monkeypatch):
    """Set the sizes of chunks of users, of units, and of the counts that are packed at once."""
    chunk_bytes, unit_entities, buffered_counts = request.param
    monkeypatch.setattr(bits, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(units, "UNIT_ENTITIES", unit_entities)
    monkeypatch.setattr(sums, "MAX_BUFFERED_COUNTS", buffered_counts)


def test_counts_by_subtree_equal_the_reference(tenant_rules_changes, sizes):
    tenant, rules, changes = tenant_rules_changes
    gained = {}
    for row in rows_of(count_by_subtree(rules, tenant.broadcast)(batches(tenant))):
        key = row["user_id"], row["rule"], row["subtree"]
        gained[key] = gained.get(key, 0) + row["gained"]
    for user, rule, subtree in product(tenant.users, range(len(rules.rules)), tenant.blocks):
        expected = reference_count(tenant, changes, user, rule, subtree)
        assert gained.get((user, rule, subtree), 0) == expected[0]


@pytest.mark.parametrize(("by_namespace", "part_count"), [(False, 1), (True, 3)])
def test_packed_and_merged_counts_are_sorted_and_complete(
    tenant_rules_changes, sizes, by_namespace, part_count
):
    tenant, rules, changes = tenant_rules_changes
    rule_count = len(rules.rules)
    rule_order = random.Random(3).sample(range(rule_count), rule_count)
    names = ("user", "rule", "namespace") if by_namespace else ("user", "rule")
    positions = tuple(rule_order.index(rule) for rule in range(rule_count))
    order = SumOrder(names, positions, (True,) * rule_count, part_count)
    columns = {"user": "user", "rule": list(map(str, rule_order)), "gained": "gained", "lost": "lost"}
    if by_namespace:
        columns["namespace"] = "namespace"
    packed = list(pack_sums(rules, order, tenant.broadcast)(batches(tenant)))
    merge = merge_sums(order, partial(sum_rows, columns), tenant.broadcast)
    rows = merge_parts(merge, packed, part_count)
    users, namespaces = names_of(tenant)
    keys = [(row["user"], positions[int(row["rule"])], row.get("namespace", "")) for row in rows]
    assert keys == sorted(set(keys))
    assert {
        (row["user"], int(row["rule"]), row.get("namespace", "")): (row["gained"], row["lost"])
        for row in rows
    } == {
        (users[rank], rule, namespaces[NONE if subtree is None else subtree]): tuple(counts)
        for user, rank in tenant.users.items()
        for rule in range(rule_count)
        for subtree in (tenant.blocks if by_namespace else [None])
        if any(counts := reference_count(tenant, changes, user, rule, subtree))
    }


def test_holders_are_added_up_by_namespace_and_candidate_rules_add_nothing(tenant_rules_changes, sizes):
    tenant, rules, changes = tenant_rules_changes
    is_counted = tuple(rule not in (1, 4) for rule in range(len(rules.rules)))
    order = SumOrder(("namespace", "user"), (0,) * len(rules.rules), is_counted, 2)
    users, namespaces = names_of(tenant)
    packed = list(pack_sums(rules, order, tenant.broadcast)(batches(tenant)))
    table = merge_parts(merge_sums(order, readiness_rows, tenant.broadcast), packed, 2)
    assert all(
        row["missing"] == row["required"] - row["held"] and row["ready"] == (row["missing"] == 0)
        for row in table
    )
    expected = {}
    for user, subtree, rule in product(tenant.users, tenant.blocks, range(len(rules.rules))):
        counts = reference_count(tenant, changes, user, rule, subtree)
        if any(counts):
            key = namespaces[subtree], users[tenant.users[user]], 0 if subtree == NONE else 9
            expected[key] = expected.get(key, 0) + is_counted[rule] * counts[0]
    held_by_key = {(row["namespace"], row["user"], row["required"]): row["held"] for row in table}
    assert [(row["namespace"], row["user"]) for row in table] == sorted(key[:2] for key in expected)
    assert held_by_key == expected


def test_pairs_equal_the_reference(tenant_rules_changes, sizes):
    tenant, rules, changes = tenant_rules_changes
    users, _ = names_of(tenant)
    order = PairOrder(("user",), np.arange(3) * 2)
    columns = ("user", "entity", "operation", "after")
    rule_texts = tuple(f"{rule:02}" for rule in range(len(rules.rules)))
    packed = list(pack_pairs(rules, order, tenant.broadcast)(batches(tenant)))
    rows = merge_parts(merge_pairs(order, columns, rule_texts, tenant.broadcast), packed, 3)
    pairs = {(row["user"], int(row["operation"]), int(row["entity"][1:])): row["after"] for row in rows}
    assert len(pairs) == len(rows)
    assert rows == sorted(rows, key=lambda row: (row["user"], row["entity"], row["operation"]))
    assert pairs == {
        (users[tenant.users[user]], rule, entity): after
        for (user, rule), answers in changes.items()
        for entity, after in answers.items()
    }


def test_an_empty_partition_yields_nothing():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("all", ())),), ())
    broadcast = Tenant(random.Random(1)).broadcast
    sum_order, pair_order = SumOrder(("user", "rule"), (0,), (True,), 2), PairOrder(("user",), np.zeros(1))
    for function in (
        count_by_subtree(rules, broadcast),
        pack_sums(rules, sum_order, broadcast),
        merge_sums(sum_order, sum_rows, broadcast),
        pack_pairs(rules, pair_order, broadcast),
        merge_pairs(pair_order, ("user", "entity"), ("o",), broadcast),
    ):
        assert list(function(iter([]))) == []


def test_an_unknown_requirement_raises_an_error():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("most", ())),), ())
    tenant = Tenant(random.Random(1))
    with pytest.raises(ValueError, match="`most` is not a requirement"):
        list(count_by_subtree(rules, tenant.broadcast)(batches(tenant)))
