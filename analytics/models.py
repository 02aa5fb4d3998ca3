"""The models of runs and their figures, of the nightly schedule, and of the console's identity in a storage."""

import uuid
from datetime import time
from typing import ClassVar

from django.db import models

from analytics.analyses import ANALYSES
from entities.address import MAX_KEY_LENGTH
from entities.fields import optional_text
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


class Figure(models.Model):
    """A figure of a done run. It remains when the report of the run is removed.

    Figures of the same analysis with the same options are one series. run: None if it did not run in this console.
    subject: the name of the namespace that the figure is about; empty for all. value: in the unit that the name ends
    with, such as bytes or milliseconds; otherwise a number of rows.
    """

    analysis = models.CharField(max_length=40)
    options = models.JSONField(default=dict)
    run = models.ForeignKey(Job, models.SET_NULL, null=True, related_name="+")
    finished_at = models.DateTimeField()
    name = models.CharField(max_length=60)
    subject = optional_text(MAX_KEY_LENGTH)
    value = models.BigIntegerField()

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["analysis", "name", "-finished_at"], name="figure_series"),
            models.Index(fields=["finished_at"], name="figure_age"),
        ]

    def __str__(self):
        return f"{self.name} of {self.analysis}"


class FigureAlert(models.Model):
    """A rule that fires when a figure of an analysis is above, or else below, a value.

    recipients: a list of email addresses. crossed_options: the options with which the newest run crossed the value, of the
    scheduled run and of the one with default options.
    """

    analysis = models.CharField(max_length=40)
    figure = models.CharField(max_length=60)
    is_above = models.BooleanField()
    value = models.BigIntegerField()
    recipients = models.JSONField(default=list)
    crossed_options = models.JSONField(default=list)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        word = "above" if self.is_above else "below"
        return f"alert {self.pk}: {self.figure} of {self.analysis} {word} {self.value:,}"

    @property
    def is_crossed(self) -> bool:
        """Whether the newest run crossed the value, with any of the options."""
        return bool(self.crossed_options)

    def is_crossed_by(self, value: int) -> bool:
        """Return whether a figure crosses the value."""
        return value > self.value if self.is_above else value < self.value


class FigureCrossing(models.Model):
    """A run that made an alert fire. notified_at: the time at which the e-mail was sent."""

    alert = models.ForeignKey(FigureAlert, models.CASCADE, related_name="crossings")
    run = models.ForeignKey(Job, models.SET_NULL, null=True, related_name="+", db_index=False)
    value = models.BigIntegerField()
    at = models.DateTimeField(auto_now_add=True)
    notified_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.value} for {self.alert}"


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
