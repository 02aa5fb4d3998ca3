"""Every page of the console with an example URL, by the name of its screenshot.

INVARIANT: each named URL is in PAGES, in SIGNED_OUT, or, with the reason, in NO_PAGE
(tests/web/test_page_lists.py). Screenshots, browser tests and benchmarks use these lists.
"""

import re
from collections.abc import Iterator, Mapping

from django.urls import URLPattern, get_resolver, resolve

from analytics.analyses import ANALYSES

# placeholders in braces are keys of EXAMPLES, or of the numbers that authzconsole/demo/staging.py returns
PAGES = {
    "overview": "/",
    "overview-exposure": "/?colour=exposure",
    "status": "/status",
    "search": "/search?q={word}",
    "ask": "/ask",
    "ask-answered": "/ask?subject=user:{user}&operation=delete&entity={namespace}",
    "explorer": "/explorer?at={dataset}",
    "instance": "/entities/{instance}",
    "namespace": "/entities/{namespace}",
    "namespace-deletable": "/entities/{namespace}?deleter={user}",
    "namespace-access": "/entities/{namespace}?tab=access",
    "namespace-history": "/entities/{namespace}?tab=history",
    "namespace-asked": "/entities/{namespace}?subject=user:{user}&operation=delete",
    "application": "/entities/{application}",
    "program": "/entities/{program}?subject=group:{group}&operation=start",
    "dataset": "/entities/{dataset}?subject=user:{user}",
    "planned": "/entities/{planned}",
    "deleted": "/entities/{deleted}",
    "grant": "/grant/{dataset}?principal=user:{user}&privilege=READ",
    "revoke": "/revoke/{dataset}?principal=user:{user}&privilege=READ",
    "stewards": "/stewards/{namespace}",
    "register": "/register?parent={namespace}",
    "delete": "/lifecycle/delete/{namespace}",
    "recreate": "/lifecycle/recreate/{deleted}",
    "describe": "/describe/{dataset}",
    "forecast": "/forecast/{namespace}?deleter={user}",
    "effect": "/effect?change=%5B%22delete%22,%22{namespace}%22%5D",
    "effect-times": "/effect?change=%5B%22grant%22,%22user:{other}%22,%22{namespace}%22,%22READ%22%5D"
    "&change=%5B%22join%22,%22{other}%22,%22{group}%22,%222100-01-01T00:00:00Z%22,%22%22%5D",
    "people": "/people/",
    "groups": "/people/?type=group",
    "person-add": "/people/add",
    "compare": "/people/compare?one={user}&other={other}",
    "like": "/people/like?source={user}&target={other}",
    "alike": "/people/like?source={user}&target={other}&remove=yes",
    "limited": "/limited?show=limited",
    "rename": "/people/rename/user:{user}",
    "remove": "/people/remove/user:{leaver}",
    "manager": "/people/manager/user:{user}",
    "group-leave": "/people/membership?verb=remove&user={user}&group={group}",
    "group-members": "/people/members/group:{group}",
    "leaving": "/people/leaving/user:{leaver}",
    "group-removed": "/people/leaving/group:{group}",
    "person": "/people/user:{user}?in={namespace}",
    "group": "/people/group:{group}",
    "my-access": "/my-access",
    "password": "/password",
    "sessions": "/sessions",
    "time-zone": "/time-zone",
    "second-factor": "/second-factor",
    "second-factor-app": "/second-factor/app",
    "second-factor-passkey": "/second-factor/passkey",
    "reauthenticate": "/reauthenticate",
    "account-deactivate": "/accounts/change/user:{leaver}?change=activity&active=no",
    "account-password": "/accounts/password/user:{user}",
    "account-sessions": "/accounts/sessions/user:{user}",
    "account-second-factor": "/accounts/second-factor/user:{user}",
    "tokens": "/accounts/tokens/",
    "token-new": "/accounts/tokens/new",
    "token-revoke": "/accounts/tokens/{token}/revoke",
    "plans": "/plans/",
    "plan": "/plans/{plan}/",
    "plan-applied": "/plans/{applied}/",
    "plan-readiness": "/plans/readiness?namespace={namespace}&user={user}&generation=final",
    "plan-regrant": "/plans/policy-impact/{policy-impact}",
    "plan-missing": "/plans/missing?address={namespace}&subject=user:{other}&operation=list&generation=final",
    "plan-many": "/plans/many?within={namespace}",
    "plan-import": "/plans/import",
    "requests": "/requests/",
    "request": "/requests/{request}/",
    "request-new": "/requests/new?entity={dataset}",
    "request-approvers": "/requests/approvers",
    "delegation-limits": "/requests/delegation",
    "reviews": "/reviews/",
    "review-new": "/reviews/new",
    "review": "/reviews/{review}/",
    "review-reviewers": "/reviews/{review}/reviewers",
    "review-finish": "/reviews/{review}/finish",
    "review-finished": "/reviews/{finished}/",
    "policies": "/policies/",
    "policies-compared": "/policies/?generation=existing&with=final",
    "generation-activate": "/policies/existing/activate",
    "journal": "/journal/",
    "journal-proof": "/journal/proof",
    "differences": "/journal/differences?of={dataset}&since=1",
    "security-events": "/journal/security-events",
    "evidence-list": "/journal/evidence?entity={dataset}",
    "evidence": "/journal/evidence/{evidence}/",
    "break-glass": "/journal/break-glass",
    "break-glass-use": "/journal/break-glass/{use}/",
    "webhooks": "/journal/webhooks",
    "webhook-new": "/journal/webhooks/new",
    "analyses": "/analyses/",
    "nightly": "/analyses/nightly/visibility",
    "run-cancelled": "/analyses/{cancelled}/",
    **{name: f"/analyses/{{{name}}}/" for name in ANALYSES},
    "report-changes": "/analyses/{changed}/tables/changes",
    "report-pairs": "/analyses/{delete-readiness}/tables/detail",
    "report-missing": "/analyses/{delete-readiness}/missing?namespace={namespace_name}&user={user}",
}
SIGNED_OUT = {"sign-in": "/sign-in"}

_CHANGES = "only accepts POST and redirects to another page"
NO_PAGE = {
    "accounts": "redirects to the list of users",
    "account": "redirects to the page of the user",
    "healthz": "the health check",
    "readyz": "the readiness check",
    "metrics": "metrics for Prometheus",
    "sign-out": _CHANGES,
    "mfa_authenticate": "a step of signing in",
    "second-factor-codes": _CHANGES,
    "second-factor-remove": "only for a factor of the signed-in account",
    "account-identity-unlink": "only for an account with a linked identity",
    "openid_connect_login": "redirects to the sign-in provider",
    "saml-acs": "the form back from the sign-in provider",
    "saml-metadata": "the metadata for the sign-in provider",
    "passkey-sign-in": "only with PASSKEY_SIGN_IN, and with a passkey of the browser",
    "saml-slo": "the message about a sign-out from the sign-in provider",
    "openid_connect_callback": "the redirect back from the sign-in provider",
    "explorer-inside": "further nodes of the tree",
    "suggest-principals": "the suggestions of a field while the user types",
    "see-as": _CHANGES,
    "plan-copy": _CHANGES,
    "plan-ghosts": _CHANGES,
    "plan-expired": _CHANGES,
    "plan-import-sample": "a download",
    "plan-apply": _CHANGES,
    "plan-discard": _CHANGES,
    "plan-effect": _CHANGES,
    "effect-form": "a part of a form",
    "effect-run": _CHANGES,
    "effect-run-cancel": _CHANGES,
    "plan-effect-cancel": _CHANGES,
    "plan-undo": _CHANGES,
    "plan-renew": _CHANGES,
    "request-count": "a part of the navigation",
    "review-count": "a part of the navigation",
    "request-approve": _CHANGES,
    "request-deny": _CHANGES,
    "request-ask": _CHANGES,
    "request-answer": _CHANGES,
    "request-withdraw": _CHANGES,
    "review-answer": _CHANGES,
    "review-sign-off": _CHANGES,
    "review-cancel": _CHANGES,
    "review-retry": _CHANGES,
    "review-file": "a download",
    "review-bundle": "a download",
    "journal-file": "a download",
    "effect-file": "a download",
    "journal-break-glass-start": _CHANGES,
    "journal-break-glass-end": _CHANGES,
    "journal-break-glass-review": _CHANGES,
    "journal-webhook": "the demo tenant has no webhook",
    "journal-webhook-change": _CHANGES,
    "evidence-file": "a download",
    "journal-security-events-file": "a download",
    "analysis-start": _CHANGES,
    "analysis-cancel": _CHANGES,
    "analysis-schedule-all": _CHANGES,
    "analysis-file": "a download",
    "rest-root": "redirects to the documentation",
    "rest-swagger": "rendered by Swagger UI",
    "rest-redoc": "rendered by Redoc",
}
PLACEHOLDER = re.compile(r"\{[\w-]+\}")
# URL modules of JSON APIs
API_URL_MODULES = ("authzconsole.api.urls", "authzconsole.rest.urls", "authzconsole.scim.urls")

# example values on the demo tenant
EXAMPLES = {
    "word": "delivery",
    "instance": "instance:cdap",
    "namespace": "namespace:logistics",
    "namespace_name": "logistics",
    "application": "application:finance.vat_return",
    "program": "program:logistics.store_deliveries.service.delivery_board",
    "dataset": "dataset:sales.customers",
    "planned": "application:marketing.churn_radar",
    "deleted": "dataset:finance.payroll.export",
    "user": "sofia.lindqvist",
    "other": "kenji.tanaka",
    "leaver": "ingrid.solberg",
    "group": "store-operations",
}


def page_urls(examples: Mapping[str, str], pages: Mapping[str, str] = PAGES) -> dict[str, str]:
    """Return the path and query of each page. Raise KeyError with the name of a missing example."""
    return {name: url.format_map(examples) for name, url in pages.items()}


def url_name(url: str) -> str:
    """Return the name of the URL pattern for a URL of PAGES. Placeholders are replaced by a number first."""
    return resolve(PLACEHOLDER.sub("1", url.partition("?")[0])).url_name


def page_url_names() -> Iterator[str]:
    """Yield the name of every URL of the console except those of the JSON APIs."""
    for pattern in get_resolver().url_patterns:
        if isinstance(pattern, URLPattern):
            yield pattern.name
        elif pattern.urlconf_name.__name__ not in API_URL_MODULES:
            raise LookupError(
                f"{pattern.urlconf_name.__name__} is neither a module of pages nor an API: add it to {__name__}"
            )
        else:
            yield from (
                api_pattern.name for api_pattern in pattern.url_patterns if api_pattern.name in NO_PAGE
            )
