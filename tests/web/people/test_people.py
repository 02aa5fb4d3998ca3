"""The pages of users and groups: access, contents, changes and query counts."""

from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Group
from django.contrib.messages import get_messages

from authzconsole.web.shared.links import principal_link
from entities.address import parse_address
from grants.history import catch_up
from grants.models import JournalLine, Plan, User
from tests.support.authors import database_state
from tests.support.changes import add_grant, change_grants, set_user_active
from tests.support.pages import held_cells, page_html, post_as_shown, with_effect

MAX_QUERIES = {
    "/people/": 3,
    "/people/?type=group": 3,
    "/people/user:dee": 57,
    "/people/user:dee?in=namespace:sales": 57,
    "/people/user:grp?through=operators": 61,
    "/people/group:operators": 54,
    "/people/group:operators?in=namespace:sales": 54,
    "/people/leaving/user:ned": 23,
    "/people/leaving/group:operators": 12,
    "/people/compare?one=dee&other=grp": 55,
    "/my-access": 53,
}


def messages_of(response) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def test_lists_filter_by_part_of_the_name(browse):
    client = browse("ada")
    groups = client.get("/people/?type=group&find=oper").context["page"].rows
    assert [(row.name, row.total_members) for row in groups] == [("operators", 1)]
    assert "No matches" in page_html(client.get("/people/?find=zzz"))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["ada", "aud", "dee", "grp", "ina", "ned", "out"]),
        ("activity=inactive", ["ina"]),
        ("role=auditor", ["aud"]),
        ("account=only", ["ada", "aud"]),
        ("account=service", []),
        ("holds=yes", ["dee", "ina", "ned"]),
        ("holds=no&account=person", ["ada", "aud", "grp", "out"]),
        ("group=operators", ["grp"]),
        ("find=N&activity=active", ["ned"]),
    ],
)
def test_the_list_has_all_accounts_and_filters(browse, query, names):
    assert [row.username for row in browse("aud").get(f"/people/?{query}").context["page"].rows] == names


def test_the_list_can_be_paged_forward_and_back(browse):
    User.objects.bulk_create(User(username=f"w{number:03}") for number in range(60))
    client, names, url = browse("ada"), [], "/people/?find=w0"
    while url:
        page = client.get(url).context["page"]
        names += [row.username for row in page.rows]
        previous, url = page.previous_url, page.next_url
    assert names == [f"w{number:03}" for number in range(60)]
    assert [row.username for row in client.get(previous).context["page"].rows] == [
        f"w{number:03}" for number in range(25, 50)
    ]


def test_the_visible_entities_of_a_user_with_many_grants_are_loaded_after_the_page(browse, htmx, monkeypatch):
    monkeypatch.setattr("grants.access.what_can.MAX_GRANTS_TO_COUNT_AT_ONCE", 1)
    monkeypatch.setattr("authzconsole.web.people.access.ROWS_PER_PAGE", 1)
    client, url = browse("aud"), "/people/user:dee?in=namespace:sales"
    page = client.get(url)
    assert page.context["visibility"] == {"is_later": True} and page.context["grants"]["rows"]
    section = client.get(url, headers=htmx("visibility"))
    rows = [row["entity"] for row in section.context["visibility"]["rows"]]
    assert rows and "is_later" not in section.context["visibility"]
    at_once = client.get(f"{url}&tree=1").context["visibility"]["rows"]
    assert [row["entity"] for row in at_once] == rows


def test_visible_entities_of_a_user_name_the_grant_that_makes_them_visible(browse):
    rows = browse("aud").get("/people/user:dee").context["visibility"]["rows"]
    (row,) = rows
    assert (str(row["entity"]), row["grants_inside"], row["reason"]["is_only"]) == (
        "namespace:sales",
        2,
        False,
    )
    (row,) = browse("aud").get("/people/user:grp").context["visibility"]["rows"]
    assert row["reason"]["group"] == "group:operators"
    inside = browse("aud").get("/people/user:dee?in=namespace:sales").context["visibility"]["rows"]
    assert [str(row["entity"]) for row in inside] == ["dataset:sales.legacy", "dataset:sales.orders"]


def test_visible_entities_of_a_group_come_from_its_own_grants(browse):
    client = browse("aud")
    (row,) = client.get("/people/group:operators").context["visibility"]["rows"]
    reason = row["reason"]
    assert (str(row["entity"]), row["grants_inside"], reason["group"]) == ("namespace:sales", 2, "")
    # two grants make it visible; the database decides which of them is named
    assert reason["privilege"] in ("EXECUTE", "READ")
    inside = client.get("/people/group:operators?in=namespace:sales").context["visibility"]["rows"]
    assert [str(row["entity"]) for row in inside] == [
        "application:sales.shop",
        "dataset:sales.forecast",
    ]
    assert held_cells(inside[1]["cells"]) == {"R": "planned"}
    deepest = client.get("/people/group:operators?in=application:sales.shop").context["visibility"]["rows"]
    assert [(str(row["entity"]), row["reason"]["is_on_entity"]) for row in deepest] == [
        ("program:sales.shop.workflow.daily", True)
    ]


def test_grants_that_members_hold_otherwise_do_not_count_for_the_group(browse, cast):
    Group.objects.get(name="operators").user_set.add(cast["ned"])
    client = browse("aud")
    text = page_html(client.get("/people/group:operators"))
    assert "Entities visible through this group" in text
    assert client.get("/people/group:operators?in=namespace:hr").context["visibility"]["rows"] == []
    rows = client.get("/people/group:operators?in=namespace:sales").context["visibility"]["rows"]
    assert "dataset:sales.customers" not in {str(row["entity"]) for row in rows}


def test_a_group_without_members_shows_its_visible_entities(browse):
    Group.objects.create(name="night")
    assert browse("aud").get("/people/group:night").context["visibility"]["rows"] == []
    add_grant("group:night", "dataset:hr.salaries", "READ")
    (row,) = browse("aud").get("/people/group:night").context["visibility"]["rows"]
    assert (str(row["entity"]), row["reason"]["is_only"]) == ("namespace:hr", True)


def test_a_namespace_visible_through_a_single_grant_says_so(browse):
    add_grant("user:out", "program:sales.shop.workflow.daily", "EXECUTE")
    (row,) = browse("aud").get("/people/user:out").context["visibility"]["rows"]
    assert (row["reason"]["privilege"], str(row["reason"]["entity"]), row["reason"]["is_only"]) == (
        "EXECUTE",
        "program:sales.shop.workflow.daily",
        True,
    )


def test_the_tree_does_not_open_invisible_containers(browse):
    for address in ("namespace:hr", "namespace:nowhere", "nonsense"):
        response = browse("dee").get(f"/my-access?in={address}")
        assert response.context["visibility"]["rows"] == [] and response.context["visibility"]["trail"] == []


def test_grants_of_a_group_are_separate_from_direct_grants(browse):
    client = browse("ada")
    assert client.get("/people/user:grp").context["grants"]["rows"] == []
    rows = client.get("/people/user:grp?through=operators").context["grants"]["rows"]
    assert [str(row["entity"]) for row in rows] == [
        "dataset:sales.forecast",
        "program:sales.shop.workflow.daily",
    ]
    assert client.get("/people/user:dee?through=operators").context["grants"]["group"] is None


def test_a_grant_can_be_revoked_from_the_page_of_the_user(browse):
    client = browse("ada")
    (cell,) = [
        cell
        for row in client.get("/people/user:dee").context["grants"]["rows"]
        for cell in row["cells"]
        if cell.url.startswith("/revoke/dataset:sales.orders")
    ]
    assert client.get(cell.url).status_code == 200
    assert "/revoke/" not in page_html(browse("aud").get("/people/user:dee"))


def test_membership_changes_are_journalled_and_confirmed(browse):
    client = browse("ada")
    sent = {"verb": "add", "user": "user:dee", "group": "operators", "page": "user:dee", "reason": "new team"}
    response = post_as_shown(client, "/people/membership", sent)
    assert (response.status_code, response["Location"]) == (303, "/people/user:dee")
    assert messages_of(response) == ["user:dee is in group:operators now."]
    assert JournalLine.objects.get(action="member-add").reason == "new team"
    text = page_html(
        client.get("/people/membership?verb=remove&user=dee&group=operators&page=group:operators")
    )
    assert "no longer be a member of" in text and "2 grants" in text
    sent = {"verb": "remove", "user": "dee", "group": "operators", "page": "group:operators"}
    response = client.post("/people/membership", sent)
    assert (
        response["Location"] == "/people/group:operators"
        and not User.objects.get(username="dee").groups.exists()
    )


def test_removing_a_member_warns_about_stranded_entities(browse):
    client, url = browse("ada"), "/people/membership?verb=remove&user=grp&group=operators"
    assert "No entity loses its ADMIN holders." in page_html(client.get(with_effect(url)))
    post_as_shown(
        client, "/grant/dataset:hr.salaries", {"principal": "group:operators", "privilege": "ADMIN"}
    )
    text = page_html(client.get(with_effect(url)))
    assert "would have no ADMIN holder" in text and 'href="/entities/dataset:hr.salaries"' in text
    for unknown in ("user=nobody&group=operators", "user=grp&group=nothing", "verb=add"):
        assert "fewer than two" not in page_html(
            client.get(with_effect(f"/people/membership?verb=remove&{unknown}"))
        )


def test_latest_changes_link_to_the_filtered_journal(browse):
    for page, journal in (
        ("/people/user:dee", "/journal/?principal=user%3Adee"),
        ("/people/group:operators", "/journal/?principal=group%3Aoperators"),
        ("/entities/dataset:sales.orders?tab=history", "/journal/?entity=dataset:sales.orders"),
    ):
        assert f'href="{journal}">View in journal' in page_html(browse("aud").get(page))
        lines = [row["line"] for row in browse("aud").get(journal).context["rows"]]
        assert lines and {str(line.entity if "entity" in journal else line.principal) for line in lines} == {
            page.partition("?")[0].partition("/")[2].partition("/")[2]
        }
    assert "View in journal" not in page_html(browse("dee").get("/entities/dataset:sales.orders?tab=history"))


def test_a_user_page_says_in_one_row_what_each_group_gives_and_how_the_user_joined(browse):
    add_grant("group:operators", "dataset:sales.orders", "ADMIN")
    add_grant("group:operators", "dataset:sales.customers", "ADMIN")
    sent = {"verb": "add", "user": "dee", "group": "operators", "page": "user:dee", "reason": "new team"}
    post_as_shown(browse("ada"), "/people/membership", sent)
    end = {"end": "time", "valid_until": "2100-01-01T00:00:00Z", "reason": "until the end"}
    post_as_shown(browse("ada"), "/people/membership", sent | end)

    response = browse("ada").get("/people/user:dee")
    row = response.context["groups"]["rows"][0]
    assert [(level["level"], level["total"]) for level in row["levels"]] == [("administers", 2), ("runs", 1)]
    assert row["join"].reason == "new team", "a later line changed only the period"
    for level in row["levels"]:
        listed = browse("ada").get(level["url"]).context["access"]["rows"]
        assert len(listed) == level["total"], level["url"]
    own = page_html(browse("dee").get("/my-access"))
    assert "new team" not in own and "by ada" not in own and "/people/" not in own


def test_counts_of_grants_and_memberships_lead_to_them(browse):
    people = page_html(browse("aud").get("/people/"))
    assert (
        'href="/people/user:grp#groups">1</a>' in people and 'href="/people/user:dee#grants">2</a>' in people
    )
    assert "/people/user:out#" not in people
    assert 'href="/people/group:operators#members">1</a>' in page_html(
        browse("aud").get("/people/?type=group")
    )
    leaving = page_html(browse("aud").get("/people/leaving/user:dee"))
    assert 'href="/people/user:dee#grants"' in leaving and 'href="/people/user:dee#groups"' in leaving


def test_the_page_counts_direct_grants_and_their_entities(browse):
    add_grant("user:dee", "dataset:sales.orders", "WRITE")
    page = browse("aud").get("/people/user:dee")
    grants = page.context["grants"]
    assert (grants["total_grants"], grants["total"]) == (3, 2)
    assert 'class="count">3<' in page_html(page) and "on 2 entities" in page_html(page)
    leaving = page_html(browse("aud").get("/people/leaving/user:dee"))
    assert ">3<" in leaving and "direct grants" in leaving


def test_the_page_of_a_group_lists_who_joined_or_left_before_and_after_the_history_is_written(browse):
    Group.objects.create(name="night operators")
    url = "/people/group:operators"
    for verb, group in (("add", "operators"), ("add", "night operators"), ("remove", "operators")):
        sent = {"verb": verb, "user": "dee", "group": group, "page": "user:dee", "reason": f"{verb} {group}"}
        post_as_shown(browse("ada"), "/people/membership", sent)

    def lines() -> list[str]:
        return [row["line"].reason for row in browse("ada").get(url).context["members"]["lines"]]

    assert lines() == ["remove operators", "add operators"]
    catch_up()
    assert lines() == ["remove operators", "add operators"]
    assert "Who joined or left last" in page_html(browse("aud").get(url))


def test_an_invalid_membership_is_explained_and_keeps_the_input(browse):
    before = database_state()
    response = browse("ada").post(
        "/people/membership", {"verb": "add", "user": "dee", "group": "opers", "reason": "x"}
    )
    text = page_html(response)
    assert response.status_code == 400 and "group:opers does not exist" in text
    assert 'value="dee"' in text and 'value="opers"' in text and database_state() == before


def test_users_and_groups_are_added_with_a_reason(browse):
    client = browse("ada")
    response = client.post(
        "/people/add", {"type": "user", "name": "zoë/b", "email": "z@example.com", "reason": "hired"}
    )
    assert (
        response["Location"] == "/people/user:zo%C3%AB%2Fb"
        and client.get(response["Location"]).status_code == 200
    )
    assert JournalLine.objects.get(action="user-add").reason == "hired"
    assert client.post("/people/add", {"type": "group", "name": "night"})["Location"] == "/people/group:night"
    assert Group.objects.filter(name="night").exists()
    refused = client.post("/people/add", {"type": "user", "name": " ", "email": "kept@example.com"})
    assert refused.status_code == 400 and "kept@example.com" in page_html(refused)


@pytest.mark.parametrize(
    "name", ["a/b", "a/../b", "a?b", "a#b", "a%2Fb", "a&b", " a ", 'a"b', "user:x", ".."]
)
def test_names_with_special_characters_link_to_their_own_page(name, browse):
    User.objects.create(username=name)
    (row,) = [row for row in browse("ada").get("/people/").context["page"].rows if row.username == name]
    assert "/.." not in urlsplit(principal_link(row).url).path
    assert browse("ada").get(principal_link(row).url).context["principal"].name == name


def test_the_levels_of_users_with_many_grants_are_loaded_after_the_comparison(browse, htmx, monkeypatch):
    monkeypatch.setattr("grants.access.what_can.MAX_GRANTS_TO_COUNT_AT_ONCE", 0)
    client, url = browse("ada"), "/people/compare?one=dee&other=ned"
    page = client.get(url)
    assert page.context["is_later"] and not page.context["levels"] and page.context["rows"]
    section = client.get(url, headers=htmx("levels"))
    assert section.context["levels"] and "page" not in section.context
    assert client.get(f"{url}&levels=1").context["levels"] == section.context["levels"]


def test_two_users_are_compared_and_a_plan_copies_grants(browse):
    client = browse("ada")
    response = client.get("/people/compare?one=dee&other=user:out")
    assert [str(row["entity"]) for row in response.context["rows"]] == [
        "dataset:sales.legacy",
        "dataset:sales.orders",
    ]
    response = client.post("/plans/copy", {"source": "user:dee", "target": "user:out"})
    assert response.status_code == 303 and Plan.objects.get().effect["grants"] == 2
    assert "No user named nobody." in page_html(client.get("/people/compare?one=dee&other=nobody"))
    assert "No differences" in page_html(client.get("/people/compare?one=dee&other=dee"))


def test_a_comparison_says_when_it_is_incomplete(browse, monkeypatch):
    client, url, words = browse("ada"), "/people/compare?one=ned&other=dee", "grants. Only the first"
    for limit, is_cut in ((8, False), (7, True)):
        monkeypatch.setattr("grants.principals.user_comparison.MAX_DIFFERENCES", limit)
        monkeypatch.setattr("authzconsole.web.people.comparison.MAX_DIFFERENCES", limit)
        text = page_html(client.get(url))
        assert (f"more than {limit} {words}" in text, words in text) == (is_cut, is_cut)


def test_off_boarding_lists_the_entities_that_would_be_stranded(browse):
    response = browse("aud").get("/people/leaving/user:ned")
    assert (response.context["without_admin"], response.context["total_stranded"]) == (6, 6)
    assert "Create plan" not in page_html(response)
    assert browse("ada").get("/people/leaving/user:dee").context["total_stranded"] == 0


def test_removing_a_group_lists_stranded_entities_and_affected_members(browse):
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    response = browse("ada").get("/people/leaving/group:operators")
    loss = response.context["loss"]
    assert (loss.without_admin_count, loss.one_admin_count, response.context["grants"]) == (1, 0, 3)
    assert [member.username for member in response.context["members"]] == ["grp"]
    assert "Create plan" in page_html(response) and "Create plan" not in page_html(
        browse("aud").get("/people/leaving/group:operators")
    )


def test_my_access_shows_own_grants_and_no_other_principals(browse):
    text = page_html(browse("dee").get("/my-access"))
    assert "dataset:sales." in text and "<b>orders</b>" in text
    for name in ("ned", "grp", "ina", "out", "operators", "the tests"):
        assert f">{name}<" not in text and f"user:{name}" not in text and f"by {name}" not in text
    text = page_html(browse("grp").get("/my-access?through=operators")).replace(
        'action="/sign-out" method="post"', ""
    )
    assert "operators" in text and "/people/" not in text and 'method="post"' not in text


def test_sections_are_rendered_alone_if_the_principal_has_them(browse, htmx):
    for part in ("visibility", "grants", "groups", "manager", "history"):
        response = browse("ada").get("/people/user:dee", headers=htmx(part))
        assert response.status_code == 200 and "<html" not in page_html(response)
    assert browse("ada").get("/people/user:dee", headers=htmx("members")).status_code == 404
    for part in ("visibility", "members"):
        assert browse("ada").get("/people/group:operators", headers=htmx(part)).status_code == 200
    assert browse("dee").get("/my-access", headers=htmx("history")).status_code == 404


@pytest.mark.parametrize(("url", "max_queries"), MAX_QUERIES.items())
def test_the_number_of_queries_does_not_grow_with_the_data(
    url, max_queries, browse, django_assert_max_num_queries
):
    for number in range(30):
        Group.objects.create(name=f"group{number}").user_set.add(
            User.objects.create(username=f"more{number}")
        )
    Group.objects.get(name="group1").user_set.add(User.objects.get(username="dee"))
    Group.objects.get(name="operators").user_set.add(*User.objects.filter(username__startswith="more"))
    addresses = [parse_address(f"dataset:sales.more{number}") for number in range(40)]
    change_grants(
        grant=[
            (principal, address, "ADMIN")
            for principal in ("user:dee", "group:operators")
            for address in addresses
        ]
    )
    client = browse("dee" if url == "/my-access" else "ada")
    assert client.get(url).status_code == 200
    with django_assert_max_num_queries(max_queries):
        client.get(url)


def see_as(client, name: str):
    return client.post("/people/see-as", {"user": name})


def test_impersonation_shows_the_pages_of_the_other_user_and_says_so(browse):
    client = browse("aud")
    assert see_as(client, "dee")["Location"] == "/"
    page = client.get("/entities/namespace:sales")
    assert page.context["children"]["total"] == 2 and "You see the console as" in page_html(page)
    assert client.get("/entities/namespace:hr").status_code == 404
    assert client.get("/people/").status_code == 404
    response = client.post("/people/see-as", {"user": ""})
    assert response["Location"] == "/people/user:dee"
    assert client.get("/entities/namespace:hr").status_code == 200


def test_nothing_can_be_changed_during_impersonation(browse):
    client, before = browse("ada"), database_state()
    see_as(client, "ned")
    assert (
        post_as_shown(
            client, "/grant/dataset:sales.orders", {"principal": "user:out", "privilege": "READ"}
        ).status_code
        == 403
    )
    assert client.post("/password", {}).status_code == 403
    assert database_state() == before


def test_only_administrators_and_auditors_can_impersonate(browse, cast):
    assert see_as(browse("dee"), "ned").status_code == 404
    assert see_as(browse("ada"), "nobody").status_code == 404
    client = browse("ada")
    see_as(client, "dee")
    User.objects.filter(username="ada").update(role="ordinary")
    assert client.get("/").context["request"].impersonator is None


def test_signing_out_ends_impersonation(browse):
    client = browse("ada")
    see_as(client, "dee")
    assert client.post("/sign-out").status_code == 302
    assert client.get("/").status_code == 302


def test_the_first_button_of_an_inactive_user_leads_to_the_activation(browse):
    client = browse("ada")
    assert "Add access like a colleague" in client.html("/people/user:dee")
    set_user_active("dee", active=False)
    page = client.html("/people/user:dee")
    assert '<a class="button main" href="#account">Activate</a>' in page
    assert "Add access like a colleague" not in page
