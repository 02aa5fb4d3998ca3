"""Test that the evaluated effect of changes is the difference between the decisions before and after them."""

import itertools
import random

import pytest
from django.contrib.auth.models import Group

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.vocabulary import ANY, KINDS, MIN_ADMINISTRATORS, Privilege
from grants.change_set import Activate, ActivateGeneration, Deactivate, Grant, Join, Leave, Revoke
from grants.effects.changes import StateChange
from grants.effects.effect import effect_of
from grants.effects.evaluate import evaluate_changes
from grants.effects.masks import bits_of
from grants.errors import EffectTooLarge
from grants.evaluation.facts import gather_facts
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question
from grants.querysets import effective_memberships
from grants.validity import in_force
from tests.support.cast import create_sample_tenant
from tests.support.random_tenants import random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db


def decisions(generation):
    """Return all permitted (user, address, operation), by the rule engine."""
    users = list(User.objects.values_list("username", flat=True))
    live = Entity.objects.filter(state=State.LIVE)
    questions = [
        Question("user", user, operation, entity.address, generation)
        for entity in live
        for operation in KINDS[entity.kind].operations
        for user in users
    ]
    return {
        (question.subject, question.target, question.operation)
        for question, facts in zip(questions, gather_facts(questions), strict=True)
        if is_permitted(question, facts)
    }


def administrators():
    """Return the active administrators of each live entity."""
    admins = {entity.address: set() for entity in Entity.objects.filter(state=State.LIVE)}
    admin = {
        "permission_id": permission_ids()[Privilege.ADMIN],
        "content_object__state": State.LIVE,
        **in_force(),
    }
    for grant in UserGrant.objects.filter(**admin).effective().select_related("content_object"):
        admins[grant.content_object.address].add(grant.user_id)
    for grant in GroupGrant.objects.filter(**admin).select_related("content_object"):
        admins[grant.content_object.address].update(
            effective_memberships().filter(group=grant.group_id).values_list("user_id", flat=True)
        )
    return admins


def changed_decisions(evaluation):
    """Return the gained and the lost (user, address, operation) of an evaluation."""
    gained, lost = set(), set()
    for entity in evaluation.entities:
        for effect in entity.operations:
            for operation in effect.operations:
                gained |= {
                    (evaluation.affected.names[bit], entity.address, operation)
                    for bit in bits_of(effect.gained)
                }
                lost |= {
                    (evaluation.affected.names[bit], entity.address, operation)
                    for bit in bits_of(effect.lost)
                }
    return gained, lost


def random_changes(dice, tenant, number):
    """Return changes of all types. number: decides which types occur."""
    principals = [f"user:{name}" for name in tenant.users] + [f"group:{name}" for name in tenant.groups]
    addresses = [
        *tenant.entities,
        parse_address("dataset:ns0.new"),
        parse_address("program:ns1.newapp.flow.x"),
    ]
    changes = {}
    stored = sorted(tenant.grants, key=str)
    if number % 4 != 1:
        for _ in range(dice.choice([1, 3, 20])):
            grant = (dice.choice(principals), dice.choice(addresses), dice.choice(ANY))
            if dice.random() < 0.5 and stored:
                grant = dice.choice(stored)
            changes[grant] = (Grant if dice.random() < 0.5 else Revoke)(*grant)
    if number % 4 in (1, 3):
        for _ in range(dice.randint(1, 3)):
            pair = dice.choice(list(tenant.users)), dice.choice(list(tenant.groups))
            changes[pair] = (Join if dice.random() < 0.6 else Leave)(*pair)
        if dice.random() < 0.6:
            user = dice.choice(list(tenant.users))
            changes[user] = (Activate if dice.random() < 0.5 else Deactivate)(user)
    if number % 4 == 2:
        for _ in range(dice.randint(1, 3)):
            address = dice.choice(list(tenant.entities))
            changes[address] = StateChange(address, dice.choice(list(State)))
    return list(changes.values())


def apply(changes):
    for change in changes:
        match change:
            case Grant(principal, address, privilege) | Revoke(principal, address, privilege):
                type_, _, name = principal.partition(":")
                model, principal_row = (
                    (UserGrant, User.objects.get(username=name))
                    if type_ == "user"
                    else (GroupGrant, Group.objects.get(name=name))
                )
                entity = row_at(address)
                key = {
                    type_: principal_row,
                    "content_object": entity,
                    "permission_id": permission_ids()[privilege],
                }
                if isinstance(change, Grant):
                    model.objects.get_or_create(**key, defaults={"granted_at": "2026-01-01T00:00Z"})
                    if type_ == "user":
                        User.objects.filter(username=name).update(is_principal=True)
                else:
                    model.objects.filter(**key).delete()
            case Join(user, group) | Leave(user, group):
                row, groups = User.objects.get(username=user), Group.objects.get(name=group)
                if isinstance(change, Join):
                    if not row.groups.filter(pk=groups.pk).exists():
                        row.groups.add(groups)
                        User.objects.filter(username=user).update(is_principal=True)
                else:
                    row.groups.remove(groups)
            case Activate(user) | Deactivate(user):
                User.objects.filter(username=user).update(is_active=isinstance(change, Activate))
            case StateChange(address, state):
                Entity.objects.filter(kind=address.kind, key=address.key).update(state=state)


def row_at(address: Address):
    row = Entity.objects.filter(kind=address.kind, key=address.key).first()
    if row is None:

        def container(of):
            return None if of is None or of == address else row_at(of)

        row = Entity.objects.create(
            kind=address.kind,
            key=address.key,
            state=State.PLANNED,
            parent=container(address.parent),
            namespace=container(address.namespace),
            application=container(address.application),
        )
        if address.kind in ("namespace", "application"):
            setattr(row, address.kind, row)
            row.save()
    return row


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
    tenant = random_tenant(seed)
    store_tenant(tenant)
    changes = random_changes(random.Random(seed), tenant, seed)
    before, admins_before = {name: decisions(name) for name in GENERATIONS}, administrators()
    strandings = effect_of(changes, GENERATIONS["final"]).strandings
    evaluations = {name: evaluate_changes(changes, generation) for name, generation in GENERATIONS.items()}
    apply(changes)
    for name, evaluation in evaluations.items():
        after = decisions(name)
        gained, lost = changed_decisions(evaluation)
        assert gained == after - before[name], name
        assert lost == before[name] - after, name
    stranded = {
        address: len(admins)
        for address, admins in administrators().items()
        if len(admins) < min(MIN_ADMINISTRATORS, len(admins_before.get(address, range(MIN_ADMINISTRATORS))))
    }
    assert dict(strandings.entities) == stranded and strandings.one_admin_count == sum(stranded.values())


@pytest.mark.parametrize("seed", seeds(range(2)))
def test_the_effect_of_another_generation_is_the_difference_of_all_decisions_with_a_rule_in_both(seed):
    store_tenant(random_tenant(seed))
    of_generations = {name: decisions(name) for name in GENERATIONS}
    for before, after in itertools.permutations(GENERATIONS.values(), 2):
        evaluation = evaluate_changes([ActivateGeneration(after)], before)
        gained, lost = changed_decisions(evaluation)
        common = {
            (kind, name)
            for kind in KINDS
            for name in KINDS[kind].operations
            if all(generation.policy(kind, name).has_rule for generation in (before, after))
        }
        expected = [
            {row for row in rows if (row[1].kind, row[2]) in common}
            for rows in (
                of_generations[after.name] - of_generations[before.name],
                of_generations[before.name] - of_generations[after.name],
            )
        ]
        assert [gained, lost] == expected, (before.name, after.name)
