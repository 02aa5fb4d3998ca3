"""The REST resource `grants`: list grants, and apply change sets."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from django.db import transaction
from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.dry_runs import DryRunSerializer, dry_run_as_json
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, validated_data
from authzconsole.rest.framework.fields import (
    AddressText,
    Boolean,
    Choice,
    Integer,
    List,
    NameText,
    PrincipalText,
    QueryBoolean,
    StrictSerializer,
    privilege_list,
    reason_field,
)
from authzconsole.rest.framework.past import PastQuery, reads_past
from authzconsole.rest.framework.problems import Problem, field_errors
from authzconsole.rest.openapi.operations import api_operation
from entities.address import Address
from entities.models import State
from entities.vocabulary import Privilege
from grants.changes.outcomes import ChangeItem, ChangeOutcome
from grants.changes.services import change_grants
from grants.errors import ChangeRefused, GrantError
from grants.grant_attributes import GrantAttributes
from grants.journal import current_revision, lock_journal
from grants.journal_queries import custom_query_plan
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.plans.dry_run import dry_run
from grants.principal_names import parse_principal

T = TypeVar("T")

TAG = "Grants"
MAX_ITEMS = 1_000
LISTS = ("grant", "revoke")
PRIVILEGES = list(map(str, Privilege))


class GrantSerializer(serializers.Serializer):
    """One privilege of one principal on one address."""

    principal = serializers.CharField(help_text="`user:NAME` or `group:NAME`.")
    entity = serializers.CharField()
    state = serializers.CharField(help_text="The state of the entity: planned, live or deleted.")
    privilege = serializers.ChoiceField(PRIVILEGES)
    granted_by = serializers.CharField(allow_null=True, help_text="The name of the account; null if a command granted it.")
    granted_at = serializers.DateTimeField()
    reason = serializers.CharField()


class GrantedSerializer(serializers.Serializer):
    principal = serializers.CharField()
    entity = serializers.CharField()
    privilege = serializers.ChoiceField(PRIVILEGES)


class GrantsQuery(PageQuery, PastQuery):
    principal = PrincipalText(required=False, help_text="Only grants of `user:NAME` or `group:NAME`.")
    through_groups = QueryBoolean(required=False, default=False, help_text="For a user: also the grants of the user's groups.")
    entity = AddressText(required=False, help_text="Only grants on exactly this address.")
    within = AddressText(required=False, help_text="Only grants on this namespace or application, or inside it.")
    privilege = Choice(choices=PRIVILEGES, required=False, help_text="Only grants of this privilege.")
    state = Choice(choices=State.values, required=False, help_text="Only grants on addresses in this state.")
    granted_by = NameText(required=False, help_text="Only grants that this account made.")


class ChangeItemSerializer(StrictSerializer):
    """Privileges that a principal gets or loses on an address."""

    principal = PrincipalText()
    entity = AddressText()
    privileges = privilege_list()


class ChangeSetSerializer(StrictSerializer):
    """Grants and revocations that are applied together or not at all."""

    grant = ChangeItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    revoke = ChangeItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    reason = reason_field()
    base_revision = Integer(required=False, help_text="Refuse (409) if the journal has a newer revision.")
    dry_run = Boolean(required=False, default=False, help_text="Report the effect without changing anything.")


class ChangeSetEnvelope(ChangeSetSerializer):
    """A `ChangeSetSerializer` with unvalidated items. `ChangeSet` validates each item, so that every error is reported."""

    grant = List(required=False, default=list)
    revoke = List(required=False, default=list)


class ChangeSerializer(DryRunSerializer):
    """The changes that the change set made, or for a dry run would make."""

    dry_run = serializers.BooleanField()
    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(
        help_text="The newest revision of the journal; use it as the `base_revision` of the next change.")
    granted = GrantedSerializer(many=True)
    revoked = GrantedSerializer(many=True)
    unchanged = serializers.ListField(child=serializers.CharField(), help_text="One sentence for each item that changed nothing.")
    planned = serializers.ListField(child=serializers.CharField(), help_text="Addresses that were registered as planned for a "
                                                                             "grant.")
    principals = serializers.ListField(child=serializers.CharField(),
                                       help_text="Accounts of the console that became principals.")
    notices = serializers.ListField(
        child=serializers.CharField(),
        help_text="One sentence for each existing address that is not live, and for each inactive user. It says why a new "
                  "grant has no effect yet.")


GRANTED_EXAMPLE = {"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privilege": "READ"}
GRANT_EXAMPLE = GRANTED_EXAMPLE | {
    "state": "live", "granted_by": "admin", "granted_at": "2026-02-01T08:00:00Z", "reason": "quarterly close",
}
CHANGE_SET_EXAMPLE = {
    "grant": [{"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privileges": ["READ", "WRITE"]}],
    "revoke": [{"principal": "group:contractors", "entity": "dataset:sales.orders", "privileges": ["WRITE"]}],
    "reason": "quarterly close",
}
CHANGE_EXAMPLE = {
    "dry_run": False, "changed": True, "sentence": "granted 2, 1 unchanged", "revision": 812, "revoked": [],
    "granted": [GRANTED_EXAMPLE, GRANTED_EXAMPLE | {"privilege": "WRITE"}],
    "unchanged": ["group:contractors does not hold WRITE on dataset:sales.orders: nothing changed"],
    "planned": [], "principals": [], "notices": [], "effect": None, "stranded": [],
}
REVISION_FIELD = {"revision": serializers.IntegerField(
    help_text="The newest revision of the journal; use it as the `base_revision` of a change.")}


class Grants(Endpoint):
    rules = {"GET": any_account, "POST": check_administrator}
    queries = {"GET": GrantsQuery}

    @api_operation(
        "grants_list", TAG, "List grants",
        "All grants, or those of a principal, on an entity, or both. Grants of users come first. Accounts with the role "
        "`ordinary` can only read their own grants and those of their groups (otherwise 403).",
        query=GrantsQuery, responses={200: page_serializer(GrantSerializer, **REVISION_FIELD)},
        response_example={"items": [GRANT_EXAMPLE], "next": None, "revision": 812})
    @reads_past
    def get(self, request: Request) -> Response:
        query = self.query
        # read before the grants, so that a change in between makes the revision stale
        revision = current_revision()
        grant_filter = _grant_filter(query)
        conditions = _entity_filter(query) | grant_filter
        parts = [ListPart(rows.filter(**conditions).select_related("content_object", "granted_by", relation),
                          (f"{relation}_id", "content_object_id", "permission_id"))
                 for relation, rows in _readable_grants(request, query)]
        # a query plan for a frequent value would read all grants to find a rare one
        with custom_query_plan() if grant_filter else nullcontext():
            page = page_of(parts, _grant_as_json, query=query, identity=list_identity("grants", query))
        return Response(page | {"revision": revision})

    @api_operation(
        "grants_change", TAG, "Grant and revoke",
        f"Accepts a change set of up to {MAX_ITEMS:,} items in both lists together. It is applied as a whole or not at all. "
        "Applying it again changes nothing. Every error names its list and index. A grant on an address that is not "
        "registered registers it as planned; the response lists such addresses. `privileges` is required and has no default.",
        request=ChangeSetSerializer, request_example=CHANGE_SET_EXAMPLE, responses={200: ChangeSerializer},
        response_example=CHANGE_EXAMPLE, errors=[409])
    def post(self, request: Request) -> Response:
        data = self.body(ChangeSetEnvelope)
        change_set = ChangeSet.parse(data)
        author = author_of(request, data["reason"])
        with transaction.atomic():
            revision_before = lock_journal().revision
            forecast = change_set.apply_with(dry_run, author=author) if data["dry_run"] else None
            outcome = change_set.apply_with(change_grants, author=author, base_revision=data.get("base_revision"),
                                            attributes={name: data[name] for name in GrantAttributes._fields})
            if data["dry_run"]:
                transaction.set_rollback(True)
        revision = revision_before if data["dry_run"] else outcome.revision
        return Response(_change_as_json(outcome, revision, dry_run=data["dry_run"]) | dry_run_as_json(forecast))


@dataclass
class ChangeSet:
    """The validated items of a change set.

    changes: by list, each change with the index of its item. errors: one or more for each invalid item.
    """

    changes: dict[str, list[tuple[int, ChangeItem]]] = field(default_factory=lambda: {name: [] for name in LISTS})
    errors: list[dict] = field(default_factory=list)

    @classmethod
    def parse(cls, data: dict, *, allows_empty: bool = False) -> "ChangeSet":
        """Validate the items and collect their errors. Raise Problem if there are no items, or too many."""
        count = sum(len(data[name]) for name in LISTS)
        if not count and not allows_empty:
            raise Problem(400, "nothing to change: put items into `grant` or `revoke`")
        if count > MAX_ITEMS:
            raise Problem(400, f"the change set contains {count:,} items; the limit is {MAX_ITEMS:,}")
        change_set, positions = cls(), {}
        for name in LISTS:
            for index, raw in enumerate(data[name]):
                change_set._add_item(name, index, raw, positions)
        return change_set

    def add_error(self, name: str, index: int, message: str) -> None:
        error = {"list": name, "index": index, "message": message}
        if error not in self.errors[-len(Privilege):]:
            self.errors.append(error)

    def changes_of(self, name: str) -> list[ChangeItem]:
        return [item for _, item in self.changes[name]]

    def apply_with(self, service: Callable[..., T], **options) -> T:
        """Call `service(grant=, revoke=)` and return its result.

        Raise Problem with every error of every item, including those that only the database can find. Problem is raised
        after the changes were made, so the caller must run this in a transaction.
        """
        try:
            outcome = service(**options, **{name: self.changes_of(name) for name in LISTS})
        except ChangeRefused as error:
            for index, name, message in error.errors:
                # the service also takes other lists, which have one change for each item
                self.add_error(name, self.changes[name][index][0] if name in self.changes else index, message)
        except GrantError:
            # without the invalid items, nothing may be left to change; the errors of those items are more helpful
            self._check_errors()
            raise
        self._check_errors()
        return outcome

    def _check_errors(self) -> None:
        if self.errors:
            errors = sorted(self.errors, key=lambda error: (error["list"], error["index"]))
            first = errors[0]
            raise Problem(400, f"{len(errors):,} items are invalid, so nothing was changed; the first is "
                               f"{first['list']}[{first['index']}]: {first['message']}", errors=errors)

    def _add_item(self, name: str, index: int, raw: object, positions: dict[ChangeItem, str]) -> None:
        """Validate one item and add its changes. `positions` has the item of each change so far, such as `grant[2]`."""
        if not isinstance(raw, dict):
            self.add_error(name, index, "an item must be an object with `principal`, `entity` and `privileges`")
            return
        try:
            item_data = validated_data(ChangeItemSerializer, raw)
        except serializers.ValidationError as error:
            self.add_error(name, index, "; ".join(_error_sentences(error)))
            return
        for privilege in item_data["privileges"]:
            item = ChangeItem(item_data["principal"], item_data["entity"], Privilege[privilege])
            if item in positions:
                self.add_error(name, index, f"{item} repeats {positions[item]}: keep one of the two")
            else:
                positions[item] = f"{name}[{index}]"
                self.changes[name].append((index, item))


def _error_sentences(error: serializers.ValidationError) -> Iterator[str]:
    for item in field_errors(error.detail):
        yield f"`{item['field']}`: {item['message']}" if item["field"] else item["message"]


def _readable_grants(request: Request, query: dict) -> Iterator[tuple[str, QuerySet]]:
    """Yield "user" and "group" with the grants that the caller can read. Raise Problem (403) for other principals."""
    if "principal" in query:
        yield from _grants_of(request, *parse_principal(query["principal"]), query["through_groups"])
        return
    user_grants, group_grants = UserGrant.objects.all(), GroupGrant.objects.all()
    if not request.user.can_see_all:
        user_grants, group_grants = user_grants.filter(user=request.user), group_grants.filter(group__user=request.user)
    yield "user", user_grants
    yield "group", group_grants


def _grants_of(request: Request, kind: str, name: str, through_groups: bool) -> Iterator[tuple[str, QuerySet]]:
    can_read = request.user.can_see_all or (kind == "user" and name == request.user.username) or (
        kind == "group" and request.user.groups.filter(name=name).exists())
    if not can_read:
        raise Problem(403, "your account can only read its own grants and those of its groups")
    if kind == "group":
        yield "group", GroupGrant.objects.filter(group__name=name)
        return
    yield "user", UserGrant.objects.filter(user__username=name)
    if through_groups:
        # a subquery, because a join would repeat each group for each of its members
        groups = User.groups.through.objects.filter(user__username=name).values("group_id")
        yield "group", GroupGrant.objects.filter(group_id__in=groups)


def _entity_filter(query: dict) -> dict:
    conditions = {}
    if "entity" in query:
        conditions = _address_filter("content_object", query["entity"])
    if "within" in query:
        container = query["within"]
        if container.kind not in ("namespace", "application"):
            raise Problem(400, "`within` must be the address of a namespace or an application",
                          errors=[{"field": "within", "message": "this must be the address of a namespace or an application"}])
        conditions |= _address_filter(container.kind, container)
    return conditions


def _grant_filter(query: dict) -> dict:
    conditions = {}
    if "privilege" in query:
        conditions["permission_id"] = permission_ids()[Privilege[query["privilege"]]]
    if "state" in query:
        conditions["content_object__state"] = query["state"]
    if "granted_by" in query:
        # the primary key and not the name, so that PostgreSQL knows how many grants there are; 0 is no key
        conditions["granted_by_id"] = User.objects.filter(username=query["granted_by"]).values_list("pk", flat=True).first() or 0
    return conditions


def _address_filter(relation: str, address: Address) -> dict:
    return {f"{relation}__kind": address.kind, f"{relation}__key": address.key}


def _grant_as_json(grant: UserGrant | GroupGrant) -> dict:
    principal = str(grant.user) if isinstance(grant, UserGrant) else f"group:{grant.group.name}"
    return {"principal": principal, "entity": str(grant.content_object), "state": str(grant.content_object.state),
            "privilege": str(grant.privilege), "granted_by": grant.granted_by.username if grant.granted_by else None,
            "granted_at": as_json_time(grant.granted_at),
            **{name: getattr(grant, name) for name in GrantAttributes._fields}}


def _change_as_json(outcome: ChangeOutcome, revision: int, *, dry_run: bool) -> dict:
    return {"dry_run": dry_run, "changed": outcome.has_changed, "revision": revision,
            "sentence": outcome.forecast_sentence if dry_run else outcome.sentence,
            "granted": [_item_as_json(item) for item in outcome.granted],
            "revoked": [_item_as_json(item) for item in outcome.revoked],
            "unchanged": list(outcome.unchanged), "planned": [str(address) for address in outcome.planned],
            "principals": list(outcome.principals), "notices": list(outcome.notices)}


def _item_as_json(item: ChangeItem) -> dict:
    return {"principal": item.principal, "entity": str(item.address), "privilege": str(item.privilege)}
