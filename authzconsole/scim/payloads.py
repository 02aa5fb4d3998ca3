"""Read the bodies of SCIM requests."""

from typing import Any

from django.http import HttpRequest
from scim2_models import Context, InvalidSyntaxException, InvalidValueException, PatchOp, Resource

from authzconsole.common.refusal import RequestRefused
from authzconsole.common.request_body import read_json_object
from authzconsole.scim.responses import CONTENT_TYPE, check_schemas
from authzconsole.scim.rows import MAX_EXTERNAL_ID_CHARACTERS
from authzconsole.scim.schemas import POLICY
from entities.text import storage_fault

PATCH_SCHEMA = str(PatchOp.__schema__)
MAX_OPERATIONS = 5_000


def read_payload(request: HttpRequest, schema: str) -> dict:
    """Return the body, a JSON object with this schema. Raise RequestRefused or InvalidSyntaxException."""
    if request.content_type not in (CONTENT_TYPE, "application/json"):
        raise RequestRefused(415, f"the Content-Type must be {CONTENT_TYPE}")
    try:
        payload = read_json_object(request, allows_surrogates=False)
    except RequestRefused as refusal:
        if refusal.status == 400:
            raise InvalidSyntaxException(detail=refusal.message) from None
        raise
    check_schemas(payload, schema)
    return payload


def patch_of(request: HttpRequest, model: type[PatchOp]) -> PatchOp:
    """Return the validated PATCH request. Raise SCIMException or ValidationError if it is invalid."""
    payload = read_payload(request, PATCH_SCHEMA)
    operations = next((value for name, value in payload.items() if name.lower() == "operations"), None)
    if isinstance(operations, list) and len(operations) > MAX_OPERATIONS:
        raise InvalidValueException(detail=f"a request can have at most {MAX_OPERATIONS:,} operations")
    return model.model_validate(payload, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY)


def first_emails_first(payload: dict) -> dict:
    """Move the primary email to the start, because the console stores the first one."""
    name = next((name for name in payload if name.lower() == "emails"), "")
    if name and isinstance(payload[name], list):
        payload[name] = sorted(payload[name], key=lambda email: not (isinstance(email, dict) and email.get("primary") is True))
    return payload


def checked_external_id(resource: Resource[Any]) -> str:
    external_id = resource.external_id or ""
    if fault := storage_fault(external_id, MAX_EXTERNAL_ID_CHARACTERS):
        raise InvalidValueException(detail=f"externalId: {fault}")
    return external_id
