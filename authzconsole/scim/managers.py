"""The manager of a user, in the enterprise extension of the resource `User`."""

from typing import Any

from scim2_models import InvalidValueException

from authzconsole.scim.discovery import base_url
from authzconsole.scim.filters import id_from_text
from authzconsole.scim.responses import ENTERPRISE
from authzconsole.scim.rows import visible_users
from authzconsole.scim.schemas import EnterpriseUser, Manager, UserResource
from grants.journal import Author
from grants.models import User
from grants.models.reviews import UserManagerLink
from grants.reviews.reviewers import set_manager

RELATED = ("manager_link__manager", "manager_link__manager__provisioned")
_MANAGER = "manager"
_PATH = f"{ENTERPRISE}:{_MANAGER}".lower()


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


def end_management(author: Author, user: User) -> None:
    """Remove the manager of a user, and remove the user as the manager of others.

    The name may now belong to another person.
    """
    links = UserManagerLink.objects.filter(user=user) | UserManagerLink.objects.filter(manager=user)
    for name in links.order_by("pk").values_list("user__username", flat=True):
        set_manager(author=author, name=name, manager="")


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
