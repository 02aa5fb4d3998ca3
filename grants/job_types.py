"""The jobs of this app: the effects and the plans above the limits, and the activation of a generation at a later time."""

from django.conf import settings

from grants.changes import compute_change_effect
from grants.effects.large import CHANGE_EFFECT, PLAN_EFFECT
from grants.jobs import job_type
from grants.plans.application import APPLICATION_JOB, run_application
from grants.plans.permission_effect import compute_plan_effect
from grants.scheduled_activation import ACTIVATION_JOB, activate_as_scheduled

job_type(PLAN_EFFECT)(compute_plan_effect)
job_type(CHANGE_EFFECT)(compute_change_effect)
job_type(ACTIVATION_JOB, queue=settings.LIGHT_QUEUE)(activate_as_scheduled)
# not behind analyses, which can take hours
job_type(APPLICATION_JOB, queue=settings.LIGHT_QUEUE, time_limit=1_800)(run_application)
