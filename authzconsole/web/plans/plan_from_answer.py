"""Granting what an answer says is missing: a plan to look at, and to apply or not."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from authzconsole.web.ask.questions import FIELDS, question_from_input
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import address_or_404, administrator_required, request_author
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import see_other
from grants.active_generation import active_generation
from grants.errors import GrantError
from grants.plans.sources.origins import create_plan_from_answer
from grants.policies.question import QuestionError


@require_POST
@administrator_required
def new_plan_from_answer(request: HttpRequest) -> HttpResponse:
    """The fewest grants that turn the denial into a permit; the question is asked again, and not read from the form."""
    place = address_or_404(request.POST.get("address", ""))
    given = {name: request.POST.get(name, "").strip() for name in FIELDS}
    given["subject"] = principal_from_input(request.POST.get("subject", ""))
    try:
        made = create_plan_from_answer(author=request_author(request),
                                       question=question_from_input(place, given, active_generation()))
    except (GrantError, QuestionError) as error:
        messages.error(request, f"No plan was made: {error}.")
        return see_other(entity_url(place))
    return see_other(plan_url(made))
