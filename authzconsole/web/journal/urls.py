"""The URLs of the journal, evidence and webhooks."""

from django.urls import path

from authzconsole.web.journal.break_glass import (
    BreakGlassList,
    BreakGlassPage,
    EndBreakGlass,
    ReviewBreakGlass,
    StartBreakGlass,
)
from authzconsole.web.journal.differences import differences_page
from authzconsole.web.journal.evidence import EvidenceList, download_evidence, evidence_page
from authzconsole.web.journal.page import JournalForm, JournalPage, verify_journal
from authzconsole.web.journal.security_events import EventForm, SecurityEventList
from authzconsole.web.journal.webhooks import ChangeWebhook, NewWebhook, webhook_list, webhook_page
from authzconsole.web.lists import ListFile

urlpatterns = [
    path("journal/", JournalPage.as_view(), name="journal"),
    path("journal/proof", verify_journal, name="journal-proof"),
    path("journal/differences", differences_page, name="journal-differences"),
    path("journal/security-events", SecurityEventList.as_view(), name="journal-security-events"),
    path(
        "journal/security-events.<slug:extension>",
        ListFile.as_view(form_class=EventForm),
        name="journal-security-events-file",
    ),
    path("journal/break-glass", BreakGlassList.as_view(), name="journal-break-glass"),
    path("journal/break-glass/start", StartBreakGlass.as_view(), name="journal-break-glass-start"),
    path("journal/break-glass/<int:pk>/", BreakGlassPage.as_view(), name="journal-break-glass-use"),
    path("journal/break-glass/<int:pk>/end", EndBreakGlass.as_view(), name="journal-break-glass-end"),
    path(
        "journal/break-glass/<int:pk>/review", ReviewBreakGlass.as_view(), name="journal-break-glass-review"
    ),
    path("journal/webhooks", webhook_list, name="journal-webhooks"),
    path("journal/webhooks/new", NewWebhook.as_view(), name="journal-webhook-new"),
    path("journal/webhooks/<int:pk>/", webhook_page, name="journal-webhook"),
    path("journal/webhooks/<int:pk>/change", ChangeWebhook.as_view(), name="journal-webhook-change"),
    path("journal/evidence", EvidenceList.as_view(), name="evidence-list"),
    path("journal/evidence/<int:pk>/", evidence_page, name="evidence"),
    path("journal/evidence/<int:pk>.zip", download_evidence, name="evidence-file"),
    path("journal.<slug:extension>", ListFile.as_view(form_class=JournalForm), name="journal-file"),
]
