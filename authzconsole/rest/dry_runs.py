"""The effect of a plan or of a dry run in REST: its counts, and the entities that it strands.

Change sets report the counts of a plan (`change_set_outcome`), single changes only their effect on permissions
(`apply_or_forecast`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from django.db import transaction
from rest_framework import serializers

from authzconsole.common.fields import Boolean, QueryBoolean, StrictSerializer
from authzconsole.lists.plans import MAX_STRANDED, PlanEffectSerializer, StrandedSerializer
from authzconsole.rest.permission_effects import (
    PermissionEffectSerializer,
    effect_digest_field,
    effect_problems,
    expected_effect,
    preview_as_json,
)
from grants.administrators import Stranded, Strandings
from grants.change_set import principals_of
from grants.changes import ChangeSet, Outcome, Shown, apply, check_shown, preview
from grants.effects.changes import changes_at, evaluable_changes
from grants.effects.strandings import strandings_of
from grants.journal import Author, current_revision, lock_journal
from grants.plans.effect import VERB_COUNTS
from grants.validity import at_time

T = TypeVar("T")
DRY_RUN_HELP = "Report the effect without changing anything."


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


def apply_or_forecast(
    change_set: ChangeSet, *, author: Author, options: Mapping, shows_effect: bool, **apply_options
) -> tuple[Outcome, dict]:
    """Make changes. For a dry run, report their effect and roll them back, so that a dry run raises the same
    errors.

    Return the outcome, and the members of ChangeForecastSerializer. options: the members of
    ForecastRequestSerializer. shows_effect: whether the caller may see the effect.
    """
    with _forecast(change_set, options, shows_effect) as (members, shown):
        outcome = apply(
            change_set, author=author, shown=shown, is_rehearsal=options["dry_run"], **apply_options
        )
    return outcome, members


def make_or_forecast(
    change_set: ChangeSet, make: Callable[[], T], *, options: Mapping, shows_effect: bool
) -> tuple[T, dict]:
    """Change a resource with `make`, which makes the changes of the set among others.

    Return the result of `make`. The rest is as in `apply_or_forecast`.
    """
    with _forecast(change_set, options, shows_effect) as (members, shown):
        if shown is not None:
            check_shown(change_set, shown, make)
        result = make()
        if options["dry_run"]:
            transaction.set_rollback(True)
    return result, members


@contextmanager
def _forecast(
    change_set: ChangeSet, options: Mapping, shows_effect: bool
) -> Iterator[tuple[dict, Shown | None]]:
    """Open the transaction of changes. Yield the members of a response, and the effect that the caller expects."""
    with transaction.atomic():
        lock_journal()
        is_dry_run = options["dry_run"]
        members = (
            forecast_as_json(change_set)
            if is_dry_run and shows_effect
            else NO_FORECAST | {"dry_run": is_dry_run}
        )
        with effect_problems():
            yield members, expected_effect(options, shows_effect=shows_effect)


def outcome_with_forecast(
    change_set: ChangeSet, *, author: Author, options: Mapping, would: str, shows_effect: bool
) -> dict:
    """Make changes, or report their effect. Return the outcome with the members of ChangeForecastSerializer.

    would: what a dry run would do, such as `user:alice would be removed`. The other arguments are those of
    `apply_or_forecast`.
    """
    outcome, members = apply_or_forecast(
        change_set, author=author, options=options, shows_effect=shows_effect
    )
    is_forecast = options["dry_run"] and outcome.has_changed
    return {
        "changed": outcome.has_changed,
        "sentence": f"{would}; nothing was changed" if is_forecast else outcome.sentence,
        "revision": current_revision() if options["dry_run"] else outcome.revision,
        **members,
    }


def change_set_outcome(
    change_set: ChangeSet, *, author: Author, options: Mapping, sees_effects: bool = True, **apply_options
) -> tuple[Outcome, dict]:
    """Apply many changes, or report their effect with the counts of a plan. Return the outcome, and the
    members that all responses about change sets share.

    sees_effects: whether the caller may see the effect.
    """
    is_dry_run, effect = options["dry_run"], {"effect": None, "stranded": []}
    with transaction.atomic(), effect_problems():
        revision = lock_journal().revision
        outcome = apply(
            change_set,
            author=author,
            shown=expected_effect(options, shows_effect=sees_effects),
            is_rehearsal=is_dry_run,
            **apply_options,
        )
        if is_dry_run and sees_effects:
            with at_time() as now:
                stranded = strandings_of(changes_at(evaluable_changes(change_set), now), MAX_STRANDED)
            effect = {
                "effect": _counts(outcome, stranded) | preview_as_json(preview(change_set)),
                "stranded": _stranded_as_json(stranded.entities),
            }
    return outcome, {
        "dry_run": is_dry_run,
        "changed": outcome.has_changed,
        "revision": revision if is_dry_run else outcome.revision,
        "sentence": outcome.forecast_summary if is_dry_run else outcome.summary,
        "unchanged": list(outcome.unchanged),
        "principals": list(outcome.principals),
        **effect,
    }


def _counts(outcome: Outcome, stranded: Strandings) -> dict[str, int]:
    """Return the members of PlanEffectSerializer for changes that were rehearsed."""
    verbs = Counter(change.verb for change in outcome.changes)
    return {
        **{name: verbs[verb] for verb, name in VERB_COUNTS.items()},
        "periods_removed": sum(not change.validity.is_limited for change in outcome.changed_periods),
        "already": len(outcome.unchanged),
        "principals": len({principals_of(change)[0] for change in outcome.changes}),
        "planned": len(outcome.planned),
        "stranded_none": stranded.without_admin_count,
        "stranded_one": stranded.one_admin_count,
    }


def forecast_as_json(change_set: ChangeSet) -> dict:
    """Return the members of ChangeForecastSerializer for a dry run. Call this before the changes are made."""
    shown = preview(change_set)
    strandings = shown.strandings
    return {
        "dry_run": True,
        "effect": preview_as_json(shown)
        | {
            "stranded_none": strandings.without_admin_count if strandings else None,
            "stranded_one": strandings.one_admin_count if strandings else None,
        },
        "stranded": _stranded_as_json(strandings.entities[:MAX_STRANDED] if strandings else ()),
    }


def _stranded_as_json(rows: Iterable[Stranded]) -> list[dict]:
    return [{"entity": str(row.address), "admins": row.admin_count} for row in rows]
