"""The forms that answer items, and that start, sign off, finish and cancel a review."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from authzconsole.common.messages import as_sentence
from authzconsole.reviews.execution import finish_review, retry_review, sign_off_share, start_review
from authzconsole.web.reviews.review_pages import ALL, render_review, review_or_404, review_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.times.periods import reader_time, time_input
from authzconsole.web.shared.times.zones import zone_name
from entities.vocabulary import KINDS, VocabularyError
from grants.errors import GrantError
from grants.models.reviews import Answer, Campaign, ItemSource, Recurrence, ReviewerRule, UnansweredRule
from grants.reviews.answers import (
    MAX_BULK_ITEMS,
    MAX_SELECTED,
    UNDO,
    ItemSelection,
    answer_items,
    assign_items,
    preview_answer,
)
from grants.reviews.campaigns import CampaignOptions, cancel_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.finishing import figures
from grants.reviews.selection import parse_filter
from grants.roles.capabilities import Capability
from grants.validity import ValidityError

ASSIGN = "assign"
VERBS = {
    Answer.KEEP.value: "Keep",
    Answer.REVOKE.value: "Revoke",
    Answer.SHORTEN.value: "Shorten",
    UNDO: "Undo the answer of",
    ASSIGN: "Return",
}
DEFAULT_DAYS = 21
TEXT_FIELDS = (
    "title",
    "description",
    "namespace",
    "user",
    "group",
    "unused_days",
    "reviewer_group",
    "escalation_group",
    "deadline",
    "reminder_days",
    "escalation_days",
)
CHOICE_FIELDS = {
    "kind": list(KINDS),
    "privilege": ["ADMIN"],
    "reviewer_rule": ReviewerRule.values,
    "unanswered": UnansweredRule.values,
    "recurrence": Recurrence.values,
}


@require_POST
def answer_review(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer the selected items, or first show what a bulk answer would change."""
    campaign, verb = review_or_404(request, pk), request.POST.get("answer", "")
    if verb not in VERBS:
        return render_review(request, campaign, fault="Select an answer.", status=400)
    is_bulk = request.POST.get("select") == ALL
    try:
        selection = _selection(request.POST, is_bulk)
    except GrantError as error:
        return render_review(request, campaign, fault=f"Nothing was changed: {error}.", status=400)
    try:
        if request.POST.get("confirm") != "yes" and (is_bulk or verb in (Answer.SHORTEN, ASSIGN)):
            return _confirmation(request, campaign, verb, selection)
        outcome = _perform(request, campaign, verb, selection)
    except GrantError as error:
        fault = f"Nothing was changed: {error}."
        if request.POST.get("confirm") == "yes":
            return _confirmation(request, campaign, verb, selection, fault=fault)
        return render_review(request, campaign, fault=fault, status=400)
    skipped = f" {outcome.own:,} about your own access were skipped." if outcome.own else ""
    messages.success(request, f"{as_sentence(outcome.sentence)}{skipped}")
    return see_other(_back(request, campaign))


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def new_review(request: HttpRequest) -> HttpResponse:
    """Show the form of a new review, and start it."""
    if request.method != "POST":
        deadline = timezone.localtime().replace(hour=18, minute=0, second=0) + timedelta(days=DEFAULT_DAYS)
        form = dict.fromkeys((*TEXT_FIELDS, *CHOICE_FIELDS), "") | {
            "deadline": time_input(deadline),
            "reminder_days": "7",
            "escalation_days": "3",
            "reviewer_rule": ReviewerRule.ADMIN_HOLDERS.value,
            "unanswered": UnansweredRule.LIST.value,
            **{name: request.GET.get(name, "") for name in ("namespace", "user", "group")},
        }
        return _form(request, form | {"sources": list(ItemSource.values)})
    form = {name: _text(request.POST, name) for name in (*TEXT_FIELDS, *CHOICE_FIELDS)}
    form["sources"] = request.POST.getlist("source")
    try:
        campaign = start_review(author=request_author(request), options=_options(form))
    except ReviewError as error:
        return _form(request, form, fault=f"{error}.", field=error.field)
    except (GrantError, VocabularyError) as error:
        return _form(request, form, fault=f"{error}.")
    messages.success(request, f"Review {campaign.pk} is being prepared.")
    return see_other(review_url(campaign))


@require_POST
def sign_off_review(request: HttpRequest, pk: int) -> HttpResponse:
    """Sign off the items of the account."""
    campaign = review_or_404(request, pk)
    try:
        is_finished = sign_off_share(author=request_author(request), campaign=campaign)
    except GrantError as error:
        return render_review(request, campaign, fault=f"{error}.", status=400)
    messages.success(
        request,
        "All reviewers have signed off, so the review is finished."
        if is_finished
        else "You have signed off your items.",
    )
    return see_other(review_url(campaign))


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def finish_review_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what finishing does, and finish the review."""
    campaign, fault = review_or_404(request, pk), ""
    if request.method == "POST":
        try:
            finish_review(author=request_author(request, request.POST.get("reason", "").strip()), number=pk)
        except GrantError as error:
            fault = f"{error}."
        else:
            messages.success(
                request, f"Review {pk} is finished. Its plan and its evidence are being written."
            )
            return see_other(review_url(campaign))
    counts = figures(campaign) if campaign.is_open else campaign.figures
    revokes_open = campaign.unanswered == UnansweredRule.REVOKE
    return render_page(
        request,
        "reviews/finish.html",
        {
            "review": campaign,
            "counts": counts,
            "fault": fault,
            "revokes_open": revokes_open,
            "url": review_url(campaign),
            "reason": request.POST.get("reason", ""),
        },
        status=400 if fault else 200,
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def cancel_review(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = review_or_404(request, pk)
    try:
        cancel_campaign(author=request_author(request, request.POST.get("reason", "").strip()), number=pk)
    except GrantError as error:
        return render_review(request, campaign, fault=f"{error}.", status=400)
    messages.success(request, f"Review {pk} is cancelled.")
    return see_other(review_url(campaign))


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def retry_review_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Prepare a review again after its preparation failed."""
    campaign = review_or_404(request, pk)
    try:
        retry_review(author=request_author(request), number=pk)
    except GrantError as error:
        return render_review(request, campaign, fault=f"{error}.", status=400)
    messages.success(request, f"Review {pk} is being prepared again.")
    return see_other(review_url(campaign))


def _perform(request: HttpRequest, campaign: Campaign, verb: str, selection: ItemSelection):
    author, comment = request_author(request), request.POST.get("comment", "").strip()
    if verb == ASSIGN:
        reviewer = name_from_input(_text(request.POST, "reviewer"), "user")
        return assign_items(
            author=author, campaign=campaign, selection=selection, reviewer=reviewer, comment=comment
        )
    until = _time(request.POST.get("until", "").strip(), "until") if verb == Answer.SHORTEN else None
    return answer_items(
        author=author,
        campaign=campaign,
        selection=selection,
        answer="" if verb == UNDO else verb,
        comment=comment,
        new_until=until,
    )


def _confirmation(
    request: HttpRequest, campaign: Campaign, verb: str, selection: ItemSelection, *, fault: str = ""
) -> HttpResponse:
    """Show the counts of a bulk answer, and the fields that the answer needs."""
    preview = preview_answer(account=request.user, campaign=campaign, selection=selection)
    can_assign = request.user.can(Capability.APPROVE)
    return render_page(
        request,
        "reviews/answer.html",
        {
            "review": campaign,
            "preview": preview,
            "verb": verb,
            "fault": fault,
            "title": "Move" if verb == ASSIGN and can_assign else VERBS[verb],
            "fields": [
                (name, value)
                for name, values in request.POST.lists()
                for value in values
                if name.startswith("filter_") or name in ("item", "select", "back")
            ],
            "sources": [(ItemSource(source).label, count) for source, count in preview.by_source.items()],
            "comment": request.POST.get("comment", ""),
            "until": request.POST.get("until", ""),
            "reviewer": request.POST.get("reviewer", ""),
            "back": _back(request, campaign),
            "is_shorten": verb == Answer.SHORTEN,
            "is_revoke": verb == Answer.REVOKE,
            "is_assign": verb == ASSIGN,
            "can_assign": can_assign,
            "is_too_large": preview.count > MAX_BULK_ITEMS,
            "too_large": f"At most {MAX_BULK_ITEMS:,} items can be answered at once. Use a narrower filter.",
            "zone_name": zone_name(),
        },
        status=400 if fault else 200,
    )


def _selection(data, is_bulk: bool) -> ItemSelection:
    if not is_bulk:
        numbers = [
            int(text) for text in data.getlist("item") if text.isascii() and text.isdigit() and len(text) < 18
        ]
        if not numbers:
            raise ReviewError("no item is selected: select at least one", field="item")
        if len(numbers) > MAX_SELECTED:
            raise ReviewError(f"at most {MAX_SELECTED:,} items can be selected: use a filter", field="item")
        return ItemSelection(numbers=numbers)
    values = {
        name.removeprefix("filter_"): True if value == "yes" else value.replace("\0", "")
        for name, value in data.items()
        if name.startswith("filter_")
    }
    if values.get("answer") == ALL:
        values.pop("answer")
    return ItemSelection(filter=parse_filter(values))


def _text(data: Mapping[str, str], name: str) -> str:
    return field_text(data, name).strip()


def _back(request: HttpRequest, campaign: Campaign) -> str:
    """Return the URL of the page of items from which the form was sent."""
    back = request.POST.get("back", "")
    is_own = back.startswith(review_url(campaign)) and url_has_allowed_host_and_scheme(
        back, allowed_hosts=None
    )
    return back if is_own else review_url(campaign)


def _form(request: HttpRequest, form: Mapping, *, fault: str = "", field: str = "") -> HttpResponse:
    return render_page(
        request,
        "reviews/new.html",
        {
            "form": form,
            "fault": fault,
            "invalid_field": field,
            "sources": ItemSource.choices,
            "reviewer_rules": ReviewerRule.choices,
            "unanswered": UnansweredRule.choices,
            "recurrences": Recurrence.choices,
            "kinds": list(KINDS),
            "zone_name": zone_name(),
            "delegation": settings.DELEGATION,
        },
        status=400 if fault else 200,
    )


def _options(form: Mapping) -> CampaignOptions:
    """Return the options of the form. Raise ReviewError for the first invalid field."""
    for name, allowed in CHOICE_FIELDS.items():
        if form[name] and form[name] not in allowed:
            raise ReviewError(f"`{form[name]}` is not one of {', '.join(filter(None, allowed))}", field=name)
    scope = {
        "sources": form["sources"],
        "namespace": form["namespace"].removeprefix("namespace:"),
        "user": name_from_input(form["user"], "user"),
        "group": name_from_input(form["group"], "group"),
        "kinds": [form["kind"]] if form["kind"] else [],
        "privileges": [form["privilege"]] if form["privilege"] else [],
        "unused_days": _number(form, "unused_days"),
    }
    deadline = _time(form["deadline"], "deadline")
    if deadline is None:
        raise ReviewError("the deadline is missing: choose a date", field="deadline")
    rule = form["reviewer_rule"] or ReviewerRule.ADMINISTRATORS
    return CampaignOptions(
        title=form["title"],
        description=form["description"],
        deadline=deadline,
        scope=scope,
        reviewer_rule=rule,
        reviewer_group=name_from_input(form["reviewer_group"], "group") if rule == ReviewerRule.GROUP else "",
        escalation_group=name_from_input(form["escalation_group"], "group"),
        unanswered=form["unanswered"] or UnansweredRule.LIST,
        recurrence=form["recurrence"],
        reminder_days=_number(form, "reminder_days"),
        escalation_days=_number(form, "escalation_days"),
    )


def _number(form: Mapping, name: str) -> int:
    text = form[name]
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise ReviewError(f"`{text}` is not a number of days", field=name)
    return int(text)


def _time(text: str, field: str) -> datetime | None:
    """Return the time of a field in the time zone of the reader; the end of a date without a time."""
    try:
        return reader_time(field, text[:40], is_end=True)
    except ValidityError as error:
        raise ReviewError(str(error), field=field) from None
