"""The SCIM resource `User`, and the manager of a user in its enterprise extension."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db.models import OuterRef, QuerySet
from django.db.models.functions import Abs
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from scim2_models import Context, InvalidValueException, PatchOp, UniquenessException

from authzconsole.common.sign_in_methods import remove_all_factors, unlink_all_identities
from authzconsole.models import ApiToken, ProvisionedUser, TokenScope
from authzconsole.scim.discovery import EMAIL_TYPE, EnterpriseUser, Manager, UserResource, base_url
from authzconsole.scim.filters import (
    BooleanColumn,
    ColumnMap,
    ConstantColumn,
    IdColumn,
    RelatedRows,
    TextColumn,
    id_from_text,
)
from authzconsole.scim.payloads import (
    ENTERPRISE,
    POLICY,
    Query,
    first_emails_first,
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
    visible_users,
    write_transaction,
)
from grants.authority.transactions import administrator_transaction
from grants.change_set import Activate, Deactivate, Rename
from grants.changes import ChangeSet, apply, remove_all_memberships
from grants.errors import PrincipalError
from grants.journal import Author, append_to_journal
from grants.models import JournalLine, Role, User, UserGrant
from grants.policies.principals import ROLE_PREFIX
from grants.principal_names import name_fault
from grants.principals.hooks import end_duties
from grants.principals.services import add_user, email_fault, set_user_email
from grants.querysets import memberships
from grants.requests.expiry import detach_requests_of
from grants.reviews.answers import detach_reviews_by
from grants.reviews.reviewers import set_manager
from grants.validity import in_force_condition

RELATED = ("manager_link__manager", "manager_link__manager__provisioned")
_MANAGER = "manager"
_PATH = f"{ENTERPRISE}:{_MANAGER}".lower()


SCHEMA = str(UserResource.__schema__)
MAX_LINES_READ = 1_000
MAX_OPERATIONS = 100
_EMAIL = TextColumn("email", is_case_exact=False)
COLUMNS = ColumnMap(
    columns={
        ("id", None): IdColumn("pk"),
        ("user_name", None): TextColumn("username"),
        ("active", None): BooleanColumn("is_active"),
        ("external_id", None): TextColumn("provisioned__external_id"),
        ("emails", "value"): _EMAIL,
        ("emails", "type"): ConstantColumn(EMAIL_TYPE, _EMAIL.present()),
        ("emails", "primary"): ConstantColumn(True, _EMAIL.present()),
        ("manager", "value"): IdColumn("manager_link__manager", is_required=False),
        ("manager", "display_name"): TextColumn("manager_link__manager__username"),
        ("meta", "resource_type"): ConstantColumn("User"),
    },
    related={
        "groups": RelatedRows(
            lambda: _group_memberships().filter(user=OuterRef("pk")),
            {"value": IdColumn("group_id"), "display": TextColumn("group__name")},
        )
    },
    sortable={
        ("id", None): "pk",
        ("user_name", None): "username",
        ("active", None): "is_active",
        ("external_id", None): "provisioned__external_id",
        ("emails", "value"): "email",
    },
)


def create_user(request: HttpRequest, author: Author) -> HttpResponse:
    payload = managers_as_objects(first_emails_first(read_payload(request, SCHEMA)))
    payload.setdefault("active", True)
    resource = UserResource.model_validate(
        payload, scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=POLICY
    )
    name, email, external_id = resource.user_name or "", _email_of(resource), checked_external_id(resource)
    if fault := name_fault(name):
        raise InvalidValueException(detail=f"userName: {fault}")
    with write_transaction():
        user = User.objects.filter(username=name).select_related("provisioned").first()
        if user is None:
            add_user(author=author, name=name, email=email, active=bool(resource.active))
        else:
            _check_can_return(user)
            ProvisionedUser.objects.filter(user=user).update(removed_at=None)
            _remove_traces(author, user)
            set_user_email(author=author, name=name, email=email)
            _set_active(author, name, is_active=bool(resource.active))
        user = _reload(User.objects.get(username=name))
        store_external_id(author, user, external_id, is_new=True)
        store_manager(author, user, resource)
        return USERS.response(_reload(user), request, status=201)


def _remove_traces(author: Author, user: User) -> None:
    """Remove the full name, password, second factors, linked identities, duties, requests and reviews, because
    the name may belong to another person now.
    """
    User.objects.filter(pk=user.pk).update(password=make_password(None), first_name="", last_name="")
    with administrator_transaction(author, allows_provisioner=True) as head:
        remove_all_factors(head, author, user)
        unlink_all_identities(head, author, user)
        append_to_journal(head, end_duties(user), author=author)
    detach_requests_of(user)
    detach_reviews_by(user)


def _check_can_return(user: User) -> None:
    """Raise UniquenessException unless the user was removed over SCIM and has nothing that another person
    would inherit.
    """
    if (
        user.is_service
        or user.is_active
        or getattr(user, "provisioned", None) is None
        or user.provisioned.removed_at is None
    ):
        raise UniquenessException(detail="a user of this name already exists", attribute="userName")
    if user.role != Role.ORDINARY or user.groups.exists() or UserGrant.objects.filter(user=user).exists():
        raise UniquenessException(
            detail="a removed user of this name still has grants, memberships or a console role, which the new user would "
            "inherit: an administrator must revoke them, or activate the user",
            attribute="userName",
        )
    if not _was_deactivated_over_scim(user):
        raise UniquenessException(
            detail="a removed user of this name was deactivated outside SCIM: an administrator must activate the user",
            attribute="userName",
        )


def _check_can_activate(user: User) -> None:
    """Raise PrincipalError if only an administrator can activate the user."""
    if not _was_deactivated_over_scim(user):
        raise PrincipalError(
            f"{user} was deactivated outside SCIM: only an administrator can activate the account"
        )


def _was_deactivated_over_scim(user: User) -> bool:
    """Return whether a provisioning service deactivated the inactive user, or added the user as inactive.

    A token that can also administer does not count, because its lines may be from the REST API. Only the last
    MAX_LINES_READ lines of the user are read. Runs three queries, and two more for each rename.
    """
    token = next(
        (token for action, token in _lines_of(user) if action in ("user-add", "user-deactivate")), None
    )
    scopes = (ApiToken.objects.filter(pk=token).values_list("scopes", flat=True).first() or "").split()
    return TokenScope.PROVISION in scopes and TokenScope.ADMINISTER not in scopes


def _lines_of(user: User) -> Iterator[tuple[str, int | None]]:
    """Yield action and token of the lines of a user, newest first, also those under earlier names.

    One query for each name.
    """
    name, end, read = str(user), None, 0
    while name and read < MAX_LINES_READ:
        lines = JournalLine.objects.annotate(place=Abs("revision")).order_by("-place")
        lines = lines if end is None else lines.filter(place__lt=end)
        rename = lines.filter(action="user-rename", detail=name).values_list("principal", "revision").first()
        start = rename[1] if rename else 0
        # before that line, the name belonged to another user
        for action, token in lines.filter(principal=name, place__gt=start).values_list("action", "token")[
            : MAX_LINES_READ - read
        ]:
            read += 1
            yield action, token
        name, end = rename or ("", None)


def replace_user(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    """Replace the user.

    Without `active`, an inactive user stays inactive; without `manager`, the user keeps the manager.
    """
    payload = managers_as_objects(first_emails_first(read_payload(request, SCHEMA)))
    keeps_state = all(name.lower() != "active" for name in payload)
    if keeps_state:
        payload["active"] = True
    resource = UserResource.model_validate(
        payload, scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=POLICY
    )
    with write_transaction():
        user = row_or_404(_users(), pk)
        if keeps_state:
            resource.active = user.is_active
        if not has_manager_member(payload):
            keep_manager(resource, user)
        resource.replace(_as_model(user))
        _change_user(author, user, resource)
        return USERS.response(_reload(user), request)


def patch_user(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    patch = patch_of(
        request, PatchOp[UserResource], max_operations=MAX_OPERATIONS, prepare=managers_as_objects
    )
    user = row_or_404(_users(), pk)
    resource = _apply_patch(user, patch)
    with write_transaction():
        current = row_or_404(_users(), pk)
        # another request may have changed the user
        if _resource(current) != _resource(user):
            resource = _apply_patch(current, patch)
        _change_user(author, current, resource)
        return USERS.response(_reload(current), request)


def _apply_patch(user: User, patch: PatchOp) -> UserResource:
    """Return the resource of a user after the operations. This takes half a millisecond for each."""
    resource = _as_model(user)
    patch.patch(resource, scim_policy=POLICY)
    return resource


def delete_user(request: HttpRequest, author: Author, pk: str) -> HttpResponse:
    """Deactivate the user, remove all memberships, end all duties, and hide the user. Grants remain, but have no
    effect.
    """
    with write_transaction():
        user = row_or_404(_users(), pk)
        _check_not_break_glass(user)
        _set_active(author, user.username, is_active=False)
        remove_all_memberships(author=author, user=user)
        with administrator_transaction(author, allows_provisioner=True) as head:
            append_to_journal(head, end_duties(user), author=author)
        ProvisionedUser.objects.update_or_create(user=user, defaults={"removed_at": timezone.now()})
    return scim_response(None, status=204)


def _change_user(author: Author, user: User, resource: UserResource) -> None:
    email, external_id, name = _email_of(resource), checked_external_id(resource), resource.user_name or ""
    if name != user.username:
        if fault := name_fault(name):
            raise InvalidValueException(detail=f"userName: {fault}")
        apply(ChangeSet.of(Rename(str(user), name)), author=author)
        user.username = name
    if email != user.email or resource.active != user.is_active:
        _check_not_break_glass(user)
    if email != user.email:
        set_user_email(author=author, name=user.username, email=email)
    if resource.active != user.is_active:
        if resource.active:
            _check_can_activate(user)
        _set_active(author, user.username, is_active=bool(resource.active))
    store_external_id(author, user, external_id)
    store_manager(author, user, resource)


def _set_active(author: Author, name: str, *, is_active: bool) -> None:
    apply(ChangeSet.of(Activate(name) if is_active else Deactivate(name)), author=author)


def _check_not_break_glass(user: User) -> None:
    """Raise PrincipalError for a break-glass account, which must work if the provisioning service fails or is
    taken over.
    """
    if user.username in settings.BREAK_GLASS_ACCOUNTS:
        raise PrincipalError(f"{user} is a break-glass account: only an administrator can change it")


def _email_of(resource: UserResource) -> str:
    email = next((email.value for email in resource.emails or [] if email.value), "")
    if fault := email_fault(email):
        raise InvalidValueException(detail=fault)
    return email


def _users() -> QuerySet[User]:
    return visible_users().select_related("provisioned", *RELATED)


def _reload(user: User) -> User:
    return User.objects.select_related("provisioned", *RELATED).get(pk=user.pk)


def _group_memberships() -> QuerySet:
    """Return the memberships in force in groups; SCIM knows no roles."""
    return memberships().filter(in_force_condition()).exclude(group__name__startswith=ROLE_PREFIX)


def _as_model(user: User) -> UserResource:
    """Return the stored user as the model that a PATCH request changes."""
    return UserResource.model_validate(_resource(user))


def _resources(users: list[User], query: Query) -> Iterable[dict]:
    """Yield the resources of users. Runs one query, for the groups of all users."""
    groups = defaultdict(list)
    if users and query.includes("groups"):
        rows = _group_memberships().filter(user__pk__among=[user.pk for user in users]).order_by("group_id")
        for user_id, group_id, name in rows.values_list("user_id", "group_id", "group__name"):
            groups[user_id].append(
                {"value": str(group_id), "$ref": f"{base_url()}/Groups/{group_id}", "display": name}
            )
    for user in users:
        resource = _resource(user)
        if "emails.primary" not in query.attributes:
            for email in resource.get("emails", ()):
                del email["primary"]
        if ENTERPRISE in resource and "manager.displayname" not in query.attributes:
            del resource[ENTERPRISE]["manager"]["displayName"]
        yield resource | ({"groups": groups[user.pk]} if user.pk in groups else {})


def _resource(user: User) -> dict:
    resource = {
        "schemas": [SCHEMA],
        "id": str(user.pk),
        "userName": user.username,
        "active": user.is_active,
        "meta": {"resourceType": "User", "location": f"{base_url()}/Users/{user.pk}"},
    }
    if external_id := external_id_of(user):
        resource["externalId"] = external_id
    if user.email:
        resource["emails"] = [{"value": user.email, "type": EMAIL_TYPE, "primary": True}]
    if extension := manager_extension(user):
        resource |= extension | {"schemas": [SCHEMA, *extension]}
    return resource


USERS = ResourceRows(SCHEMA, UserResource, COLUMNS, _users, _resources)


def manager_extension(user: User) -> dict[str, Any]:
    """Return the members of the resource for the manager; none without a manager that SCIM can see.

    Runs no query for a user that was read with `select_related(*RELATED)`.
    """
    link = getattr(user, "manager_link", None)
    if link is None or not _is_visible(link.manager):
        return {}
    return {
        ENTERPRISE: {
            _MANAGER: {
                "value": str(link.manager_id),
                "$ref": f"{base_url()}/Users/{link.manager_id}",
                "displayName": link.manager.username,
            }
        }
    }


def manager_id(resource: UserResource) -> str:
    """Return the id of the manager in a resource; empty without one."""
    extension = getattr(resource, EnterpriseUser.__name__, None)
    return (extension.manager.value or "") if extension and extension.manager else ""


def has_manager_member(payload: dict) -> bool:
    """Return whether a payload sets or removes the manager."""
    return any(name.lower() == _MANAGER for name in _extension_of(payload))


def keep_manager(resource: UserResource, user: User) -> None:
    """Give the resource the manager that the user has."""
    extension = manager_extension(user)
    setattr(
        resource,
        EnterpriseUser.__name__,
        EnterpriseUser(manager=Manager.model_validate(extension[ENTERPRISE][_MANAGER]))
        if extension
        else None,
    )


def store_manager(author: Author, user: User, resource: UserResource) -> None:
    """Set the manager if the resource has a different one than SCIM shows.

    Raise InvalidValueException if it does not exist.
    """
    new, extension = manager_id(resource), manager_extension(user)
    if new == (extension[ENTERPRISE][_MANAGER]["value"] if extension else ""):
        return
    number = id_from_text(new)
    manager = visible_users().filter(pk=number).first() if number is not None else None
    if new and manager is None:
        raise InvalidValueException(detail=f"manager: no user has the id {new[:100]!r}")
    set_manager(author=author, name=user.username, manager=manager.username if manager else "")


def managers_as_objects(payload: dict) -> dict:
    """Replace a manager that is given as an id by an object, in a resource or in a PATCH request.

    Microsoft Entra ID sends the id, or a list with one object, and some clients send the name of the manager,
    too.
    """
    _correct_member(_extension_of(payload))
    operations = next((value for name, value in payload.items() if name.lower() == "operations"), None)
    for operation in operations if isinstance(operations, list) else ():
        if not isinstance(operation, dict):
            continue
        names = {name.lower(): name for name in operation}
        path, value = operation.get(names.get("path", ""), ""), operation.get(names.get("value", ""))
        if isinstance(path, str) and path.lower() == _PATH:
            operation[names.get("value", "value")] = _as_object(value)
        elif isinstance(value, dict):
            _correct_member(value if path else _extension_of(value))
            for name in value:
                if name.lower() == _PATH:
                    value[name] = _as_object(value[name])
    return payload


def _extension_of(payload: dict) -> dict:
    extension = next((value for name, value in payload.items() if name.lower() == ENTERPRISE.lower()), None)
    return extension if isinstance(extension, dict) else {}


def _correct_member(extension: dict) -> None:
    for name in extension:
        if name.lower() == _MANAGER:
            extension[name] = _as_object(extension[name])


def _as_object(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        return {"value": value} if value else None
    if isinstance(value, dict):
        # read-only, but some clients send it
        return {name: item for name, item in value.items() if name.lower() != "displayname"}
    return value


def _is_visible(manager: User) -> bool:
    """Return whether SCIM can see the manager, by the same rules as `visible_condition`."""
    provisioned = getattr(manager, "provisioned", None)
    return not manager.is_service and (
        manager.is_active or provisioned is None or provisioned.removed_at is None
    )
