"""The forms that rename or remove a user or group. Each first shows the effects of the change."""

from collections.abc import Iterator

from django.contrib.auth.models import Group
from django.db.models import Count
from django.http import HttpResponse
from django.urls import reverse

from authzconsole.models import ApiToken
from authzconsole.sessions import active_sessions
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    FormRefused,
    NameInput,
    TextField,
    reason_field,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.models import State
from grants.change_set import RemovePrincipal
from grants.changes import ChangeSet, Outcome
from grants.models import PlanItem, PlanState, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.hooks import name_guard_fault
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.renaming import rename_group, rename_user


class RenameForm(ConsoleForm):
    id_pattern = "rename-%s"
    name = TextField(label="New name", required=True, strip=False, max_characters=150, widget=NameInput())
    reason = reason_field()


class RenamePrincipal(ForAdministrators, FormPage):
    decorators = (recent_authentication_required,)
    form_class = RenameForm
    template_name = "people/changes/rename.html"

    def prepare(self) -> None:
        self.subject = principal_or_404(self.kwargs["principal"])

    def get_initial(self) -> dict:
        return {"name": _name(self.subject)}

    def perform(self, form: RenameForm) -> HttpResponse:
        subject, new_name = self.subject, form.cleaned_data["name"]
        rename = rename_user if isinstance(subject, User) else rename_group
        author = request_author(self.request, form.cleaned_data["reason"])
        show_outcome(self.request, rename(author=author, name=_name(subject), new_name=new_name))
        type_ = "user" if isinstance(subject, User) else "group"
        return see_other(principal_url("person", f"{type_}:{new_name}"))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            **_page_context(self.subject),
            "effects": list(_rename_effects(self.subject)),
            "guard": "" if self.request.method == "POST" else _guard_text(self.subject),
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

    def prepare(self) -> None:
        self.subject = principal_or_404(self.kwargs["principal"])
        self.loss = loss_if_removed(self.subject)

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        is_revoking = form.is_bound and form.cleaned_data["revoke_grants"]
        return ChangeSet.of(RemovePrincipal(self.kwargs["principal"], is_revoking))

    def check(self, form: ConsoleForm) -> None:
        if self.loss.total and not form.cleaned_data["strand"]:
            raise FormRefused("confirm that entities are left with fewer than two administrators")

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(reverse("people") + ("" if isinstance(self.subject, User) else "?type=group"))

    def get_context_data(self, **context) -> dict:
        subject = self.subject
        grants = dict(subject.grants.order_by().values_list("content_object__state").annotate(Count("pk")))
        context = super().get_context_data(**context)
        return context | {
            **_page_context(subject),
            "effects": list(_removal_effects(subject)),
            "guard": "" if self.request.method == "POST" else _guard_text(subject, is_removal=True),
            "grants": [(state.label.lower(), grants[state]) for state in State if grants.get(state)],
            "total_grants": sum(grants.values()),
            "stranding": self.loss,
            "effect": context["effect"] or self.effect(context["form"]),
        }


def _name(subject: User | Group) -> str:
    return subject.username if isinstance(subject, User) else subject.name


def _guard_text(subject: User | Group, *, is_removal: bool = False) -> str:
    fault = name_guard_fault(subject, is_removal=is_removal)
    verb = "removed" if is_removal else "renamed"
    return f"{principal_link(subject).name} cannot be {verb}: {fault}." if fault else ""


def _rename_effects(subject: User | Group) -> Iterator[str]:
    """Yield a sentence for each effect of a new name."""
    yield f"{_count(capped_count(subject.grants), 'direct grant')} and {_members(subject)} stay."
    if isinstance(subject, User):
        yield (
            f"{_count(capped_count(ApiToken.objects.active().filter(owner=subject)), 'API token')} and "
            f"{_count(capped_count(active_sessions(subject)), 'session')} keep working. The user signs in with the new name."
        )
    yield from _plan_effects(subject)
    yield "The journal, reports and files keep the old name. A later import that names the old one adds it again."


def _removal_effects(subject: User | Group) -> Iterator[str]:
    """Yield a sentence for each effect of the removal, except the revoked grants."""
    yield f"{_members(subject).capitalize()} end."
    if isinstance(subject, User):
        yield (
            f"{_count(capped_count(ApiToken.objects.active().filter(owner=subject)), 'API token')} and "
            f"{_count(capped_count(active_sessions(subject)), 'session')} end. Second factors and sign-in links are deleted."
        )
    yield from _plan_effects(subject)
    yield "The journal keeps the name. A removal cannot be undone."


def _plan_effects(subject: User | Group) -> Iterator[str]:
    kind = "user" if isinstance(subject, User) else "group"
    items = PlanItem.objects.filter(
        plan__state=PlanState.PROPOSED, principal_type=kind, principal_name=_name(subject)
    )
    if total := items.order_by().values("plan").distinct().count():
        yield f"{_count(total, 'proposed plan')} with this {kind} become{'s' if total == 1 else ''} stale."


def _members(subject: User | Group) -> str:
    rows = subject.groups if isinstance(subject, User) else subject.user_set
    return _count(capped_count(rows), "membership")


def _count(total: int, noun: str) -> str:
    return (
        f"over {MAX_COUNTED:,} {noun}s"
        if total > MAX_COUNTED
        else f"{total:,} {noun}{'' if total == 1 else 's'}"
    )


def _page_context(subject: User | Group) -> dict:
    return {"principal": principal_link(subject), "is_user": isinstance(subject, User)}
