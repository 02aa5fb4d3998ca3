"""The page of an entity: children, holders, questions and lifecycle changes."""

import pytest
from django.utils.html import escape

from authzconsole.web.shared.links import entity_url
from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import JournalLine
from tests.support.authors import database_state, entity_states
from tests.support.cast import SETUP
from tests.support.changes import change_grants
from tests.support.pages import held_cells, page_html, post_as_shown, shown_effect, with_effect

SALES, ORDERS = "/entities/namespace:sales", "/entities/dataset:sales.orders"


def addresses(response) -> list[str]:
    return [str(row["entity"]) for row in response.context["children"]["rows"]]


def test_children_are_filtered_by_kind_state_and_name(browse):
    client = browse("ada")
    assert len(addresses(client.get(SALES))) == 6
    assert addresses(client.get(f"{SALES}?kind=application")) == ["application:sales.shop"]
    assert addresses(client.get(f"{SALES}?state=planned")) == ["dataset:sales.forecast"]
    assert addresses(client.get(f"{SALES}?find=ORDER")) == ["dataset:sales.orders"]
    assert addresses(client.get(f"{SALES}?find=sales")) == []
    assert addresses(client.get(f"{SALES}?kind=stream")) == []
    assert "Nothing matches" in page_html(client.get(f"{SALES}?kind=stream"))


def test_the_instance_lists_its_namespaces_by_default(browse):
    ensure_entities(states={parse_address("kerberosprincipal:etl/host.com@REALM"): "live"})
    children = browse("ada").get("/entities/instance:cdap").context["children"]
    assert [str(row["entity"]) for row in children["rows"]] == ["namespace:hr", "namespace:sales"]
    assert not children["is_filtered"] and [
        chip["title"] for chip in children["kinds"] if chip["is_current"]
    ] == ["namespaces"]
    everything = browse("ada").get("/entities/instance:cdap?kind=all").context["children"]
    assert len(everything["rows"]) == 3 and everything["kinds"][0]["is_current"]


def test_children_are_paged_both_ways_without_gaps(browse):
    ensure_entities(states={parse_address(f"stream:sales.s{number:03}"): "live" for number in range(60)})
    client, names, url = browse("ada"), [], SALES
    while url:
        page = client.get(url).context["children"]
        names += [str(row["entity"]) for row in page["rows"]]
        url, last = page["page"].next_url, page["page"]
    assert len(names) == len(set(names)) == 66 and names == sorted(
        names, key=lambda name: tuple(name.split(":", 1))
    )
    back = client.get(last.previous_url).context["children"]
    assert [str(row["entity"]) for row in back["rows"]] == names[25:50]
    first = client.get(back["page"].previous_url).context["children"]
    assert [str(row["entity"]) for row in first["rows"]] == names[:25] and first["page"].previous_url == ""


@pytest.mark.parametrize(
    "query",
    [
        "after=nonsense",
        "before=dataset:",
        "after=",
        "holders=0",
        "holders=-1",
        "holders=x",
        "holders=99999999999999999999",
        "find=%00",
        "state=undead",
        "kind=%F0%9F%92%A9",
    ],
)
def test_an_invalid_page_cursor_is_ignored(query, browse):
    assert browse("ada").get(f"{SALES}?{query}").status_code == 200


def test_the_selection_is_kept_across_pages_and_in_the_plan(browse):
    ensure_entities(states={parse_address(f"stream:sales.s{number:03}"): "live" for number in range(60)})
    client, first, last = browse("ada"), "dataset:sales.orders", "stream:sales.s040"
    page = client.get(
        SALES,
        {"address": [first, "nonsense", last, first], "subject": "user:dee", "find": "s", "tab": "inside"},
    )
    selection, text = page.context["children"]["selection"], page_html(page)
    assert set(selection["selected"]) == {first, last} and selection["other_parameters"] == [
        ("subject", "user:dee"),
        ("tab", "inside"),
    ]
    on_page = addresses(page)
    assert selection["on_other_pages"] == [address for address in (first, last) if address not in on_page]
    assert str(selection["next"]) == on_page[-1]
    for address in selection["on_other_pages"]:
        assert f'<input type="hidden" form="children-form" name="address" value="{address}">' in text
    assert (
        '<input type="hidden" name="subject" value="user:dee">' in text and 'formaction="/plans/many"' in text
    )
    plan_form = client.get(
        "/plans/many", {"address": [first, last], "selection": "yes", "find": "s", "subject": "user:dee"}
    )
    assert [text for text, _ in plan_form.context["selected_rows"]] == [first, last]


def test_a_filter_keeps_selected_entities_that_it_hides(browse):
    page = browse("ada").get(SALES, {"address": "dataset:sales.orders", "find": "no-such-name"})
    text = page_html(page)
    assert "Nothing matches" in text and "1 selected on other pages" in text and "data-selected" in text


@pytest.mark.parametrize("account", ["aud", "dee"])
def test_only_administrators_can_select_children(account, browse):
    page = browse(account).get(SALES, {"address": "dataset:sales.orders"})
    assert page.context["children"]["selection"] is None and "children-form" in page_html(page)
    assert 'form="children-form" name="address"' not in page_html(page)


def test_a_planned_entity_without_grants_and_children_can_be_deleted(browse):
    ensure_entities(
        states={
            parse_address("dataset:sales.idle"): "planned",
            parse_address("dataset:plans.inner"): "planned",
        }
    )
    client, url = browse("ada"), "/entities/dataset:sales.idle"
    assert 'href="/lifecycle/delete/dataset:sales.idle"' in page_html(client.get(url))
    for name in ("aud", "dee"):
        assert "/lifecycle/delete/" not in page_html(browse(name).get(url))
    # the dataset has a grant, the namespace has a child
    for address in ("dataset:sales.forecast", "namespace:plans"):
        assert "/lifecycle/delete/" not in page_html(client.get(f"/entities/{address}"))
    assert "/lifecycle/delete/" not in page_html(client.get("/entities/dataset:sales.forecast?holder=nobody"))
    assert "1 entity will be deleted" in page_html(
        client.get(with_effect("/lifecycle/delete/dataset:sales.idle"))
    )
    assert client.post("/lifecycle/delete/dataset:sales.idle").status_code == 303
    assert client.get(url).status_code == 404


def test_cells_distinguish_direct_grants_from_grants_through_a_group(browse):
    change_grants(
        author=SETUP, grant=[("user:grp", parse_address("program:sales.shop.workflow.daily"), "READ")]
    )
    rows = browse("ada").get("/entities/program:sales.shop.workflow.daily").context["holders"]["rows"]
    cells = {row["principal"].address: held_cells(row["cells"]) for row in rows}
    assert cells == {
        "user:grp": {"R": "direct", "X": "group"},
        "user:ned": {"A": "direct"},
        "group:operators": {"X": "direct"},
    }
    assert [row["principal"].members for row in rows if row["principal"].type == "group"] == [1]


def test_grants_on_planned_and_deleted_addresses_look_different(browse):
    planned = browse("ada").get("/entities/dataset:sales.forecast").context["holders"]["rows"][0]["cells"][0]
    deleted = browse("ada").get("/entities/dataset:sales.legacy").context["holders"]["rows"][0]["cells"][1]
    assert (planned.status, deleted.status) == ("planned", "leftover")
    assert (
        "applies once the entity exists" in planned.title
        and "leftover grant on a deleted address" in deleted.title
    )


def test_a_deleted_entity_warns_about_its_leftover_grants(browse):
    assert (
        "Deleted: this dataset no longer exists, but 1 leftover grant would apply again if it is recreated."
    ) in page_html(browse("aud").get("/entities/dataset:sales.legacy"))


def test_entities_with_fewer_than_two_administrators_show_a_warning(browse):
    client, url = browse("ada"), "/entities/dataset:hr.salaries"
    assert "No active user administers this dataset" in page_html(client.get(url))
    post_as_shown(client, "/grant/dataset:hr.salaries", {"principal": "user:ina", "privilege": "ADMIN"})
    assert "No active user administers this dataset" in page_html(client.get(url))
    for name, has_warning in (("ned", True), ("dee", False)):
        post_as_shown(
            client, "/grant/dataset:hr.salaries", {"principal": f"user:{name}", "privilege": "ADMIN"}
        )
        assert ("Only one active user administers this dataset" in page_html(client.get(url))) is has_warning
    assert "administers this" not in page_html(browse("dee").get(url))


def test_an_inactive_holder_is_marked(browse):
    rows = browse("ada").get(ORDERS).context["holders"]["rows"]
    assert {row["principal"].name: row["principal"].is_inactive for row in rows} == {
        "dee": False,
        "ina": True,
        "ned": False,
    }


def test_an_ordinary_account_sees_its_own_privileges(browse):
    own = browse("grp").get("/entities/program:sales.shop.workflow.daily").context["holders"]["own"]
    assert held_cells(own["cells"]) == {"X": "group"} and own["groups"] == ["group:operators"]


@pytest.mark.parametrize(
    ("query", "allowed"),
    [
        ("subject=user:dee&operation=read", True),
        ("subject=user:dee&operation=write", False),
        ("subject=user:dee&operation=read&generation=core", False),
        ("subject=user:dee&operation=explode", False),
    ],
)
def test_an_answer_states_the_decision_and_its_reason(query, allowed, browse):
    response = browse("ada").get(f"{ORDERS}?{query}")
    decision = response.context["ask"]["answer"]
    assert decision.is_permitted is allowed
    assert decision.sentence.startswith("Permitted: " if allowed else "Denied: ")
    assert decision.sentence.split(":", 1)[0] in page_html(response)


def test_an_answer_shows_its_source_and_missing_grants(browse):
    text = page_html(browse("ada").get(f"{ORDERS}?subject=user:dee&operation=write"))
    assert "002, Datasets, Write" in text
    assert "Missing grants</h3>" in text
    assert "/grant/dataset:sales.orders?principal=user:dee&amp;privilege=WRITE" in text


def test_the_permalink_uses_the_public_url(browse, settings):
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = "https://console.example", ["*"]
    url = f"{ORDERS}?subject=user:dee&operation=read"
    response = browse("ada").get(url, headers={"Host": "elsewhere.example"})
    assert response.context["ask"]["permalink"] == f"https://console.example{url}"
    assert "elsewhere" not in page_html(response)


def test_the_form_shows_the_context_fields_of_the_operation(browse):
    url = "/entities/application:sales.shop"
    names = {
        query: [
            field["name"] for field in browse("ada").get(f"{url}?{query}").context["ask"]["context_fields"]
        ]
        for query in ("operation=get", "operation=deploy")
    }
    assert names == {"operation=get": [], "operation=deploy": ["artifact", "artifact_is_new", "owner"]}
    response = browse("ada").get(
        f"{url}?subject=user:ned&operation=deploy&artifact=artifact:sales.new&artifact_is_new=true"
    )
    assert response.context["ask"]["answer"].missing_grants == (
        (parse_address("artifact:sales.new"), "ADMIN"),
    )


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("subject=team:x&operation=read", "is not a principal"),
        ("subject=user:&operation=read", "the name is empty"),
        ("subject=user:dee&operation=create&owner=nonsense", "context.owner"),
        (
            "subject=user:dee&operation=create&dataset_type=dataset:sales.orders",
            "must be the address of a dataset type",
        ),
    ],
)
def test_an_invalid_question_is_explained_in_the_form(query, fault, browse):
    response = browse("ada").get(f"{ORDERS}?{query}")
    assert response.status_code == 200
    assert fault in response.context["ask"]["fault"] and response.context["ask"]["answer"] is None


def test_live_readiness_counts_held_grants_and_lists_missing_ones(browse):
    answer = browse("ada").get(f"{SALES}?deleter=ned").context["readiness"]["answer"]
    assert answer["ready"] is True and "6 entities, and 6 are held" in answer["sentence"]
    assert "generation `final` requires ADMIN" in answer["sentence"]
    page = browse("ada").get(f"{SALES}?deleter=user:dee")
    answer = page.context["readiness"]["answer"]
    assert answer["ready"] is False and answer["missing_total"] == 6
    assert 'href="/grant/namespace:sales?principal=user:dee&amp;privilege=ADMIN"' in page_html(page)
    assert (
        "No user named nobody" in browse("ada").get(f"{SALES}?deleter=nobody").context["readiness"]["fault"]
    )


def test_htmx_gets_a_section_and_other_requests_the_page(browse, htmx):
    client = browse("ada")
    for part in ("children", "holders", "ask", "readiness", "history"):
        text = page_html(client.get(SALES, headers=htmx(part)))
        assert f'id="{part}"' in text and "<html" not in text
    restored = client.get(SALES, headers={**htmx("children"), "HX-History-Restore-Request": "true"})
    assert "<html" in page_html(restored)
    assert {"HX-Request", "HX-Target"} <= set(client.get(SALES).headers["Vary"].split(", "))


def test_the_latest_journal_lines_require_an_account_that_sees_everything(browse):
    assert browse("aud").get(f"{ORDERS}?tab=history").context["history"]["lines"]
    page = browse("dee").get(f"{ORDERS}?tab=history")
    assert "history" not in page.context and [link.name for link in page.context["tabs"]] == ["access", "ask"]


def test_an_unregistered_address_offers_registering_and_granting(browse):
    ada, aud = (browse(name).get("/entities/dataset:sales.next") for name in ("ada", "aud"))
    assert ada.status_code == aud.status_code == 404
    assert "/lifecycle/register/dataset:sales.next" in page_html(ada)
    assert "/lifecycle/" not in page_html(aud)


def test_a_kerberos_principal_with_slashes_has_a_page(browse):
    ensure_entities(states={parse_address("kerberosprincipal:etl/host.com@REALM"): "live"})
    response = browse("ada").get("/entities/instance:cdap?kind=kerberosprincipal")
    url = entity_url(response.context["children"]["rows"][0]["entity"])
    assert url == "/entities/kerberosprincipal:etl/host.com@REALM"
    assert browse("ada").get(url).status_code == 200


def test_the_delete_page_shows_the_forecast_and_deletes_nothing(browse):
    before = database_state()
    text = page_html(browse("ada").get(with_effect("/lifecycle/delete/namespace:sales")))
    assert (
        "6 entities will be deleted" in text
        and "1 planned entity remains planned" in text
        and "grants remain" in text
    )
    assert database_state() == before


def test_a_namespace_with_contents_is_deleted_only_if_its_name_is_entered(browse):
    client, before = browse("ada"), database_state()
    form = page_html(client.get(with_effect("/lifecycle/delete/namespace:sales")))
    assert 'name="confirmed_name"' in form and "Only this register changes." in form
    for name in ("", "sale", "Sales", "namespace:sales"):
        response = client.post(
            "/lifecycle/delete/namespace:sales", {"reason": "sold", "confirmed_name": name}
        )
        text = page_html(response)
        assert (
            response.status_code == 400
            and "enter the name of the namespace, sales" in text
            and 'value="sold"' in text
        )
        assert 'aria-invalid="true" aria-describedby="confirmed_name_error"' in text
    assert database_state() == before
    # an empty namespace and other kinds need no name
    ensure_entities(states={parse_address("namespace:idle"): "live"})
    for address in ("namespace:idle", "application:sales.shop"):
        assert "confirmed_name" not in page_html(client.get(f"/lifecycle/delete/{address}"))
        assert client.post(f"/lifecycle/delete/{address}").status_code == 303


def test_grants_survive_deletion_and_apply_again_after_recreation(browse):
    client = browse("ada")
    response = client.post(
        "/lifecycle/delete/namespace:sales", {"reason": "sold", "confirmed_name": "sales"}, follow=True
    )
    assert "namespace:sales was deleted with 5 entities in it" in page_html(response)
    assert entity_states()["dataset:sales.orders"] == "deleted"
    assert JournalLine.objects.get(action="delete", entity="namespace:sales").reason == "sold"
    assert "will apply" in page_html(client.get(with_effect("/lifecycle/recreate/namespace:sales")))
    client.post("/lifecycle/recreate/namespace:sales", {"reason": "bought back"})
    assert entity_states()["namespace:sales"] == "live"


def test_registering_leads_from_the_form_through_the_forecast_to_the_entity(browse):
    client = browse("ada")
    response = client.post("/register", {"parent": "namespace:sales", "kind": "dataset", "name": "forecast"})
    assert response.headers["Location"] == "/lifecycle/register/dataset:sales.forecast"
    page = client.get(with_effect(response.headers["Location"]))
    assert "1 existing grant will apply" in page_html(page)
    form = {"description": "Next year"} | shown_effect(page)
    response = client.post(response.headers["Location"], form, follow=True)
    assert (response.context["entity"].state, response.context["entity"].description) == ("live", "Next year")


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"kind": "program", "name": "x"}, "namespace:sales cannot contain"),
        ({"kind": "dataset", "name": ""}, "The dataset is empty"),
        ({"kind": "dataset", "name": "a b"}, "contains a character"),
        ({"kind": "", "name": "x"}, "namespace:sales cannot contain"),
    ],
)
def test_a_name_that_cannot_be_registered_is_explained(form, fault, browse):
    response = browse("ada").post("/register", {"parent": "namespace:sales", **form})
    assert response.status_code == 400 and fault in page_html(response).replace("&#x27;", "'")


def test_an_impossible_lifecycle_change_is_refused_with_a_remedy(browse):
    before = database_state()
    response = browse("ada").post("/lifecycle/register/program:sales.absent.workflow.w", {})
    assert response.status_code == 400
    assert "application:sales.absent, which contains it, is not registered" in page_html(response)
    assert database_state() == before


def test_holders_are_filtered_by_name_and_sorted_by_latest_grant(browse, htmx):
    change_grants(author=SETUP, grant=[("group:operators", parse_address("dataset:sales.orders"), "WRITE")])
    client, url = browse("ada"), "/entities/dataset:sales.orders"
    names = [row["principal"].name for row in client.get(url).context["holders"]["rows"]]
    assert names == ["dee", "ina", "ned", "operators"]
    part = client.get(f"{url}?order=latest", headers=htmx("holders"))
    assert [row["principal"].name for row in part.context["holders"]["rows"]][0] == "operators"
    assert 'aria-sort="descending"' in page_html(part)
    named = client.get(f"{url}?holder=E").context["holders"]["rows"]
    assert [row["principal"].name for row in named] == ["dee", "ned", "operators"]
    assert "No matching holders" in page_html(client.get(f"{url}?holder=zzz"))


@pytest.mark.parametrize(
    ("account", "url", "current", "names"),
    [
        ("ada", SALES, "inside", ["inside", "access", "ask", "history"]),
        ("ada", ORDERS, "access", ["access", "ask", "history"]),
        ("dee", ORDERS, "access", ["access", "ask"]),
        ("ada", f"{SALES}?tab=history", "history", ["inside", "access", "ask", "history"]),
        ("ada", f"{ORDERS}?tab=inside", "access", ["access", "ask", "history"]),
        ("ada", f"{SALES}?tab=undead", "inside", ["inside", "access", "ask", "history"]),
        # the parameters of a form or a link select its tab
        ("ada", f"{SALES}?deleter=ned", "ask", ["inside", "access", "ask", "history"]),
        ("ada", f"{SALES}?holder=n&order=latest", "access", ["inside", "access", "ask", "history"]),
        ("ada", f"{SALES}?subject=user:dee&holders=2", "ask", ["inside", "access", "ask", "history"]),
        (
            "ada",
            f"{SALES}?subject=user:dee&tab=inside&kind=dataset",
            "inside",
            ["inside", "access", "ask", "history"],
        ),
    ],
)
def test_the_tabs_depend_on_the_kind_and_the_account_and_the_url_selects_one(
    account, url, current, names, browse
):
    page = browse(account).get(url)
    assert [tab.name for tab in page.context["tabs"]] == names and page.context["tab"].name == current
    assert page.content.decode().count('aria-current="page"\n         hx-get="/entities/') == 1


def test_a_tab_link_keeps_the_filters_and_htmx_gets_only_the_tab(browse, htmx):
    client = browse("ada")
    url = f"{SALES}?kind=dataset&tab=access"
    assert f'href="{escape(url)}"' in page_html(client.get(f"{SALES}?kind=dataset"))
    text = page_html(client.get(url, headers=htmx("tab")))
    assert (
        'id="tab"' in text and 'id="holders"' in text and 'id="children"' not in text and "<h1>" not in text
    )
