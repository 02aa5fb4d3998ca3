"""The models of runs, of the nightly schedule, and of the console's identity in a storage."""

import uuid
from datetime import time

from django.conf import settings
from django.db import models


class RunState(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunStage(models.TextChoices):
    """The stages of a running run, in order."""

    SNAPSHOT = "snapshot", "Taking a snapshot"
    SPARK = "spark", "Starting Spark"
    COMPUTING = "computing", "Computing"
    WRITING = "writing", "Writing the report"


class AnalysisRun(models.Model):
    """One run of an analysis.

    A worker claims a run by moving it from waiting to running in one statement, so that a run is executed
    once.

    options: a string for each option of the analysis; an empty namespace means all namespaces.
    is_scheduled: whether the schedule requested the run.
    claim: a token known only to the executing process; an update with another claim changes nothing.
    process: the executing process, as `analytics.runs.processes` identifies it; empty if that is not
    possible.
    attempt: how often the run was started. sent_at: when it was last sent to the worker; null if that failed.
    summary: for a done run, the figures at the head of the report, and the `changes` since the previous run
        or the `comparison_fault` of `analytics.results.compare`.
    result_folder: for a done run, its folder below SNAPSHOT_URI; empty after its files were deleted.
    manifest_hash: the SHA-256 hash of the report's signed manifest (see `analytics.results.manifest`); empty
        if the report is not signed.
    results_removed_at: when the report was removed. It cannot be read after that, even if its files still
    exist.
    """

    analysis = models.CharField(max_length=40)
    options = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=RunState.choices, default=RunState.WAITING)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    is_scheduled = models.BooleanField(default=False)
    requested_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    claim = models.CharField(max_length=32, blank=True, default="")
    process = models.CharField(max_length=120, blank=True, default="")
    attempt = models.PositiveIntegerField(default=0)
    revision = models.BigIntegerField(null=True)
    stage = models.CharField(max_length=9, choices=RunStage.choices, blank=True, default="")
    tasks_done = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, default="")
    summary = models.JSONField(default=dict)
    result_folder = models.CharField(max_length=200, blank=True, default="")
    manifest_hash = models.CharField(max_length=64, blank=True, default="")
    results_removed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["state", "requested_at"], name="run_waiting"),
            models.Index(fields=["analysis", "-requested_at"], name="run_latest"),
        ]

    def __str__(self):
        return f"{self.analysis} #{self.pk}"

    @property
    def is_finished(self) -> bool:
        return self.state in (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


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
