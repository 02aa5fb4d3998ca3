"""Test the forms that rename and remove users and groups."""

import pytest
from django.contrib.auth.models import Group
from django.contrib.messages import get_messages

from grants.change_set import Join
from grants.models import User
from tests.support.authors import all_grants
from tests.support.changes import create_plan_from_changes
from tests.support.pages import page_html, post_as_shown, with_effect

pytestmark = pytest.mark.django_db


def test_a_user_is_renamed_after_the_effect_was_shown_and_the_old_address_leads_to_the_new_one(browse):
    ada = browse("ada")
    create_plan_from_changes(join=[Join("dee", "operators")])
    page = page_html(ada.get("/people/rename/user:dee"))
    assert (
        "2 direct grants and 0 memberships stay." in page
        and "1 proposed plan with this user becomes stale." in page
    )
    response = post_as_shown(ada, "/people/rename/user:dee", {"name": "dora", "reason": "married"})
    assert (response.status_code, response["Location"]) == (303, "/people/user:dora")
    assert ada.get("/people/user:dee")["Location"] == "/people/user:dora"
    assert ada.get("/people/user:nobody").status_code == 404


def test_the_past_of_a_person_has_no_account_section_and_no_changes(browse):
    ada = browse("ada")
    page = page_html(ada.get("/people/user:dee?as_of=1"))
    assert 'id="account"' not in page and "/people/rename/" not in page
    assert 'id="account"' in page_html(ada.get("/people/user:dee"))


def test_a_lookalike_name_shows_the_form_again(browse):
    response = browse("ada").post("/people/rename/user:dee", {"name": "NED"})
    assert response.status_code == 400 and "looks like the existing user:ned" in page_html(response)
    assert 'value="NED"' in page_html(response)


def test_a_group_is_renamed(browse):
    browse("ada").post("/people/rename/group:operators", {"name": "operations"})
    assert Group.objects.get().name == "operations"


def test_a_user_with_stranded_entities_is_removed_after_both_confirmations(browse):
    ada = browse("ada")
    page = page_html(ada.get(with_effect("/people/remove/user:ned")))
    assert "Revoke the direct grants: 6 on live addresses" in " ".join(page.split())
    assert "Accept 6 entities with fewer than two ADMIN holders" in page
    assert "fewer than two ADMIN holders" in page_html(
        ada.post("/people/remove/user:ned", {"revoke_grants": "yes"})
    )
    assert "has grants, which would end" in page_html(ada.post("/people/remove/user:ned", {"strand": "yes"}))
    assert User.objects.filter(username="ned").exists()
    response = ada.post("/people/remove/user:ned", {"revoke_grants": "yes", "strand": "yes"})
    assert (response.status_code, response["Location"]) == (303, "/people/")
    assert [str(message) for message in get_messages(response.wsgi_request)] == ["user:ned was removed."]
    assert not any(principal == "user:ned" for principal, _, _ in all_grants())


def test_a_group_is_removed_and_the_account_of_the_author_is_not(browse):
    ada = browse("ada")
    assert (
        ada.post("/people/remove/group:operators", {"revoke_grants": "yes"})["Location"]
        == "/people/?type=group"
    )
    assert "your own account" in page_html(ada.post("/people/remove/user:ada", {}))
