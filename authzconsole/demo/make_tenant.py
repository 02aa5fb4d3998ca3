"""Write the demo tenant: python -m authzconsole.demo.make_tenant > authzconsole/demo/tenant.jsonl

The lines have the format and order of `manage.py export_tenant`, so that a small change gives a small diff.
"""

import json
import sys
import zlib
from collections.abc import Iterator

from authzconsole.demo.people import GROUPS, INACTIVE, USERS, WITHOUT_EMAIL
from authzconsole.demo.platform import ENTITIES
from authzconsole.demo.privileges import SINGLE_GRANTS, TEAMS, Team
from entities.vocabulary import Privilege

STATES = ("planned", "live", "deleted")
PROGRAM_TYPES = ("flow", "mapreduce", "workflow", "service", "spark", "worker")


def main() -> None:
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in tenant_lines():
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def tenant_lines() -> list[dict]:
    entities = {entity["id"]: entity for entity in _entities()}
    grants = _grants(list(entities.values()))
    return [
        *_sorted_by(entities.values(), "id"),
        *_sorted_by(_users(), "name"),
        *_sorted_by(_groups(), "name"),
        *_sorted_by(grants, "principal", "entity", "reason"),
    ]


def _sorted_by(lines, *members: str) -> list[dict]:
    return sorted(lines, key=lambda line: [line.get(member, "") for member in members])


def _entities() -> Iterator[dict]:
    container_names: list[str] = []
    for row in filter(str.strip, ENTITIES.splitlines()):
        depth = (len(row) - len(row.lstrip())) // 2
        words, _, description = row.strip().partition(" | ")
        *state, kind, name = words.split(" ", 2 if words.startswith(("planned ", "deleted ")) else 1)
        key = ".".join([*container_names[:depth], *([kind] if kind in PROGRAM_TYPES else []), name])
        container_names[depth:] = [name]
        entity = {
            "type": "entity",
            "id": f"{'program' if kind in PROGRAM_TYPES else kind}:{key}",
            "state": state[0] if state else "live",
        }
        yield {**entity, "description": description} if description else entity


def _users() -> Iterator[dict]:
    for name in USERS:
        user = {"type": "user", "name": name, "active": name not in INACTIVE}
        yield user if name in WITHOUT_EMAIL else {**user, "email": f"{name}@example.com"}


def _groups() -> Iterator[dict]:
    for name, members in GROUPS.items():
        yield {"type": "group", "name": name, "members": sorted(members.split())}


def _grants(entities: list[dict]) -> list[dict]:
    privileges_by_grant: dict[tuple[str, str, str], set[str]] = {}
    for principal, entity, privileges, reason in [*_single_grants(), *_team_grants(entities)]:
        privileges_by_grant.setdefault((principal, entity, reason), set()).update(privileges)
    return [_grant(*grant, privileges) for grant, privileges in privileges_by_grant.items()]


def _grant(principal: str, entity: str, reason: str, privileges: set[str]) -> dict:
    grant = {
        "type": "grant",
        "principal": principal,
        "entity": entity,
        "privileges": [privilege for privilege in Privilege if privilege in privileges],
    }
    return {**grant, "reason": reason} if reason else grant


def _single_grants() -> Iterator[tuple[str, str, list[str], str]]:
    for row in SINGLE_GRANTS.splitlines():
        if row.strip() and not row.startswith("#"):
            principal, entity, privileges, reason = (part.strip() for part in row.split("|"))
            yield principal, entity, privileges.split(), reason


def _team_grants(entities: list[dict]) -> Iterator[tuple[str, str, list[str], str]]:
    for team in TEAMS:
        for entity in entities:
            if entity["state"] == "live" and _belongs_to_team(team, *entity["id"].split(":", 1)):
                # every execution selects the same reasons, and they look as irregular as those of real users
                reason = team.reasons[zlib.crc32(entity["id"].encode()) % len(team.reasons)]
                yield team.principal, entity["id"], team.privileges.split(), reason


def _belongs_to_team(team: Team, kind: str, key: str) -> bool:
    return (
        kind in team.kinds.split()
        and key.split(".", 1)[0] == team.namespace
        and key not in team.excluded_keys.split()
    )


if __name__ == "__main__":
    main()
