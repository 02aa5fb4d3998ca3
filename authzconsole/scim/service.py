"""Route SCIM requests to the functions that answer them, and turn errors into SCIM errors."""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from pydantic import ValidationError
from scim2_models import Error, NotFoundException, NotImplementedException, SCIMException

from authzconsole.common.api_caller import author_of
from authzconsole.common.problems import Problem, failure_of, problem_of
from authzconsole.scim import discovery, groups, users
from authzconsole.scim.payloads import error_response
from grants.errors import GrantError

Function = Callable[..., HttpResponse]


def not_implemented(request: HttpRequest) -> HttpResponse:
    raise NotImplementedException(detail="the console does not support this endpoint")


READS: dict[str, dict[str, Function]] = {
    r"ServiceProviderConfig": {"GET": discovery.service_provider_config},
    r"ResourceTypes": {"GET": discovery.resource_types},
    r"ResourceTypes/(?P<name>[^/]+)": {"GET": discovery.resource_types},
    r"Schemas": {"GET": discovery.schemas},
    r"Schemas/(?P<name>[^/]+)": {"GET": discovery.schemas},
    r"Users": {"GET": users.USERS.list_rows},
    r"Users/\.search": {"POST": users.USERS.search},
    r"Users/(?P<pk>[^/.]+)": {"GET": users.USERS.read},
    r"Groups": {"GET": groups.GROUPS.list_rows},
    r"Groups/\.search": {"POST": groups.GROUPS.search},
    r"Groups/(?P<pk>[^/.]+)": {"GET": groups.GROUPS.read},
    r"\.search": {"POST": not_implemented},
    r"Bulk": {"POST": not_implemented},
    r"Me": dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), not_implemented),
}
# They read the request before they lock the journal: see authzconsole.scim.rows.write_transaction.
WRITES: dict[str, dict[str, Function]] = {
    r"Users": {"POST": users.create_user},
    r"Users/(?P<pk>[^/.]+)": {
        "PUT": users.replace_user,
        "PATCH": users.patch_user,
        "DELETE": users.delete_user,
    },
    r"Groups": {"POST": groups.create_group},
    r"Groups/(?P<pk>[^/.]+)": {
        "PUT": groups.replace_group,
        "PATCH": groups.patch_group,
        "DELETE": groups.delete_group,
    },
}


def respond(request: HttpRequest, path: str) -> HttpResponse:
    """Answer the request of an authenticated provisioning service."""
    try:
        return _answer(request, path)
    except Exception as error:
        return error_of(error, request)


def _answer(request: HttpRequest, path: str) -> HttpResponse:
    pattern = next((pattern for pattern in READS if re.fullmatch(pattern, path)), None)
    if pattern is None:
        raise NotFoundException(detail="this path does not exist: /scim/v2/ResourceTypes lists the resources")
    arguments = re.fullmatch(pattern, path).groupdict()
    if function := READS[pattern].get(request.method):
        return function(request, **arguments)
    writes = WRITES.get(pattern, {})
    if function := writes.get(request.method):
        return function(request, author_of(request, is_provisioner=True), **arguments)
    raise Problem(
        405,
        "this path does not accept the method",
        headers={"Allow": ", ".join([*READS[pattern], *writes])},
    )


def error_of(error: Exception, request: HttpRequest) -> HttpResponse:
    """Return the SCIM error for an exception. Unknown exceptions are logged."""
    match error:
        case SCIMException():
            return error_response(error.status, error.detail, error.scim_type)
        case ValidationError():
            first = Error.from_validation_errors(error)[0]
            return error_response(
                first.status or 400, first.detail or "the request is invalid", first.scim_type or ""
            )
    problem = problem_of(error) or failure_of(error, request)
    scim_type = "invalidValue" if isinstance(error, GrantError) and problem.status == 400 else ""
    return error_response(problem.status, problem.detail, scim_type, problem.headers)
