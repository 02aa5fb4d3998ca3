"""Test the commands `who_can` and `what_can`."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import READ, WRITE
from grants.journal import Author, current_revision
from tests.support.changes import add_grant, add_user, register_entity, revoke_grant
from tests.support.random_tenants import Tenant, store_tenant

pytestmark = pytest.mark.django_db

ORDERS, SALES = parse_address("dataset:sales.orders"), parse_address("namespace:sales")


@pytest.fixture(autouse=True)
def tenant():
    store_tenant(
        Tenant(
            {
                parse_address("instance:cdap"): State.LIVE,
                SALES: State.LIVE,
                ORDERS: State.LIVE,
                parse_address("dataset:sales.gone"): State.DELETED,
            },
            {"émile": (True, True), "Zoe": (True, True), "bob": (True, True), "carol": (False, True)},
            {"staff": ["bob", "carol", "Zoe"], "all": ["bob"]},
            {
                ("user:bob", ORDERS, READ),
                ("group:staff", ORDERS, READ),
                ("group:all", ORDERS, READ),
                ("user:carol", ORDERS, READ),
                ("user:émile", ORDERS, WRITE),
                ("user:émile", parse_address("dataset:sales.gone"), WRITE),
            },
        ),
        has_periods=False,
    )


def lines(*arguments: str) -> list[dict]:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_who_can_lists_users_by_code_points_with_each_way():
    def path(principal, privilege="READ"):
        return {"principal": principal, "entity": "dataset:sales.orders", "privilege": privilege}

    found = lines("who_can", "dataset:sales.orders", "--operation", "read", "--generation", "final")
    assert found == [
        {"user": "Zoe", "operation": "read", "paths": [path("group:staff")]},
        {
            "user": "bob",
            "operation": "read",
            "paths": [path("group:all"), path("group:staff"), path("user:bob")],
        },
    ]
    assert lines("who_can", "dataset:sales.orders", "--operation", "WRITE") == [
        {"user": "émile", "operation": "WRITE", "paths": [path("user:émile", "WRITE")]}
    ]
    everything = lines(
        "who_can", "DATASET:sales.orders", "--generation", "final", "--at", "2026-12-01T00:00:00+01:00"
    )
    assert [row["user"] for row in everything] == sorted(row["user"] for row in everything)
    assert {(row["user"], row["operation"]) for row in everything} >= {
        ("émile", "get"),
        ("bob", "read"),
        ("Zoe", "list"),
    }


def test_what_can_lists_live_entities_only():
    expected = ["get", "get-metadata", "get-properties", "list", "view-lineage", "view-metrics", "write"]
    found = lines("what_can", "user:émile", "--generation", "final", "--kind", "Dataset")
    assert found == [{"entity": "dataset:sales.orders", "operation": operation} for operation in expected]
    assert lines("what_can", "group:all", "--generation", "final")[-1]["entity"] == "namespace:sales"
    assert lines("what_can", "user:carol") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["who_can", "dataset:sales"], "sales"),
        (
            ["who_can", "dataset:sales.orders", "--operation", "start"],
            "`start` is not an operation of datasets",
        ),
        (["who_can", "dataset:sales.orders", "--generation", "next"], "`next` is not a generation"),
        (["who_can", "dataset:sales.orders", "--at", "2026-12-01T00:00:00"], "has no time zone"),
        (["who_can", "dataset:sales.orders", "--at", "2026-13-01T00:00:00Z"], "there is no such day"),
        (["who_can", "dataset:sales.orders", "--as-of", "7"], "revision 7 does not exist"),
        (["what_can", "user:bob", "--as-of", "yesterday"], "neither a revision"),
        (["what_can", "bob"], "write user:NAME, group:NAME or role:NAME"),
        (["what_can", "user:nobody"], "there is no user:nobody"),
        (["what_can", "user:bob", "--kind", "table"], "`table` is not a kind"),
    ],
)
def test_errors_are_named(arguments, message):
    with pytest.raises(CommandError, match=message):
        call_command(*arguments)


def test_the_commands_list_an_earlier_state():
    author = Author("ada")
    add_user("dora", author=author)
    register_entity("dataset:sales.new", author=author)
    add_grant("user:dora", "dataset:sales.new", READ, author=author)
    revision = current_revision()
    revoke_grant("user:dora", "dataset:sales.new", READ, author=author)
    who, what = (
        ["who_can", "dataset:sales.new", "--operation", "read"],
        ["what_can", "user:dora", "--kind", "dataset"],
    )
    assert lines(*who) == lines(*what) == []
    path = {"principal": "user:dora", "entity": "dataset:sales.new", "privilege": "READ"}
    assert lines(*who, "--as-of", str(revision)) == [{"user": "dora", "operation": "read", "paths": [path]}]
    assert {"entity": "dataset:sales.new", "operation": "read"} in lines(*what, "--as-of", str(revision))
    with pytest.raises(CommandError, match="dataset:sales.new did not exist at revision 1"):
        call_command(*who, "--as-of", "1")


def test_a_misspelled_address_is_reported(capsys):
    call_command("who_can", "dataset:sales.order")
    out, err = capsys.readouterr()
    assert out == "" and err == "dataset:sales.order is not registered: check the address\n"
