"""The four privilege squares of one principal on one entity, always in the order R W X A."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.models import Group

from authzconsole.web.shared.links import address_url
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import GRANT_TABLES, GroupGrant, User, UserGrant, privilege_of

LETTERS = {Privilege.READ: "R", Privilege.WRITE: "W", Privilege.EXECUTE: "X", Privilege.ADMIN: "A"}

_DIRECT = {State.PLANNED: "planned", State.DELETED: "leftover"}
_STATE_WORDS = {State.PLANNED: "; it waits for a planned entity", State.DELETED: "; it outlived a deleted entity"}


@dataclass(frozen=True, slots=True)
class PrivilegeCell:
    """how: direct, group, planned (planned entity), leftover (deleted entity) or none. url: where a click leads, may be empty."""

    letter: str
    how: str
    title: str
    url: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class HeldPrivileges:
    """What one principal holds on one entity: itself, and through which groups."""

    direct: frozenset[Privilege] = frozenset()
    groups: Mapping[Privilege, Sequence[str]] = ()


def holder_cells(entity: Entity, principal: str, grants: Mapping[Privilege, UserGrant | GroupGrant],
                 groups: Mapping[Privilege, Sequence[str]], *, changeable: bool) -> list[PrivilegeCell]:
    """The squares of a holder, from its own grants and those of its groups; a click grants or revokes."""
    return [_holder_cell(entity, principal, privilege, grants.get(privilege), groups.get(privilege, ()), changeable)
            for privilege in Privilege]


def _holder_cell(entity, principal, privilege, grant, groups, changeable) -> PrivilegeCell:
    how = _DIRECT.get(entity.state, "direct") if grant else "group" if groups else "none"
    title = f"{privilege} {_granted_words(grant, entity.state)}" if grant else _other_words(privilege, groups)
    if not changeable:
        return PrivilegeCell(LETTERS[privilege], how, title)
    verb, words = ("revoke", f"Revoke {privilege} from") if grant else ("grant", f"Grant {privilege} to")
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    return PrivilegeCell(LETTERS[privilege], how, f"{title}. {words} {principal}", f"{address_url(verb, entity)}?{query}",
                f"{words} {principal}; {title}")


def privilege_cells(held: HeldPrivileges, state: str) -> list[PrivilegeCell]:
    """The squares of what one principal holds, without details."""
    return [_held_cell(held, privilege, state) for privilege in Privilege]


def _held_cell(held: HeldPrivileges, privilege: Privilege, state: str) -> PrivilegeCell:
    if privilege in held.direct:
        return PrivilegeCell(LETTERS[privilege], _DIRECT.get(state, "direct"),
                             f"{privilege} held directly{_STATE_WORDS.get(state, '')}")
    groups = dict(held.groups).get(privilege, ())
    return PrivilegeCell(LETTERS[privilege], "group" if groups else "none", _other_words(privilege, groups))


def _granted_words(grant, state: str) -> str:
    by = f" by {grant.granted_by.username}" if grant.granted_by else ""
    why = f": {grant.reason}" if grant.reason else ""
    return f"held directly{_STATE_WORDS.get(state, '')}, granted{by} on {grant.granted_at:%d %B %Y}{why}"


def _other_words(privilege: Privilege, groups: Sequence[str]) -> str:
    return f"{privilege} held through {', '.join(f'group:{name}' for name in groups)}" if groups else f"{privilege} not held"


def group_privileges(entity: Entity, user_ids: Iterable[int]) -> dict[int, dict[Privilege, list[str]]]:
    """What each user holds on the entity through which groups. One query."""
    rows = GroupGrant.objects.filter(content_object=entity, group__user__in=list(user_ids)).order_by("group__name")
    found: dict[int, dict[Privilege, list[str]]] = {}
    for user_id, permission_id, name in rows.values_list("group__user", "permission_id", "group__name"):
        found.setdefault(user_id, {}).setdefault(privilege_of(permission_id), []).append(name)
    return found


def held_privileges(principal: User | Group, entity_ids: Iterable[int]) -> dict[int, HeldPrivileges]:
    """What the principal holds on each of these entities. Two queries of a user, one of a group."""
    ids = list(entity_ids)
    model, column = GRANT_TABLES["user" if isinstance(principal, User) else "group"]
    own = model.objects.filter(**{column: principal.pk, "content_object__in": ids})
    direct: dict[int, set[Privilege]] = {}
    for entity_id, permission_id in own.values_list("content_object_id", "permission_id"):
        direct.setdefault(entity_id, set()).add(privilege_of(permission_id))
    groups = _through_groups(principal, ids) if isinstance(principal, User) else {}
    return {entity_id: HeldPrivileges(frozenset(direct.get(entity_id, ())), groups.get(entity_id, {})) for entity_id in ids}


def _through_groups(user: User, ids: list[int]) -> dict[int, dict[Privilege, list[str]]]:
    groups: dict[int, dict[Privilege, list[str]]] = {}
    rows = GroupGrant.objects.filter(group__user=user, content_object__in=ids).order_by("group__name")
    for entity_id, permission_id, name in rows.values_list("content_object_id", "permission_id", "group__name"):
        groups.setdefault(entity_id, {}).setdefault(privilege_of(permission_id), []).append(name)
    return groups
