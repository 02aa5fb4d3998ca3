"""The page of the limits of delegation."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.guard import capability_required, check_page_access, request_author
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.rendering import render_page, see_other
from entities.vocabulary import KINDS, Privilege
from grants.authority.delegation_limits import set_delegation_limits
from grants.authority.limits import DelegationLimits
from grants.errors import DelegationError, GrantError
from grants.roles.capabilities import Capability


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.READ_ALL)
def delegation_limits(request: HttpRequest) -> HttpResponse:
    """Show the limits, and change them."""
    limits = DelegationLimits.stored_or_settings()
    if request.method != "POST":
        return _response(request, _form_of(limits))
    check_page_access(request, Capability.MANAGE_SETTINGS, visible_to=[Capability.READ_ALL])
    form = _submitted_form(request.POST)
    try:
        outcome = set_delegation_limits(
            author=request_author(request, form["reason"]),
            privileges=form["privileges"],
            kinds=None if form["all_kinds"] else form["kinds"],
            max_days=_days(form["max_days"]),
        )
    except GrantError as error:
        return _response(
            request, form, fault=as_sentence(error), field=getattr(error, "field", ""), status=400
        )
    messages.success(request, as_sentence(outcome.sentence))
    return see_other(reverse("delegation-limits"))


def _form_of(limits: DelegationLimits) -> dict:
    return {
        "privileges": limits.privileges,
        "all_kinds": limits.kinds is None,
        "kinds": limits.kinds or frozenset(),
        "max_days": str(limits.max_days or ""),
        "reason": "",
    }


def _submitted_form(data: QueryDict) -> dict:
    # unknown names are no choices of the form
    return {
        "privileges": set(data.getlist("privilege")) & set(Privilege),
        "all_kinds": data.get("kinds") != "some",
        "kinds": set(data.getlist("kind")) & set(KINDS),
        "max_days": field_text(data, "max_days").strip()[:10],
        "reason": field_text(data, "reason"),
    }


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() or not text):
        raise DelegationError(f"`{text}` is not a number of days", field="max_days")
    return int(text or 0)


def _response(
    request: HttpRequest, form: dict, *, fault: str = "", field: str = "", status: int = 200
) -> HttpResponse:
    upper = DelegationLimits.from_settings()
    return render_page(
        request,
        "requests/delegation.html",
        {
            "form": form,
            "fault": fault,
            "field": field,
            "is_on": settings.DELEGATION,
            "upper": upper,
            "can_change": request.user.can(Capability.MANAGE_SETTINGS),
            "privileges": [name for name in Privilege if name in upper.privileges],
            "kinds": [
                (name, kind.plural)
                for name, kind in KINDS.items()
                if upper.kinds is None or name in upper.kinds
            ],
        },
        status=status,
    )
