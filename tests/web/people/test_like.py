"""Test the page that gives a user the access of a colleague."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.models import Plan, User
from tests.support.cast import SALES
from tests.support.changes import add_grant, add_member, renew_plan
from tests.support.pages import page_html, shown_effect_of_plan

pytestmark = pytest.mark.django_db
URL = "/people/like?source=ned&target=dee"


@pytest.fixture(autouse=True)
def ned_is_an_operator(cast):
    add_member("ned", "operators")


def test_everything_is_selected_at_first_by_namespace(browse):
    response = browse("ada").get(URL)
    parts = {part["verb"]: part["rows"] for part in response.context["parts"]}
    assert [row["is_selected"] for row in parts["join"]] == [True]
    assert {row["is_selected"] for row in parts["grant"]} == {True} and len(parts["grant"]) == len(SALES)
    (grants,) = (part["sections"] for part in response.context["parts"] if part["verb"] == "grant")
    assert [name for name, _ in grants] == ["namespace:sales"]
    assert "2 grants in namespace:sales" in " ".join(page_html(response).split()).replace(
        '<span class="number">', ""
    ).replace("</span>", "")


def test_the_box_of_a_namespace_has_the_warning_about_groups_that_reach_it(browse):
    add_grant("group:operators", "dataset:sales.customers", "READ")
    text = page_html(browse("ada").get(URL))
    assert 'data-group="group:operators" data-reaches="namespace:sales"' in text
    assert 'data-reach-warning="namespace:sales" hidden' in text


def test_the_chosen_items_become_one_plan(browse):
    response = browse("ada").post(
        "/people/like",
        {
            "source": "user:ned",
            "target": "dee",
            "item": ["join group:operators", "grant ADMIN dataset:sales.orders"],
        },
    )
    plan = Plan.objects.get()
    assert (response.status_code, response["Location"]) == (303, f"/plans/{plan.pk}/")
    assert (plan.effect["joins"], plan.effect["grants"]) == (1, 1)


def test_items_beyond_the_list_are_chosen_together(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.people.like.MAX_ITEMS", 2)
    ada, form = browse("ada"), {"source": "ned", "target": "dee", "item": ["join group:operators"]}
    assert ada.get(URL).context["rest"] == len(SALES) - 1
    ada.post("/people/like", form | {"rest": "yes"})
    assert Plan.objects.get().effect["grants"] == len(SALES) - 1


def test_made_alike_everything_is_selected_and_the_comparison_is_empty_afterwards(browse):
    ada = browse("ada")
    page = ada.get(f"{URL}&remove=yes")
    keys = [row["key"] for part in page.context["parts"] for row in part["rows"]]
    assert all(row["is_selected"] for part in page.context["parts"] for row in part["rows"])
    assert "revoke WRITE dataset:sales.legacy" in keys
    ada.post("/people/like", {"source": "ned", "target": "dee", "remove": "yes", "item": keys})
    plan = Plan.objects.get()
    ada.post(
        f"/plans/{plan.pk}/apply", shown_effect_of_plan(ada, plan) | {"reason": "same team", "strand": "yes"}
    )
    assert "No differences" in page_html(ada.get("/people/compare?one=ned&other=dee"))
    assert "No differences" in page_html(ada.get(f"{URL}&remove=yes"))


def test_nothing_selected_and_unknown_users_are_reported(browse):
    ada = browse("ada")
    response = ada.post("/people/like", {"source": "ned", "target": "dee"})
    assert response.status_code == 400 and "Nothing is selected" in page_html(response)
    assert "No user named none." in page_html(ada.get("/people/like?source=none&target=dee"))
    assert not Plan.objects.exists()


def test_a_new_user_gets_the_access_of_a_colleague_in_the_next_step(browse):
    ada = browse("ada")
    assert ada.post("/people/add", {"type": "user", "name": "new", "like": "nobody"}).status_code == 400
    assert not User.objects.filter(username="new").exists()
    response = ada.post("/people/add", {"type": "user", "name": "new", "like": "user:ned"})
    assert (response.status_code, response["Location"]) == (303, "/people/like?source=ned&target=new")
    assert ada.get(response["Location"]).status_code == 200


def test_access_like_a_colleague_ends_with_the_period_of_the_plan(browse):
    end = timezone.localtime().replace(tzinfo=None, second=0, microsecond=0) + timedelta(days=90)
    form = {
        "source": "ned",
        "target": "dee",
        "item": ["join group:operators", "grant ADMIN dataset:sales.orders"],
    }
    browse("ada").post("/people/like", form | {"valid_until": end.isoformat()})
    plan = Plan.objects.get()
    assert {item.valid_until.replace(tzinfo=None) for item in plan.items.all()} == {end}
    refused = browse("ada").post("/people/like", form | {"valid_until": "2001-01-01T00:00"})
    assert refused.status_code == 400 and refused.context["selected"] == 2
    renewed = renew_plan(plan)
    assert {item.valid_until.replace(tzinfo=None) for item in renewed.items.all()} == {end}


def test_a_group_that_reaches_a_namespace_without_a_selected_grant_is_named(browse):
    add_grant("user:ned", "dataset:hr.salaries", "READ")
    add_grant("group:operators", "dataset:hr.salaries", "READ")
    form = {
        "source": "ned",
        "target": "dee",
        "item": ["join group:operators", "grant ADMIN dataset:sales.orders"],
    }
    page = browse("ada").post("/people/like", form, follow=True)
    warning = "group:operators, which this plan joins, gives access in namespace:hr"
    assert warning in page_html(page)
    # for everybody who opens or renews the plan
    plan = Plan.objects.get()
    for each in (plan, renew_plan(plan)):
        assert warning in page_html(browse("aud").get(f"/plans/{each.pk}/"))


def test_a_namespace_that_is_entered_after_the_list_was_shown_creates_no_plan_from_the_old_list(browse):
    add_grant("group:operators", "dataset:hr.salaries", "READ")
    ada = browse("ada")
    page = ada.get(URL)
    keys = [row["key"] for part in page.context["parts"] for row in part["rows"]]
    form = {"source": "ned", "target": "dee", "item": keys, "listed": page.context["listed"]}
    changed = form | {"without": "namespace:hr", "until_preset": "3-months"}
    response = ada.post("/people/like", changed, follow=True)
    assert not Plan.objects.exists()
    assert "No plan was created" in page_html(response)
    assert [group.name for group in response.context["replaced"]] == ["operators"]
    assert response.context["form"]["until_preset"].value() == "3-months"
    assert ada.post("/people/like", form).status_code == 303 and Plan.objects.exists()


def test_show_differences_lists_them_again_and_keeps_the_token_out_of_the_url(browse):
    response = browse("ada").post(
        "/people/like", {"source": "ned", "target": "dee", "without": "namespace:hr", "show": "yes"}
    )
    assert response["Location"] == "/people/like?source=ned&target=dee&without=namespace%3Ahr"
    response = browse("ada").post(
        "/people/like", {"source": "ned", "target": "dee", "remove": "yes", "show": "yes"}, follow=True
    )
    assert (response.redirect_chain, response.context["remove"]) == (
        [("/people/like?source=ned&target=dee&remove=yes", 303)],
        True,
    )
    assert not Plan.objects.exists()


def test_a_namespace_is_left_out_also_where_a_group_gives_it(browse):
    for address in ("dataset:hr.salaries", "dataset:sales.customers"):
        add_grant("group:operators", address, "READ")
    ada, form = browse("ada"), {"source": "ned", "target": "dee", "without": "namespace:hr"}
    response = ada.get("/people/like", form)
    parts = {part["verb"]: [row["key"] for row in part["rows"]] for part in response.context["parts"]}
    assert "join" not in parts and "grant READ dataset:sales.customers" in parts["grant"]
    html = page_html(response)
    assert "Groups that are not joined" in html and "grants in <" in " ".join(html.split())
    assert [group.name for group in response.context["replaced"]] == ["operators"]
    assert response.context["listed"] == "ned dee namespace:hr -"
    assert html.index('aria-label="Period"') < html.index('id="grant-title"')
    assert ada.post("/people/like", form | {"item": parts["grant"]}).status_code == 303
    assert Plan.objects.get().recipe["without"] == ["namespace:hr"]
    refused = ada.post("/people/like", form | {"without": "dataset:hr.salaries", "item": parts["grant"]})
    assert refused.status_code == 400 and "dataset:hr.salaries is not a namespace" in page_html(refused)
    refused = ada.post("/people/like", form | {"remove": "yes", "item": parts["grant"]})
    assert refused.status_code == 400 and "cannot be made alike without a namespace" in page_html(refused)
