"""Test that the evaluated effect of changes is the difference between the decisions before and after them."""

import itertools
import random

import pytest

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ANY, KINDS, MIN_ADMINISTRATORS
from grants.change_set import (
    Activate,
    ActivateGeneration,
    Deactivate,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    Revoke,
)
from grants.effects.changes import StateChange
from grants.effects.effect import effect_of
from grants.effects.evaluate import evaluate_changes
from grants.effects.masks import bits_of
from grants.errors import EffectTooLarge
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import group_text
from tests.support.cast import create_sample_tenant
from tests.support.random_tenants import (
    administrator_counts,
    changed_tenant,
    permitted_decisions,
    random_patterns,
    random_tenant,
    seeds,
    store_tenant,
)

pytestmark = pytest.mark.django_db


def changed_decisions(evaluation):
    """Return the gained and the lost (user, address, operation) of an evaluation."""
    return tuple(
        {
            (evaluation.affected.names[bit], entity.address, operation)
            for entity in evaluation.entities
            for effect in entity.operations
            for operation in effect.operations
            for bit in bits_of(getattr(effect, direction))
        }
        for direction in ("gained", "lost")
    )


def random_changes(dice, tenant, number):
    """Return changes of all types. number: decides which types occur."""
    principals = [f"user:{name}" for name in tenant.users] + [group_text(name) for name in tenant.groups]
    addresses = [
        *tenant.entities,
        parse_address("dataset:ns0.new"),
        parse_address("program:ns1.newapp.flow.x"),
    ]
    changes = {}
    stored = sorted(tenant.grants, key=str) + sorted(tenant.patterns, key=str) * 3
    new = sorted(random_patterns(tenant, dice), key=str) if tenant.patterns else []
    if number % 4 != 1:
        for _ in range(dice.choice([1, 3, 20])):
            grant = (dice.choice(principals), dice.choice(addresses), dice.choice(ANY))
            if dice.random() < 0.5 and stored:
                grant = dice.choice(stored)
            if new and dice.random() < 0.2:
                grant = dice.choice(new)
            changes[grant] = (Grant if dice.random() < 0.5 else Revoke)(*grant)
    if number % 4 in (1, 3):
        for _ in range(dice.randint(1, 3)):
            pair = dice.choice(list(tenant.users)), dice.choice(list(tenant.groups))
            changes[pair] = (Join if dice.random() < 0.6 else Leave)(*pair)
        for role in tenant.role_groups:
            group = dice.choice([name for name in tenant.groups if name not in tenant.role_groups])
            changes[group, role] = (Include if dice.random() < 0.6 else Exclude)(group, role)
        if dice.random() < 0.6:
            user = dice.choice(list(tenant.users))
            changes[user] = (Activate if dice.random() < 0.5 else Deactivate)(user)
    if number % 4 == 2:
        for _ in range(dice.randint(1, 3)):
            address = dice.choice(list(tenant.entities))
            changes[address] = StateChange(address, dice.choice(list(State)))
    return list(changes.values())


@pytest.mark.parametrize(
    ("setting", "counted"),
    [
        ("EFFECT_MAX_ENTITIES", "entities"),
        ("EFFECT_MAX_GRANTS", "grants"),
        ("EFFECT_MAX_PAIRS", "pairs of users and entities"),
    ],
)
def test_above_the_limits_the_effect_is_an_error(settings, setting, counted):
    setattr(settings, setting, 1)
    create_sample_tenant()
    changes = [Revoke("user:ned", parse_address("namespace:sales"), privilege) for privilege in ANY]
    with pytest.raises(EffectTooLarge, match=f"more than 1 {counted}"):
        evaluate_changes(changes, GENERATIONS["existing"])


@pytest.mark.parametrize("seed", seeds(range(12)))
def test_the_effect_is_the_difference_of_all_decisions(seed):
    tenant = random_tenant(seed, has_patterns=True, has_roles=True)
    store_tenant(tenant)
    changes = random_changes(random.Random(seed), tenant, seed)
    strandings = effect_of(changes, GENERATIONS["final"]).strandings
    evaluations = {name: evaluate_changes(changes, generation) for name, generation in GENERATIONS.items()}
    changed = changed_tenant(tenant, changes)
    for name, evaluation in evaluations.items():
        before, after = permitted_decisions(tenant, name), permitted_decisions(changed, name)
        assert changed_decisions(evaluation) == (after - before, before - after), name
    admins_before = administrator_counts(tenant)
    stranded = {
        address: count
        for address, count in administrator_counts(changed).items()
        if count < min(MIN_ADMINISTRATORS, admins_before.get(address, MIN_ADMINISTRATORS))
    }
    counts = {row.address: row.admin_count for row in strandings.entities}
    assert counts == stranded and strandings.one_admin_count == sum(stranded.values())


@pytest.mark.parametrize("seed", seeds(range(2)))
def test_the_effect_of_another_generation_is_the_difference_of_all_decisions_with_a_rule_in_both(seed):
    tenant = random_tenant(seed, has_patterns=True, has_roles=True)
    store_tenant(tenant)
    of_generations = {name: permitted_decisions(tenant, name) for name in GENERATIONS}
    for before, after in itertools.permutations(GENERATIONS.values(), 2):
        evaluation = evaluate_changes([ActivateGeneration(after)], before)
        common = {
            (kind, name)
            for kind in KINDS
            for name in KINDS[kind].operations
            if all(generation.policy(kind, name).has_rule for generation in (before, after))
        }
        expected = tuple(
            {row for row in rows if (row[1].kind, row[2]) in common}
            for rows in (
                of_generations[after.name] - of_generations[before.name],
                of_generations[before.name] - of_generations[after.name],
            )
        )
        assert changed_decisions(evaluation) == expected, (before.name, after.name)


@pytest.mark.parametrize("seed", seeds(range(12)))
def test_the_effect_of_another_generation_with_other_changes_is_the_difference_of_all_decisions(seed):
    tenant = random_tenant(seed, has_patterns=True, has_roles=True)
    store_tenant(tenant)
    dice = random.Random(seed)
    changes = random_changes(dice, tenant, seed)
    changed = changed_tenant(tenant, changes)
    for before, after in dice.sample(list(itertools.permutations(GENERATIONS.values(), 2)), 4):
        evaluation = evaluate_changes([ActivateGeneration(after), *changes], before)
        rows_before, rows_after = (
            {row for row in rows if all(one.policy(row[1].kind, row[2]).has_rule for one in (before, after))}
            for rows in (permitted_decisions(tenant, before.name), permitted_decisions(changed, after.name))
        )
        expected = rows_after - rows_before, rows_before - rows_after
        assert changed_decisions(evaluation) == expected, (before.name, after.name)
