"""Attacks on access requests: own approval through a group, and what a request tells about addresses."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from grants.errors import GrantError, NotApprover
from grants.journal import Author
from grants.models import RequestState, Role, User
from grants.requests.approvers import approver_scope, requests_to_decide, set_namespace_approvers
from grants.requests.background import can_see_effect, part_background
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.requests.decide import deny_request
from grants.stewards.services import add_steward
from tests.grants.requests.test_requests import (
    ORDERS,
    SALARIES,
    UNKNOWN,
    approve,
    request_access,
)
from tests.support.authors import COMMAND, account, author_named, database_state
from tests.support.cast import create_sample_tenant
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    register_entity,
    remove_member,
)

pytestmark = pytest.mark.django_db
NAMESPACE = parse_address("namespace:sales")


@pytest.fixture(autouse=True)
def cast(settings):
    settings.DELEGATION = True
    return create_sample_tenant()


def _as_approvers_of_the_namespace():
    set_namespace_approvers(author=COMMAND, namespace=NAMESPACE, group="operators")


def _as_stewards():
    add_steward(author=COMMAND, namespace=NAMESPACE, principal="group:operators")


def _as_delegates():
    add_grant("group:operators", NAMESPACE, "ADMIN")


@pytest.mark.parametrize("make_approver", [_as_approvers_of_the_namespace, _as_stewards, _as_delegates])
def test_a_requester_does_not_approve_through_a_group(make_approver):
    make_approver()
    add_member("out", "operators")
    others, own = request_access("dee", ("WRITE", str(ORDERS))), request_access("out", ("WRITE", str(ORDERS)))
    out = account("out")
    assert list(requests_to_decide(out)) == [others], "the group makes it an approver for others"
    for decide in (
        approve,
        lambda request, name: deny_request(author=author_named(name), request_id=request.pk, reason="x"),
    ):
        with pytest.raises(NotApprover, match="your own"):
            decide(own, "out")
    # another member approves; who has left the group since the page was opened does not
    remove_member("out", "operators")
    with pytest.raises(NotApprover, match="may not decide"):
        approve(others, "out")
    assert approve(own, "grp").state == RequestState.APPROVED


def test_a_request_runs_the_same_queries_for_any_address():
    """Requests for missing, invisible and visible addresses take the same time."""
    request_access("dee", ("write", "dataset:sales.customers"))
    statements = []
    for address in (ORDERS, SALARIES, UNKNOWN):
        with CaptureQueriesContext(connection) as captured:
            request_access("dee", ("write", str(address)))
        statements.append([_shape(query["sql"]) for query in captured])
    assert statements[0] == statements[1] == statements[2]


def _shape(sql: str) -> str:
    return re.sub(r"\d+", "N", sql.partition("'")[0].partition("(")[0][:60])


def test_an_approver_learns_nothing_about_the_addresses_of_parameters(cast):
    """The parameters of a question can name a hidden address, which the proposal then grants."""
    register_entity("artifact:hr.etl")
    seen: dict[str, list] = {"ned": [], "ada": []}
    for number, artifact in enumerate(("artifact:hr.etl", "artifact:hr.none")):
        request = create_request(
            author=author_named("out"),
            draft=RequestDraft(
                "close",
                [
                    WantedAccess(
                        parse_address(f"application:sales.new{number}"), "deploy", {"artifact": artifact}
                    )
                ],
            ),
        )
        part = request.parts.get()
        for name, answers in seen.items():
            scope = approver_scope(cast[name])
            assert scope.can_decide(request, part)
            background = part_background(request, part, scope)
            chosen = [(background, background.proposals[0])]
            assert can_see_effect(chosen) == (name == "ada")
            answers.append((background.colleagues, [proposal.beyond for proposal in background.proposals]))
    assert seen["ned"] == [(None, [None] * len(seen["ned"][0][1]))] * 2
    assert seen["ada"][0] != seen["ada"][1], "the effect tells which address exists"


def test_a_delegate_gives_itself_nothing_by_any_detour(cast):
    """The detours: another spelling, a group, and other changes."""
    ned = Author("ned", user_id=cast["ned"].pk)
    add_group("friends")
    add_member("ned", "friends")
    before = database_state()
    for principal in ("user:ned", "USER:ned", "user: ned", " user:ned", "group:friends", "GROUP:friends"):
        with pytest.raises(GrantError):
            add_grant(principal, ORDERS, "WRITE", author=ned)
    for service in (
        lambda: add_member("ned", "operators", author=ned),
        lambda: add_group("new", author=ned),
        lambda: add_grant("user:out", "instance:cdap", "READ", author=ned),
    ):
        with pytest.raises(GrantError):
            service()
    assert database_state() == before


def test_roles_that_cannot_be_delegates_see_no_requests_as_holders_of_admin():
    add_grant("user:out", NAMESPACE, "ADMIN")
    request = request_access("dee", ("WRITE", str(ORDERS)))
    for role, expected in (
        (Role.ORDINARY, [request]),
        (Role.SECURITY_ADMINISTRATOR, []),
        (Role.OPERATOR, []),
    ):
        User.objects.filter(username="out").update(role=role)
        assert list(requests_to_decide(account("out"))) == expected
