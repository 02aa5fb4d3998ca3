"""The URLs of the console: the pages, grouped by the areas of `authzconsole.web`, the AuthZEN API and the REST API."""

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from authzconsole.common.monitoring.views import metrics, readyz
from authzconsole.web.accounts.account_pages import account_list, account_page, change_account, renew_password
from authzconsole.web.accounts.factors.pages import (
    factor_list,
    new_app,
    new_passkey,
    new_recovery_codes,
    remove_factor_view,
    reset_factors_view,
)
from authzconsole.web.accounts.factors.sign_in_step import second_factor_sign_in
from authzconsole.web.accounts.providers.link_pages import unlink_identity_view
from authzconsole.web.accounts.providers.openid_connect import provider_callback, provider_login
from authzconsole.web.accounts.providers.saml import saml_acs, saml_metadata
from authzconsole.web.accounts.reauthentication import reauthenticate
from authzconsole.web.accounts.sessions import account_sessions, own_sessions
from authzconsole.web.accounts.sign_in import PasswordChange, SignIn, healthz
from authzconsole.web.accounts.tokens import new_token, revoke_token_view, token_list
from authzconsole.web.ask.page import ask_page
from authzconsole.web.entities.grant_views import grant, revoke
from authzconsole.web.entities.lifecycle import describe, lifecycle, lifecycle_new
from authzconsole.web.entities.namespace_deletion import forecast_page
from authzconsole.web.entities.page import entity_page
from authzconsole.web.explorer.page import explorer, explorer_inside
from authzconsole.web.explorer.search import search_page, suggest_principals
from authzconsole.web.journal.differences import differences_page
from authzconsole.web.journal.evidence import download_evidence, evidence_list, evidence_page
from authzconsole.web.journal.page import download_journal, journal_page, verify_journal
from authzconsole.web.journal.security_events import download_security_events, security_event_page
from authzconsole.web.journal.webhooks import change_webhook, new_webhook, webhook_list, webhook_page
from authzconsole.web.overview.page import home
from authzconsole.web.overview.status import status_page
from authzconsole.web.people.comparison import compare_users
from authzconsole.web.people.impersonation import see_as
from authzconsole.web.people.like import like_colleague
from authzconsole.web.people.memberships import change_membership
from authzconsole.web.people.names import remove_principal, rename_principal
from authzconsole.web.people.off_boarding import off_board
from authzconsole.web.people.principal_list import add_principal, principal_list
from authzconsole.web.people.principal_page import my_access, principal_page
from authzconsole.web.plans.bulk_change import new_bulk_plan, new_ghost_plan
from authzconsole.web.plans.import_changes import import_changes, sample_change_file
from authzconsole.web.plans.plan_actions import (
    apply_plan_view,
    discard_plan_view,
    new_plan_from_copy,
    new_plan_from_impact,
    new_plan_from_readiness,
    renew_plan_view,
    undo_plan_view,
)
from authzconsole.web.plans.plan_from_answer import new_plan_from_answer
from authzconsole.web.plans.plan_pages import plan_list, plan_page
from authzconsole.web.policies.page import activate_generation_page, policies_page
from authzconsole.web.reports.downloads import download_table
from authzconsole.web.reports.missing_grants import missing_grants_page
from authzconsole.web.reports.run_pages import cancel_run_view, run_list, run_page, start_run
from authzconsole.web.reports.schedules import schedule_page, switch_all_schedules_view
from authzconsole.web.reports.table import report_table_page

# an address is always the last part of a path, because the name of a Kerberos principal can contain slashes
urlpatterns = [
    # overview
    path("", home, name="home"),
    path("status", status_page, name="status"),
    # APIs
    path("", include("authzconsole.api.urls")),
    path("api/v1/", include("authzconsole.rest.urls")),
    path("scim/", include("authzconsole.scim.urls")),
    # sign-in and health
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-in/second-factor", second_factor_sign_in, name="mfa_authenticate"),
    path("sign-in/<slug:provider_id>", provider_login, name="openid_connect_login"),
    path("sign-in/<slug:provider_id>/callback", provider_callback, name="openid_connect_callback"),
    path("sign-in/<slug:provider_id>/acs", saml_acs, name="saml-acs"),
    path("sign-in/<slug:provider_id>/metadata", saml_metadata, name="saml-metadata"),
    path("sign-out", login_not_required(LogoutView.as_view()), name="sign-out"),
    path("sessions", own_sessions, name="sessions"),
    path("reauthenticate", reauthenticate, name="reauthenticate"),
    path("second-factor", factor_list, name="second-factor"),
    path("second-factor/app", new_app, name="second-factor-app"),
    path("second-factor/passkey", new_passkey, name="second-factor-passkey"),
    path("second-factor/codes", new_recovery_codes, name="second-factor-codes"),
    path("second-factor/<int:pk>/remove", remove_factor_view, name="second-factor-remove"),
    path("password", PasswordChange.as_view(), name="password"),
    # explorer
    path("search", search_page, name="search"),
    path("suggest/principals", suggest_principals, name="suggest-principals"),
    path("explorer", explorer, name="explorer"),
    path("explorer/inside", explorer_inside, name="explorer-inside"),
    # ask
    path("ask", ask_page, name="ask"),
    # entities
    path("entities/<path:address>", entity_page, name="entity"),
    path("grant/<path:address>", grant, name="grant"),
    path("revoke/<path:address>", revoke, name="revoke"),
    path("register", lifecycle_new, name="lifecycle-new"),
    path("lifecycle/<slug:verb>/<path:address>", lifecycle, name="lifecycle"),
    path("describe/<path:address>", describe, name="lifecycle-describe"),
    path("forecast/<path:address>", forecast_page, name="forecast"),
    # people
    path("people/", principal_list, name="people"),
    path("people/add", add_principal, name="people-add"),
    path("people/compare", compare_users, name="people-compare"),
    path("people/membership", change_membership, name="membership"),
    path("people/see-as", see_as, name="see-as"),
    path("people/like", like_colleague, name="people-like"),
    path("people/rename/<path:principal>", rename_principal, name="person-rename"),
    path("people/remove/<path:principal>", remove_principal, name="person-remove"),
    path("people/leaving/<path:principal>", off_board, name="person-off-board"),
    path("people/<path:principal>", principal_page, name="person"),
    path("my-access", my_access, name="my-access"),
    # accounts
    path("accounts/", account_list, name="accounts"),
    path("accounts/tokens/", token_list, name="tokens"),
    path("accounts/tokens/new", new_token, name="token-new"),
    path("accounts/tokens/<int:pk>/revoke", revoke_token_view, name="token-revoke"),
    path("accounts/password/<path:principal>", renew_password, name="account-password"),
    path("accounts/sessions/<path:principal>", account_sessions, name="account-sessions"),
    path("accounts/identities/<int:pk>/unlink", unlink_identity_view, name="account-identity-unlink"),
    path("accounts/second-factor/<path:principal>", reset_factors_view, name="account-second-factor"),
    path("accounts/change/<path:principal>", change_account, name="account-change"),
    path("accounts/<path:principal>", account_page, name="account"),
    # plans
    path("plans/", plan_list, name="plans"),
    path("plans/readiness", new_plan_from_readiness, name="plan-readiness"),
    path("plans/policy-impact/<int:pk>", new_plan_from_impact, name="plan-impact"),
    path("plans/missing", new_plan_from_answer, name="plan-from-answer"),
    path("plans/copy", new_plan_from_copy, name="plan-copy"),
    path("plans/many", new_bulk_plan, name="plan-bulk-change"),
    path("plans/ghosts", new_ghost_plan, name="plan-ghosts"),
    path("plans/import", import_changes, name="plan-import"),
    path("plans/import/sample.<slug:extension>", sample_change_file, name="plan-import-sample"),
    path("plans/<int:pk>/", plan_page, name="plan"),
    path("plans/<int:pk>/apply", apply_plan_view, name="plan-apply"),
    path("plans/<int:pk>/discard", discard_plan_view, name="plan-discard"),
    path("plans/<int:pk>/undo", undo_plan_view, name="plan-undo"),
    path("plans/<int:pk>/renew", renew_plan_view, name="plan-renew"),
    # policies
    path("policies/", policies_page, name="policies"),
    path("policies/<slug:name>/activate", activate_generation_page, name="generation-activate"),
    # journal
    path("journal/", journal_page, name="journal"),
    path("journal/proof", verify_journal, name="journal-proof"),
    path("journal/differences", differences_page, name="journal-differences"),
    path("journal/security-events", security_event_page, name="journal-security-events"),
    path("journal/security-events.<slug:extension>", download_security_events, name="journal-security-events-file"),
    path("journal/webhooks", webhook_list, name="journal-webhooks"),
    path("journal/webhooks/new", new_webhook, name="journal-webhook-new"),
    path("journal/webhooks/<int:pk>/", webhook_page, name="journal-webhook"),
    path("journal/webhooks/<int:pk>/change", change_webhook, name="journal-webhook-change"),
    path("journal/evidence", evidence_list, name="evidence-list"),
    path("journal/evidence/<int:pk>/", evidence_page, name="evidence"),
    path("journal/evidence/<int:pk>.zip", download_evidence, name="evidence-file"),
    path("journal.<slug:extension>", download_journal, name="journal-file"),
    # reports
    path("analyses/", run_list, name="analyses"),
    path("analyses/start", start_run, name="analysis-start"),
    path("analyses/nightly", switch_all_schedules_view, name="analysis-schedule-all"),
    path("analyses/nightly/<slug:analysis>", schedule_page, name="analysis-schedule"),
    path("analyses/<int:pk>/", run_page, name="analysis"),
    path("analyses/<int:pk>/cancel", cancel_run_view, name="analysis-cancel"),
    path("analyses/<int:pk>/tables/<slug:table>", report_table_page, name="analysis-table"),
    path("analyses/<int:pk>/tables/<slug:table>.<slug:extension>", download_table, name="analysis-file"),
    path("analyses/<int:pk>/missing", missing_grants_page, name="analysis-missing"),
]

handler404 = "authzconsole.web.error_pages.not_found"
handler500 = "authzconsole.web.error_pages.server_error"
