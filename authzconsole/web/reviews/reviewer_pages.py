"""The list of the reviewers of a review, and what each of them has answered."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.reviews.review_pages import review_or_404
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page
from grants.reviews.shares import largest_open_shares
from grants.roles.capabilities import Capability

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
    page = paginate_sequence(request, QuerySetSequence(shares), max_rows=REVIEWERS_PER_PAGE, name="page")
    return render_page(
        request,
        "reviews/reviewers.html",
        {"review": campaign, "page": page, "shares": page.rows, "text": text},
    )
