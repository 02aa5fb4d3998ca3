"""The URLs of analyses and their reports."""

from django.urls import path

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

urlpatterns = [
    path("analyses/", RunList.as_view(), name="analyses"),
    path("analyses/start", StartRun.as_view(), name="analysis-start"),
    path("analyses/nightly", SwitchAllSchedules.as_view(), name="analysis-schedule-all"),
    path("analyses/nightly/<slug:analysis>", SchedulePage.as_view(), name="analysis-schedule"),
    path("analyses/<int:pk>/", run_page, name="analysis"),
    path("analyses/<int:pk>/cancel", cancel_run_view, name="analysis-cancel"),
    path("analyses/<int:pk>/tables/<slug:table>", report_table_page, name="analysis-table"),
    path("analyses/<int:pk>/tables/<slug:table>.<slug:extension>", download_table, name="analysis-file"),
    path("analyses/<int:pk>/missing", missing_grants_page, name="analysis-missing"),
]
