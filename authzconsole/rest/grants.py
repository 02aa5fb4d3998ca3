"""The REST resource `grants`: list grants, and apply change sets."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import transaction
from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import (
    GrantableText,
    List,
    PrincipalText,
    StrictSerializer,
    privilege_list,
)
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, PeriodSerializer
from authzconsole.lists.grants import PRIVILEGES, Grants
from authzconsole.rest.dry_runs import ChangeEndpoint, ChangeSetOptions, DryRunSerializer
from authzconsole.rest.framework.callers import check_grant_changer
from authzconsole.rest.framework.endpoint import validated_data
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem, field_errors
from entities.vocabulary import INNER_CONTAINER_KINDS, Privilege, quantity
from grants.change_set import Grant, Key, Revoke
from grants.changes import ChangeSet
from grants.errors import ChangeRefused, GrantError
from grants.grant_attributes import GrantAttributes
from grants.journal import current_revision
from grants.validity import Validity

MAX_ITEMS = 1_000
LISTS = ("grant", "revoke")


def items_of(serializer: type[serializers.Serializer], **options) -> serializers.ListSerializer:
    """Return the field of a list of a request, which may be left out."""
    return serializer(many=True, required=False, max_length=MAX_ITEMS, **options)  # type: ignore[call-arg]


class GrantedSerializer(output.Output):
    principal = output.Text()
    entity = output.Text(source="address")
    privilege = output.Choice(PRIVILEGES)
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class ChangeItemSerializer(StrictSerializer):
    """Privileges that a principal loses on an address."""

    principal = PrincipalText()
    entity = GrantableText()
    privileges = privilege_list()


class GrantItemSerializer(ChangeItemSerializer, PeriodSerializer):
    """Privileges that a principal gets on an address, in a period. An existing grant gets this period."""


class ChangeSetSerializer(ChangeSetOptions):
    """Grants and revocations that are applied together or not at all."""

    grant = items_of(GrantItemSerializer)
    revoke = items_of(ChangeItemSerializer)


class ChangeSetEnvelope(ChangeSetSerializer):
    """A `ChangeSetSerializer` with unvalidated items.

    `GrantLists` validates each item, so that every error is reported.
    """

    grant = List(default=list)
    revoke = List(default=list)


class GrantChanges(output.Output):
    granted = GrantedSerializer(many=True)
    revoked = GrantedSerializer(
        many=True,
        # with their earlier periods
        get=lambda outcome: [
            Grant(change.principal, change.address, change.privilege, outcome.before[change.key])
            for change in outcome.revoked
        ],
    )
    changed_periods = GrantedSerializer(
        many=True,
        help_text="Existing grants that got another period.",
    )
    planned = output.Texts(help_text="Addresses that were registered as planned for a grant.")
    notices = output.Texts(
        help_text="One sentence for each existing address that is not live, and for each inactive user. It says why a new "
        "grant has no effect yet.",
    )


class ChangeSerializer(DryRunSerializer, GrantChanges):
    """The changes that the change set made, or for a dry run would make."""


class GrantList(ChangeEndpoint, ListEndpoint):
    """List grants.

    All grants, or those of a principal, on an entity, or both. Grants of users come first. Accounts with
    the role `ordinary` can only read their own grants and those of their groups (otherwise 403), and with
    delegation all grants on an `entity` on which, or on a container of which, they hold ADMIN.
    """

    route = "grants"
    operation_id = "grants_list"
    rows = Grants
    more = {
        "revision": output.Integer(
            help_text="The newest revision of the journal; use it as the `base_revision` of a change."
        )
    }

    def more_members(self) -> dict:
        # read before the grants, so that a change in between makes the revision stale
        return {"revision": current_revision()}

    def read_list(self) -> Grants:
        if "within" in self.query and self.query["within"].kind not in INNER_CONTAINER_KINDS:
            text = "must be the address of a namespace or an application"
            raise Problem(400, f"`within` {text}", errors=[{"field": "within", "message": f"this {text}"}])
        grants = Grants(self.request.user, self.query)
        if not grants.is_readable:
            raise Problem(403, "your account can only read its own grants and those of its groups")
        return grants

    @operation(
        "grants_change",
        check_grant_changer,
        ChangeSerializer,
        body=ChangeSetEnvelope,
        schema=ChangeSetSerializer,
    )
    def post(self) -> Response:
        """Grant and revoke.

        Accepts a change set of up to {MAX_ITEMS:,} items in both lists together. It is applied as a whole
        or not at all. Applying it again changes nothing. A grant that exists with another period gets the
        new period. Every error names its list and index. A grant on an address that is not registered
        registers it as planned; the response lists such addresses. `privileges` is required and has no
        default. With delegation, holders of ADMIN change grants in their session; they get no `effect`.
        """
        data = self.data
        grants = GrantLists.parse(data)
        with transaction.atomic(), grants.item_errors():
            outcome, members = self.change_set_outcome(
                ChangeSet.of(*grants.changes),
                attributes=GrantAttributes(**{name: data[name] for name in GrantAttributes._fields}),
            )
        return Response(members | GrantChanges.data_of(outcome))


@dataclass
class GrantLists:
    """The valid changes in the lists `grant` and `revoke` of a request.

    changes: the changes. positions: by key, the list and the index of the item of each change.
    errors: one or more for each invalid item.
    """

    changes: list[Grant | Revoke] = field(default_factory=list)
    positions: dict[Key, tuple[str, int]] = field(default_factory=dict)
    errors: list[dict] = field(default_factory=list)

    @classmethod
    def parse(cls, data: Mapping, *, allows_empty: bool = False) -> "GrantLists":
        """Validate the items and collect their errors. Raise Problem if there are no items, or too many."""
        count = sum(len(data[name]) for name in LISTS)
        if not count and not allows_empty:
            raise Problem(400, "nothing to change: put items into `grant` or `revoke`")
        if count > MAX_ITEMS:
            raise Problem(400, f"the change set contains {count:,} items; the limit is {MAX_ITEMS:,}")
        lists = cls()
        for name in LISTS:
            for index, raw in enumerate(data[name]):
                lists._add_item(name, index, raw)
        return lists

    def add_error(self, name: str, index: int, message: str) -> None:
        error = {"list": name, "index": index, "message": message}
        if error not in self.errors[-len(Privilege) :]:
            self.errors.append(error)

    @contextmanager
    def item_errors(self) -> Iterator[None]:
        """Raise Problem with every error of every item, including those that only the database can find.

        Problem is raised after the changes were made, so the caller must open a transaction around this.
        """
        try:
            yield
        except ChangeRefused as refusal:
            for error in refusal.errors:
                changes = [change for change in self.changes if change.verb == error.verb]
                # other lists have one change for each item
                index = self.positions[changes[error.index].key][1] if changes else error.index
                self.add_error(error.verb, index, error.message)
        except GrantError:
            # without the invalid items, nothing may be left to change; the errors of those items are more
            # helpful
            self._check_errors()
            raise
        self._check_errors()

    def _check_errors(self) -> None:
        if self.errors:
            errors = sorted(self.errors, key=lambda error: (error["list"], error["index"]))
            first = errors[0]
            raise Problem(
                400,
                f"{quantity(len(errors), 'item is', 'items are')} invalid, so nothing was changed; the first is "
                f"{first['list']}[{first['index']}]: {first['message']}",
                errors=errors,
            )

    def _add_item(self, name: str, index: int, raw: object) -> None:
        """Validate one item and add its changes."""
        if not isinstance(raw, dict):
            self.add_error(
                name, index, "an item must be an object with `principal`, `entity` and `privileges`"
            )
            return
        try:
            item_data = validated_data(GrantItemSerializer if name == "grant" else ChangeItemSerializer, raw)
        except serializers.ValidationError as error:
            self.add_error(name, index, "; ".join(_error_sentences(error)))
            return
        for privilege in item_data["privileges"]:
            key = item_data["principal"], item_data["entity"], Privilege[privilege]
            if key in self.positions:
                first, first_index = self.positions[key]
                message = f"{Revoke(*key)} repeats {first}[{first_index}]: keep one of the two"
                self.add_error(name, index, message)
                continue
            self.positions[key] = name, index
            validity = item_data.get("validity", Validity())
            self.changes.append(Grant(*key, validity) if name == "grant" else Revoke(*key))


def _error_sentences(error: serializers.ValidationError) -> Iterator[str]:
    for item in field_errors(error.detail):
        yield f"`{item['field']}`: {item['message']}" if item["field"] else item["message"]
