"""No change of any type adds a violation that its check does not find, on random tenants."""

import random
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from entities.address import parse_address
from entities.errors import Refusal
from entities.vocabulary import Privilege
from grants.change_set import (
    Activate,
    AddGroup,
    Deactivate,
    Delete,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
)
from grants.changes.services import write_changes
from grants.errors import GrantError
from grants.guardrails import check
from grants.guardrails.evaluation import EVERYTHING, too_few, unexpected_decisions
from grants.journal import lock_journal
from grants.policies.principals import group_text
from grants.validity import Validity
from tests.grants.guardrails.test_evaluation import random_rules
from tests.grants.guardrails.test_granted import all_lasting
from tests.support.authors import COMMAND
from tests.support.guardrails import add_guardrail
from tests.support.random_tenants import Tenant, random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db
CHANGES = 30


def all_violations():
    return all_lasting() | {row.key for row in (*too_few(EVERYTHING), *unexpected_decisions(EVERYTHING))}


def random_change(tenant: Tenant, dice: random.Random):
    users, groups = sorted(tenant.users), [*sorted(tenant.groups), "new group"]
    places = [*sorted(map(str, tenant.entities)), "dataset:new.one"]
    user, group = dice.choice(users), dice.choice(groups)
    principal = dice.choice([f"user:{user}", group_text(group)])
    role = dice.choice([name for name in groups if name.startswith("role:")] or ["role:role"])
    address, privilege = parse_address(dice.choice(places)), dice.choice([*Privilege])
    now = timezone.now()
    validity = dice.choice(
        [Validity()] * 3
        + [
            Validity(now + timedelta(days=1), None),
            Validity(now + timedelta(days=1), now + timedelta(days=2)),
            Validity(None, now + timedelta(hours=1)),
        ]
    )
    creator = dice.choice(["", f"user:{user}"])
    return dice.choice(
        [
            Grant(principal, address, privilege, validity),
            Revoke(principal, address, privilege),
            Join(user, group, validity),
            Leave(user, group),
            Include(group, role, validity),
            Exclude(group, role),
            Activate(user),
            Deactivate(user),
            Delete(address),
            Recreate(address, creator),
            Register(address, creator),
            RemovePrincipal(principal, revokes_grants=True),
        ]
    )


@pytest.mark.parametrize("seed", seeds(range(8)))
def test_the_check_finds_each_violation_that_a_change_adds(seed, monkeypatch):
    monkeypatch.setattr(check, "MAX_LISTED", 10_000)
    dice = random.Random(seed)
    tenant = random_tenant(seed, has_roles=True)
    store_tenant(tenant)
    for name, members in random_rules(tenant, dice).items():
        try:
            add_guardrail(name, members | {"level": "warn"})
        except GrantError as error:
            assert "contradicts" in str(error)
    made, has_found = 0, False
    for _ in range(CHANGES):
        changes = [random_change(tenant, dice) for _ in range(dice.choice([1, 1, 2, 4]))]
        if any("new group" in str(change) for change in changes):
            changes.append(AddGroup("new group"))
        before = all_violations()
        try:
            with transaction.atomic():
                head = lock_journal()
                _, added = check.make_and_compare(
                    changes, lambda head=head, changes=changes: write_changes(head, COMMAND, changes)
                )
        except Refusal:
            continue
        made += 1
        found, new = {row.violation.key for row in added.rows}, all_violations() - before
        assert new <= found, changes
        # expected decisions are also found at the times at which the changes begin
        assert all(name.startswith("expect") for name, *_ in found - new), changes
        has_found |= bool(new)
    assert made > 5 and has_found
