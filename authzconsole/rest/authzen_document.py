"""What the OpenAPI document says of the AuthZEN Authorization API 1.0, whose endpoints are no views of the framework."""

from authzconsole.api.metadata import PATHS

TAG = "AuthZEN Authorization API 1.0"
SUBJECT, ACTION, RESOURCE = {"type": "user", "id": "alice"}, {"name": "read"}, {"type": "dataset", "id": "sales.orders"}
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
_REFUSALS = {
    "400": "The request is malformed; the sentence names the member.", "401": "Nobody is signed in, or the token is no good.",
    "403": "The token lacks the scope `decide`, or the account may ask about itself only.",
    "413": "The body is longer than the limit, which the sentence names.",
}
_ID_HEADER = {"X-Request-ID": {"schema": {"type": "string"}, "description": "As it was sent, or one made here."}}


def authzen_paths() -> dict:
    paths = {f"/{PATHS[endpoint]}": {"post": _operation(*about)} for endpoint, about in _OPERATIONS.items()}
    return paths | {"/.well-known/authzen-configuration": {"get": _metadata()}}


def authzen_components() -> dict:
    text, anything = {"type": "string"}, {"type": "object", "additionalProperties": {}}
    entity = {"type": "object", "properties": {"type": text, "id": text, "properties": anything}, "required": ["type"]}
    action = {"type": "object", "properties": {"name": text, "properties": anything}, "required": ["name"]}
    members = {"subject": entity, "action": action, "resource": entity, "context": anything}
    decision = {"type": "object", "properties": {"decision": {"type": "boolean"}, "context": anything}, "required": ["decision"]}
    page = {"type": "object", "properties": {"token": text, "limit": {"type": "integer", "minimum": 0}}}
    answered = {"type": "object", "properties": {"next_token": text, "count": {"type": "integer"}, "total": {"type": "integer"}},
                "required": ["next_token"]}
    options = {"type": "object", "properties": {"evaluations_semantic": {
        "type": "string", "enum": ["execute_all", "deny_on_first_deny", "permit_on_first_permit"]}}}
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
        "responses": {"200": {"description": "The answer.", "headers": _ID_HEADER,
                              "content": {"application/json": _content(answer, example)}},
                      **{status: _refusal(words) for status, words in _REFUSALS.items()}},
    }


def _content(schema: str, example: dict) -> dict:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": {"Example": {"value": example}}}


def _refusal(words: str) -> dict:
    """The standard wants one string."""
    return {"description": words, "headers": _ID_HEADER, "content": {"application/json": {
        "schema": {"type": "string"}, "examples": {"Refusal": {"value": "`subject` is missing"}}}}}


def _metadata() -> dict:
    names = ["policy_decision_point", *PATHS]
    shape = {"type": "object", "properties": {name: {"type": "string", "format": "uri"} for name in names}, "required": names}
    example = {"policy_decision_point": "http://127.0.0.1:8000"} | {
        name: f"http://127.0.0.1:8000/{path}" for name, path in PATHS.items()}
    return {"operationId": "authzen_configuration", "tags": [TAG], "summary": "Metadata", "security": [{}],
            "description": "Where the endpoints are. Open to everybody.",
            "responses": {"200": {"description": "The answer.", "content": {"application/json": {
                "schema": shape, "examples": {"Example": {"value": example}}}}}}}
