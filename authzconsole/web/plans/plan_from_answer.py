"""The form that turns a denied decision into a plan of the missing grants."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from authzconsole.web.ask.questions import FIELDS, question_from_input
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import address_or_404, administrator_required, request_author
from authzconsole.web.shared.links import entity_tab_url
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import see_other
from grants.active_generation import active_generation
from grants.errors import GrantError
from grants.plans.sources.answer import create_plan_from_answer
from grants.policies.question import QuestionError


@require_POST
@administrator_required
def new_plan_from_answer(request: HttpRequest) -> HttpResponse:
    """Create a plan with the fewest grants that permit the operation. The form sends the question, and it is decided again."""
    address = address_or_404(request.POST.get("address", ""))
    form = {name: request.POST.get(name, "").strip() for name in FIELDS}
    form["subject"] = principal_from_input(request.POST.get("subject", ""))
    try:
        question = question_from_input(address, form, active_generation())
        plan = create_plan_from_answer(author=request_author(request), question=question)
    except (GrantError, QuestionError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(entity_tab_url(address, "ask"))
    return see_other(plan_url(plan))
