"""Guardrails hold for changes at the same moment, approved requests, REST, delegates and two administrators."""

import json

import pytest

from entities.address import parse_address
from grants.change_set import ChangeSet, DeleteGuardrail
from grants.changes import apply
from grants.errors import GuardrailHolds
from grants.guardrails.evaluation import violations
from grants.models import AccessRequest, Guardrail, Plan, RequestState, User
from grants.stewards.services import add_steward
from tests.grants.guardrails.test_check import BOTH, ORDERS, refused
from tests.grants.requests.test_requests import approve, request_access
from tests.grants.test_journal import in_threads
from tests.support.authors import COMMAND, author_named
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, add_user, bearer
from tests.support.guardrails import FORBID, add_guardrail

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_of_two_grants_at_the_same_moment_that_violate_it_together_one_is_refused():
    create_sample_tenant()
    add_guardrail("both", BOTH)
    (refusal,) = in_threads(
        lambda: add_grant("user:dee", ORDERS, "WRITE"),
        lambda: add_grant("user:dee", "namespace:hr", "ADMIN"),
    )
    assert isinstance(refusal, GuardrailHolds) and not list(violations())


def test_an_approval_that_would_violate_it_is_refused_and_the_request_stays_open():
    create_sample_tenant()
    add_guardrail("no-readers", {"forbid": {"privileges": ["READ"], "within": "namespace:sales"}})
    request = request_access()
    refused(lambda: approve(request, "ada"), "no-readers")
    assert AccessRequest.objects.get().state == RequestState.PENDING and not Plan.objects.exists()


def test_rest_answers_409_with_the_violations(client):
    create_sample_tenant()
    add_guardrail("no-writers", FORBID)
    body = {"grant": [{"principal": "user:dee", "entity": ORDERS, "privileges": ["WRITE"]}]}
    for members in ({}, {"dry_run": True}):
        response = client.post(
            "/api/v1/grants",
            json.dumps(body | members),
            content_type="application/json",
            headers=bearer("ada", "administer"),
        )
        problem = response.json()
        assert response.status_code == 409 and problem["type"].endswith("guardrail-violated")
        assert problem["violations"][0]["principal"] == "user:dee"


def test_a_delegate_learns_only_the_name_of_the_guardrail(settings):
    settings.DELEGATION = True
    create_sample_tenant()
    add_guardrail("no-writers", FORBID)
    error = refused(lambda: add_grant("group:operators", ORDERS, "WRITE", author=author_named("ned")))
    assert "no-writers" in str(error) and "grp" not in str(error)
    assert error.members == {"violations": [{"guardrail": "no-writers"}]}


def test_an_approver_learns_nothing_about_access_elsewhere():
    create_sample_tenant()
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:dee")
    add_grant("user:out", "namespace:hr", "ADMIN")
    add_guardrail("both", BOTH)
    request = request_access("out", ("write", ORDERS))
    error = refused(lambda: approve(request, "dee"), "both")
    assert "namespace:hr" not in str(error)
    assert error.members == {"violations": [{"guardrail": "both"}]}, "not one for each grant elsewhere"
    assert "namespace:hr" in str(refused(lambda: approve(request, "ada"), "both"))


def test_two_administrators_change_guardrails_with_four_eyes(settings):
    settings.FOUR_EYES = True
    create_sample_tenant()
    add_user("eve", role="administrator")
    User.objects.filter(username="eve").update(is_active=True)
    first = add_guardrail("no-writers", FORBID, author=author_named("ada"))
    assert "is proposed now" in first.sentence and not Guardrail.objects.exists()
    # another content is another proposal
    other = add_guardrail("no-writers", FORBID | {"level": "warn"}, author=author_named("eve"))
    assert "is proposed now" in other.sentence and not Guardrail.objects.exists()
    add_guardrail("no-writers", FORBID, author=author_named("eve"))
    assert Guardrail.objects.get().level == "block"
    deletion = ChangeSet.of(DeleteGuardrail("no-writers"))
    assert "is proposed now" in apply(deletion, author=author_named("ada")).sentence
    assert "by you already" in apply(deletion, author=author_named("ada")).sentence
    assert Guardrail.objects.exists()
    apply(deletion, author=author_named("eve"))
    assert not Guardrail.objects.exists()
