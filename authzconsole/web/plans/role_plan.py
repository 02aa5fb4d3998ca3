"""The page that creates a plan from the roles of a `role-mining` report."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from analytics.role_plans import MAX_ROLES, group_names, proposed_roles
from authzconsole.web.forms import CODE_INPUT, ConsoleForm, ForAdministrators, FormPage, TextField
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.reports.results import REPORT_ERRORS, report_fault, run_or_404
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.parameters import number_of
from authzconsole.web.shared.rendering import see_other
from entities.vocabulary import clip
from grants.errors import PlanError
from grants.plans.sources.roles import role_plan


class RolesForm(ConsoleForm):
    """The roles of a report that become groups: on each line the number of a role and the name of its group."""

    id_pattern = "roles-%s"
    refusal = "No plan was created"

    roles = TextField(
        label="Roles and their groups",
        required=True,
        help_text="One per line: the number of the role and the name of its group. Delete the lines of roles that should not "
        "become groups, and change names. The first roles replace the most grants.",
        widget=forms.Textarea(attrs={"class": "mono", "rows": 14, **CODE_INPUT}),
    )

    def groups(self) -> dict[int, str]:
        """Return the name of the group of each role, by number. Raise PlanError for an invalid line."""
        groups: dict[int, str] = {}
        for number, line in enumerate(self.cleaned_data["roles"].splitlines(), start=1):
            role, _, name = line.strip().partition(" ")
            if not role:
                continue
            if not (role.isascii() and role.isdigit() and len(role) < 10):
                raise PlanError(f"line {number}: `{clip(role)}` is not the number of a role")
            if int(role) in groups:
                raise PlanError(f"line {number} repeats role {role}: keep one of the two")
            groups[int(role)] = name.strip()
        return groups


class NewRolePlan(ForAdministrators, FormPage):
    """Create a plan that replaces direct grants by groups, from the roles of a report.

    URL parameter: `size`, the number of roles at first.
    """

    form_class = RolesForm
    template_name = "plans/roles.html"

    def prepare(self) -> None:
        self.run = run_or_404(self.kwargs["pk"])

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        try:
            return super().get(request, *args, **kwargs)
        except REPORT_ERRORS as error:
            messages.error(request, report_fault(self.run, error))
            return see_other(reverse("analysis", args=[self.run.pk]))

    def get_initial(self) -> dict:
        if self.request.method == "POST":
            return {}
        names = group_names(self.run, size=number_of(self.request.GET.get("size", "")) or MAX_ROLES)
        return {"roles": "".join(f"{role} {name}\n" for role, name in sorted(names.items()))}

    def perform(self, form: RolesForm) -> HttpResponse:
        roles = proposed_roles(self.run, form.groups())
        return see_other(
            plan_url(role_plan.create(request_author(self.request), run=self.run.pk, roles=roles))
        )

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "run": self.run,
            "back": reverse("analysis", args=[self.run.pk]),
            "max_roles": MAX_ROLES,
        }
