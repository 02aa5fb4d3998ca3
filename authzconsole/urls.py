from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from authzconsole.web.accounts.pages import account, account_change, account_password, accounts
from authzconsole.web.accounts.sign_in import Password, SignIn, healthz
from authzconsole.web.accounts.tokens import token_end, token_new, tokens
from authzconsole.web.ask.page import ask
from authzconsole.web.entities.grant_views import grant, revoke
from authzconsole.web.entities.lifecycle import describe, lifecycle, lifecycle_new
from authzconsole.web.entities.namespace_deletion import forecast_page
from authzconsole.web.entities.page import entity_page
from authzconsole.web.explorer.page import explorer, explorer_inside
from authzconsole.web.explorer.search import search_page, suggest_principals
from authzconsole.web.journal.page import journal, journal_file, journal_proof
from authzconsole.web.overview.page import home
from authzconsole.web.people.comparison import compare, leaving
from authzconsole.web.people.impersonation import see_as
from authzconsole.web.people.lists import people, person_add
from authzconsole.web.people.memberships import membership
from authzconsole.web.people.page import my_access, person
from authzconsole.web.plans.bulk_change import new_for_ghosts, new_for_many
from authzconsole.web.plans.import_changes import new_from_file, sample_file
from authzconsole.web.plans.page import (
    apply,
    discard,
    new_from_copy,
    new_from_impact,
    new_from_readiness,
    plan,
    plans,
    renew,
    undo,
)
from authzconsole.web.plans.plan_from_answer import new_from_answer
from authzconsole.web.policies.page import generation_change, policies
from authzconsole.web.reports.analyses import analyses, analysis, analysis_cancel, analysis_start
from authzconsole.web.reports.downloads import table_file
from authzconsole.web.reports.missing_page import missing
from authzconsole.web.reports.schedules import schedule
from authzconsole.web.reports.table import report_table

# an address comes last: the name of a kerberos principal may hold slashes
urlpatterns = [
    path("", home, name="home"),
    path("", include("authzconsole.api.urls")),
    path("api/v1/", include("authzconsole.rest.urls")),
    path("healthz", healthz, name="healthz"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", login_not_required(LogoutView.as_view()), name="sign-out"),
    path("password", Password.as_view(), name="password"),
    path("search", search_page, name="search"),
    path("suggest/principals", suggest_principals, name="suggest-principals"),
    path("ask", ask, name="ask"),
    path("explorer", explorer, name="explorer"),
    path("explorer/inside", explorer_inside, name="explorer-inside"),
    path("entities/<path:address>", entity_page, name="entity"),
    path("grant/<path:address>", grant, name="grant"),
    path("revoke/<path:address>", revoke, name="revoke"),
    path("register", lifecycle_new, name="lifecycle-new"),
    path("lifecycle/<slug:verb>/<path:address>", lifecycle, name="lifecycle"),
    path("describe/<path:address>", describe, name="lifecycle-describe"),
    path("forecast/<path:address>", forecast_page, name="forecast"),
    path("people/", people, name="people"),
    path("people/add", person_add, name="people-add"),
    path("people/compare", compare, name="people-compare"),
    path("people/membership", membership, name="membership"),
    path("people/see-as", see_as, name="see-as"),
    path("people/leaving/<path:principal>", leaving, name="person-leaving"),
    path("people/<path:principal>", person, name="person"),
    path("my-access", my_access, name="my-access"),
    path("accounts/", accounts, name="accounts"),
    path("accounts/tokens/", tokens, name="tokens"),
    path("accounts/tokens/new", token_new, name="token-new"),
    path("accounts/tokens/<int:pk>/revoke", token_end, name="token-end"),
    path("accounts/password/<path:principal>", account_password, name="account-password"),
    path("accounts/change/<path:principal>", account_change, name="account-change"),
    path("accounts/<path:principal>", account, name="account"),
    path("plans/", plans, name="plans"),
    path("plans/readiness", new_from_readiness, name="plan-readiness"),
    path("plans/policy-impact/<int:pk>", new_from_impact, name="plan-impact"),
    path("plans/missing", new_from_answer, name="plan-missing"),
    path("plans/copy", new_from_copy, name="plan-copy"),
    path("plans/many", new_for_many, name="plan-many"),
    path("plans/ghosts", new_for_ghosts, name="plan-ghosts"),
    path("plans/import", new_from_file, name="plan-import"),
    path("plans/import/sample.<slug:extension>", sample_file, name="plan-import-sample"),
    path("plans/<int:pk>/", plan, name="plan"),
    path("plans/<int:pk>/apply", apply, name="plan-apply"),
    path("plans/<int:pk>/discard", discard, name="plan-discard"),
    path("plans/<int:pk>/undo", undo, name="plan-undo"),
    path("plans/<int:pk>/renew", renew, name="plan-renew"),
    path("policies/", policies, name="policies"),
    path("policies/<slug:name>/activate", generation_change, name="generation-activate"),
    path("journal/", journal, name="journal"),
    path("journal/proof", journal_proof, name="journal-proof"),
    path("journal.<slug:extension>", journal_file, name="journal-file"),
    path("analyses/", analyses, name="analyses"),
    path("analyses/start", analysis_start, name="analysis-start"),
    path("analyses/nightly/<slug:analysis>", schedule, name="analysis-schedule"),
    path("analyses/<int:pk>/", analysis, name="analysis"),
    path("analyses/<int:pk>/cancel", analysis_cancel, name="analysis-cancel"),
    path("analyses/<int:pk>/tables/<slug:table>", report_table, name="analysis-table"),
    path("analyses/<int:pk>/tables/<slug:table>.<slug:extension>", table_file, name="analysis-file"),
    path("analyses/<int:pk>/missing", missing, name="analysis-missing"),
]

handler404 = "authzconsole.web.error_pages.not_found"
