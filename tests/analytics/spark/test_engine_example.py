"""The worked example of docs/engine.md: every table in it is what the engine makes of the tenant in it."""

import re

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.engine.count import Holder, Holdings, count_units
from analytics.spark.engine.facts import find_entries
from analytics.spark.engine.layout import WORD_BITS, split_into_units
from analytics.spark.engine.members import EVERYONE
from analytics.spark.engine.merge import count_stages
from analytics.spark.engine.pack import from_bytes
from analytics.spark.engine.rows import GROUP, NONE, decode, to_batch
from analytics.spark.engine.rules import PRIVILEGES, compile_rules, number_kinds, visibility_rules
from analytics.spark.engine.small_tenant import SENT_COLUMNS, Local, SmallTenantRules, Tenant, encode_tables
from authzconsole.ops import ROOT

RULE_SET = visibility_rules("final")
KINDS = number_kinds(RULE_SET)
RULES = compile_rules(RULE_SET, KINDS)
COLUMNS = (("user", "user"), ("kind", tuple(rule.kind for rule in RULE_SET.rules)), ("namespace", "namespace"),
           ("visible", "gained"))
ORDER = tuple(sorted(range(len(RULE_SET.rules)), key=lambda rule: RULE_SET.rules[rule].kind).index(rule)
              for rule in range(len(RULE_SET.rules)))


def documented(heading):
    """The rows of the first table below a heading: {column: text}."""
    text = (ROOT / "docs" / "engine.md").read_text()
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = [[cell.strip().strip("`") for cell in line.strip("|").split("|")]
             for line in section.splitlines() if line.startswith("|")]
    assert lines, f"no table below {heading}"
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


@pytest.fixture(scope="module")
def names():
    """The ids of entities, users and groups by their names, in the order of the document."""
    users = [row["user"] for row in documented("Users and groups")]
    groups = list(dict.fromkeys(name for row in documented("Users and groups") for name in row["groups"].split(", ")
                                if name != "-"))
    return ({row["entity"]: int(row["id"]) for row in documented("Entities")},
            {user: 1 + at for at, user in enumerate(users)}, {group: 1 + at for at, group in enumerate(groups)})


@pytest.fixture(scope="module")
def tenant(names):
    entities, users, groups = names

    def id_of(address):
        return entities.get(address, None)

    frames = {
        "entities": [{"id": number, "kind": address.partition(":")[0], "key": address.partition(":")[2],
                      "namespace_id": id_of(f"namespace:{address.partition(':')[2].split('.')[0]}"), "state": "live",
                      "application_id": id_of(f"application:{'.'.join(address.partition(':')[2].split('.')[:2])}")
                      if address.startswith(("application", "program")) else None} for address, number in entities.items()],
        "users": [{"id": number, "name": user} for user, number in users.items()],
        "memberships": [{"user_id": users[row["user"]], "group_id": groups[group]} for row in documented("Users and groups")
                        for group in row["groups"].split(", ") if group != "-"],
        "grants": [{"principal_type": row["principal"].partition(":")[0], "privilege": row["privilege"],
                    "principal_id": {**users, **groups}[row["principal"].partition(":")[2]], "entity_id": entities[row["entity"]]}
                   for row in documented("Grants")],
    }
    text = {"kind", "key", "state", "name", "principal_type", "privilege"}
    schema = pa.schema([("table", pa.string()), *((column, pa.string() if column in text else pa.int64())
                        for column in dict.fromkeys(column for columns in SENT_COLUMNS.values() for column in columns))])
    rows = [{"table": name, **row} for name, rows in frames.items() for row in rows]
    return Tenant([pa.RecordBatch.from_pylist(rows, schema)])


@pytest.fixture(scope="module")
def small():
    return SmallTenantRules(RULES, KINDS, PRIVILEGES)


@pytest.fixture(scope="module")
def directory(tenant, small):
    return tenant.directory(small)


@pytest.fixture
def batches(tenant, small):
    return [to_batch(encode_tables(tenant, small))]


@pytest.fixture
def unit(batches, directory):
    """(the unit of the tenant, its rows)."""
    [found] = split_into_units(decode(batches), directory)
    return found


def name_of(number, numbers):
    return next((name for name, known in numbers.items() if known == number), "-")


def test_the_target_rows_are_those_of_the_document(batches, names):
    targets = decode(batches).targets
    assert [
        {"entity": name_of(entity, names[0]), "family": name_of(family, names[0]), "block": str(block), "kind": str(kind),
         "application": name_of(application, names[0])}
        for entity, family, block, kind, application in zip(
            targets.entity, targets.family, targets.block, targets.kind, targets.application, strict=True)
    ] == documented("Target rows")


def test_the_grant_rows_are_those_of_the_document(batches, names):
    grants = decode(batches).grants
    assert [
        {"principal_type": "GROUP" if principal_type == GROUP else "USER",
         "principal": name_of(principal, names[2] if principal_type == GROUP else names[1]), "privilege": PRIVILEGES[privilege],
         "entity": name_of(entity, names[0]), "family": name_of(family, names[0]), "block": str(block),
         "application": name_of(application, names[0])}
        for principal_type, principal, privilege, entity, family, block, application in zip(
            grants.principal_type, grants.principal, grants.privilege, grants.entity, grants.family, grants.block,
            grants.application, strict=True)
    ] == documented("Grant rows")


def test_the_positions_are_those_of_the_document(unit, names):
    unit, _ = unit
    assert [{"position": str(position), "word": str(position // WORD_BITS), "entity": name_of(entity, names[0])}
            for position, entity in zip(unit.position, unit.entity, strict=True)] == documented("Layout")


def test_the_entries_and_overlaps_are_those_of_the_document(unit, directory, names):
    unit, rows = unit
    entries = find_entries(unit, rows, RULES, directory)
    has_overlap = Holdings(unit, entries, directory).has_overlap
    entity_at = dict(zip(unit.position.tolist(), unit.entity.tolist(), strict=True))
    assert sorted(
        (RULES.facts[fact].form, principal_name(principal, directory, names), name_of(entity_at[position], names[0]),
         "yes" if has_overlap[position] else "no")
        for fact, each in enumerate(entries)
        for principal, position in set(zip(each.principal.tolist(), each.position.tolist(), strict=True))
    ) == sorted(tuple(row[name] for name in ("fact", "principal", "target", "overlap")) for row in documented("Facts"))


def principal_name(principal, directory, names):
    if principal >= 0:
        return f"user:{name_of(directory.user_ids[principal], names[1])}"
    return f"group:{name_of(directory.group_ids[EVERYONE - 1 - principal], names[2])}"


def test_the_counts_are_those_of_the_document(batches, directory, names):
    counts = [
        (principal_name(holder if each.holder == Holder.USER else EVERYONE - 1 - holder, directory, names),
         RULE_SET.rules[rule].kind, str(gained))
        for each in count_units(iter(batches), RULES, directory, by_family=True) if each.holder != Holder.EVERYONE
        for holder, rule, gained in zip(each.holders, each.rules, each.gained, strict=True)
    ]
    assert sorted(counts) == sorted(tuple(row[name] for name in ("holder", "kind", "gained")) for row in documented("Counts"))


def test_the_packed_rows_and_the_result_are_those_of_the_document(batches, directory, names):
    pack, merge = count_stages(RULES, ORDER, COLUMNS, True, 1, Local(directory.to_dict()))
    packed = list(pack(iter(batches)))
    rows = [row for batch in packed for row in batch.to_pylist()]

    def shown(column):
        return "-" if column is None else " ".join(map(str, from_bytes(column).tolist()))

    binary = ("users", "groups", "cells", "gained")
    assert [{"part": str(row["part"])} | {name: shown(row[name]) for name in binary} for row in rows
            ] == documented("Packed counts")
    result = [{name: str(value) for name, value in row.items()} for batch in merge(iter(packed)) for row in batch.to_pylist()]
    assert result == documented("Result")


def test_the_cells_are_those_of_the_document(directory):
    ranks = directory.namespace_names.to_pylist()
    cells = {ORDER[rule] * len(ranks) + rank: (RULE_SET.rules[rule].kind, name) for rule in range(len(ORDER))
             for rank, name in enumerate(ranks)}
    assert np.all(directory.namespace_ids[0] == NONE)
    assert all(cells[int(row["cell"])] == (row["kind"], row["namespace"]) for row in documented("Cells"))
