"""The part of the OpenAPI document about the AuthZEN access request endpoints, which are plain Django views."""

from authzconsole.api.denials import REASON
from authzconsole.api.metadata import REQUEST_PATH
from authzconsole.api.requests import ERROR_TYPE
from authzconsole.common.request_body import MAX_BODY_BYTES
from authzconsole.rest.openapi.authzen_document import ID_HEADER, QUESTION, TAG

_URL = f"http://127.0.0.1:8000/{REQUEST_PATH}/arq_12"
_TASK = {"id": "arq_12", "status": "pending", "status_endpoint": _URL, "expires_at": "2026-12-05T17:00:00Z"}
_PENDING = {"task": _TASK | {"links": {"cancel": f"{_URL}/cancel"}}}
_APPROVED = {
    "task": _TASK | {"status": "approved"},
    "result": {
        "mode": "reevaluate",
        "approval": {
            "id": "apr_12",
            "approved_at": "2026-12-01T09:00:00Z",
            "approved_until": "2026-12-05T17:00:00Z",
        },
    },
}
_SUBMISSION = QUESTION | {
    "subject": {"type": "user", "id": "sofia.lindqvist"},
    "context": {"business_justification": "quarterly close"},
    "requested_access": {"requested_until": "2126-12-05T17:00:00Z"},
}
STATES = ("pending", "approved", "denied", "expired", "cancelled")

# by status: the description, the type of the profile, and an example of the detail
_PROBLEMS = {
    "400": (
        "The request is malformed (`about:blank`), the question cannot be requested (`not_requestable`), or the denial "
        "belongs to another question (`invalid_denial_binding`).",
        "not_requestable",
        "user:julia can already read dataset:sales.orders",
    ),
    "401": ("There is no session and no valid token.", "", "the token has expired"),
    "403": (
        "The token has neither the scope `decide` nor `self`, or the caller can only request access for itself.",
        "",
        "the token lacks the scope `decide`",
    ),
    "404": ("The caller knows no such task.", "unknown_task", "there is no such task"),
    "405": ("The method is not listed in the Allow header.", "", "this endpoint only accepts POST"),
    "409": (
        "The same access is requested already (`duplicate_request`, with `task.id`), or the task is finished "
        "(`invalid_task_state`).",
        "duplicate_request",
        "request 12 for read dataset:sales.orders is still pending",
    ),
    "410": (
        "The denial (`expired_denial`) or the task (`task_expired`) has expired.",
        "expired_denial",
        "the denial has expired: ask again",
    ),
    "413": (
        "The body is longer than the limit.",
        "",
        f"the body is longer than {MAX_BODY_BYTES:,} bytes, which is the limit",
    ),
    "429": (
        "The account or the token sent more requests than its rate limit allows. Retry-After says how long to wait.",
        "",
        "this token may send 300,000 requests for decisions in 60 seconds: wait 1 s before you send the next one",
    ),
    "503": (
        "The console is read-only, or the database is locked by another change or not available.",
        "",
        "this console is read-only: the journal is not sealed",
    ),
}
_HEADERS = {"401": "WWW-Authenticate", "405": "Allow", "429": "Retry-After", "503": "Retry-After"}
# these can also come from before or behind the endpoint, with a body that is one JSON string
_TEXT_TOO = {
    "404": "this API has no such path; /.well-known/authzen-configuration lists all endpoints",
    "503": "the database is locked by another change; repeat the request in 5 seconds",
}
_COMMON = ("400", "401", "403", "405", "429", "503")
_TASK_PARAMETER = {
    "name": "task",
    "in": "path",
    "required": True,
    "description": "The `id` of the task.",
    "schema": {"type": "string", "pattern": "^arq_[0-9]{1,17}$"},
}
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "A repeated key of the same account returns the first task.",
}


def access_request_paths() -> dict:
    return {
        f"/{REQUEST_PATH}": {
            "post": _operation(
                "authzen_request_submit",
                "Submit an access request",
                "A draft of the AuthZEN access request profile. Approvers of the console decide. Service accounts and administrators "
                "can request access for any user, other accounts only for themselves.",
                {
                    "202": _success(
                        "The request was created, or exists with this Idempotency-Key.",
                        _PENDING,
                        ("Location",),
                    )
                },
                (*_COMMON, "409", "410", "413"),
                body=("AuthzenAccessRequest", _SUBMISSION),
                parameters=[_KEY_PARAMETER],
            )
        },
        f"/{REQUEST_PATH}/{{task}}": {
            "get": _operation(
                "authzen_request_status",
                "Status of an access request",
                "For the account that submitted it, and its subject. When it is approved, ask the question again.",
                {"200": _success("The task.", _APPROVED)},
                (*_COMMON, "404"),
                parameters=[_TASK_PARAMETER],
            )
        },
        f"/{REQUEST_PATH}/{{task}}/cancel": {
            "post": _operation(
                "authzen_request_cancel",
                "Cancel an access request",
                "Withdraws a pending request.",
                {"200": _success("The task.", {"task": _TASK | {"status": "cancelled"}})},
                (*_COMMON, "404", "409", "410", "413"),
                body=("AuthzenCancellation", {"reason": "not needed any more"}),
                is_body_required=False,
                parameters=[_TASK_PARAMETER],
            )
        },
    }


def access_request_components() -> dict:
    text = {"type": "string"}
    entity = {"type": "object", "required": ["type", "id"], "properties": {"type": text, "id": text}}
    denial = {
        "type": "object",
        "required": ["evaluation_id"],
        "properties": {
            "evaluation_id": text | {"description": "The one of the denial, at most ten minutes old."},
            "evaluated_at": text,
            "expires_at": text,
            "reason": text | {"description": f"`{REASON}`"},
            "template": text,
        },
    }
    task = {
        "type": "object",
        "required": ["id", "status", "status_endpoint", "expires_at"],
        "properties": {
            "id": text,
            "status": text | {"enum": list(STATES)},
            "status_endpoint": text,
            "expires_at": text | {"description": "When the request expires if it is still pending."},
            "links": {
                "type": "object",
                "properties": {"cancel": text},
                "description": "While it is pending.",
            },
        },
    }
    approval = {
        "type": "object",
        "required": ["id", "approved_at"],
        "properties": {
            "id": text,
            "approved_at": text,
            "approved_until": text | {"description": "Without it, the access has no end."},
        },
    }
    return {
        "AuthzenAccessRequest": {
            "type": "object",
            "description": "The denied question, and why and until when access is needed.",
            "required": ["subject", "resource", "action", "context"],
            "properties": {
                "subject": entity,
                "resource": entity,
                "action": {"type": "object", "required": ["name"], "properties": {"name": text}},
                "context": {
                    "type": "object",
                    "required": ["business_justification"],
                    "properties": {"business_justification": text},
                    "description": "The reason, and the context of the question.",
                },
                "requested_access": {
                    "type": "object",
                    "properties": {
                        "requested_until": text
                        | {"description": "RFC 3339 with a time zone; without it, the access has no end."}
                    },
                },
                "denial": denial,
            },
        },
        "AuthzenCancellation": {
            "type": "object",
            "description": "Why it is withdrawn.",
            "properties": dict.fromkeys(
                ("reason", "comment"), {"description": "A text; other values are ignored."}
            ),
        },
        "AuthzenTask": {
            "type": "object",
            "required": ["task"],
            "properties": {
                "task": task,
                "result": {
                    "type": "object",
                    "description": "Of an approved request.",
                    "required": ["mode", "approval"],
                    "properties": {"mode": text | {"enum": ["reevaluate"]}, "approval": approval},
                },
            },
        },
        "AuthzenProblem": {
            "type": "object",
            "required": ["type", "status", "detail"],
            "properties": {
                "type": text | {"description": f"`about:blank`, or `{ERROR_TYPE}` and the error."},
                "status": {"type": "integer"},
                "detail": text,
                "task": {"type": "object", "properties": {"id": text}},
            },
        },
    }


def _operation(
    operation_id: str,
    summary: str,
    description: str,
    responses: dict,
    problems: tuple[str, ...],
    *,
    parameters: list,
    body: tuple[str, dict] | None = None,
    is_body_required: bool = True,
) -> dict:
    operation = {
        "operationId": operation_id,
        "tags": [TAG],
        "summary": summary,
        "description": description,
        "security": [{"token": []}, {"session": []}],
        "parameters": parameters,
        "responses": responses | {status: _problem(status) for status in sorted(problems)},
    }
    if body is not None:
        operation["requestBody"] = {
            "required": is_body_required,
            "description": f"At most {MAX_BODY_BYTES:,} bytes.",
            "content": {"application/json": _content(*body)},
        }
    return operation


def _success(description: str, example: dict, headers: tuple[str, ...] = ()) -> dict:
    return {
        "description": description,
        "headers": ID_HEADER | {name: {"schema": {"type": "string"}} for name in headers},
        "content": {"application/json": _content("AuthzenTask", example)},
    }


def _problem(status: str) -> dict:
    description, type_, detail = _PROBLEMS[status]
    example = {
        "type": f"{ERROR_TYPE}{type_}" if type_ else "about:blank",
        "status": int(status),
        "detail": detail,
    }
    content = {"application/problem+json": _content("AuthzenProblem", example)}
    if status in _TEXT_TOO:
        content["application/json"] = {
            "schema": {"type": "string"},
            "examples": {"Refusal": {"value": _TEXT_TOO[status]}},
        }
    headers = {_HEADERS[status]: {"schema": {"type": "string"}}} if status in _HEADERS else {}
    return {"description": description, "headers": ID_HEADER | headers, "content": content}


def _content(schema: str, example: dict) -> dict:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": {"Example": {"value": example}}}
