"""The pages of break-glass access: the list with the form that starts it, and one use with its review."""

from collections.abc import Callable
from datetime import timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from authzconsole.common.messages import as_sentence
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.rendering import render_page, see_other
from grants.authority.break_glass import (
    can_break_glass,
    end_break_glass,
    has_break_glass_access,
    review_break_glass,
    start_break_glass,
)
from grants.errors import GrantError
from grants.models import BreakGlassUse
from grants.roles.capabilities import Capability

COLUMNS = ("Use", "Account", "Started", "State", "Reason")
ROWS_PER_PAGE = 50


@require_safe
@capability_required(Capability.READ_JOURNAL)
def break_glass_list(request: HttpRequest) -> HttpResponse:
    return _render_list(request)


@require_safe
@capability_required(Capability.READ_JOURNAL)
def break_glass_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _render_use(request, _use_or_404(pk))


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_JOURNAL])
@recent_authentication_required
def start_break_glass_view(request: HttpRequest) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()
    try:
        use = start_break_glass(author=request_author(request, reason))
    except GrantError as error:
        return _render_list(request, reason=reason, fault=as_sentence(error), status=400)
    return see_other(reverse("journal-break-glass-use", args=[use.pk]))


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_JOURNAL])
def end_break_glass_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _change(
        request,
        pk,
        lambda: end_break_glass(author=request_author(request), number=pk),
        "The access has ended.",
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_JOURNAL])
def review_break_glass_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _change(
        request,
        pk,
        lambda: review_break_glass(
            author=request_author(request), number=pk, comment=request.POST.get("comment", "")
        ),
        "The review is closed.",
    )


def _change(
    request: HttpRequest, pk: int, service: Callable[[], BreakGlassUse], message: str
) -> HttpResponse:
    use = _use_or_404(pk)
    try:
        service()
    except GrantError as error:
        return _render_use(
            request, use, fault=as_sentence(error), comment=request.POST.get("comment", ""), status=400
        )
    messages.success(request, message)
    return see_other(reverse("journal-break-glass-use", args=[pk]))


def _render_list(
    request: HttpRequest, *, reason: str = "", fault: str = "", status: int = 200
) -> HttpResponse:
    uses = QuerySetSequence(BreakGlassUse.objects.order_by("-pk"))
    return render_page(
        request,
        "journal/break_glass/list.html",
        {
            "columns": COLUMNS,
            "page": paginate_sequence(request, uses, max_rows=ROWS_PER_PAGE, name="page"),
            "reason": reason,
            "fault": fault,
            "can_start": can_break_glass(request.user) and not has_break_glass_access(request.user.pk),
        },
        status=status,
    )


def _render_use(
    request: HttpRequest, use: BreakGlassUse, *, fault: str = "", comment: str = "", status: int = 200
) -> HttpResponse:
    can_change = request.user.can(Capability.CHANGE_GRANTS)
    # the filter has whole seconds, so the end is rounded up
    times = {"since": use.started_at, "until": use.ends_at + timedelta(seconds=1)}
    filters = {"actor": use.account_name, **{name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in times.items()}}
    return render_page(
        request,
        "journal/break_glass/page.html",
        {
            "use": use,
            "fault": fault,
            "comment": comment,
            "can_change": can_change,
            "is_own": use.account_id == request.user.pk,
            "journal_url": f"{reverse('journal')}?{urlencode(filters)}",
        },
        status=status,
    )


def _use_or_404(pk: int) -> BreakGlassUse:
    use = BreakGlassUse.objects.filter(pk=pk).first()
    if use is None:
        raise Http404("there is no such break-glass access")
    return use
