"""Privilege cells: the privileges of a principal on an entity, one cell for each in the order of `Privilege`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.models import Group

from authzconsole.web.shared.links import address_url
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import GRANT_TABLES, GroupGrant, User, UserGrant, privilege_of

LETTERS = {Privilege.READ: "R", Privilege.WRITE: "W", Privilege.EXECUTE: "X", Privilege.ADMIN: "A"}

_DIRECT_STATUSES = {State.PLANNED: "planned", State.DELETED: "leftover"}
_STATE_SUFFIXES = {State.PLANNED: "; applies once the entity exists", State.DELETED: "; left over from a deleted entity"}


@dataclass(frozen=True, slots=True)
class PrivilegeCell:
    """One cell.

    status: direct, group, planned (direct grant on a planned entity), leftover (direct grant on a deleted entity) or none.
    url: the form that grants or revokes the privilege; empty if the account cannot change it.
    label: the text of the link for screen readers.
    """

    letter: str
    status: str
    title: str
    url: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class HeldPrivileges:
    """The privileges of one principal on one entity. groups: the names of the groups that hold a privilege, by privilege."""

    direct: frozenset[Privilege] = frozenset()
    groups: Mapping[Privilege, Sequence[str]] = ()


def holder_cells(entity: Entity, principal: str, grants: Mapping[Privilege, UserGrant | GroupGrant],
                 groups: Mapping[Privilege, Sequence[str]], *, changeable: bool) -> list[PrivilegeCell]:
    """Return the cells of a holder. changeable: with links to the forms that grant and revoke."""
    return [_holder_cell(entity, principal, privilege, grants.get(privilege), groups.get(privilege, ()), changeable)
            for privilege in Privilege]


def _holder_cell(entity, principal, privilege, grant, groups, changeable) -> PrivilegeCell:
    status = _DIRECT_STATUSES.get(entity.state, "direct") if grant else "group" if groups else "none"
    title = f"{privilege} {_grant_text(grant, entity.state)}" if grant else _group_text(privilege, groups)
    if not changeable:
        return PrivilegeCell(LETTERS[privilege], status, title)
    verb, action = ("revoke", f"Revoke {privilege} from") if grant else ("grant", f"Grant {privilege} to")
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url(verb, entity)}?{query}"
    return PrivilegeCell(LETTERS[privilege], status, f"{title}. {action} {principal}", url, f"{action} {principal}; {title}")


def privilege_cells(held: HeldPrivileges, state: str) -> list[PrivilegeCell]:
    """Return the cells of a principal, without details of the grants and without links."""
    return [_privilege_cell(held, privilege, state) for privilege in Privilege]


def _privilege_cell(held: HeldPrivileges, privilege: Privilege, state: str) -> PrivilegeCell:
    if privilege in held.direct:
        title = f"{privilege} held directly{_STATE_SUFFIXES.get(state, '')}"
        return PrivilegeCell(LETTERS[privilege], _DIRECT_STATUSES.get(state, "direct"), title)
    groups = dict(held.groups).get(privilege, ())
    return PrivilegeCell(LETTERS[privilege], "group" if groups else "none", _group_text(privilege, groups))


def _grant_text(grant, state: str) -> str:
    author = f" by {grant.granted_by.username}" if grant.granted_by else ""
    reason = f": {grant.reason}" if grant.reason else ""
    return f"held directly{_STATE_SUFFIXES.get(state, '')}, granted{author} on {grant.granted_at:%d %B %Y}{reason}"


def _group_text(privilege: Privilege, groups: Sequence[str]) -> str:
    return f"{privilege} held through {', '.join(f'group:{name}' for name in groups)}" if groups else f"{privilege} not held"


def group_privileges(entity: Entity, user_ids: Iterable[int]) -> dict[int, dict[Privilege, list[str]]]:
    """Return the groups through which each user holds each privilege on the entity. Runs one query."""
    rows = GroupGrant.objects.filter(content_object=entity, group__user__in=list(user_ids)).order_by("group__name")
    privileges: dict[int, dict[Privilege, list[str]]] = {}
    for user_id, permission_id, group_name in rows.values_list("group__user", "permission_id", "group__name"):
        privileges.setdefault(user_id, {}).setdefault(privilege_of(permission_id), []).append(group_name)
    return privileges


def held_privileges(principal: User | Group, entity_ids: Iterable[int]) -> dict[int, HeldPrivileges]:
    """Return the privileges of the principal on each entity. Runs two queries for a user, one for a group."""
    ids = list(entity_ids)
    model, column = GRANT_TABLES["user" if isinstance(principal, User) else "group"]
    rows = model.objects.filter(**{column: principal.pk, "content_object__in": ids})
    direct: dict[int, set[Privilege]] = {}
    for entity_id, permission_id in rows.values_list("content_object_id", "permission_id"):
        direct.setdefault(entity_id, set()).add(privilege_of(permission_id))
    groups = _privileges_through_groups(principal, ids) if isinstance(principal, User) else {}
    return {entity_id: HeldPrivileges(frozenset(direct.get(entity_id, ())), groups.get(entity_id, {})) for entity_id in ids}


def _privileges_through_groups(user: User, entity_ids: list[int]) -> dict[int, dict[Privilege, list[str]]]:
    privileges: dict[int, dict[Privilege, list[str]]] = {}
    rows = GroupGrant.objects.filter(group__user=user, content_object__in=entity_ids).order_by("group__name")
    for entity_id, permission_id, group_name in rows.values_list("content_object_id", "permission_id", "group__name"):
        privileges.setdefault(entity_id, {}).setdefault(privilege_of(permission_id), []).append(group_name)
    return privileges
