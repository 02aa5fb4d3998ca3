"""Concurrent edits by two administrators: a change is refused if its form displays outdated data."""

import pytest

from entities.address import parse_address
from entities.selectors import entity_at
from grants.models import JournalLine
from grants.plans.sources.copy import copy_plan
from tests.support.cast import SETUP
from tests.support.changes import activate_generation, add_grant, revoke_grant
from tests.support.pages import page_html, shown_effect_of_plan, with_effect

DELETE = "/lifecycle/delete/namespace:sales"
NAME = {"confirmed_name": "sales"}


@pytest.mark.parametrize(
    "make_change",
    [
        lambda: add_grant("group:operators", "dataset:sales.orders", "WRITE"),
        lambda: activate_generation("existing"),
    ],
)
def test_a_deletion_with_an_outdated_forecast_is_refused(make_change, browse):
    client = browse("ada")
    form_version = client.get(with_effect(DELETE)).context["form_version"]
    make_change()
    lines = JournalLine.objects.count()
    response = client.post(DELETE, NAME | {"reason": "sold", "form_version": form_version})
    assert response.status_code == 409 and "Nothing was changed" in page_html(response)
    assert response.context["form"]["reason"].value() == "sold" and JournalLine.objects.count() == lines
    form_version = client.get(with_effect(DELETE)).context["form_version"]
    assert client.post(DELETE, NAME | {"reason": "sold", "form_version": form_version}).status_code == 303


def test_unrelated_changes_do_not_block_a_deletion(browse):
    client = browse("ada")
    form_version = client.get(with_effect(DELETE)).context["form_version"]
    assert f'name="form_version" value="{form_version}"' in page_html(client.get(with_effect(DELETE)))
    add_grant("group:operators", "instance:cdap", "READ")
    assert client.post(DELETE, NAME | {"form_version": form_version}).status_code == 303


def test_deleting_a_deleted_entity_shows_the_error_once(browse):
    client = browse("ada")
    client.post(DELETE, NAME)
    text = page_html(client.post(DELETE))
    assert text.count("namespace:sales was deleted already") == 1


def test_an_outdated_form_does_not_overwrite_a_description(browse):
    client, url = browse("ada"), "/describe/dataset:sales.orders"
    form_version = client.get(url).context["form_version"]
    browse("ada").post(url, {"description": "All orders", "was": form_version})
    form = {"description": "Orders of the shop", "reason": "clearer", "was": form_version}
    response = client.post(url, form)
    text = page_html(response)
    assert (
        response.status_code == 409
        and "All orders" in text
        and "Orders of the shop" in text
        and "clearer" in text
    )
    assert entity_at(parse_address("dataset:sales.orders")).description == "All orders"
    assert client.post(url, form | {"was": response.context["form_version"]}).status_code == 303
    assert entity_at(parse_address("dataset:sales.orders")).description == "Orders of the shop"


def test_renewing_a_stale_plan_keeps_the_reason(browse):
    client = browse("ada")
    plan = copy_plan.create(author=SETUP, source="user:ned", target="user:out")
    revoke_grant("user:ned", "dataset:sales.orders", "ADMIN")
    text = page_html(
        client.post(
            f"/plans/{plan.pk}/apply",
            shown_effect_of_plan(client, plan)
            | {"reason": "he takes over", "strand": "yes", "beyond": "yes"},
        )
    )
    assert '<input type="hidden" name="reason" value="he takes over">' in text
    response = client.post(f"/plans/{plan.pk}/renew", {"reason": "he takes over"}, follow=True)
    assert response.context["reason"] == "he takes over" and response.context["plan"].pk != plan.pk
