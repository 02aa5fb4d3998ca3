"""SCIM responses: resources with the requested attributes, lists and errors (RFC 7644, 3.4.2.5, 3.9 and
3.12).

Resources are plain dictionaries, because a group can have 100,000 members.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from scim2_models import Error, InvalidFilterException, InvalidSyntaxException, InvalidValueException

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
    status: int, detail: str, scim_type: str = "", headers: Mapping[str, str] | None = None
) -> HttpResponse:
    error = Error(status=status, detail=detail, scim_type=scim_type or None)
    return scim_response(error.model_dump(), status=status, **(headers or {}))


@dataclass(frozen=True, slots=True)
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
