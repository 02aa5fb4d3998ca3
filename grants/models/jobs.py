"""The model of background work: one row for each job, whatever its type."""

from django.conf import settings
from django.db import models

from entities.fields import optional_text


class JobState(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_STATES = (JobState.WAITING, JobState.RUNNING)


class Job(models.Model):
    """One piece of work that a worker does in the background. Changed only by `grants.jobs`.

    type: the name of a registered type of job; the name of the analysis for a run.
    options: what the type needs to know, such as the generation of an analysis.
    is_scheduled: whether a schedule requested the job.
    due_at: the job does not start before this time; null means at once.
    sent_at: when it was last sent to the worker; null if that failed.
    claim: a token known only to the executing process; an update with another claim changes nothing.
    process: the executing process, as `grants.jobs.processes` identifies it; empty if that is not possible.
    attempt: how often the job was started. stage: the current step, if the type has steps with names.
    steps_done, steps_total: the progress, in units of the type; of its current stage if it has stages.
    error: why the job failed, or why its last attempt did.
    summary: the figures of the result. revision: the revision of the data that the result is about.
    result_path: the folder or file of the result below SNAPSHOT_URI; empty if there is none, or after it was
    deleted. result_hash: the SHA-256 hash of the result, or of its signed manifest; empty if it has none.
    result_removed_at: when the result was removed. It cannot be read after that, even if its files still
    exist.
    """

    type = models.CharField(max_length=40)
    options = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=JobState.choices, default=JobState.WAITING)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    is_scheduled = models.BooleanField(default=False)
    requested_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    claim = optional_text(32)
    process = optional_text(120)
    attempt = models.PositiveIntegerField(default=0)
    stage = optional_text(20)
    steps_done = models.PositiveIntegerField(default=0)
    steps_total = models.PositiveIntegerField(default=0)
    error = optional_text()
    summary = models.JSONField(default=dict)
    revision = models.BigIntegerField(null=True)
    result_path = optional_text(200)
    result_hash = optional_text(64)
    result_removed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["state", "requested_at"], name="job_waiting"),
            models.Index(fields=["type", "-requested_at"], name="job_latest"),
        ]

    def __str__(self):
        return f"{self.type} #{self.pk}"

    @property
    def description(self) -> str:
        """The text of journal lines about the job, with its type and options."""
        options = "".join(f", {name}: {value}" for name, value in sorted(self.options.items()) if value)
        return f"run {self.pk}: {self.type}{options}"

    @property
    def is_finished(self) -> bool:
        return self.state not in UNFINISHED_STATES


# the types of the jobs that compute the effect of a plan, and of other changes
EFFECT_JOBS = ("plan-effect", "change-effect")


class EffectRows(models.Model):
    """A block of the changed decisions of an effect that a job computed (`grants.effects.large`).

    number: of the time of the decisions. first_row: the number of the first row of the block.
    content: the rows as compressed JSON.
    """

    job = models.ForeignKey(Job, models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveSmallIntegerField()
    first_row = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["job", "number", "first_row"], name="effect_rows_once")
        ]
