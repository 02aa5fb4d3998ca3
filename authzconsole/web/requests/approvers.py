"""The page of the groups that decide about requests for namespaces."""

from django.http import HttpResponse
from django.urls import reverse

from authzconsole.web.forms import AddressField, ConsoleForm, FormPage, PrincipalField
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.rendering import see_other, show_outcome
from grants.authority.proposals import open_proposals
from grants.models import NamespaceApprovers
from grants.requests.approvers import set_namespace_approvers
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50


class ApproversForm(ConsoleForm):
    namespace = AddressField(label="Namespace", placeholder="namespace:NAME", required=True)
    group = PrincipalField(only="group", label="Group")


class NamespaceApproversPage(FormPage):
    """List the groups, and change the group of one namespace."""

    capabilities = (Capability.READ_ALL,)
    change_capabilities = (Capability.CHANGE_GRANTS,)
    form_class = ApproversForm
    template_name = "requests/approvers.html"

    def perform(self, form: ApproversForm) -> HttpResponse:
        namespace, group = form.cleaned_data["namespace"], form.cleaned_data["group"]
        author = request_author(self.request)
        show_outcome(self.request, set_namespace_approvers(author=author, namespace=namespace, group=group))
        return see_other(reverse("request-approvers"))

    def get_context_data(self, **context) -> dict:
        rows = NamespaceApprovers.objects.select_related("group")
        page = paginate_sequence(self.request, rows, max_rows=ROWS_PER_PAGE)
        return super().get_context_data(**context) | {
            "page": page,
            "proposals": open_proposals("approvers-propose", "approvers-set").values(),
            "can_change": self.request.user.can_administer,
        }
