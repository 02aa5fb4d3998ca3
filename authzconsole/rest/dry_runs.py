"""The effect of a plan or of a dry run in REST: its counts, and the entities that it strands."""

from rest_framework import serializers

from grants.plans.dry_run import MAX_STRANDED, DryRun


class PlanEffectSerializer(serializers.Serializer):
    """The changes of the plan, in numbers. For an applied plan, the changes that were made."""

    grants = serializers.IntegerField(help_text="Grants that the plan adds.")
    revokes = serializers.IntegerField(help_text="Grants that the plan revokes.")
    already = serializers.IntegerField(help_text="Items that change nothing.")
    joins = serializers.IntegerField(help_text="Memberships that the plan adds.")
    leaves = serializers.IntegerField(help_text="Memberships that the plan removes.")
    activations = serializers.IntegerField(help_text="Users that the plan activates.")
    deactivations = serializers.IntegerField(help_text="Users that the plan deactivates.")
    principals = serializers.IntegerField(help_text="Users and groups with changed direct grants, memberships or status.")
    planned = serializers.IntegerField(help_text="Addresses that a grant registers as planned.")
    stranded_none = serializers.IntegerField(help_text="Live entities without an active administrator afterwards.")
    stranded_one = serializers.IntegerField(help_text="Live entities with one active administrator afterwards.")
    permissions = serializers.DictField(required=False, help_text="Of an applied plan: the totals of its effect on permissions.")


class StrandedSerializer(serializers.Serializer):
    entity = serializers.CharField()
    admins = serializers.IntegerField(help_text="The number of active administrators afterwards: 0 or 1.")


class DryRunSerializer(serializers.Serializer):
    """The members that a dry run adds to the outcome of a change."""

    effect = PlanEffectSerializer(allow_null=True, help_text="For a dry run, the effect as in a plan; otherwise null.")
    stranded = StrandedSerializer(many=True, help_text=f"For a dry run, the first {MAX_STRANDED} entities that would be "
                                                       "stranded.")


EFFECT_EXAMPLE = {
    "grants": 3, "revokes": 0, "joins": 0, "leaves": 0, "activations": 0, "deactivations": 0, "already": 0, "principals": 1,
    "planned": 0, "stranded_none": 0, "stranded_one": 0,
}


def dry_run_as_json(result: DryRun | None) -> dict:
    """Return the members of DryRunSerializer. result: None if it is no dry run."""
    if result is None:
        return {"effect": None, "stranded": []}
    return {"effect": result.counts,
            "stranded": [{"entity": str(row.address), "admins": row.admin_count} for row in result.stranded]}
