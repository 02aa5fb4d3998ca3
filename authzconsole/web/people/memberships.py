"""The form that adds a user to a group or role, or a group to a role, or removes one from it. Removing requires confirmation."""

from django import forms
from django.http import HttpResponse

from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    ForAdministrators,
    OptionalChoiceField,
    PeriodForm,
    PrincipalField,
    TextField,
    reason_field,
)
from authzconsole.web.shared.links import principal_link_from_text, principal_url
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import requested_section, see_other, show_outcome
from authzconsole.web.shared.times import fields_of_period
from grants.administrators import Strandings
from grants.change_set import Exclude, Include, Join, Leave
from grants.changes import ChangeSet, Outcome
from grants.models import GROUP, USER, GroupGrant, RoleGroup
from grants.policies.principals import (
    ROLE_PREFIX,
    group_text,
    is_principal_text,
    principal_text,
    type_and_name,
)
from grants.principal_names import principals_by_name
from grants.principals.administrator_loss import (
    loss_if_group_excluded,
    loss_if_member_removed,
)
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.querysets import memberships

VERBS = ("add", "remove")
TITLES = {
    "add": "Add to a {type}",
    "remove": "Remove from the {type}",
    "period": "Change the period of a membership",
}
BUTTONS = {"add": "Add to {type}", "remove": "Remove from {type}", "period": "Change period"}


class MembershipForm(PeriodForm):
    """A membership. page: of the principal that is shown afterwards."""

    id_pattern = "member-%s"

    verb = OptionalChoiceField(default="add", choices=[(verb, verb) for verb in VERBS])
    page = TextField(widget=forms.HiddenInput)
    user = PrincipalField(only="user", label="User", placeholder="NAME", required=True)
    group = PrincipalField(only="group", label="Group", placeholder="NAME", required=True)
    reason = reason_field()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self["verb"].value() == "remove":
            self.fields["reason"].widget.attrs["autofocus"] = True

    def has_period(self) -> bool:
        return self.cleaned_data["verb"] == "add"

    def member(self) -> tuple[str, str, str]:
        """Return the type and the name of the member, and the group. Only a role has groups as members."""
        user, group = (name_from_input(self[name].value() or "", name) for name in ("user", "group"))
        type_, name = type_and_name(user)
        return (
            *((type_, name) if type_ == GROUP.name and group.startswith(ROLE_PREFIX) else (USER.name, user)),
            group,
        )

    def page_url(self) -> str:
        page, group = self["page"].value() or "", self["group"].value() or ""
        return principal_url(
            "person", page if is_principal_text(page) else group_text(name_from_input(group, "group"))
        )


class ChangeMembership(ForAdministrators, EffectPage):
    """Add a user to a group, or remove one from it. Removing requires confirmation."""

    form_class = MembershipForm
    template_name = "people/member.html"

    def get_template_names(self) -> list[str]:
        is_dialog = requested_section(self.request) == "dialog"
        return ["people/_member_form.html"] if is_dialog else super().get_template_names()

    def change_set(self, form: MembershipForm) -> ChangeSet:  # type: ignore[override]
        values = form.cleaned_data
        type_, name, group = form.member()
        add, remove = (Join, Leave) if type_ == USER.name else (Include, Exclude)
        is_join = values["verb"] == "add"
        return ChangeSet.of(add(name, group, values["validity"]) if is_join else remove(name, group))

    def stranding(self, form: MembershipForm) -> Strandings | None:  # type: ignore[override]
        type_, name, group = form.member()
        names = principal_text(type_, name), group_text(group)
        found = principals_by_name(names) if form.cleaned_data["verb"] == "remove" else {}
        loss = loss_if_member_removed if type_ == USER.name else loss_if_group_excluded
        return loss(*map(found.get, names)) if len(found) == len(names) else None

    def done(self, form: MembershipForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(form.page_url())

    def get_context_data(self, **context) -> dict:
        """Return the context of the page, of the dialog, and of the part with the effect and the buttons."""
        form = context["form"]
        verb = form["verb"].value() if form["verb"].value() in VERBS else "add"
        type_, name, group = form.member()
        members = (
            memberships().filter(user__username=name, group__name=group)
            if type_ == USER.name
            else RoleGroup.objects.filter(group__name=name, role__name=group)
        )
        stored = members.first() if verb == "add" else None
        if stored is not None and self.request.method != "POST" and form.is_period_empty:
            form.initial |= fields_of_period(stored.validity)
        group_link = principal_link_from_text(group_text(group))
        return super().get_context_data(**context) | {
            "verb": verb,
            "max_counted": MAX_COUNTED,
            "is_danger": verb == "remove",
            "button": BUTTONS["period" if stored else verb].format(type=group_link.type),
            "user_link": principal_link_from_text(principal_text(type_, name)),
            "group_link": group_link,
            "grants": capped_count(GroupGrant.objects.filter(group__name=group)),
            "back": form.page_url(),
            "title": TITLES["period" if stored else verb].format(type=group_link.type),
            "stored": stored,
            "changed_period": stored.validity if stored and stored.validity.is_limited else None,
        }
