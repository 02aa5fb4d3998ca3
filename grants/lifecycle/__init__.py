"""Register, delete and recreate entities, and forecast the effects on grants.

This package also computes whether a namespace can be deleted. The table of entities is in `entities`.
"""

from grants.lifecycle.forecast import (
    LifecycleForecast,
    grants_on,
    lifecycle_forecast,
    lifecycle_refusal,
    live_refusal,
    live_subtree,
    resolve_generation,
)
from grants.lifecycle.namespace_deletion import (
    DeletionStep,
    DeletionVerdict,
    StepOutcome,
    deletion_forecast,
    live_namespace,
    undeletable_entities,
)
from grants.lifecycle.readiness import (
    Readiness,
    active_user_by_name,
    missing_grants_of,
    missing_grants_to_delete,
    namespace_readiness,
)
