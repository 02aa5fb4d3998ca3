"""The manager of a user, who reviews the user's access in reviews with that rule: the section on the page,
and the form.
"""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import name_from_input, principal_or_404
from authzconsole.web.shared.rendering import render_page, see_other
from grants.errors import GrantError
from grants.models import User
from grants.models.reviews import UserManagerLink
from grants.reviews.reviewers import set_manager
from grants.roles.capabilities import Capability

MAX_REPORTS = 10


def manager_section(user: User) -> dict:
    """Return the manager of a user, and the first users that the user manages. Runs two queries."""
    manager = User.objects.filter(report_links__user=user).first()
    reports = list(User.objects.filter(manager_link__manager=user).order_by("username")[: MAX_REPORTS + 1])
    return {
        "manager": principal_link(manager) if manager else None,
        "url": principal_url("person-manager", str(user)),
        "reports": [principal_link(report) for report in reports[:MAX_REPORTS]],
        "max_reports": MAX_REPORTS,
        "is_cut": len(reports) > MAX_REPORTS,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def change_manager(request: HttpRequest, principal: str) -> HttpResponse:
    """Show the form with the manager of a user, and set or remove the manager."""
    user = principal_or_404(principal)
    if not isinstance(user, User):
        raise Http404("groups have no manager")
    link = UserManagerLink.objects.filter(user=user).select_related("manager").first()
    text, fault = str(link.manager) if link else "", ""
    if request.method == "POST":
        text = field_text(request.POST, "manager")
        try:
            outcome = set_manager(
                author=request_author(request, request.POST.get("reason", "").strip()),
                name=user.username,
                manager=name_from_input(text, "user"),
            )
        except GrantError as error:
            fault = f"{error}."
        else:
            messages.add_message(
                request,
                messages.SUCCESS if outcome.has_changed else messages.INFO,
                as_sentence(outcome.sentence),
            )
            return see_other(principal_url("person", principal))
    return render_page(
        request,
        "people/changes/manager.html",
        {
            "principal": principal_link(user),
            "is_user": True,
            "manager": text,
            "fault": fault,
            "reason": request.POST.get("reason", ""),
            "back": principal_url("person", str(user)),
            "url": principal_url("person-manager", str(user)),
            "invalid_field": "manager" if fault else "",
        },
        status=400 if fault else 200,
    )
