"""The engine gives the answers of going through users and entities one by one."""

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
from analytics.spark.engine.pairs import find_pairs
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
    row_number,
)
from analytics.spark.engine.small_tenant import Local

APPLICATION, DATASET, NAMESPACE = range(3)
KINDS = frozenset({APPLICATION, DATASET, NAMESPACE})
FORMS = ("self", "application", "namespace", "instance", "below", "anywhere", "precomputed")
PRIVILEGES = range(4)
INSTANCE = 1


class Tenant:
    """A random tenant: families of targets, users, groups and grants; and who holds what, found one by one.

    Families, and applications in them, are split into blocks at random, as if they were too large for a unit.
    """

    def __init__(self, dice):
        self.dice = dice
        # by id, the place by name
        self.users = {user: place for place, user in enumerate(dice.sample(range(1, 40), 7))}
        # a member that is not a user is inactive
        self.groups = {group: set(dice.sample([*self.users, 77], dice.randint(0, 5))) for group in range(4)}
        self.targets, self.blocks, self.split, number = {}, {}, set(), 100
        for family in (NONE, 90, 91, 92):
            self._add_family(family, number)
            number = max([number, *self.targets]) + 3
        entities = [*self.targets, INSTANCE]
        principals = [*((USER, user) for user in self.users), (USER, 78), *((GROUP, group) for group in self.groups)]
        self.grants = [(dice.choice(principals), dice.choice(PRIVILEGES), dice.choice(entities)) for _ in range(60)]
        granted = sorted({at for *_, at in self.grants} - {INSTANCE})
        # half of the granted entities have no target row
        self.known_from_grants = set(dice.sample(granted, len(granted) // 2))
        self.precomputed = [(dice.choice([*principals, (EVERYONE, NONE)]), dice.randrange(4), dice.choice(entities))
                            for _ in range(6)]

    def _add_family(self, family, number):
        dice, blocks = self.dice, self.dice.randint(1, 3) if family != NONE else 1
        applications = [NONE, number, number + 1]
        if blocks > 1 and dice.random() < 0.7:
            self.split.add(number)
        self.blocks[family] = range(blocks)
        if family != NONE:
            self.targets[family] = NAMESPACE, family, 0, NONE
        for application in applications[1:]:
            self.targets[application] = APPLICATION, family, application % blocks, application
        for entity in range(number + 2, number + 2 + dice.randint(0, 90)):
            application = dice.choice(applications)
            together = application if application not in (NONE, *self.split) else entity
            self.targets[entity] = DATASET, family, together % blocks, application

    def rows(self, known_from_grants):
        """As Spark sends them: (row type, columns)."""
        rows = [(TargetRows, {"family": family, "block": block, "kind": kind, "entity": entity, "application": application})
                for entity, (kind, family, block, application) in self.targets.items() if entity not in known_from_grants]
        for (principal_type, principal), privilege, entity in self.grants:
            if entity == INSTANCE:
                continue
            kind, family, block, application = self.targets[entity]
            held = {"family": family, "principal_type": principal_type, "principal": principal, "privilege": privilege}
            rows.append((GrantRows, held | {"block": block, "kind": kind if entity in known_from_grants else NONE,
                                            "entity": entity, "application": application}))
            others = [other for other in self.blocks[family] if len(self.blocks[family]) > 1]
            rows += [(DescendantGrantRows, held | {"block": other, "container": family}) for other in others]
            if entity == family:
                rows += [(ContainerGrantRows, held | {"block": other, "scope": IN_NAMESPACE, "container": family})
                         for other in others if other != block]
            if application in self.split:
                rows.append((DescendantGrantRows, held | {"block": self.targets[application][2], "container": application}))
            if application in self.split and entity == application:
                rows += [(ContainerGrantRows, held | {"block": other, "scope": IN_APPLICATION, "container": application})
                         for other in others if other != block]
        rows += [(PrecomputedFactRows, {
            "family": self.targets[entity][1], "block": self.targets[entity][2], "entity": entity,
            "principal_type": principal_type, "principal": principal, "fact": fact})
            for (principal_type, principal), fact, entity in self.precomputed if entity != INSTANCE]
        self.dice.shuffle(rows)
        return rows

    def directory(self, *, only=None):
        """Namespaces have names in the order of their ids; the rank 0 is outside of them. only: a selection of them."""
        users, namespaces = names_of(self)
        namespaces = namespaces if only is None else {NONE: "", **{family: namespaces[family] for family in only}}
        directory = Directory.build(
            pa.table({"id": list(self.users), "name": [users[place] for place in self.users.values()]}),
            pa.table({"user_id": [user for members in self.groups.values() for user in members],
                      "group_id": [group for group, members in self.groups.items() for _ in members]}),
            pa.table({"id": list(namespaces)[1:], "name": list(namespaces.values())[1:],
                      "required": [9] * (len(namespaces) - 1)}),
            is_selection=only is not None)
        on_instance = [(*principal, privilege) for principal, privilege, entity in self.grants if entity == INSTANCE]
        return directory.with_instance_grants(*(np.array(column, np.int64) for column in zip(*on_instance, strict=True))
                                              ) if on_instance else directory

    @property
    def shared(self):
        return Local(self.directory().to_dict())

    def holds(self, user, number, fact, entity):
        mine = {(USER, user), (EVERYONE, NONE), *((GROUP, group) for group, members in self.groups.items() if user in members)}
        kind, family, _, application = self.targets[entity]
        if fact.form == "precomputed":
            return any(principal in mine and known == number and entity == at for principal, known, at in self.precomputed)
        granted = [at for principal, privilege, at in self.grants if principal in mine and fact.privileges >> privilege & 1]
        inside = {"self": {entity}, "application": {application} - {NONE}, "namespace": {family} - {NONE}, "instance": {INSTANCE},
                  # used for containers only
                  "below": {other for other, (_, *around) in self.targets.items()
                            if kind != DATASET and entity in (around[0], around[2])},
                  "anywhere": {other for other, (_, around, *_) in self.targets.items() if around == family}}[fact.form]
        return any(at in inside for at in granted)


def names_of(tenant):
    """Names of users by their places, and of families by their ids."""
    return ({place: f"user {place:02}" for place in tenant.users.values()},
            {family: f"ns{family}" if family != NONE else "" for family in tenant.blocks})


def batches(tenant, *, with_names=False):
    rows = tenant.rows(() if with_names else tenant.known_from_grants)
    assert all(set(columns) == set(column_names(row_type)) for row_type, columns in rows)
    table = {name: np.array([columns.get(name, NONE) for _, columns in rows]) for name in COLUMNS}
    table["row_type"] = np.array([row_number(row_type) for row_type, _ in rows])
    names = [f"e{columns['entity']}" if row_type is TargetRows else None for row_type, columns in rows]
    whole = pa.record_batch({**table, "name": pa.array(names, pa.string())})
    return iter([whole.slice(0, 40), whole.slice(40)])


def random_rules(dice):
    facts = tuple((dice.choice(FORMS), sum(1 << privilege for privilege in dice.sample(PRIVILEGES, dice.randint(1, 3))))
                  for _ in range(4))
    rules = tuple(CompiledRule(dice.choice(sorted(KINDS)), random_requirement(dice), random_requirement(dice)) for _ in range(6))
    return CompiledRules(rules, tuple(CompiledFact(form, privileges, _kinds(rules, number))
                                      for number, (form, privileges) in enumerate(facts)))


def _kinds(rules, number):
    return frozenset(rule.kind for rule in rules if number in fact_numbers(rule.before) | fact_numbers(rule.after))


def random_requirement(dice, depth=2):
    word = dice.choice(("held", "all", "any")) if depth else "held"
    if word == "held":
        return word, tuple(dice.sample(range(4), dice.randint(1, 2)))
    return word, tuple(random_requirement(dice, depth - 1) for _ in range(dice.randint(0, 2)))


def is_met(requirement, holds):
    word, parts = requirement
    if word == "held":
        return any(map(holds, parts))
    return (all if word == "all" else any)(is_met(part, holds) for part in parts)


def reference_changes(tenant, rules):
    """{(user, rule): {entity: the answer after}} of every answer that changes; the user 0 holds nothing."""
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


def count(tenant, changes, user, rule, family):
    after = [after for entity, after in changes.get((user, rule), {}).items() if family in (None, tenant.targets[entity][1])]
    return np.array([sum(after), len(after) - sum(after)])


def rows_of(result):
    return [row for batch in result for row in batch.to_pylist()]


@pytest.fixture(scope="module", params=range(10))
def drawn(request):
    dice = random.Random(request.param)
    tenant, rules = Tenant(dice), random_rules(dice)
    return tenant, rules, reference_changes(tenant, rules)


@pytest.fixture(params=[(1, 1, 1, 0), (4_000, 100, 50, 0), (400, 100, 50, 10**6),
                        (evaluate.CHUNK_BYTES, layout.UNIT_ENTITIES, merge.MERGED_COUNTS, merge.TABLE_CELLS)])
def sizes(request, monkeypatch):
    """How many users are evaluated at once, how large a unit is, how many counts are merged at once, in how large a table."""
    monkeypatch.setattr(evaluate, "CHUNK_BYTES", request.param[0])
    monkeypatch.setattr(merge, "CHUNK_BYTES", request.param[0])
    monkeypatch.setattr(layout, "UNIT_ENTITIES", request.param[1])
    monkeypatch.setattr(merge, "MERGED_COUNTS", request.param[2])
    monkeypatch.setattr(merge, "TABLE_CELLS", request.param[3])


def test_counts_are_those_of_one_by_one(drawn, sizes):
    tenant, rules, changes = drawn
    sums = {}
    for row in rows_of(count_changes(rules, tenant.shared)(batches(tenant))):
        key = 0 if row["is_everyone"] else row["user_id"], row["rule"], row["family"]
        sums[key] = sums.get(key, 0) + np.array([row["gained"], row["lost"]])
    for user, rule, family in product([0, *tenant.users], range(len(rules.rules)), tenant.blocks):
        expected = count(tenant, changes, user, rule, family) - (user != 0) * count(tenant, changes, 0, rule, family)
        assert list(sums.get((user, rule, family), (0, 0))) == list(expected)


@pytest.mark.parametrize("by_namespace", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_packed_and_merged_counts_are_sorted_and_complete(drawn, sizes, by_namespace, parts, monkeypatch):
    monkeypatch.setattr(pack, "KEPT_COUNTS", 20)
    tenant, rules, changes = drawn
    order = tuple(random.Random(3).sample(range(len(rules.rules)), len(rules.rules)))
    columns = (("user", "user"), ("rule", tuple(map(str, range(len(rules.rules))))), ("namespace", "namespace"),
               ("gained", "gained"), ("lost", "lost"))
    packed = list(pack_counts(rules, order, parts, tenant.shared, by_namespace=by_namespace)(batches(tenant)))
    merged = []
    for part in range(parts):
        mine = [batch for batch in packed if batch.column("part")[0].as_py() == part]
        merged += rows_of(merge_counts(order, parts, columns, tenant.shared, by_namespace=by_namespace)(iter(mine)))
    users, namespaces = names_of(tenant)
    keys = [(row["user"], order[int(row["rule"])], row["namespace"]) for row in merged]
    assert keys == sorted(set(keys))
    assert {(row["user"], int(row["rule"]), row["namespace"]): (row["gained"], row["lost"]) for row in merged} == {
        (users[place], rule, namespaces[NONE if family is None else family]): tuple(counts)
        for user, place in tenant.users.items() for rule in range(len(rules.rules))
        for family in (tenant.blocks if by_namespace else [None])
        if any(counts := count(tenant, changes, user, rule, family))}


@pytest.mark.parametrize("parts", [1, 2])
def test_holders_are_added_up_by_namespace_and_marked_holders_hold_nothing(drawn, sizes, parts):
    tenant, rules, changes = drawn
    marking = frozenset({1, 4})
    users, namespaces = names_of(tenant)
    packed = list(pack_holders(rules, marking, parts, tenant.shared)(batches(tenant)))
    table = []
    for part in range(parts):
        mine = [batch for batch in packed if batch.column("part")[0].as_py() == part]
        table += rows_of(merge_holders(tenant.shared)(iter(mine)))
    assert all(row["missing"] == row["required"] - row["held"] and row["ready"] == (row["missing"] == 0) for row in table)
    expected = {}
    for user, family, rule in product(tenant.users, tenant.blocks, range(len(rules.rules))):
        counts = count(tenant, changes, user, rule, family) - count(tenant, changes, 0, rule, family)
        if any(counts):
            key = namespaces[family], users[tenant.users[user]], 0 if family == NONE else 9
            expected[key] = expected.get(key, 0) + (0 if rule in marking else counts[0])
    # counts that cancel each other out may leave a row that says so
    found = {(row["namespace"], row["user"], row["required"]): row["held"] for row in table}
    assert [(row["namespace"], row["user"]) for row in table] == sorted((namespace, user) for namespace, user, _ in found)
    assert {key: held for key, held in found.items() if key in expected} == expected
    assert not any(held for key, held in found.items() if key not in expected)


@pytest.mark.parametrize("each_user", [True, False])
def test_pairs_are_those_of_one_by_one(drawn, sizes, each_user):
    tenant, rules, changes = drawn
    users, _ = names_of(tenant)
    operations = tuple(map(str, range(len(rules.rules))))
    found = find_pairs(rules, operations, tenant.shared, each_user=each_user)(batches(tenant, with_names=True))
    pairs = {(row["user"], int(row["operation"]), int(row["entity"][1:])): row["after"] for row in rows_of(found)}
    expected = {(users[tenant.users[user]], rule, entity): after
                for (user, rule), changed in changes.items() if user for entity, after in changed.items()}
    if each_user:
        assert pairs == expected
    else:
        # A user who holds nothing in a unit has no pairs there, and a user who holds something has all.
        assert pairs.items() <= expected.items()
        of_grants = {(user, rule, entity) for user, rule, entity in expected if entity not in changes.get((0, rule), {})}
        assert of_grants <= pairs.keys()


def test_pairs_of_some_namespaces_are_those_of_one_by_one(drawn, sizes):
    tenant, rules, changes = drawn
    users, _ = names_of(tenant)
    shared = Local(tenant.directory(only=[91]).to_dict())
    found = find_pairs(rules, ("o",) * len(rules.rules), shared, each_user=True)(batches(tenant, with_names=True))
    assert sorted((row["user"], row["entity"]) for row in rows_of(found)) == sorted(
        (users[tenant.users[user]], f"e{entity}") for (user, _), changed in changes.items() if user
        for entity in changed if tenant.targets[entity][1] == 91)


def test_an_empty_partition_changes_nothing():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("all", ())),), ())
    shared = Tenant(random.Random(1)).shared
    for function in (count_changes(rules, shared), find_pairs(rules, ("o",), shared, each_user=True),
                     pack_counts(rules, (0,), 2, shared, by_namespace=True), pack_holders(rules, frozenset(), 2, shared)):
        assert list(function(iter([]))) == []


def test_an_unknown_requirement_is_refused():
    rules = CompiledRules((CompiledRule(DATASET, ("any", ()), ("most", ())),), ())
    tenant = Tenant(random.Random(1))
    with pytest.raises(ValueError, match="`most` is not a requirement"):
        list(count_changes(rules, tenant.shared)(batches(tenant)))
