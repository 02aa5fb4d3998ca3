"""Plans for many entities at once, for the grants on deleted addresses, and of a file of changes."""

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
from authzconsole.rest.plans import PLAN, TAG, PlanSerializer, plan_made
from grants.models import PlanVerb
from grants.plans.create import MAX_TITLE_LENGTH
from grants.plans.sources.bulk import MAX_PRINCIPALS, MAX_SELECTED, create_selection_plan, create_subtree_plan, parse_bulk_change
from grants.plans.sources.change_file import COLUMNS, SAMPLES, BadChangeFile
from grants.plans.sources.file import create_plan_from_file
from grants.plans.sources.ghosts import create_ghost_plan
from grants.tenant.faults import Fault


class ForManySerializer(Shape):
    """Either all that lies in `within`, or `entities` one by one."""

    verb = Choice(choices=PlanVerb.values)
    principals = List(child=PrincipalText(), min_length=1, max_length=MAX_PRINCIPALS)
    privileges = privilege_list()
    within = AddressText(required=False, help_text="The instance, a namespace or an application: what is live in it.")
    kinds = List(child=KindText(), required=False,
                    help_text="With `within`: only these kinds; all that lie in it unless given.")
    itself = Boolean(required=False, help_text="With `within`: the container too; true unless given.")
    entities = List(child=AddressText(), required=False, min_length=1, max_length=MAX_SELECTED,
                       help_text="Live entities, in place of `within`.")

    def validate(self, sent: dict) -> dict:
        if ("within" in sent) is ("entities" in sent):
            raise serializers.ValidationError("give either `within` or `entities`, and not both")
        if "entities" in sent and (further := [name for name in ("kinds", "itself") if name in sent]):
            raise serializers.ValidationError({name: ["this goes with `within`, and not with `entities`"] for name in further})
        return sent


class GhostsSerializer(Shape):
    namespace = AddressText(required=False, help_text="Only what is on this namespace and in it.")


class ChangeFileSerializer(Shape):
    document = Text(max_length=MAX_BODY_BYTES, help_text=f"CSV with the header {','.join(COLUMNS)}, or JSON Lines with these "
                                                             f"members: one change a line.")
    title = Text(required=False, allow_blank=True, default="", max_length=MAX_TITLE_LENGTH)


MANY = {"verb": "grant", "principals": ["user:sofia.lindqvist", "group:finance-stewards"], "privileges": ["READ"],
        "within": "namespace:sales", "kinds": ["dataset", "stream"], "itself": False}
TITLES = {"subtree": "Grant READ to user:sofia.lindqvist and 1 more on datasets, streams in namespace:sales",
          "ghosts": "Revoke the grants on deleted addresses", "file": "Grant 2 and revoke 1 from pasted text"}


def _example(origin: str, recipe: dict) -> dict:
    return PLAN | {"title": TITLES[origin], "origin": origin, "recipe": recipe}


class PlansForMany(Endpoint):
    @described("plans_many", TAG, "Make a plan for many entities",
               "The same privileges granted to, or revoked from, the same principals on every live entity in a container, or on "
               "entities chosen one by one. What is so already is left out; 409 where that is all, or where it is more than a "
               "plan holds.",
               sends=ForManySerializer, sent=MANY, answers={201: PlanSerializer}, example=_example("subtree", MANY), errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent, author = self.body(ForManySerializer), author_of(request)
        change = parse_bulk_change(verb=sent["verb"], principals=sent["principals"], privileges=sent["privileges"])
        if "entities" in sent:
            return plan_made(create_selection_plan(author=author, change=change, addresses=sent["entities"]))
        return plan_made(create_subtree_plan(author=author, change=change, within=sent["within"], kinds=sent.get("kinds"),
                                         itself=sent.get("itself", True)))


class GhostPlans(Endpoint):
    @described("plans_remove_ghosts", TAG, "Make a plan that takes ghost grants back",
               "Every grant on an address whose entity is deleted; grants that wait on planned addresses stay. 409 where there "
               "is none, or where it is more than a plan holds.",
               sends=GhostsSerializer, sent={"namespace": "namespace:sales"}, answers={201: PlanSerializer},
               example=_example("ghosts", {"namespace": "namespace:sales", "note": ""}), errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        return plan_made(create_ghost_plan(author=author_of(request), **self.body(GhostsSerializer)))


class FilePlans(Endpoint):
    @described("plans_import", TAG, "Make a plan of a file of changes",
               "What the page for files takes, as text. Every bad line is an error, the first hundred in full: `index` is its "
               "number, from 1, and `field` its column. A repeated change counts once, which the plan's "
               "`recipe.note` tells. 409 where the file says nothing, or where it is more than a plan holds.",
               sends=ChangeFileSerializer, sent={"document": SAMPLES["csv"]}, answers={201: PlanSerializer},
               example=_example("file", {"file": "", "note": ""}), errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(ChangeFileSerializer)
        try:
            made = create_plan_from_file(author=author_of(request), raw=sent["document"].encode(), title=sent["title"])
        except BadChangeFile as bad:
            raise Problem(400, str(bad), errors=list(map(_error, bad.faults))) from None
        return plan_made(made)


def _error(fault: Fault) -> dict:
    named = {"field": fault.field} if fault.field else {}
    return {"list": "document", "index": fault.line, **named, "message": fault.reason}
