"""The models of runs, of the nightly schedule, and of the console's identity in a storage."""

import uuid
from datetime import time
from typing import ClassVar

from django.db import models

from analytics.analyses import ANALYSES
from grants.models import EFFECT_JOBS, Job


class AnalysisRunManager(models.Manager):
    """The jobs that compute a report, or a large effect."""

    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().filter(type__in=[*ANALYSES, *EFFECT_JOBS])


class AnalysisRun(Job):
    """A run: a job whose result is the report of an analysis. Its type is the name of the analysis.

    options: a string for each option of the analysis; an empty namespace means all namespaces.
    stage: a value of RunStage. steps_done, steps_total: tasks of Spark.
    summary: for a done run, the figures at the head of the report, and the `changes` since the previous run
    or the `comparison_fault` of `analytics.results.compare`. revision: of the snapshot.
    result_path: for a done run, its folder. result_hash: of its signed manifest (see
    `analytics.results.manifest`).
    """

    objects: ClassVar[AnalysisRunManager] = AnalysisRunManager()

    class Meta:
        proxy = True
        default_permissions = ()


class Schedule(models.Model):
    """The nightly schedule of one analysis. There is a row for each analysis that was switched on at least
    once.

    at: the time in UTC. options: see AnalysisRun.
    last_moment: the newest scheduled moment that needs no further run, so that each moment causes one run.
    """

    analysis = models.CharField(max_length=40, unique=True)
    options = models.JSONField(default=dict)
    at = models.TimeField(default=time(2, 30))
    is_on = models.BooleanField(default=False)
    last_moment = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.analysis} nightly at {self.at:%H:%M} UTC"


class StorageIdentity(models.Model):
    """The identity of this console in a storage; see `analytics.storage_identity`. The table has one row."""

    value = models.UUIDField(default=uuid.uuid4)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return str(self.value)
