"""The list of reviews, the page of a review with its items, the downloads, and the forms that start a review, answer items,
sign off, finish and cancel.
"""

from collections.abc import Mapping
from datetime import date, timedelta

from django.conf import settings
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_safe

from analytics.runs.selectors import waiting_reason
from authzconsole.common.messages import as_sentence
from authzconsole.evidence.bundles import bundle_response
from authzconsole.reviews.item_rows import items_response, stream_items
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    NumberField,
    PrincipalField,
    Radios,
    StrictChoiceField,
    SuggestionInput,
    TextField,
    TextsField,
    TimeField,
    optional,
    reason_field,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.levels import level_sentences, level_table
from authzconsole.web.shared.paging import Page, keyset_page, paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, number_of, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.times import day_text, exact_time, time_input, zone_hint
from entities.vocabulary import KINDS, Privilege, quantity
from grants.errors import GrantError
from grants.evidence import public_key
from grants.journal import Author, read_only_reason
from grants.models import JobState, Plan, privilege_of
from grants.models.reviews import (
    Answer,
    Campaign,
    CampaignState,
    ItemSource,
    Recurrence,
    ReviewerRule,
    ReviewItem,
    UnansweredRule,
)
from grants.reviews.answers import (
    MAX_BULK_ITEMS,
    MAX_SELECTED,
    UNDO,
    ItemSelection,
    answer_items,
    assign_items,
    preview_answer,
)
from grants.reviews.campaigns import CampaignOptions, cancel_campaign, create_campaign, retry_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.finishing import (
    figures,
    items_to_end,
    reason_without_plan,
    request_finish,
    sign_off_share,
    summary,
)
from grants.reviews.item_levels import MAX_ITEMS, ItemLevels, item_levels, parse_item_levels
from grants.reviews.preparation import MAX_PREVIEWED_ITEMS, preview_review
from grants.reviews.removals import load_current_removal, with_current_removal
from grants.reviews.scope import ReviewScope, parse_scope
from grants.reviews.selection import (
    ADMINISTRATORS,
    OPEN,
    REMOVED,
    ItemFilter,
    matching_items,
    parse_filter,
    visible_campaigns,
    visible_items,
    with_principals,
)
from grants.reviews.shares import (
    item_total,
    largest_open_shares,
    share_to_sign_off,
    visible_totals,
    waiting_items,
)
from grants.roles.capabilities import Capability
from grants.usage import first_day_of_use

COLUMNS = ("Review", "State", "Answered", "Deadline", "Started")
REVIEWS_PER_PAGE = 25
ITEMS_PER_PAGE = 50
# items that the page that confirms an answer names
MAX_NAMED = 20
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
    ("unused", "No recorded use"),
    ("redundant", "Also through a group"),
    ("strands", "Leaves too few ADMIN holders"),
    ("ended", "Ended"),
    ("new", "New since the last review"),
    ("changed", "Answered differently"),
    ("escalated", "Escalated"),
)
TEXT_FILTERS = ("principal", "namespace", "group", "reviewer")
# the worker changes the review, and the page updates itself
WORKING = (CampaignState.PREPARING, CampaignState.FINISHING)
NOT_PREPARED = (CampaignState.PREPARING, CampaignState.FAILED)
CANCELLABLE = (CampaignState.PREPARING, CampaignState.OPEN, CampaignState.FAILED)
SECTION = "review"
PREVIEW_SECTION = "review-preview"
FILE_EXTENSIONS = ("csv", "jsonl")


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
    if extension not in FILE_EXTENSIONS:
        raise Http404("there is no such format")
    items = matching_items(visible_items(request.user, campaign), item_filter(request, campaign))
    rows = stream_items(with_current_removal(items, campaign))
    return items_response(rows, campaign, extension)


@require_safe
@capability_required(Capability.READ_ALL)
def review_bundle(request: HttpRequest, pk: int) -> HttpResponse:
    """Stream the evidence of a finished review."""
    campaign = review_or_404(request, pk)
    return bundle_response(campaign.path, f"review-{campaign.pk}")


def review_or_404(request: HttpRequest, pk: int) -> Campaign:
    """Return the review if the account sees it. Raise Http404 otherwise."""
    return get_object_or_404(visible_campaigns(request.user).select_related("previous"), pk=pk)


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
    items = with_principals(matching_items(visible_items(request.user, campaign), filter_))
    used_since = first_day_of_use()
    page = keyset_page(request, items, "place", max_rows=ITEMS_PER_PAGE)
    load_current_removal(page.rows, campaign)
    totals = visible_totals(request.user, [campaign])[campaign.pk]
    details = _details(campaign, used_since) if request.user.can_see_all else {}
    share = share_to_sign_off(
        request.user, campaign.shares.filter(Q(reviewer=request.user) | Q(reviewer=None))
    )
    context = {
        "review": campaign,
        "page": page,
        "rows": [item_row(item, knows_use=used_since is not None) for item in page.rows],
        "form": form,
        "totals": totals,
        "levels": _listed_levels(request, campaign, filter_, items, page, totals.items)
        if campaign.state not in NOT_PREPARED
        else None,
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
        "waiting_reason": waiting_reason(
            "The preparation" if campaign.state == CampaignState.PREPARING else "The result"
        )
        if request.user.can_see_all and _is_waiting(campaign)
        else "",
        "is_prepared": campaign.state not in NOT_PREPARED,
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


def _listed_levels(
    request: HttpRequest,
    campaign: Campaign,
    filter_: ItemFilter,
    items: QuerySet[ReviewItem],
    page: Page,
    total: int,
) -> dict | None:
    """Return what the listed items give.

    total: the number of items that the account sees. Of more than MAX_ITEMS items, return what all of them gave when
    the review was prepared, and with a filter what those on this page give.
    """
    if filter_.reviewer:
        reviewer = None if filter_.reviewer == ADMINISTRATORS else filter_.reviewer
        total = min(total, item_total(campaign, reviewer))
    if total <= MAX_ITEMS:
        return levels_context("What these items give", item_levels(items))
    stored = parse_item_levels(campaign.levels)
    if stored and request.user.can_see_all and not set(filter_.as_mapping()) - {"answer"}:
        return levels_context("What all items gave when the review was prepared", stored)
    on_page = ReviewItem.objects.filter(pk__in=[item.pk for item in page.rows])
    return levels_context("What the items on this page give", item_levels(on_page))


def levels_context(title: str, given: ItemLevels) -> dict | None:
    """Return the context of `reviews/_levels.html`; None if there are no items."""
    sentences = level_sentences(given.levels)
    if given.memberships:
        memberships = quantity(given.memberships, "membership", "memberships")
        sentences.append(f"{memberships} in {quantity(given.groups, 'group or role', 'groups or roles')}.")
    if given.other:
        sentences.append(f"{quantity(given.other, 'grant gives', 'grants give')} nothing now.")
    if not sentences:
        return None
    return {"title": title, "sentences": sentences, "table": level_table(given.levels)}


def _is_waiting(campaign: Campaign) -> bool:
    """Return whether the job that prepares or finishes the review has not begun."""
    is_working = campaign.state in WORKING and campaign.job is not None
    return is_working and campaign.job.state == JobState.WAITING


def filter_fields(filter_: ItemFilter) -> list[tuple[str, str]]:
    """Return the filter as fields of a form."""
    values = {name: "yes" if value is True else value for name, value in filter_.as_mapping().items()}
    return [
        ("filter_answer", filter_.answer or ALL),
        *((f"filter_{name}", value) for name, value in values.items() if name != "answer"),
    ]


def _details(campaign: Campaign, used_since: date | None) -> dict:
    """Return what only accounts that see everything see. Runs three queries."""
    plans, scope = (
        list(Plan.objects.filter(review_link__campaign=campaign).order_by("pk")),
        parse_scope(campaign.scope),
    )
    return {
        "shares": largest_open_shares(campaign)[:SHOWN_REVIEWERS],
        "reviewer_count": campaign.shares.filter(item_count__gt=0).count(),
        "plans": plans,
        "is_to_apply": any(plan.is_proposed for plan in plans),
        "scope": str(scope),
        "use_warning": _use_warning(scope, used_since),
        "summary": summary(campaign) if campaign.figures else "",
        "reason_without_plan": reason_without_plan(campaign),
        "public_key": public_key() if campaign.path and not read_only_reason() else "",
    }


def _use_warning(scope: ReviewScope, used_since: date | None) -> str:
    """Return what a scope of unused access cannot know; empty if use is recorded for long enough."""
    if not scope.unused_days or (
        used_since and (timezone.now().date() - used_since).days >= scope.unused_days
    ):
        return ""
    return f"{use_hint(used_since)} Items may be in use."


def use_hint(used_since: date | None) -> str:
    if used_since is None:
        return "No use is recorded, so nothing is known to be unused, and a number of days here leaves nothing out."
    return f"Use is recorded since {day_text(used_since)}; earlier use is unknown."


def _can_answer(request: HttpRequest, total: int) -> bool:
    return request.user.can(Capability.APPROVE) or (not request.user.can_see_all and total > 0)


def item_row(item: ReviewItem, *, knows_use: bool) -> dict:
    return {
        "item": item,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else "",
        "evidence": list(evidence_lines(item, knows_use=knows_use, time_text=exact_time)),
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


ASSIGN = "assign"
VERBS = {
    Answer.KEEP.value: "Keep",
    Answer.REVOKE.value: "Revoke",
    Answer.SHORTEN.value: "Shorten",
    UNDO: "Undo the answer of",
    ASSIGN: "Reassign",
}
DEFAULT_DAYS = 21


class NewReviewForm(ConsoleForm):
    """The options of a review."""

    id_pattern = "review-%s"

    error_fields = {"sources": "source", "kinds": "kind", "privileges": "privilege"}

    title = TextField(
        label="Title", required=True, max_characters=200, placeholder="Quarterly review of sales"
    )
    description = TextField(label=optional("Instructions for reviewers"), max_characters=2000)
    source = TextsField(label="Types", choices=ItemSource.choices)
    namespace = TextField(
        label=optional("Namespace"), placeholder="sales", widget=SuggestionInput("search", "Namespaces")
    )
    kind = StrictChoiceField(
        label="Kind", choices=lambda: [("", "All kinds"), *((name, name) for name in KINDS)]
    )
    user = PrincipalField(only="user", label=optional("User"))
    group = PrincipalField(only="group", label=optional("Group or role"))
    unused_days = NumberField(label=optional("Unused for at least (days)"), max_characters=6)
    privilege = StrictChoiceField(label="Only ADMIN", choices=[("ADMIN", "Only ADMIN")])
    reviewer_rule = StrictChoiceField(
        default=ReviewerRule.ADMINISTRATORS, label="Reviewers", choices=ReviewerRule.choices, widget=Radios
    )
    reviewer_group = PrincipalField(only="group", label="Group of reviewers (only if a group reviews)")
    escalation_group = PrincipalField(only="group", label=optional("Escalation group"))
    deadline = TimeField(
        label="Deadline",
        required=True,
        placeholder="2026-12-31 17:00",
        missing="The deadline is missing: choose a date.",
    )
    recurrence = StrictChoiceField(label="Repeat", choices=Recurrence.choices)
    reminder_days = NumberField(label="Days between reminders", max_characters=3, placeholder="no reminders")
    escalation_days = NumberField(
        label="Days from escalation to deadline", max_characters=3, placeholder="no escalation"
    )
    unanswered = StrictChoiceField(
        default=UnansweredRule.LIST,
        label="Unanswered items",
        choices=UnansweredRule.choices,
        widget=Radios,
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if "deadline" in self.fields:
            self.fields["deadline"].help_text = zone_hint()
        self.fields["unused_days"].help_text = use_hint(first_day_of_use())
        delegation = " Without another ADMIN holder of an entity, those of its application, namespace or instance review."
        self.fields["reviewer_rule"].help_text = (
            "Reviewers do not review their own access. Items without a reviewer go to the escalation group, or to administrators: "
            "memberships have no ADMIN holder and no steward, and groups have no manager."
            f"{delegation if settings.DELEGATION else ''}"
        )

    def options(self, **others) -> CampaignOptions:
        """Return the options of the review. others: those that the form does not have."""
        values = self.cleaned_data | others
        scope = {
            "sources": values.pop("source"),
            "namespace": values.pop("namespace").removeprefix("namespace:"),
            "user": values.pop("user"),
            "group": values.pop("group"),
            "kinds": [kind] if (kind := values.pop("kind")) else [],
            "privileges": [privilege] if (privilege := values.pop("privilege")) else [],
            "unused_days": values.pop("unused_days"),
        }
        if values["reviewer_rule"] != ReviewerRule.GROUP:
            values["reviewer_group"] = ""
        return CampaignOptions(**values, scope=scope)


class ReviewPreviewForm(NewReviewForm):
    """The options that decide who reviews what."""

    title = description = deadline = None


class NewReview(ForAdministrators, FormPage):
    """Show the form of a new review, with who would review how many items, and start it."""

    form_class = NewReviewForm
    template_name = "reviews/new.html"

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if requested_section(request) != PREVIEW_SECTION:
            return super().get(request, *args, **kwargs)
        form, context = ReviewPreviewForm(request.GET), {}
        if form.is_valid():
            try:
                preview = preview_review(form.options(title="", deadline=timezone.now()))
                context = {
                    "preview": preview,
                    "reviewers": (preview.reviewers or [])[:SHOWN_REVIEWERS],
                    "more_reviewers": max(0, len(preview.reviewers or []) - SHOWN_REVIEWERS),
                    "limit": MAX_PREVIEWED_ITEMS,
                }
            except ReviewError as error:
                form.refuse(error)
        errors = [message for messages_ in form.errors.values() for message in messages_]
        return render_page(request, "reviews/_preview.html", context | {"errors": errors})

    def get_initial(self) -> dict:
        deadline = timezone.localtime().replace(hour=18, minute=0, second=0) + timedelta(days=DEFAULT_DAYS)
        defaults = {
            "deadline": time_input(deadline),
            "reminder_days": "7",
            "escalation_days": "3",
            "reviewer_rule": ReviewerRule.ADMIN_HOLDERS.value,
            "unanswered": UnansweredRule.LIST.value,
            "source": ItemSource.values,
        }
        return defaults | super().get_initial()

    def perform(self, form: NewReviewForm) -> HttpResponse:
        campaign = create_campaign(author=request_author(self.request), options=form.options())
        messages.success(self.request, f"Review {campaign.pk} is being prepared.")
        return see_other(review_url(campaign))


class ReviewStepForm(ConsoleForm):
    reason = reason_field(label=optional("Reason"), max_characters=2000)


class ReviewStep(FormPage):
    """Take a step of a review, and show its page again, with the message if it was refused."""

    http_method_names = ("post",)
    form_class = ReviewStepForm

    def prepare(self) -> None:
        self.campaign = review_or_404(self.request, self.kwargs["pk"])

    def take_step(self, author: Author, campaign: Campaign) -> str:
        """Take the step. Return the message of its success."""
        raise NotImplementedError

    def perform(self, form: ReviewStepForm) -> HttpResponse:
        author = self.author(form)
        messages.success(self.request, self.take_step(author, self.campaign))
        return see_other(review_url(self.campaign))

    def render_to_response(self, context: Mapping, *, status: int = 200) -> HttpResponse:
        return render_review(self.request, self.campaign, context["form"], status=status)


class SignOffReview(ReviewStep):
    """Sign off the items of the account."""

    def take_step(self, author: Author, campaign: Campaign) -> str:
        if sign_off_share(author=author, campaign=campaign):
            return "All reviewers have signed off, so the review is finished."
        return "You have signed off your items."


class CancelReview(ForAdministrators, ReviewStep):
    def take_step(self, author: Author, campaign: Campaign) -> str:
        cancel_campaign(author=author, number=campaign.pk)
        return f"Review {campaign.pk} is cancelled."


class RetryReview(ForAdministrators, ReviewStep):
    """Prepare a review again after its preparation failed."""

    def take_step(self, author: Author, campaign: Campaign) -> str:
        retry_campaign(author=author, number=campaign.pk)
        return f"Review {campaign.pk} is being prepared again."


class FinishReview(ForAdministrators, ReviewStep):
    """Show what finishing does, and finish the review."""

    http_method_names = FormPage.http_method_names
    template_name = "reviews/finish.html"

    def take_step(self, author: Author, campaign: Campaign) -> str:
        request_finish(author=author, number=campaign.pk)
        return f"Review {campaign.pk} is finished. Its plan and its evidence are being written."

    def get_context_data(self, **context) -> dict:
        campaign = self.campaign
        counts = figures(campaign) if campaign.is_open else campaign.figures
        return super().get_context_data(**context) | {
            "review": campaign,
            "counts": counts,
            "revokes_open": campaign.unanswered == UnansweredRule.REVOKE,
            "levels": self._ending_levels(counts),
            "url": review_url(campaign),
        }

    def _ending_levels(self, counts: Mapping[str, int]) -> dict | None:
        """Return what the items give that the plan revokes or shortens; None of more than MAX_ITEMS."""
        campaign = self.campaign
        ending = counts.get("revoke", 0) + counts.get("shorten", 0)
        if campaign.unanswered == UnansweredRule.REVOKE:
            ending += counts.get("open", 0)
        if ending > MAX_ITEMS:
            return None
        return levels_context("What the plan revokes or shortens", item_levels(items_to_end(campaign)))

    def render_to_response(self, context: Mapping, *, status: int = 200) -> HttpResponse:
        return render_page(self.request, self.template_name, context, status=status)


class AnswerForm(ConsoleForm):
    """An answer to the selected items, or to all items that meet a filter (`select` and the fields `filter_NAME`).

    confirm: whether the form is the one that shows what the answer changes. back: the page from which it was sent.
    """

    refusal = "Nothing was changed"
    # the boxes of the items are in the table
    error_fields = {"item": ""}

    answer = TextField()
    select = TextField()
    item = TextsField()
    confirm = FlagField()
    comment = TextField(label=optional("Comment"), max_characters=2000)
    until = TimeField(label="New end", required=True, placeholder="2026-12-31 17:00", has_focus=True)
    reviewer = PrincipalField(
        only="user",
        label=optional("New reviewer"),
        help_text="Leave it empty to use the escalation of the review.",
    )
    back = TextField()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["until"].help_text = zone_hint()

    @property
    def verb(self) -> str:
        return self.cleaned_data["answer"]

    @property
    def is_bulk(self) -> bool:
        return self.cleaned_data["select"] == ALL

    @property
    def needs_confirmation(self) -> bool:
        return not self.cleaned_data["confirm"] and (self.is_bulk or self.verb in (Answer.SHORTEN, ASSIGN))

    def clean(self) -> dict:
        if self.verb not in VERBS:
            self.add_error(None, "Select an answer.")
        return self.cleaned_data

    def selection(self) -> ItemSelection:
        """Return the selected items. Raise ReviewError if there are none, or too many."""
        if not self.is_bulk:
            texts = self.cleaned_data["item"]
            numbers = [number for text in texts if (number := number_of(text)) is not None]
            if not numbers:
                raise ReviewError("no item is selected: select at least one", field="item")
            if len(numbers) > MAX_SELECTED:
                raise ReviewError(
                    f"at most {MAX_SELECTED:,} items can be selected: use a filter", field="item"
                )
            return ItemSelection(numbers=numbers)
        values = {
            name.removeprefix("filter_"): True if value == "yes" else value.replace("\0", "")
            for name, value in self.data.items()
            if name.startswith("filter_")
        }
        if values.get("answer") == ALL:
            values.pop("answer")
        return ItemSelection(filter=parse_filter(values))

    def selection_fields(self) -> list[tuple[str, str]]:
        """Return the fields of the selection, which the form that confirms sends again."""
        return [
            (name, value)
            for name, values in self.data.lists()
            for value in values
            if name.startswith("filter_") or name in ("item", "select", "back")
        ]


class AnswerReview(FormPage):
    """Answer the selected items, or first show what a bulk answer would change."""

    http_method_names = ("post",)
    form_class = AnswerForm

    def prepare(self) -> None:
        self.campaign = review_or_404(self.request, self.kwargs["pk"])

    def perform(self, form: AnswerForm) -> HttpResponse:
        selection = form.selection()
        if form.needs_confirmation:
            return self._confirmation(form, selection)
        author, values = request_author(self.request), form.cleaned_data
        options = {
            "author": author,
            "campaign": self.campaign,
            "selection": selection,
            "comment": values["comment"],
        }
        if form.verb == ASSIGN:
            outcome = assign_items(**options, reviewer=values["reviewer"])
        else:
            outcome = answer_items(
                **options,
                answer="" if form.verb == UNDO else form.verb,
                new_until=values["until"] if form.verb == Answer.SHORTEN else None,
            )
        skipped = f" {outcome.own:,} about your own access were skipped." if outcome.own else ""
        messages.success(self.request, f"{as_sentence(outcome.sentence)}{skipped}")
        return see_other(self._back(form))

    def render_to_response(self, context: Mapping, *, status: int = 200) -> HttpResponse:
        form = context["form"]
        if form.cleaned_data["confirm"] and form.verb in VERBS:
            try:
                return self._confirmation(form, form.selection(), status=status)
            except GrantError:
                # the selection is at fault
                pass
        return render_review(self.request, self.campaign, form, status=status)

    def _confirmation(self, form: AnswerForm, selection: ItemSelection, *, status: int = 200) -> HttpResponse:
        """Show the counts of a bulk answer, and the fields that the answer needs."""
        campaign, verb = self.campaign, form.verb
        preview = preview_answer(account=self.request.user, campaign=campaign, selection=selection)
        can_assign = self.request.user.can(Capability.APPROVE)
        context = {
            "form": form,
            "review": campaign,
            "preview": preview,
            "levels": levels_context("What these items give", item_levels(preview.items))
            if preview.count <= MAX_ITEMS
            else None,
            "verb": verb,
            "title": VERBS[verb],
            "fields": form.selection_fields(),
            "items": []
            if form.is_bulk
            else list(selection.of(visible_items(self.request.user, campaign))[:MAX_NAMED]),
            "sources": [(ItemSource(source).label, count) for source, count in preview.by_source.items()],
            "back": self._back(form),
            "can_assign": can_assign,
            "too_large": f"At most {MAX_BULK_ITEMS:,} items can be answered at once. Use a narrower filter."
            if preview.count > MAX_BULK_ITEMS
            else "",
        }
        return render_page(self.request, "reviews/answer.html", context, status=status)

    def _back(self, form: AnswerForm) -> str:
        """Return the URL of the page of items from which the form was sent."""
        back, page = form.cleaned_data["back"], review_url(self.campaign)
        is_own = back.startswith(page) and url_has_allowed_host_and_scheme(back, allowed_hosts=None)
        return back if is_own else page
