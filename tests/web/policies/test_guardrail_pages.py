"""The pages of guardrails: write one, see its violations, make an exception, and be refused by it."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from grants.models import Guardrail, GuardrailException, JournalLine, Plan, UserGrant
from tests.support.changes import add_grant, add_group, set_user_active
from tests.support.guardrails import FORBID, add_exception, add_guardrail

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
NEW = "/policies/guardrails/new"
FIELDS = {"name": "no-writers", "privileges": ["WRITE"], "within": "namespace:sales", "level": "block"}


def part(client, url: str, name: str, values=None) -> str:
    headers = {"HX-Request": "true", "HX-Target": name}
    return client.get(url, values or {}, headers=headers).content.decode()


def test_the_form_counts_the_violations_of_what_is_entered_and_writes_it_when_they_were_shown(cast, browse):
    add_grant("user:dee", ORDERS, "WRITE")
    ada = browse("ada")
    shown = part(ada, NEW, "guardrail-count", FIELDS)
    assert "1 violation now" in shown and "user:dee holds WRITE" in shown
    assert not Guardrail.objects.exists()
    for accepted in ({}, {"accepted": "9" * 5_000}):
        response = ada.post(NEW, FIELDS | accepted)
        assert response.status_code == 400 and "is violated already by 1 grant" in response.content.decode()
    response = ada.post(NEW, FIELDS | {"accepted": "1", "reason": "policy"})
    assert response.status_code == 303 and response.headers["Location"] == "/policies/guardrails/no-writers/"
    assert Guardrail.objects.get().changed_by == "ada"


def test_the_form_says_that_a_guardrail_matches_nothing_now(cast, browse):
    add_group("contractors")
    shown = part(browse("ada"), NEW, "guardrail-count", FIELDS | {"group": "contractors"})
    assert "0 violations now" in shown and "notice warning" in shown
    assert "it matches nothing now: group:contractors has no active members" in shown
    assert "nothing now" not in part(browse("ada"), NEW, "guardrail-count", FIELDS)


def test_the_form_says_what_is_wrong_before_it_is_sent(cast, browse):
    fields = FIELDS | {"group": "nobody"}
    assert "group:nobody does not exist" in part(browse("ada"), NEW, "guardrail-count", fields)


@pytest.mark.parametrize(
    ("form", "values", "sentence"),
    [
        (
            "forbid_both",
            {
                "privilege": "WRITE",
                "within": ORDERS,
                "other_privilege": "ADMIN",
                "other_within": "namespace:hr",
            },
            "forbids one person WRITE within dataset:sales.orders together with ADMIN within namespace:hr",
        ),
        (
            "require",
            {"privilege": "ADMIN", "kind": "namespace", "at_least": "2"},
            "requires at least 2 holders of ADMIN on each namespace",
        ),
        (
            "expect",
            {"subject": "user:dee", "operation": "READ", "resource": ORDERS, "decision": "yes"},
            "expects that user:dee is permitted `READ` on dataset:sales.orders",
        ),
    ],
)
def test_each_form_has_its_fields(form, values, sentence, cast, browse):
    ada = browse("ada")
    posted = {"name": form, "level": "warn"} | values
    assert ada.post(f"{NEW}?form={form}", posted).status_code == 303
    assert Guardrail.objects.get().form == form
    page = ada.get(f"/policies/guardrails/{form}/").content.decode()
    assert sentence.split(" within ")[0].split("`")[0] in page
    edit = ada.get(f"/policies/guardrails/{form}/edit").content.decode()
    assert all(f'"{value}"' in edit for value in values.values())
    listed = part(ada, "/policies/guardrails/", "guardrails")
    assert form in listed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"privileges": []}, "List at least one of"),
        ({"within": "namespace:none"}, "is not registered"),
        ({"within": ""}, "address"),
        ({"group": "group:none"}, "does not exist"),
        ({"name": "a b"}, "is not a name of a guardrail"),
    ],
)
def test_a_bad_guardrail_keeps_what_was_entered_and_says_what_is_wrong(values, message, cast, browse):
    response = browse("ada").post(NEW, FIELDS | {"policy": "policy 4.2"} | values)
    text = response.content.decode()
    assert response.status_code == 400 and message.lower() in text.lower() and "policy 4.2" in text
    assert not Guardrail.objects.exists()


def test_the_name_of_a_namespace_is_a_place(cast, browse):
    assert browse("ada").post(NEW, FIELDS | {"within": "sales"}).status_code == 303
    assert Guardrail.objects.get().clauses.get().key == "sales"
    refused = browse("ada").post(NEW, FIELDS | {"name": "other", "within": "none"})
    assert refused.status_code == 400 and "namespace:none is not registered" in refused.content.decode()


def test_the_page_lists_violations_and_exceptions_and_ends_them(cast, browse):
    add_grant("user:dee", ORDERS, "WRITE")
    add_guardrail("no-writers", FORBID)
    ada, url = browse("ada"), "/policies/guardrails/no-writers/"
    assert "/people/user:dee" in part(ada, url, "violations")
    day = f"{timezone.now() + timedelta(days=9):%Y-%m-%d}"
    refused = ada.post(url, {"verb": "add", "owner": "user:ada", "valid_until": day})
    assert refused.status_code == 400 and not GuardrailException.objects.exists()
    posted = {"verb": "add", "principal": "user:dee", "owner": "user:ada", "valid_until": day, "reason": "x"}
    assert ada.post(url, posted).status_code == 303
    assert "No violations" in part(ada, url, "violations")
    assert ada.post(url, {"verb": "end", "principal": "user:dee"}).status_code == 303
    assert ada.post(url, {"verb": "delete"}).headers["Location"] == "/policies/guardrails/"
    assert not Guardrail.objects.exists()


def test_violations_of_a_guardrail_that_forbids_privileges_can_be_selected_for_a_plan(cast, browse):
    add_grant("user:dee", ORDERS, "WRITE")
    add_guardrail("no-writers", FORBID)
    add_guardrail("admins", {"require": {"privilege": "ADMIN", "on": "kind:namespace", "at_least": 9}})
    ada, url = browse("ada"), "/policies/guardrails/no-writers/"
    assert f'value="user:dee&#9;{ORDERS}&#9;WRITE"' in part(ada, url, "violations")
    assert 'name="grant"' not in part(browse("aud"), url, "violations")
    assert 'name="grant"' not in part(ada, "/policies/guardrails/admins/", "violations")
    posted = {"selection": "yes", "grant": f"user:dee\t{ORDERS}\tWRITE"}
    response = ada.post("/plans/outliers", posted)
    plan = Plan.objects.get()
    assert response.headers["Location"] == f"/plans/{plan.pk}/" and plan.title == "Take away 1 privilege"
    assert [str(item.address) for item in plan.items.all()] == [ORDERS]
    nothing = ada.post(
        "/plans/outliers", {"selection": "yes"}, headers={"Referer": f"http://testserver{url}"}
    )
    assert nothing.headers["Location"] == url


def test_a_click_on_delete_asks_first_and_the_journal_has_the_reason(cast, browse):
    add_guardrail("no-writers", FORBID)
    add_exception("no-writers", until=timezone.now() + timedelta(days=9))
    ada, url, button = browse("ada"), "/policies/guardrails/no-writers/", 'value="delete"'
    page = ada.html(url)
    assert button not in page and 'href="?verb=delete"' in page
    question = ada.html(f"{url}?verb=delete")
    assert button in question and "1 exception ends" in question and "Add an exception" not in question
    assert button not in browse("aud").html(f"{url}?verb=delete")
    refused = ada.post(url, {"verb": "delete", "reason": "x" * 3_000})
    assert refused.status_code == 400
    assert "x" * 3_000 in (page := refused.content.decode()) and "Add an exception" not in page
    ada.post(url, {"verb": "delete", "reason": "replaced by policy 5"})
    assert not Guardrail.objects.exists()
    assert JournalLine.objects.get(action="guardrail-delete").reason == "replaced by policy 5"


def test_the_page_counts_dormant_violations_apart(cast, browse):
    add_guardrail("no-writers", FORBID | {"level": "warn"})
    ada, url = browse("ada"), "/policies/guardrails/no-writers/"

    def dormant() -> int:
        found = re.search(r"(\d+) dormant violation", part(ada, url, "violations"))
        return int(found[1]) if found else 0

    before = dormant()
    add_grant("user:dee", ORDERS, "WRITE")
    add_grant("user:ina", ORDERS, "WRITE")
    add_grant("user:out", "dataset:sales.legacy", "WRITE")
    assert dormant() == before + 2
    shown = part(ada, url, "violations")
    assert "/people/user:dee" in shown and "/people/user:ina" not in shown and "/people/user:out" not in shown
    set_user_active("ina", active=True)
    assert dormant() == before + 1 and "/people/user:ina" in part(ada, url, "violations")


def test_the_form_says_which_names_are_possible(browse):
    assert "without spaces" in browse("ada").html(NEW)


def test_an_auditor_reads_guardrails_and_writes_none(cast, browse):
    add_guardrail("no-writers", FORBID)
    url = "/policies/guardrails/no-writers/"
    aud = browse("aud")
    assert aud.get(url).status_code == 200 and "Add an exception" not in aud.get(url).content.decode()
    for name, status in (("aud", 403), ("ned", 404)):
        client = browse(name)
        assert client.post(url, {"verb": "delete"}).status_code == status
        assert client.post(f"{url}edit", FIELDS).status_code == status
        assert client.post(NEW, FIELDS).status_code == status
    assert Guardrail.objects.exists()


def test_the_form_of_a_grant_shows_what_it_would_violate_and_is_refused(cast, browse):
    add_guardrail("no-writers", FORBID)
    ada, url = browse("ada"), f"/grant/{ORDERS}"
    values = {"principal": "user:dee", "privilege": "WRITE"}
    shown = part(ada, url, "change-effect", values)
    assert "The change will be refused" in shown and "user:dee would hold WRITE" in shown
    assert re.search(r"<button class=.button main[^>]* disabled>", shown)
    grants = UserGrant.objects.count()
    response = ada.post(url, values | {"effect": "x"})
    assert (
        "Guardrail no-writers forbids this change" in response.content.decode() or response.status_code == 409
    )
    assert UserGrant.objects.count() == grants
