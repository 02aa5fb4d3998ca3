"""REST endpoints that create plans for many entities at once, for ghost grants, and from a file of changes."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.request_body import MAX_BODY_BYTES
from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import (
    AddressText,
    Boolean,
    Choice,
    KindText,
    List,
    PrincipalText,
    Shape,
    Text,
    privilege_list,
)
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.openapi.operations import LOCATION, described
from authzconsole.rest.plans import PLAN, TAG, PlanSerializer, created_plan_response
from grants.models import PlanVerb
from grants.plans.create import MAX_TITLE_LENGTH
from grants.plans.sources.bulk import MAX_PRINCIPALS, MAX_SELECTED, create_selection_plan, create_subtree_plan, parse_bulk_change
from grants.plans.sources.change_file import COLUMNS, SAMPLES, BadChangeFile
from grants.plans.sources.file import create_plan_from_file
from grants.plans.sources.ghosts import create_ghost_plan
from grants.tenant.faults import Fault


class ForManySerializer(Shape):
    """A bulk change, either on everything in `within` or on the listed `entities`."""

    verb = Choice(choices=PlanVerb.values)
    principals = List(child=PrincipalText(), min_length=1, max_length=MAX_PRINCIPALS)
    privileges = privilege_list()
    within = AddressText(required=False, help_text="The instance, a namespace or an application: all live entities inside it.")
    kinds = List(child=KindText(), required=False,
                    help_text="With `within`: only these kinds; by default all.")
    itself = Boolean(required=False, help_text="With `within`: include the container itself; true by default.")
    entities = List(child=AddressText(), required=False, min_length=1, max_length=MAX_SELECTED,
                       help_text="Live entities, instead of `within`.")

    def validate(self, sent: dict) -> dict:
        if ("within" in sent) is ("entities" in sent):
            raise serializers.ValidationError("send either `within` or `entities`, not both")
        if "entities" in sent and (further := [name for name in ("kinds", "itself") if name in sent]):
            raise serializers.ValidationError({name: ["this requires `within`"] for name in further})
        return sent


class GhostsSerializer(Shape):
    namespace = AddressText(required=False, help_text="Only grants on this namespace and inside it.")


class ChangeFileSerializer(Shape):
    document = Text(max_length=MAX_BODY_BYTES, help_text=f"CSV with the header {','.join(COLUMNS)}, or JSON Lines with these "
                                                         f"members, one change per line.")
    title = Text(required=False, allow_blank=True, default="", max_length=MAX_TITLE_LENGTH)


MANY = {"verb": "grant", "principals": ["user:sofia.lindqvist", "group:finance-stewards"], "privileges": ["READ"],
        "within": "namespace:sales", "kinds": ["dataset", "stream"], "itself": False}
TITLES = {"subtree": "Grant READ to user:sofia.lindqvist and 1 more on datasets, streams in namespace:sales",
          "ghosts": "Revoke the grants on deleted addresses", "file": "Grant 2 and revoke 1 from pasted text"}


def _example(origin: str, recipe: dict) -> dict:
    return PLAN | {"title": TITLES[origin], "origin": origin, "recipe": recipe}


class PlansForMany(Endpoint):
    @described("plans_many", TAG, "Create a plan for many entities",
               "Grants or revokes the same privileges for the same principals on every live entity in a container, or on the "
               "listed entities. Items that would change nothing are skipped. Returns 409 if nothing would change, or if the "
               "plan would be too large.",
               sends=ForManySerializer, sent=MANY, answers={201: PlanSerializer}, example=_example("subtree", MANY), errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent, author = self.body(ForManySerializer), author_of(request)
        change = parse_bulk_change(verb=sent["verb"], principals=sent["principals"], privileges=sent["privileges"])
        if "entities" in sent:
            plan = create_selection_plan(author=author, change=change, addresses=sent["entities"])
        else:
            plan = create_subtree_plan(author=author, change=change, within=sent["within"], kinds=sent.get("kinds"),
                                       includes_container=sent.get("itself", True))
        return created_plan_response(plan)


class GhostPlans(Endpoint):
    @described("plans_remove_ghosts", TAG, "Create a plan that cleans up ghost grants",
               "Revokes every grant on a deleted address. Grants on planned addresses are kept. Returns 409 if there are no such "
               "grants, or if the plan would be too large.",
               sends=GhostsSerializer, sent={"namespace": "namespace:sales"}, answers={201: PlanSerializer},
               example=_example("ghosts", {"namespace": "namespace:sales", "note": ""}), errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        return created_plan_response(create_ghost_plan(author=author_of(request), **self.body(GhostsSerializer)))


class FilePlans(Endpoint):
    @described("plans_import", TAG, "Create a plan from a file of changes",
               "The document is sent as text. Every bad line is an error, and the first hundred are listed in full: `index` is "
               "the line number, from 1, and `field` the column. Repeated changes count once; `recipe.note` of the plan says so. "
               "Returns 409 if nothing would change, or if the plan would be too large.",
               sends=ChangeFileSerializer, sent={"document": SAMPLES["csv"]}, answers={201: PlanSerializer},
               example=_example("file", {"file": "", "note": ""}), errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(ChangeFileSerializer)
        try:
            plan = create_plan_from_file(author=author_of(request), raw=sent["document"].encode(), title=sent["title"])
        except BadChangeFile as bad:
            raise Problem(400, str(bad), errors=list(map(_error, bad.faults))) from None
        return created_plan_response(plan)


def _error(fault: Fault) -> dict:
    field = {"field": fault.field} if fault.field else {}
    return {"list": "document", "index": fault.line, **field, "message": fault.reason}
