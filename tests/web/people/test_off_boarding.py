"""Test the off-boarding checklist."""

import pytest

from entities.address import parse_address
from grants.models import Plan, User
from grants.models.reviews import ReviewItem
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.reviews.reviewers import set_manager
from grants.stewards import add_steward
from tests.grants.reviews.support import open_campaign
from tests.support.authors import account, author_named
from tests.support.cast import SALES
from tests.support.changes import add_grant
from tests.support.pages import page_html, shown_effect_of_plan

pytestmark = pytest.mark.django_db
URL = "/people/leaving/user:ned"


def test_the_checklist_becomes_one_plan_with_the_chosen_heirs(browse):
    ada = browse("ada")
    page = page_html(ada.get(URL))
    assert "Deactivate the account." in page and 'name="entity-dataset:sales.orders"' in page
    response = ada.post(
        URL,
        {
            "deactivate": "yes",
            "leave_groups": "yes",
            "revoke_grants": "yes",
            "stranded_to": "dee",
            "entity-dataset:sales.orders": "user:out, group:operators",
        },
    )
    plan = Plan.objects.get()
    assert (response.status_code, response["Location"]) == (303, f"/plans/{plan.pk}/")
    assert (plan.effect["grants"], plan.effect["revokes"], plan.effect["deactivations"]) == (
        len(SALES) + 1,
        len(SALES),
        1,
    )
    shown = page_html(ada.get(f"/plans/{plan.pk}/"))
    assert "1 deactivation" in shown and "Undoing the plan does not restore them" in shown
    applied = ada.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(ada, plan) | {"reason": "leaves", "strand": "yes", "beyond": "yes"},
    )
    assert applied.status_code == 303 and not User.objects.get(username="ned").is_active


def test_a_plan_without_administrators_shows_the_form_again_until_it_is_confirmed(browse):
    ada = browse("ada")
    response = ada.post(
        URL, {"deactivate": "yes", "revoke_grants": "yes", "entity-dataset:sales.orders": "dee"}
    )
    assert response.status_code == 400 and "would have no active ADMIN holder" in page_html(response)
    assert 'value="dee"' in page_html(response) and not Plan.objects.exists()
    assert ada.post(URL, {"deactivate": "yes", "revoke_grants": "yes", "accept": "yes"}).status_code == 303


def test_auditors_see_the_checklist_and_cannot_create_a_plan(browse):
    assert "Create plan" not in page_html(browse("aud").get(URL))
    assert browse("aud").post(URL, {"deactivate": "yes", "accept": "yes"}).status_code == 403
    assert not Plan.objects.exists()


def test_the_fields_name_candidates_and_an_unknown_name_lists_similar_ones(browse):
    add_grant("user:out", "namespace:sales", "ADMIN")
    ada = browse("ada")
    page = page_html(ada.get(URL))
    assert 'data-fills="stranded-to" value="user:out"' in page and 'data-fills="inside-0"' in page
    assert "(ADMIN on 1)" in " ".join(page.split())
    response = ada.post(URL, {"revoke_grants": "yes", "stranded_to": "operatos"})
    assert response.status_code == 400
    assert "user:operatos does not exist: do you mean group:operators?" in page_html(response)
    assert 'value="operatos"' in page_html(response) and not Plan.objects.exists()


def test_the_checklist_counts_what_ends_with_the_account_and_leads_to_it(browse):
    ada = browse("ada")
    assert "There are no stewardships, open review items" in page_html(ada.get(URL))
    add_steward(author=author_named("ada"), namespace=parse_address("namespace:sales"), principal="user:ned")
    set_manager(author=author_named("ada"), name="dee", manager="ned")
    set_manager(author=author_named("ada"), name="out", manager="ned")
    wanted = WantedAccess(parse_address("dataset:hr.salaries"), operation="read")
    request = create_request(
        author=author_named("ned"), draft=RequestDraft(reason="for the close", wanted=[wanted])
    )
    campaign = open_campaign(reviewer_rule="manager")
    page = ada.get(URL)
    duties = {duty.what: [text for text, _ in duty.links] for duty in page.context["duties"]}
    items = ReviewItem.objects.filter(campaign=campaign, reviewer__username="ned").count()
    assert items > 1 and duties == {
        "1 stewardship": ["namespace:sales"],
        f"{items} open review items": [str(campaign)],
        "1 pending request": [str(request)],
        "2 managed users": ["dee", "out"],
    }
    for duty in page.context["duties"]:
        for _, url in duty.links:
            assert ada.get(url).status_code == 200, url
    html = page_html(page)
    assert "Each is withdrawn" in html and "What is listed here ends too." in html
    ada.post(URL, {"deactivate": "yes", "accept": "yes"})
    plan = Plan.objects.get()
    ada.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(ada, plan) | {"reason": "leaves", "strand": "yes", "beyond": "yes"},
    )
    assert not account("ned").is_active
    assert ada.get(URL).context["duties"] == []
