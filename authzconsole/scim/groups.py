"""The SCIM resource `Group`. Members are users; groups are not nested."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from scim2_models import (
    Context,
    InvalidValueException,
    MutabilityException,
    NoTargetException,
    PatchOp,
    PatchOperation,
    Path,
    TooManyException,
    UniquenessException,
)
from scim2_models.path import CompareOperator, Comparison, LogicalExpr, LogicalOperator

from authzconsole.scim.discovery import Group as GroupResource
from authzconsole.scim.discovery import base_url
from authzconsole.scim.filters import (
    ColumnMap,
    ConstantColumn,
    IdColumn,
    RelatedRows,
    TextColumn,
    id_from_text,
    member_condition,
)
from authzconsole.scim.payloads import (
    POLICY,
    Query,
    patch_of,
    read_payload,
    scim_response,
)
from authzconsole.scim.rows import (
    ResourceRows,
    checked_external_id,
    external_id_of,
    row_or_404,
    store_external_id,
    visible_condition,
    visible_groups,
    visible_users,
    write_transaction,
)
from grants.change_set import RemovePrincipal, Rename
from grants.changes import ChangeSet, apply, changed_members
from grants.journal import Author
from grants.policies.principals import group_text
from grants.principal_names import name_fault
from grants.principals.services import add_group
from grants.querysets import memberships
from grants.validity import in_force_condition

SCHEMA = str(GroupResource.__schema__)
MAX_MEMBERS = 200_000
MAX_FILTERED_REMOVALS = 20
# an operation can have any number of members
MAX_OPERATIONS = 500
_MEMBER_COLUMNS = {
    "value": IdColumn("user_id"),
    "display": TextColumn("user__username"),
    "type": ConstantColumn("User"),
}
COLUMNS = ColumnMap(
    columns={
        ("id", None): IdColumn("pk"),
        ("display_name", None): TextColumn("name"),
        ("external_id", None): TextColumn("provisioned__external_id"),
        ("meta", "resource_type"): ConstantColumn("Group"),
    },
    related={"members": RelatedRows(lambda: _members().filter(group=OuterRef("pk")), _MEMBER_COLUMNS)},
    sortable={
        ("id", None): "pk",
        ("display_name", None): "name",
        ("external_id", None): "provisioned__external_id",
    },
)


def _members() -> QuerySet:
    """Return the memberships in force. Others do not count, and SCIM has no periods."""
    return memberships().filter(visible_condition("user__"), in_force_condition())


def create_group(request: HttpRequest, author: Author) -> HttpResponse:
    resource = GroupResource.model_validate(
        read_payload(request, SCHEMA), scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=POLICY
    )
    name, external_id = resource.display_name or "", checked_external_id(resource)
    if fault := name_fault(name):
        raise InvalidValueException(detail=f"displayName: {fault}")
    members = _ids([member.value for member in resource.members or []])
    with write_transaction():
        if not add_group(author=author, name=name).has_changed:
            raise UniquenessException(detail="a group of this name already exists", attribute="displayName")
        group = visible_groups().get(name=name)
        store_external_id(author, group, external_id, is_new=True)
        _MemberChanges(author, group).apply(add=members)
        return GROUPS.response(visible_groups().get(pk=group.pk), request, status=201)


def replace_group(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    """Replace the group.

    Without `members`, the members remain, so that an omission does not remove access.
    """
    resource = GroupResource.model_validate(
        read_payload(request, SCHEMA), scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=POLICY
    )
    external_id = checked_external_id(resource)
    members = None if resource.members is None else _ids([member.value for member in resource.members])
    with write_transaction():
        group = row_or_404(visible_groups(), pk)
        _rename(author, group, resource.display_name)
        store_external_id(author, group, external_id)
        if members is not None:
            changes = _MemberChanges(author, group)
            changes.replace(members)
            changes.flush()
        return GROUPS.response(visible_groups().get(pk=group.pk), request)


def patch_group(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    """Change the group and answer 204: the members, of which there may be 100,000, are not read.

    The number of statements does not depend on the number of members that are added or removed by id.
    """
    patch = patch_of(request, PatchOp[GroupResource], max_operations=MAX_OPERATIONS)
    targets = [
        (operation.op, path, value)
        for operation in patch.operations or []
        for path, value in _targets(operation)
    ]
    with write_transaction():
        group = row_or_404(visible_groups(), pk)
        changes, external_id = _MemberChanges(author, group), external_id_of(group)
        for operation, path, value in targets:
            match path.resolve().field_name:
                case "display_name":
                    _rename(author, group, value if operation != PatchOperation.Op.remove else "")
                case "external_id":
                    external_id = value if operation != PatchOperation.Op.remove else ""
                case "members":
                    _change_members(changes, operation, path, value)
        changes.flush()
        resource = GroupResource(external_id=external_id or None)
        store_external_id(author, group, checked_external_id(resource))
    return scim_response(None, status=204)


def delete_group(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    with write_transaction():
        group = row_or_404(visible_groups(), pk)
        apply(ChangeSet.of(RemovePrincipal(group_text(group.name))), author=author)
    return scim_response(None, status=204)


class _MemberChanges:
    """The membership changes of a request. They are written together."""

    def __init__(self, author: Author, group: Group):
        self.author, self.group = author, group
        # by the key of a user: whether the user becomes a member
        self.wanted: dict[int, bool] = {}
        self.is_replaced = False
        self.filtered_removals = 0

    def apply(self, *, add: Iterable[int]) -> None:
        self.wanted.update(dict.fromkeys(add, True))
        self.flush()

    def replace(self, ids: Iterable[int]) -> None:
        self.wanted, self.is_replaced = dict.fromkeys(ids, True), True

    def remove_matching(self, val_filter: Any) -> None:
        """Remove the members that a filter selects. Runs one query, unless the filter selects them by id."""
        ids = _ids_of_filter(val_filter)
        if ids is None:
            self.filtered_removals += 1
            if self.filtered_removals > MAX_FILTERED_REMOVALS:
                raise TooManyException(
                    detail=f"a request can have at most {MAX_FILTERED_REMOVALS} filters that do not select "
                    f"members by `value eq`"
                )
            # earlier operations of the request may have changed the members
            self.flush()
            ids = list(
                _members()
                .filter(member_condition(val_filter, _MEMBER_COLUMNS), group=self.group)
                .values_list("user_id", flat=True)
            )
        self.wanted.update(dict.fromkeys(ids, False))

    def flush(self) -> None:
        added = {pk for pk, is_member in self.wanted.items() if is_member}
        removed = self.wanted.keys() - added
        if added and (known := visible_users().filter(pk__among=added).count()) < len(added):
            raise InvalidValueException(detail=f"{len(added) - known:,} of the members do not exist")
        if self.is_replaced:
            removed = set(_members().filter(group=self.group).values_list("user_id", flat=True)) - added
        apply(changed_members(self.group.name, added=added, removed=removed), author=self.author)
        self.wanted, self.is_replaced = {}, False


def _targets(operation: PatchOperation) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of each attribute that an operation changes; the value of an operation without path
    lists them.
    """
    if operation.path is not None:
        path = Path[GroupResource](str(operation.path))
        if path.resolve() is not None and path.model is None:
            yield path, operation.value
        return
    if not isinstance(operation.value, dict):
        raise NoTargetException(detail="an operation without a path needs an object as its value")
    for name, value in operation.value.items():
        path = Path[GroupResource](name)
        if path.resolve() is not None:
            yield path, value


def _change_members(changes: _MemberChanges, operation: str, path: Path, value: Any) -> None:
    if (
        path.value_filter is not None
        and operation != PatchOperation.Op.remove
        or path.resolve().sub_field_name
    ):
        raise MutabilityException(detail="a member cannot be changed: add and remove members instead")
    if operation == PatchOperation.Op.remove:
        if path.value_filter is not None:
            changes.remove_matching(path.value_filter)
        elif value is not None:
            changes.wanted.update(dict.fromkeys(_ids(_values(value)), False))
        else:
            changes.replace([])
    elif operation == PatchOperation.Op.replace_:
        changes.replace(_ids(_values(value)))
    else:
        changes.wanted.update(dict.fromkeys(_ids(_values(value)), True))


def _values(value: Any) -> list:
    """Return the `value` of each member in the value of an operation."""
    members = value if isinstance(value, list) else [] if value is None else [value]
    values = []
    for member in members:
        if not isinstance(member, dict):
            raise InvalidValueException(detail="a member must be an object with a `value`")
        values.append(next((item for name, item in member.items() if name.lower() == "value"), None))
    return values


def _ids(values: list) -> list[int]:
    ids = [id_from_text(value) if isinstance(value, str) else None for value in values]
    if None in ids:
        raise InvalidValueException(detail="the `value` of a member must be the id of a user")
    return ids


def _ids_of_filter(node: Any) -> list[int] | None:
    """Return the ids of a filter such as `value eq "1" or value eq "2"`; None for other filters."""
    if isinstance(node, LogicalExpr) and node.op == LogicalOperator.or_:
        parts = [_ids_of_filter(term) for term in node.terms]
        return None if None in parts else [pk for part in parts for pk in part]
    if (
        isinstance(node, Comparison)
        and node.op == CompareOperator.eq
        and str(node.attr_path).lower() == "value"
    ):
        pk = id_from_text(node.value) if isinstance(node.value, str) else None
        return [] if pk is None else [pk]
    return None


def _rename(author: Author, group: Group, name: Any) -> None:
    if name == group.name:
        return
    if fault := name_fault(name) if isinstance(name, str) else "a text is required":
        raise InvalidValueException(detail=f"displayName: {fault}")
    apply(ChangeSet.of(Rename(group_text(group.name), name)), author=author)
    group.name = name


def _resources(groups: list[Group], query: Query) -> Iterable[dict]:
    """Return the resources of groups. Runs one query, for the members of all groups."""
    members = defaultdict(list)
    if groups and query.includes("members"):
        rows = _members().filter(group__pk__among=[group.pk for group in groups]).order_by("user_id")
        users_url, has_names = f"{base_url()}/Users", "members.display" in query.attributes
        for number, (group_id, user_id, name) in enumerate(
            rows.values_list("group_id", "user_id", "user__username")[: MAX_MEMBERS + 1].iterator()
        ):
            if number == MAX_MEMBERS:
                raise TooManyException(
                    detail=f"the response would have more than {MAX_MEMBERS:,} members: send "
                    f"excludedAttributes=members"
                )
            member = {"value": str(user_id), "$ref": f"{users_url}/{user_id}", "type": "User"}
            members[group_id].append(member | {"display": name} if has_names else member)
    return [
        _resource(group) | ({"members": members[group.pk]} if group.pk in members else {}) for group in groups
    ]


def _resource(group: Group) -> dict:
    resource = {
        "schemas": [SCHEMA],
        "id": str(group.pk),
        "displayName": group.name,
        "meta": {"resourceType": "Group", "location": f"{base_url()}/Groups/{group.pk}"},
    }
    if external_id := external_id_of(group):
        resource["externalId"] = external_id
    return resource


GROUPS = ResourceRows(SCHEMA, GroupResource, COLUMNS, visible_groups, _resources)
