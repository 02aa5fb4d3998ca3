"""The section of a plan of regrants that lists the permissions that it does not keep, with the reasons."""

from itertools import islice

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from authzconsole.web.shared.paging import numbered_page, page_number
from entities.address import parse_address
from grants.models import Plan
from grants.plans.regrants.kept_not import kept_not_of_plan

ROWS_PER_PAGE = 25
DOWNLOAD_TITLES = {"csv": "CSV", "jsonl": "JSON Lines"}


def kept_not_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None if the plan kept everything when it was created.

    Only the namespaces of the rows up to the page are read.
    """
    stored = plan.recipe.get("kept_not", 0)
    if not plan.is_proposed or not stored:
        return None
    number = page_number(request, "kept_not")
    first_row = (number - 1) * ROWS_PER_PAGE
    found = list(islice(kept_not_of_plan(plan, first_row), ROWS_PER_PAGE + 1))
    rows = [
        {
            "principal": principal_link_from_text(f"user:{row.user}"),
            "operation": row.operation,
            "why": row.why,
            "address_link": address_link_to(parse_address(row.entity)),
        }
        for row in found[:ROWS_PER_PAGE]
    ]
    page = numbered_page(
        request,
        rows,
        number=number,
        total=max(stored, first_row + len(found)) if found else first_row,
        max_rows=ROWS_PER_PAGE,
        name="kept_not",
    )
    return {
        "page": page,
        "rows": rows,
        "total": stored,
        "before": plan.recipe["generation"],
        "downloads": [
            (title, reverse(f"rest-plan-kept-not-{extension}", args=[plan.pk]))
            for extension, title in DOWNLOAD_TITLES.items()
        ],
    }
