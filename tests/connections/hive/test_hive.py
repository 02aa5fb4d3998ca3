"""Compare the console with a real Hive metastore, and bring each in line with the other."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import product
from random import Random
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command

from authzconsole.connections.hive import BUILT_IN_ROLES
from authzconsole.models import Connection
from entities.models import Entity
from grants.models import JournalLine, Membership, RoleGroup
from grants.principals.services import add_role
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import (
    add_grant,
    add_group,
    add_user,
    register_entity,
    revoke_grant,
    set_user_active,
)
from tests.support.metastore import Metastore, running_metastore

pytestmark = [pytest.mark.spark, pytest.mark.django_db]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_metastore(tmp_path_factory.mktemp("metastore")) as metastore:
        yield metastore


@pytest.fixture
def metastore(server) -> Metastore:
    """A metastore with the databases `sales` and `hr`, and no grants."""
    with server.client() as client:
        for database in client.get_all_databases():
            if database != "default":
                client.drop_database(database, True, True)
        for role in client.get_role_names():
            if role not in BUILT_IN_ROLES:
                client.drop_role(role)
    server.create("sales", "orders", "customers")
    server.create("hr", "salaries")
    return server


@pytest.fixture
def connected(metastore):
    """Add the connection `lake` to the metastore."""
    output("add", "hive", "lake", "--url", metastore.url)
    return metastore


def output(*arguments: str) -> list[dict]:
    """Run the command, and return the objects that it prints."""
    stdout = StringIO()
    call_command("connection", *arguments, stdout=stdout, stderr=StringIO())
    return [json.loads(line) for line in stdout.getvalue().splitlines() if line.startswith("{")]


def test_a_sync_takes_over_databases_tables_and_grants(connected):
    connected.grant("user:alice", "sales.orders", "SELECT")
    connected.grant("group:writers", "sales.orders", "INSERT", "UPDATE", "DELETE")
    connected.grant("user:bob", "sales", "ALL")
    expected = {
        "entities": {"new": 6, "live": 0, "deleted": 0},
        "grants": {"granted": 5, "revoked": 0},
        "principals": {"users": 2, "groups": 1, "roles": 0, "joined": 0, "left": 0},
        "unsupported": [],
    }
    assert output("sync", "lake", "--dry-run") == [expected] and not Entity.objects.exists()
    assert output("sync", "lake") == [expected]
    assert all_grants() == {
        ("user:alice", "dataset:sales.orders", "READ"),
        ("group:writers", "dataset:sales.orders", "WRITE"),
        *(("user:bob", "namespace:sales", privilege) for privilege in ("READ", "WRITE", "ADMIN")),
    }
    assert {str(entity) for entity in Entity.objects.filter(state="live")} == {
        "instance:cdap",
        *(f"namespace:{name}" for name in ("default", "hr", "sales")),
        *(f"dataset:{name}" for name in ("hr.salaries", "sales.customers", "sales.orders")),
    }
    assert not JournalLine.objects.filter(action="plan").exists()
    assert output("sync", "lake")[0]["grants"] == {"granted": 0, "revoked": 0}
    assert output("drift", "lake") == []


def test_what_the_console_cannot_express_is_listed(connected):
    connected.grant("user:alice", "sales.orders", "INSERT", "INDEX")
    connected.grant("user:alice", "sales.orders", "SELECT", grant_option=True)
    connected.grant("user:alice\u200b", "sales.orders", "SELECT")
    [result] = output("sync", "lake", "--dry-run")
    reasons = {row["subject"]: row["reason"] for row in result["unsupported"]}
    assert "INSERT, UPDATE and DELETE together" in reasons["INSERT on dataset:sales.orders for user:alice"]
    assert "no such privilege" in reasons["INDEX on dataset:sales.orders for user:alice"]
    assert "grant option" in reasons["SELECT on dataset:sales.orders for user:alice"]
    assert "invisible character" in reasons["user:alice\u200b"]
    assert result["grants"] == {"granted": 1, "revoked": 0}


def test_a_sync_takes_over_roles_with_their_members_and_grants(connected):
    for role in ("stewards", "owners"):
        connected.create_role(role)
    connected.add_to_role("user:alice", "stewards")
    connected.add_to_role("group:analysts", "stewards")
    connected.add_to_role("role:owners", "stewards")
    connected.grant("role:stewards", "sales.orders", "SELECT")
    connected.grant("role:public", "sales.orders", "SELECT")
    [result] = output("sync", "lake")
    assert result["principals"] == {"users": 1, "groups": 1, "roles": 2, "joined": 2, "left": 0}
    assert {row["subject"] for row in result["unsupported"]} == {
        "role:owners in role:stewards",
        "SELECT on table sales.orders for role:public",
    }
    assert all_grants() == {("role:stewards", "dataset:sales.orders", "READ")}
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:analysts in role:stewards"}
    assert {str(row) for row in Membership.objects.all()} == {"user:alice in role:stewards"}
    assert output("sync", "lake")[0]["principals"] == dict.fromkeys(result["principals"], 0)
    connected.remove_from_role("group:analysts", "stewards")
    assert output("sync", "lake")[0]["principals"]["left"] == 1 and not RoleGroup.objects.exists()


def test_a_push_creates_a_role_that_is_to_hold_a_grant_and_never_grants_to_everybody(connected):
    output("sync", "lake")
    for name in ("readers", "public"):
        add_role(author=COMMAND, name=name)
        add_grant(f"role:{name}", "dataset:sales.orders", "READ")
    shown = output("push", "lake")
    assert [(row["verb"], row["principal"], row["entity"]) for row in shown] == [
        ("create", "role:readers", ""),
        ("grant", "role:readers", "dataset:sales.orders"),
    ]
    assert output("push", "lake", "--apply", "--reason", "readers") == shown
    assert connected.listing() == {("role:readers", "sales.orders", "SELECT")}
    assert output("push", "lake") == []


def test_a_group_with_the_name_of_a_role_is_listed(connected):
    connected.grant("group:role:stewards", "sales.orders", "SELECT")
    [result] = output("sync", "lake", "--dry-run")
    assert [row["subject"] for row in result["unsupported"]] == [
        "SELECT on table sales.orders for group:role:stewards"
    ]


def test_a_dropped_table_is_deleted_and_keeps_its_grants(connected):
    add_group("analysts")
    add_grant("group:analysts", "dataset:sales.orders", "READ")
    connected.grant("group:analysts", "sales.orders", "SELECT")
    output("sync", "lake")
    connected.drop_table("sales", "orders")
    [result] = output("sync", "lake")
    assert result["entities"] == {"new": 0, "live": 0, "deleted": 1}
    assert Entity.objects.get(kind="dataset", key="sales.orders").state == "deleted"
    assert ("group:analysts", "dataset:sales.orders", "READ") in all_grants()


def test_a_recreated_table_is_live_again(connected):
    output("sync", "lake")
    connected.drop("hr")
    assert output("sync", "lake")[0]["entities"]["deleted"] == 1
    connected.create("hr", "salaries")
    assert output("sync", "lake")[0]["entities"] == {"new": 0, "live": 2, "deleted": 0}


def test_entities_of_other_sources_stay(connected):
    output("sync", "lake")
    register_entity("stream:sales.clicks")
    add_user("alice")
    add_grant("user:alice", "stream:sales.clicks", "READ")
    assert output("sync", "lake")[0]["entities"]["deleted"] == 0
    assert ("user:alice", "stream:sales.clicks", "READ") in all_grants()


def test_a_platform_that_lost_most_of_its_entities_is_refused_until_confirmed(connected):
    output("sync", "lake")
    for database in ("sales", "hr"):
        connected.drop(database)
    with pytest.raises(CommandError, match="has 1 entity, and had 6: check the platform, or confirm"):
        output("sync", "lake")
    assert Entity.objects.filter(state="live", kind="dataset").count() == 3
    assert output("sync", "lake", "--accept-shrunken")[0]["entities"]["deleted"] == 2


def test_drift_lists_what_only_one_side_grants(connected):
    connected.grant("user:alice", "sales.orders", "SELECT")
    output("sync", "lake")
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    connected.grant("user:alice", "hr.salaries", "INSERT", "UPDATE", "DELETE")
    assert output("drift", "lake") == [
        difference("user:alice", "dataset:hr.salaries", "WRITE", console=False, platform=True),
        difference("user:alice", "dataset:sales.orders", "READ", console=False, platform=True),
    ]
    add_grant("user:alice", "dataset:hr.salaries", "READ")
    assert difference("user:alice", "dataset:hr.salaries", "READ", console=True, platform=False) in output(
        "drift", "lake"
    )


def difference(principal: str, entity: str, privilege: str, *, console: bool, platform: bool) -> dict:
    return {
        "principal": principal,
        "entity": entity,
        "privilege": privilege,
        "console": console,
        "platform": platform,
    }


def test_a_push_makes_the_metastore_equal_and_leaves_what_the_console_cannot_express(connected):
    connected.grant("user:alice", "sales.orders", "SELECT", "INDEX")
    connected.grant("user:bob", "sales", "ALL")
    output("sync", "lake")
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    revoke_grant("user:bob", "namespace:sales", "ADMIN")
    add_grant("user:alice", "dataset:sales.customers", "WRITE")
    shown = output("push", "lake")
    assert ("user:alice", "sales.orders", "SELECT") in connected.listing()
    assert output("push", "lake", "--apply", "--reason", "quarterly review") == shown != []
    assert connected.listing() == {
        ("user:alice", "sales.orders", "INDEX"),
        *(("user:alice", "sales.customers", part) for part in ("INSERT", "UPDATE", "DELETE")),
        *(("user:bob", "sales", part) for part in ("SELECT", "INSERT", "UPDATE", "DELETE")),
    }
    assert output("drift", "lake") == [] and output("push", "lake") == []
    line = JournalLine.objects.get(action="connection-push")
    assert line.reason == "quarterly review" and "lake" in line.detail


def test_a_push_leaves_the_grants_of_names_that_the_console_cannot_have(connected):
    """Names that look like each other, and like a user of the console."""
    add_user("bob")
    for name in ("ann", "Ann", "Bob"):
        connected.grant(f"user:{name}", "sales.orders", "SELECT")
    [result] = output("sync", "lake")
    refused = {row["subject"] for row in result["unsupported"]}
    assert refused == {"user:ann", "user:Bob"}
    assert all_grants() == {("user:Ann", "dataset:sales.orders", "READ")}
    assert output("drift", "lake") == []
    revoke_grant("user:Ann", "dataset:sales.orders", "READ")
    assert len(output("drift", "lake")) == 1
    output("push", "lake", "--apply", "--reason", "review")
    assert connected.listing() == {(name, "sales.orders", "SELECT") for name in refused}


@pytest.mark.parametrize("seed", range(4))
def test_after_a_push_of_random_changes_nothing_differs(connected, seed):
    random = Random(seed)
    places = ("sales", "sales.orders", "sales.customers", "hr.salaries")
    words = ("SELECT", "INSERT", "UPDATE", "DELETE", "ALL", "INDEX")
    for principal, place in product(("user:ann", "user:bob", "group:team"), places):
        for word in random.sample(words, random.randint(0, 4)):
            connected.grant(principal, place, word, grant_option=random.random() < 0.2)
    partial = {row["subject"] for row in output("sync", "lake")[0]["unsupported"]}
    held = sorted(all_grants())
    for principal, address, privilege in random.sample(held, len(held) // 3):
        # Hive has no ADMIN without READ and WRITE
        for one in {privilege, "ADMIN"}:
            if (principal, address, one) in all_grants():
                revoke_grant(principal, address, one)
    add_user("carl")
    for place in random.sample(places, 2):
        for privilege in random.choice((["READ"], ["WRITE"], ["READ", "WRITE", "ADMIN"])):
            add_grant("user:carl", f"dataset:{place}" if "." in place else f"namespace:{place}", privilege)
    expected = all_grants()
    output("push", "lake", "--apply", "--reason", "review")
    assert output("drift", "lake") == [] == output("push", "lake")
    [again] = output("sync", "lake")
    assert again["grants"] == {"granted": 0, "revoked": 0} and all_grants() == expected
    # a part of WRITE, INDEX and so on are still there, where WRITE or ALL did not contain them
    kept = {row["subject"] for row in again["unsupported"]}
    assert {text for text in partial if text.startswith("INDEX")} <= kept


def test_a_push_is_refused_if_the_metastore_changed_since_it_was_shown(connected):
    output("sync", "lake")
    add_user("bob")
    add_grant("user:bob", "dataset:sales.orders", "READ")
    output("push", "lake")
    connected.grant("user:eve", "sales.orders", "SELECT")
    with pytest.raises(CommandError, match="changed since its changes were shown"):
        output("push", "lake", "--apply", "--reason", "x")
    assert connected.listing() == {("user:eve", "sales.orders", "SELECT")}


def test_an_inactive_user_holds_nothing_on_the_platform_after_a_push(connected):
    connected.grant("user:alice", "sales.orders", "SELECT")
    output("sync", "lake")
    set_user_active("alice", active=False)
    output("push", "lake", "--apply", "--reason", "off-boarding")
    assert connected.listing() == set()


def test_with_four_eyes_a_second_person_agrees_to_a_sync_and_to_a_push(connected, settings, cast):
    settings.FOUR_EYES = True
    connected.grant("user:dee", "hr.salaries", "SELECT")
    for arguments in (["sync", "lake"], ["push", "lake", "--apply", "--reason", "quarterly review"]):
        with pytest.raises(CommandError, match="a second person must agree"):
            output(*arguments)
    output("sync", "lake", "--dry-run")
    output("sync", "lake", "--second-person", "ada")
    line = JournalLine.objects.get(action="grant", entity="dataset:hr.salaries", principal="user:dee")
    assert line.reason == "sync of lake; agreed with ada"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sync", "none"], "there is no connection `none`"),
        (["add", "hive", "lake", "--url", "http://x"], "write thrift://HOST:PORT"),
        (["add", "hive", "a b", "--url", "thrift://x"], "letters, digits and underscores"),
        (
            ["add", "oracle", "lake", "--url", "thrift://x"],
            "not a type of platform; the types are cdap, hive",
        ),
        (["add", "hive", "lake", "--url", "thrift://x", "--option", "color=1"], "its options are user"),
        (["add", "hive", "lake", "--url", "thrift://x", "--option", "user"], "write KEY=VALUE"),
    ],
)
def test_bad_input_says_how_to_fix_it(arguments, message):
    with pytest.raises(CommandError, match=message):
        output(*arguments)
    assert not Connection.objects.exists()


@contextmanager
def cutting(metastore: Metastore, sent: int) -> Iterator[None]:
    """Let the connection `lake` lose the metastore after the console sent so many bytes in each connection."""
    target = urlsplit(metastore.url)

    class Cutting(StreamRequestHandler):
        def handle(self):
            with socket.create_connection((target.hostname, target.port)) as server:
                answers = Thread(target=self.copy_answers, args=(server,))
                answers.start()
                rest = sent
                while rest > 0 and (part := self.request.recv(min(rest, 4096))):
                    server.sendall(part)
                    rest -= len(part)
                server.shutdown(socket.SHUT_WR)
                answers.join()

        def copy_answers(self, server):
            while part := server.recv(4096):
                self.request.sendall(part)

    connection = Connection.objects.get(name="lake")
    with ThreadingTCPServer(("127.0.0.1", 0), Cutting) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        Connection.objects.update(url=f"thrift://127.0.0.1:{proxy.server_address[1]}")
        yield
        proxy.shutdown()
    Connection.objects.update(url=connection.url)


def test_a_metastore_that_disappears_in_the_middle_loses_nothing(connected):
    connected.create_role("readers")
    connected.grant("role:readers", "sales.orders", "SELECT")
    for sent in (30, 100, 250):
        with cutting(connected, sent), pytest.raises(CommandError, match="ended the connection; check"):
            output("sync", "lake")
        assert not Entity.objects.exists() and not JournalLine.objects.filter(action="connection-sync")
    output("sync", "lake")
    revoke_grant("role:readers", "dataset:sales.orders", "READ")
    for number in range(40):
        add_user(f"user{number}")
        add_grant(f"user:user{number}", "dataset:sales.orders", "READ")
    # in the grants that the push sends
    with cutting(connected, 1_500), pytest.raises(CommandError, match="a part of the changes may have been"):
        output("push", "lake", "--apply", "--reason", "new team")
    assert ("role:readers", "sales.orders", "SELECT") in connected.listing()
    output("push", "lake", "--apply", "--reason", "new team")
    assert len(connected.listing()) == 40 and output("drift", "lake") == []


def test_a_metastore_that_does_not_answer_changes_nothing():
    output("add", "hive", "gone", "--url", "thrift://127.0.0.1:1")
    with pytest.raises(CommandError, match=r"the metastore at 127\.0\.0\.1:1"):
        output("sync", "gone")
    assert not Entity.objects.exists()
