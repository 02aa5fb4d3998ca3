"""The effect of changes on permissions in REST: its members, and the check that it has not changed since it
was read.
"""

from rest_framework import serializers

from authzconsole.common.fields import Text
from grants.changes import Preview
from grants.effects.changes import MAX_TIMES
from grants.effects.consequences import Consequences
from grants.effects.effect import KnownEffect, summary_of
from grants.policies.times import format_time

MAX_LISTED = 20


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
    times = TimedTotalsSerializer(
        many=True,
        help_text=f"If grants or memberships begin later: the totals now and at the first beginnings, at "
        f"most {MAX_TIMES} times. Otherwise empty.",
    )
    other_beginnings = serializers.IntegerField(
        help_text="The number of later beginnings that are not in `times`."
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


def effect_as_json(effect: KnownEffect, consequences: Consequences | None = None) -> dict:
    """Return the members of PermissionEffectSerializer. consequences: by default, none."""
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
        "times": [{"at": format_time(one.at), **one.summary} for one in effect.times],
        "other_beginnings": effect.other_beginnings,
        **(consequences or Consequences())._asdict(),
    }


def preview_as_json(preview: Preview) -> dict:
    """Return the members of PermissionEffectSerializer for changes that are not made yet."""
    if preview.effect is not None:
        return effect_as_json(preview.effect, preview.consequences)
    return {
        "for": None,
        "beyond": None,
        "generation": preview.generation,
        "digest": preview.digest,
        "users": [],
        "entities": [],
        "operations": [],
        "times": [],
        "other_beginnings": 0,
        **preview.consequences._asdict(),
    }
