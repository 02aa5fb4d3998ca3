"""The effect of a plan or of a dry run in REST: its counts, and the entities that it strands.

Change sets and memberships together report the counts of a plan (`apply_or_forecast`), all other changes only
their effect on permissions (`make_or_forecast`).
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import transaction
from rest_framework import serializers

from analytics.plan_effects.stored import stored_change_effect
from authzconsole.common.fields import Boolean, QueryBoolean, StrictSerializer
from authzconsole.rest.permission_effects import (
    PermissionEffectSerializer,
    check_effect_digest,
    effect_digest_field,
    preview_as_json,
)
from grants.changes.outcomes import ChangeOutcome, Outcome
from grants.effects.preview import preview_changes
from grants.effects.single_changes import SingleChange
from grants.journal import current_revision, lock_journal
from grants.plans.dry_run import MAX_STRANDED, DryRun
from grants.principals.membership_changes import MembershipOutcome

OutcomeT = TypeVar("OutcomeT", ChangeOutcome, MembershipOutcome)
T = TypeVar("T")
DRY_RUN_HELP = "Report the effect without changing anything."


class PlanEffectSerializer(serializers.Serializer):
    """The changes of the plan, in numbers. For an applied plan, the changes that were made."""

    grants = serializers.IntegerField(help_text="Grants that the plan adds.")
    revokes = serializers.IntegerField(help_text="Grants that the plan revokes.")
    periods_removed = serializers.IntegerField(
        help_text="Existing grants and memberships that lose their period. `grants` and `joins` include them."
    )
    already = serializers.IntegerField(help_text="Items that change nothing.")
    joins = serializers.IntegerField(help_text="Memberships that the plan adds.")
    leaves = serializers.IntegerField(help_text="Memberships that the plan removes.")
    activations = serializers.IntegerField(help_text="Users that the plan activates.")
    deactivations = serializers.IntegerField(help_text="Users that the plan deactivates.")
    principals = serializers.IntegerField(
        help_text="Users and groups with changed direct grants, memberships or status."
    )
    planned = serializers.IntegerField(help_text="Addresses that a grant registers as planned.")
    stranded_none = serializers.IntegerField(
        help_text="Live entities without an active administrator afterwards."
    )
    stranded_one = serializers.IntegerField(
        help_text="Live entities with one active administrator afterwards."
    )
    permissions = serializers.DictField(
        required=False, help_text="Of an applied plan: the totals of its effect on permissions."
    )


class StrandedSerializer(serializers.Serializer):
    entity = serializers.CharField()
    admins = serializers.IntegerField(help_text="The number of active administrators afterwards: 0 or 1.")


class DryRunEffectSerializer(PermissionEffectSerializer, PlanEffectSerializer):
    """The counts of the changes, as in a plan, and their effect on permissions, as in `/plans/NUMBER/effect`."""


class DryRunSerializer(serializers.Serializer):
    """The members that a dry run adds to the outcome of a change."""

    effect = DryRunEffectSerializer(allow_null=True, help_text="For a dry run, the effect; otherwise null.")
    stranded = StrandedSerializer(
        many=True, help_text=f"For a dry run, the first {MAX_STRANDED} entities that would be stranded."
    )


class ChangeEffectSerializer(PermissionEffectSerializer):
    """The effect on permissions, as in `/plans/NUMBER/effect`, and the number of entities that the change
    strands.
    """

    stranded_none = serializers.IntegerField(
        allow_null=True,
        help_text="Live entities that are left without an active administrator; null if the effect is too "
        "large to be computed.",
    )
    stranded_one = serializers.IntegerField(
        allow_null=True,
        help_text="Live entities that keep only one active administrator; null in the same case.",
    )


class ChangeForecastSerializer(serializers.Serializer):
    """The members that a dry run of a change adds to its response."""

    dry_run = serializers.BooleanField()
    effect = ChangeEffectSerializer(
        allow_null=True,
        help_text="For a dry run, the effect; otherwise null. Also null for an "
        "account that does not see all grants.",
    )
    stranded = StrandedSerializer(
        many=True, help_text=f"For a dry run, the first {MAX_STRANDED} entities that would be stranded."
    )


class ResourceForecastSerializer(serializers.Serializer):
    """The members that a dry run adds to a resource.

    The resource is shown as it would be after the change.
    """

    dry_run = serializers.BooleanField(required=False, help_text="True for a dry run; otherwise missing.")
    effect = ChangeEffectSerializer(
        required=False,
        allow_null=True,
        help_text="Only for a dry run: the effect. Null for an account that does not see all grants.",
    )
    stranded = StrandedSerializer(
        many=True,
        required=False,
        help_text=f"Only for a dry run: the first {MAX_STRANDED} entities that would be stranded.",
    )


class ForecastRequestSerializer(StrictSerializer):
    """Whether to try a change without making it, and the effect that is expected when it is made."""

    dry_run = Boolean(required=False, default=False, help_text=DRY_RUN_HELP)
    effect_digest = effect_digest_field()


class ForecastQuery(StrictSerializer):
    """The same in the query of a request without a body."""

    dry_run = QueryBoolean(required=False, default=False, help_text=DRY_RUN_HELP)
    effect_digest = effect_digest_field()


NO_FORECAST = {"dry_run": False, "effect": None, "stranded": []}
EFFECT_EXAMPLE = {
    "grants": 3,
    "revokes": 0,
    "joins": 0,
    "leaves": 0,
    "activations": 0,
    "deactivations": 0,
    "periods_removed": 0,
    "already": 0,
    "principals": 1,
    "planned": 0,
    "stranded_none": 0,
    "stranded_one": 0,
}


def dry_run_as_json(result: DryRun | None, changes: Iterable[SingleChange] = ()) -> dict:
    """Return the members of DryRunSerializer. result: None if it is no dry run.

    Call this before the changes are made.
    """
    if result is None:
        return {"effect": None, "stranded": []}
    return {
        "effect": result.counts
        | preview_as_json(preview_changes(changes, effect_of_run=stored_change_effect)),
        "stranded": [{"entity": str(row.address), "admins": row.admin_count} for row in result.stranded],
    }


def apply_or_forecast(
    *,
    is_dry_run: bool,
    apply: Callable[[], OutcomeT],
    forecast: Callable[[], DryRun | None],
    changes: Iterable[SingleChange],
    effect_digest: str | None,
    shows_effect: bool = True,
) -> tuple[OutcomeT, dict]:
    """Apply changes, or report their effect and roll them back. Return the outcome, and the members that all
    responses share.

    forecast: called before the changes of a dry run are made. It returns None if the caller must not see the
    effect.
    effect_digest: refuse the changes if their effect is another one. shows_effect: whether the caller may see
    the effect.
    """
    changes = list(changes)
    with transaction.atomic():
        revision = lock_journal().revision
        members = dry_run_as_json(forecast(), changes) if is_dry_run else dry_run_as_json(None)
        if effect_digest:
            check_effect_digest(changes, effect_digest, shows_effect=shows_effect)
        outcome = apply()
        if is_dry_run:
            transaction.set_rollback(True)
    return outcome, {
        "dry_run": is_dry_run,
        "changed": outcome.has_changed,
        "revision": revision if is_dry_run else outcome.revision,
        "sentence": outcome.forecast_sentence if is_dry_run else outcome.sentence,
        "unchanged": list(outcome.unchanged),
        "principals": list(outcome.principals),
        **members,
    }


def forecast_as_json(changes: Iterable[SingleChange]) -> dict:
    """Return the members of ChangeForecastSerializer for a dry run. Call this before the changes are made."""
    preview = preview_changes(changes, effect_of_run=stored_change_effect)
    strandings = preview.strandings
    return {
        "dry_run": True,
        "effect": preview_as_json(preview)
        | {
            "stranded_none": strandings.without_admin_count if strandings else None,
            "stranded_one": strandings.one_admin_count if strandings else None,
        },
        "stranded": [
            {"entity": str(row.address), "admins": row.admin_count}
            for row in (strandings.entities[:MAX_STRANDED] if strandings else ())
        ],
    }


def make_or_forecast(
    changes: Iterable[SingleChange], make: Callable[[], T], *, options: dict, shows_effect: bool
) -> tuple[T, dict]:
    """Make a change. For a dry run, report its effect and roll it back, so that a dry run raises the same
    errors.

    Return the result of `make`, and the members of ChangeForecastSerializer. options: the members of
    ForecastRequestSerializer.
    shows_effect: whether the caller may see the effect.
    """
    changes, is_dry_run = list(changes), options["dry_run"]
    with transaction.atomic():
        lock_journal()
        members = (
            forecast_as_json(changes)
            if is_dry_run and shows_effect
            else NO_FORECAST | {"dry_run": is_dry_run}
        )
        if digest := options.get("effect_digest"):
            check_effect_digest(changes, digest, shows_effect=shows_effect)
        result = make()
        if is_dry_run:
            transaction.set_rollback(True)
    return result, members


def outcome_with_forecast(
    changes: Iterable[SingleChange],
    make: Callable[[], Outcome],
    *,
    options: dict,
    would: str,
    shows_effect: bool,
) -> dict:
    """Make a change, or report its effect. Return its outcome with the members of ChangeForecastSerializer.

    would: what a dry run would do, such as `user:alice would be removed`. The other arguments are those of
    `make_or_forecast`.
    """
    outcome, members = make_or_forecast(changes, make, options=options, shows_effect=shows_effect)
    is_forecast = options["dry_run"] and outcome.has_changed
    return {
        "changed": outcome.has_changed,
        "sentence": f"{would}; nothing was changed" if is_forecast else outcome.sentence,
        "revision": current_revision() if options["dry_run"] else outcome.revision,
        **members,
    }
