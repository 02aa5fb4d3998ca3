"""The jobs of this app."""

from django.conf import settings

from authzconsole.common.security_events.shipping import SHIPPING_JOB, ship_next_events
from authzconsole.common.webhooks.delivery import DELIVERY_JOB, deliver_next_lines
from authzconsole.connections.jobs import (
    COMPARE_JOB,
    PUSH_JOB,
    SYNC_JOB,
    TEST_JOB,
    compare_grants,
    push_grants,
    sync_connection,
    test_connection,
)
from authzconsole.evidence.services import EVIDENCE_JOB, execute_evidence
from authzconsole.findings.refresh import GUARDRAIL_JOB, check_guardrails
from authzconsole.reviews.execution import finish_review, prepare_review
from grants.jobs import job_type
from grants.reviews.campaigns import PREPARATION_JOB
from grants.reviews.finishing import FINISHING_JOB

DAY_SECONDS = 86_400
# of short jobs: far more than the seconds after which they end themselves
SHORT_SECONDS = 120
MINUTES_SECONDS = 1_800

job_type(EVIDENCE_JOB, time_limit=DAY_SECONDS)(execute_evidence)
job_type(PREPARATION_JOB, time_limit=DAY_SECONDS)(prepare_review)
job_type(FINISHING_JOB, time_limit=DAY_SECONDS)(finish_review)
job_type(GUARDRAIL_JOB, time_limit=DAY_SECONDS)(check_guardrails)
# not behind analyses, which can take hours
job_type(SYNC_JOB, queue=settings.LIGHT_QUEUE, time_limit=MINUTES_SECONDS)(sync_connection)
job_type(COMPARE_JOB, queue=settings.LIGHT_QUEUE, time_limit=MINUTES_SECONDS)(compare_grants)
# a push that was interrupted is compared again first
job_type(PUSH_JOB, queue=settings.LIGHT_QUEUE, time_limit=MINUTES_SECONDS, max_attempts=1)(push_grants)
job_type(TEST_JOB, queue=settings.LIGHT_QUEUE, time_limit=SHORT_SECONDS)(test_connection)
job_type(DELIVERY_JOB, queue=settings.LIGHT_QUEUE, time_limit=SHORT_SECONDS)(deliver_next_lines)
job_type(SHIPPING_JOB, queue=settings.LIGHT_QUEUE, time_limit=SHORT_SECONDS)(ship_next_events)
