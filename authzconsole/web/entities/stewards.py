"""The data stewards of a namespace: the section on its page, and the page on which administrators assign and
remove them.
"""

from django.http import Http404, HttpRequest, HttpResponse

from authzconsole.web.forms import ConsoleForm, FormPage, OptionalChoiceField, PrincipalField, reason_field
from authzconsole.web.shared.guard import entity_or_404
from authzconsole.web.shared.links import entity_tab_url
from authzconsole.web.shared.principal_input import with_default_type
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.models import Entity
from grants.authority.proposals import open_proposals
from grants.authority.stewards import sees_everything_in
from grants.models import NamespaceSteward
from grants.policies.policy import Generation
from grants.roles.capabilities import Capability
from grants.stewards import add_steward, remove_steward

SERVICES = {"add": add_steward, "remove": remove_steward}
MAX_STEWARDS = 200


def stewards_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section; None if the entity is no namespace, the account may not see it, or the page shows
    the past.
    """
    if (
        entity.kind != "namespace"
        or getattr(request, "past", None)
        or not sees_everything_in(request.user, entity)
    ):
        return None
    return {
        **_stewards(entity),
        "is_plain": not request.user.can_see_all,
        "can_change": request.user.can(Capability.MANAGE_SETTINGS),
    }


def _stewards(namespace: Entity) -> dict:
    rows = NamespaceSteward.objects.select_related("user", "group").filter(namespace=namespace.key)
    stewards = list(rows.order_by("group__name", "user__username")[: MAX_STEWARDS + 1])
    return {"rows": stewards[:MAX_STEWARDS], "has_more": len(stewards) > MAX_STEWARDS}


class StewardForm(ConsoleForm):
    """verb: `add` or `remove`."""

    id_pattern = "steward-%s"

    verb = OptionalChoiceField(default="add", choices=[(verb, verb) for verb in SERVICES])
    principal = PrincipalField(label="User or group", required=True)
    reason = reason_field()


class StewardsPage(FormPage):
    """List the stewards of a namespace, and assign or remove one, as the posted `verb` says."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    form_class = StewardForm
    template_name = "entities/stewards/page.html"

    def prepare(self) -> None:
        self.namespace = entity_or_404(self.request, self.kwargs["address"])
        if self.namespace.kind != "namespace":
            raise Http404("only namespaces have data stewards")

    def perform(self, form: StewardForm) -> HttpResponse:
        values = form.cleaned_data
        outcome = SERVICES[values["verb"]](
            author=self.author(form),
            namespace=self.namespace.address,
            principal=with_default_type(values["principal"]),
        )
        show_outcome(self.request, outcome)
        return see_other(self.request.path)

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            **_stewards(self.namespace),
            "proposals": open_proposals(
                "steward-propose", "steward-add", entity=str(self.namespace)
            ).values(),
            "target": self.namespace,
            "back": entity_tab_url(self.namespace, "access"),
            "action": self.request.path,
            "max_stewards": MAX_STEWARDS,
        }
