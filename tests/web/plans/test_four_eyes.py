"""With FOUR_EYES, pages and REST refuse changes that need a second person, who can apply a plan."""

import pytest

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.journal import Author
from grants.models import Plan, Role, User, UserGrant
from tests.support.authors import account, database_state
from tests.support.changes import add_grant, create_plan_from_changes
from tests.support.pages import page_html, post_as_shown, shown_effect_of_plan

ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture(autouse=True)
def second_person(settings, cast):
    settings.FOUR_EYES = True
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)


@pytest.fixture
def plan(cast):
    author = Author("ada", user_id=cast["ada"].pk)
    return create_plan_from_changes(author=author, grant=[("user:dee", ORDERS, Privilege.ADMIN)], revoke=[])


def test_the_grant_form_says_that_a_plan_is_needed(browse):
    before = database_state()
    form = {"principal": "user:dee", "privilege": "ADMIN", "reason": "x"}
    answer = post_as_shown(browse("ada"), "/grant/dataset:sales.orders", form)
    assert answer.status_code == 400 and "because it grants ADMIN: create a plan" in page_html(answer)
    assert database_state() == before
    post_as_shown(
        browse("ada"),
        "/grant/dataset:sales.orders",
        {"principal": "user:out", "privilege": "READ", "reason": "x"},
    )
    assert UserGrant.objects.filter(user__username="out").exists()


def test_only_another_person_finds_the_form_that_applies_the_plan(browse, plan):
    ada, bob = browse("ada"), browse("bob")
    own = page_html(ada.get(f"/plans/{plan.pk}/"))
    assert f"Another person must apply plan {plan.pk}, because it grants ADMIN, and you made it." in own
    assert f"/plans/{plan.pk}/apply" not in own and f"/plans/{plan.pk}/discard" in own
    answer = ada.post(f"/plans/{plan.pk}/apply", shown_effect_of_plan(ada, plan) | {"reason": "mine"})
    assert answer.status_code == 400 and "you made it" in page_html(answer)
    assert f"/plans/{plan.pk}/apply" in page_html(bob.get(f"/plans/{plan.pk}/"))
    assert (
        bob.post(
            f"/plans/{plan.pk}/apply", shown_effect_of_plan(bob, plan) | {"reason": "reviewed"}
        ).status_code
        == 303
    )
    assert Plan.objects.get().decided_by == "bob"


def test_rest_answers_403_with_its_own_problem_type(browse, plan):
    ada = browse("ada")
    item = {"principal": "user:ada", "entity": str(ORDERS), "privileges": ["READ"]}
    bodies = [
        ("/api/v1/grants", {"grant": [item]}),
        ("/api/v1/grants", {"grant": [item], "dry_run": True}),
        (f"/api/v1/plans/{plan.pk}/apply", {"reason": "mine"}),
    ]
    before = database_state()
    for path, body in bodies:
        answer = ada.post(path, body, content_type="application/json")
        assert (
            answer.status_code == 403
            and answer.json()["type"] == "urn:authzconsole:problem:second-person-required"
        ), path
    assert database_state() == before


def test_the_membership_form_says_that_a_plan_is_needed(browse):
    add_grant("group:operators", ORDERS, Privilege.ADMIN)
    answer = browse("ada").post(
        "/people/membership", {"verb": "add", "user": "dee", "group": "operators", "reason": "x"}
    )
    assert "create a plan" in page_html(answer) and not account("dee").groups.exists()
