"""The pages of break-glass access: the list with the form that starts it, and one use with its review."""

from datetime import timedelta

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode

from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import ConsoleForm, FormPage, TextField, reason_field
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.rendering import see_other
from grants.authority.break_glass import (
    can_break_glass,
    end_break_glass,
    has_break_glass_access,
    review_break_glass,
    start_break_glass,
)
from grants.journal import Author
from grants.models import BreakGlassUse
from grants.roles.capabilities import Capability

COLUMNS = ("Use", "Account", "Started", "State", "Reason")
ROWS_PER_PAGE = 50


class StartForm(ConsoleForm):
    reason = reason_field(required=True)


class BreakGlassList(FormPage):
    """List the uses, with the form that starts one."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_JOURNAL,)
    form_class = StartForm
    template_name = "journal/break_glass/list.html"

    def get_context_data(self, **context) -> dict:
        uses, user = BreakGlassUse.objects.order_by("-pk"), self.request.user
        return super().get_context_data(**context) | {
            "columns": COLUMNS,
            "page": paginate_sequence(self.request, uses, max_rows=ROWS_PER_PAGE),
            "can_start": can_break_glass(user) and not has_break_glass_access(user.pk),
        }


class StartBreakGlass(BreakGlassList):
    http_method_names = ("post",)
    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (Capability.READ_JOURNAL,)
    decorators = (recent_authentication_required,)

    @property
    def change_name(self) -> str:
        return "Start break-glass access"

    def perform(self, form: StartForm) -> HttpResponse:
        use = start_break_glass(author=self.author(form))
        return see_other(reverse("journal-break-glass-use", args=[use.pk]))


class ReviewForm(ConsoleForm):
    comment = TextField(label="Comment", required=True)


class BreakGlassPage(FormPage):
    """Show a use, with the form that reviews it."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_JOURNAL,)
    form_class = ReviewForm
    template_name = "journal/break_glass/page.html"

    def prepare(self) -> None:
        self.use = get_object_or_404(BreakGlassUse, pk=self.kwargs["pk"])

    def get_context_data(self, **context) -> dict:
        use, user = self.use, self.request.user
        # the filter has whole seconds, so the end is rounded up
        end = use.ends_at + timedelta(seconds=1)
        filters = {
            "actor": use.account_name,
            "since": f"{use.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "until": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        }
        return super().get_context_data(**context) | {
            "use": use,
            "can_change": user.can(Capability.CHANGE_GRANTS),
            "is_own": use.account_id == user.pk,
            "journal_url": f"{reverse('journal')}?{urlencode(filters)}",
        }


class ReviewBreakGlass(BreakGlassPage):
    http_method_names = ("post",)
    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (Capability.READ_JOURNAL,)

    def change(self, author: Author, pk: int, form: ReviewForm) -> str:
        """Change the use. Return the message of success."""
        review_break_glass(author=author, number=pk, comment=form.cleaned_data["comment"])
        return "The review is closed."

    def perform(self, form: ReviewForm) -> HttpResponse:
        message = self.change(request_author(self.request), self.use.pk, form)
        messages.success(self.request, message)
        return see_other(reverse("journal-break-glass-use", args=[self.use.pk]))


class EndBreakGlass(ReviewBreakGlass):
    def change(self, author: Author, pk: int, form: ReviewForm) -> str:
        end_break_glass(author=author, number=pk)
        return "The access has ended."
