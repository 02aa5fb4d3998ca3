"""Metrics from the database and Redis.

They are read when Prometheus requests them, so every process reports the same values.
"""

import time
from collections.abc import Iterator

import redis
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Max
from prometheus_client.core import GaugeMetricFamily

from analytics.models import AnalysisRun
from authzconsole.common.monitoring.readiness import readiness
from authzconsole.models import SecurityEvent, SecurityEventTarget, Webhook
from grants.jobs.queue import queue_lengths
from grants.journal import current_head
from grants.verification.anchor import anchored_revision


class StateCollector:
    """Collect the state of the console: readiness, runs, queues, the journal and the shipping of security
    events.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _family(
            "ready",
            "Whether a part of the console works.",
            ["check"],
            [((result.name,), result.is_ok) for result in readiness()],
        )
        try:
            yield from _database_metrics()
        except DatabaseError:
            # the check `database` is 0
            pass
        try:
            yield _family(
                "queue_messages",
                "Messages that wait for a worker.",
                ["queue"],
                [((queue,), length) for queue, length in queue_lengths().items()],
            )
        except (redis.RedisError, OSError):
            # the check `redis` is 0
            pass


def _database_metrics() -> Iterator[GaugeMetricFamily]:
    counts = AnalysisRun.objects.order_by().values_list("type", "state").annotate(Count("pk"))
    yield _family(
        "runs",
        "Runs by state.",
        ["analysis", "state"],
        [((analysis, state), count) for analysis, state, count in counts],
    )
    head = current_head()
    yield _family("journal_revision", "The number of the newest journal line.", [], [((), head.revision)])
    if head.at:
        yield _family(
            "journal_last_line_age_seconds",
            "The age of the newest journal line.",
            [],
            [((), max(0.0, time.time() - head.at.timestamp()))],
        )
    yield _family(
        "journal_unanchored_lines",
        "Journal lines that the anchor file does not have yet.",
        ["anchor"],
        [
            ((place,), head.revision - anchored_revision(place))
            for place in settings.JOURNAL_ANCHOR
            if place.startswith("file:")
        ],
    )
    newest_event = SecurityEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0
    targets = list(SecurityEventTarget.objects.values_list("name", "shipped_to", "failures"))
    yield _family(
        "security_events_unshipped",
        "At most this many security events have not reached a target.",
        ["target"],
        [((name,), max(0, newest_event - shipped_to)) for name, shipped_to, _ in targets],
    )
    yield from _webhook_metrics(head.revision)
    yield _family(
        "security_event_shipping_failures",
        "Failed attempts since the last success.",
        ["target"],
        [((name,), failures) for name, _, failures in targets],
    )


def _webhook_metrics(revision: int) -> Iterator[GaugeMetricFamily]:
    webhooks = list(Webhook.objects.annotate(dead=Count("dead_letters")).order_by("pk"))
    for name, description, value in (
        ("webhook_deliveries", "Journal lines that a webhook accepted.", lambda webhook: webhook.delivered),
        (
            "webhook_dead_letters",
            "Journal lines that a webhook did not accept.",
            lambda webhook: webhook.dead,
        ),
        (
            "webhook_waiting_lines",
            "Journal lines after the position of a webhook.",
            lambda webhook: max(0, revision - webhook.position),
        ),
    ):
        yield _family(
            name, description, ["webhook"], [((str(webhook.pk),), value(webhook)) for webhook in webhooks]
        )


def _family(
    name: str, description: str, labels: list[str], values: list[tuple[tuple, float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"authzconsole_{name}", description, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, float(value))
    return family
