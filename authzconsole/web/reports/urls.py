"""The URLs of analyses and their reports."""

from django.urls import path

from authzconsole.web.lists import ListFile
from authzconsole.web.reports.alerts import NewAlert, delete_alert_view
from authzconsole.web.reports.check_again import CheckAgain
from authzconsole.web.reports.readiness import missing_grants_page
from authzconsole.web.reports.run_pages import (
    RunList,
    SchedulePage,
    StartRun,
    SwitchAllSchedules,
    cancel_run_view,
    run_page,
)
from authzconsole.web.reports.table import download_table, report_table_page
from authzconsole.web.reports.trends import TrendForm, TrendPage

urlpatterns = [
    path("trends", TrendPage.as_view(), name="trends"),
    path("trends.<slug:extension>", ListFile.as_view(form_class=TrendForm), name="trends-file"),
    path("trends/alerts/new", NewAlert.as_view(), name="trends-alert-new"),
    path("trends/alerts/<int:pk>/delete", delete_alert_view, name="trends-alert-delete"),
    path("analyses/", RunList.as_view(), name="analyses"),
    path("analyses/check", CheckAgain.as_view(), name="analysis-check"),
    path("analyses/start", StartRun.as_view(), name="analysis-start"),
    path("analyses/nightly", SwitchAllSchedules.as_view(), name="analysis-schedule-all"),
    path("analyses/nightly/<slug:analysis>", SchedulePage.as_view(), name="analysis-schedule"),
    path("analyses/<int:pk>/", run_page, name="analysis"),
    path("analyses/<int:pk>/cancel", cancel_run_view, name="analysis-cancel"),
    path("analyses/<int:pk>/tables/<slug:table>", report_table_page, name="analysis-table"),
    path("analyses/<int:pk>/tables/<slug:table>.<slug:extension>", download_table, name="analysis-file"),
    path("analyses/<int:pk>/missing", missing_grants_page, name="analysis-missing"),
]
