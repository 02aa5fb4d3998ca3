"""REST endpoints that create plans for many entities at once, for ghost grants, and from a file of changes."""

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import (
    AddressText,
    Boolean,
    Choice,
    KindText,
    List,
    PrincipalText,
    StrictSerializer,
    Text,
    privilege_list,
)
from authzconsole.common.periods import PeriodSerializer
from authzconsole.common.request_body import MAX_DOCUMENT_CHARACTERS, MAX_IMPORT_BYTES
from authzconsole.lists.plans import PlanSerializer
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.plans import created_plan_response
from grants.models import GRANT_VERBS, PlanVerb
from grants.plans.create import MAX_TITLE_LENGTH
from grants.plans.sources.bulk import (
    MAX_PRINCIPALS,
    MAX_SELECTED,
    parse_bulk_change,
    selection_plan,
    subtree_plan,
)
from grants.plans.sources.change_file import COLUMNS, BadChangeFile
from grants.plans.sources.file import file_plan
from grants.plans.sources.ghosts import ghost_plan
from grants.tenant.reading import Fault


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


class GhostsSerializer(StrictSerializer):
    """The namespace to clean up; by default all."""

    namespace = AddressText(required=False, help_text="Only grants on this namespace and inside it.")


class ChangeFileSerializer(StrictSerializer):
    """A file with changes, as text."""

    document = Text(
        max_length=MAX_DOCUMENT_CHARACTERS,
        help_text=f"CSV with the header {','.join(COLUMNS)}, or JSON Lines with these members, one change per line. "
        "`valid_from` and `valid_until` can be added.",
    )
    title = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_TITLE_LENGTH,
        help_text="The title of the plan; by default it says what the plan changes.",
    )


class PlansForMany(Endpoint):
    route, url_name = "plans/many", "rest-plans-many"

    @operation(
        "plans_many",
        check_administrator,
        {201: PlanSerializer},
        body=ForManySerializer,
    )
    def post(self) -> Response:
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
            plan = selection_plan.create(author, change=change, addresses=data["entities"])
        else:
            where = {name: data[name] for name in ("within", "kinds", "itself") if name in data}
            plan = subtree_plan.create(author, change=change, **where)
        return created_plan_response(plan)


class GhostPlans(Endpoint):
    route, url_name = "plans/ghosts", "rest-plans-ghosts"

    @operation(
        "plans_remove_ghosts",
        check_administrator,
        {201: PlanSerializer},
        body=GhostsSerializer,
    )
    def post(self) -> Response:
        """Create a plan that cleans up ghost grants.

        Revokes every grant on a deleted address. Grants on planned addresses are kept. Returns 409 if
        there are no such grants, or if the plan would be too large.
        """
        return created_plan_response(ghost_plan.create(self.author, **self.data))


class FilePlans(Endpoint):
    route, url_name = "plans/import", "rest-plans-import"
    max_body_bytes = MAX_IMPORT_BYTES

    @operation(
        "plans_import",
        check_administrator,
        {201: PlanSerializer},
        body=ChangeFileSerializer,
    )
    def post(self) -> Response:
        """Create a plan from a file of changes.

        The document is sent as text. Every bad line is an error, and the first hundred are listed in
        full: `index` is the line number, from 1, and `field` the column. Repeated changes count once;
        `recipe.note` of the plan says so. Returns 409 if nothing would change, or if the plan would be
        too large.
        """
        data = self.data
        try:
            plan = file_plan.create(self.author, raw=data["document"].encode(), title=data["title"])
        except BadChangeFile as error:
            raise Problem(400, str(error), errors=list(map(_fault_as_json, error.faults))) from None
        return created_plan_response(plan)


def _fault_as_json(fault: Fault) -> dict:
    field = {"field": fault.field} if fault.field else {}
    return {"list": "document", "index": fault.line, **field, "message": fault.reason}
