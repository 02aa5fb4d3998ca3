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


def writing(write: Function) -> Function:
    """Return a function that calls `write` with the author of the request.

    `write` reads the request before it locks the journal: see authzconsole.scim.rows.write_transaction.
    """
    return lambda request, **path: write(request, author_of(request, is_provisioner=True), **path)


ROUTES: dict[str, dict[str, Function]] = {
    r"ServiceProviderConfig": {"GET": discovery.service_provider_config},
    r"ResourceTypes": {"GET": discovery.resource_types},
    r"ResourceTypes/(?P<name>[^/]+)": {"GET": discovery.resource_types},
    r"Schemas": {"GET": discovery.schemas},
    r"Schemas/(?P<name>[^/]+)": {"GET": discovery.schemas},
    r"Users": {"GET": users.USERS.list_rows, "POST": writing(users.create_user)},
    r"Users/\.search": {"POST": users.USERS.search},
    r"Users/(?P<pk>[^/.]+)": {
        "GET": users.USERS.read,
        "PUT": writing(users.replace_user),
        "PATCH": writing(users.patch_user),
        "DELETE": writing(users.delete_user),
    },
    r"Groups": {"GET": groups.GROUPS.list_rows, "POST": writing(groups.create_group)},
    r"Groups/\.search": {"POST": groups.GROUPS.search},
    r"Groups/(?P<pk>[^/.]+)": {
        "GET": groups.GROUPS.read,
        "PUT": writing(groups.replace_group),
        "PATCH": writing(groups.patch_group),
        "DELETE": writing(groups.delete_group),
    },
    r"\.search": {"POST": not_implemented},
    r"Bulk": {"POST": not_implemented},
    r"Me": dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), not_implemented),
}


def respond(request: HttpRequest, path: str) -> HttpResponse:
    """Answer the request of an authenticated provisioning service."""
    try:
        return _answer(request, path)
    except Exception as error:
        return error_of(error, request)


def _answer(request: HttpRequest, path: str) -> HttpResponse:
    matches = ((re.fullmatch(pattern, path), functions) for pattern, functions in ROUTES.items())
    match, functions = next(((match, functions) for match, functions in matches if match), (None, {}))
    if match is None:
        raise NotFoundException(detail="this path does not exist: /scim/v2/ResourceTypes lists the resources")
    if function := functions.get(request.method):
        return function(request, **match.groupdict())
    raise Problem(405, "this path does not accept the method", headers={"Allow": ", ".join(functions)})


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
