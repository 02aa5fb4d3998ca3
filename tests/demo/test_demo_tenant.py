"""The demo tenant contains every situation of docs/start/demo.md. The tests read only its file."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from entities.vocabulary import KINDS, PROGRAM_TYPES
from tests.support.tenant_documents import export_bytes, import_lines

DEMO = Path(__file__).parents[2] / "authzconsole" / "demo"
CONTENT = (DEMO / "tenant.jsonl").read_bytes()
LINES = [json.loads(line) for line in CONTENT.splitlines()]
SITUATIONS = (DEMO.parents[1] / "docs" / "start" / "demo.md").read_text().partition("## Try it")[0]

STATE = {line["id"]: line["state"] for line in LINES if line["type"] == "entity"}
ACTIVE = {line["name"] for line in LINES if line["type"] == "user" and line["active"]}
INACTIVE = {line["name"] for line in LINES if line["type"] == "user" and not line["active"]}
MEMBERS = {line["name"]: line["members"] for line in LINES if line["type"] == "group"}
GRANTED = {
    (line["principal"], line["entity"], privilege)
    for line in LINES
    if line["type"] == "grant"
    for privilege in line["privileges"]
}

ROLES = {line["name"]: line["members"] for line in LINES if line["type"] == "role"}
PATTERNS = {entity for _, entity, _ in GRANTED if "*" in entity}


def users_of(principal: str) -> set[str]:
    kind, _, name = principal.partition(":")
    if kind == "role":
        return {user for member in ROLES[name] for user in users_of(member)}
    return {name} if kind == "user" else set(MEMBERS[name])


GRANTS_BY_USER = defaultdict(set)
for principal, entity, privilege in GRANTED:
    for user in users_of(principal):
        GRANTS_BY_USER[user].add((entity, privilege))

LIVE = {entity for entity, state in STATE.items() if state == "live"}


def namespace_of(entity: str) -> str | None:
    kind, _, key = entity.partition(":")
    return None if kind in ("instance", "kerberosprincipal") else key.split(".", 1)[0]


def live_in(namespace: str) -> set[str]:
    """Return the namespace and the live entities inside: deleting it needs ADMIN on all of them in `final`."""
    return {entity for entity in LIVE if namespace_of(entity) == namespace}


def entities_without_admin(user: str, namespace: str) -> set[str]:
    return {entity for entity in live_in(namespace) if (entity, "ADMIN") not in GRANTS_BY_USER[user]}


def users_who_can_delete(namespace: str) -> set[str]:
    return {user for user in ACTIVE if not entities_without_admin(user, namespace)}


def administrators(entity: str) -> set[str]:
    return {user for user in ACTIVE if (entity, "ADMIN") in GRANTS_BY_USER[user]}


@pytest.mark.django_db
def test_exporting_the_imported_file_returns_the_same_file():
    assert not import_lines(CONTENT).warnings
    assert export_bytes() == CONTENT


def test_it_has_the_documented_size_and_every_kind_program_type_and_privilege():
    assert {entity.partition(":")[0] for entity in LIVE} >= set(KINDS) - {"system_app_entity"}
    assert {entity.split(".")[2] for entity in LIVE if entity.startswith("program:")} == set(PROGRAM_TYPES)
    assert {privilege for *_, privilege in GRANTED} >= {"READ", "WRITE", "EXECUTE", "ADMIN"}
    assert (len(STATE), len(ACTIVE | INACTIVE), len(MEMBERS), len(ROLES)) == (303, 40, 10, 1)
    assert len([entity for entity in LIVE if entity.startswith("namespace:")]) == 6
    text = " ".join(SITUATIONS.split())
    assert all(
        words in text for words in ("303 addresses", "40 users, 10 groups", "a role", "seven namespaces")
    )


def test_every_name_and_address_in_the_document_is_in_the_file():
    quoted = [word for word in SITUATIONS.split("`")[1::2] if "/" not in word]
    assert [
        address
        for address in quoted
        if address.partition(":")[0] in KINDS and address not in STATE.keys() | PATTERNS
    ] == []
    assert [
        name for name in quoted if name.count(".") == 1 and ":" not in name and name not in ACTIVE | INACTIVE
    ] == []
    assert [name[6:] for name in quoted if name.startswith("group:") and name[6:] not in MEMBERS] == []


def test_a_role_with_a_group_and_a_user_reads_the_reports_of_the_orders_by_a_pattern():
    assert ROLES == {"order-analysts": ["user:thandiwe.nkosi", "group:risk-analytics"]}
    assert PATTERNS == {"dataset:sales.orders.*"}
    matched = {entity for entity in LIVE if entity.startswith("dataset:sales.orders.")}
    assert len(matched) == 3 and "three datasets" in SITUATIONS
    holders = {user for user, held in GRANTS_BY_USER.items() if ("dataset:sales.orders.*", "READ") in held}
    assert holders == {"amara.okafor", "elif.yilmaz", "grace.kim", "nikolai.petrov", "thandiwe.nkosi"}


def test_exactly_one_user_can_delete_the_sandbox():
    assert users_who_can_delete("sandbox") == {"kenji.tanaka"}


def test_sofia_cannot_delete_logistics_because_of_three_entities_in_two_applications():
    blocking_entities = entities_without_admin("sofia.lindqvist", "logistics")
    assert blocking_entities == {
        "program:logistics.route_planner.spark.optimise_tours",
        "program:logistics.route_planner.spark.travel_times",
        "program:logistics.demand_forecast.spark.train_demand",
    }
    assert users_who_can_delete("logistics") == set()
    assert all(len(entities_without_admin(user, "logistics")) > 3 for user in ACTIVE - {"sofia.lindqvist"})


def test_no_user_can_delete_finance_because_two_entities_have_no_active_administrator():
    assert users_who_can_delete("finance") == set()
    entities_without_administrators = {entity for entity in live_in("finance") if not administrators(entity)}
    assert entities_without_administrators == {
        "dataset:finance.budget.2025",
        "securekey:finance.ledger-db-password",
    }


def test_deleted_entities_have_leftover_grants():
    ghosts = {(holder, entity) for holder, entity, _ in GRANTED if STATE.get(entity) == "deleted"}
    assert {"user:mei.chen", "user:nikolai.petrov", "group:store-operations"} <= {
        holder for holder, _ in ghosts
    }
    assert (
        len({entity for _, entity in ghosts if entity.startswith("dataset:")}) == 8
        and "eight datasets" in SITUATIONS
    )
    assert {"application:sales.click_collect_v1", "namespace:wholesale"} <= {entity for _, entity in ghosts}


def test_recreating_the_payroll_export_would_give_contractors_access():
    assert STATE["dataset:finance.payroll.export"] == "deleted"
    for user in MEMBERS["contractors"]:
        assert ("dataset:finance.payroll.export", "READ") in GRANTS_BY_USER[user]
        grants_in_finance = {
            entity for entity, _ in GRANTS_BY_USER[user] if namespace_of(entity) == "finance"
        }
        assert grants_in_finance == {"dataset:finance.payroll.export"}
