"""Grants: who holds what, and one change set that is made whole or not at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from django.db import transaction
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.cursors import PageQuery, Part, list_identity, page_of, page_shape
from authzconsole.rest.framework.endpoint import Endpoint, read_strictly
from authzconsole.rest.framework.fields import (
    AddressText,
    Boolean,
    Integer,
    List,
    PrincipalText,
    QueryBoolean,
    Shape,
    privilege_list,
    reason_field,
)
from authzconsole.rest.framework.problems import Problem, field_errors
from authzconsole.rest.openapi.operations import described
from entities.address import Address
from entities.vocabulary import Privilege
from grants.changes.outcomes import ChangeItem, ChangeOutcome
from grants.changes.services import change_grants
from grants.errors import ChangeRefused, GrantError
from grants.journal import current_revision, lock_journal
from grants.models import GroupGrant, User, UserGrant
from grants.principal_names import parse_principal

T = TypeVar("T")

TAG = "Grants"
MOST_ITEMS = 1_000
LISTS = ("grant", "revoke")
PRIVILEGES = list(map(str, Privilege))


class GrantSerializer(serializers.Serializer):
    """One privilege of one principal on one address."""

    principal = serializers.CharField(help_text="`user:NAME` or `group:NAME`.")
    entity = serializers.CharField()
    state = serializers.CharField(help_text="Of the entity: planned, live or deleted.")
    privilege = serializers.ChoiceField(PRIVILEGES)
    granted_by = serializers.CharField(allow_null=True, help_text="The account's name; null where a command granted it.")
    granted_at = serializers.DateTimeField()
    reason = serializers.CharField()


class GrantedSerializer(serializers.Serializer):
    principal = serializers.CharField()
    entity = serializers.CharField()
    privilege = serializers.ChoiceField(PRIVILEGES)


class GrantsQuery(PageQuery):
    principal = PrincipalText(required=False, help_text="What `user:NAME` or `group:NAME` holds.")
    through_groups = QueryBoolean(required=False, default=False, help_text="With a user: what its groups hold, too.")
    entity = AddressText(required=False, help_text="What is held on exactly this address.")
    within = AddressText(required=False, help_text="What is held on this namespace or application, or on anything inside it.")


class ChangeItemSerializer(Shape):
    principal = PrincipalText()
    entity = AddressText()
    privileges = privilege_list()


class ChangeSetSerializer(Shape):
    """All of it or nothing."""

    grant = ChangeItemSerializer(many=True, required=False, max_length=MOST_ITEMS)  # type: ignore[call-arg]
    revoke = ChangeItemSerializer(many=True, required=False, max_length=MOST_ITEMS)  # type: ignore[call-arg]
    reason = reason_field()
    base_revision = Integer(required=False, help_text="Refuse (409) where the journal is no longer at this revision.")
    dry_run = Boolean(required=False, default=False, help_text="Find out what it would change, and write nothing.")


class Envelope(ChangeSetSerializer):
    """The change set with its items unread: each is read by itself, so that every fault is found."""

    grant = List(required=False, default=list)
    revoke = List(required=False, default=list)


class ChangeSerializer(serializers.Serializer):
    """What was changed; of a dry run, what would be."""

    dry_run = serializers.BooleanField()
    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(help_text="The newest revision of the journal: the `base_revision` of a next change.")
    granted = GrantedSerializer(many=True)
    revoked = GrantedSerializer(many=True)
    unchanged = serializers.ListField(child=serializers.CharField(), help_text="A sentence for each that was so already.")
    planned = serializers.ListField(child=serializers.CharField(), help_text="Addresses that a grant registered as planned.")
    principals = serializers.ListField(child=serializers.CharField(),
                                       help_text="Accounts of the console that became principals.")
    notices = serializers.ListField(
        child=serializers.CharField(),
        help_text="A sentence for each address that was registered before and is not live, and for each user who is inactive: "
                  "why what is granted there counts for nothing now. It is granted all the same.")


READ = {"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privilege": "READ"}
LISTED = READ | {"state": "live", "granted_by": "admin", "granted_at": "2026-02-01T08:00:00Z", "reason": "quarterly close"}
SENT = {"grant": [{"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privileges": ["READ", "WRITE"]}],
        "revoke": [{"principal": "group:contractors", "entity": "dataset:sales.orders", "privileges": ["WRITE"]}],
        "reason": "quarterly close"}
CHANGED = {"dry_run": False, "changed": True, "sentence": "granted 2, 1 unchanged", "revision": 812, "revoked": [],
           "granted": [READ, READ | {"privilege": "WRITE"}],
           "unchanged": ["group:contractors does not hold WRITE on dataset:sales.orders: nothing changed"],
           "planned": [], "principals": [], "notices": []}
REVISION = {"revision": serializers.IntegerField(help_text="Of the journal: the `base_revision` of a change made from this.")}


class Grants(Endpoint):
    queries = {"GET": GrantsQuery}

    @described("grants_list", TAG, "List grants",
               "Of a principal, on an entity, both, or all; users' before groups'. An ordinary account reads its own and "
               "those of its groups; others' are refused (403), whoever they are.",
               query=GrantsQuery, answers={200: page_shape(GrantSerializer, **REVISION)},
               example={"items": [LISTED], "next": None, "revision": 812})
    def get(self, request: Request) -> Response:
        query = self.query
        # read first: what is changed meanwhile makes it stale, as it should be
        revision = current_revision()
        parts = [Part(rows.filter(**_on(query)).select_related("content_object", "granted_by", who),
                      (f"{who}_id", "content_object_id", "permission_id")) for who, rows in _held(request, query)]
        page = page_of(parts, _grant_as_json, query=query, identity=list_identity("grants", query))
        return Response(page | {"revision": revision})

    @described("grants_change", TAG, "Grant and revoke",
               f"One change set of up to {MOST_ITEMS:,} items in both lists together. It is made whole or not at all, and "
               "making it again changes nothing. Every fault is named with its list and index. An address that is not registered "
               "is planned by a grant on it, and named in the answer. `privileges` is never left out: that does not mean all.",
               sends=ChangeSetSerializer, sent=SENT, answers={200: ChangeSerializer}, example=CHANGED, errors=[409])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(Envelope)
        items = ChangeSet.read(sent)
        author = author_of(request, sent["reason"])
        with transaction.atomic():
            before = lock_journal().revision
            outcome = items.made(change_grants, author=author, base_revision=sent.get("base_revision"))
            if sent["dry_run"]:
                transaction.set_rollback(True)
        return Response(_change_as_json(outcome, before if sent["dry_run"] else outcome.revision, dry_run=sent["dry_run"]))


@dataclass
class ChangeSet:
    """triples: by list, each with the index of the item that it comes from. errors: of the items that cannot be read."""

    triples: dict[str, list[tuple[int, ChangeItem]]] = field(default_factory=lambda: {name: [] for name in LISTS})
    errors: list[dict] = field(default_factory=list)

    @classmethod
    def read(cls, sent: dict) -> "ChangeSet":
        """Raises Problem where there are no items, or too many."""
        count = sum(len(sent[name]) for name in LISTS)
        if not count:
            raise Problem(400, "nothing is to be changed: put items into `grant` or `revoke`")
        if count > MOST_ITEMS:
            raise Problem(400, f"the change set holds {count:,} items; {MOST_ITEMS:,} are allowed in one")
        items, seen = cls(), {}
        for name in LISTS:
            for index, raw in enumerate(sent[name]):
                items._add(name, index, raw, seen)
        return items

    def fault(self, name: str, index: int, message: str) -> None:
        error = {"list": name, "index": index, "message": message}
        if error not in self.errors[-len(Privilege):]:
            self.errors.append(error)

    def given(self, name: str) -> list[ChangeItem]:
        return [item for _, item in self.triples[name]]

    def made(self, change: Callable[..., T], **options) -> T:
        """What `change(grant=, revoke=)` makes of them. Raises Problem with every fault of every item, those that only the
        database knows among them: after it was made, so that the caller's transaction takes it back."""
        try:
            outcome = change(**options, **{name: self.given(name) for name in LISTS})
        except ChangeRefused as refused:
            for index, name, message in refused.errors:
                self.fault(name, self.triples[name][index][0], message)
        except GrantError:
            # what can be read may be nothing, or already so, because the rest cannot
            self._check()
            raise
        self._check()
        return outcome

    def _check(self) -> None:
        if self.errors:
            errors = sorted(self.errors, key=lambda error: (error["list"], error["index"]))
            first = errors[0]
            raise Problem(400, f"{len(errors):,} of the items cannot be done, so nothing was changed; the first is "
                               f"{first['list']}[{first['index']}]: {first['message']}", errors=errors)

    def _add(self, name: str, index: int, raw: object, seen: dict) -> None:
        if not isinstance(raw, dict):
            self.fault(name, index, "an item must be an object with `principal`, `entity` and `privileges`")
            return
        try:
            read = read_strictly(ChangeItemSerializer, raw)
        except serializers.ValidationError as refused:
            self.fault(name, index, "; ".join(_words(refused)))
            return
        for privilege in read["privileges"]:
            item = ChangeItem(read["principal"], read["entity"], Privilege[privilege])
            if item in seen:
                self.fault(name, index, f"{item} repeats {seen[item]}: keep one of the two")
            else:
                seen[item] = f"{name}[{index}]"
                self.triples[name].append((index, item))


def _words(refused: serializers.ValidationError) -> Iterator[str]:
    for error in field_errors(refused.detail):
        yield f"`{error['field']}`: {error['message']}" if error["field"] else error["message"]


def _held(request: Request, query: dict) -> Iterator[tuple[str, object]]:
    """The tables to look into, users' first: ("user" or "group", rows). Raises Problem where others' are requested."""
    if "principal" in query:
        yield from _held_by(request, *parse_principal(query["principal"]), query["through_groups"])
        return
    own = not request.user.can_see_all
    yield "user", UserGrant.objects.filter(**{"user": request.user} if own else {})
    yield "group", GroupGrant.objects.filter(**{"group__user": request.user} if own else {})


def _held_by(request: Request, kind: str, name: str, through_groups: bool) -> Iterator[tuple[str, object]]:
    own = request.user.can_see_all or (kind == "user" and name == request.user.username) or (
        kind == "group" and request.user.groups.filter(name=name).exists())
    if not own:
        raise Problem(403, "your account may read its own grants and those of its groups only")
    if kind == "group":
        yield "group", GroupGrant.objects.filter(group__name=name)
        return
    yield "user", UserGrant.objects.filter(user__username=name)
    if through_groups:
        # as rows of numbers: joined, a group would stand once for each of its members
        groups = User.groups.through.objects.filter(user__username=name).values("group_id")
        yield "group", GroupGrant.objects.filter(group_id__in=groups)


def _on(query: dict) -> dict:
    where = {}
    if "entity" in query:
        where = _at("content_object", query["entity"])
    if "within" in query:
        container = query["within"]
        if container.kind not in ("namespace", "application"):
            raise Problem(400, "`within` must be the address of a namespace or an application",
                          errors=[{"field": "within", "message": "this must be the address of a namespace or an application"}])
        where |= _at(container.kind, container)
    return where


def _at(relation: str, address: Address) -> dict:
    return {f"{relation}__kind": address.kind, f"{relation}__key": address.key}


def _grant_as_json(grant: UserGrant | GroupGrant) -> dict:
    principal = str(grant.user) if isinstance(grant, UserGrant) else f"group:{grant.group.name}"
    return {"principal": principal, "entity": str(grant.content_object), "state": str(grant.content_object.state),
            "privilege": str(grant.privilege), "granted_by": grant.granted_by.username if grant.granted_by else None,
            "granted_at": as_json_time(grant.granted_at), "reason": grant.reason}


def _change_as_json(outcome: ChangeOutcome, revision: int, *, dry_run: bool) -> dict:
    return {"dry_run": dry_run, "changed": outcome.has_changed, "revision": revision,
            "sentence": outcome.forecast_sentence if dry_run else outcome.sentence,
            "granted": [_item_as_json(item) for item in outcome.granted],
            "revoked": [_item_as_json(item) for item in outcome.revoked],
            "unchanged": list(outcome.unchanged), "planned": [str(address) for address in outcome.planned],
            "principals": list(outcome.principals), "notices": list(outcome.notices)}


def _item_as_json(item: ChangeItem) -> dict:
    return {"principal": item.principal, "entity": str(item.address), "privilege": str(item.privilege)}
