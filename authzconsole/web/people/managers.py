"""The form of the manager of a user, who reviews the user's access in reviews with that rule."""

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.utils.html import escape

from authzconsole.common.messages import as_sentence
from authzconsole.web.forms import ConsoleForm, ForAdministrators, FormPage, PrincipalField, reason_field
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import see_other
from grants.models import User
from grants.reviews.reviewers import set_manager


def manager_of(user: User) -> User | None:
    return User.objects.filter(report_links__user=user).first()


class ManagerForm(ConsoleForm):
    id_pattern = "manager-%s"
    manager = PrincipalField(only="user", label="Manager")
    reason = reason_field()

    def refuse(self, error: Exception) -> None:
        self.add_error("manager", self.refusal_text(error))


class ChangeManager(ForAdministrators, FormPage):
    """Show the form with the manager of a user, and set or remove the manager."""

    form_class = ManagerForm
    template_name = "people/changes/manager.html"

    def prepare(self) -> None:
        self.user = principal_or_404(self.kwargs["principal"])
        if not isinstance(self.user, User):
            raise Http404("groups have no manager")

    def get_initial(self) -> dict:
        return {"manager": str(manager_of(self.user) or "")}

    def get_form(self) -> ManagerForm:
        form = super().get_form()
        form.fields["manager"].help_text = (
            f"The manager reviews the access of {escape(self.user.username)} in reviews by managers. "
            "Being a manager gives no access. Leave it empty for no manager."
        )
        return form

    def perform(self, form: ManagerForm) -> HttpResponse:
        outcome = set_manager(
            author=self.author(form),
            name=self.user.username,
            manager=form.cleaned_data["manager"],
        )
        level = messages.SUCCESS if outcome.has_changed else messages.INFO
        messages.add_message(self.request, level, as_sentence(outcome.sentence))
        return see_other(principal_url("person", str(self.user)))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "principal": principal_link(self.user),
            "is_user": True,
        }
