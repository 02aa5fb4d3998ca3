"""The page that changes the members of a group or role from a list of names, and creates the plan."""

from django import forms
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse

from authzconsole.web.effects.forms import effect_context
from authzconsole.web.forms import (
    CODE_INPUT,
    ForAdministrators,
    FormPage,
    OptionalChoiceField,
    PeriodForm,
    Radios,
    RawTextField,
    TextField,
)
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import see_other
from entities.errors import Refusal
from grants.changes import preview
from grants.errors import PlanError
from grants.plans.sources.members import (
    MAX_NAMES,
    VERBS,
    BadNames,
    MembersChange,
    members_change,
    members_plan,
    read_names,
)
from grants.policies.principals import group_text

# the page shows the names of an uploaded list again, so that they can be corrected
MAX_LIST_BYTES = 512 * 1024
TITLES = {
    "add": "Add these members",
    "remove": "Remove these members",
    "replace": "Make these the only members",
}
MAX_SHOWN = 20


class MembersForm(PeriodForm):
    """A list of names, as a file or pasted. A chosen file takes precedence. preview: only show what would change."""

    id_pattern = "members-%s"

    refusal = "No plan was created"

    verb = OptionalChoiceField(default="add", label="Change", choices=TITLES.items(), widget=Radios)
    file = forms.FileField(
        required=False,
        label="File",
        help_text=f"UTF-8 text with one name per line, up to {MAX_LIST_BYTES // 1024:,} kB and {MAX_NAMES:,} names. "
        "A chosen file takes precedence over pasted names.",
        widget=forms.FileInput(attrs={"accept": ".txt,.csv,text/plain,text/csv"}),
        allow_empty_file=True,
    )
    text = RawTextField(
        label="Or paste the names",
        help_text="One per line. Repeated names count once.",
        widget=forms.Textarea(attrs={"class": "mono", "rows": 10, "placeholder": "NAME", **CODE_INPUT}),
    )
    preview = TextField()

    def __init__(self, *args, is_of_role: bool, **kwargs):
        super().__init__(*args, **kwargs)
        if is_of_role:
            self.fields["text"].widget.attrs["placeholder"] = "NAME or group:NAME"

    def has_period(self) -> bool:
        return self.cleaned_data["verb"] != "remove"

    def content(self) -> bytes:
        """Return the chosen file, or else the pasted text. Raise PlanError if it is too long."""
        upload = self.cleaned_data["file"]
        text = self.cleaned_data["text"].encode(errors="surrogatepass")
        raw = text if upload is None else upload.read(MAX_LIST_BYTES + 1)
        if len(raw) > MAX_LIST_BYTES:
            raise PlanError(f"the list is longer than {MAX_LIST_BYTES // 1024:,} kB: split it")
        return raw


class ChangeGroupMembers(ForAdministrators, FormPage):
    """Create a plan from a list of names. With `preview`, only show what it would change."""

    form_class = MembersForm
    template_name = "people/changes/members.html"

    def prepare(self) -> None:
        self.group = principal_or_404(self.kwargs["principal"])
        if not isinstance(self.group, Group):
            raise Http404("only groups and roles have members")

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"is_of_role": principal_link(self.group).type == "role"}

    def get_initial(self) -> dict:
        initial = super().get_initial()
        return initial if initial.get("verb") in VERBS else initial | {"verb": "add"}

    def perform(self, form: MembersForm) -> HttpResponse:
        values, raw = form.cleaned_data, form.content()
        # the text of a file is shown, so that it can be corrected
        form.data = form.data.copy()
        form.data["text"] = raw.decode(errors="replace").removeprefix("\ufeff")
        names = read_names(self.group, raw)
        if values["preview"]:
            change = members_change(self.group, values["verb"], names, values["validity"])
            context = self.get_context_data(form=form, preview=_preview_context(self.request, change))
            return self.render_to_response(context)
        plan = members_plan.create(
            request_author(self.request),
            group=self.group,
            verb=values["verb"],
            names=names,
            validity=values["validity"],
        )
        return see_other(plan_url(plan))

    def refusal_response(self, form: MembersForm, error: Refusal) -> HttpResponse:
        context = {}
        if isinstance(error, BadNames):
            form.errors.clear()
            context["bad_names"] = error
        return self.render_to_response(self.get_context_data(form=form, **context), status=400)

    def get_context_data(self, **context) -> dict:
        address = group_text(self.group.name)
        return super().get_context_data(**context) | {
            "group": principal_link(self.group),
            "back": f"{principal_url('person', address)}#members",
            "url": principal_url("group-members", address),
        }


def _preview_context(request: HttpRequest, change: MembersChange) -> dict:
    """Return what the page says about the change. Runs the queries of its effect, if it changes members."""
    context = {
        "change": change,
        "more_joining": max(0, len(change.join) - MAX_SHOWN),
        "more_leaving": max(0, len(change.leave) - MAX_SHOWN),
    }
    if not change.change_set.changes:
        return context
    shown = preview(change.change_set)
    stranding = shown.strandings if shown.strandings and shown.strandings.entities else None
    return context | {"effect": effect_context(request, shown, stranding)}
