"""The URLs of the console: the pages, grouped by the areas of `authzconsole.web`, the AuthZEN API and the
REST API.
"""

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
from authzconsole.web.accounts.factors.passkey_sign_in import passkey_sign_in
from authzconsole.web.accounts.factors.sign_in_step import second_factor_sign_in
from authzconsole.web.accounts.providers.link_pages import unlink_identity_view
from authzconsole.web.accounts.providers.openid_connect import provider_callback, provider_login
from authzconsole.web.accounts.providers.saml import saml_acs, saml_metadata
from authzconsole.web.accounts.providers.saml_logout import SignOut, saml_slo
from authzconsole.web.accounts.reauthentication import reauthenticate
from authzconsole.web.accounts.sessions import account_sessions, own_sessions
from authzconsole.web.accounts.sign_in import PasswordChange, SignIn, healthz
from authzconsole.web.accounts.time_zone import choose_time_zone
from authzconsole.web.accounts.tokens import new_token, revoke_token_view, token_list
from authzconsole.web.ask.page import ask_page
from authzconsole.web.effects.page import download_effect, effect_page
from authzconsole.web.effects.run_views import cancel_effect_view, compute_effect_view, effect_form_part
from authzconsole.web.entities.grant_views import grant, revoke
from authzconsole.web.entities.lifecycle import describe, lifecycle, lifecycle_new
from authzconsole.web.entities.namespace_deletion import forecast_page
from authzconsole.web.entities.page import entity_page
from authzconsole.web.entities.stewards import stewards_page
from authzconsole.web.explorer.page import explorer, explorer_inside
from authzconsole.web.explorer.search import search_page, suggest_principals
from authzconsole.web.journal.break_glass import (
    break_glass_list,
    break_glass_page,
    end_break_glass_view,
    review_break_glass_view,
    start_break_glass_view,
)
from authzconsole.web.journal.differences import differences_page
from authzconsole.web.journal.evidence import download_evidence, evidence_list, evidence_page
from authzconsole.web.journal.page import download_journal, journal_page, verify_journal
from authzconsole.web.journal.security_events import download_security_events, security_event_page
from authzconsole.web.journal.webhooks import change_webhook, new_webhook, webhook_list, webhook_page
from authzconsole.web.overview.page import home
from authzconsole.web.overview.status import status_page
from authzconsole.web.people.comparison import compare_users
from authzconsole.web.people.group_members import change_group_members
from authzconsole.web.people.impersonation import see_as
from authzconsole.web.people.like import like_colleague
from authzconsole.web.people.limited import limited_access, new_expired_plan
from authzconsole.web.people.managers import change_manager
from authzconsole.web.people.memberships import change_membership
from authzconsole.web.people.names import remove_principal, rename_principal
from authzconsole.web.people.off_boarding import off_board
from authzconsole.web.people.principal_list import add_principal, principal_list
from authzconsole.web.people.principal_page import my_access, principal_page
from authzconsole.web.plans.bulk_change import new_bulk_plan, new_ghost_plan
from authzconsole.web.plans.import_changes import import_changes, sample_change_file
from authzconsole.web.plans.plan_actions import (
    apply_plan_view,
    cancel_plan_effect_view,
    compute_plan_effect_view,
    discard_plan_view,
    new_plan_from_copy,
    renew_plan_view,
    undo_plan_view,
)
from authzconsole.web.plans.plan_choices import choose_answer_plan, choose_impact_plan, choose_readiness_plan
from authzconsole.web.plans.plan_pages import plan_list, plan_page
from authzconsole.web.policies.page import activate_generation_page, policies_page
from authzconsole.web.reports.downloads import download_table
from authzconsole.web.reports.missing_grants import missing_grants_page
from authzconsole.web.reports.run_pages import cancel_run_view, run_list, run_page, start_run
from authzconsole.web.reports.schedules import schedule_page, switch_all_schedules_view
from authzconsole.web.reports.table import report_table_page
from authzconsole.web.requests.approvers import namespace_approvers
from authzconsole.web.requests.delegation import delegation_limits
from authzconsole.web.requests.lists import request_count, request_list
from authzconsole.web.requests.new_request import new_request
from authzconsole.web.requests.request_page import request_page
from authzconsole.web.requests.steps import answer, approve, ask, deny, withdraw
from authzconsole.web.reviews.review_actions import (
    answer_review,
    cancel_review,
    finish_review_page,
    new_review,
    retry_review_view,
    sign_off_review,
)
from authzconsole.web.reviews.review_pages import (
    review_bundle,
    review_count,
    review_file,
    review_list,
    review_page,
)
from authzconsole.web.reviews.reviewer_pages import reviewer_list

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
    path("sign-in/passkey", passkey_sign_in, name="passkey-sign-in"),
    path("sign-in/<slug:provider_id>", provider_login, name="openid_connect_login"),
    path("sign-in/<slug:provider_id>/callback", provider_callback, name="openid_connect_callback"),
    path("sign-in/<slug:provider_id>/acs", saml_acs, name="saml-acs"),
    path("sign-in/<slug:provider_id>/metadata", saml_metadata, name="saml-metadata"),
    path("sign-in/<slug:provider_id>/slo", saml_slo, name="saml-slo"),
    path("sign-out", SignOut.as_view(), name="sign-out"),
    path("sessions", own_sessions, name="sessions"),
    path("time-zone", choose_time_zone, name="time-zone"),
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
    path("stewards/<path:address>", stewards_page, name="stewards"),
    path("register", lifecycle_new, name="lifecycle-new"),
    path("lifecycle/<slug:verb>/<path:address>", lifecycle, name="lifecycle"),
    path("describe/<path:address>", describe, name="lifecycle-describe"),
    path("forecast/<path:address>", forecast_page, name="forecast"),
    # effects
    path("effect", effect_page, name="effect"),
    path("effect/form", effect_form_part, name="effect-form"),
    path("effect/run", compute_effect_view, name="effect-run"),
    path("effect/run/cancel", cancel_effect_view, name="effect-run-cancel"),
    path("effect.<slug:extension>", download_effect, name="effect-file"),
    # people
    path("people/", principal_list, name="people"),
    path("people/add", add_principal, name="people-add"),
    path("people/compare", compare_users, name="people-compare"),
    path("people/membership", change_membership, name="membership"),
    path("people/see-as", see_as, name="see-as"),
    path("limited", limited_access, name="limited-access"),
    path("people/like", like_colleague, name="people-like"),
    path("people/rename/<path:principal>", rename_principal, name="person-rename"),
    path("people/remove/<path:principal>", remove_principal, name="person-remove"),
    path("people/members/<path:principal>", change_group_members, name="group-members"),
    path("people/manager/<path:principal>", change_manager, name="person-manager"),
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
    path("plans/readiness", choose_readiness_plan, name="plan-readiness"),
    path("plans/policy-impact/<int:pk>", choose_impact_plan, name="plan-impact"),
    path("plans/missing", choose_answer_plan, name="plan-from-answer"),
    path("plans/copy", new_plan_from_copy, name="plan-copy"),
    path("plans/many", new_bulk_plan, name="plan-bulk-change"),
    path("plans/ghosts", new_ghost_plan, name="plan-ghosts"),
    path("plans/expired", new_expired_plan, name="plan-expired"),
    path("plans/import", import_changes, name="plan-import"),
    path("plans/import/sample.<slug:extension>", sample_change_file, name="plan-import-sample"),
    path("plans/<int:pk>/", plan_page, name="plan"),
    path("plans/<int:pk>/apply", apply_plan_view, name="plan-apply"),
    path("plans/<int:pk>/effect", compute_plan_effect_view, name="plan-effect"),
    path("plans/<int:pk>/effect/cancel", cancel_plan_effect_view, name="plan-effect-cancel"),
    path("plans/<int:pk>/discard", discard_plan_view, name="plan-discard"),
    path("plans/<int:pk>/undo", undo_plan_view, name="plan-undo"),
    path("plans/<int:pk>/renew", renew_plan_view, name="plan-renew"),
    # requests
    path("requests/", request_list, name="requests"),
    path("requests/count", request_count, name="request-count"),
    path("requests/new", new_request, name="request-new"),
    path("requests/approvers", namespace_approvers, name="request-approvers"),
    path("requests/delegation", delegation_limits, name="delegation-limits"),
    path("requests/<int:pk>/", request_page, name="request"),
    path("requests/<int:pk>/approve", approve, name="request-approve"),
    path("requests/<int:pk>/deny", deny, name="request-deny"),
    path("requests/<int:pk>/ask", ask, name="request-ask"),
    path("requests/<int:pk>/answer", answer, name="request-answer"),
    path("requests/<int:pk>/withdraw", withdraw, name="request-withdraw"),
    # reviews
    path("reviews/", review_list, name="reviews"),
    path("reviews/count", review_count, name="review-count"),
    path("reviews/new", new_review, name="review-new"),
    path("reviews/<int:pk>/", review_page, name="review"),
    path("reviews/<int:pk>/reviewers", reviewer_list, name="review-reviewers"),
    path("reviews/<int:pk>/answers", answer_review, name="review-answer"),
    path("reviews/<int:pk>/sign-off", sign_off_review, name="review-sign-off"),
    path("reviews/<int:pk>/finish", finish_review_page, name="review-finish"),
    path("reviews/<int:pk>/cancel", cancel_review, name="review-cancel"),
    path("reviews/<int:pk>/retry", retry_review_view, name="review-retry"),
    path("reviews/<int:pk>/items.<slug:extension>", review_file, name="review-file"),
    path("reviews/<int:pk>/evidence.zip", review_bundle, name="review-bundle"),
    # policies
    path("policies/", policies_page, name="policies"),
    path("policies/<slug:name>/activate", activate_generation_page, name="generation-activate"),
    # journal
    path("journal/", journal_page, name="journal"),
    path("journal/proof", verify_journal, name="journal-proof"),
    path("journal/differences", differences_page, name="journal-differences"),
    path("journal/security-events", security_event_page, name="journal-security-events"),
    path(
        "journal/security-events.<slug:extension>",
        download_security_events,
        name="journal-security-events-file",
    ),
    path("journal/break-glass", break_glass_list, name="journal-break-glass"),
    path("journal/break-glass/start", start_break_glass_view, name="journal-break-glass-start"),
    path("journal/break-glass/<int:pk>/", break_glass_page, name="journal-break-glass-use"),
    path("journal/break-glass/<int:pk>/end", end_break_glass_view, name="journal-break-glass-end"),
    path("journal/break-glass/<int:pk>/review", review_break_glass_view, name="journal-break-glass-review"),
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
