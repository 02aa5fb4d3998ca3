"""Turn a requirement into a condition on users or groups that selects those who meet it.

The entities are fixed by the question, so the database computes most parts of the condition once, as sets of
principals.
"""

from collections.abc import Callable
from dataclasses import field, replace
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from entities.address import Address
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.patterns import patterns_about
from entities.selectors import entity_at
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.evaluation.entity_filters import ALL, NONE, Conditions, on_address, with_privileges
from grants.models import GRANT_SOURCES, PRINCIPAL_TYPES
from grants.policies.grammar import Expression, FactsRead, Parameter, Scope, fold
from grants.policies.question import Question
from grants.querysets import union_all
from grants.validity import in_force, question_time

# With more grants inside a container, each principal is checked separately, which finds the first principals
# early.
MAX_GRANTS_INSIDE = 20_000


@frozen
class PrincipalConditions(Conditions):
    """The conditions that the grants of a principal meet a requirement of the question.

    container: the row of the target, if the requirement depends on the entities or grants inside it.
    has_many_grants: whether there are more than MAX_GRANTS_INSIDE grants on and inside the container.
    at: the time at which grants and memberships must be in force, by default that of the current question.
    """

    question: Question
    container: Entity | None
    has_many_grants: bool
    at: datetime = field(default_factory=question_time)

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Q:
        return self._has_grant_on(self.question.address_at(scope), privileges)

    def has_at_or_below(self) -> Q:
        if self.question.known_target.kind not in CONTAINER_KINDS:
            return self._has_grant_on(self.question.target, ANY)
        if self.container is None:
            return self._has_grant({"content_object__in": patterns_about(self.question.known_target)})
        if not self.has_many_grants:
            return self._has_grant(self.grants_inside) | self._has_grant(
                {"content_object__state": PATTERN, **self._inside}
            )
        condition = NONE
        for grants in self._effective_grants(OuterRef("pk")):
            condition |= Q(IsNull(Subquery(grants.filter(**self._inside).values("pk")[:1]), False))
        return condition

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Q:
        if self.container is None:
            return ALL
        live = Entity.objects.filter(state=State.LIVE, **self._inside).exclude(pk=self.container.pk)
        if kind is not None:
            live = live.filter(kind=kind)
        # a principal with the privilege on all entities has it on the first one, so only few principals must be
        # checked on the others
        has_on_first = self._has_grant(
            {"content_object_id": Subquery(live.values("pk")[:1]), **with_privileges((privilege,))}
        )
        without_privilege = live
        for grants in self._effective_grants(OuterRef(OuterRef("pk"))):
            on_entity = grants.filter(content_object_id=OuterRef("pk"), **with_privileges((privilege,)))
            without_privilege = without_privilege.exclude(
                Q(IsNull(Subquery(on_entity.values("pk")[:1]), False))
            )
        return ~Q(Exists(live)) | has_on_first & Q(IsNull(Subquery(without_privilege.values("pk")[:1]), True))

    def given(self, parameter: Parameter, then: Callable[[], Q]) -> Q:
        return then() if self.question.has_parameter(parameter) else ALL

    @property
    def grants_inside(self) -> dict:
        """The condition that the entity of a grant is on or inside the container.

        An index leads from a container to its entities, but no index leads from a container to its grants.
        """
        return {f"content_object__{column}": value for column, value in self._inside.items()}

    @property
    def _inside(self) -> dict:
        """The condition that an entity is the container or inside it, or that a grant is on the container or
        inside it.
        """
        assert self.container is not None
        return {f"{self.container.kind}_id": self.container.pk}

    def _has_grant_on(self, address: Address | None, privileges: tuple[Privilege, ...]) -> Q:
        """Return the condition that a principal has a grant on exactly `address`.

        It is never true if `address` is None.
        """
        if address is None:
            return NONE
        return self._has_grant({**on_address(address), **with_privileges(privileges)})

    def _has_grant(self, where: dict) -> Q:
        """Return the condition that a principal has a grant that meets `where`, directly or through a group."""
        condition = NONE
        for source in GRANT_SOURCES[self.question.subject_type]:
            grants = source.holder.held_grants.filter(**where, **in_force(at=self.at)).order_by()
            holders = grants.values(source.holder.id_column).distinct()
            if source.membership:
                # the database finds the holders first, which are far fewer than their members
                members = source.memberships.filter(
                    **in_force(at=self.at), **{f"{source.group_column}__in": holders}
                )
                holders = members.values(source.member_column).distinct()
            condition |= Q(pk__in=holders)
        return condition

    def _effective_grants(self, principal: OuterRef) -> list[QuerySet]:
        """Return the effective grants of the outer principal, one queryset for each source."""
        return [
            source.rows(self.at, **{source.subject: principal})
            for source in GRANT_SOURCES[self.question.subject_type]
        ]


def permitted_principals(
    requirement: Expression, question: Question, conditions: PrincipalConditions | None = None
) -> tuple[QuerySet, str]:
    """Return the active principals of the question's subject type that meet `requirement`, and their name
    column.

    conditions: those of a requirement with at least the same leaves; by default, at most two queries read what
    they need.
    """
    is_met = fold(
        requirement, principal_conditions(requirement, question) if conditions is None else conditions
    )
    subjects = PRINCIPAL_TYPES[question.subject_type]
    return subjects.active_principals.filter(is_met), subjects.name_column


def principal_conditions(requirement: Expression, question: Question) -> PrincipalConditions:
    """Return the conditions, with the data on which the leaves of this requirement depend.

    Runs at most two queries.
    """
    read = FactsRead(requirement)
    if question.known_target.kind not in CONTAINER_KINDS or not (read.is_at_or_below or read.all_live):
        return PrincipalConditions(question, None, False)
    conditions = PrincipalConditions(question, entity_at(question.target), False)
    if conditions.container is None or not read.is_at_or_below:
        return conditions
    return replace(conditions, has_many_grants=_has_many_grants(conditions))


def _has_many_grants(conditions: PrincipalConditions) -> bool:
    grants = [
        principal_type.held_grants.filter(**conditions.grants_inside).order_by().values("pk")
        for principal_type in PRINCIPAL_TYPES.values()
    ]
    return union_all(grants)[: MAX_GRANTS_INSIDE + 1].count() > MAX_GRANTS_INSIDE
