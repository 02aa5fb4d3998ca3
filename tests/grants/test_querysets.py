"""Test that `grants.querysets` alone defines the users and grants that count, and that its SQL equals that of
plain filters.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.db.models import Q

from grants.models import Belonging, GroupGrant, User, UserGrant
from grants.querysets import (
    effective_memberships,
    memberships,
    memberships_of_principals,
)
from grants.validity import at_time

ROOT = Path(__file__).parents[2]
MEMBERSHIP = User.groups.through.objects
ACTIVE = {"is_active": True, "is_principal": True}
USER_ACTIVE = {"user__is_active": True, "user__is_principal": True}


MOMENT = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "named, plain_filter",
    [
        (lambda: User.objects.principals(), User.objects.filter(is_principal=True)),
        (lambda: User.objects.active_principals(), User.objects.filter(**ACTIVE)),
        (lambda: User.objects.filter(pk=1).active_principals(), User.objects.filter(Q(pk=1), **ACTIVE)),
        (lambda: Group(pk=1).user_set.active_principals(), Group(pk=1).user_set.filter(**ACTIVE)),
        (
            lambda: UserGrant.objects.filter(permission_id=1).effective(),
            UserGrant.objects.filter(permission_id=1).filter(Q(pk__in_force=MOMENT), **USER_ACTIVE),
        ),
        (lambda: GroupGrant.objects.effective(), GroupGrant.objects.filter(pk__in_force=MOMENT)),
        (memberships, MEMBERSHIP.all()),
        (memberships_of_principals, MEMBERSHIP.filter(user__is_principal=True)),
        (effective_memberships, Belonging.objects.filter(pk__in_force=MOMENT).filter(**USER_ACTIVE)),
    ],
)
def test_a_named_queryset_has_the_sql_of_the_plain_filter(named, plain_filter):
    with at_time(MOMENT):
        assert str(named().query) == str(plain_filter.query)


@pytest.mark.django_db
def test_only_active_principals_are_known_subjects():
    for name, is_active, is_principal in (("ada", True, True), ("ina", False, True), ("root", True, False)):
        user = User.objects.create(username=name, is_active=is_active, is_principal=is_principal)
        assert user.is_active_principal is (name == "ada")
    assert [user.username for user in User.objects.active_principals()] == ["ada"]
    assert {user.username for user in User.objects.principals()} == {"ada", "ina"}


def test_no_other_module_repeats_the_condition():
    condition = re.compile(
        r"filter\([^)]*is_principal=True|__is_principal|\b\w+\.is_principal AND|AND \w+\.is_principal"
    )
    sources = [
        path
        for package in ("grants", "analytics", "authzconsole")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts and path.name != "querysets.py"
    ]
    assert [str(path) for path in sources if condition.search(path.read_text())] == []
