"""Privilege cells: the privileges of a principal on an entity, one cell for each in the order of `Privilege`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import urlencode

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.timezone import localtime

from authzconsole.web.shared.links import address_url
from authzconsole.web.shared.times import fields_of_period, period_badge, privilege_periods
from entities.frozen import frozen
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import THROUGH_GROUPS, GroupGrant, User, UserGrant, privilege_of, type_of
from grants.policies.principals import group_text
from grants.validity import in_force

LETTERS = {Privilege.READ: "R", Privilege.WRITE: "W", Privilege.EXECUTE: "X", Privilege.ADMIN: "A"}

_DIRECT_STATUSES = {State.PLANNED: "planned", State.DELETED: "leftover"}
_STATE_SUFFIXES = {
    State.PLANNED: "; applies once the entity exists",
    State.DELETED: "; leftover grant on a deleted address",
}


@frozen
class PrivilegeCell:
    """One cell.

    status: direct, group, planned (direct grant on a planned entity), leftover (direct grant on a deleted
    entity), future or expired (direct grant out of its period) or none.
    url: the form that grants or revokes the privilege; empty if the account cannot change it.
    label: the text of the link for screen readers.
    """

    letter: str
    status: str
    title: str
    url: str = ""
    label: str = ""


def holder_cells(
    entity: Entity,
    principal: str,
    grants: Mapping[Privilege, UserGrant | GroupGrant],
    groups: Mapping[Privilege, Sequence[str]],
    *,
    can_change: bool,
) -> list[PrivilegeCell]:
    """Return the cells of a holder. can_change: with links to the forms that grant and revoke."""
    return [
        _holder_cell(
            entity, principal, privilege, grants.get(privilege), groups.get(privilege, ()), can_change
        )
        for privilege in Privilege
    ]


def _holder_cell(entity, principal, privilege, grant, groups, can_change) -> PrivilegeCell:
    status = _grant_status(grant, entity.state) if grant else "group" if groups else "none"
    title = f"{privilege} {_grant_text(grant, entity.state)}" if grant else _group_text(privilege, groups)
    if not can_change:
        return PrivilegeCell(LETTERS[privilege], status, title)
    verb, action = ("revoke", f"Revoke {privilege} from") if grant else ("grant", f"Grant {privilege} to")
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url(verb, entity)}?{query}"
    return PrivilegeCell(
        LETTERS[privilege], status, f"{title}. {action} {principal}", url, f"{action} {principal}; {title}"
    )


def privilege_cells(principal: User | Group, entities: Collection[Entity]) -> dict[int, list[PrivilegeCell]]:
    """Return the cells of a principal by the primary key of the entity, with the privileges that are in force, without
    details of the grants and without links.

    Runs two queries for a user, one for a group.
    """
    holders = type_of(principal)
    rows = holders.held_grants.filter(content_object__in=entities, **{holders.name: principal}, **in_force())
    direct: set[tuple[int, Privilege]] = set()
    by_pattern: dict[tuple[int, Privilege], str] = {}
    for entity_id, permission_id, kind, key in rows.values_list(
        "content_object_id", "permission_id", "pattern__kind", "pattern__key"
    ):
        place = entity_id, privilege_of(permission_id)
        if kind is None:
            direct.add(place)
        else:
            by_pattern[place] = f"{kind}:{key}"
    groups = groups_of_user(principal, entities) if isinstance(principal, User) else {}
    return {
        entity.pk: [
            _privilege_cell(
                privilege,
                entity.state,
                groups.get(entity.pk, {}).get(privilege, ()),
                by_pattern.get((entity.pk, privilege), ""),
                is_direct=(entity.pk, privilege) in direct,
            )
            for privilege in Privilege
        ]
        for entity in entities
    }


def _privilege_cell(
    privilege: Privilege, state: str, groups: Sequence[str], pattern: str, *, is_direct: bool
) -> PrivilegeCell:
    if is_direct:
        title = f"{privilege} held directly{_STATE_SUFFIXES.get(state, '')}"
        return PrivilegeCell(LETTERS[privilege], _DIRECT_STATUSES.get(state, "direct"), title)
    if pattern:
        title = f"{privilege} held by the pattern {pattern}{_STATE_SUFFIXES.get(state, '')}"
        return PrivilegeCell(LETTERS[privilege], _DIRECT_STATUSES.get(state, "direct"), title)
    return PrivilegeCell(LETTERS[privilege], "group" if groups else "none", _group_text(privilege, groups))


def _grant_text(grant, state: str) -> str:
    author = f" by {grant.granted_by.username}" if grant.granted_by else ""
    reason = f": {grant.reason}" if grant.reason else ""
    badge = period_badge(grant.validity)
    held = "held directly" if badge is None else f"held directly, {badge.title[0].lower()}{badge.title[1:]}"
    return f"{held}{_STATE_SUFFIXES.get(state, '')}, granted{author} on {localtime(grant.granted_at):%d %B %Y}{reason}"


def _grant_status(grant: UserGrant | GroupGrant, state: str) -> str:
    badge = period_badge(grant.validity)
    return (
        badge.status
        if badge and badge.status in ("future", "expired")
        else _DIRECT_STATUSES.get(state, "direct")
    )


def period_rows(
    entity: Entity,
    principal: str,
    grants: Mapping[Privilege, UserGrant | GroupGrant],
    *,
    can_change: bool,
    is_own: bool = False,
) -> list[dict]:
    """Return the periods of the grants of a holder, each with its privileges and the URL of the form that
    changes it, or that requests a later end if they are those of the reader.
    """
    return [
        {
            "privileges": ", ".join(privileges),
            "validity": validity,
            "url": reverse(
                "grant",
                args=[str(entity)],
                query={"principal": principal, "privilege": privileges, **fields_of_period(validity)},
            )
            if can_change
            else "",
            "extend_url": reverse("request-new", query={"entity": entity, "operation": privileges})
            if is_own and validity.valid_until
            else "",
        }
        for privileges, validity in privilege_periods(grants)
    ]


def _group_text(privilege: Privilege, groups: Sequence[str]) -> str:
    return (
        f"{privilege} held through {', '.join(f'{group_text(name)}' for name in groups)}"
        if groups
        else f"{privilege} not held"
    )


def group_privileges(entity: Entity, user_ids: Iterable[int]) -> dict[int, dict[Privilege, list[str]]]:
    """Return the groups through which each user holds each privilege on the entity now. Runs one query."""
    of_users = {f"{THROUGH_GROUPS.subject}__in": list(user_ids)}
    return _group_names(THROUGH_GROUPS.rows(content_object=entity, **of_users), by=THROUGH_GROUPS.subject)


def _group_names(grants: QuerySet, *, by: str) -> dict[int, dict[Privilege, list[str]]]:
    """Return the names of the groups by the value of a column and by privilege. Runs one query."""
    privileges: dict[int, dict[Privilege, list[str]]] = {}
    rows = grants.order_by("group__name").values_list(by, "permission_id", "group__name")
    for key, permission_id, group_name in rows:
        privileges.setdefault(key, {}).setdefault(privilege_of(permission_id), []).append(group_name)
    return privileges


def groups_of_user(user: User, entities: Collection[Entity]) -> dict[int, dict[Privilege, list[str]]]:
    """Return the groups through which the user holds each privilege now, by entity. Runs one query."""
    grants = THROUGH_GROUPS.rows(content_object__in=entities, **{THROUGH_GROUPS.subject: user})
    return _group_names(grants, by="content_object_id")
