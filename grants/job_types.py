"""The jobs of this app: the effects above the limits."""

from grants.changes import compute_change_effect
from grants.effects.large import CHANGE_EFFECT, PLAN_EFFECT
from grants.jobs import job_type
from grants.plans.permission_effect import compute_plan_effect

job_type(PLAN_EFFECT)(compute_plan_effect)
job_type(CHANGE_EFFECT)(compute_change_effect)
