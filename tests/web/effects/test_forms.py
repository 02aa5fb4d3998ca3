"""Every form that changes permissions shows the effect first, and makes only the change with the shown
effect.
"""

import pytest

from tests.support.authors import database_state
from tests.support.changes import change_grants
from tests.support.pages import page_html, shown_effect, text_of, with_effect

pytestmark = pytest.mark.django_db

# the URL of the form, its sentence about permissions, and the fields that are posted
FORMS = {
    "join": (
        "/people/membership?verb=add&user=out&group=operators",
        "Gives ",
        {"verb": "add", "user": "out", "group": "operators"},
    ),
    "leave": (
        "/people/membership?verb=remove&user=grp&group=operators",
        "Removes ",
        {"verb": "remove", "user": "grp", "group": "operators"},
    ),
    "deactivate": (
        "/accounts/change/user:ned?change=activity&active=no",
        "Removes ",
        {"change": "activity", "active": "no"},
    ),
    "activate": (
        "/accounts/change/user:ina?change=activity&active=yes",
        "Gives ",
        {"change": "activity", "active": "yes"},
    ),
    "register": ("/lifecycle/register/dataset:sales.forecast", "Gives ", {}),
    "recreate": ("/lifecycle/recreate/dataset:sales.legacy", "Gives ", {}),
    "delete": ("/lifecycle/delete/dataset:sales.orders", "Removes ", {}),
    "remove": ("/people/remove/user:ned", "Removes ", {"revoke_grants": "yes", "strand": "yes"}),
    "remove-group": ("/people/remove/group:operators", "Removes ", {"revoke_grants": "yes", "strand": "yes"}),
    "generation": ("/policies/existing/activate", "permission", {"from": "final"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_shows_the_effect_and_refuses_the_change_if_the_effect_is_different(browse, name):
    url, sentence, form = FORMS[name]
    page = browse("ada").get(with_effect(url))
    assert sentence in page_html(page) and "permission" in page_html(page)
    assert " gained</button>" in page_html(page) or " lost</button>" in page_html(page)
    shown = shown_effect(page)
    # gives and takes permissions in each of the effects above
    change_grants(
        grant=[
            (principal, address, "ADMIN")
            for principal in ("user:dee", "group:operators", "user:ned", "user:ina")
            for address in (
                "dataset:sales.orders",
                "dataset:sales.legacy",
                "dataset:sales.forecast",
                "dataset:hr.salaries",
            )
        ]
    )
    before = database_state()
    path = url.partition("?")[0]
    refused = browse("ada").post(path, form | shown)
    assert refused.status_code == 409 and "the effect of this change has changed" in page_html(refused)
    assert database_state() == before
    again = shown_effect(refused)
    assert again["effect"] != shown["effect"]
    assert browse("ada").post(path, form | again).status_code == 303 and database_state() != before


def test_a_new_member_is_added_only_after_the_effect_was_shown(browse, htmx):
    client, form = browse("ada"), FORMS["join"][2]
    before = database_state()
    first = client.post("/people/membership", form)
    assert first.status_code == 200 and "Gives " in page_html(first) and database_state() == before
    part = client.html("/people/membership", form, headers=htmx("change-effect"))
    assert '<div id="change-effect"' in part and "<form" not in part and "Add to group: " in part
    assert client.post("/people/membership", form | shown_effect(first)).status_code == 303


def test_accounts_that_see_no_grants_deactivate_without_numbers(browse, cast):
    cast["out"].role = "security-administrator"
    cast["out"].save()
    client, url = browse("out"), "/accounts/change/user:dee"
    page = client.get(f"{url}?change=activity&active=no")
    assert page.status_code == 200 and not shown_effect(page) and "permission" not in page_html(page)
    assert client.post(url, {"change": "activity", "active": "no"}).status_code == 303


@pytest.mark.parametrize("name", FORMS)
def test_a_page_appears_without_its_effect_and_confirms_nothing_before_it_is_there(browse, htmx, name):
    client, url = browse("ada"), FORMS[name][0]
    first = client.get(url)
    text = page_html(first)
    assert not shown_effect(first) and "Computing the effect" in text
    assert 'hx-trigger="load, ' in text and 'type="submit" disabled>' in text
    part = client.get(url, headers=htmx("change-effect"))
    text = page_html(part)
    assert shown_effect(part) == shown_effect(client.get(with_effect(url)))
    assert "<form" not in text and "load, " not in text and 'type="submit" disabled' not in text


@pytest.mark.parametrize("name", FORMS)
def test_the_part_with_the_effect_is_for_those_who_may_open_the_page(browse, htmx, name):
    url = FORMS[name][0]
    for account in ("ada", "aud", "ned", "dee"):
        page, part = (browse(account).get(url, headers=headers) for headers in ({}, htmx("change-effect")))
        assert page.status_code == part.status_code
        assert (part.status_code == 200) is (account == "ada") and bool(shown_effect(part)) is (
            account == "ada"
        )


@pytest.mark.parametrize(
    ("url", "max_queries"),
    [
        (FORMS[name][0], most)
        for name, most in (
            ("join", 30),
            ("leave", 35),
            ("delete", 36),
            ("register", 37),
            ("remove", 51),
            ("generation", 31),
        )
    ],
)
def test_the_number_of_queries_is_limited(browse, django_assert_max_num_queries, htmx, url, max_queries):
    client = browse("ada")
    client.get(url, headers=htmx("change-effect"))
    for headers in ({}, htmx("change-effect")):
        with django_assert_max_num_queries(max_queries):
            client.get(url, headers=headers)


def test_a_new_namespace_gives_nobody_a_level_by_operations_that_need_no_grant(browse):
    text = text_of(browse("ada").get(with_effect("/lifecycle/register/namespace:fresh")))
    assert (
        "Gives 8 permissions, on 1 entity. All of them need no grant as long as there is nothing that they act on."
        in text
    )
    assert "administer" not in text.split("All of them")[1].split("Entities and operations")[0]
