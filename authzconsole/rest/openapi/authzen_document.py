"""The AuthZEN part of the OpenAPI document.

It is written by hand, because these endpoints are plain Django views.
"""

from authzconsole.api.evaluation import MAX_EVALUATIONS, STOP_DECISIONS
from authzconsole.api.metadata import CAPABILITIES, PATHS, REQUEST_PATH
from authzconsole.common.database.busy import RETRY_AFTER_SECONDS
from authzconsole.common.request_body import MAX_BODY_BYTES
from grants.policies.catalogue import GENERATIONS

TAG = "AuthZEN Authorization API 1.0"
SUBJECT, ACTION, RESOURCE = (
    {"type": "user", "id": "mei.chen"},
    {"name": "read"},
    {"type": "dataset", "id": "sales.orders"},
)
QUESTION = {"subject": SUBJECT, "action": ACTION, "resource": RESOURCE}
SEARCH_RESPONSE = {"results": [RESOURCE], "page": {"next_token": "", "count": 1}}

_OPERATIONS = {
    "access_evaluation_endpoint": (
        "authzen_evaluation",
        "Access Evaluation",
        "Is this subject permitted to perform this action on this resource? With "
        "`context.explain`, the answer says why.",
        "AuthzenEvaluation",
        QUESTION,
        "AuthzenDecision",
        {"decision": True},
    ),
    "access_evaluations_endpoint": (
        "authzen_evaluations",
        "Access Evaluations",
        "Several questions in one request; the other members are defaults for all of them.",
        "AuthzenEvaluations",
        {"subject": SUBJECT, "action": ACTION, "evaluations": [{"resource": RESOURCE}]},
        "AuthzenDecisions",
        {"evaluations": [{"decision": True}]},
    ),
    "search_subject_endpoint": (
        "authzen_search_subject",
        "Subject Search",
        "Which subjects are permitted to perform this action on this resource? "
        "For administrators, auditors, service accounts and their tokens with the "
        "scope `decide`.",
        "AuthzenSubjectSearch",
        QUESTION | {"subject": {"type": "user"}},
        "AuthzenFound",
        SEARCH_RESPONSE | {"results": [SUBJECT]},
    ),
    "search_resource_endpoint": (
        "authzen_search_resource",
        "Resource Search",
        "On which resources is this subject permitted to perform this action?",
        "AuthzenResourceSearch",
        QUESTION | {"resource": {"type": "dataset"}},
        "AuthzenFound",
        SEARCH_RESPONSE,
    ),
    "search_action_endpoint": (
        "authzen_search_action",
        "Action Search",
        "Which actions is this subject permitted to perform on this resource?",
        "AuthzenActionSearch",
        {"subject": SUBJECT, "resource": RESOURCE},
        "AuthzenFound",
        SEARCH_RESPONSE | {"results": [ACTION]},
    ),
}
# by status: the description, and an example of the message
_ERRORS = {
    "400": ("The request is malformed. The message names the member.", "`subject` is missing"),
    "401": ("There is no session and no valid token.", "the token has expired"),
    "403": (
        "The token has neither the scope `decide` nor `self`, or the caller can only ask about itself.",
        "the token lacks the scope `decide`",
    ),
    "405": ("The method is not listed in the Allow header.", "this endpoint only accepts POST"),
    "413": (
        "The body is longer than the limit.",
        "the body is longer than 1,000,000 bytes, which is the limit",
    ),
    "429": (
        "The account or the token sent more requests than its rate limit allows, or too many unknown tokens came from this "
        "address. Retry-After says how long to wait.",
        "this token may send 300,000 requests for decisions in 60 seconds: wait 1 s before you send the next one",
    ),
    "503": (
        "The database is locked by another change or not available. Retry-After says when to repeat the request.",
        f"the database is locked by another change; repeat the request in {RETRY_AFTER_SECONDS} seconds",
    ),
}
_HEADERS = {
    "401": "WWW-Authenticate",
    "403": "WWW-Authenticate",
    "405": "Allow",
    "429": "Retry-After",
    "503": "Retry-After",
}
STATE = "The state of the resource, if it is not live and the caller can see it."
NOT_IN_FORCE = "The grants that would meet a part of the requirement, but begin later or have ended, with their validity."
ID_HEADER = {
    "X-Request-ID": {
        "schema": {"type": "string"},
        "description": "The id that the caller sent, or a generated id.",
    }
}


def authzen_paths() -> dict:
    paths = {
        f"/{PATHS[endpoint]}": {"post": _operation(*details)} for endpoint, details in _OPERATIONS.items()
    }
    return paths | {"/.well-known/authzen-configuration": {"get": _metadata()}}


def authzen_components() -> dict:
    text, anything = {"type": "string"}, {"type": "object", "additionalProperties": {}}
    subject = {
        "type": "object",
        "required": ["type", "id"],
        "properties": {
            "type": text | {"description": "`user` or `group`."},
            "id": text | {"description": "The name."},
            "properties": anything,
        },
    }
    resource = {
        "type": "object",
        "required": ["type", "id"],
        "properties": {
            "type": text | {"description": "A kind of entity."},
            "id": text | {"description": "The address without its kind."},
            "properties": anything,
        },
    }
    action = {"type": "object", "properties": {"name": text, "properties": anything}, "required": ["name"]}
    members = {"subject": subject, "action": action, "resource": resource, "context": _context()}
    decision = {
        "type": "object",
        "properties": {"decision": {"type": "boolean"}, "context": _reasons()},
        "required": ["decision"],
    }
    page = {
        "type": "object",
        "properties": {
            "token": text
            | {"description": "`next_token` of the previous page; absent or empty for the first page."},
            "limit": {
                "type": "integer",
                "minimum": 0,
                "description": "The number of results per page; 0 only returns the total.",
            },
            "properties": {"type": "object", "description": "Ignored."},
        },
    }
    response_page = {
        "type": "object",
        "required": ["next_token"],
        "properties": {
            "next_token": text | {"description": "Empty on the last page."},
            "count": {"type": "integer", "description": "The number of results on this page."},
            "total": {"type": "integer", "description": "The number of results on all pages, if known."},
        },
    }
    options = {
        "type": "object",
        "properties": {"evaluations_semantic": {"type": "string", "enum": list(STOP_DECISIONS)}},
    }
    item = {"type": "object", "properties": members}
    return {
        "AuthzenEvaluation": item
        | {"description": "A question.", "required": ["subject", "action", "resource"]},
        "AuthzenEvaluations": {
            "type": "object",
            "description": "Questions. The other members are defaults for all of them.",
            "properties": members
            | {
                "evaluations": {"type": "array", "items": item, "maxItems": MAX_EVALUATIONS},
                "options": options,
            },
        },
        "AuthzenSubjectSearch": _search(
            "The id of the subject is ignored.",
            members | {"subject": subject | {"required": ["type"]}, "page": page},
            ["subject", "action", "resource"],
        ),
        "AuthzenResourceSearch": _search(
            "The id of the resource is ignored.",
            members | {"resource": resource | {"required": ["type"]}, "page": page},
            ["subject", "action", "resource"],
        ),
        "AuthzenActionSearch": _search(
            "The action is ignored.", members | {"action": {}, "page": page}, ["subject", "resource"]
        ),
        "AuthzenDecision": decision,
        "AuthzenDecisions": {
            "type": "object",
            "properties": {
                "evaluations": {"type": "array", "items": {"$ref": "#/components/schemas/AuthzenDecision"}},
                **decision["properties"],
            },
        },
        "AuthzenFound": {
            "type": "object",
            "properties": {"results": {"type": "array", "items": anything}, "page": response_page},
            "required": ["results"],
        },
    }


def _search(description: str, members: dict, required: list[str]) -> dict:
    return {
        "type": "object",
        "description": f"A search. {description}",
        "properties": members,
        "required": required,
    }


def _operation(
    operation_id: str,
    summary: str,
    description: str,
    request_schema: str,
    request_example: dict,
    response_schema: str,
    response_example: dict,
) -> dict:
    return {
        "operationId": operation_id,
        "tags": [TAG],
        "summary": summary,
        "description": description,
        "security": [{"token": []}, {"session": []}],
        "requestBody": {
            "required": True,
            "description": f"At most {MAX_BODY_BYTES:,} bytes.",
            "content": {"application/json": _content(request_schema, request_example)},
        },
        "responses": {
            "200": {
                "description": "Success.",
                "headers": ID_HEADER,
                "content": {"application/json": _content(response_schema, response_example)},
            },
            **{status: _error_response(status) for status in _ERRORS},
        },
    }


def _context() -> dict:
    """Return the schema of `context`.

    Unknown members, and members that the operation does not use, have no effect.
    """
    address = {"type": "string", "description": "An address."}
    return {
        "type": "object",
        "additionalProperties": {},
        "properties": {
            "generation": {
                "type": "string",
                "enum": list(GENERATIONS),
                "description": "By default the active generation.",
            },
            "as_of": {
                "description": "A journal revision, or a time in the past (RFC 3339 with a time zone): the question is "
                "answered with the grants, memberships, states and active generation of that time.",
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            },
            "at": {
                "type": "string",
                "description": "The time that the question is about (RFC 3339 with a time zone), by default "
                "now. Grants and memberships that are valid then count.",
            },
            "explain": {
                "type": "boolean",
                "default": False,
                "description": "Whether the answer is explained.",
            },
            "access_request": {
                "default": False,
                "description": "With `true`, a denial says how access is requested. Other values "
                "have no effect.",
            },
            "artifact": address | {"description": "For `deploy`: the address of the artifact."},
            "artifact_is_new": {
                "type": "boolean",
                "default": False,
                "description": "Whether the artifact is added by the same request.",
            },
            "dataset_type": address
            | {"description": "For `create` of a dataset: the address of its custom type."},
            "owner": address
            | {"description": "For `create` and `deploy`: the `kerberosprincipal:` address of the owner."},
        },
    }


def _reasons() -> dict:
    """Return the schema of an explanation.

    Without `explain`, it is present only if the question could not be evaluated.
    """
    text, nodes = (
        {"type": "string"},
        {"type": "array", "items": {"type": "object", "additionalProperties": {}}},
    )
    inactive_grant = {
        "type": "object",
        "required": ["principal", "entity", "privilege"],
        "properties": dict.fromkeys(("principal", "entity", "privilege", "valid_from", "valid_until"), text),
    }
    missing_grant = {
        "type": "object",
        "properties": {"entity": text, "privilege": text},
        "required": ["entity", "privilege"],
    }
    return {
        "type": "object",
        "additionalProperties": {},
        "properties": {
            "as_of": {
                "type": "integer",
                "description": "The revision that the answer is about, if the question named one.",
            },
            "generation": text,
            "sentence": text,
            "state": text | {"enum": ["planned", "deleted", "not registered"], "description": STATE},
            "attempts": nodes | {"description": "The tree of requirements."},
            "source": {
                "type": "object",
                "additionalProperties": text,
                "description": "Document, table and row of the rule.",
            },
            "missing": {
                "type": "array",
                "items": missing_grant,
                "description": "The smallest set of grants that would turn a denial into a permission.",
            },
            "not_in_force": {"type": "array", "items": inactive_grant, "description": NOT_IN_FORCE},
            "reason": text
            | {
                "description": "Why the question could not be evaluated; `approval_required` with `access_request`."
            },
            "evaluation_id": text | {"description": "Binds an access request to this denial."},
            "evaluated_at": text,
            "access_request": {
                "type": "object",
                "additionalProperties": {},
                "description": "How access is requested: the endpoint, a form, and until when.",
            },
            "error": {"type": "object", "properties": {"status": {"type": "integer"}, "message": text}},
        },
    }


def _content(schema: str, example: dict) -> dict:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": {"Example": {"value": example}}}


def _error_response(status: str, message: str = "") -> dict:
    """Return the description of an error response. Its body is one JSON string, as AuthZEN requires."""
    description, example = _ERRORS[status]
    headers = {_HEADERS[status]: {"schema": {"type": "string"}}} if status in _HEADERS else {}
    return {
        "description": description,
        "headers": ID_HEADER | headers,
        "content": {
            "application/json": {
                "schema": {"type": "string"},
                "examples": {"Refusal": {"value": message or example}},
            }
        },
    }


def _metadata() -> dict:
    names = ["policy_decision_point", *PATHS]
    names.append("access_request_endpoint")
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "format": "uri"} for name in names}
        | {"capabilities": {"type": "array", "items": {"type": "string"}}},
        "required": [*names, "capabilities"],
    }
    example = (
        {"policy_decision_point": "http://127.0.0.1:8000"}
        | {name: f"http://127.0.0.1:8000/{path}" for name, path in PATHS.items()}
        | {"access_request_endpoint": f"http://127.0.0.1:8000/{REQUEST_PATH}", "capabilities": CAPABILITIES}
    )
    return {
        "operationId": "authzen_configuration",
        "tags": [TAG],
        "summary": "Metadata",
        "security": [{}],
        "description": "The URLs of the endpoints. Public.",
        "responses": {
            "405": _error_response("405", "this endpoint only accepts GET and HEAD"),
            "200": {
                "description": "Success.",
                "headers": ID_HEADER,
                "content": {
                    "application/json": {"schema": schema, "examples": {"Example": {"value": example}}}
                },
            },
        },
    }
