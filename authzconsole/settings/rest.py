"""The REST API and its OpenAPI document."""

from entities.vocabulary import Privilege
from grants.policies.catalogue import GENERATIONS

from .environment import BASE_DIR
from .site import PROXIES

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["authzconsole.rest.framework.callers.Authentication"],
    # denies every method without a rule
    "DEFAULT_PERMISSION_CLASSES": ["authzconsole.rest.framework.callers.RulePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "authzconsole.rest.framework.problems.exception_handler",
    "NUM_PROXIES": PROXIES,
    # only the Accept header selects the format
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Authorization console",
    "DESCRIPTION": "Manage who may do what on the platform, and explain every decision. Authenticate with `Authorization: "
    "Bearer TOKEN`. A token acts as its owner within its scopes; each operation names the scope that it needs. If an administrator has set the password of an account, its sessions are "
    "refused (403) until the user changes it; tokens keep working. Without a recent authentication, a session "
    "cannot change accounts, roles or the active generation (403). Times are UTC. Lists are paged: to read "
    "the next page, send `next` of a page as `cursor`. Errors of /api/v1 are application/problem+json; "
    "errors of /access/v1 are one JSON string, as AuthZEN requires.\n\n"
    + (BASE_DIR / "authzconsole/rest/worked_examples.md").read_text(encoding="utf-8"),
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "authzconsole.rest.openapi.add_strictness",
        "authzconsole.rest.openapi.add_authzen_endpoints",
    ],
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        name: [(value, value) for value in values]
        for name, values in {
            "EntityState": ("planned", "live", "deleted"),
            "Privilege": Privilege.__members__,
            "GenerationName": GENERATIONS,
            "PlanState": ("proposed", "applied", "discarded"),
            "RequestState": ("pending", "approved", "denied", "cancelled", "expired"),
            "RunState": ("waiting", "running", "done", "failed", "cancelled"),
            "FindingState": ("open", "accepted", "resolved"),
            "ReviewItemSource": ("user", "group", "membership", "role-group"),
        }.items()
    }
    | {"FindingKind": "authzconsole.findings.kinds.KINDS"},
}
