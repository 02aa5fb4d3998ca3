"""Read SCIM requests, and write responses: resources with the requested attributes, lists and errors (RFC 7644,
3.4.2.5, 3.9 and 3.12).

Resources are plain dictionaries, because a group can have 100,000 members.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from scim2_models import (
    Context,
    Error,
    InvalidFilterException,
    InvalidSyntaxException,
    InvalidValueException,
    PatchOp,
    ScimPolicy,
    TooManyException,
)

from authzconsole.common.problems import Problem
from authzconsole.common.request_body import read_json_object
from entities.frozen import frozen

# Microsoft Entra ID deviates from the standard: it removes members by value, and patches `emails[type eq
# "work"].value` of users without an email
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
CONTENT_TYPE = "application/scim+json"
LIST_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
DEFAULT_COUNT, MAX_COUNT = 100, 500
ALWAYS = ("schemas", "id")
# the names of members with an extension start with it
URN = "urn:"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
ENTERPRISE_ATTRIBUTES = ("manager",)
PARAMETERS = ("attributes", "excludedAttributes", "filter", "sortBy", "sortOrder", "startIndex", "count")


def scim_response(content: object, *, status: int = 200, **headers: str) -> HttpResponse:
    body = b"" if content is None else json.dumps(content)
    return HttpResponse(
        body, content_type=CONTENT_TYPE, status=status, headers={"Cache-Control": "no-store", **headers}
    )


def error_response(
    status: int, detail: str, scim_type: str, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    error = Error(status=status, detail=detail, scim_type=scim_type or None)
    return scim_response(error.model_dump(), status=status, **(headers or {}))


@frozen
class Query:
    """The parameters of a request. attributes, excluded: lower-case names of attributes such as
    `emails.value`.
    """

    attributes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    filter: str = ""
    sort_by: str = ""
    is_descending: bool = False
    start: int = 1
    count: int = DEFAULT_COUNT

    def includes(self, attribute: str) -> bool:
        """Return whether the response has an attribute that is returned by default."""
        if self.attributes:
            return any(name.partition(".")[0] == attribute for name in self.attributes)
        return attribute not in self.excluded

    def select(self, resource: dict) -> dict:
        """Return the requested attributes of a resource. `schemas` and `id` are always returned."""
        if not (self.attributes or self.excluded):
            return resource
        selected = {
            name: self._part(name, value)
            for name, value in resource.items()
            if name in ALWAYS or name.startswith(URN) or self.includes(name.lower())
        }
        for urn in [name for name, value in selected.items() if name.startswith(URN) and not value]:
            del selected[urn]
            selected["schemas"] = [schema for schema in selected["schemas"] if schema != urn]
        return selected

    def _part(self, name: str, value: Any) -> object:
        if name in ALWAYS:
            return value
        if name.startswith(URN):
            return self.select(value)
        return (
            self._selection(name.lower(), value) if self.attributes else self._remainder(name.lower(), value)
        )

    def _selection(self, name: str, value: object) -> object:
        return (
            value
            if name in self.attributes
            else _items(value, lambda sub: f"{name}.{sub.lower()}" in self.attributes)
        )

    def _remainder(self, name: str, value: object) -> object:
        return _items(value, lambda sub: f"{name}.{sub.lower()}" not in self.excluded)


def _items(value: object, is_kept: Callable[[str], bool]) -> object:
    if isinstance(value, list):
        return [_items(item, is_kept) for item in value]
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if is_kept(name)}
    return value


def query_of(request: HttpRequest, schema: str) -> Query:
    """Return the parameters of a GET request. schema: the URN that may precede the names of attributes."""
    return query_from_values({name: request.GET[name] for name in PARAMETERS if name in request.GET}, schema)


def query_from_values(values: Mapping[str, object], schema: str) -> Query:
    """Return the parameters of a request as strings, or as JSON values of a search request.

    Raise SCIMException if a value is invalid.
    """
    attributes, excluded = (_names(values.get(name), schema) for name in ("attributes", "excludedAttributes"))
    if attributes and excluded:
        raise InvalidValueException(detail="send attributes or excludedAttributes, not both")
    text = values.get("filter", "")
    if not isinstance(text, str) or "filter" in values and not text.strip():
        raise InvalidFilterException(detail="the filter is empty")
    order = values.get("sortOrder", "ascending")
    if order not in ("ascending", "descending"):
        raise InvalidValueException(detail="sortOrder must be ascending or descending")
    return Query(
        attributes,
        excluded,
        text,
        str(values.get("sortBy", "")),
        order == "descending",
        max(1, _integer(values, "startIndex", 1)),
        min(MAX_COUNT, max(0, _integer(values, "count", DEFAULT_COUNT))),
    )


def _names(value: object, schema: str) -> frozenset[str]:
    if not value:
        return frozenset()
    texts = [
        str(name).strip().lower() for name in (value if isinstance(value, list) else str(value).split(","))
    ]
    names = [
        name for text in texts for name in (ENTERPRISE_ATTRIBUTES if text == ENTERPRISE.lower() else [text])
    ]
    prefixes = f"{schema.lower()}:", f"{ENTERPRISE.lower()}:"
    return frozenset(name.removeprefix(prefixes[0]).removeprefix(prefixes[1]) for name in names)


def _integer(values: Mapping[str, object], name: str, default: int) -> int:
    text = str(values.get(name, default))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise InvalidValueException(detail=f"{name} must be an integer")
    return int(text)


def list_response(resources: Iterable[dict], total: int, query: Query) -> HttpResponse:
    items = [query.select(resource) for resource in resources]
    return scim_response(
        {
            "schemas": [LIST_SCHEMA],
            "totalResults": total,
            "startIndex": query.start,
            "itemsPerPage": len(items),
            "Resources": items,
        }
    )


def check_schemas(payload: dict, schema: str) -> None:
    """Raise InvalidSyntaxException unless the payload names its schema. URNs ignore the case."""
    schemas = payload.get("schemas")
    if not isinstance(schemas, list) or schema.lower() not in [str(urn).lower() for urn in schemas]:
        raise InvalidSyntaxException(detail=f"`schemas` must contain {schema}")


PATCH_SCHEMA = str(PatchOp.__schema__)
# reading a path takes 15 microseconds for each character
MAX_PATH_CHARACTERS = 30_000


def read_payload(request: HttpRequest, schema: str) -> dict:
    """Return the body, a JSON object with this schema. Raise Problem or InvalidSyntaxException."""
    if request.content_type not in (CONTENT_TYPE, "application/json"):
        raise Problem(415, f"the Content-Type must be {CONTENT_TYPE}")
    try:
        payload = read_json_object(request, allows_surrogates=False)
    except Problem as refusal:
        if refusal.status == 400:
            raise InvalidSyntaxException(detail=refusal.detail) from None
        raise
    check_schemas(payload, schema)
    return payload


def patch_of(
    request: HttpRequest,
    model: type[PatchOp],
    *,
    max_operations: int,
    prepare: Callable[[dict], dict] | None = None,
) -> PatchOp:
    """Return the validated PATCH request. Raise SCIMException or ValidationError.

    prepare: corrects the dialect of a client. This takes half a millisecond for each operation, so call it
    before the journal is locked.
    """
    payload = read_payload(request, PATCH_SCHEMA)
    operations = [
        operation for item in _values(payload, "operations") if isinstance(item, list) for operation in item
    ]
    paths = [path for operation in operations for path in _paths(operation)]
    if len(paths) > max_operations:
        raise TooManyException(detail=f"a request can have at most {max_operations:,} operations")
    if sum(map(len, paths)) > MAX_PATH_CHARACTERS:
        raise TooManyException(
            detail=f"the paths of a request can have at most {MAX_PATH_CHARACTERS:,} characters together"
        )
    payload = prepare(payload) if prepare else payload
    return model.model_validate(payload, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY)


def _values(item: Any, name: str) -> list:
    """Return the values of the members with this name; names ignore the case, so there can be several."""
    return [value for key, value in item.items() if key.lower() == name] if isinstance(item, dict) else []


def _paths(operation: Any) -> list[str]:
    """Return the path of an operation and the names in its value; a list with an empty string if there are
    none.
    """
    paths = [path for path in _values(operation, "path") if isinstance(path, str)]
    names = [name for value in _values(operation, "value") if isinstance(value, dict) for name in value]
    return [*paths, *names] or [""]


def first_emails_first(payload: dict) -> dict:
    """Move the primary email to the start, because the console stores the first one."""
    name = next((name for name in payload if name.lower() == "emails"), "")
    if name and isinstance(payload[name], list):
        payload[name] = sorted(
            payload[name], key=lambda email: not (isinstance(email, dict) and email.get("primary") is True)
        )
    return payload
