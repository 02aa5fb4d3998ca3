"""The parts of the OpenAPI document that no serializer describes, from fixed_openapi.yaml, and the examples of
requests and responses, from examples.yaml.
"""

import json
from pathlib import Path

import yaml

from authzconsole.api.endpoint import CAPABILITIES
from authzconsole.api.evaluation import MAX_EVALUATIONS, STOP_DECISIONS
from authzconsole.common.database import RETRY_AFTER_SECONDS
from authzconsole.common.request_body import MAX_BODY_BYTES
from grants.policies.catalogue import GENERATIONS

# by the name of their placeholder
_VALUES = {
    "capabilities": json.dumps(CAPABILITIES),
    "generations": json.dumps(list(GENERATIONS)),
    "max_body_bytes": f"{MAX_BODY_BYTES:,}",
    "max_evaluations": str(MAX_EVALUATIONS),
    "retry_after": str(RETRY_AFTER_SECONDS),
    "stop_decisions": json.dumps(list(STOP_DECISIONS)),
}


def _load(name: str) -> dict:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name, value in _VALUES.items():
        text = text.replace(f"${{{name}}}", value)
    # the loader in C is ten times as fast
    return yaml.load(text, Loader=yaml.CSafeLoader)


FIXED = _load("fixed_openapi.yaml")
# by operation id: `request`, and the members of `response` that differ from the examples of the serializer
EXAMPLES = _load("examples.yaml")
