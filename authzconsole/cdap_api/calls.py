"""The calls of the administration API of CDAP: grant, revoke, and list privileges; add, remove and list roles, and their
members.

Each function takes the request and the names in the path, and returns the content of the answer; None for an
empty one.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from authzconsole.common.api_caller import author_of
from authzconsole.common.problems import Problem
from authzconsole.common.request_body import read_json_object
from authzconsole.lists.grants import Grants
from authzconsole.lists.people import Roles
from entities.address import Address, named_kinds, parse_grantable
from entities.text import storage_fault
from entities.vocabulary import KINDS, Privilege, VocabularyError, clip, privilege_by_name
from grants.authority.rights import can_change_some_grants
from grants.change_set import Change, ChangeSet, Exclude, Grant, Include, Join, Leave, RemovePrincipal, Revoke
from grants.changes import apply
from grants.errors import PrincipalError
from grants.models import RoleGroup, User, all_grants
from grants.policies.catalogue import generation_by_name
from grants.policies.catalogue.platform_permissions import Permission, requirement_for
from grants.policies.principals import ROLE_PREFIX
from grants.principal_names import parse_principal, principals_by_name
from grants.principals.services import add_role
from grants.querysets import memberships_in_force
from grants.validity import in_force


class TokenRequest(HttpRequest):
    """A request of the owner of a token."""

    user: User


_TYPES = {"USER": "user:", "GROUP": "group:", "ROLE": ROLE_PREFIX}


def grant(request: TokenRequest) -> None:
    """Give a principal privileges on an entity."""
    body = read_json_object(request)
    address = _changeable_address_of(request, body)
    principal = _principal_of(body)
    if principal not in principals_by_name([principal]):
        raise Problem(404, f"the console does not know {clip(principal)}: add it before it gets privileges")
    _apply(
        request, *(Grant(principal, address, privilege) for privilege in _privileges_of(body, address.kind))
    )


def revoke(request: TokenRequest) -> None:
    """Take privileges from a principal; without a principal and privileges, all grants on the entity."""
    body = read_json_object(request)
    address = _changeable_address_of(request, body)
    if all(body.get(name) is None for name in ("principal", "actions", "permissions")):
        rows = all_grants(content_object__kind=address.kind, content_object__key=address.key)
        changes = [Revoke(*key) for grants in rows for key in grants.grant_keys()]
    else:
        principal, privileges = _principal_of(body), _privileges_of(body, address.kind)
        # CDAP does not know who exists: a revocation from an unknown principal changes nothing
        is_known = principal in principals_by_name([principal])
        changes = [Revoke(principal, address, privilege) for privilege in privileges] if is_known else []
    _apply(request, *changes)


def list_privileges(request: TokenRequest, type: str, name: str) -> list[dict]:
    """List the grants of a principal that are in force: one item for each permission that a privilege gives. Clients before
    6.5 read `action`, and later ones `permission`.
    """
    rows = _readable_grants(request, _principal(type, name))
    return [
        {
            "authorizable": _authorizable(row.content_object.address),
            "action": str(row.privilege),
            **permission,
        }
        for queryset, _ in rows.parts()
        for row in queryset.order_by("content_object__kind", "content_object__key", "permission_id")
        for permission in _permissions_json(row.privilege, row.content_object.kind)
    ]


def create_role(request: TokenRequest, role: str) -> None:
    """Add a role. Raise Problem (409) if it exists."""
    outcome = add_role(author=author_of(request), name=role)
    if not outcome.has_changed:
        raise Problem(409, outcome.sentence)


def drop_role(request: TokenRequest, role: str) -> None:
    """Remove a role with its members and grants. Raise Problem (404) if it does not exist."""
    principal = _known_role(request, role)
    _apply(request, RemovePrincipal(principal, True))


def list_roles(request: TokenRequest) -> list[dict]:
    """List the roles that the account may see."""
    names = Roles(request.user).select().order_by("name").values_list("name", flat=True)
    return [_role_json(name) for name in names]


def list_roles_of(request: TokenRequest, type: str, name: str) -> list[dict]:
    """List the roles of which a user or a group is a member."""
    principal = _principal(type, name)
    _readable_grants(request, principal)
    visible = Roles(request.user).select()
    if principal.startswith("group:"):
        roles = visible.filter(role_groups__in=RoleGroup.objects.filter(group__name=name, **in_force()))
    elif principal.startswith("user:"):
        found = memberships_in_force().filter(user__username=name).values("group_id")
        roles = visible.filter(pk__in=found)
    else:
        # a role is in no role
        roles = visible.none()
    return [_role_json(stored) for stored in roles.order_by("name").values_list("name", flat=True)]


def add_role_to(request: TokenRequest, type: str, name: str, role: str) -> None:
    """Add a user or a group to a role. Raise Problem (404) if the role does not exist."""
    stored = _known_role(request, role)
    _apply(request, Include(name, stored) if _is_group(type) else Join(name, stored))


def remove_role_from(request: TokenRequest, type: str, name: str, role: str) -> None:
    """Remove a user or a group from a role. Raise Problem (404) if the role does not exist."""
    stored = _known_role(request, role)
    _apply(request, Exclude(name, stored) if _is_group(type) else Leave(name, stored))


_PRINCIPAL = r"(?P<type>[^/]+)/(?P<name>.+)"
# (method, the path after the base, function), in the order in which they are tried
CALLS: list[tuple[str, str, Callable[..., Any]]] = [
    ("POST", r"privileges/grant", grant),
    ("POST", r"privileges/revoke", revoke),
    ("GET", r"roles", list_roles),
    ("PUT", r"roles/(?P<role>.+)", create_role),
    ("DELETE", r"roles/(?P<role>.+)", drop_role),
    ("GET", rf"{_PRINCIPAL}/privileges", list_privileges),
    ("GET", rf"{_PRINCIPAL}/roles", list_roles_of),
    ("PUT", rf"{_PRINCIPAL}/roles/(?P<role>.+)", add_role_to),
    ("DELETE", rf"{_PRINCIPAL}/roles/(?P<role>.+)", remove_role_from),
]


def _apply(request: TokenRequest, *changes: Change) -> None:
    apply(ChangeSet(tuple(changes)), author=author_of(request))


def _changeable_address_of(request: TokenRequest, body: dict) -> Address:
    """Return the address of a body. Raise Problem (403) if the account may change no grants on it: before anything is looked
    up, so that errors do not reveal what exists.
    """
    address = _address_of(body)
    if not can_change_some_grants(request.user, address):
        raise Problem(403, f"your account cannot change grants on {address}: ask an administrator")
    return address


def _readable_grants(request: TokenRequest, principal: str) -> Grants:
    """Return the grants of a principal. Raise Problem (403) if the account may not read what the principal has."""
    try:
        parse_principal(principal)
    except PrincipalError as error:
        raise Problem(400, str(error)) from None
    rows = Grants(request.user, {"principal": principal, "through_groups": False, "valid": "now"})
    if not rows.is_readable:
        raise Problem(403, "your account may only read its own grants and roles, and those of its groups")
    return rows


def _principal(type_name: str, name: str) -> str:
    """Return the written form of a principal. The handler of CDAP accepts its type in any case."""
    prefix = _TYPES.get(str(type_name).upper())
    if prefix is None:
        raise Problem(400, f"`{clip(str(type_name))}` is not a type of principal: use {', '.join(_TYPES)}")
    return f"{prefix}{name}"


def _is_group(type_name: str) -> bool:
    principal = _principal(type_name, "")
    if principal == ROLE_PREFIX:
        raise Problem(400, "a role cannot be a member of a role: name a USER or a GROUP")
    return principal == "group:"


def _known_role(request: TokenRequest, role: str) -> str:
    stored = f"{ROLE_PREFIX}{role}"
    if storage_fault(stored) or not Roles(request.user).select().filter(name=stored).exists():
        raise Problem(404, f"there is no role `{clip(role)}`")
    return stored


def _role_json(stored: str) -> dict:
    return {"name": stored.removeprefix(ROLE_PREFIX), "type": "ROLE"}


def _permissions_json(privilege: Privilege, kind: str) -> list[dict]:
    """Return the member `permission` of each permission that a privilege gives; one item without it if there are none."""
    given = (text.partition(":") for text in generation_by_name("cdap65").given_permissions(privilege, kind))
    return [{"permission": {"type": set_name, "name": name}} for set_name, _, name in given] or [{}]


def _member(body: dict, name: str, type_: type, example: str) -> Any:
    value = body.get(name)
    if not isinstance(value, type_):
        raise Problem(400, f"`{name}` is missing or has another type: send {example}")
    return value


def _principal_of(body: dict) -> str:
    member = _member(body, "principal", dict, '{"name": "sofia", "type": "USER"}')
    name = _member(member, "name", str, "the name of the principal")
    return _principal(_member(member, "type", str, "USER, GROUP or ROLE"), name)


def _privileges_of(body: dict, kind: str) -> list[Privilege]:
    """Return the privileges of `actions`, and those that give the `permissions` of CDAP 6.5 on an entity of the kind. CDAP
    accepts either or both.
    """
    privileges = []
    if body.get("permissions") is not None:
        permissions = _member(
            body, "permissions", list, 'a list such as [{"type": "STANDARD", "name": "GET"}]'
        )
        privileges += [_privilege_of(permission, kind) for permission in permissions]
    if body.get("actions") is not None or body.get("permissions") is None:
        names = _member(body, "actions", list, 'a list such as ["READ", "WRITE"]')
        try:
            privileges += [privilege_by_name(str(name)) for name in names]
        except VocabularyError as error:
            raise Problem(400, f"`actions`: {error}") from None
    if not privileges:
        raise Problem(400, "`actions` or `permissions` is empty: name at least one")
    return list(dict.fromkeys(privileges))


def _privilege_of(permission: object, kind: str) -> Privilege:
    """Return the privilege that gives a permission: of several, the first, which allows the least."""
    member = permission if isinstance(permission, dict) else {}
    text = f"{member.get('type')}:{member.get('name')}"
    try:
        return requirement_for(Permission(text.upper()), kind).privileges[0]
    except ValueError:
        raise Problem(400, f"`permissions`: `{clip(text)}` is not a permission on {kind.upper()}") from None


def _address_of(body: dict) -> Address:
    """Return the address of an `Authorizable`, which may be a pattern. Each part has the name of its kind."""
    member = _member(body, "authorizable", dict, '{"entityType": "DATASET", "entityParts": {...}}')
    type_name = _member(member, "entityType", str, "such as DATASET")
    parts = _member(member, "entityParts", dict, 'such as {"NAMESPACE": "sales", "DATASET": "orders"}')
    kind = type_name.lower()
    if kind not in KINDS:
        raise Problem(
            400, f"`{clip(type_name)}` is not a type of entity: use {', '.join(map(str.upper, KINDS))}"
        )
    if member.get("childType") is not None:
        raise Problem(
            400,
            "`childType` is not supported: send the type of the child as `entityType`, and `*` as its name for all of them",
        )
    path = named_kinds(kind) or [kind]
    if surplus := sorted(parts.keys() - {name.upper() for name in path}):
        raise Problem(400, f"`entityParts` of {kind.upper()} cannot have `{clip(surplus[0])}`")
    if missing := [name.upper() for name in path if not isinstance(parts.get(name.upper()), str)]:
        raise Problem(400, f"`entityParts` of {kind.upper()} lacks {', '.join(missing)}")
    # joined with a dot, they would be other parts
    if dotted := [name.upper() for name in path[:-1] if "." in parts[name.upper()]]:
        raise Problem(400, f"{', '.join(dotted)} of `entityParts` has a dot, which no such name has")
    return parse_grantable(f"{kind}:{'.'.join(parts[name.upper()] for name in path)}")


def _authorizable(address: Address) -> dict:
    parts = address.names or {address.kind: address.key}
    return {
        "entityType": address.kind.upper(),
        "entityParts": {kind.upper(): name for kind, name in parts.items()},
    }
