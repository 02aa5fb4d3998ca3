"""Describe what the SCIM endpoint supports: ServiceProviderConfig, ResourceTypes and Schemas (RFC 7644,
section 4).
"""

from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from scim2_models import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    Context,
    ETag,
    Filter,
    ForbiddenException,
    Meta,
    NotFoundException,
    Pagination,
    Patch,
    ResourceType,
    ServiceProviderConfig,
    Sort,
)

from authzconsole.scim.responses import DEFAULT_COUNT, MAX_COUNT, Query, list_response, scim_response
from authzconsole.scim.schemas import EnterpriseUser, Group, UserResource
from authzconsole.scim.schemas import User as CoreUser


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
    for model in (CoreUser, EnterpriseUser, Group):
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
