"""Test the REST resources `who-can` and `what-can`."""

import csv
import io
import json

import pytest
from django.core.management import call_command
from django.utils.timezone import localtime

from entities.vocabulary import KINDS
from tests.rest.conftest import grant_item, problem

pytestmark = pytest.mark.django_db


def command_lines(*arguments: str) -> list[dict]:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


@pytest.mark.parametrize("generation", ["final", "core"])
@pytest.mark.parametrize("address", ["dataset:sales.orders", "namespace:sales", "dataset:sales.unregistered"])
def test_who_can_has_the_rows_of_the_command_on_every_page_size(by_session, address, generation):
    expected = command_lines("who_can", address, "--generation", generation)
    path = f"/who-can?entity={address}&generation={generation}"
    for limit in (3, 1_000):
        items = by_session("aud").all_of(path, limit=limit)
        rows = [{name: item[name] for name in ("user", "operation", "paths")} for item in items]
        assert sorted(rows, key=lambda row: (row["user"], row["operation"])) == expected
        assert all(item["entity"] == address and item["complete"] for item in items)


def test_who_can_lists_the_contents_of_a_container(ada):
    items = ada.all_of("/who-can?entity=namespace:sales&contents=true", limit=7)
    contents = ada.get("/entities?within=namespace:sales&state=live&limit=1000").json()["items"]
    addresses = [entity["address"] for entity in contents]
    expected = []
    for address in sorted(addresses):
        expected += ada.all_of(f"/who-can?entity={address}", limit=1_000)
    assert items == expected and len({item["entity"] for item in items}) > 2
    datasets = ada.all_of("/who-can?entity=namespace:sales&contents=true&kind=dataset", limit=1_000)
    assert datasets == [item for item in items if item["entity"].startswith("dataset:")]
    backwards = ada.all_of("/who-can?entity=dataset:sales.orders&sort=-user", limit=1_000)
    assert list(dict.fromkeys(item["user"] for item in backwards)) == sorted(
        {item["user"] for item in backwards}, reverse=True
    )


def test_what_can_has_the_rows_of_the_command_and_marks_the_only_paths(ada):
    expected = command_lines("what_can", "user:ned")
    for limit in (4, 1_000):
        items = ada.all_of("/what-can?principal=user:ned", limit=limit)
        assert [{"entity": item["entity"], "operation": item["operation"]} for item in items] == expected
    for item in items:
        assert all(path in item["paths"] for path in item["only"])
        assert len(item["paths"]) != 1 or item["only"] == item["paths"]
    filtered = ada.all_of(
        "/what-can?principal=user:ned&kind=dataset&operation=update&namespace=sales", limit=1_000
    )
    assert filtered and {item["operation"] for item in filtered} > {"update"}
    assert {item["entity"].split(":")[0] for item in filtered} == {"dataset"}


def test_downloads_have_all_rows(ada):
    items = ada.all_of("/who-can?entity=namespace:sales&contents=true", limit=1_000)
    answer = ada.get("/who-can.jsonl?entity=namespace:sales&contents=true")
    assert [json.loads(line) for line in answer.getvalue().decode().splitlines()] == items
    assert answer["Content-Disposition"] == (
        f'attachment; filename="who-can-namespace-sales-final-{localtime():%Y-%m-%d}.jsonl"'
    )
    lines = list(
        csv.DictReader(
            io.StringIO(ada.get("/who-can.csv?entity=namespace:sales&contents=true").getvalue().decode())
        )
    )
    assert len(lines) == sum(max(1, len(item["paths"])) for item in items)
    assert set(lines[0]) == {
        "entity",
        "user",
        "operation",
        "principal",
        "granted_on",
        "privilege",
        "only",
        "rule",
    }
    assert {
        line["rule"]
        for line in lines
        if line["entity"] == "dataset:sales.orders" and line["operation"] == "read"
    } == {"READ on the entity"}
    items = ada.all_of("/what-can?principal=group:operators", limit=1_000)
    answer = ada.get("/what-can.jsonl?principal=group:operators")
    assert [json.loads(line) for line in answer.getvalue().decode().splitlines()] == items
    assert len(ada.get("/what-can.csv?principal=group:operators").getvalue().splitlines()) > len(items)


@pytest.mark.parametrize("generation", ["final", "existing"])
def test_each_row_names_the_rule_that_the_policies_have(ada, generation):
    rules = {
        (policy["kind"], policy["operation"]): policy["words"]
        for policy in ada.get(f"/policies/{generation}").json()["policies"]
    }
    for path in ("/who-can?entity=namespace:sales&contents=true", "/what-can?principal=user:ned"):
        items = ada.all_of(f"{path}&generation={generation}", limit=1_000)
        assert items and all(
            item["rule"] == rules[item["entity"].partition(":")[0], item["operation"]] for item in items
        )
    (item, *_) = ada.all_of("/who-can?entity=dataset:sales.orders&operation=ADMIN", limit=10)
    assert item["rule"] == "ADMIN on the entity"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/who-can?entity=dataset:sales", "entity"),
        ("/who-can?entity=dataset:sales.orders&operation=start", "operation"),
        ("/who-can?entity=dataset:sales.orders&kind=dataset", "kind"),
        ("/who-can?entity=namespace:sales&contents=true&operation=fly", "operation"),
        ("/who-can?entity=dataset:sales.orders&at=2026-12-01T00:00:00", "at"),
        ("/what-can?principal=user:ned&kind=table", "kind"),
        ("/what-can?principal=user:ned&operation=fly", "operation"),
        ("/what-can?principal=user:ned&at=soon", "at"),
    ],
)
def test_invalid_parameters_are_named(ada, path, field):
    assert problem(ada.get(path), 400)["errors"][0]["field"] == field


def test_an_ordinary_account_learns_nothing_about_others(by_session):
    dee = by_session("dee")
    # dee may delete all streams of namespace:hr, which has none, but does not see it
    assert {row["entity"] for row in dee.all_of("/what-can?principal=user:dee", limit=1_000)} == {
        "dataset:sales.orders",
        "namespace:sales",
    }
    assert "namespace:hr" in {
        row["entity"] for row in by_session("ada").all_of("/what-can?principal=user:dee", limit=1_000)
    }
    for path in (
        "/what-can?principal=user:ned",
        "/what-can?principal=user:nobody",
        "/what-can?principal=group:operators",
        "/who-can?entity=dataset:hr.salaries",
        "/who-can?entity=dataset:hr.nothing",
    ):
        assert problem(dee.get(path), 404)["detail"] == "this resource does not exist, or you cannot see it"
    problem(dee.get("/who-can?entity=dataset:sales.orders"), 403)
    problem(by_session("ada").get("/what-can?principal=user:nobody"), 404)


def test_a_page_takes_a_fixed_number_of_queries(ada, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        ada.get("/who-can?entity=dataset:sales.orders")
    with django_assert_max_num_queries(4 * len(KINDS) + 20):
        ada.get("/what-can?principal=user:ned")


def test_lists_and_downloads_show_the_state_at_a_revision(ada):
    ada.post("/users", {"name": "zed"})
    item = grant_item("user:zed", "dataset:sales.orders", "EXECUTE")
    revision = ada.post("/grants", {"grant": [item]}).json()["revision"]
    ada.post("/grants", {"revoke": [item]})
    who = "entity=dataset:sales.orders&operation=EXECUTE"
    assert ada.all_of(f"/who-can?{who}&q=zed", limit=10) == []
    then = ada.all_of(f"/who-can?{who}&q=zed&as_of={revision}", limit=10)
    assert [(row["user"], row["paths"][0]["principal"]) for row in then] == [("zed", "user:zed")]
    lines = ada.get(f"/who-can.jsonl?{who}&q=zed&as_of={revision}").getvalue().decode().splitlines()
    assert [json.loads(line) for line in lines] == then
    assert ada.all_of(f"/what-can?principal=user:zed&privilege=EXECUTE&as_of={revision}", limit=100)
    assert not ada.all_of("/what-can?principal=user:zed&privilege=EXECUTE", limit=100)
    assert (
        ada.get(f"/what-can.csv?principal=user:zed&privilege=EXECUTE&as_of={revision}")
        .getvalue()
        .count(b"\n")
        > 1
    )
    assert problem(ada.get(f"/who-can?{who}&as_of=99999"), 400)["errors"][0]["field"] == "as_of"
    detail = problem(ada.get(f"/who-can?entity=dataset:sales.never&as_of={revision}"), 404)["detail"]
    assert detail == f"dataset:sales.never did not exist at revision {revision:,}"


def test_the_answer_says_whether_the_entity_is_registered(ada):
    assert ada.get("/who-can?entity=dataset:sales.orders").json()["state"] == "live"
    answer = ada.get("/who-can?entity=dataset:sales.order").json()
    assert (answer["state"], answer["items"]) == ("not registered", [])
