"""The checklist that off-boards a user with one plan, and the entities that removing a group would strand."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from authzconsole.common.messages import READ_ONLY_ACCOUNT
from authzconsole.web.forms import ConsoleForm, FlagField, FormPage, FormRefused, TextField
from authzconsole.web.people.names import ended_access, grants_by_state, roles_of
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.links import address_url, principal_link, principal_url
from authzconsole.web.shared.principal_input import (
    principal_from_input,
    principal_or_404,
    similar_principals,
    with_default_type,
)
from authzconsole.web.shared.rendering import see_other
from entities.frozen import frozen
from entities.vocabulary import quantity
from grants.models import AccessRequest, GuardrailException, NamespaceSteward, RequestState, User
from grants.models.reviews import Campaign, CampaignState, ReviewItem, UserManagerLink
from grants.plans.sources.off_boarding import (
    HeirCandidate,
    HeldEntity,
    OffBoarding,
    heir_candidates,
    held_entities,
    off_boarding_plan,
)
from grants.principal_names import parse_principal, principals_by_name
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.reviews.selection import OPEN_ITEMS
from grants.roles.capabilities import Capability

MAX_PRINCIPALS = 20
# rows with a field of their own; other entities are covered by the fields of the namespaces and of the
# stranded entities
MAX_ENTITIES = 200
MAX_NAMESPACES = 100
MAX_CANDIDATES = 4
MAX_LINKS = 5
ENTITY_PREFIX, NAMESPACE_PREFIX = "entity-", "inside-"
STEPS = ("deactivate", "leave_groups", "revoke_grants")


class OffBoardingForm(ConsoleForm):
    """The steps, and who receives what the user holds: `entity-ADDRESS` and `inside-ADDRESS` name the principals, separated
    by commas, that receive the grants on an entity, and on everything inside a namespace.
    """

    deactivate = FlagField()
    leave_groups = FlagField()
    revoke_grants = FlagField()
    stranded_to = TextField()
    accept = FlagField()

    def heirs(self, name: str) -> str:
        """Return the text of a field with principals."""
        return self.data.get(name, "").replace("\0", "")

    def choices(self, user: User) -> OffBoarding:
        values = self.cleaned_data
        return OffBoarding(
            user.username,
            *(values[step] for step in STEPS),
            entity_heirs=self._heirs_by_address(ENTITY_PREFIX),
            namespace_heirs=self._heirs_by_address(NAMESPACE_PREFIX),
            stranded_heirs=_principals(values["stranded_to"]),
            accept_no_administrator=values["accept"],
        )

    def _heirs_by_address(self, prefix: str) -> dict[str, list[str]]:
        return {
            name.removeprefix(prefix): heirs
            for name in self.data
            if name.startswith(prefix) and (heirs := _principals(self.heirs(name)))
        }


def _principals(text: str) -> list[str]:
    """Return the principals of a field, separated by commas."""
    return [with_default_type(principal_from_input(part)) for part in text.split(",") if part.strip()]


class OffBoard(FormPage):
    """Show the checklist of a user, and create its plan; for a group, show what its removal would strand."""

    capabilities = (Capability.READ_ALL,)
    form_class = OffBoardingForm

    def prepare(self) -> None:
        self.subject = principal_or_404(self.kwargs["principal"])

    def get_template_names(self) -> list[str]:
        is_group = isinstance(self.subject, Group)
        return [f"people/changes/{'group_removal' if is_group else 'off_board'}.html"]

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if isinstance(self.subject, Group):
            return self.get(request)
        if not request.user.can_administer:
            raise PermissionDenied(READ_ONLY_ACCOUNT)
        return super().post(request, *args, **kwargs)

    def get_initial(self) -> dict:
        return dict.fromkeys(STEPS, True)

    def perform(self, form: OffBoardingForm) -> HttpResponse:
        choices = form.choices(self.subject)
        if unknown := sorted(choices.heirs - principals_by_name(choices.heirs).keys()):
            raise FormRefused(_unknown_text(unknown[0]))
        return see_other(plan_url(off_boarding_plan.create(request_author(self.request), choices)))

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context) | {
            "principal": principal_link(self.subject),
            "can_change": self.request.user.can_administer,
            "max_counted": MAX_COUNTED,
        }
        if isinstance(self.subject, Group):
            return context | _group_context(self.subject)
        return context | self._user_context(context["form"])

    def _user_context(self, form: OffBoardingForm) -> dict:
        user = self.subject
        held = held_entities(user)
        candidates = heir_candidates(user, held, MAX_CANDIDATES)
        stranded = [row for row in held if row.is_stranded]
        groups, grants = list(user.groups.order_by("name")), grants_by_state(user)
        return ended_access(user) | {
            "user": user,
            "duties": list(_duties(user)),
            "groups": groups[:MAX_PRINCIPALS],
            "total_groups": len(groups),
            "grants": grants,
            "total_grants": sum(total for _, total in grants),
            "total_held": len(held),
            "total_stranded": len(stranded),
            "without_admin": sum(row.admin_count == 0 for row in stranded),
            "rows": [
                _entity_row(row, form) | {"id": f"heirs-{number}"}
                for number, row in enumerate(held[:MAX_ENTITIES])
            ],
            "max_entities": MAX_ENTITIES,
            "namespaces": _namespace_rows(held, form, candidates),
            "candidates": candidates[None],
            "stranded_to": form["stranded_to"].value() or "",
        }


@frozen
class Duty:
    """What a user does for others, or waits for. what: the number of it. links: texts and URLs of the first ones, without
    `more` others. then: what happens with it.
    """

    what: str
    links: list[tuple[str, str]]
    more: int
    then: str


def _duties(user: User) -> Iterator[Duty]:
    """Yield what ends with the account; see `end_duties`. Runs at most twelve queries."""

    def duty(
        rows: QuerySet, names: tuple[str, str], link: Callable, then: str, total: int | None = None
    ) -> Iterator[Duty]:
        if count := rows.count():
            links = [link(row) for row in rows[:MAX_LINKS]]
            yield Duty(
                quantity(count if total is None else total, *names), links, max(0, count - MAX_LINKS), then
            )

    yield from duty(
        NamespaceSteward.objects.filter(user=user).order_by("namespace"),
        ("stewardship", "stewardships"),
        lambda row: (str(row.address), address_url("stewards", row.address)),
        "ends; name another data steward of the namespace",
    )
    items = ReviewItem.objects.filter(OPEN_ITEMS, reviewer=user, campaign__state=CampaignState.OPEN)
    yield from duty(
        Campaign.objects.filter(pk__in=items.values("campaign")).order_by("pk"),
        ("open review item", "open review items"),
        lambda row: (
            str(row),
            reverse("review", args=[row.pk], query={"reviewer": user.username, "answer": "open"}),
        ),
        "goes to the escalation of the review, and answered items to the administrators",
        items.count(),
    )
    yield from duty(
        AccessRequest.objects.filter(Q(subject=user) | Q(creator=user), state=RequestState.PENDING).order_by(
            "pk"
        ),
        ("pending request", "pending requests"),
        lambda row: (str(row), reverse("request", args=[row.pk])),
        "is withdrawn, also if it is for another user",
    )
    yield from duty(
        User.objects.filter(pk__in=UserManagerLink.objects.filter(manager=user).values("user")).order_by(
            "username"
        ),
        ("managed user", "managed users"),
        lambda row: (row.username, principal_url("person", str(row))),
        "has no manager then; name another one on the page of the user",
    )
    yield from duty(
        GuardrailException.objects.filter(user=user).select_related("guardrail").order_by("pk"),
        ("exception from a guardrail", "exceptions from guardrails"),
        lambda row: (row.guardrail.name, reverse("policies-guardrail", args=[row.guardrail.name])),
        "ends",
    )


def _entity_row(row: HeldEntity, form: OffBoardingForm) -> dict:
    name = f"{ENTITY_PREFIX}{row.entity}"
    return {"held": row, "name": name, "heirs": form.heirs(name)}


def _unknown_text(heir: str) -> str:
    similar = " or ".join(similar_principals(parse_principal(heir)[1]))
    return f"{heir} does not exist: {f'do you mean {similar}?' if similar else 'correct the name'}"


def _namespace_rows(
    held: Iterable[HeldEntity],
    form: OffBoardingForm,
    candidates: Mapping[int | None, list[HeirCandidate]],
) -> list[dict]:
    totals = Counter(row.entity.namespace for row in held if row.entity.namespace is not None)
    names = sorted(totals, key=lambda namespace: namespace.key)[:MAX_NAMESPACES]
    return [
        {
            "namespace": namespace,
            "total": totals[namespace],
            "name": f"{NAMESPACE_PREFIX}{namespace}",
            "heirs": form.heirs(f"{NAMESPACE_PREFIX}{namespace}"),
            "id": f"inside-{number}",
            "candidates": candidates.get(namespace.pk, []),
        }
        for number, namespace in enumerate(names)
    ]


def _group_context(group: Group) -> dict:
    """Return the entities that removing the group would strand, and its active members, who lose the privileges that they hold
    only through the group.
    """
    loss, members = loss_if_removed(group), group.user_set.active_principals()
    return {
        "loss": loss,
        "more": loss.total - len(loss.entities),
        "grants": capped_count(group.grants),
        "roles": roles_of(group),
        "total_members": capped_count(members),
        "members": list(members.order_by("username")[:MAX_PRINCIPALS]),
    }
