"""The part of the OpenAPI document about monitoring: `/healthz`, `/readyz` and `/metrics`, which are plain
Django views.
"""

from authzconsole.rest.openapi.authzen_document import ID_HEADER

TAG = "Monitoring"
_TOKEN = "Requests from this machine that no proxy forwarded, and those with `Authorization: Bearer METRICS_TOKEN`,"


def monitoring_paths() -> dict:
    return {"/healthz": {"get": _healthz()}, "/readyz": {"get": _readyz()}, "/metrics": {"get": _metrics()}}


def _healthz() -> dict:
    return _operation(
        "healthz",
        "Is the process alive?",
        "Needs no database. A process manager restarts a process that does not answer. Public.",
        {"200": _response("The process answers.", {"text/plain": "ok"})},
    )


def _readyz() -> dict:
    check = {
        "type": "object",
        "required": ["status", "text"],
        "properties": {
            "status": {"type": "string", "enum": ["ok", "failed"]},
            "text": {"type": "string", "description": "What was found."},
        },
    }
    schema = {
        "type": "object",
        "required": ["status", "checks"],
        "properties": {
            "status": {"type": "string", "enum": ["ready", "not ready"]},
            "checks": {"type": "object", "additionalProperties": check, "description": "The checks by name."},
        },
    }
    ready = {"status": "ready", "checks": {"database": {"status": "ok", "text": "postgresql"}}}
    failed = {"status": "not ready", "checks": {"redis": {"status": "failed", "text": "no answer"}}}
    return _operation(
        "readyz",
        "Can the console work?",
        "Checks what the console depends on, such as the database, Redis and the disk. "
        f"{_TOKEN} get the result of each check; others get one line.",
        {
            "200": _response(
                "All checks passed.", {"application/json": ready, "text/plain": "ready\n"}, schema
            ),
            "503": _response(
                "A check failed.", {"application/json": failed, "text/plain": "not ready\n"}, schema
            ),
        },
    )


def _metrics() -> dict:
    return _operation(
        "metrics",
        "Metrics for Prometheus",
        f"The metrics of all processes, in the text format of Prometheus. {_TOKEN} get them.",
        {
            "200": _response("Success.", {"text/plain": "# TYPE authzconsole_decisions_total counter\n"}),
            "403": _response(
                "The request has no token.",
                {"text/plain": "send METRICS_TOKEN as `Authorization: Bearer TOKEN`\n"},
            ),
        },
    )


def _operation(operation_id: str, summary: str, description: str, responses: dict) -> dict:
    return {
        "operationId": operation_id,
        "tags": [TAG],
        "summary": summary,
        "description": description,
        "security": [{}],
        "responses": responses,
    }


def _response(description: str, examples: dict, schema: dict | None = None) -> dict:
    """Return a response. examples: by media type. schema: the schema of a JSON response; other responses are
    plain text.
    """
    return {
        "description": description,
        "headers": ID_HEADER,
        "content": {
            media_type: {
                "schema": schema if schema and media_type == "application/json" else {"type": "string"},
                "examples": {"Example": {"value": example}},
            }
            for media_type, example in examples.items()
        },
    }
