"""Attacks with tenant documents: names that return, accounts with a role, access of the author, and lines that
no exporter writes.
"""

import json
import tracemalloc

import pytest
from django.core.management import CommandError, call_command

from entities.address import parse_address
from grants.authority.stewards import stewarded_namespaces
from grants.models import NamespaceSteward, Role, User, UserGrant
from grants.stewards import add_steward
from grants.tenant.reading import MAX_LINE_BYTES
from tests.support.authors import COMMAND, account, database_state, is_permitted
from tests.support.changes import remove_user, rename_group, rename_user
from tests.support.tenant_documents import (
    document,
    export_bytes,
    grant,
    group,
    import_lines,
    refused_import,
    user,
)

pytestmark = pytest.mark.usefixtures("cast")
ORDERS = "dataset:sales.orders"


def import_file(tmp_path, *lines, **options) -> str:
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(*lines))
    call_command("import_tenant", str(file), **options)
    return str(file)


def test_an_import_of_one_person_is_refused_and_names_the_second_one(tmp_path, settings):
    settings.FOUR_EYES = True
    before = database_state()
    attack = grant("user:ada", "instance:cdap", "ADMIN")
    for options in ({}, {"second_person": "dee"}, {"second_person": "ada "}, {"second_person": "aud"}):
        with pytest.raises(CommandError, match="second-person|administrator"):
            import_file(tmp_path, attack, **options)
    assert database_state() == before
    User.objects.filter(username="ada").update(is_active=False)
    with pytest.raises(CommandError, match="administrator"):
        import_file(tmp_path, attack, second_person="ada")
    assert not UserGrant.objects.filter(user__username="ada").exists()


def test_an_import_gives_no_role_password_or_token():
    for line in (
        user("mallory", role="administrator"),
        user("mallory", is_staff=True),
        user("mallory", password="x"),
        user("ada", is_superuser=True),
        {"type": "token", "owner": "ada"},
        {"type": "steward", "namespace": "namespace:sales", "principal": "user:dee"},
        {"type": "approvers", "namespace": "namespace:sales", "group": "operators"},
    ):
        refused_import(line)
    import_lines(user("mallory"))
    mallory = account("mallory")
    assert (mallory.role, mallory.is_staff, mallory.has_usable_password()) == (Role.ORDINARY, False, False)


def test_an_import_warns_of_names_that_were_given_up_and_moves_nothing():
    rename_user(name="ned", new_name="ned-old")
    rename_group(name="operators", new_name="ops")
    report = import_lines(user("ned"), group("operators", "out"))
    warnings = str(report)
    assert "`user:ned` was renamed to `user:ned-old`, which keeps its access" in warnings
    assert "`group:operators` was renamed to `group:ops`" in warnings
    assert not is_permitted("ned", "drop", ORDERS) and is_permitted("ned-old", "drop", ORDERS)
    assert not UserGrant.objects.filter(user=account("ned")).exists()


def test_a_user_whom_an_import_adds_again_gets_nothing_of_the_removed_one():
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:dee")
    remove_user("dee", revokes_grants=True)
    import_lines(user("dee"))
    assert not stewarded_namespaces(account("dee")) and not NamespaceSteward.objects.exists()
    assert not is_permitted("dee", "read", ORDERS)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"user","name":"dee","name":"ada"}',
        '{"type":"user","name":"dee","active":true,"active":false}',
        '{"type":"grant","principal":"user:dee","entity":"dataset:sales.orders","privileges":["READ"],'
        '"privileges":["ADMIN"]}',
        '{"type":"group","name":"operators","members":["dee"],"members":["ada"]}',
        '{"type":"group","name":"operators","members":[{"name":"dee","name":"ada"}]}',
    ],
)
def test_a_line_with_a_repeated_member_is_refused(line):
    """A reviewer of the document and the import could otherwise read different values."""
    assert "appears more than once" in str(refused_import(line))


def test_principals_that_are_listed_twice_are_refused_and_grants_are_named():
    refused_import(user("dee"), user("dee", active=False))
    refused_import(group("operators", "dee"), group("operators", "ada"))
    refused_import(group("operators", "dee", "dee"))
    limited = grant("user:out", ORDERS, "READ", valid_until="2999-01-01T00:00:00Z")
    for lines in ((limited, grant("user:out", ORDERS, "READ")), (grant("user:out", ORDERS, "READ"), limited)):
        report = import_lines(*lines, dry_run=True)
        assert "line 2 grants READ on `dataset:sales.orders` to `user:out` again" in str(report)


def test_giant_lines_are_refused_in_bounded_memory():
    giant = b'{"type":"user","name":"' + b"x" * (3 * MAX_LINE_BYTES) + b'"}\n'
    content = giant + document(user("out", active=False))
    tracemalloc.start()
    error = refused_import(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "line 1: it is longer than 8 MB" in str(error) and "1 bad line" in str(error)
    assert peak < 6 * MAX_LINE_BYTES


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"type":"user","name":' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
        '{"type":"user","name":"a","active":1e999}',
        '{"type":"user","name":"\\ud800"}',
        '{"type":"user","name":"a\\u0000b"}',
        '{"type":"user","name":"a\\u202eb"}',
        '{"type":"user","name":' + "9" * 5_000 + "}",
        '{"type":"user","name":NaN}',
        json.dumps(
            {"type": "grant", "principal": "user:dee", "entity": "x" * 100_000, "privileges": ["READ"]}
        ),
        json.dumps({"type": "user", "name": "x" * 151}),
        json.dumps(grant("user:dee", ORDERS, *["READ"] * 10_000, "SUPER")),
    ],
)
def test_lines_that_no_exporter_writes_are_refused_with_their_number(line):
    error = refused_import(user("out"), line)
    assert str(error).startswith("line 2") and len(str(error)) < 1_000


def test_an_import_deactivates_not_the_last_administrator_and_ends_tokens():
    refused_import(user("ada", active=False))
    before = export_bytes()
    import_lines(before)
    assert export_bytes() == before
