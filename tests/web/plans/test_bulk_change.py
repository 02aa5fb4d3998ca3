"""The forms that create plans by bulk change, ghost grant cleanup and import."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import ancestor_kinds
from entities.models import Entity
from entities.vocabulary import KINDS, Privilege
from grants.models import Plan, UserGrant
from grants.plans.sources.change_file import SAMPLES
from grants.usage.storage import UsageRecord, add_usage
from tests.support.authors import all_grants, database_state
from tests.support.cast import SALES
from tests.support.changes import change_grants
from tests.support.pages import page_html, shown_effect_of_plan, text_of
from tests.support.reports import create_report

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
BULK, GHOSTS, IMPORT = "/plans/many", "/plans/ghosts", "/plans/import"
ALL_KINDS = [kind for kind in KINDS if "namespace" in ancestor_kinds(kind)]
INSIDE = {
    "within": "namespace:sales",
    "verb": "grant",
    "principal": "user:out",
    "privilege": ["READ"],
    "kind": ALL_KINDS,
    "itself": "yes",
}
FILE = f"verb,principal,entity,privilege\ngrant,user:out,{ORDERS},READ\nrevoke,user:ned,{ORDERS},ADMIN\n"


def plan_addresses(response) -> set[str]:
    """Return the addresses of the items of the displayed plan."""
    return {str(row.address) for row in response.context["plan"].items.all()}


def form_fields(response) -> dict[str, list[str]]:
    """Return the values that the form of the page would send without further input."""
    fields: dict[str, list[str]] = {}
    for tag in re.findall(
        r"<input\b[^>]*>", response.content.decode().split('<div class="block narrow">')[1]
    ):
        attributes = {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        is_sent = attributes["type"] not in ("checkbox", "radio") or " checked" in tag
        if is_sent and attributes["name"] != "csrfmiddlewaretoken":
            fields.setdefault(attributes["name"], []).append(attributes.get("value", ""))
    return fields


def test_a_container_page_links_to_a_bulk_change(browse):
    client = browse("ada")
    page = client.get("/entities/namespace:sales")
    assert 'href="/plans/many?within=namespace:sales"' in page_html(page)
    form = client.get("/plans/many?within=namespace:sales")
    data = form_fields(form)
    assert data == {
        "verb": ["grant"],
        "principal": [""],
        "within": ["namespace:sales"],
        "valid_from": [""],
        "valid_until": [""],
    }
    assert "Nothing is selected." in text_of(form)
    assert {row["name"]: row["total"] for row in form.context["kinds"] if row["total"]} == {
        "artifact": 1,
        "application": 1,
        "program": 1,
        "dataset": 2,
    }
    before = all_grants()
    data = form_fields(client.post(BULK, data | {"select": "all"}))
    assert data["itself"] == ["yes"] and data["kind"] == [kind for kind in ALL_KINDS if kind != "securekey"]
    page = client.post(BULK, data | {"principal": "user:out", "privilege": ["READ"]}, follow=True)
    assert (
        plan_addresses(page) == set(SALES) and "6 grants to add" in text_of(page) and all_grants() == before
    )
    plan = page.context["plan"]
    form = shown_effect_of_plan(client, plan) | {"reason": "she audits sales", "beyond": "yes"}
    client.post(f"/plans/{plan.pk}/apply", form)
    assert all_grants() - before == {("user:out", address, "READ") for address in SALES}


def test_the_form_counts_what_is_selected_and_what_is_already_held(browse, htmx):
    client, before = browse("ada"), database_state()
    inside = INSIDE | {
        "kind": ["dataset"],
        "itself": "",
        "principal": "user:ned",
        "more": "group:operators\nuser:out",
    }
    for change, message in (
        ({"principal": "", "more": ""}, "2 entities selected."),
        ({"privilege": []}, "2 entities selected."),
        ({"privilege": ["ADMIN", "READ"]}, "2 entities selected: 10 grants to add, 2 already held."),
        ({"verb": "revoke", "privilege": ["ADMIN"]}, "2 entities selected: 2 grants to revoke, 4 not held."),
        ({"itself": "yes"}, "3 entities selected: 9 grants to add, 0 already held."),
        ({"kind": []}, "Nothing is selected."),
        ({"select": "none"}, "Nothing is selected."),
        (
            {"address": [ORDERS, "dataset:sales.legacy", "nonsense"], "privilege": ["ADMIN"]},
            "1 entity selected: 2 grants to add, 1 already held.",
        ),
    ):
        data = inside | {"count": "yes"} | change
        assert message in text_of(client.post(BULK, data)), change
        part = client.post(BULK, data, headers=htmx("bulk-count")).content.decode()
        assert message in part and 'id="bulk-count"' in part and "<form" not in part
    assert (
        "<fieldset"
        in client.post(BULK, inside | {"select": "all"}, headers=htmx("bulk-kinds")).content.decode()
    )
    assert database_state() == before and not Plan.objects.exists()
    with CaptureQueriesContext(connection) as captured:
        client.post(BULK, inside | {"count": "yes"}, headers=htmx("bulk-count"))
    assert len(captured) <= 7


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("/entities/namespace:sales", "aud"),
        ("/entities/namespace:sales", "ned"),
        (f"/entities/{ORDERS}", "ada"),
        ("/entities/dataset:sales.legacy", "ada"),
        ("/plans/", "aud"),
    ],
)
def test_bulk_changes_are_offered_only_to_administrators_on_containers(url, name, browse):
    text = page_html(browse(name).get(url))
    assert not any(f"{form_url}{end}" in text for form_url in (BULK, GHOSTS, IMPORT) for end in ('"', "?"))
    assert 'name="address"' not in text.replace('<input type="hidden" name="address"', "")


def test_a_bulk_change_takes_several_principals_and_selected_kinds(browse):
    data = INSIDE | {
        "verb": "revoke",
        "principal": "user:ned",
        "more": "user:dee\r\n\r\ngroup:operators",
        "privilege": ["ADMIN", "READ"],
        "kind": ["dataset"],
        "itself": "",
    }
    page = browse("ada").post(BULK, data, follow=True)
    assert {(row.verb, row.principal, str(row.address)) for row in page.context["plan"].items.all()} == {
        ("revoke", "user:ned", ORDERS),
        ("revoke", "user:ned", CUSTOMERS),
        ("revoke", "user:dee", ORDERS),
        ("revoke", "group:operators", "dataset:sales.forecast"),
    }
    assert "2 entities with fewer than two ADMIN holders" in text_of(page)
    assert "bulk change" in text_of(browse("aud").get("/plans/"))


def test_selected_rows_lead_to_the_bulk_change_form(browse):
    client = browse("ada")
    text = client.get("/entities/namespace:sales").content.decode()
    checkbox = r'<input type="checkbox" form="children-form" name="address" value="([^"]+)"[^>]*?( disabled)? autocomplete[^>]*>'
    checkboxes = re.findall(checkbox, text)
    assert (ORDERS, "") in checkboxes and ("dataset:sales.legacy", " disabled") in checkboxes
    assert re.search(
        r'<button [^>]*form="children-form" formaction="/plans/many"\s+name="selection" value="yes">', text
    )
    form = client.get(BULK, {"address": [ORDERS, CUSTOMERS], "selection": "yes"})
    data = form_fields(form)
    assert data["address"] == [ORDERS, CUSTOMERS] and "Plan for 2 selected" in text_of(form)
    page = client.post(BULK, data | {"principal": "user:dee", "privilege": ["READ"]}, follow=True)
    assert plan_addresses(page) == {CUSTOMERS} and "from selected entities" in text_of(page)
    data = {"selection": "yes", "principal": "user:dee", "privilege": "READ"}
    assert "no entity is selected" in text_of(client.post(BULK, data))


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        (
            "http://testserver/entities/namespace:sales?kind=dataset",
            "/entities/namespace:sales?kind=dataset#children",
        ),
        ("http://elsewhere.example/entities/namespace:sales", "/entities/instance:cdap#children"),
        ("http://testserver/plans/", "/entities/instance:cdap#children"),
        ("", "/entities/instance:cdap#children"),
        ("http://[", "/entities/instance:cdap#children"),
    ],
)
def test_an_empty_selection_links_back_to_the_list(referer, back, browse):
    text = page_html(browse("ada").get(f"{BULK}?selection=yes", headers={"Referer": referer}))
    assert "No entities selected" in text and "0 selected" not in text and f'href="{back}"' in text


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"principal": "user:nobody"}, "user:nobody does not exist"),
        ({"privilege": ["OWN"]}, "`OWN` is not a privilege"),
        ({"verb": "give"}, "neither granting nor revoking"),
        ({"kind": ["namespace"]}, "namespace:sales cannot contain entities of kind namespace"),
        ({"address": ["dataset:x", ORDERS]}, "`dataset:x` lacks a part"),
    ],
)
def test_an_invalid_bulk_change_is_explained_and_keeps_the_input(invalid, message, browse):
    data = INSIDE | {"more": "user:grp"} | invalid
    response = browse("ada").post(BULK, data)
    assert response.status_code == 400 and message in text_of(response) and not Plan.objects.exists()
    fields = form_fields(response)
    assert (
        fields["principal"] == [data["principal"]]
        and f"\n{data['more']}</textarea>" in response.content.decode()
    )
    assert fields.get("privilege", []) == [name for name in data["privilege"] if name != "OWN"]
    if "address" in data:
        assert fields["address"] == data["address"]
    else:
        assert fields.get("kind", []) == [kind for kind in data["kind"] if kind in ALL_KINDS]
        assert ("itself" in fields) is (data["itself"] == "yes")


def test_the_entities_of_a_large_tenant_are_not_counted(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.common.row_estimates.MAX_COUNTED", 3)
    assert {row["total"] for row in browse("ada").get(BULK).context["kinds"]} == {None}
    counted = browse("ada").post(
        BULK, {"select": "all", "verb": "grant", "principal": "user:out", "privilege": "READ"}
    )
    assert counted.context["count"] == "The plan counts the selected entities."
    assert browse("ada").get(f"{BULK}?within=namespace:sales").context["kinds"][4]["total"] == 2


def test_ghost_grants_can_be_cleaned_up_from_plans_report_and_overview(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    run = create_report(
        tmp_path,
        {"rows": [], "kinds": []},
        analysis="ghost-grants",
        options={"generation": "final"},
        revision=1,
        finished_at=timezone.now(),
        summary={"grants_on_deleted_addresses": 1},
    )
    for url in ("/", "/plans/", f"/analyses/{run.pk}/"):
        assert f'<form action="{GHOSTS}" method="post">' in page_html(browse("ada").get(url)).replace(
            '<form class="block-body form" action', "<form action"
        ), url
        assert GHOSTS not in page_html(browse("aud").get(url)), url
    page = browse("ada").post(GHOSTS, follow=True)
    assert plan_addresses(page) == {"dataset:sales.legacy"} and "1 grant to revoke" in text_of(page)
    assert "to revoke leftover grants" in text_of(page)
    assert plan_addresses(browse("ada").post(GHOSTS, {"namespace": " sales "}, follow=True)) == {
        "dataset:sales.legacy"
    }


def test_redundant_and_unused_grants_can_be_revoked_from_their_reports(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    change_grants(
        grant=[
            ("user:grp", "dataset:sales.orders", "WRITE"),
            ("group:operators", "dataset:sales.orders", "WRITE"),
        ]
    )
    UserGrant.objects.update(granted_at=timezone.now() - timedelta(days=40))
    first_day = timezone.now().date() - timedelta(days=30)
    add_usage([UsageRecord("ned", "dataset", "sales.orders", first_day)])
    client = browse("ada")
    for name, words in (
        ("redundant", "to take away redundant access"),
        ("unused", "to revoke unused grants"),
    ):
        run = create_report(
            tmp_path, {"rows": []}, analysis=name, revision=1, summary={"days_of_the_window": 20}
        )
        text = page_html(client.get(f"/analyses/{run.pk}/"))
        assert f'action="/plans/{name}"' in text
        assert f'action="/plans/{name}"' not in page_html(browse("aud").get(f"/analyses/{run.pk}/"))
        page = client.post(
            f"/plans/{name}", {"run": run.pk, "since": "20", "namespace": "sales"}, follow=True
        )
        assert words in text_of(page)
        page = client.post(f"/plans/{name}", {"run": run.pk, "since": "x", "namespace": "a b"}, follow=True)
        assert "No plan was created" in text_of(page) and page.wsgi_request.path == f"/analyses/{run.pk}/"
    page = client.post("/plans/unused", {"run": run.pk, "since": "20"}, follow=True)
    last_uses = {
        (row.principal, str(row.address)): row.last_use for row in page.context["items"]["page"].rows
    }
    assert (
        last_uses["user:ned", "namespace:sales"] == last_uses["user:ned", "dataset:sales.orders"] == first_day
    )
    assert last_uses["user:ned", "application:sales.shop"] is None
    assert f"{first_day}" in text_of(page) and "not recorded" in text_of(page)
    page = client.post("/plans/redundant", {"run": run.pk, "part": "all"}, follow=True)
    assert "Take away redundant access" in text_of(page)
    page = client.post("/plans/unused", {"run": run.pk, "since": "31"}, follow=True)
    assert f"uses are recorded only since {first_day}" in text_of(page)


def ghost_report(folder):
    rows = [
        ("group:operators", "dataset:sales.forecast", "READ", "planned", ""),
        ("user:dee", "dataset:sales.legacy", "READ", "deleted", ""),
    ]
    return create_report(
        folder,
        {"rows": rows, "kinds": []},
        analysis="ghost-grants",
        options={"generation": "final"},
        revision=1,
        finished_at=timezone.now(),
    )


def test_rows_of_the_ghost_report_can_be_selected_for_a_plan(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    run = ghost_report(tmp_path)
    html = page_html(browse("ada").get(f"/analyses/{run.pk}/"))
    values = [unescape(value) for value in re.findall(r'name="grant" value="([^"]*)"', html)]
    assert values == ["group:operators\tdataset:sales.forecast\tREAD", "user:dee\tdataset:sales.legacy\tREAD"]
    assert 'name="grant"' not in page_html(browse("aud").get(f"/analyses/{run.pk}/"))
    page = browse("ada").post(GHOSTS, {"selection": "yes", "run": run.pk, "grant": values}, follow=True)
    assert plan_addresses(page) == {"dataset:sales.forecast", "dataset:sales.legacy"}
    assert "Revoke 2 grants on addresses that are not live" in text_of(page)


def test_rows_of_a_report_of_outliers_can_be_selected_for_a_plan(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    rows = [
        ("dee", "operators", "dataset:sales.orders", "READ", 1, 6),
        ("grp", "operators", "program:sales.shop.workflow.daily", "EXECUTE", 1, 6),
    ]
    run = create_report(
        tmp_path, {"rows": rows, "people": [("dee", 1, 1, 1)]}, analysis="outliers", revision=1
    )
    client, url = browse("ada"), f"/analyses/{run.pk}/"
    values = [
        unescape(value) for value in re.findall(r'name="grant" value="([^"]*)"', page_html(client.get(url)))
    ]
    assert values == [f"user:{user}\t{entity}\t{privilege}" for user, _, entity, privilege, *_ in rows]
    assert 'name="grant"' not in page_html(browse("aud").get(url))
    page = client.post("/plans/outliers", {"selection": "yes", "run": run.pk, "grant": values}, follow=True)
    assert plan_addresses(page) == {"dataset:sales.orders"}
    assert "to take away selected privileges" in text_of(page)
    assert "1 privilege remains through groups that give or are for something else too: group:operators" in (
        text_of(page)
    )
    for grants, message in (([], "no privilege is selected"), (values[1:], "1 privilege remains")):
        page = client.post(
            "/plans/outliers", {"selection": "yes", "run": run.pk, "grant": grants}, follow=True
        )
        assert page.wsgi_request.path == url and message in text_of(page)


@pytest.mark.parametrize(
    ("grants", "message"),
    [
        ([], "no grant is selected"),
        (["user:dee"], "No plan was created"),
        (["user:dee\tdataset:sales.orders\tREAD"], "is live now"),
    ],
)
def test_a_selection_that_creates_no_plan_says_why_on_the_report(grants, message, browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    run = ghost_report(tmp_path)
    response = browse("ada").post(GHOSTS, {"selection": "yes", "run": run.pk, "grant": grants}, follow=True)
    assert response.redirect_chain[-1][0] == f"/analyses/{run.pk}/"
    assert message in text_of(response) and not Plan.objects.exists()


def test_reports_of_other_analyses_do_not_offer_a_cleanup(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    run = create_report(
        tmp_path, {"rows": [], "kinds": []}, analysis="stranded", options={"generation": "final"}, revision=1
    )
    assert GHOSTS not in page_html(browse("ada").get(f"/analyses/{run.pk}/"))


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ("namespace:hr", "no grant is on a deleted address in namespace:hr"),
        ("a b", "the name `a b` contains a character"),
        (ORDERS, "is not a namespace"),
    ],
)
def test_a_cleanup_that_creates_no_plan_says_why(namespace, message, browse):
    response = browse("ada").post(GHOSTS, {"namespace": namespace}, follow=True)
    assert (
        message in text_of(response)
        and "No plan was created" in text_of(response)
        and not Plan.objects.exists()
    )


def test_a_plan_is_created_from_pasted_text_and_from_a_file(browse):
    client, before = browse("ada"), database_state()[1:7]
    page = client.post(IMPORT, {"text": FILE.replace("\n", "\r\n")}, follow=True)
    assert "Grant 1 and revoke 1 from pasted text" in text_of(page) and "1 grant to revoke" in text_of(page)
    file = SimpleUploadedFile("quarter.csv", FILE.encode("utf-8-sig") + FILE.split("\n")[1].encode())
    page = client.post(IMPORT, {"file": file, "text": "ignored"}, follow=True)
    assert "Grant 1 and revoke 1 from quarter.csv" in text_of(page)
    assert "1 line repeats an earlier line of the file and is skipped: line 4." in text_of(page)
    assert database_state()[1:7] == before and "from a file" in text_of(client.get("/plans/"))


@pytest.mark.parametrize("source", ["pasted text", "file"])
def test_every_bad_line_is_listed_and_the_input_is_kept(source, browse):
    bad = FILE + "".join(f"grant,user:x{n},{ORDERS},<READ>\n" for n in range(120))
    data = {"text": bad} if source == "pasted text" else {"file": SimpleUploadedFile("bad.csv", bad.encode())}
    response = browse("ada").post(IMPORT, data)
    assert response.status_code == 400 and not Plan.objects.exists()
    text = text_of(response)
    for message in (
        "120 lines to correct",
        f"4 privilege `<READ>` is not one of {', '.join(Privilege)}",
        "Not shown: 20 more bad lines",
    ):
        assert message in text, message
    textarea = response.content.decode().split("<textarea")[1]
    assert unescape(textarea.split(">\n", 1)[1].split("</textarea>")[0]) == bad
    assert response.content.decode().count('<th scope="row" class="number">') == 100


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "there are no changes: choose a file or paste the changes"),
        ({"text": FILE.replace("privilege", "right")}, "it lacks `privilege`"),
    ],
)
def test_an_invalid_file_of_changes_is_explained(data, message, browse):
    response = browse("ada").post(IMPORT, data)
    assert response.status_code == 400 and message in text_of(response) and not Plan.objects.exists()
    assert f"\n{data.get('text', '')}</textarea>" in response.content.decode()


def test_too_large_files_are_refused_and_large_ones_are_not_kept_in_the_form(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.plans.import_changes.MAX_FILE_BYTES", 300)
    monkeypatch.setattr("authzconsole.web.plans.import_changes.MAX_KEPT_BYTES", 150)
    for text, message in ((FILE * 3, "MB are allowed: split it"), (FILE + "x" * 60, "too long to show here")):
        response = browse("ada").post(IMPORT, {"file": SimpleUploadedFile("x.csv", text.encode())})
        assert response.status_code == 400 and message in text_of(response)
        assert FILE not in unescape(page_html(response).split("<textarea")[1])


def test_example_files_can_be_downloaded(browse):
    for extension, media_type in (
        ("csv", "text/csv; charset=utf-8"),
        ("jsonl", "application/x-ndjson; charset=utf-8"),
    ):
        response = browse("ada").get(f"/plans/import/sample.{extension}")
        assert response.content.decode() == SAMPLES[extension] and response["Content-Type"] == media_type
        assert response["Content-Disposition"] == f'attachment; filename="changes.{extension}"'
    assert SAMPLES["csv"] in unescape(browse("ada").get(IMPORT).content.decode())


def test_the_empty_list_of_plans_links_to_the_forms_that_create_plans(browse):
    empty = page_html(browse("ada").get("/plans/")).split('<div class="empty">')[1]
    assert BULK in empty and IMPORT in empty
    assert BULK not in page_html(browse("aud").get("/plans/"))


def test_the_page_of_a_user_offers_to_revoke_what_is_unused_only_if_there_is_something(browse):
    client, url = browse("ada"), "/people/user:ned"
    ned = UserGrant.objects.filter(user__username="ned")
    ned.update(granted_at=timezone.now() - timedelta(days=40))
    button = "Revoke what is unused for 30 days"
    assert button not in client.html(url), "no use is recorded"
    first_day = timezone.now().date() - timedelta(days=30)
    add_usage([UsageRecord("dee", "dataset", "sales.orders", first_day)])
    assert button in client.html(url)
    for other in ("aud", "ned"):
        assert button not in page_html(browse(other).get(url)), other
    page = client.post("/plans/unused", {"user": "ned", "since": "30"}, follow=True)
    assert "Revoke what user:ned has not used" in text_of(page)
    assert {row.principal for row in page.context["plan"].items.all()} == {"user:ned"}
    entities = Entity.objects.filter(pk__in=ned.values("content_object"))
    add_usage(
        [
            UsageRecord("ned", kind, key, timezone.now().date())
            for kind, key in entities.values_list("kind", "key")
        ]
    )
    assert button not in client.html(url)
    page = client.post("/plans/unused", {"user": "ned", "since": "30"}, follow=True)
    assert page.wsgi_request.path == url and "user:ned has used everything" in text_of(page)
    page = client.post("/plans/unused", {"user": "ned", "since": "123456789 days"}, follow=True)
    assert page.wsgi_request.path == url and "No plan was created" in text_of(page)
    page = client.post("/plans/unused", {"user": "nobody", "since": "30"}, follow=True)
    assert page.wsgi_request.path == "/plans/" and "user:nobody" in text_of(page)
