"""The forms that rename or remove a user or group. Each first shows the effects of the change."""

from django.contrib.auth.models import Group
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from authzconsole.models import ApiToken
from authzconsole.sessions import active_sessions
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormRefused,
    NameInput,
    TextField,
    reason_field,
)
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.models import PATTERN, State
from grants.administrators import Strandings
from grants.change_set import RemovePrincipal, Rename
from grants.changes import ChangeSet, Outcome, Preview
from grants.models import PlanItem, PlanState, User
from grants.principal_names import parse_principal
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.hooks import name_guard_fault
from grants.principals.principal_lists import MAX_COUNTED, capped_count


class RenameForm(ConsoleForm):
    id_pattern = "rename-%s"
    name = TextField(label="New name", required=True, strip=False, max_characters=150, widget=NameInput())
    reason = reason_field()


class RenamePrincipal(ForAdministrators, EffectPage):
    decorators = (recent_authentication_required,)
    form_class = RenameForm
    template_name = "people/changes/rename.html"
    has_forecast = True

    @property
    def change_name(self) -> str:
        return f"Rename {self.kwargs['principal']}"

    def prepare(self) -> None:
        self.subject = principal_or_404(self.kwargs["principal"])

    def get_initial(self) -> dict:
        return {"name": principal_link(self.subject).name}

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        return ChangeSet.of(Rename(self.kwargs["principal"], form.cleaned_data["name"]))

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        link = principal_link(self.subject)
        return see_other(principal_url("person", f"{link.type}:{form.cleaned_data['name']}"))

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context) | {
            "button": "Rename",
            "back": principal_link(self.subject).url,
        }
        if self.is_part:
            return context
        return context | {
            **_page_context(self.request, self.subject),
            "grants": capped_count(self.subject.grants),
        }


class RemovalForm(ConsoleForm):
    """revoke_grants, strand: what is confirmed."""

    id_pattern = "remove-%s"

    revoke_grants = FlagField()
    strand = FlagField()
    reason = reason_field()


class RemovalPage(ForAdministrators, EffectPage):
    decorators = (recent_authentication_required,)
    form_class = RemovalForm
    template_name = "people/changes/remove.html"
    has_forecast = True

    @property
    def change_name(self) -> str:
        return f"Remove {self.kwargs['principal']}"

    def prepare(self) -> None:
        self.subject = principal_or_404(self.kwargs["principal"])
        self.stranding_url = principal_url("person-off-board", self.kwargs["principal"])

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        return ChangeSet.of(RemovePrincipal(self.kwargs["principal"], form.cleaned_data["revoke_grants"]))

    def stranding(self, form: ConsoleForm) -> Strandings:
        return loss_if_removed(self.subject)

    def effect_context(self, form: ConsoleForm, changes: ChangeSet | Preview) -> dict:
        return super().effect_context(form, changes) | {"strand_field": True}

    def check(self, form: ConsoleForm) -> None:
        if not form.cleaned_data["strand"] and self.stranding(form).total:
            raise FormRefused("confirm that entities are left with fewer than two ADMIN holders")

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        link = principal_link(self.subject)
        return see_other(reverse("people") + ("" if link.type == "user" else f"?type={link.type}"))

    def get_context_data(self, **context) -> dict:
        link = principal_link(self.subject)
        context = super().get_context_data(**context) | {
            "button": f"Remove {link.type}",
            "is_danger": True,
            "back": link.url,
        }
        if self.is_part:
            return context
        return context | {
            **_page_context(self.request, self.subject, is_removal=True),
            "grants": grants_by_state(self.subject),
        }


def grants_by_state(subject: User | Group) -> list[tuple[str, int]]:
    """Return the number of direct grants on planned, live and deleted entities and on patterns, without those that are 0. Runs one query."""
    counts = dict(subject.grants.order_by().values_list("content_object__state").annotate(Count("pk")))
    states = [*((state.value, state.label.lower()) for state in State), (PATTERN, PATTERN)]
    return [(label, counts[state]) for state, label in states if counts.get(state)]


def roles_of(group: Group) -> list[str]:
    """Return the roles that the group is in, by name. Runs one query."""
    return list(group.roles.order_by("role__name").values_list("role__name", flat=True))


def ended_access(user: User) -> dict:
    """Return the numbers of sessions and API tokens of a user."""
    return {
        "sessions": capped_count(active_sessions(user)),
        "tokens": capped_count(ApiToken.objects.active().filter(owner=user)),
    }


def _page_context(request: HttpRequest, subject: User | Group, *, is_removal: bool = False) -> dict:
    """Return the principal, why it cannot be changed, and the numbers of what the change affects."""
    link, is_user = principal_link(subject), isinstance(subject, User)
    fault = "" if request.method == "POST" else name_guard_fault(subject, "" if is_removal else link.name)
    type_, name = parse_principal(link.address)
    items = PlanItem.objects.filter(plan__state=PlanState.PROPOSED, principal_type=type_, principal_name=name)
    return {
        "principal": link,
        "is_user": is_user,
        "guard": f"{link.name} cannot be {'removed' if is_removal else 'renamed'}: {fault}." if fault else "",
        "max_counted": MAX_COUNTED,
        "memberships": capped_count(subject.groups)
        if is_user
        else capped_count(subject.user_set) + capped_count(subject.role_groups),
        "plans": items.order_by().values("plan").distinct().count(),
        **(ended_access(subject) if is_user else {"roles": roles_of(subject) if is_removal else []}),
    }
