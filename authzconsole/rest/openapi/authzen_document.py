"""What the OpenAPI document says of the AuthZEN Authorization API 1.0, whose endpoints are no views of the framework."""

from authzconsole.api.evaluation import STOP_DECISIONS
from authzconsole.api.metadata import PATHS
from authzconsole.common.database_busy import RETRY_AFTER_SECONDS
from grants.policies.catalogue import GENERATIONS

TAG = "AuthZEN Authorization API 1.0"
SUBJECT, ACTION, RESOURCE = {"type": "user", "id": "mei.chen"}, {"name": "read"}, {"type": "dataset", "id": "sales.orders"}
QUESTION = {"subject": SUBJECT, "action": ACTION, "resource": RESOURCE}
FOUND = {"results": [RESOURCE], "page": {"next_token": "", "count": 1}}

_OPERATIONS = {
    "access_evaluation_endpoint": (
        "authzen_evaluation", "Access Evaluation", "May this subject do this, there? With `context.explain`, and why.",
        "AuthzenEvaluation", QUESTION, "AuthzenDecision", {"decision": True}),
    "access_evaluations_endpoint": (
        "authzen_evaluations", "Access Evaluations", "Several questions at once; the members beside them are the defaults.",
        "AuthzenEvaluations", {"subject": SUBJECT, "action": ACTION, "evaluations": [{"resource": RESOURCE}]},
        "AuthzenDecisions", {"evaluations": [{"decision": True}]}),
    "search_subject_endpoint": (
        "authzen_search_subject", "Subject Search", "Who may do this, there? For tokens, administrators and auditors.",
        "AuthzenSearch", QUESTION | {"subject": {"type": "user"}}, "AuthzenFound", FOUND | {"results": [SUBJECT]}),
    "search_resource_endpoint": (
        "authzen_search_resource", "Resource Search", "On what may this subject do this?",
        "AuthzenSearch", QUESTION | {"resource": {"type": "dataset"}}, "AuthzenFound", FOUND),
    "search_action_endpoint": (
        "authzen_search_action", "Action Search", "What may this subject do, there?",
        "AuthzenSearch", {"subject": SUBJECT, "resource": RESOURCE}, "AuthzenFound", FOUND | {"results": [ACTION]}),
}
# why, and an example of the sentence
_REFUSALS = {
    "400": ("The request is malformed; the sentence names the member.", "`subject` is missing"),
    "401": ("Nobody is signed in, or the token is no good.", "the token has expired"),
    "403": ("The token lacks the scope `decide`, or the account may ask about itself only.",
            "the token lacks the scope `decide`"),
    "405": ("Another method than the one that the header Allow names.", "this endpoint answers POST only"),
    "413": ("The body is longer than the limit, which the sentence names.",
            "the body is longer than 1,000,000 bytes, which is the limit"),
    "429": ("Too many unknown tokens came from this address; the header Retry-After says for how long to send none.",
            "too many unknown tokens came from your address: send no other for 4 minutes"),
    "503": ("Another change holds the database; the header Retry-After says when to ask again.",
            f"another change holds the database; ask again in {RETRY_AFTER_SECONDS} seconds"),
}
_HEADERS = {"401": "WWW-Authenticate", "403": "WWW-Authenticate", "405": "Allow", "429": "Retry-After", "503": "Retry-After"}
STATE = "Of the resource, where the caller may see it and it is not live."
ID_HEADER = {"X-Request-ID": {"schema": {"type": "string"}, "description": "As it was sent, or one made here."}}


def authzen_paths() -> dict:
    paths = {f"/{PATHS[endpoint]}": {"post": _operation(*about)} for endpoint, about in _OPERATIONS.items()}
    return paths | {"/.well-known/authzen-configuration": {"get": _metadata()}}


def authzen_components() -> dict:
    text, anything = {"type": "string"}, {"type": "object", "additionalProperties": {}}
    entity = {"type": "object", "properties": {"type": text, "id": text, "properties": anything}, "required": ["type"]}
    action = {"type": "object", "properties": {"name": text, "properties": anything}, "required": ["name"]}
    members = {"subject": entity, "action": action, "resource": entity, "context": _context()}
    decision = {"type": "object", "properties": {"decision": {"type": "boolean"}, "context": _reasons()},
                "required": ["decision"]}
    page = {"type": "object", "properties": {
        "token": text | {"description": "`next_token` of the page before; without it, or empty, the first page."},
        "limit": {"type": "integer", "minimum": 0, "description": "How many results a page holds; 0 only counts them."}}}
    answered = {"type": "object", "required": ["next_token"], "properties": {
        "next_token": text | {"description": "Empty where no page follows."},
        "count": {"type": "integer", "description": "Of the results of this page."},
        "total": {"type": "integer", "description": "Of the results of all pages, where it is known."}}}
    options = {"type": "object", "properties": {"evaluations_semantic": {"type": "string", "enum": list(STOP_DECISIONS)}}}
    item = {"type": "object", "properties": members}
    return {
        "AuthzenEvaluation": item | {"required": ["subject", "action", "resource"]},
        "AuthzenEvaluations": {"type": "object", "properties": members | {
            "evaluations": {"type": "array", "items": item, "maxItems": 1000}, "options": options}},
        "AuthzenSearch": {"type": "object", "properties": members | {"page": page}, "required": ["subject", "resource"]},
        "AuthzenDecision": decision,
        "AuthzenDecisions": {"type": "object", "properties": {
            "evaluations": {"type": "array", "items": {"$ref": "#/components/schemas/AuthzenDecision"}},
            **decision["properties"]}},
        "AuthzenFound": {"type": "object", "properties": {"results": {"type": "array", "items": anything}, "page": answered},
                         "required": ["results"]},
    }


def _operation(name: str, summary: str, description: str, sent: str, request: dict, answer: str, example: dict) -> dict:
    return {
        "operationId": name, "tags": [TAG], "summary": summary, "description": description,
        "security": [{"token": []}, {"session": []}],
        "requestBody": {"required": True, "content": {"application/json": _content(sent, request)}},
        "responses": {"200": {"description": "The answer.", "headers": ID_HEADER,
                              "content": {"application/json": _content(answer, example)}},
                      **{status: _refusal(status) for status in _REFUSALS}},
    }


def _context() -> dict:
    """Members that an operation does not use, and others, change nothing."""
    address = {"type": "string", "description": "An address."}
    return {"type": "object", "additionalProperties": {}, "properties": {
        "generation": {"type": "string", "enum": list(GENERATIONS), "description": "The active one unless given."},
        "explain": {"type": "boolean", "default": False, "description": "Whether the answer says why."},
        "artifact": address | {"description": "Of `deploy`: the address of the artifact that it is deployed from."},
        "artifact_is_new": {"type": "boolean", "default": False, "description": "Whether that artifact is added with it."},
        "dataset_type": address | {"description": "Of a dataset's `create`: the address of its custom type."},
        "owner": address | {"description": "Of what is created or deployed: the `kerberosprincipal:` address of its owner."}}}


def _reasons() -> dict:
    """There with `explain`; without it only where there was nothing to weigh."""
    text, nodes = {"type": "string"}, {"type": "array", "items": {"type": "object", "additionalProperties": {}}}
    gap = {"type": "object", "properties": {"entity": text, "privilege": text}, "required": ["entity", "privilege"]}
    return {"type": "object", "additionalProperties": {}, "properties": {
        "generation": text, "sentence": text,
        "state": text | {"enum": ["planned", "deleted", "not registered"], "description": STATE},
        "attempts": nodes | {"description": "The tree of requirements."},
        "source": {"type": "object", "additionalProperties": text, "description": "Seed, table and row of the rule."},
        "missing": {"type": "array", "items": gap,
                    "description": "The fewest grants that would turn a denial into a permit."},
        "reason": text | {"description": "Why there was nothing to weigh."},
        "error": {"type": "object", "properties": {"status": {"type": "integer"}, "message": text}}}}


def _content(schema: str, example: dict) -> dict:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": {"Example": {"value": example}}}


def _refusal(status: str, sentence: str = "") -> dict:
    """The standard wants one string."""
    words, example = _REFUSALS[status]
    further = {_HEADERS[status]: {"schema": {"type": "string"}}} if status in _HEADERS else {}
    return {"description": words, "headers": ID_HEADER | further, "content": {"application/json": {
        "schema": {"type": "string"}, "examples": {"Refusal": {"value": sentence or example}}}}}


def _metadata() -> dict:
    names = ["policy_decision_point", *PATHS]
    shape = {"type": "object", "properties": {name: {"type": "string", "format": "uri"} for name in names}, "required": names}
    example = {"policy_decision_point": "http://127.0.0.1:8000"} | {
        name: f"http://127.0.0.1:8000/{path}" for name, path in PATHS.items()}
    return {"operationId": "authzen_configuration", "tags": [TAG], "summary": "Metadata", "security": [{}],
            "description": "Where the endpoints are. Open to everybody.",
            "responses": {"405": _refusal("405", "this endpoint answers GET and HEAD only"),
                          "200": {"description": "The answer.", "headers": ID_HEADER, "content": {"application/json": {
                              "schema": shape, "examples": {"Example": {"value": example}}}}}}}
