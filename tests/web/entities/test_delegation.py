"""A holder of ADMIN sees the holders of the entity and changes its grants, and learns nothing else."""

import pytest

from grants.models import JournalLine, UserGrant
from tests.support.authors import account, database_state
from tests.support.cast import create_role_accounts
from tests.support.changes import change_grants, revoke_grant
from tests.support.pages import page_html

ORDERS, SALARIES = "dataset:sales.orders", "dataset:hr.salaries"
FORM = {"principal": "user:out", "privilege": "READ", "reason": "for the close"}


@pytest.fixture(autouse=True)
def delegation(settings):
    settings.DELEGATION = True


def test_a_delegate_sees_holders_without_links_members_and_groups(browse):
    change_grants(grant=[("user:grp", ORDERS, "READ"), ("group:operators", ORDERS, "WRITE")])
    response = browse("ned").get(f"/entities/{ORDERS}?tab=access")
    text = page_html(response)
    assert response.context["holders"]["page"].total == 5 and ">dee<" in text and ">operators<" in text
    assert (
        "/people/" not in text
        and "1 member" not in text
        and "through" not in text.split('id="holders"')[1].split("legend")[0]
    )
    assert f'action="/grant/{ORDERS}"' in text and f"/revoke/{ORDERS}?principal=user:dee" in text
    assert "Show effect" not in text and "suggest/principals" not in text and 'value="ADMIN"' not in text
    assert response.context["access"] is None and [tab.name for tab in response.context["tabs"]] == [
        "access",
        "ask",
    ]
    assert 'href="/lifecycle' not in text


@pytest.mark.parametrize("name", ["dee", "grp", "out"])
def test_other_accounts_see_and_change_nothing_more(name, browse):
    before = database_state()
    assert ">ned<" not in page_html(browse(name).get(f"/entities/{ORDERS}?tab=access"))
    for url in (f"/grant/{ORDERS}", f"/revoke/{ORDERS}"):
        assert browse(name).post(url, FORM).status_code == browse(name).get(url).status_code in (403, 404)
    assert database_state() == before


def test_a_delegate_grants_and_revokes_with_a_click(browse):
    ned = browse("ned")
    assert ned.get(f"/grant/{ORDERS}").status_code == 200
    assert ned.post(f"/grant/{ORDERS}", FORM).status_code in (302, 303)
    grant = UserGrant.objects.get(user__username="out")
    assert (grant.granted_by.username, grant.reason) == ("ned", "for the close")
    assert ned.get(f"/revoke/{ORDERS}?principal=user:out&privilege=READ").status_code == 200
    assert ned.post(f"/revoke/{ORDERS}", FORM).status_code in (302, 303)
    assert [line.detail for line in JournalLine.objects.filter(actor="ned")] == ["by delegation"] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"principal": "user:ned"},
        {"privilege": "ADMIN"},
        {"principal": "user:nobody"},
        {"preview": "yes"},
    ],
)
def test_a_refused_form_changes_nothing_and_shows_no_effect(fields, browse):
    before = database_state()
    response = browse("ned").post(f"/grant/{ORDERS}", FORM | fields)
    assert (
        response.status_code == (200 if "preview" in fields else 400) and response.context["effect"] is None
    )
    assert database_state() == before


def test_a_delegate_opens_the_form_of_unseen_addresses_inside_its_entity_whether_or_not_they_exist(browse):
    revoke_grant("user:ned", "dataset:sales.customers", "ADMIN")
    ned, pages = browse("ned"), []
    for name in ("customers", "nothing42"):
        response = ned.get(f"/grant/dataset:sales.{name}")
        assert response.status_code == 200
        pages.append(page_html(response).replace(name, "x").split("<h1")[1].split("csrfmiddlewaretoken")[0])
    assert pages[0] == pages[1]
    assert (
        ned.post("/grant/dataset:sales.customers", FORM).headers["Location"]
        == "/grant/dataset:sales.customers"
    )
    for url in (f"/grant/{SALARIES}", "/grant/dataset:hr.nothing", f"/entities/{SALARIES}"):
        assert ned.get(url).status_code == 404


def test_delegates_change_neither_entities_nor_principals(browse):
    ned = browse("ned")
    for url, status in (
        (f"/lifecycle/delete/{ORDERS}", 403),
        (f"/describe/{ORDERS}", 403),
        ("/people/", 404),
        ("/people/user:dee", 404),
        ("/suggest/principals?principal=n", 404),
        ("/plans/many", 404),
    ):
        assert ned.get(url).status_code == status


@pytest.mark.parametrize("name", ["aud", "sec", "ope"])
def test_roles_that_must_not_change_grants_are_no_delegates(name, cast, browse):
    cast.update(create_role_accounts())
    change_grants(grant=[(f"user:{name}", "namespace:sales", "ADMIN"), (f"user:{name}", ORDERS, "ADMIN")])
    assert account(name).is_principal
    before = database_state()
    assert browse(name).post(f"/grant/{ORDERS}", FORM).status_code == 403
    assert database_state() == before


def test_without_delegation_the_same_account_sees_its_own_privileges_only(browse, settings):
    settings.DELEGATION = False
    response = browse("ned").get(f"/entities/{ORDERS}?tab=access")
    assert "own" in response.context["holders"] and browse("ned").get(f"/grant/{ORDERS}").status_code == 403
