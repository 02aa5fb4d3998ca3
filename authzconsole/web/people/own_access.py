"""The form with which an account gives its own access back: a direct grant, or a membership in a group."""

from django.http import Http404, HttpResponse
from django.urls import reverse

from authzconsole.web.forms import ConsoleForm, FormPage, reason_field
from authzconsole.web.shared.parameters import name_parameter, text_parameter
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.address import address_or_none, parse_grantable
from entities.vocabulary import Privilege
from grants.change_set import Leave, Revoke
from grants.changes import give_back


class GiveBackForm(ConsoleForm):
    refusal = "Nothing was changed"
    reason = reason_field()


class GiveBack(FormPage):
    """Give back the membership in the `group` of the URL, or the grant of the `privilege` on the `entity`."""

    form_class = GiveBackForm
    template_name = "people/changes/give_back.html"

    def prepare(self) -> None:
        name, group = self.request.user.username, name_parameter(self.request, "group")
        address = address_or_none(text_parameter(self.request, "entity"), parse_grantable)
        privilege = text_parameter(self.request, "privilege")
        if group:
            self.change: Revoke | Leave = Leave(name, group)
        elif address is not None and privilege in list(Privilege):
            self.change = Revoke(f"user:{name}", address, Privilege(privilege))
        else:
            raise Http404("name a grant or a group")

    def perform(self, form: GiveBackForm) -> HttpResponse:
        author = self.author(form)
        show_outcome(self.request, give_back(author=author, change=self.change))
        return see_other(reverse("my-access"))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "change": self.change,
            "action": self.request.get_full_path(),
            "back": reverse("my-access"),
        }
