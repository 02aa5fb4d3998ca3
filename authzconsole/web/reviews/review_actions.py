"""The forms that answer items, and that start, sign off, finish and cancel a review."""

from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from authzconsole.common.messages import as_sentence
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    NameInput,
    NumberField,
    PrincipalField,
    Radios,
    StrictChoiceField,
    TextField,
    TextsField,
    TimeField,
    optional,
    reason_field,
)
from authzconsole.web.reviews.review_pages import ALL, render_review, review_or_404, review_url
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.times.periods import time_input, zone_hint
from entities.vocabulary import KINDS
from grants.errors import GrantError
from grants.journal import Author
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
from grants.reviews.campaigns import CampaignOptions, cancel_campaign, create_campaign, retry_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.finishing import figures, request_finish, sign_off_share
from grants.reviews.selection import parse_filter
from grants.roles.capabilities import Capability

ASSIGN = "assign"
VERBS = {
    Answer.KEEP.value: "Keep",
    Answer.REVOKE.value: "Revoke",
    Answer.SHORTEN.value: "Shorten",
    UNDO: "Undo the answer of",
    ASSIGN: "Return",
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
    namespace = TextField(label=optional("Namespace"), placeholder="sales", widget=NameInput())
    kind = StrictChoiceField(
        label="Kind", choices=lambda: [("", "All kinds"), *((name, name) for name in KINDS)]
    )
    user = PrincipalField(only="user", label=optional("User"))
    group = PrincipalField(only="group", label=optional("Group"))
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
        label="Items without an answer",
        choices=UnansweredRule.choices,
        widget=Radios,
        help_text="Listed items stay as they are.",
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["deadline"].help_text = zone_hint()
        delegation = (
            " If no other person holds ADMIN on an entity, a holder of ADMIN on its application, its namespace "
            "or the instance reviews."
        )
        self.fields["reviewer_rule"].help_text = (
            "Reviewers do not review their own access. Items without a reviewer go to the escalation group, or to "
            f"administrators.{delegation if settings.DELEGATION else ''}"
        )

    def options(self) -> CampaignOptions:
        values = dict(self.cleaned_data)
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


class NewReview(ForAdministrators, FormPage):
    """Show the form of a new review, and start it."""

    form_class = NewReviewForm
    template_name = "reviews/new.html"

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
        author = request_author(self.request, form.cleaned_data["reason"])
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
        return super().get_context_data(**context) | {
            "review": campaign,
            "counts": figures(campaign) if campaign.is_open else campaign.figures,
            "revokes_open": campaign.unanswered == UnansweredRule.REVOKE,
            "url": review_url(campaign),
        }

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
            numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 18]
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
            "verb": verb,
            "title": "Move" if verb == ASSIGN and can_assign else VERBS[verb],
            "fields": form.selection_fields(),
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
