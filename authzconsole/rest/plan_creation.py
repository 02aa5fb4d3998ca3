"""REST endpoints that create plans from other recipes than a change set.

They copy grants, let a user delete a namespace, keep permissions across generations, off-board a user, give a user
the access of another one, change many entities at once, clean up ghost grants, or read a file of changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from django.http import Http404
from rest_framework import serializers

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.pattern_plans import narrowings
from analytics.regrant_plans import regrant_plan
from analytics.results.manifest import ReportChanged
from analytics.role_plans import MAX_ROLES, proposed_roles
from analytics.storage import StorageError
from authzconsole.common.fields import (
    AddressText,
    Boolean,
    Choice,
    Integer,
    KindText,
    List,
    NameText,
    PrincipalText,
    StrictSerializer,
    Text,
    generation_field,
    optional_text,
    privilege_list,
)
from authzconsole.common.periods import PeriodSerializer
from authzconsole.common.request_body import MAX_DOCUMENT_CHARACTERS, MAX_IMPORT_BYTES
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS, ChangeItemSerializer
from authzconsole.rest.plans import creating_plan
from entities.address import parse_address
from grants.change_set import Revoke
from grants.models import GRANT_VERBS, JobState, Plan, PlanVerb
from grants.plans.create import MAX_TITLE_LENGTH
from grants.plans.regrants.compute import Prefer
from grants.plans.sources.bulk import (
    MAX_PRINCIPALS,
    MAX_SELECTED,
    parse_bulk_change,
    selection_plan,
    subtree_plan,
)
from grants.plans.sources.change_file import COLUMNS, BadChangeFile, file_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.ghosts import ghost_plan
from grants.plans.sources.like import like_plan
from grants.plans.sources.off_boarding import OffBoarding, off_boarding_plan
from grants.plans.sources.outliers import outlier_plan
from grants.plans.sources.patterns import narrowing_plan
from grants.plans.sources.readiness import readiness_plan
from grants.plans.sources.redundant import RedundantPart, redundant_plan
from grants.plans.sources.roles import role_plan
from grants.plans.sources.unused import unused_plan
from grants.tenant import Fault

MAX_HEIRS = 20
MAX_HAND_OVERS = 1_000


class HandOverSerializer(StrictSerializer):
    """Who receives an entity, or everything on and inside a namespace."""

    entity = AddressText(help_text="The address of the entity or of the namespace.")
    inside = Boolean(
        default=False,
        help_text="Everything on and inside this namespace that no other item names.",
    )
    to = List(
        child=PrincipalText(),
        min_length=1,
        max_length=MAX_HEIRS,
        help_text="The users and groups that receive it.",
    )

    def validate(self, data: dict) -> dict:
        if data["inside"] and data["entity"].kind != "namespace":
            raise serializers.ValidationError({"inside": ["this requires the address of a namespace"]})
        return data


class OffBoardingSerializer(StrictSerializer):
    """What ends for a user, and who receives the entities."""

    user = NameText(help_text="The user who leaves.")
    deactivate = Boolean(default=True, help_text="Deactivate the user, which ends tokens and sessions.")
    leave_groups = Boolean(default=True, help_text="Remove all memberships.")
    revoke_grants = Boolean(
        default=True,
        help_text="Revoke all direct grants, also on planned and deleted addresses.",
    )
    hand_over = HandOverSerializer(many=True, default=list, max_length=MAX_HAND_OVERS)  # type: ignore[call-arg]
    stranded_to = List(
        child=PrincipalText(),
        default=list,
        max_length=MAX_HEIRS,
        help_text="The users and groups that receive all other entities that would be stranded.",
    )
    accept_no_administrator = Boolean(
        default=False,
        help_text="Create the plan even if it leaves live entities without an active administrator.",
    )


class LikeSerializer(PeriodSerializer):
    """Give one user the groups and direct grants of another, limited to a period."""

    source = NameText(help_text="The user who has the access.")
    target = NameText(help_text="The user who gets it.")
    remove = Boolean(
        default=False,
        help_text="Also remove the groups and direct grants that only the target "
        "has, so that the users do not differ.",
    )
    without = List(
        child=AddressText(),
        default=list,
        max_length=MAX_HEIRS,
        help_text="Namespaces to leave out. A group with grants in them is not joined; its other grants become direct "
        "ones. Not together with `remove`.",
    )


class OffBoardingPlans(Endpoint):
    route = "plans/off-boarding"

    @creating_plan(
        "plans_off_board",
        body=OffBoardingSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that off-boards a user.

        Hands over entities, revokes all direct grants, removes all memberships, and deactivates the user.
        An entity is handed over with the privileges that the user holds on it, and with ADMIN if it would
        be stranded. Returns 409 if an entity would have no active administrator and
        `accept_no_administrator` is false, or if nothing would change.
        """
        data = self.data
        hand_over = data.pop("hand_over")
        heirs = {
            name: {str(item["entity"]): item["to"] for item in hand_over if item["inside"] is is_inside}
            for name, is_inside in (("entity_heirs", False), ("namespace_heirs", True))
        }
        choices = OffBoarding(stranded_heirs=data.pop("stranded_to"), **heirs, **data)
        return off_boarding_plan.create(self.author, choices)


class LikePlans(Endpoint):
    route = "plans/like"

    @creating_plan(
        "plans_like",
        body=LikeSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that gives a user the access of another user.

        Adds the memberships and direct grants that only the source has, except for the namespaces in `without`. Returns
        409 if there are none.
        """
        data = self.data
        return like_plan.create(self.author, period=data.pop("validity"), **data)


class ForManySerializer(PeriodSerializer):
    """A bulk change, either on everything in `within` or on the listed `entities`.

    Only a grant has a period.
    """

    verb = Choice(
        choices=[verb.value for verb in GRANT_VERBS],
        help_text="Whether the privileges are granted or revoked.",
    )
    principals = List(
        child=PrincipalText(),
        min_length=1,
        max_length=MAX_PRINCIPALS,
        help_text="Principals, written `user:NAME` or `group:NAME`.",
    )
    privileges = privilege_list()
    within = AddressText(
        required=False,
        help_text="The instance, a namespace or an application: all live entities inside "
        "it; to revoke, also planned and deleted ones.",
    )
    kinds = List(
        child=KindText(),
        required=False,
        max_length=1_000,
        help_text="With `within`: only these kinds; by default all.",
    )
    itself = Boolean(
        required=False, help_text="With `within`: include the container itself; true by default."
    )
    entities = List(
        child=AddressText(),
        required=False,
        min_length=1,
        max_length=MAX_SELECTED,
        help_text="Live entities, instead of `within`.",
    )

    def validate(self, data: dict) -> dict:
        if ("within" in data) is ("entities" in data):
            raise serializers.ValidationError("send either `within` or `entities`, not both")
        if "entities" in data and (
            dependent_members := [name for name in ("kinds", "itself") if name in data]
        ):
            raise serializers.ValidationError(
                {name: ["this requires `within`"] for name in dependent_members}
            )
        data = super().validate(data)
        if data["validity"].is_limited and data["verb"] != PlanVerb.GRANT:
            raise serializers.ValidationError(
                "only a grant has a period: leave out `valid_from` and `valid_until`"
            )
        return data


class CleanUpSerializer(StrictSerializer):
    """The namespace to clean up; by default all."""

    namespace = AddressText(required=False, help_text="Only grants on this namespace and inside it.")


class ChangeFileSerializer(StrictSerializer):
    """A file with changes, as text."""

    document = Text(
        max_length=MAX_DOCUMENT_CHARACTERS,
        help_text=f"CSV with the header {','.join(COLUMNS)}, or JSON Lines with these members, one change per line. "
        "`valid_from` and `valid_until` can be added.",
    )
    title = optional_text(
        "The title of the plan; by default it says what the plan changes.", MAX_TITLE_LENGTH
    )


class PlansForMany(Endpoint):
    route = "plans/many"

    @creating_plan(
        "plans_many",
        body=ForManySerializer,
    )
    def post(self) -> Plan:
        """Create a plan for many entities.

        Grants or revokes the same privileges for the same principals on every live entity in a container,
        or on the listed entities. Items that would change nothing are skipped. Returns 409 if nothing
        would change, or if the plan would be too large.
        """
        data, author = self.data, self.author
        change = parse_bulk_change(
            **{name: data[name] for name in ("verb", "principals", "privileges", "validity")}
        )
        if "entities" in data:
            return selection_plan.create(author, change=change, addresses=data["entities"])
        where = {name: data[name] for name in ("within", "kinds", "itself") if name in data}
        return subtree_plan.create(author, change=change, **where)


class GhostPlans(Endpoint):
    route = "plans/ghosts"

    @creating_plan(
        "plans_remove_ghosts",
        body=CleanUpSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that revokes leftover grants.

        Revokes every grant on a deleted address. Grants on planned addresses are kept. Returns 409 if
        there are no such grants, or if the plan would be too large.
        """
        return ghost_plan.create(self.author, **self.data)


class RedundantSerializer(CleanUpSerializer):
    """What to take away, and the namespace to clean up; by default direct grants in all."""

    part = Choice(
        choices=list(RedundantPart),
        required=False,
        help_text="What to take away: direct grants that a group gives too, memberships without effect, what inactive users "
        "have, or all of it. Memberships are kept if a namespace is given.",
    )


class RedundantPlans(Endpoint):
    route = "plans/redundant"

    @creating_plan(
        "plans_remove_redundant",
        body=RedundantSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that takes away redundant access.

        By default, revokes every direct grant of an active user on a live entity that a group of the user gives
        too, for at least as long. With `part`, also or instead ends memberships without effect, and takes away
        what inactive users have. It changes no answer. Returns 409 if there is nothing to take away, or if the
        plan would be too large.
        """
        return redundant_plan.create(self.author, **self.data)


class UnusedSerializer(CleanUpSerializer):
    """The window, and the namespace to clean up; by default all."""

    since = Integer(min_value=1, help_text="The number of days without a use.")
    user = NameText(required=False, help_text="Only what this user holds, also through groups.")


class UnusedPlans(Endpoint):
    route = "plans/unused"

    @creating_plan(
        "plans_remove_unused",
        body=UnusedSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that revokes unused grants.

        Revokes the grants on live entities that none of their users used in the last `since` days, and that
        are older than that. Grants on containers are kept if anything inside was used. Returns 409 if there
        are no such grants, if the records of use do not cover the window, or if the plan would be too large.

        With `user`, revokes the grants to this user, and ends the memberships in groups of which the user used
        nothing, unless a namespace is given.
        """
        return unused_plan.create(self.author, **self.data)


class OutliersSerializer(StrictSerializer):
    """Privileges that almost no colleague of a user holds."""

    privileges = ChangeItemSerializer(  # type: ignore[call-arg]
        many=True,
        min_length=1,
        max_length=MAX_ITEMS,
        help_text="Privileges of users, such as rows of a report of outliers.",
    )


class OutlierPlans(Endpoint):
    route = "plans/outliers"

    @creating_plan(
        "plans_remove_outliers",
        body=OutliersSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that takes selected privileges away from users.

        Revokes the direct grants, and ends the memberships in groups that give the user only these privileges and have no other
        purpose. Privileges that other groups give remain; `recipe.note` says how many, and names the groups. Returns 409 if
        the plan would change nothing.
        """
        return outlier_plan.create(self.author, _revocations(self.data["privileges"]))


class FilePlans(Endpoint):
    route = "plans/import"
    max_body_bytes = MAX_IMPORT_BYTES
    text_member = "document"

    @creating_plan(
        "plans_import",
        body=ChangeFileSerializer,
    )
    def post(self) -> Plan:
        """Create a plan from a file of changes.

        The document is sent as text in JSON, or as it is with the Content-Type `text/csv` or `application/x-ndjson`. Every bad line is an error, and the first hundred are listed in
        full: `index` is the line number, from 1, and `field` the column. Repeated changes count once;
        `recipe.note` of the plan says so. Returns 409 if nothing would change, or if the plan would be
        too large.
        """
        data = self.data
        try:
            return file_plan.create(self.author, raw=data["document"].encode(), title=data["title"])
        except BadChangeFile as error:
            raise Problem(400, str(error), errors=list(map(_fault_as_json, error.faults))) from None


def _fault_as_json(fault: Fault) -> dict:
    field = {"field": fault.field} if fault.field else {}
    return {"list": "document", "index": fault.line, **field, "message": fault.reason}


class CopySerializer(PeriodSerializer):
    """A principal that gets the grants of another one, limited to a period."""

    source = PrincipalText(help_text="The principal that has the grants.")
    target = PrincipalText(help_text="The principal that gets them.")
    within = AddressText(
        required=False, help_text="Only grants on this namespace or application, or inside it."
    )


class CloseGapSerializer(StrictSerializer):
    """A namespace, and a user who lacks grants to delete it."""

    namespace = AddressText(help_text="The address of the namespace.")
    user = NameText(help_text="The user who should be able to delete it.")
    principal = PrincipalText(
        required=False,
        help_text="The principal that gets the grants: the user (default), or a group of the user.",
    )
    generation = generation_field()


class NamespaceText(AddressText):
    """The address of a namespace; the validated value is its name."""

    def parse(self, text):
        address = parse_address(text)
        if address.kind != "namespace":
            raise serializers.ValidationError(
                "this must be the address of a namespace, such as namespace:sales"
            )
        return address.key


class KeepSerializer(StrictSerializer):
    """A report about a change of the generation, and a part of the permissions that users would lose."""

    run = Integer(help_text="The number of a finished run of policy-impact.")
    user = NameText(required=False, help_text="Only permissions that this user would lose.")
    group = NameText(required=False, help_text="Only permissions that members of this group would lose.")
    namespace = NamespaceText(
        required=False, help_text="Only permissions inside this namespace; its address."
    )
    prefer = Choice(
        choices=list(Prefer),
        default=Prefer.NARROWEST.value,
        help_text="`narrowest` (default): the grants give nothing else, and permissions that cannot be kept in this "
        "way are left out. `fewest`: keep everything, with the fewest grants.",
    )


class CopiedPlans(Endpoint):
    route = "plans/copy"

    @creating_plan(
        "plans_copy",
        body=CopySerializer,
    )
    def post(self) -> Plan:
        """Create a plan that copies grants.

        Copies the direct grants of the source that the target does not have. Returns 409 if there is
        nothing to copy.
        """
        data = self.data
        return copy_plan.create(self.author, period=data.pop("validity"), **data)


class ReadinessPlans(Endpoint):
    route = "plans/readiness"

    @creating_plan(
        "plans_close_gap",
        body=CloseGapSerializer,
    )
    def post(self) -> Plan:
        """Create a plan that lets a user delete a namespace.

        The plan has the smallest set of missing grants. Returns 409 if nothing is missing.
        """
        return readiness_plan.create(self.author, **self.data)


class ImpactPlans(Endpoint):
    route = "plans/policy-impact"

    @creating_plan(
        "plans_keep",
        body=KeepSerializer,
        errors=[404, 410],
    )
    def post(self) -> Plan:
        """Create a plan that keeps permissions across generations.

        Uses a finished run of policy-impact. The grants keep what users may do when the other generation
        becomes active, and give nothing else; with `prefer` set to `fewest`, the plan has the smallest
        set of grants after which no user loses an operation on a live entity. All grants go to the users
        who would lose permissions. Permissions that the rule engine does not confirm are left out;
        `recipe.left_out` is their number. Returns 409 if data or the report changed since the run, if
        nothing is lost, or if the plan would be too large.
        """
        data = self.data
        run = _run(data.pop("run"))
        with _report_errors(run, AnalysisName.POLICY_IMPACT):
            return regrant_plan.create(self.author, run=run, **data)


class RoleSerializer(StrictSerializer):
    """A role that becomes a group."""

    role = Integer(min_value=1, help_text="The number of the role in the report.")
    group = NameText(
        required=False,
        help_text="The name of the group; by default the existing group of the report, or a new name.",
    )


class RolesSerializer(StrictSerializer):
    """A report of role-mining, and the roles that become groups."""

    run = Integer(help_text="The number of a finished run of role-mining.")
    roles = RoleSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        min_length=1,
        max_length=MAX_ROLES,
        help_text="The roles; by default the first of the report.",
    )


class RolePlans(Endpoint):
    route = "plans/role-mining"

    @creating_plan(
        "plans_replace_by_groups",
        body=RolesSerializer,
        errors=[404, 410],
    )
    def post(self) -> Plan:
        """Create a plan that replaces direct grants by groups.

        Uses a finished run of role-mining. Each role becomes a group with its users and its grants, or an
        existing group with exactly these users gets the grants, and the direct grants are revoked. It changes no answer: a
        grant that has an end, or that not all users of the role hold now, remains direct. Without `roles`, the plan has the first
        {MAX_ROLES:,} of the report. Returns 409 if nothing can be replaced, if a group with other members has the name, or if the plan would
        be too large.
        """
        run = _run(self.data["run"])
        roles = self.data.get("roles")
        groups = None if roles is None else {item["role"]: item.get("group", "") for item in roles}
        with _report_errors(run, AnalysisName.ROLE_MINING):
            return role_plan.create(self.author, run=run.pk, roles=proposed_roles(run, groups))


class PatternsSerializer(StrictSerializer):
    """A report of patterns, and the grants to narrow."""

    run = Integer(help_text="The number of a finished run of patterns.")
    grants = ChangeItemSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        min_length=1,
        max_length=MAX_ITEMS,
        help_text="Grants on patterns; by default all for which the report has something narrower, and those that match nothing.",
    )


class PatternPlans(Endpoint):
    route = "plans/patterns"

    @creating_plan(
        "plans_narrow_patterns",
        body=PatternsSerializer,
        errors=[404, 410],
    )
    def post(self) -> Plan:
        """Create a plan that narrows grants on patterns.

        Uses a finished run of patterns. Revokes the grants, and makes those on the narrower patterns and addresses that keep what
        was used, for the same period. A pattern without narrower ones is revoked only if it matches nothing. Returns 409 if
        there is nothing to narrow, or if the plan would be too large.
        """
        run, given = _run(self.data["run"]), self.data.get("grants")
        grants = None if given is None else _revocations(given)
        with _report_errors(run, AnalysisName.PATTERNS):
            return narrowing_plan.create(self.author, run=run.pk, narrowings=narrowings(run, grants))


def _revocations(items: Iterable[Mapping]) -> list[Revoke]:
    return [
        Revoke(item["principal"], item["entity"], privilege)
        for item in items
        for privilege in item["privileges"]
    ]


def _run(number: int) -> AnalysisRun:
    run = AnalysisRun.objects.filter(pk=number).first()
    if run is None:
        raise Http404
    return run


@contextmanager
def _report_errors(run: AnalysisRun, analysis: AnalysisName) -> Iterator[None]:
    """Raise the Problem 409 for a run without a report of the analysis, and 410 for a report that cannot be read."""
    try:
        yield
    except ReportChanged:
        raise
    except (AnalysisError, StorageError) as error:
        has_no_report = run.state != JobState.DONE or run.type != analysis
        raise Problem(409 if has_no_report else 410, str(error)) from None
