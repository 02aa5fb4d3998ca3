"""The REST resources `who-can`, `what-can`, `stewards` and `delegation-limits`: effective access, the data
stewards of namespaces, and what holders of ADMIN may grant.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request

from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Choice,
    Integer,
    KindText,
    List,
    PrincipalText,
    QuerySerializer,
    StrictSerializer,
    reason_field,
)
from authzconsole.common.periods import moment_of_query, reading_moment
from authzconsole.lists.access import Stewards, WhatCan, WhoCan
from authzconsole.rest.framework.callers import (
    changeable_with,
    check_can_see_all,
    visible_entity,
)
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people import OutcomeSerializer
from entities.models import State
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, clip
from grants.access import UnknownOperation, check_operation
from grants.authority.limits import MAX_DAYS, DelegationLimits, set_delegation_limits
from grants.authority.stewards import sees_everything_in
from grants.outcomes import Outcome
from grants.policies.explain import NOT_REGISTERED
from grants.principal_names import principals_by_name
from grants.roles.capabilities import Capability
from grants.stewards import add_steward, remove_steward

check_steward_manager = changeable_with(Capability.MANAGE_SETTINGS)


class WhoCanOptions(QuerySerializer):
    """How the users are sorted."""

    sort = Choice(
        choices=["user", "-user"],
        default="user",
        help_text="`-user` sorts the users of each entity in reverse.",
    )


class WhoCanList(ListEndpoint):
    """List who can access an entity.

    One row for each active user and each operation that is permitted, with the paths: the grants by
    which. For administrators and auditors. Only active users; only operations with a rule. With
    `contents`, the rows are about the live entities on and inside the address, sorted by entity.
    """

    route = "who-can"
    operation_id = "who_can_list"
    rows = WhoCan
    options = (WhoCanOptions,)
    errors = (404,)

    files = {"csv": f"One line for each path. {FORMULAS}", "jsonl": "One object for each row."}
    more = {
        "state": output.Choice(
            choices=[*State.values, NOT_REGISTERED],
            example="live",
            help_text=f"The state of the entity. Check the address if it is `{NOT_REGISTERED}`.",
        )
    }

    def more_members(self) -> dict:
        entity = entity_at(self.query["entity"])
        return {"state": entity.state if entity else NOT_REGISTERED}

    @contextmanager
    def reading(self) -> Iterator[None]:
        _check_who_can(self.request, self.query)
        with reading_moment(moment_of_query(self.query), self.request.user):
            if "as_of" in self.query and entity_at(self.query["entity"]) is None:
                raise Problem(
                    404, f"{self.query['entity']} did not exist at revision {self.query['as_of']:,}"
                )
            yield


class WhatCanList(ListEndpoint):
    """List what a principal can do.

    One row for each live entity and each operation that is permitted, with the paths: the grants by
    which. Only live entities and operations with a rule. An inactive user can do nothing. Accounts with
    the role `ordinary` can only ask about themselves, and get only entities that they see or have a grant
    on.
    """

    route = "what-can"
    operation_id = "what_can_list"
    rows = WhatCan
    errors = (404,)

    files = WhoCanList.files

    @contextmanager
    def reading(self) -> Iterator[None]:
        _check_what_can(self.request, self.query)
        with reading_moment(moment_of_query(self.query), self.request.user):
            if self.query["principal"] not in principals_by_name([self.query["principal"]]):
                raise Http404
            yield


def _check_who_can(request: Request, query: dict) -> None:
    """Raise Http404 or Problem (403) for accounts that may not read the list, ValidationError for
    contradictory parameters.
    """
    address = query["entity"]
    if not sees_everything_in(request.user, address):
        visible_entity(request, address)
        check_can_see_all(request)
    elif not request.user.can_see_all:
        visible_entity(request, address)
    if "kind" in query and not query["contents"]:
        raise serializers.ValidationError({"kind": ["this needs `contents=true`"]})
    _check_operation(query, query.get("kind", "") if query["contents"] else address.kind)


def _check_what_can(request: Request, query: dict) -> None:
    """Raise Http404 or Problem (403) for accounts that may not read the list, ValidationError for an unknown
    operation.
    """
    if not request.user.can_see_all and query["principal"] != f"user:{request.user.username}":
        raise Http404
    if "at" in query:
        # the grants of another time do not decide which of the present entities an account may see
        check_can_see_all(request)
    _check_operation(query, query.get("kind", ""))


def _check_operation(query: dict, kind: str) -> None:
    """Raise ValidationError if the kind does not have the operation of the query. kind: empty for any kind."""
    operation = query.get("operation")
    if operation is None:
        return
    try:
        if kind:
            check_operation(kind, operation)
        elif operation not in Privilege.__members__ and not any(
            operation in kind.operations for kind in KINDS.values()
        ):
            raise UnknownOperation(f"`{clip(operation)}` is not an operation of any kind")
    except UnknownOperation as error:
        raise serializers.ValidationError({"operation": [str(error)]}) from None


class NewStewardSerializer(StrictSerializer):
    """A principal that is data steward of a namespace."""

    namespace = AddressText(help_text="The address of a registered namespace.")
    principal = PrincipalText()
    reason = reason_field()


class StewardList(ListEndpoint):
    """List data stewards.

    The users and groups that see everything in a namespace and approve requests for it. Accounts that do
    not see everything get the stewards of the namespaces of which they are stewards.
    """

    route = "stewards"
    operation_id = "stewards_list"
    rows = Stewards

    @operation("stewards_add", check_steward_manager, OutcomeSerializer, body=NewStewardSerializer)
    def post(self) -> Outcome:
        """Assign a data steward.

        With four eyes, the first administrator proposes it, and another one assigns it with the same request.

        For administrators.
        """
        return add_steward(author=self.author, **self.steward)

    @operation("stewards_remove", check_steward_manager, OutcomeSerializer, query=NewStewardSerializer)
    def delete(self) -> Outcome:
        """Remove a data steward.

        For administrators.
        """
        return remove_steward(author=self.author, **self.steward)

    @property
    def steward(self) -> dict:
        return {name: self.data[name] for name in ("namespace", "principal")}


class LimitsSerializer(output.Output):
    """What holders of ADMIN on an entity may grant and revoke on it and inside it."""

    privileges = output.Texts(
        list(Privilege), get=lambda limits: [name for name in Privilege if name in limits.privileges]
    )
    kinds = output.Texts(
        get=lambda limits: None if limits.kinds is None else [kind for kind in KINDS if kind in limits.kinds],
        allow_null=True,
        help_text="Null for all kinds.",
    )
    max_days = output.Integer(help_text="The longest period of a grant in days; 0 for no limit.")


class DelegationSerializer(LimitsSerializer):
    """The limits in force."""

    delegation = output.Boolean(
        get=lambda limits: settings.DELEGATION,
        help_text="Whether DELEGATION is on. Without it, only administrators change grants.",
    )
    upper = LimitsSerializer(
        get=lambda limits: DelegationLimits.from_settings(),
        help_text="The limits from the settings. The other limits cannot exceed them.",
    )


class SetLimitsSerializer(StrictSerializer):
    """New limits. They cannot exceed those of the settings."""

    privileges = List(
        child=Choice(choices=list(Privilege)),
        max_length=len(Privilege),
        help_text="Empty: delegates grant and revoke nothing.",
    )
    kinds = List(
        child=KindText(),
        required=False,
        min_length=1,
        max_length=1_000,
        help_text="Without it, all kinds that the settings allow.",
    )
    max_days = Integer(
        min_value=0, max_value=MAX_DAYS, help_text="0 for no other limit than that of the settings."
    )
    reason = reason_field()


class Delegation(Endpoint):
    route = "delegation-limits"

    @operation(
        "delegation_limits_retrieve",
        check_can_see_all,
        DelegationSerializer,
    )
    def get(self) -> object:
        """Read the limits of delegation.

        For accounts that see everything.
        """
        return DelegationLimits.stored_or_settings()

    @operation(
        "delegation_limits_set",
        changeable_with(Capability.MANAGE_SETTINGS),
        DelegationSerializer,
        body=SetLimitsSerializer,
    )
    def put(self) -> object:
        """Set the limits of delegation.

        Applies to later changes; grants that exist stay as they are. For administrators.
        """
        data = self.data
        set_delegation_limits(
            author=self.author,
            privileges=data["privileges"],
            kinds=data.get("kinds"),
            max_days=data["max_days"],
        )
        return DelegationLimits.stored_or_settings()
