"""Runs of analyses: what was asked, how far it is, what came of it; and which of them run every night."""

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
    """What a running run is at, in this order."""

    SNAPSHOT = "snapshot", "Taking a snapshot"
    SPARK = "spark", "Starting Spark"
    COMPUTING = "computing", "Computing"
    WRITING = "writing", "Writing the report"


class AnalysisRun(models.Model):
    """One run. A run is claimed by moving it from waiting to running in one statement, so it executes once.

    options: the options that the analysis takes, each with a text; an empty namespace is all of them.
    is_scheduled: nobody asked for it but its schedule.
    claim: known only to the process that executes the run; what carries another one changes nothing.
    process: which one that is, as `analytics.runs.processes` writes it; empty where it cannot be told.
    attempt: how often it was started. sent_at: when the worker was last told; null when nobody could be told.
    summary: small figures for the head of the report, and `changes` since the run before, as `analytics.results.compare` counts
        them.
    result_folder: below SNAPSHOT_URI; empty once its files are gone. Both of a run that is done.
    results_removed_at: from when on its report is not read any longer, whether or not its files are gone yet.
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
    def is_over(self) -> bool:
        return self.state in (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


class Schedule(models.Model):
    """That an analysis runs every night; one row for each that was ever switched on.

    at: in UTC. options: as of a run. last_moment: the newest moment that needs no run any more, so that each has one.
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
