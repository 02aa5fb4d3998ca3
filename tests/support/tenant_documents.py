"""Build, import and export tenant documents."""

import io
import json
import random

import pytest
from django.contrib.auth.models import Group

from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.journal import Author, current_revision
from grants.models import (
    GroupGrant,
    Guardrail,
    GuardrailClause,
    GuardrailException,
    JournalHead,
    JournalLine,
    RoleGroup,
    RoleMembership,
    User,
    UserGrant,
)
from grants.tenant.export_document import export_tenant
from grants.tenant.import_document import import_tenant
from grants.tenant.reading import BadTenantDocument

AUTHOR = Author("tests", reason="test")
ODD_NAMES = [
    "ada",
    "Ada",
    "ÅSA",
    "zoë",
    "a b",
    "user:x",
    "名前",
    "ﬀ",
    "😀",
    "a\u2028b",
    "-",
    "_",
    "Z",
    "é",
    'quo"te',
    "back\\slash",
]
ODD_TEXTS = ["", "plain", 'quote " and \\ slash', "two\nlines\tand a tab", "naïve 😀 \u2028"]


def document(*lines: dict | str) -> bytes:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()


def import_lines(*lines, **options):
    """Import these lines. A single argument of type bytes is imported as the whole document."""
    content = lines[0] if lines and isinstance(lines[0], bytes) else document(*lines)
    return import_tenant(stream=io.BytesIO(content), author=AUTHOR, **options)


def export_bytes() -> bytes:
    stream = io.BytesIO()
    export_tenant(stream)
    return stream.getvalue()


def refused_import(*lines) -> BadTenantDocument:
    """Import lines that must be refused; check that nothing was written and return the error."""
    before = (export_bytes(), current_revision())
    with pytest.raises(BadTenantDocument) as refusal:
        import_lines(*lines)
    assert (export_bytes(), current_revision()) == before
    return refusal.value


def journal_entries(since: int = 0) -> list[tuple]:
    """Return (action, principal, entity, privilege, detail, reason) of each journal line after a revision."""
    rows = JournalLine.objects.filter(revision__gt=since)
    return list(rows.values_list("action", "principal", "entity", "privilege", "detail", "reason"))


def export_lines() -> list[dict]:
    return [json.loads(line) for line in export_bytes().splitlines()]


def entity(address, state=None, **members) -> dict:
    return {"type": "entity", "id": address, **({"state": state} if state else {}), **members}


def user(name, **members) -> dict:
    return {"type": "user", "name": name, **members}


def group(name, *members) -> dict:
    return {"type": "group", "name": name, "members": list(members)}


def role(name, *members) -> dict:
    return {"type": "role", "name": name, "members": list(members)}


def grant(principal, address, *privileges, **members) -> dict:
    return {
        "type": "grant",
        "principal": principal,
        "entity": address,
        "privileges": list(privileges),
        **members,
    }


EXAMPLE = [
    entity("namespace:sales", "live", description="Orders"),
    user("alice", active=True, email="alice@example.com"),
    user("bob"),
    group("analysts", "alice", "bob"),
    grant("user:alice", "dataset:sales.orders", "READ", "WRITE", reason="quarterly close"),
]


def empty_database() -> None:
    """Delete everything that a tenant document contains, and the journal, bypassing foreign keys and
    services.
    """
    guardrails = GuardrailException, GuardrailClause, Guardrail
    grants = UserGrant, GroupGrant, RoleMembership, RoleGroup, User.groups.through
    for model in (*guardrails, *grants, Group, User, Entity, JournalLine, JournalHead):
        # with the patterns and what follows from them
        model._base_manager.all()._raw_delete("default")


def random_lines(seed: int) -> list[dict]:
    """Return a tenant with unusual names and texts, in random order, without some entities that the import
    must add.
    """
    dice = random.Random(seed)
    users, groups = dice.sample(ODD_NAMES, dice.randint(1, 8)), dice.sample(ODD_NAMES, dice.randint(0, 5))
    addresses = _random_addresses(dice)
    lines = [
        entity(address, dice.choice([*State.values, None]), **_some_text(dice, "description"))
        for address in addresses
        if dice.random() < 0.7
    ]
    lines += [
        user(
            name,
            active=dice.random() < 0.8,
            **_some_text(dice, "email", ["", "a@example.com", "ä@example.com"]),
        )
        for name in users
    ]
    lines += [group(name, *dice.sample(users, dice.randint(0, len(users)))) for name in groups]
    roles = dice.sample(ODD_NAMES, dice.randint(0, 3))
    members = [f"user:{name}" for name in users] + [f"group:{name}" for name in groups]
    lines += [role(name, *dice.sample(members, dice.randint(0, len(members)))) for name in roles]
    principals = members + [f"role:{name}" for name in roles]
    lines += [
        grant(
            dice.choice(principals),
            dice.choice(addresses),
            *dice.sample(list(Privilege), dice.randint(1, 4)),
            **_some_text(dice, "reason"),
        )
        for _ in range(dice.randint(0, 40))
    ]
    dice.shuffle(lines)
    return lines


def _random_addresses(dice: random.Random) -> list[str]:
    addresses = []
    for namespace in dice.sample(["a", "B", "_", "ns_1", "Z9"], dice.randint(1, 3)):
        application = f"{namespace}.{dice.choice(['app', 'App-1', '_'])}"
        addresses += [
            f"namespace:{namespace}",
            f"application:{application}",
            f"program:{application}.spark.p-1",
            f"program:{application}.worker.p-1",
            f"dataset:{namespace}.x.y$z",
            f"dataset_module:{namespace}.x.y$z",
            f"dataset_type:{namespace}.T",
            f"stream:{namespace}.S",
            f"securekey:{namespace}.k",
            f"artifact:{namespace}.a-1.0",
        ]
    addresses += [
        "instance:cdap",
        "kerberosprincipal:etl/host.example.com@REALM",
        "kerberosprincipal:Ω@REALM",
    ]
    return dice.sample(addresses, dice.randint(1, len(addresses)))


def _some_text(dice: random.Random, member: str, texts: list[str] = ODD_TEXTS) -> dict:
    return {member: dice.choice(texts)} if dice.random() < 0.6 else {}
