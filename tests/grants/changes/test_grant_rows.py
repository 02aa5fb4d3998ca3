"""Test that every grant row has the namespace, application and kind of its entity."""

import io

import pytest
from django.core.management import CommandError, call_command

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.changes.grants import first_misplaced_grant
from grants.models import GroupGrant, UserGrant
from tests.support.changes import change_grants
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant():
    made = random_tenant(4)
    store_tenant(made)
    return made


def test_grants_saved_by_services_and_by_the_orm_have_the_containers_of_their_entities(tenant):
    granted = change_grants(
        grant=[
            ("user:user 0", address, Privilege.READ)
            for address in (
                "program:new.app.workflow.w",
                "dataset:new.d",
                "namespace:other",
                "kerberosprincipal:x@Y",
            )
        ]
    )
    assert granted.has_changed
    assert first_misplaced_grant() is None
    assert UserGrant.objects.get(content_object__key="new.app.workflow.w").application.key == "new.app"


@pytest.mark.parametrize(("model", "column"), [(UserGrant, "namespace"), (GroupGrant, "application")])
def test_a_grant_with_wrong_containers_is_reported(tenant, model, column):
    program = parse_address("program:ns0.app0.workflow.w")
    change_grants(
        grant=[(principal, program, Privilege.READ) for principal in ("user:user 0", "group:group 0")]
    )
    grant = model.objects.filter(**{f"{column}__isnull": False}).first()
    for wrong in (None, Entity.objects.get(kind="instance")):
        model.objects.filter(pk=grant.pk).update(**{column: wrong})
        assert first_misplaced_grant() == grant


def test_a_grant_with_another_kind_than_its_entity_is_reported(tenant):
    assert not GroupGrant.objects.filter(entity_kind="").exists()
    grant = GroupGrant.objects.exclude(entity_kind="dataset").first()
    for kind, reported in (("", None), ("dataset", grant)):
        GroupGrant.objects.filter(pk=grant.pk).update(entity_kind=kind)
        assert first_misplaced_grant() == reported


def test_verify_grants_reports_the_first_misplaced_grant(tenant):
    output = io.StringIO()
    call_command("verify_grants", stdout=output)
    assert "Every grant is stored with" in output.getvalue()
    grant = UserGrant.objects.filter(namespace__isnull=False).first()
    UserGrant.objects.filter(pk=grant.pk).update(namespace=None)
    with pytest.raises(CommandError, match=f"grant {grant.pk} on {grant.content_object} is not stored with"):
        call_command("verify_grants")
