"""The page of an access request: what was asked for, its history, for approvers the proposals with their effect, and the
forms that decide, ask back, answer and withdraw.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.functional import cached_property
from django.views.decorators.http import require_safe

from authzconsole.web.effects.forms import guardrail_sentences, is_effect_requested
from authzconsole.web.effects.wording import button_numbers, effect_sentence
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    FormPage,
    FormRefused,
    TextField,
    end_of_day,
    last_day,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.levels import side_effect_sentences
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import Address
from entities.selectors import entity_at
from entities.vocabulary import Privilege, quantity
from grants.access import PeopleFilter, PeopleWithAccess
from grants.active_generation import active_generation
from grants.authority.rights import can_see_holders
from grants.authority.stewards import sees_everything_in, stewarded_namespaces, stewards_of
from grants.changes import ChangeSet, Shown, added_violations
from grants.effects.effect import TOO_LARGE, Effect
from grants.errors import RequestError
from grants.guardrails.check import AddedViolations
from grants.journal import Author
from grants.models import (
    PRINCIPAL_TYPES,
    AccessRequest,
    AccessRequestPart,
    Membership,
    RequestState,
    User,
    permission_ids,
)
from grants.policies.principals import principal_text
from grants.requests.approvers import requests_to_decide, visible_requests
from grants.requests.background import PartBackground, can_see_effect, part_background
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.disclosure import RequestView, view_of
from grants.requests.own_steps import answer_question, withdraw_request
from grants.requests.proposals import Proposal, changes_of, effect_of_proposals
from grants.validity import Validity, in_force_condition

SECTION = "decide"
# the part that asks whether the request changed since the page was shown
NEWS = "request-news"
MAX_EFFECT_ROWS = 6
MAX_NAMES = 5
HIDDEN_EFFECT = (
    "A proposal grants access to something about which you do not decide, so you cannot approve it or see its "
    "effect. Another approver decides."
)


class ApprovalForm(ConsoleForm):
    """What an approver has chosen so far: `part-N` for each approved part, and `proposal-N` for its proposal.

    preview: only show the effect of the choice.
    """

    refusal = "Nothing was changed"

    chosen = TextField()
    until = TextField()
    comment = TextField()
    effect = TextField()
    beyond = FlagField()
    preview = FlagField()

    @cached_property
    def proposals(self) -> Mapping[int, str] | None:
        """The ids of the chosen proposals, by position of the approved parts; None before the form was sent."""
        if "chosen" not in self.data:
            return None
        positions = [name.removeprefix("part-") for name in self.data if name.startswith("part-")]
        return {
            int(position): self.data.get(f"proposal-{position}", "")[:40]
            for position in positions
            if position.isascii() and position.isdigit() and len(position) < 6
        }

    def check_comment(self, decidable: Sequence[AccessRequestPart]) -> None:
        """Raise FormRefused if a part is not chosen, and therefore denied, without a reason."""
        if not self.cleaned_data["comment"].strip() and not all(map(self.has, decidable)):
            raise FormRefused(
                "the parts that are not selected are denied: say why in the comment, which the requester reads"
            )

    def has(self, part: AccessRequestPart) -> bool:
        return self.proposals is None or part.position in self.proposals

    def id_of(self, part: AccessRequestPart) -> str:
        return (self.proposals or {}).get(part.position, "")

    def end(self, row: AccessRequest) -> datetime | None:
        """Return the end of the chosen day; None for the requested end. Raise RequestError if it is no day."""
        text = self.cleaned_data["until"]
        return None if text == last_day(row.requested_until) else end_of_day(text)


@require_safe
def request_page(request: HttpRequest, pk: int) -> HttpResponse:
    if requested_section(request) == NEWS:
        return _news_response(request, pk)
    return render_request(request, view_or_404(request, pk), ApprovalForm(request.GET))


def _news_response(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the response to htmx, which asks for news of a pending request. Runs two queries.

    The page is loaded again if the request changed. A page with fields shows a notice in place of this, so that nothing
    that was typed is lost.
    """
    row = get_object_or_404(visible_requests(request.user), pk=pk)
    events = list(row.events.all())
    # a count, because ids would tell how many requests others make
    if request.GET.get("seen") == str(len(events)):
        return HttpResponse(status=204)
    if "has_fields" not in request.GET:
        return HttpResponse(status=204, headers={"HX-Refresh": "true"})
    return render_page(request, "requests/_news.html", {"row": row, "news": events[-1]})


def view_or_404(request: HttpRequest, pk: int) -> RequestView:
    """Return the request as the account sees it. Raise Http404 if it may not see it."""
    rows = visible_requests(request.user).select_related("subject__manager_link__manager")
    return view_of(get_object_or_404(rows, pk=pk), request.user)


def render_request(
    request: HttpRequest, view: RequestView, form: ConsoleForm, *, status: int = 200
) -> HttpResponse:
    """Render the page, or for htmx only the form that approves the request.

    form: the form of the step that was refused, or with which the approver chooses.
    """
    choice = form if isinstance(form, ApprovalForm) else ApprovalForm({})
    context = _context(request, view, choice) | {"form": form}
    is_section = requested_section(request) == SECTION and context["decide"]
    return render_page(
        request, "requests/_decide.html" if is_section else "requests/page.html", context, status=status
    )


def _context(request: HttpRequest, view: RequestView, choice: ApprovalForm) -> dict:
    row, account = view.request, request.user
    events = row.events.all()
    return {
        "row": row,
        "view": view,
        "title": _title(row, view),
        "url": reverse("request", args=[row.pk]),
        "last_day": last_day(row.requested_until),
        "can_see_all": account.can_see_all,
        "parts": view.parts,
        "events": events,
        "seen": len(events),
        "is_for_other": row.created_by != row.principal.removeprefix("user:"),
        "decide": _decide_section(request, view, choice) if view.can_approve and row.subject else None,
        "groups": _groups_of(row) if account.can_see_all else None,
        "max_groups": MAX_NAMES,
        "next_request": _next_request(view),
    }


def _groups_of(row: AccessRequest) -> list[str]:
    """Return the first groups of the requester, and one more than are shown if there are more."""
    memberships = Membership.objects.filter(in_force_condition(), user=row.subject)
    return list(memberships.order_by("group__name").values_list("group__name", flat=True)[: MAX_NAMES + 1])


def _next_request(view: RequestView) -> AccessRequest | None:
    """Return the oldest request that waits for the approver, if there is nothing to decide about this one any more."""
    if view.can_decide or view.is_own:
        return None
    return requests_to_decide(view.scope.account).exclude(pk=view.request.pk).order_by("pk").first()


def _title(row: AccessRequest, view: RequestView) -> str:
    if row.colleague:
        return f"The access of user:{row.colleague}"
    titles = [part.title for part in view.parts]
    return f"{titles[0]} and {len(titles) - 1} more" if len(titles) > 1 else titles[0] if titles else "Access"


def _decide_section(request: HttpRequest, view: RequestView, choice: ApprovalForm) -> dict:
    """Return the context of `requests/_decide.html`. What was sent is shown again at once, so that nothing is lost."""
    if request.method == "POST" or is_effect_requested(request, SECTION):
        return _decide_context(request, view, choice)
    return {"is_loading": True, "preview_url": f"{url_with(request, preview='yes')}#{SECTION}"}


def _decide_context(request: HttpRequest, view: RequestView, choice: ApprovalForm) -> dict:
    row, can_see_all = view.request, request.user.can_see_all
    assert row.subject is not None
    backgrounds = [part_background(row, part, view.scope) for part in view.decidable]
    chosen = list(_chosen_proposals(backgrounds, choice))
    is_visible = can_see_effect(chosen)
    effect = (
        effect_of_proposals(row.subject, [(item.part, proposal) for item, proposal in chosen])
        if is_visible
        else None
    )
    end = row.requested_until
    added = _added_violations(row, chosen, _chosen_end(row, choice)) if is_visible else AddedViolations()
    context = {
        "parts": [_background_row(background, choice, view.scope.account) for background in backgrounds],
        "max_day": last_day(end),
        "until": choice["until"].value() or last_day(end),
        "comment": choice["comment"].value() or "",
        "digest": effect.digest if effect else TOO_LARGE,
        "guardrails": guardrail_sentences(request, added),
        "is_blocked": bool(added.blocked),
        "can_approve": bool(chosen) and is_visible and not added.blocked,
        "numbers": "",
        "rows": [],
        "sentence": "The effect is too large to be computed." if is_visible else HIDDEN_EFFECT,
        "confirmation": "Approve although the effect on permissions is not known" if is_visible else "",
    }
    if effect is None:
        return context
    beyond = effect.max_side_effects
    # a delegate may not see every affected entity, but knows those of the parts; a steward sees the namespace
    known, stewarded = {part.address for part in view.decidable}, stewarded_namespaces(view.scope.account)
    visible = [
        address
        for address, _ in effect.entities
        if can_see_all or address in known or (address.namespace and address.namespace.key in stewarded)
    ]
    return context | {
        "sentence": effect_sentence(effect),
        "numbers": button_numbers(effect.tally),
        "is_wide": bool(beyond),
        "confirmation": f"Also give {quantity(beyond, 'permission', 'permissions')} beyond what was requested"
        if beyond
        else "",
        "side_effects": side_effect_sentences(effect) if beyond and can_see_all else [],
        "extensions": _extensions(chosen),
        "later": [item.part.title for item, _ in chosen if item.operations_later],
        "end": end,
        "rows": [(address, _operations_of(effect, address)) for address in visible[:MAX_EFFECT_ROWS]],
        "more": max(0, len(visible) - MAX_EFFECT_ROWS),
        "hidden": effect.entity_count - len(visible),
    }


def _chosen_end(row: AccessRequest, choice: ApprovalForm) -> datetime | None:
    """Return the end of the chosen day; the requested end without a valid day."""
    with suppress(RequestError):
        if choice.is_valid():
            return choice.end(row) or row.requested_until
    return row.requested_until


def _added_violations(
    row: AccessRequest, chosen: list[tuple[PartBackground, Proposal]], end: datetime | None
) -> AddedViolations:
    """Return the violations of guardrails that an approval of these proposals until this end would add."""
    assert row.subject is not None
    changes = changes_of(row.subject, [proposal for _, proposal in chosen], Validity(None, end))
    return added_violations(ChangeSet.of(*changes))


def _extensions(chosen: list[tuple[PartBackground, Proposal]]) -> list[tuple[str, datetime]]:
    """Return the chosen proposals that only extend access, in words, with the time at which it would end."""
    return [(proposal.words, proposal.extends) for _, proposal in chosen if proposal.extends]


def _operations_of(effect: Effect, address: Address) -> str:
    """Return the changed operations on an entity, such as `requested: read; also get, list`."""
    cells = [cell for cell in effect.cells if cell.address == address]
    requested = [cell.operation for cell in cells if cell.gained_for or cell.lost_for]
    others = [cell.operation for cell in cells if cell.operation not in requested]
    return "; ".join(
        filter(
            None,
            [
                f"requested: {', '.join(requested)}" if requested else "",
                f"also {', '.join(others)}" if others else "",
            ],
        )
    )


def _chosen_proposals(
    backgrounds: list[PartBackground], choice: ApprovalForm
) -> Iterator[tuple[PartBackground, Proposal]]:
    for background in backgrounds:
        if choice.has(background.part) and (proposal := _chosen_proposal(background, choice)):
            yield background, proposal


def _chosen_proposal(background: PartBackground, choice: ApprovalForm) -> Proposal | None:
    """Return the chosen proposal of a part; the narrowest one by default, or if the chosen one no longer
    exists.
    """
    proposals, wanted = background.proposals, choice.id_of(background.part)
    return next(
        (proposal for proposal in proposals if proposal.id == wanted), proposals[0] if proposals else None
    )


def _background_row(background: PartBackground, choice: ApprovalForm, account: User) -> dict:
    chosen = _chosen_proposal(background, choice)
    return {
        "background": background,
        "is_checked": choice.has(background.part) and chosen is not None,
        "chosen": chosen,
        "nearby_more": max(0, background.nearby_count - len(background.nearby)),
        "max_names": MAX_NAMES,
        **_people_of(background.part, account),
    }


def _people_of(part: AccessRequestPart, account: User) -> dict:
    """Return who answers for the entity of a part, and who else can do what was requested: the first MAX_NAMES and one more
    of each.

    The account learns only what it sees on the page of the entity.
    """
    entity = entity_at(part.address) if part.address else None
    if entity is None or not can_see_holders(account, entity):
        return {}
    is_admin = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object": entity}
    admins = [
        principal_text(principal_type.name, name)
        for principal_type in PRINCIPAL_TYPES.values()
        for name in principal_type.held_grants.effective()
        .filter(**is_admin)
        .order_by(principal_type.name_path)
        .values_list(principal_type.name_path, flat=True)
        .distinct()[: MAX_NAMES + 1]
    ]
    people = {"admins": admins[: MAX_NAMES + 1], "has_people": True}
    if not sees_everything_in(account, entity):
        return people
    of_namespace = stewards_of(entity.address).order_by("username").values_list("username", flat=True)
    where = PeopleFilter(operation=part.operation)
    page = PeopleWithAccess(entity.address, active_generation(), where).page(None, MAX_NAMES + 1)
    return people | {
        "stewards": [f"user:{name}" for name in of_namespace[: MAX_NAMES + 1]],
        "others": [f"user:{row.user}" for row in page.rows],
        "sees_others": True,
    }


class StepForm(ConsoleForm):
    refusal = "Nothing was changed"


class DenialForm(StepForm):
    reason = TextField()


class QuestionForm(StepForm):
    question = TextField()


class AnswerForm(StepForm):
    answer = TextField()


class WithdrawalForm(StepForm):
    comment = TextField()


class RequestStep(FormPage):
    """Take a step and show the request again.

    service: takes the step, with the values of the form. message: of a step that was taken.

    A refused step, or the effect of another choice, is shown at this URL: GET leads to the request.
    """

    service: ClassVar[Callable[..., AccessRequest]]
    message = ""

    def prepare(self) -> None:
        self.view = view_or_404(self.request, self.kwargs["pk"])

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        return see_other(reverse("request", args=[self.kwargs["pk"]]))

    def take_step(self, author: Author, pk: int, form: ConsoleForm) -> str:
        """Take the step. Return the message of its success."""
        self.service(author=author, request_id=pk, **form.cleaned_data)
        return self.message

    def perform(self, form: ConsoleForm) -> HttpResponse:
        pk = self.kwargs["pk"]
        messages.success(self.request, self.take_step(request_author(self.request), pk, form))
        return see_other(reverse("request", args=[pk]))

    def render_to_response(self, context: dict, *, status: int = 200) -> HttpResponse:
        view = view_or_404(self.request, self.kwargs["pk"])
        return render_request(self.request, view, context["form"], status=status)


class Approve(RequestStep):
    """Approve the chosen parts, if their effect is the one that the form showed; or only show the effect of another
    choice.
    """

    form_class = ApprovalForm

    def perform(self, form: ApprovalForm) -> HttpResponse:
        if form.cleaned_data["preview"]:
            return render_request(self.request, self.view, form)
        return super().perform(form)

    def take_step(self, author: Author, pk: int, form: ApprovalForm) -> str:
        form.check_comment(self.view.decidable)
        values = form.cleaned_data
        is_known = values["effect"] != TOO_LARGE
        shown = Shown(
            values["effect"] if is_known else "",
            is_required=is_known,
            accepts_beyond=values["beyond"],
            accepts_attached=True,
        )
        approval = Approval(form.proposals or {}, values["comment"], form.end(self.view.request), shown)
        done = approve_request(author=author, request_id=pk, approval=approval)
        is_pending = done.state == RequestState.PENDING
        return "Approved. Other approvers decide about the other parts." if is_pending else "Approved."


class Deny(RequestStep):
    form_class = DenialForm
    service = staticmethod(deny_request)
    message = "Request denied."


class AskBack(RequestStep):
    form_class = QuestionForm
    service = staticmethod(ask_back)
    message = "The request waits for the answer of the requester."


class AnswerQuestion(RequestStep):
    form_class = AnswerForm
    service = staticmethod(answer_question)
    message = "The request waits for its approvers again."


class Withdraw(RequestStep):
    form_class = WithdrawalForm
    service = staticmethod(withdraw_request)
    message = "The request is withdrawn."
