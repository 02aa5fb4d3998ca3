"""The page with all permissions that changes would change, and its downloads."""

import json
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group

from authzconsole.web.effects.wording import tally_phrases
from authzconsole.web.shared.levels import MAX_PEOPLE
from grants.effects.effect import MAX_PEOPLE_WITH_LEVELS
from grants.models import User
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db


def url_of(*changes, path="/effect", **parameters):
    """Return the URL of the second page, which contains the effect, or of a file."""
    return f"{path}?{urlencode([('change', json.dumps(change)) for change in changes] + list(parameters.items()) + [('preview', 'yes')])}"


REVOKE = ["revoke", "user:ned", "namespace:sales", "ADMIN"]


def test_the_page_lists_every_change_with_filters_and_downloads(browse):
    response = browse("ada").get(url_of(REVOKE))
    text = page_html(response)
    assert (
        "Revoke ADMIN on namespace:sales from user:ned" in text
        and "Gains and losses by person and access level" in text
    )
    effect = response.context["permissions"]["effect"]
    assert effect.tally.total > 0 and f"Removes {effect.tally.total} permission" in text
    part = browse("ada").get(
        url_of(REVOKE, effect_entity="nothing"), headers={"HX-Request": "true", "HX-Target": "permissions"}
    )
    assert "No matching changes" in page_html(part) and "<html" not in page_html(part)
    jsonl = browse("ada").get(url_of(REVOKE, path="/effect.jsonl"))
    rows = [json.loads(line) for line in jsonl.getvalue().splitlines()]
    assert len(rows) == effect.tally.total and {row["user"] for row in rows} == {"ned"}
    csv = browse("ada").get(url_of(REVOKE, path="/effect.csv", effect_operation="delete")).getvalue().decode()
    assert csv.startswith("user,entity,operation,before,after,intended") and ",create," not in csv


def test_the_page_appears_without_its_effect_and_loads_it(browse, htmx):
    url = url_of(REVOKE).removesuffix("&preview=yes")
    first = browse("ada").get(f"{url}&effect_change=lost")
    text = page_html(first)
    assert (
        "Computing the effect" in text
        and "Removes " not in text
        and "effect" not in first.context["permissions"]
    )
    assert 'hx-trigger="load"' in text and "effect_change=lost&amp;preview=yes#permissions" in text
    section = browse("ada").get(url, headers=htmx("permissions"))
    assert "Removes " in page_html(section) and 'hx-trigger="load"' not in page_html(section)
    for account, status in (("aud", 200), ("ned", 404), ("dee", 404)):
        assert browse(account).get(url, headers=htmx("permissions")).status_code == status


def test_the_table_of_levels_names_the_first_of_many_people(browse):
    numbers = range(MAX_PEOPLE_WITH_LEVELS + 5)
    members = User.objects.bulk_create(User(username=f"member{number:02}") for number in numbers)
    Group.objects.get(name="operators").user_set.add(*members)
    page = browse("ada").get(url_of(["grant", "group:operators", "dataset:sales.orders", "READ"]))
    section = page.context["permissions"]
    assert section["effect"].people_count > MAX_PEOPLE_WITH_LEVELS
    for part in section["table"]["parts"]:
        assert len(part["rows"]) == MAX_PEOPLE
        assert part["total"]["gained"] > sum(row["gained"] for row in part["rows"])


def test_the_totals_are_those_of_the_filters(browse):
    change = ["grant", "user:out", "dataset:sales.orders", "READ"]
    section = browse("ada").get(url_of(change)).context["permissions"]
    effect = section["effect"]
    assert "dataset:sales.orders" in {str(link) for link, _ in section["tops"]["entities"]}
    all_gained, beyond = effect.tally.gained_for + effect.tally.gained_beyond, effect.tally.gained_beyond
    assert 1 < beyond < all_gained
    page = browse("ada").get(url_of(change, effect_purpose="beyond"))
    text, tops = page_html(page), page.context["permissions"]["tops"]
    attached = f"({beyond} come with the grants)"
    assert f"With these filters: gives {beyond} permissions {attached}, on 1 entity." in text
    assert f"Without: gives {all_gained} permissions {attached}, on 2 entities." in text
    (part,) = page.context["permissions"]["table"]["parts"]
    assert part["title"] == "Intended, with what comes with the grants" and [
        row["user"] for row in part["rows"]
    ] == ["out"]
    assert {tally_phrases(tally) for _, tally in tops["entities"]} == {f"gains {beyond}"}
    assert "dataset:sales.orders" not in {str(link) for link, _ in tops["entities"]}
    text = browse("ada").html(url_of(change, effect_user="nobody"))
    assert "With these filters: changes no permission." in text and "Gains and losses by person" not in text


@pytest.mark.parametrize(
    "change",
    [
        ["grant", "user:out", "dataset:sales.orders", "READ"],
        ["join", "out", "operators"],
        ["leave", "grp", "operators"],
        ["deactivate", "ned"],
        ["activate", "ina"],
        ["register", "dataset:sales.forecast", "user:dee"],
        ["delete", "namespace:sales"],
        ["remove", "user:ned"],
        ["remove", "group:operators"],
        ["generation", "existing"],
    ],
)
def test_each_change_has_an_effect(browse, change):
    assert browse("ada").get(url_of(change)).context["permissions"]["effect"].has_effect


def test_the_page_counts_the_entities_left_without_administrators(browse):
    page = browse("ada").get(url_of(REVOKE))
    assert page.context["permissions"][
        "stranding"
    ].without_admin_count == 1 and "would have no ADMIN holder" in page_html(page)
    page = browse("ada").get(url_of(["remove", "user:ned"]))
    assert "6 entities would have fewer than two ADMIN holders" in page_html(page)
    page = browse("ada").get(url_of(["join", "out", "operators"]))
    assert "No entity loses its ADMIN holders" in page_html(page)


def test_an_account_that_becomes_a_principal_has_an_effect_where_all_principals_are_permitted_something(
    browse,
):
    page = browse("ada").get(url_of(["principal", "aud"], generation="existing"))
    assert "Make the account user:aud a principal" in page_html(page)
    assert page.context["permissions"]["effect"].people_count == 1


def test_the_page_shows_the_effect_at_the_beginning_of_each_period(browse, htmx):
    client = browse("ada")
    changes = [
        ["grant", "user:out", "dataset:sales.orders", "READ"],
        ["grant", "user:out", "dataset:hr.salaries", "READ", "2126-01-01T00:00:00Z", ""],
    ]
    page = client.get(url_of(*changes))
    text, section = page_html(page), page.context["permissions"]
    assert (
        "to user:out from 1 January 2126, 00:00 UTC" in text
        and "From 1 January 2126" in text
        and "Shown below" in text
    )
    assert [time["is_shown"] for time in section["times"]] == [True, False]
    later = client.get(section["times"][1]["url"], headers=htmx("permissions")).context["permissions"]
    assert (
        later["effect"].tally.total > section["effect"].tally.total
        and later["time"] == "2126-01-01T00:00:00Z"
    )
    assert "effect_at=2126" in later["downloads"][0][1]
    urls = [part["downloads"][0][1] for part in (later, section)]
    rows = [client.get(url).getvalue().splitlines() for url in urls]
    assert [len(lines) - 1 for lines in rows] == [later["effect"].tally.total, section["effect"].tally.total]
    assert not client.get(url_of(changes[0])).context["permissions"]["times"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{}",
        "[]",
        '["grant"]',
        '["grant","user:out","dataset:x","READ"]',
        '["join","\\ud800","a"]',
        '["deactivate",""]',
        '["generation","newest"]',
        "[" * 5_000,
    ],
)
def test_an_unknown_change_is_not_found(browse, text):
    assert browse("ada").get(f"/effect?{urlencode({'change': text})}").status_code == 404


def test_the_page_leaves_out_no_change(browse):
    text = '["deactivate","out"]'
    statuses = [
        browse("ada").get(f"/effect?{urlencode([('change', text)] * count)}").status_code
        for count in (100, 101)
    ]
    assert statuses == [200, 404]


def test_above_the_limit_the_page_says_why(browse, settings):
    settings.EFFECT_MAX_ENTITIES = 1
    assert "more than 1 entities" in browse("ada").html(url_of(["delete", "namespace:sales"]))
    assert browse("ada").get(url_of(REVOKE, path="/effect.csv")).status_code == 409


def test_the_number_of_queries_does_not_grow_with_the_changes(browse, django_assert_max_num_queries):
    client = browse("ada")
    client.get(url_of(REVOKE))
    for change in (
        REVOKE,
        *(["grant", "user:out", address, "READ"] for address in ("dataset:sales.orders", "namespace:hr")),
    ):
        with django_assert_max_num_queries(28):
            client.get(url_of(change))
