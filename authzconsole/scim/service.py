"""Route SCIM requests to the functions that answer them, and turn errors into SCIM errors."""

import logging
import re
from collections.abc import Callable
from functools import partial

from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse
from pydantic import ValidationError
from scim2_models import Error, NotFoundException, NotImplementedException, SCIMException

from authzconsole.common.database.busy import RETRY_AFTER_SECONDS, is_database_locked, is_database_unavailable
from authzconsole.common.refusal import RequestRefused
from authzconsole.common.tokens import ValidToken
from authzconsole.scim import discovery, groups, users
from authzconsole.scim.payloads import read_payload
from authzconsole.scim.responses import error_response, query_from_values
from grants.errors import GrantError, JournalReadOnly, NotAdministrator, PrincipalError, SecondPersonRequired
from grants.journal import Author

logger = logging.getLogger(__name__)
Function = Callable[..., HttpResponse]
SEARCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"


def search(search_rows: Function, schema: str, request: HttpRequest) -> HttpResponse:
    return search_rows(query_from_values(read_payload(request, SEARCH_SCHEMA), schema))


def not_implemented(request: HttpRequest) -> HttpResponse:
    raise NotImplementedException(detail="the console does not support this endpoint")


READS: dict[str, dict[str, Function]] = {
    r"ServiceProviderConfig": {"GET": discovery.service_provider_config},
    r"ResourceTypes": {"GET": discovery.resource_types},
    r"ResourceTypes/(?P<name>[^/]+)": {"GET": discovery.resource_types},
    r"Schemas": {"GET": discovery.schemas},
    r"Schemas/(?P<name>[^/]+)": {"GET": discovery.schemas},
    r"Users": {"GET": users.list_users},
    r"Users/\.search": {"POST": partial(search, users.search_users, users.SCHEMA)},
    r"Users/(?P<pk>[^/.]+)": {"GET": users.read_user},
    r"Groups": {"GET": groups.list_groups},
    r"Groups/\.search": {"POST": partial(search, groups.search_groups, groups.SCHEMA)},
    r"Groups/(?P<pk>[^/.]+)": {"GET": groups.read_group},
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


def respond(request: HttpRequest, path: str, token: ValidToken) -> HttpResponse:
    """Answer the request of an authenticated provisioning service."""
    try:
        return _answer(request, path, token)
    except Exception as error:
        return error_of(error, request)


def _answer(request: HttpRequest, path: str, token: ValidToken) -> HttpResponse:
    pattern = next((pattern for pattern in READS if re.fullmatch(pattern, path)), None)
    if pattern is None:
        raise NotFoundException(detail="this path does not exist: /scim/v2/ResourceTypes lists the resources")
    arguments = re.fullmatch(pattern, path).groupdict()
    if function := READS[pattern].get(request.method):
        return function(request, **arguments)
    writes = WRITES.get(pattern, {})
    if function := writes.get(request.method):
        return function(request, _author(request, token), **arguments)
    raise RequestRefused(
        405, "this path does not accept the method", Allow=", ".join([*READS[pattern], *writes])
    )


def _author(request: HttpRequest, token: ValidToken) -> Author:
    return Author(
        token.owner_name,
        request_id=request.id,
        user_id=token.owner_id,
        caller_request_id=request.caller_id,
        token=token.number,
        issuer=token.issuer,
        is_provisioner=True,
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
        case RequestRefused():
            return error_response(error.status, error.message, headers=error.headers)
        case JournalReadOnly():
            return error_response(503, f"this console is read-only: {error}; nothing was changed")
        case NotAdministrator() | SecondPersonRequired():
            return error_response(403, str(error))
        case PrincipalError():
            return error_response(409, str(error))
        case GrantError():
            return error_response(400, str(error), "invalidValue")
        case _ if is_database_locked(error):
            return error_response(
                503,
                "the database is locked by another change: nothing was changed, repeat the request",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
        case _ if is_database_unavailable(error):
            logger.error("%s failed: %s", request.path, error)
            return error_response(
                503,
                "the database is not available: repeat the request",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
    logger.error("%s failed", request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return error_response(
        500, f"internal error; the log of the console has the details under the request id {request.id}"
    )
