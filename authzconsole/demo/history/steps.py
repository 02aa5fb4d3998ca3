"""The steps from the first day to the present, each a call of a service on one day."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from authzconsole.demo.history import story
from authzconsole.demo.history.present import CUSTOMER_KEYS, Present, PresentGrant
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.active_generation import activate_generation
from grants.changes.services import change_grants
from grants.journal import Author
from grants.lifecycle.services import delete_entity, describe_entity, recreate_entity, register_entity
from grants.models import Plan, User
from grants.plans.apply import apply_plan, discard_plan
from grants.plans.sources.changes import create_plan_from_changes
from grants.principals.memberships import change_members
from grants.principals.removal import remove_group
from grants.principals.services import add_group, add_user, set_user_active

Spec = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """A change on a day. phase: the order of the steps of one day. run: called with the author."""

    day_before: int
    phase: int
    reason: str
    run: Callable[[Author], object]


class FormerGrant(NamedTuple):
    specs: list[Spec]
    reason: str
    first_day: int
    last_day: int
    end_reason: str


def former_grants() -> Iterator[FormerGrant]:
    for row in filter(None, story.FORMER_GRANTS.splitlines()):
        principal, address, privileges, reason, first_day, last_day, end_reason = (
            part.strip() for part in row.split("|")
        )
        yield FormerGrant(
            [(principal, address, privilege) for privilege in privileges.split()],
            reason,
            int(first_day),
            int(last_day),
            end_reason,
        )


def first_document(present: Present) -> list[dict]:
    """Return the lines of the tenant document of the first day."""
    entities = [
        line | {"state": "live" if present.is_live_at_first(address) else line["state"]}
        for address, line in present.entities.items()
        if present.registration_day(address) == story.FIRST_DAY and line["state"] != "planned"
    ]
    descriptions = {address: text for address, text, _ in story.DESCRIBED_ENTITIES}
    entities = [
        line | {"description": descriptions[line["id"]]} if line["id"] in descriptions else line
        for line in entities
    ]
    users = [line | {"active": True} for name, line in present.users.items() if name not in story.JOINERS]
    new_name, old_name, *_ = story.RENAMED_TEAM
    groups = [
        {
            "type": "group",
            "name": old_name if name == new_name else name,
            "members": _first_members(name, members),
        }
        for name, members in present.groups.items()
        if name not in story.NEW_GROUPS
    ]
    former = [
        (spec, grant.reason)
        for grant in former_grants()
        if grant.first_day == story.FIRST_DAY
        for spec in grant.specs
    ]
    return [
        *entities,
        *users,
        *groups,
        *(_grant_line(*spec, reason) for spec, reason in (*_first_grants(present), *former)),
    ]


def _first_members(group: str, members: list[str]) -> list[str]:
    new_name, old_name, *_ = story.RENAMED_TEAM
    old_group = old_name if group == new_name else group
    return sorted(
        [
            *(user for user in members if (user, group) not in story.LATE_MEMBERS),
            *(
                user
                for user, left_group, first_day, *_ in story.FORMER_MEMBERS
                if left_group == old_group and first_day == story.FIRST_DAY
            ),
        ]
    )


def _first_grants(present: Present) -> Iterator[tuple[Spec, str]]:
    removed_address = story.RECREATED_ENTITIES[0][0]
    for grant in present.grants:
        if present.grant_day(grant) == story.FIRST_DAY or grant.entity == removed_address:
            yield (_old_principal(grant.principal), grant.entity, grant.privilege), grant.reason
    for spec in customer_data_revocations(present):
        yield spec, story.CUSTOMER_DATA_FORMER_REASON


def _old_principal(principal: str) -> str:
    new_name, old_name, *_ = story.RENAMED_TEAM
    return f"group:{old_name}" if principal == f"group:{new_name}" else principal


def _grant_line(principal: str, entity: str, privilege: str, reason: str) -> dict:
    return {
        "type": "grant",
        "principal": principal,
        "entity": entity,
        "privileges": [privilege],
        **({"reason": reason} if reason else {}),
    }


def customer_data_revocations(present: Present) -> list[Spec]:
    """Return the grants that sales engineering held on the customer data."""
    privileges = {
        "application": ("ADMIN",),
        "program": ("EXECUTE", "ADMIN"),
        "dataset": ("READ", "WRITE", "ADMIN"),
    }
    return [
        (story.CUSTOMER_DATA_FORMER_OWNER, address, privilege)
        for address in present.entities
        if address.partition(":")[2] in CUSTOMER_KEYS
        for privilege in privileges[address.partition(":")[0]]
    ]


def steps(present: Present) -> list[Step]:
    """Return all steps after the first document, in order."""
    sources = (
        _generation_steps(),
        _people_steps(present),
        _membership_steps(),
        _entity_steps(present),
        _grant_steps(present),
        _former_grant_steps(),
        _audit_steps(present),
        _team_steps(present),
        _plan_steps(present),
    )
    return sorted(
        (step for source in sources for step in source), key=lambda step: (-step.day_before, step.phase)
    )


def _generation_steps() -> Iterator[Step]:
    for day, name, reason in story.GENERATIONS:
        yield Step(day, 0, reason, lambda author, name=name: activate_generation(author=author, name=name))


def _people_steps(present: Present) -> Iterator[Step]:
    for name, (day, reason) in story.JOINERS.items():
        email = present.users[name].get("email", "")
        yield Step(
            day,
            1,
            reason,
            lambda author, name=name, email=email: add_user(author=author, name=name, email=email),
        )
    for name, (day, reason) in story.NEW_GROUPS.items():
        yield Step(day, 1, reason, lambda author, name=name: add_group(author=author, name=name))
    for name, (day, reason) in story.LEAVERS.items():
        yield Step(
            day, 9, reason, lambda author, name=name: set_user_active(author=author, name=name, active=False)
        )


def _membership_steps() -> Iterator[Step]:
    for (user, group), (day, reason) in story.LATE_MEMBERS.items():
        yield Step(
            day, 3, reason, lambda author, user=user, group=group: _change_member(author, group, added=user)
        )
    for user, group, first_day, last_day, reason in story.FORMER_MEMBERS:
        if first_day < story.FIRST_DAY:
            yield Step(
                first_day,
                3,
                "for a project",
                lambda author, user=user, group=group: _change_member(author, group, added=user),
            )
        yield Step(
            last_day,
            7,
            reason,
            lambda author, user=user, group=group: _change_member(author, group, removed=user),
        )


def _change_member(author: Author, group: str, *, added: str = "", removed: str = "") -> None:
    ids = {name: [User.objects.get(username=name).pk] if name else [] for name in (added, removed)}
    change_members(author=author, group=group, added=ids[added], removed=ids[removed])


def _entity_steps(present: Present) -> Iterator[Step]:
    for day, address in present.late_entities():
        description = present.entities[address].get("description", "")
        yield Step(
            day,
            2,
            f"DP-{1500 - day}",
            lambda author, address=address, description=description: register_entity(
                author=author, address=parse_address(address), description=description
            ),
        )
    for address, day, reason in story.DELETED_ENTITIES:
        yield Step(
            day,
            8,
            reason,
            lambda author, address=address: delete_entity(author=author, address=parse_address(address)),
        )
    for address, deletion_day, recreation_day, deletion_reason, reason in story.RECREATED_ENTITIES:
        yield Step(
            deletion_day,
            8,
            deletion_reason,
            lambda author, address=address: delete_entity(author=author, address=parse_address(address)),
        )
        yield Step(
            recreation_day,
            2,
            reason,
            lambda author, address=address: recreate_entity(author=author, address=parse_address(address)),
        )
    described = [(address, day, "") for address, _, day in story.DESCRIBED_ENTITIES]
    planned = [
        (address, min(present.grant_day(grant) for grant in present.grants if grant.entity == address), "")
        for address, line in present.entities.items()
        if line["state"] == "planned" and "description" in line
    ]
    for address, day, reason in (*described, *planned):
        yield Step(
            day,
            8,
            reason,
            lambda author, address=address: describe_entity(
                author=author,
                address=parse_address(address),
                description=present.entities[address]["description"],
            ),
        )


def _grant_steps(present: Present) -> Iterator[Step]:
    """Yield the present grants that were made after the first day, except those of the plan."""
    late_grants = [
        (present.grant_day(grant), grant)
        for grant in present.grants
        if present.grant_day(grant) < story.FIRST_DAY and not _is_in_plan(grant)
    ]
    *_, team_day, _ = story.RENAMED_TEAM

    def batch(item: tuple[int, PresentGrant]) -> tuple[int, str, str]:
        day, grant = item
        return -day, _old_principal(grant.principal) if day > team_day else grant.principal, grant.reason

    for (negative_day, principal, reason), items in groupby(
        sorted(late_grants, key=lambda item: (batch(item), item)), batch
    ):
        specs = [(principal, grant.entity, grant.privilege) for _, grant in items]
        yield Step(-negative_day, 4, reason, lambda author, specs=specs: _grant(author, specs))


def _grant(author: Author, specs: list[Spec]) -> None:
    change_grants(author=author, grant=_grant_specs(specs))


def _revoke(author: Author, specs: list[Spec]) -> None:
    change_grants(author=author, revoke=_grant_specs(specs))


def _grant_specs(specs: list[Spec]) -> list[tuple]:
    return [
        (principal, parse_address(address), Privilege[privilege]) for principal, address, privilege in specs
    ]


def _former_grant_steps() -> Iterator[Step]:
    for former in former_grants():
        if former.first_day < story.FIRST_DAY:
            yield Step(
                former.first_day, 4, former.reason, lambda author, specs=former.specs: _grant(author, specs)
            )
        yield Step(
            former.last_day, 6, former.end_reason, lambda author, specs=former.specs: _revoke(author, specs)
        )
    address, principal, day, last_day, reason, end_reason = story.ABANDONED
    specs = [(principal, address, "ADMIN")]
    yield Step(day, 4, reason, lambda author: _grant(author, specs))
    yield Step(last_day, 6, end_reason, lambda author: _revoke(author, specs))
    yield Step(
        last_day, 8, end_reason, lambda author: delete_entity(author=author, address=parse_address(address))
    )


def _audit_steps(present: Present) -> Iterator[Step]:
    kept = {(grant.principal, grant.entity) for grant in present.grants}
    for namespace, day in story.AUDIT_ROUNDS:
        addresses = [
            address
            for address, line in sorted(present.entities.items())
            if address.startswith(f"dataset:{namespace}.")
            and line["state"] == "live"
            and ("group:internal-audit", address) not in kept
            and present.registration_day(address) > day
        ]
        specs = [("group:internal-audit", address, "READ") for address in addresses[: story.AUDIT_DATASETS]]
        reason = f"audit of {namespace}, two weeks"
        yield Step(day, 4, reason, lambda author, specs=specs: _grant(author, specs))
        end_reason = f"end of the audit of {namespace}"
        yield Step(day - story.AUDIT_DAYS, 6, end_reason, lambda author, specs=specs: _revoke(author, specs))


def _team_steps(present: Present) -> Iterator[Step]:
    """Yield the steps that replace the old group by one with the new name."""
    new_name, old_name, day, reason = story.RENAMED_TEAM
    grants = [
        grant
        for grant in present.grants
        if grant.principal == f"group:{new_name}" and present.grant_day(grant) > day
    ]
    members = [user for user in present.groups[new_name] if (user, new_name) not in story.LATE_MEMBERS]
    yield Step(day, 1, reason, lambda author: add_group(author=author, name=new_name))
    yield Step(
        day,
        3,
        reason,
        lambda author: change_members(
            author=author,
            group=new_name,
            added=User.objects.filter(username__in=members).values_list("pk", flat=True),
        ),
    )
    for grant_reason, batch in groupby(
        sorted(grants, key=lambda grant: (grant.reason, grant)), lambda grant: grant.reason
    ):
        specs = [(grant.principal, grant.entity, grant.privilege) for grant in batch]
        yield Step(day, 4, grant_reason, lambda author, specs=specs: _grant(author, specs))
    specs = [(f"group:{old_name}", grant.entity, grant.privilege) for grant in grants]
    yield Step(day, 6, reason, lambda author: _revoke(author, specs))
    yield Step(day, 9, reason, lambda author: remove_group(author=author, name=old_name))


def _is_in_plan(grant: PresentGrant) -> bool:
    return (
        grant.principal == "group:platform-operations"
        and grant.reason == story.CUSTOMER_DATA_REASON
        and grant.entity.partition(":")[2] in CUSTOMER_KEYS
    )


def _plan_steps(present: Present) -> Iterator[Step]:
    granted = [
        (grant.principal, grant.entity, grant.privilege) for grant in present.grants if _is_in_plan(grant)
    ]
    revoked = customer_data_revocations(present)
    yield Step(
        story.CUSTOMER_DATA_DAY,
        5,
        story.CUSTOMER_DATA_REASON,
        lambda author: apply_plan(
            author=author, plan_id=_create_plan(author, story.CUSTOMER_DATA_TITLE, granted, revoked).pk
        ),
    )
    day, title, reason = story.DISCARDED_PLAN
    solvers = [
        ("user:sofia.lindqvist", f"program:logistics.route_planner.spark.{name}", privilege)
        for name in ("optimise_tours", "travel_times")
        for privilege in ("EXECUTE", "ADMIN")
    ]
    yield Step(
        day,
        5,
        reason,
        lambda author: discard_plan(author=author, plan_id=_create_plan(author, title, solvers, []).pk),
    )


def _create_plan(author: Author, title: str, granted: list[Spec], revoked: list[Spec]) -> Plan:
    return create_plan_from_changes(
        author=author, grant=_grant_specs(granted), revoke=_grant_specs(revoked), title=title
    )
