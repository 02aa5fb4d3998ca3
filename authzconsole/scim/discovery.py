"""The attributes of users and groups that the console stores, and what the SCIM endpoint supports:
ServiceProviderConfig, ResourceTypes and Schemas (RFC 7644, section 4).

`/Schemas` publishes the models. Attributes that are not listed here are ignored in requests, because identity
providers send many that the console has no use for. The names of the classes are published too, so `User` is not the
model of the database. Other modules use `UserResource`.
"""

from functools import cache
from typing import Annotated

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from pydantic import Field
from scim2_models import (
    URN,
    AnyExtension,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    Context,
    ETag,
    Extension,
    Filter,
    ForbiddenException,
    Meta,
    Mutability,
    NotFoundException,
    Pagination,
    Patch,
    Reference,
    Required,
    Resource,
    ResourceType,
    Returned,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

from authzconsole.scim.payloads import DEFAULT_COUNT, MAX_COUNT, Query, list_response, scim_response

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


def base_url() -> str:
    return f"{settings.PUBLIC_URL}/scim/v2"


def service_provider_config(request: HttpRequest) -> HttpResponse:
    config = ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MAX_COUNT),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=True),
        etag=ETag(supported=False),
        pagination=Pagination(
            cursor=False,
            index=True,
            default_pagination_method=Pagination.DefaultPaginationMethod.index,
            default_page_size=DEFAULT_COUNT,
            max_page_size=MAX_COUNT,
        ),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="API token",
                primary=True,
                description="An API token of a service account with the scope `provision`, as `Authorization: Bearer TOKEN`.",
            )
        ],
        meta=Meta(resource_type="ServiceProviderConfig", location=f"{base_url()}/ServiceProviderConfig"),
    )
    return scim_response(_dump(config))


def resource_types(request: HttpRequest, name: str = "") -> HttpResponse:
    types = map(_resource_type, (UserResource, Group))
    return _response_of(request, {resource_type.id: resource_type for resource_type in types}, name)


def schemas(request: HttpRequest, name: str = "") -> HttpResponse:
    return _response_of(request, _schemas(), name)


def _resource_type(model: type) -> ResourceType:
    resource_type = ResourceType.from_resource(model)
    resource_type.meta = Meta(
        resource_type="ResourceType", location=f"{base_url()}/ResourceTypes/{resource_type.id}"
    )
    return resource_type


@cache
def _schemas() -> dict:
    described = {}
    for model in (User, EnterpriseUser, Group):
        schema = model.to_schema()
        schema.meta = Meta(resource_type="Schema", location=f"{base_url()}/Schemas/{schema.id}")
        described[str(schema.id)] = schema
    return described


def _response_of(request: HttpRequest, resources: dict, name: str) -> HttpResponse:
    if "filter" in request.GET:
        # RFC 7644, section 4: a client must not mistake a part of the list for all of it
        raise ForbiddenException(detail="this list cannot be filtered")
    if not name:
        return list_response(map(_dump, resources.values()), len(resources), Query())
    if name not in resources:
        raise NotFoundException(detail="this resource does not exist")
    return scim_response(_dump(resources[name]))


def _dump(resource) -> dict:
    return resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)
