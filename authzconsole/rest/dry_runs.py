"""The effect of changes on permissions in REST: its members, and dry runs of changes with their counts and the
entities that they strand.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from django.db import transaction
from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import (
    Boolean,
    Integer,
    QueryBoolean,
    QuerySerializer,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.lists.plans import MAX_STRANDED, PlanEffectSerializer, StrandedSerializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.problems import Problem
from grants.administrators import Stranded, Strandings
from grants.change_set import principals_of
from grants.changes import Change, ChangeSet, Outcome, Preview, Shown, apply, check_shown, preview
from grants.effects.changes import MAX_TIMES, changes_at, evaluable_changes
from grants.effects.consequences import Consequences
from grants.effects.effect import KnownEffect, summary_of
from grants.effects.strandings import strandings_of
from grants.errors import EffectChanged
from grants.guardrails.check import MAX_NAMED, AddedViolations
from grants.journal import current_revision, lock_journal
from grants.plans.counts import VERB_COUNTS
from grants.policies.levels import LEVELS
from grants.policies.times import format_time
from grants.validity import at_time

MAX_LISTED = 20
# the members of an effect that could not be computed
NO_EFFECT = {
    "for": None,
    "beyond": None,
    "generation": "",
    "digest": "",
    "users": [],
    "entities": [],
    "operations": [],
    "levels": [],
    "times": [],
    "other_beginnings": 0,
    "guardrails": None,
}


class EffectTotalsSerializer(serializers.Serializer):
    gained = serializers.IntegerField(help_text="Denied before and permitted afterwards.")
    lost = serializers.IntegerField(help_text="Permitted before and denied afterwards.")


class EffectPartsSerializer(serializers.Serializer):
    beyond = EffectTotalsSerializer(allow_null=True, help_text="Changes beyond the purpose.")

    def get_fields(self):
        # `for` is a keyword of Python
        return {
            "for": EffectTotalsSerializer(allow_null=True, help_text="Changes that are the purpose."),
            **super().get_fields(),
        }


class EffectPersonSerializer(EffectPartsSerializer):
    user = serializers.CharField()


class EffectEntitySerializer(EffectPartsSerializer):
    entity = serializers.CharField()


class EffectOperationSerializer(EffectPartsSerializer):
    kind = serializers.CharField()
    operation = serializers.CharField()


class EffectLevelSerializer(EffectPartsSerializer):
    level = serializers.ChoiceField(choices=[level.value for level in LEVELS])


class TimedTotalsSerializer(EffectPartsSerializer):
    at = serializers.DateTimeField(help_text="The time of the decisions.")


class PermissionEffectSerializer(EffectPartsSerializer):
    """Changed decisions about live entities. A changed decision is one user, entity and operation.

    The totals and lists are those of the current time. If nothing changes now, they are those of the first
    later beginning at which something changes.

    For a dry run with an effect that is too large to be computed, `for` and `beyond` are null and `digest` is
    `too-large`.
    """

    generation = serializers.CharField(help_text="The generation in which the changes were evaluated.")
    digest = serializers.CharField(
        help_text="Identifies the effect; a change can be refused if its effect is different by then. "
        "Empty for a plan that was applied."
    )
    users = EffectPersonSerializer(
        many=True,
        help_text=f"The {MAX_LISTED} users with most changes beyond the purpose, then with most changes.",
    )
    entities = EffectEntitySerializer(
        many=True,
        help_text=f"The {MAX_LISTED} entities with most changes beyond the purpose, then with most changes.",
    )
    operations = EffectOperationSerializer(
        many=True, help_text="All operations with changes, most changes first."
    )
    levels = EffectLevelSerializer(
        many=True,
        help_text="For each access level, the strongest first: the number of pairs of a user and an entity with a changed "
        "decision about one of its operations. A pair with an intended change at a level is not counted beyond the "
        "purpose too.",
    )
    times = TimedTotalsSerializer(
        many=True,
        help_text=f"If grants or memberships begin later: the totals now and at the first beginnings, at "
        f"most {MAX_TIMES} times. Otherwise empty.",
    )
    other_beginnings = serializers.IntegerField(
        help_text="The number of later beginnings that are not in `times`."
    )
    guardrails = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="One sentence for each violation of a guardrail that the changes add, at most "
        f"{MAX_NAMED} that refuse them and {MAX_NAMED} that do not, and one with the number of further violations; "
        "null if they were not checked.",
    )
    leftover_created = serializers.IntegerField(
        help_text="Grants on deleted addresses that exist only afterwards."
    )
    leftover_removed = serializers.IntegerField(
        help_text="Grants on deleted addresses that exist only before."
    )
    sessions_ended = serializers.IntegerField(help_text="Sessions of users who are deactivated or removed.")
    tokens_ended = serializers.IntegerField(help_text="API tokens of users who are deactivated or removed.")


def effect_digest_field() -> Text:
    """Return the field with which a request names the effect that it expects."""
    return Text(
        required=False,
        max_length=64,
        help_text="The `digest` of the effect that a dry run reported. Refuse (409, effect-changed) if the effect is "
        "another one now; the problem has the new one as `effect`. Accounts that see no effects cannot send "
        "it (403).",
    )


def effect_as_json(
    effect: KnownEffect, consequences: Consequences | None = None, added: AddedViolations | None = None
) -> dict:
    """Return the members of PermissionEffectSerializer. consequences, added: by default, none."""
    return {
        **effect.summary,
        "generation": effect.generation,
        "digest": effect.digest,
        "users": [{"user": name, **summary_of(tally)} for name, tally in effect.people[:MAX_LISTED]],
        "entities": [
            {"entity": str(address), **summary_of(tally)} for address, tally in effect.entities[:MAX_LISTED]
        ],
        "operations": [
            {"kind": kind, "operation": operation, **summary_of(tally)}
            for kind, operation, tally in effect.operations
        ],
        "levels": [{"level": level.value, **summary_of(tally)} for level, tally in effect.levels.items()],
        "times": [{"at": format_time(one.at), **one.summary} for one in effect.times],
        "other_beginnings": effect.other_beginnings,
        "guardrails": None if added is None else list(added.sentences),
        **(consequences or Consequences())._asdict(),
    }


def preview_as_json(preview: Preview) -> dict:
    """Return the members of PermissionEffectSerializer for changes that are not made yet."""
    if preview.effect is not None:
        return effect_as_json(preview.effect, preview.consequences, preview.added)
    known = {"generation": preview.generation, "digest": preview.digest}
    return NO_EFFECT | known | preview.consequences._asdict()


T = TypeVar("T")
DRY_RUN_HELP = "Report the effect without changing anything."


class DryRunEffectSerializer(PermissionEffectSerializer, PlanEffectSerializer):
    """The counts of the changes, as in a plan, and their effect on permissions, as in `/plans/NUMBER/effect`."""


class DryRunSerializer(serializers.Serializer):
    """The outcome of a change set, with the members that a dry run adds."""

    dry_run = serializers.BooleanField()
    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(
        help_text="The newest revision of the journal; use it as the `base_revision` of the next change."
    )
    unchanged = serializers.ListField(
        child=serializers.CharField(), help_text="One sentence for each item that changed nothing."
    )
    principals = serializers.ListField(
        child=serializers.CharField(), help_text="Accounts of the console that became principals."
    )
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

    dry_run = Boolean(default=False, help_text=DRY_RUN_HELP)
    effect_digest = effect_digest_field()


class ChangeSetOptions(ForecastRequestSerializer):
    """What all change sets have."""

    reason = reason_field()
    base_revision = Integer(required=False, help_text="Refuse (409) if the journal has a newer revision.")


class ForecastQuery(QuerySerializer):
    """The same in the query of a request without a body."""

    dry_run = QueryBoolean(default=False, help_text=DRY_RUN_HELP)
    effect_digest = effect_digest_field()


NO_FORECAST = {"dry_run": False, "effect": None, "stranded": []}


class ChangeEndpoint(Endpoint):
    """An endpoint that makes changes, or only shows them in a dry run.

    The body or the query of its operations has the members of ForecastRequestSerializer.
    """

    @property
    def is_dry_run(self) -> bool:
        return self.data["dry_run"]

    @property
    def sees_effects(self) -> bool:
        """Whether the caller may see the effect: delegates learn nothing about other entities."""
        return self.request.user.can_administer

    @contextmanager
    def expected_effect(self) -> Iterator[Shown | None]:
        """Open the transaction of changes. Yield the effect that the request expects with `effect_digest`.

        Raise Problem (409) with the current effect if it is another one, Problem (403) if the caller may not
        see effects. Otherwise the caller could compare the digest with that of an empty effect, which is
        known, and learn who holds what.
        """
        digest = self.data.get("effect_digest")
        if digest and not self.sees_effects:
            raise Problem(403, "`effect_digest`: your account sees no effects, so leave this out")
        with transaction.atomic():
            lock_journal()
            try:
                yield Shown(digest) if digest else None
            except EffectChanged as error:
                effect = preview_as_json(cast("Preview", error.preview))
                raise Problem(409, str(error), type_="effect-changed", effect=effect) from None

    def make(self, change_set: ChangeSet, change: Callable[[], T] | None = None) -> tuple[Outcome | T, dict]:
        """Make changes. For a dry run, report their effect and roll them back, so that a dry run raises the
        same errors.

        change: makes the changes of the set among others; by default, the set is applied. Return its result,
        and the members of ChangeForecastSerializer.
        """
        with self.expected_effect() as shown:
            members = (
                forecast_as_json(change_set)
                if self.is_dry_run and self.sees_effects
                else NO_FORECAST | {"dry_run": self.is_dry_run}
            )
            if change is None:
                return self.apply(change_set, shown), members
            if shown is not None:
                check_shown(change_set, shown, change)
            result = change()
            if self.is_dry_run:
                transaction.set_rollback(True)
        return result, members

    def apply(self, change_set: ChangeSet, shown: Shown | None, **options) -> Outcome:
        return apply(change_set, author=self.author, shown=shown, is_rehearsal=self.is_dry_run, **options)

    def outcome(self, change: Change, would: str) -> Response:
        """Make a change, or report its effect. Return the response of ForecastOutcomeSerializer.

        would: what a dry run would do, such as `user:alice would be removed`.
        """
        outcome, members = self.make(ChangeSet.of(change))
        is_forecast = self.is_dry_run and outcome.has_changed
        sentence = f"{would}; nothing was changed" if is_forecast else outcome.sentence
        revision = current_revision() if self.is_dry_run else outcome.revision
        return Response(
            {"changed": outcome.has_changed, "sentence": sentence, "revision": revision} | members
        )

    def change_set_outcome(self, change_set: ChangeSet, **options) -> tuple[Outcome, dict]:
        """Apply many changes, or report their effect with the counts of a plan.

        Return the outcome, and the members of DryRunSerializer. options: of `apply`.
        """
        is_dry_run, effect = self.is_dry_run, {"effect": None, "stranded": []}
        with self.expected_effect() as shown:
            revision = current_revision()
            outcome = self.apply(change_set, shown, base_revision=self.data.get("base_revision"), **options)
            if is_dry_run and self.sees_effects:
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
    return list(map(StrandedSerializer.data_of, rows))
