"""Test that every column of a grant is handled wherever grants are written, stored or shown.

CONTRIBUTING.md refers to this.
"""

import json

import pytest
from django.db.models import fields as model_fields

from analytics.tables import GRANTS
from authzconsole.lists.grants import GrantSerializer
from authzconsole.rest.grants import ChangeSetSerializer
from entities.address import parse_address
from grants.grant_attributes import GrantAttributes
from grants.models import GroupGrant, JournalLine, UserGrant
from grants.tenant.lines import ATTRIBUTE_READERS
from grants.validity import VALIDITY_COLUMNS
from tests.support.changes import change_grants
from tests.support.pages import post_as_shown
from tests.support.tenant_documents import empty_database, export_bytes, import_lines

ORDERS = parse_address("dataset:sales.orders")
# What a grant is about, and what the console records about it. A column that its author sets belongs to
# GrantAttributes.
IDENTITY = {
    "id",
    "user_id",
    "group_id",
    "content_object_id",
    "permission_id",
    "namespace_id",
    "application_id",
    "entity_kind",
    "pattern_id",
}
RECORDED = {"granted_by_id", "granted_at"}
# An allowed value of each column of GrantAttributes, as in a tenant document.
SAMPLES = {"reason": "quarterly close"}

each_attribute = pytest.mark.parametrize("name", GrantAttributes._fields)
each_model = pytest.mark.parametrize("model", [UserGrant, GroupGrant])


@pytest.fixture
def administrator_client(cast, client):
    client.force_login(cast["ada"])
    return client


@each_model
def test_every_column_of_a_grant_is_one_of_its_attributes_or_named_here(model):
    columns = {column.attname for column in model._meta.concrete_fields}
    assert columns - IDENTITY - RECORDED - {*VALIDITY_COLUMNS} == set(GrantAttributes._fields)


@each_model
def test_the_database_fills_in_each_new_attribute_of_a_grant(model):
    """Raw statements, such as those of the benchmarks, do not name it, and Django's own default applies to
    the ORM only.
    """
    columns = {column.attname: column for column in model._meta.concrete_fields}
    for name in set(GrantAttributes._fields) - {"reason"}:
        assert columns[name].null or columns[name].db_default is not model_fields.NOT_PROVIDED, name


def test_every_attribute_has_a_sample_and_a_reader():
    assert set(SAMPLES) == set(ATTRIBUTE_READERS) == set(GrantAttributes._fields)


@each_attribute
def test_the_journal_line_of_a_grant_has_its_attributes(cast, name):
    change_grants(grant=[("user:out", ORDERS, "READ")], attributes={name: SAMPLES[name]})
    assert SAMPLES[name] in _journalled_values()
    assert str(getattr(UserGrant.objects.get(user=cast["out"]), name)) == SAMPLES[name]


@each_attribute
@pytest.mark.parametrize("principal", ["user:out", "group:operators"])
def test_a_tenant_document_has_its_attributes(db, name, principal):
    kind, _, written = principal.partition(":")
    line = {
        "type": "grant",
        "principal": principal,
        "entity": str(ORDERS),
        "privileges": ["READ"],
        name: SAMPLES[name],
    }
    import_lines(json.dumps({"type": kind, "name": written}), json.dumps(line))
    assert SAMPLES[name] in _journalled_values()
    document = export_bytes()
    assert line in [json.loads(text) for text in document.splitlines()]
    empty_database()
    import_lines(document)
    assert export_bytes() == document


def test_a_snapshot_has_its_attributes():
    assert GRANTS.column_names == (
        "principal_type",
        "principal_id",
        "entity_id",
        "privilege",
        *GrantAttributes._fields,
        "granted_at",
        "valid_until",
        "pattern",
    )


@each_attribute
def test_rest_reads_and_writes_its_attributes(administrator_client, name):
    assert name in GrantSerializer().fields and name in ChangeSetSerializer().fields
    sent = {
        "grant": [{"principal": "user:out", "entity": str(ORDERS), "privileges": ["READ"]}],
        name: SAMPLES[name],
    }
    answer = administrator_client.post("/api/v1/grants", sent, content_type="application/json")
    assert answer.status_code == 200, answer.content
    (grant,) = administrator_client.get("/api/v1/grants?principal=user:out").json()["items"]
    assert grant[name] == SAMPLES[name]


@each_attribute
def test_the_form_of_the_page_sends_its_attributes(administrator_client, cast, name):
    assert f'name="{name}"' in administrator_client.get(f"/grant/{ORDERS}").content.decode()
    sent = {"principal": "user:out", "privilege": "READ", name: SAMPLES[name]}
    assert post_as_shown(administrator_client, f"/grant/{ORDERS}", sent).status_code == 303
    assert str(getattr(UserGrant.objects.get(user=cast["out"]), name)) == SAMPLES[name]


@each_attribute
def test_the_pages_that_list_grants_show_its_attributes(administrator_client, name):
    change_grants(grant=[("user:out", ORDERS, "READ")], attributes={name: SAMPLES[name]})
    for url in (f"/entities/{ORDERS}", "/people/user:out"):
        page = administrator_client.get(url).content.decode()
        holders = page.split('id="history"')[0]
        assert SAMPLES[name] in holders, url


def _journalled_values() -> set[str]:
    """Return the texts of the newest line about a grant."""
    line = JournalLine.objects.filter(action="grant").latest("revision")
    return {line.reason, *(part.split(" ", 1)[-1] for part in line.detail.split("; "))}
