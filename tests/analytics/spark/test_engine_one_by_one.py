"""The engine gives the same answers as a reference that evaluates users and entities one by one, on random
tenants.
"""

import random
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.engine import evaluate, layout, merge, pack
from analytics.spark.engine.compiled import CompiledFact, CompiledRule, CompiledRules, fact_numbers
from analytics.spark.engine.count import count_changes
from analytics.spark.engine.members import Directory
from analytics.spark.engine.merge import merge_counts, merge_holders
from analytics.spark.engine.pack import pack_counts, pack_holders
from analytics.spark.engine.pairs import PairOrder, pair_table_stages
from analytics.spark.engine.rows import (
    COLUMNS,
    EVERYONE,
    GROUP,
    IN_APPLICATION,
    IN_NAMESPACE,
    NONE,
    USER,
    ContainerGrantRows,
    DescendantGrantRows,
    GrantRows,
    PrecomputedFactRows,
    TargetRows,
    column_names,
    row_type_number,
)
from analytics.spark.engine.small_tenant import LocalBroadcast

APPLICATION, DATASET, NAMESPACE = range(3)
KINDS = frozenset({APPLICATION, DATASET, NAMESPACE})
FORMS = ("self", "application", "namespace", "instance", "below", "anywhere", "precomputed")
PRIVILEGES = range(4)
INSTANCE = 1


class Tenant:
    """A random tenant: subtrees of targets, users, groups and grants; `holds` tests a fact without the
    engine.

    Subtrees, and applications in them, are split into blocks at random, as if they were too large for a unit.
    """

    def __init__(self, dice):
        self.dice = dice
        # user id to user rank
        self.users = {user: rank for rank, user in enumerate(dice.sample(range(1, 40), 7))}
        # a member that is not a user is inactive
        self.groups = {group: set(dice.sample([*self.users, 77], dice.randint(0, 5))) for group in range(4)}
        # targets: entity to (kind, subtree, block, application); blocks: subtree to its blocks
        self.targets, self.blocks, self.split_applications, first_entity = {}, {}, set(), 100
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
        granted_entities = sorted({entity for *_, entity in self.grants} - {INSTANCE})
        # half of the granted entities have no target row
        self.listed_by_grants = set(dice.sample(granted_entities, len(granted_entities) // 2))
        # (principal, fact, entity)
        self.precomputed = [
            (dice.choice([*principals, (EVERYONE, NONE)]), dice.randrange(4), dice.choice(entities))
            for _ in range(6)
        ]

    def _add_subtree(self, subtree, first_entity):
        dice, block_count = self.dice, self.dice.randint(1, 3) if subtree != NONE else 1
        applications = [NONE, first_entity, first_entity + 1]
        if block_count > 1 and dice.random() < 0.7:
            self.split_applications.add(first_entity)
        self.blocks[subtree] = range(block_count)
        if subtree != NONE:
            self.targets[subtree] = NAMESPACE, subtree, 0, NONE
        for application in applications[1:]:
            self.targets[application] = APPLICATION, subtree, application % block_count, application
        for entity in range(first_entity + 2, first_entity + 2 + dice.randint(0, 90)):
            application = dice.choice(applications)
            # all entities of an application that is not split are in one block
            hashed = application if application not in (NONE, *self.split_applications) else entity
            self.targets[entity] = DATASET, subtree, hashed % block_count, application

    def rows(self, listed_by_grants):
        """Return the rows that Spark would send, as (row type, columns)."""
        rows = [
            (
                TargetRows,
                {
                    "subtree": subtree,
                    "block": block,
                    "kind": kind,
                    "entity": entity,
                    "application": application,
                },
            )
            for entity, (kind, subtree, block, application) in self.targets.items()
            if entity not in listed_by_grants
        ]
        for grant in self.grants:
            if grant[2] != INSTANCE:
                rows += self._grant_rows(*grant, listed_by_grants)
        rows += [
            (
                PrecomputedFactRows,
                {
                    "subtree": self.targets[entity][1],
                    "block": self.targets[entity][2],
                    "entity": entity,
                    "principal_type": principal_type,
                    "principal": principal,
                    "fact": fact,
                },
            )
            for (principal_type, principal), fact, entity in self.precomputed
            if entity != INSTANCE
        ]
        self.dice.shuffle(rows)
        return rows

    def _grant_rows(self, principal, privilege, entity, listed_by_grants):
        kind, subtree, block, application = self.targets[entity]
        common = {
            "subtree": subtree,
            "principal_type": principal[0],
            "principal": principal[1],
            "privilege": privilege,
        }
        rows = [
            (
                GrantRows,
                common
                | {
                    "block": block,
                    "kind": kind if entity in listed_by_grants else NONE,
                    "entity": entity,
                    "application": application,
                },
            )
        ]
        blocks = self.blocks[subtree] if len(self.blocks[subtree]) > 1 else []
        other_blocks = [other for other in blocks if other != block]
        rows += [(DescendantGrantRows, common | {"block": other, "container": subtree}) for other in blocks]
        if entity == subtree:
            rows += [
                (ContainerGrantRows, common | {"block": other, "scope": IN_NAMESPACE, "container": subtree})
                for other in other_blocks
            ]
        if application in self.split_applications:
            application_block = self.targets[application][2]
            rows.append(
                (DescendantGrantRows, common | {"block": application_block, "container": application})
            )
        if application in self.split_applications and entity == application:
            rows += [
                (
                    ContainerGrantRows,
                    common | {"block": other, "scope": IN_APPLICATION, "container": application},
                )
                for other in other_blocks
            ]
        return rows

    def directory(self, *, only=None):
        """Return the directory of all namespaces, or of those with the ids `only`.

        Names have the order of ids.
        """
        users, namespaces = names_of(self)
        namespaces = (
            namespaces if only is None else {NONE: "", **{subtree: namespaces[subtree] for subtree in only}}
        )
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
            is_restricted=only is not None,
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
            (EVERYONE, NONE),
            *((GROUP, group) for group, members in self.groups.items() if user in members),
        }
        if fact.form == "precomputed":
            return any(
                (principal in principals) and (number, entity) == (known_fact, known_entity)
                for principal, known_fact, known_entity in self.precomputed
            )
        counting = self._counting_entities(fact.form, entity)
        return any(
            principal in principals and fact.privileges >> privilege & 1 and granted in counting
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


def batches(tenant, *, with_names=False):
    rows = tenant.rows(() if with_names else tenant.listed_by_grants)
    assert all(set(columns) == set(column_names(row_type)) for row_type, columns in rows)
    columns_by_name = {name: np.array([columns.get(name, NONE) for _, columns in rows]) for name in COLUMNS}
    columns_by_name["row_type"] = np.array([row_type_number(row_type) for row_type, _ in rows])
    names = [f"e{columns['entity']}" if row_type is TargetRows else None for row_type, columns in rows]
    batch = pa.record_batch({**columns_by_name, "name": pa.array(names, pa.string())})
    return iter([batch.slice(0, 40), batch.slice(40)])


def random_rules(dice):
    facts = tuple(
        (dice.choice(FORMS), sum(1 << privilege for privilege in dice.sample(PRIVILEGES, dice.randint(1, 3))))
        for _ in range(4)
    )
    rules = tuple(
        CompiledRule(dice.choice(sorted(KINDS)), random_requirement(dice), random_requirement(dice))
        for _ in range(6)
    )
    return CompiledRules(
        rules,
        tuple(
            CompiledFact(form, privileges, _kinds(rules, number))
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
    """Return {(user, rule): {entity: the answer after}} of every answer that changes.

    The user 0 holds nothing.
    """
    changes = {}
    for user, (number, rule), entity in product([0, *tenant.users], enumerate(rules.rules), tenant.targets):
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


@pytest.fixture(
    params=[
        (1, 1, 1, 0),
        (4_000, 100, 50, 0),
        (400, 100, 50, 10**6),
        (evaluate.CHUNK_BYTES, layout.UNIT_ENTITIES, merge.MAX_SORTED_COUNTS, merge.MAX_TABLE_CELLS),
    ]
)
def sizes(request, monkeypatch):
    """Set the sizes of chunks of users, of units, of the counts that are sorted at once, and of the table for
    the merge.
    """
    chunk_bytes, unit_entities, sorted_counts, table_cells = request.param
    monkeypatch.setattr(evaluate, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(merge, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(layout, "UNIT_ENTITIES", unit_entities)
    monkeypatch.setattr(merge, "MAX_SORTED_COUNTS", sorted_counts)
    monkeypatch.setattr(merge, "MAX_TABLE_CELLS", table_cells)


def test_counts_equal_the_reference(tenant_rules_changes, sizes):
    tenant, rules, changes = tenant_rules_changes
    sums = {}
    for row in rows_of(count_changes(rules, tenant.broadcast)(batches(tenant))):
        key = 0 if row["is_everyone"] else row["user_id"], row["rule"], row["subtree"]
        sums[key] = sums.get(key, 0) + np.array([row["gained"], row["lost"]])
    for user, rule, subtree in product([0, *tenant.users], range(len(rules.rules)), tenant.blocks):
        expected = reference_count(tenant, changes, user, rule, subtree)
        if user != 0:
            expected -= reference_count(tenant, changes, 0, rule, subtree)
        assert list(sums.get((user, rule, subtree), (0, 0))) == list(expected)


@pytest.mark.parametrize("by_namespace", [False, True])
@pytest.mark.parametrize("part_count", [1, 3])
def test_packed_and_merged_counts_are_sorted_and_complete(
    tenant_rules_changes, sizes, by_namespace, part_count, monkeypatch
):
    monkeypatch.setattr(pack, "MAX_BUFFERED_COUNTS", 20)
    tenant, rules, changes = tenant_rules_changes
    order = tuple(random.Random(3).sample(range(len(rules.rules)), len(rules.rules)))
    columns = (
        ("user", "user"),
        ("rule", tuple(map(str, range(len(rules.rules))))),
        ("namespace", "namespace"),
        ("gained", "gained"),
        ("lost", "lost"),
    )
    packed = list(
        pack_counts(rules, order, part_count, tenant.broadcast, by_namespace=by_namespace)(batches(tenant))
    )
    rows = merge_parts(
        merge_counts(order, part_count, columns, tenant.broadcast, by_namespace=by_namespace),
        packed,
        part_count,
    )
    users, namespaces = names_of(tenant)
    keys = [(row["user"], order[int(row["rule"])], row["namespace"]) for row in rows]
    assert keys == sorted(set(keys))
    assert {
        (row["user"], int(row["rule"]), row["namespace"]): (row["gained"], row["lost"]) for row in rows
    } == {
        (users[rank], rule, namespaces[NONE if subtree is None else subtree]): tuple(counts)
        for user, rank in tenant.users.items()
        for rule in range(len(rules.rules))
        for subtree in (tenant.blocks if by_namespace else [None])
        if any(counts := reference_count(tenant, changes, user, rule, subtree))
    }


@pytest.mark.parametrize("part_count", [1, 2])
def test_holders_are_added_up_by_namespace_and_candidate_rules_add_nothing(
    tenant_rules_changes, sizes, part_count
):
    tenant, rules, changes = tenant_rules_changes
    candidate_rules = frozenset({1, 4})
    users, namespaces = names_of(tenant)
    packed = list(pack_holders(rules, candidate_rules, part_count, tenant.broadcast)(batches(tenant)))
    table = merge_parts(merge_holders(tenant.broadcast), packed, part_count)
    assert all(
        row["missing"] == row["required"] - row["held"] and row["ready"] == (row["missing"] == 0)
        for row in table
    )
    expected = {}
    for user, subtree, rule in product(tenant.users, tenant.blocks, range(len(rules.rules))):
        counts = reference_count(tenant, changes, user, rule, subtree) - reference_count(
            tenant, changes, 0, rule, subtree
        )
        if any(counts):
            key = namespaces[subtree], users[tenant.users[user]], 0 if subtree == NONE else 9
            expected[key] = expected.get(key, 0) + (0 if rule in candidate_rules else counts[0])
    held_by_key = {(row["namespace"], row["user"], row["required"]): row["held"] for row in table}
    assert [(row["namespace"], row["user"]) for row in table] == sorted(key[:2] for key in held_by_key)
    assert {key: held for key, held in held_by_key.items() if key in expected} == expected
    # counts of several units that add up to zero may leave a row with zero
    assert not any(held for key, held in held_by_key.items() if key not in expected)


def found_pairs(tenant, rules, broadcast, *, all_users):
    """Return {(user, rule, entity): the answer after} of the rows of a detail table.

    Each pair must occur once.
    """
    columns = ("user", "entity", "operation", "after")
    rule_texts = tuple(f"{rule:02}" for rule in range(len(rules.rules)))
    pack, merge = pair_table_stages(
        rules, rule_texts, all_users, columns, PairOrder.one_part(has_namespace=False), broadcast
    )
    rows = rows_of(merge(pack(batches(tenant, with_names=True))))
    pairs = {(row["user"], int(row["operation"]), int(row["entity"][1:])): row["after"] for row in rows}
    assert len(pairs) == len(rows)
    assert rows == sorted(rows, key=lambda row: (row["user"], row["entity"], row["operation"]))
    return pairs


@pytest.mark.parametrize("all_users", [True, False])
def test_pairs_equal_the_reference(tenant_rules_changes, sizes, all_users):
    tenant, rules, changes = tenant_rules_changes
    users, _ = names_of(tenant)
    pairs = found_pairs(tenant, rules, tenant.broadcast, all_users=all_users)
    expected = {
        (users[tenant.users[user]], rule, entity): after
        for (user, rule), answers in changes.items()
        if user
        for entity, after in answers.items()
    }
    if all_users:
        assert pairs == expected
    else:
        # A user who holds nothing in a unit has no pairs there. A user who holds something has all pairs.
        assert pairs.items() <= expected.items()
        pairs_from_grants = {
            (user, rule, entity)
            for user, rule, entity in expected
            if entity not in changes.get((0, rule), {})
        }
        assert pairs_from_grants <= pairs.keys()


def test_pairs_of_selected_namespaces_equal_the_reference(tenant_rules_changes, sizes):
    tenant, rules, changes = tenant_rules_changes
    users, _ = names_of(tenant)
    broadcast = LocalBroadcast(tenant.directory(only=[91]).to_dict())
    assert found_pairs(tenant, rules, broadcast, all_users=True) == {
        (users[tenant.users[user]], rule, entity): after
        for (user, rule), answers in changes.items()
        if user
        for entity, after in answers.items()
        if tenant.targets[entity][1] == 91
    }


def test_an_empty_partition_yields_nothing():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("all", ())),), ())
    broadcast = Tenant(random.Random(1)).broadcast
    pair_stages = pair_table_stages(
        rules, ("o",), True, ("user", "entity"), PairOrder.one_part(has_namespace=False), broadcast
    )
    for function in (
        count_changes(rules, broadcast),
        pack_counts(rules, (0,), 2, broadcast, by_namespace=True),
        pack_holders(rules, frozenset(), 2, broadcast),
        *pair_stages,
    ):
        assert list(function(iter([]))) == []


def test_an_unknown_requirement_raises_an_error():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("most", ())),), ())
    tenant = Tenant(random.Random(1))
    with pytest.raises(ValueError, match="`most` is not a requirement"):
        list(count_changes(rules, tenant.broadcast)(batches(tenant)))
