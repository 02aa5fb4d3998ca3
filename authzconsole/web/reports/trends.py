"""The page of trends: the figures of the nights as charts and as a table, and their files."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import FigureAlert, FigureCrossing
from analytics.runs.schedules import next_night
from authzconsole.findings.sources import newest_reports
from authzconsole.lists.base import List
from authzconsole.lists.runs import Figures
from authzconsole.web.forms import ListForm, OptionalChoiceField
from authzconsole.web.lists import ListView
from authzconsole.web.reports.charts.trends import all_trends, figure_label, trend_days
from authzconsole.web.reports.check_again import REPORT_AGE, age_of_reports, report_age_section
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.models import User
from grants.roles.capabilities import Capability

PERIODS = [("30", "30 days"), ("90", "90 days"), ("365", "One year")]


class TrendForm(ListForm):
    list_type = Figures

    days = OptionalChoiceField(choices=PERIODS, default="90")

    @property
    def number_of_days(self) -> int:
        self.full_clean()
        return int(self.cleaned_data["days"])

    def filtered_list(self, account: User, **filters: object) -> List:
        """Return the figures of the period."""
        return Figures(account, {"since": timezone.now() - timedelta(days=self.number_of_days)})


class TrendPage(ListView):
    form_class = TrendForm

    def get(self, request: HttpRequest) -> HttpResponse:
        if requested_section(request) == REPORT_AGE:
            return report_age_section(request)
        trends = all_trends(self.form.number_of_days)
        context = {
            "trends": trends,
            "trend_days": trend_days(trends),
            "is_trend_page": True,
            "periods": PERIODS,
            "days": str(self.form.number_of_days),
            "next_night": None if trends else next_night(),
            "downloads": self.form.downloads("trends-file"),
            "url": reverse("trends"),
            "alerts": list(_alerts()),
            **age_of_reports(newest_reports()),
            "can_start": request.user.can(Capability.RUN_ANALYSES),
            "can_manage": request.user.can(Capability.MANAGE_SETTINGS),
        }
        return render_page(request, "reports/trends.html", context)


def _alerts() -> Iterator[tuple[FigureAlert, str, str, FigureCrossing | None]]:
    """Yield each alert with the title of its analysis, the label of its figure and its last crossing. Runs two queries."""
    alerts = list(FigureAlert.objects.order_by("pk"))
    newest = FigureCrossing.objects.order_by("alert_id").values("alert_id").annotate(newest=Max("pk"))
    crossings = {
        crossing.alert_id: crossing
        for crossing in FigureCrossing.objects.filter(pk__in=newest.values("newest"))
    }
    for alert in alerts:
        title = ANALYSES[alert.analysis].title if alert.analysis in ANALYSES else alert.analysis
        yield alert, title, figure_label(alert.figure), crossings.get(alert.pk)
