"""The list of reviews, the page of a review with its items, and the downloads."""

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.runs.selectors import waiting_reason
from analytics.storage import StorageError
from authzconsole.common.zip_files import zip_response
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.reviews.item_rows import items_response, stream_items
from authzconsole.web.forms import ConsoleForm
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import keyset_page, paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from authzconsole.web.shared.times.periods import exact_time
from entities.vocabulary import KINDS, Privilege
from grants.evidence.signing import public_key
from grants.journal import read_only_reason
from grants.models import JobState, Plan, privilege_of
from grants.models.reviews import (
    Answer,
    Campaign,
    CampaignState,
    ItemSource,
    ReviewItem,
)
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.finishing import reason_without_plan, summary
from grants.reviews.removals import load_current_removal, with_current_removal
from grants.reviews.scope import parse_scope
from grants.reviews.selection import (
    OPEN,
    REMOVED,
    ItemFilter,
    matching_items,
    visible_campaigns,
    visible_items,
)
from grants.reviews.shares import largest_open_shares, share_to_sign_off, visible_totals, waiting_items
from grants.roles.capabilities import Capability

COLUMNS = ("Review", "State", "Answered", "Deadline", "Started")
REVIEWS_PER_PAGE = 25
ITEMS_PER_PAGE = 50
MAX_COUNTED = 99
# a large review has thousands; the list of reviewers shows all of them
SHOWN_REVIEWERS = 10
ALL = "all"
# the answers of the filter, with their labels
ANSWER_CHOICES = (
    (OPEN, "To answer"),
    (Answer.KEEP.value, "Kept"),
    (Answer.REVOKE.value, "To revoke"),
    (Answer.SHORTEN.value, "To shorten"),
    (REMOVED, "Removed"),
    (ALL, "All"),
)
FLAG_LABELS = (
    ("unused", "No known use"),
    ("redundant", "Also through a group"),
    ("strands", "Leaves too few administrators"),
    ("ended", "Ended"),
    ("new", "New since the last review"),
    ("changed", "Answered differently"),
    ("escalated", "Escalated"),
)
TEXT_FILTERS = ("principal", "namespace", "group", "reviewer")
# the worker changes the review, and the page updates itself
WORKING = (CampaignState.PREPARING, CampaignState.FINISHING)
CANCELLABLE = (CampaignState.PREPARING, CampaignState.OPEN, CampaignState.FAILED)
SECTION = "review"
FILE_TYPES = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


@require_safe
def review_list(request: HttpRequest) -> HttpResponse:
    """List the reviews that the account sees: all, or those in which it has items."""
    rows = visible_campaigns(request.user).order_by("-pk")
    page = paginate_sequence(request, rows, max_rows=REVIEWS_PER_PAGE)
    totals = visible_totals(request.user, page.rows)
    return render_page(
        request,
        "reviews/list.html",
        {
            "columns": COLUMNS,
            "page": page,
            "can_start": request.user.can_administer,
            "rows": [(row, totals[row.pk]) for row in page.rows],
        },
    )


@require_safe
def review_count(request: HttpRequest) -> HttpResponse:
    """Return the number of items that wait for the account, as a badge of the navigation; 204 if there are
    none.
    """
    count = waiting_items(request.user)
    if not count:
        return HttpResponse(status=204)
    return render_page(request, "reviews/_count.html", {"count": count, "limit": MAX_COUNTED})


@require_safe
def review_page(request: HttpRequest, pk: int) -> HttpResponse:
    return render_review(request, review_or_404(request, pk))


@require_safe
def review_file(request: HttpRequest, pk: int, extension: str) -> HttpResponse:
    """Stream the items that the account sees and that meet the filter."""
    campaign = review_or_404(request, pk)
    if extension not in FILE_TYPES:
        raise Http404("there is no such format")
    items = matching_items(visible_items(request.user, campaign), item_filter(request, campaign))
    rows = stream_items(with_current_removal(items, campaign))
    return items_response(rows, campaign, extension, FILE_TYPES[extension])


@require_safe
@capability_required(Capability.READ_ALL)
def review_bundle(request: HttpRequest, pk: int) -> HttpResponse:
    """Stream the evidence of a finished review."""
    campaign = review_or_404(request, pk)
    if not campaign.path:
        raise Http404("there is no evidence yet")
    try:
        chunks = bundle_chunks(campaign.path)
    except (StorageError, OSError):
        raise Http404("the file cannot be read") from None
    return zip_response(chunks, f"review-{campaign.pk}")


def review_or_404(request: HttpRequest, pk: int) -> Campaign:
    """Return the review if the account sees it. Raise Http404 otherwise."""
    campaign = visible_campaigns(request.user).filter(pk=pk).select_related("previous").first()
    if campaign is None:
        raise Http404("there is no such review")
    return campaign


def review_url(campaign: Campaign) -> str:
    return reverse("review", args=[campaign.pk])


def item_filter(request: HttpRequest, campaign: Campaign) -> ItemFilter:
    """Return the filter in the URL. Invalid values are ignored.

    Without an answer in the URL, it selects the items to answer, and all items when the review is not open
    any more.
    """
    default = OPEN if campaign.is_open else ALL
    answer = choice_parameter(request, "answer", [value for value, _ in ANSWER_CHOICES]) or default
    return ItemFilter(
        answer="" if answer == ALL else answer,
        source=choice_parameter(request, "source", ItemSource.values),
        kind=choice_parameter(request, "kind", KINDS),
        privilege=choice_parameter(request, "privilege", list(Privilege)),
        **{name: text_parameter(request, name) for name in TEXT_FILTERS},
        **{name: request.GET.get(name) == "yes" for name, _ in FLAG_LABELS},
    )


def render_review(
    request: HttpRequest, campaign: Campaign, form: ConsoleForm | None = None, *, status: int = 200
) -> HttpResponse:
    """Render the page of a review, or its progress for htmx while the worker prepares or finishes it.

    form: of a step that was refused.

    Runs a fixed number of queries for reviewers, and for accounts that see everything.
    """
    filter_ = item_filter(request, campaign)
    items = matching_items(visible_items(request.user, campaign), filter_).select_related("reviewer")
    page = keyset_page(request, items, "place", max_rows=ITEMS_PER_PAGE)
    load_current_removal(page.rows, campaign)
    totals = visible_totals(request.user, [campaign])[campaign.pk]
    details = _details(campaign) if request.user.can_see_all else {}
    share = share_to_sign_off(
        request.user, campaign.shares.filter(Q(reviewer=request.user) | Q(reviewer=None))
    )
    context = {
        "review": campaign,
        "page": page,
        "rows": [item_row(item) for item in page.rows],
        "form": form,
        "totals": totals,
        "filter": filter_,
        "answer_choices": ANSWER_CHOICES,
        "answer": filter_.answer or ALL,
        "flags": [(name, label, getattr(filter_, name)) for name, label in FLAG_LABELS],
        "kinds": list(KINDS),
        "privileges": list(Privilege),
        "sources": ItemSource.choices,
        "has_filter": bool({name for name in filter_.as_mapping() if name != "answer"}),
        "hidden_filter": filter_fields(filter_),
        "can_answer": campaign.is_open and filter_.answer != REMOVED and _can_answer(request, totals.items),
        "sees_all": request.user.can_see_all,
        "can_administer": request.user.can_administer,
        "can_assign": request.user.can(Capability.APPROVE),
        "downloads": [
            (label, f"{reverse('review-file', args=[campaign.pk, extension])}?{request.GET.urlencode()}")
            for extension, label in (("csv", "CSV"), ("jsonl", "JSON Lines"))
        ],
        "states": CampaignState,
        "waiting_reason": waiting_reason("The preparation")
        if request.user.can_see_all and _is_waiting(campaign)
        else "",
        "is_prepared": campaign.state not in (CampaignState.PREPARING, CampaignState.FAILED),
        "can_cancel": request.user.can_administer and campaign.state in CANCELLABLE,
        "is_working": campaign.state in WORKING,
        "can_sign_off": bool(share)
        and campaign.is_open
        and not share.open_count
        and share.signed_off_at is None,
        "signed_off_at": share.signed_off_at if share else None,
        **details,
    }
    if requested_section(request) != SECTION:
        return render_page(request, "reviews/page.html", context, status=status)
    response = render_page(request, "reviews/_progress.html", context)
    if campaign.state not in WORKING:
        # the items and the buttons are outside of the section
        response["HX-Refresh"] = "true"
    return response


def _is_waiting(campaign: Campaign) -> bool:
    """Return whether the preparation has not begun."""
    is_preparing = campaign.state == CampaignState.PREPARING and campaign.job is not None
    return is_preparing and campaign.job.state == JobState.WAITING


def filter_fields(filter_: ItemFilter) -> list[tuple[str, str]]:
    """Return the filter as fields of a form."""
    values = {name: "yes" if value is True else value for name, value in filter_.as_mapping().items()}
    return [
        ("filter_answer", filter_.answer or ALL),
        *((f"filter_{name}", value) for name, value in values.items() if name != "answer"),
    ]


def _details(campaign: Campaign) -> dict:
    """Return what only accounts that see everything see. Runs three queries."""
    plans = list(Plan.objects.filter(review_link__campaign=campaign).order_by("pk"))
    return {
        "shares": largest_open_shares(campaign)[:SHOWN_REVIEWERS],
        "reviewer_count": campaign.shares.filter(item_count__gt=0).count(),
        "plans": plans,
        "is_to_apply": any(plan.is_proposed for plan in plans),
        "scope": str(parse_scope(campaign.scope)),
        "summary": summary(campaign) if campaign.figures else "",
        "reason_without_plan": reason_without_plan(campaign),
        "public_key": public_key() if campaign.path and not read_only_reason() else "",
    }


def _can_answer(request: HttpRequest, total: int) -> bool:
    return request.user.can(Capability.APPROVE) or (not request.user.can_see_all and total > 0)


def item_row(item: ReviewItem) -> dict:
    return {
        "item": item,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else "",
        "evidence": list(evidence_lines(item, time_text=exact_time)),
    }


REVIEWERS_PER_PAGE = 50


@require_safe
@capability_required(Capability.READ_ALL)
def reviewer_list(request: HttpRequest, pk: int) -> HttpResponse:
    """List the reviewers with the most open items first.

    The parameter `text` selects names that contain it.
    """
    campaign, text = review_or_404(request, pk), text_parameter(request, "text")
    shares = largest_open_shares(campaign)
    if text:
        shares = shares.filter(reviewer__username__icontains=text)
    page = paginate_sequence(request, shares, max_rows=REVIEWERS_PER_PAGE)
    return render_page(
        request,
        "reviews/reviewers.html",
        {"review": campaign, "page": page, "shares": page.rows, "text": text},
    )
