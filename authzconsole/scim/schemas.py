"""The attributes of users and groups that the console stores. `/Schemas` publishes these models.

Attributes that are not listed here are ignored in requests, because identity providers send many that the
console has no use for. The names of the classes are published too, so `User` is not the model of the
database. Other modules import it as `CoreUser`, or use `UserResource`.
"""

from typing import Annotated

from pydantic import Field
from scim2_models import (
    URN,
    AnyExtension,
    CaseExact,
    ComplexAttribute,
    Extension,
    Mutability,
    Reference,
    Required,
    Resource,
    Returned,
    ScimPolicy,
    Uniqueness,
)

# Microsoft Entra ID deviates from the standard: it removes members by value, and patches `emails[type eq
# "work"].value` of users without an email
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
EMAIL_TYPE = "work"


class Email(ComplexAttribute):
    value: str | None = None
    """The address. The console stores one address for each user."""

    type: str | None = Field(None, examples=[EMAIL_TYPE])
    """Always `work`."""

    primary: Annotated[bool | None, Mutability.read_only, Returned.request] = None
    """Always true."""


class UserGroup(ComplexAttribute):
    value: Annotated[str | None, Mutability.read_only, CaseExact.true] = None
    """The id of the group."""

    ref: Annotated[Reference["Group"] | None, Mutability.read_only] = Field(  # type: ignore[type-arg]
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    """The URL of the group."""

    display: Annotated[str | None, Mutability.read_only, CaseExact.true] = None
    """The name of the group."""


class User(Resource[AnyExtension]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Required.true, Uniqueness.server, CaseExact.true] = None
    """The name of the user. Grants, memberships, tokens and sessions follow a new name."""

    active: Annotated[bool | None, Required.true] = None
    """An inactive user cannot sign in, has no valid sessions or tokens, and is denied everything."""

    emails: list[Email] | None = None
    """The email of the user; the first one if there are several."""

    groups: Annotated[list[UserGroup] | None, Mutability.read_only] = None
    """The groups of the user. They are changed through the groups."""


class Manager(ComplexAttribute):
    value: Annotated[str | None, CaseExact.true] = None
    """The id of the manager."""

    ref: Annotated[Reference["User"] | None, CaseExact.true] = Field(  # type: ignore[type-arg]
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    """The URL of the manager. Only `value` is read in requests."""

    display_name: Annotated[str | None, Mutability.read_only, Returned.request, CaseExact.true] = None
    """The name of the manager."""


class EnterpriseUser(Extension):
    __schema__ = URN("urn:ietf:params:scim:schemas:extension:enterprise:2.0:User")

    manager: Manager | None = None
    """The manager of the user, who reviews the user's access in reviews with that rule.

    It gives no access.
    """


UserResource = User[EnterpriseUser]


class GroupMember(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    """The id of the user."""

    ref: Annotated[Reference["User"] | None, Mutability.immutable] = Field(  # type: ignore[type-arg]
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    """The URL of the user."""

    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User"])
    """Always `User`: groups are not nested."""

    display: Annotated[str | None, Mutability.read_only, Returned.request, CaseExact.true] = None
    """The name of the user."""


class Group(Resource):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true, Uniqueness.server, CaseExact.true] = None
    """The name of the group. Grants and memberships follow a new name."""

    members: list[GroupMember] | None = None
    """The members of the group."""
