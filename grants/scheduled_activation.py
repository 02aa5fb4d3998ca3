"""Activate a generation at a later time: a job with that time, which applies the change like its author does now.

INVARIANT: the job makes the change only if every check of `apply` still passes, for the author who scheduled it, and if the
effect on permissions is the one that was shown. Otherwise it fails: a journal line and a finding say why, and nothing
changes. An effect that a job computed holds until a journal line may change a decision.
"""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from entities.frozen import frozen
from grants.active_generation import active_generation, latest_proposal
from grants.authority.proposals import PROPOSAL_DAYS
from grants.authority.transactions import administrator_transaction
from grants.change_set import ActivateGeneration, ApplyPlan
from grants.changes import ChangeSet, Shown, apply, preview
from grants.effects.effect import TOO_LARGE
from grants.errors import EffectChanged, EffectNotShown, GrantError
from grants.jobs import JobContext, JobFailed, JobResult, cancel_job, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import UNFINISHED_STATES, Job, JobState, User
from grants.outcomes import Outcome
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation, rules_digest
from grants.roles.capabilities import Capability

ACTIVATION_JOB = "generation-activation"
MAX_DAYS_AHEAD = 366
# how long pages show that an activation was refused
SHOWN_FOR = timedelta(days=7)


class ActivationConflict(GrantError):
    """Another activation is scheduled, or the scheduled one is being made."""

    status = 409


@frozen
class ScheduledActivation:
    """An activation that is scheduled, or was refused: then `refusal` says why."""

    job: Job

    @property
    def generation(self) -> str:
        return self.job.options["generation"]

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.job.options["at"])

    @property
    def plan(self) -> int | None:
        """The number of the plan that is applied with it."""
        return self.job.options.get("plan")

    @property
    def by(self) -> str:
        return self.job.options["author"]["name"]

    @property
    def refusal(self) -> str:
        return self.job.error if self.job.state == JobState.FAILED else ""


def scheduled_activation() -> ScheduledActivation | None:
    """Return the newest activation if it is scheduled, or was refused in the last days. Runs one query."""
    is_shown = Q(state__in=UNFINISHED_STATES) | Q(
        state=JobState.FAILED, finished_at__gt=timezone.now() - SHOWN_FOR
    )
    # there is at most one unfinished activation, and it is the newest one
    newest = Job.objects.filter(type=ACTIVATION_JOB).annotate(is_shown=is_shown).order_by("-pk").first()
    return ScheduledActivation(newest) if newest and newest.is_shown else None


def activation_changes(generation: Generation, plan: int | None) -> ChangeSet:
    """Return the changes that activate a generation. plan: the number of a plan that is applied with it."""
    return ChangeSet.of(ActivateGeneration(generation), *([ApplyPlan(plan)] if plan else []))


def schedule_activation(
    *, author: Author, generation: Generation, at: datetime, shown: Shown, plan: int | None = None
) -> Outcome:
    """Schedule the activation of a generation. The same checks are made now, so that it is not refused for a known reason.

    plan: see `activation_changes`.

    Raise GrantError if the time is not valid, if another activation is scheduled, or if the effect is not known; and the
    errors of `apply`.
    """
    now = timezone.now()
    if not now < at <= now + timedelta(days=MAX_DAYS_AHEAD):
        raise GrantError(f"choose a time in the next {MAX_DAYS_AHEAD} days, or activate the generation now")
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if (other := scheduled_activation()) and not other.refusal:
            raise ActivationConflict(f"`{other.generation}` is scheduled already: cancel this first")
        before = active_generation()
        if before == generation:
            return Outcome(
                False, f"`{generation.name}` is the active generation already: nothing changed", head.revision
            )
        changes = activation_changes(generation, plan)
        # an obvious effect need not be shown, but is compared too
        digest = shown.digest or preview(changes).digest
        if digest == TOO_LARGE:
            raise GrantError(
                "an activation is scheduled only with a known effect, because it is compared then: compute the effect "
                "first"
            )
        apply(changes, author=author, shown=shown, is_rehearsal=True)
        proposal = latest_proposal()
        if proposal and at > proposal.at + timedelta(days=PROPOSAL_DAYS):
            raise GrantError(
                f"the proposal of {proposal.actor} is open for {PROPOSAL_DAYS} days only: choose an earlier time, or "
                f"propose the generation again"
            )
        job = request_job(
            Job(
                type=ACTIVATION_JOB,
                requested_by=User.objects.filter(pk=author.user_id).first(),
                due_at=at,
                options={
                    "generation": generation.name,
                    "from": before.name,
                    "plan": plan,
                    "rules": rules_digest(generation),
                    "at": at.isoformat(),
                    "effect": digest,
                    "author": asdict(author),
                },
            )
        )
        entry = JournalEntry("generation-schedule", detail=_detail(job))
        revision = append_to_journal(head, [entry], author=author)
    return Outcome(True, f"`{generation.name}` becomes the active generation at that time", revision)


def cancel_activation(*, author: Author) -> Outcome:
    """Cancel the scheduled activation. Raise NotAdministrator."""
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        scheduled = scheduled_activation()
        if scheduled is None or scheduled.refusal:
            return Outcome(False, "no activation is scheduled: nothing changed", head.revision)
        job = scheduled.job
        cancel_job(job)
        job.refresh_from_db()
        if job.state != JobState.CANCELLED:
            raise ActivationConflict(
                f"`{scheduled.generation}` is being activated at this moment: nothing was cancelled"
            )
        entry = JournalEntry("generation-schedule-cancel", detail=_detail(job))
        revision = append_to_journal(head, [entry], author=author)
    return Outcome(True, f"the activation of `{scheduled.generation}` is cancelled", revision)


def activate_as_scheduled(context: JobContext) -> JobResult:
    """Make the change of a job that is due. Raise JobFailed if it is refused."""
    options = context.job.options
    generation, author = generation_by_name(options["generation"]), Author(**options["author"])
    before = active_generation()
    if before == generation:
        return JobResult(summary={"sentence": f"`{generation.name}` was active already"})
    try:
        if before.name != options["from"]:
            raise GrantError(f"`{before.name}` was activated in the meantime")
        if rules_digest(generation) != options["rules"]:
            raise GrantError(f"the rules of `{generation.name}` have changed since it was scheduled")
        changes = activation_changes(generation, options.get("plan"))
        context.check()
        shown = Shown(options["effect"], changes.identity, is_required=True)
        outcome = apply(changes, author=author, shown=shown)
    except GrantError as error:
        reason = (
            "its effect on permissions is not the one that was shown when it was scheduled"
            if isinstance(error, EffectChanged | EffectNotShown)
            else str(error)
        )
        _record_refusal(context.job, reason)
        raise JobFailed(f"{generation.name} was not activated: {reason}") from error
    return JobResult(summary={"sentence": outcome.sentence}, revision=outcome.revision)


def _record_refusal(job: Job, reason: str) -> None:
    """Append the journal line, which webhooks send to those who must know."""
    author = Author("schedule_run")
    with administrator_transaction(author) as head:
        entry = JournalEntry("generation-schedule-refuse", detail=f"{_detail(job)}: {reason}")
        append_to_journal(head, [entry], author=author)


def _detail(job: Job) -> str:
    scheduled = ScheduledActivation(job)
    with_plan = f" with plan {scheduled.plan}" if scheduled.plan else ""
    at = scheduled.at.astimezone(UTC)
    return f"from {job.options['from']} to {scheduled.generation}{with_plan} at {at:%Y-%m-%dT%H:%M:%SZ}"
