"""Rows of bits for many users at once say what going through users and entities one by one says."""

import random
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark import packing, units, verdicts
from analytics.spark.counting import changes_counted
from analytics.spark.packing import changes_merged, changes_packed, holders_merged, holders_packed
from analytics.spark.units import (
    ANYWHERE,
    COLUMNS,
    EVERYBODY,
    FACT,
    GRANT,
    INSTANCE_WIDE,
    MEMBER,
    NAMESPACE_WIDE,
    NOTHING,
    TARGET,
    USER,
    FactForm,
)
from analytics.spark.verdicts import Law, changes_spread

APPLICATION, DATASET, NAMESPACE = range(3)
KINDS = frozenset({APPLICATION, DATASET, NAMESPACE})
FORMS = ("self", "application", "namespace", "instance", "below", "anywhere", "told")
PRIVILEGES = range(4)


class Tenant:
    """Families of targets, users, groups and grants, drawn by lot; and by hand who holds what."""

    def __init__(self, dice):
        self.dice = dice
        self.users = {user: place for place, user in enumerate(dice.sample(range(1, 40), 7))}
        # a member that is no user is inactive
        self.groups = {group: set(dice.sample([*self.users, 77], dice.randint(0, 5))) for group in range(4)}
        self.targets, self.blocks, number = {}, {}, 100
        for family in (NOTHING, 90, 91, 92):
            blocks = dice.randint(1, 2) if family != NOTHING else 1
            applications = [NOTHING, number, number + 1]
            for kind, application in [(NAMESPACE, NOTHING), (APPLICATION, number), (APPLICATION, number + 1),
                                      *((DATASET, dice.choice(applications)) for _ in range(dice.randint(0, 90)))]:
                entity = family if kind == NAMESPACE else application if kind == APPLICATION else number + 2
                number += kind == DATASET
                if kind == NAMESPACE and family == NOTHING:
                    continue
                block = 0 if kind == NAMESPACE else application % blocks if application != NOTHING else entity % blocks
                self.targets[entity] = kind, family, block, application
            self.blocks[family] = range(blocks)
            number += 3
        entities = [*self.targets, 1]
        principals = [*self.users, 78, *(EVERYBODY - 1 - group for group in self.groups)]
        self.grants = [(dice.choice(principals), dice.choice(PRIVILEGES), dice.choice(entities)) for _ in range(60)]
        granted = sorted({at for *_, at in self.grants} - {1})
        # half of what is granted is told of by its grants alone
        self.told_by_grants = set(dice.sample(granted, len(granted) // 2))
        self.told = [(dice.choice([*principals, EVERYBODY]), dice.randrange(4), dice.choice(entities)) for _ in range(6)]

    def rows(self, told_by_grants):
        """As Spark sends them."""
        rows = [(TARGET, family, block, max(family, 0), kind, entity, application)
                for entity, (kind, family, block, application) in self.targets.items() if entity not in told_by_grants]
        for principal, privilege, entity in self.grants:
            if entity == 1:
                rows += [(INSTANCE_WIDE, family, block, principal, privilege, NOTHING, NOTHING)
                         for family, blocks in self.blocks.items() for block in blocks]
                continue
            _, family, block, application = self.targets[entity]
            rows.append((GRANT, family, block, principal, self.what(privilege, entity, told_by_grants), entity, application))
            others = [other for other in self.blocks[family] if len(self.blocks[family]) > 1]
            rows += [(ANYWHERE, family, other, principal, privilege, NOTHING, NOTHING) for other in others]
            if entity == family:
                rows += [(NAMESPACE_WIDE, family, other, principal, privilege, NOTHING, NOTHING) for other in others]
        rows += [(FACT, *self.targets[entity][1:3], principal, fact, entity, NOTHING)
                 for principal, fact, entity in self.told if entity != 1]
        rows += [(USER, NOTHING, 0, NOTHING, place, user, NOTHING) for user, place in self.users.items()]
        rows += [(MEMBER, NOTHING, 0, EVERYBODY - 1 - group, 0, user, NOTHING)
                 for group, members in self.groups.items() for user in members]
        self.dice.shuffle(rows)
        return rows

    def what(self, privilege, entity, told_by_grants):
        kind, family, *_ = self.targets[entity]
        told = kind + 1 if entity in told_by_grants else 0
        return privilege + (told << units.PRIVILEGE_BITS) + (max(family, 0) << units.PRIVILEGE_BITS + units.KIND_BITS)

    def holds(self, user, number, fact, entity):
        mine = {user, EVERYBODY, *(EVERYBODY - 1 - group for group, members in self.groups.items() if user in members)}
        kind, family, _, application = self.targets[entity]
        if fact.form == "told":
            return any(principal in mine and told == number and entity == at for principal, told, at in self.told)
        granted = [at for principal, privilege, at in self.grants if principal in mine and fact.privileges >> privilege & 1]
        inside = {"self": {entity}, "application": {application} - {NOTHING}, "namespace": {family} - {NOTHING}, "instance": {1},
                  # asked of containers only
                  "below": {other for other, (_, *around) in self.targets.items()
                            if kind != DATASET and entity in (around[0], around[2])},
                  "anywhere": {other for other, (_, around, *_) in self.targets.items() if around == family}}[fact.form]
        return any(at in inside for at in granted)


def batches(tenant, *, with_names=False):
    rows = tenant.rows(() if with_names else tenant.told_by_grants)
    columns = {name: np.array(column, np.int64) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    names = [f"e{entity}" if tag == TARGET else None for tag, entity in zip(columns["tag"], columns["entity"], strict=True)]
    whole = pa.record_batch({**columns, "name": pa.array(names, pa.string())})
    return iter([whole.slice(0, 40), whole.slice(40)])


def law_of(dice):
    facts = tuple((dice.choice(FORMS), sum(1 << privilege for privilege in dice.sample(PRIVILEGES, dice.randint(1, 3))))
                  for _ in range(4))
    rules = tuple((dice.choice(sorted(KINDS)), requirement(dice), requirement(dice)) for _ in range(6))
    return Law(rules, tuple(FactForm(form, privileges, _kinds(rules, number)) for number, (form, privileges) in enumerate(facts)))


def _kinds(rules, number):
    return frozenset(kind for kind, *sides in rules if any(number in asked(side) for side in sides))


def asked(side):
    word, parts = side
    return set(parts) if word == "held" else set().union(*map(asked, parts))


def requirement(dice, depth=2):
    word = dice.choice(("held", "all", "any")) if depth else "held"
    if word == "held":
        return word, tuple(dice.sample(range(4), dice.randint(1, 2)))
    return word, tuple(requirement(dice, depth - 1) for _ in range(dice.randint(0, 2)))


def met(side, holds):
    word, parts = side
    if word == "held":
        return any(map(holds, parts))
    return (all if word == "all" else any)(met(part, holds) for part in parts)


def changed(tenant, law):
    """{(user, rule): {entity: whether it is permitted after}}, of every answer that turns; the user 0 is in nothing."""
    found = {}
    for user, (rule, (kind, before, after)), entity in product([0, *tenant.users], enumerate(law.rules), tenant.targets):
        if tenant.targets[entity][0] != kind:
            continue

        def holds(number, user=user, entity=entity):
            return tenant.holds(user, number, law.facts[number], entity)

        was, becomes = met(before, holds), met(after, holds)
        if was != becomes:
            found.setdefault((user, rule), {})[entity] = becomes
    return found


def counts(tenant, found, user, rule, family):
    turned = [after for entity, after in found.get((user, rule), {}).items() if family in (None, tenant.targets[entity][1])]
    return np.array([sum(turned), len(turned) - sum(turned)])


def of_batches(result):
    return [row for batch in result for row in batch.to_pylist()]


@pytest.fixture(scope="module", params=range(6))
def drawn(request):
    dice = random.Random(request.param)
    tenant, law = Tenant(dice), law_of(dice)
    return tenant, law, changed(tenant, law)


@pytest.fixture(params=[(1, 1), (4_000, 100), (units.ROWS_BYTES, units.UNIT_ENTITIES)])
def sizes(request, monkeypatch):
    """Of the users judged at once, and of a unit."""
    monkeypatch.setattr(verdicts, "ROWS_BYTES", request.param[0])
    monkeypatch.setattr(units, "UNIT_ENTITIES", request.param[1])


def test_counts_are_those_of_one_by_one(drawn, sizes):
    tenant, law, found = drawn
    summed = {}
    for row in of_batches(changes_counted(law)(batches(tenant))):
        key = 0 if row["is_everybody"] else row["user_id"], row["rule"], row["family"]
        summed[key] = summed.get(key, 0) + np.array([row["gained"], row["lost"]])
    for user, rule, family in product([0, *tenant.users], range(len(law.rules)), tenant.blocks):
        differs = counts(tenant, found, user, rule, family) - (user != 0) * counts(tenant, found, 0, rule, family)
        assert list(summed.get((user, rule, family), (0, 0))) == list(differs)


@pytest.mark.parametrize("families", [0, 200])
@pytest.mark.parametrize("parts", [1, 3])
def test_what_is_packed_and_merged_is_in_order_and_counts_everybody(drawn, sizes, families, parts, monkeypatch):
    monkeypatch.setattr(packing, "_FLUSHED_ROWS", 20)
    tenant, law, found = drawn
    order = tuple(random.Random(3).sample(range(len(law.rules)), len(law.rules)))
    columns = (("user", "user"), ("rule", tuple(map(str, range(len(law.rules))))), ("namespace", "namespace"),
               ("gained", "gained"), ("lost", "lost"))
    packed = list(changes_packed(law, order, parts, families=families)(batches(tenant)))
    merged = []
    for part in range(parts):
        mine = [batch for batch in packed if batch.column("part")[0].as_py() == part]
        merged += of_batches(changes_merged(order, parts, columns, families=families)(iter([*mine, names(tenant, part)])))
    user_names, namespace_names = numbered(tenant)
    spots = [(row["user"], order[int(row["rule"])], row["namespace"]) for row in merged]
    assert spots == sorted(set(spots))
    assert {(row["user"], int(row["rule"]), row["namespace"]): (row["gained"], row["lost"]) for row in merged} == {
        (user_names[place], rule, namespace_names[max(family or 0, 0)]): tuple(turned)
        for user, place in tenant.users.items() for rule in range(len(law.rules))
        for family in (tenant.blocks if families else [None])
        if any(turned := counts(tenant, found, user, rule, family))}


def numbered(tenant):
    """Names of users by their places, and of namespaces by their ranks."""
    return ({place: f"user {place:02}" for place in tenant.users.values()},
            {0: "", **{family: f"ns{family}" for family in tenant.blocks if family > 0}})


def names(tenant, part):
    users, namespaces = numbered(tenant)
    rows = [(part, what, number, name) for what, named in ((packing.USER_NAME, users), (packing.NAMESPACE_NAME, namespaces))
            for number, name in named.items()]
    return pa.record_batch(dict(zip(("part", "what", "number", "name"), map(list, zip(*rows, strict=True)), strict=True)))


def test_holders_are_summed_by_namespace_and_those_only_marked_hold_nothing(drawn, sizes, monkeypatch):
    monkeypatch.setattr(packing, "_FLUSHED_ROWS", 20)
    tenant, law, found = drawn
    marking = frozenset({1, 4})
    user_names, _ = numbered(tenant)
    ranks = {max(family, 0): f"ns{max(family, 0):02}" for family in tenant.blocks}
    packed = pa.Table.from_pylist([
        *({**row, "namespace": ranks[row["rank"]], "required": 9, "user": None, "number": None}
          for row in of_batches(holders_packed(law, marking)(batches(tenant)))),
        *({"user": name, "number": place} for place, name in user_names.items())],
        pa.schema([("rank", pa.int64()), ("place", pa.binary()), ("held", pa.binary()), ("namespace", pa.string()),
                   ("required", pa.int64()), ("user", pa.string()), ("number", pa.int64())]))
    table = of_batches(holders_merged(iter(packed.to_batches())))
    assert all(row["missing"] == row["required"] - row["held"] and row["ready"] == (row["missing"] == 0) for row in table)
    rows = [(row["namespace"], row["user"], row["required"], row["held"]) for row in table]
    expected = {}
    for user, family, rule in product(tenant.users, tenant.blocks, range(len(law.rules))):
        turned = counts(tenant, found, user, rule, family) - counts(tenant, found, 0, rule, family)
        if any(turned):
            key = ranks[max(family, 0)], user_names[tenant.users[user]], 9
            expected[key] = expected.get(key, 0) + (0 if rule in marking else turned[0])
    assert rows == sorted((*key, held) for key, held in expected.items())


@pytest.mark.parametrize("each_user", [True, False])
def test_pairs_are_those_of_one_by_one(drawn, sizes, each_user):
    tenant, law, found = drawn
    pairs = {(row["user_id"], row["rule"], int(row["entity"][1:])): row["after"]
             for row in of_batches(changes_spread(law, each_user=each_user)(batches(tenant, with_names=True)))}
    expected = {(user, rule, entity): after for (user, rule), turned in found.items() if user for entity, after in turned.items()}
    if each_user:
        assert pairs == expected
    else:
        # who holds nothing in a unit has no pairs there, and nobody has others
        assert pairs.items() <= expected.items()
        assert {(user, rule, entity) for user, rule, entity in expected if entity not in found.get((0, rule), {})} <= pairs.keys()


def test_a_part_of_nothing_changes_nothing():
    law = Law(((DATASET, ("any", ()), ("all", ())),), ())
    for function in (changes_counted(law), changes_spread(law, each_user=True), changes_packed(law, (0,), 2, families=9)):
        assert list(function(iter([]))) == []


def test_a_word_that_is_no_requirement_is_refused():
    law = Law(((DATASET, ("any", ()), ("most", ())),), ())
    with pytest.raises(ValueError, match="`most` is no requirement"):
        list(changes_counted(law)(batches(Tenant(random.Random(1)))))
