"""The REST resource `decisions`: the answers of the AuthZEN endpoints, always with an explanation."""

from rest_framework.response import Response

from authzconsole.api.evaluation import MAX_EVALUATIONS, evaluate_request  # noqa: F401 (a docstring names it)
from authzconsole.common.api_caller import Caller, caller_of_token
from authzconsole.models import TokenScope
from authzconsole.rest.framework.callers import any_account
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from grants.active_generation import active_generation
from grants.evaluation.engine import MAX_LISTED_ENTITIES  # noqa: F401 (a docstring names it)


def _schema(name: str) -> dict:
    """Return the reference to a schema in fixed_openapi.yaml."""
    return {"$ref": f"#/components/schemas/{name}"}


class Decisions(Endpoint):
    route, url_name = "decisions", "rest-decisions"
    scopes = {"POST": TokenScope.DECIDE}

    @operation(
        "decisions_ask",
        any_account,
        {200: _schema("DecisionAnswer")},
        schema={"application/json": _schema("Decisions")},
    )
    def post(self) -> Response:
        """Ask for an explained decision.

        Accepts the requests of the AuthZEN Authorization API, with one question or up to
        {MAX_EVALUATIONS:,}. A token with the scope `decide` of an administrator, auditor or service
        account can ask about any subject. A token with the scope `self`, and an account with the role
        `ordinary` and its tokens, can only ask about the account itself. Unknown members are ignored, as
        AuthZEN requires. The explanations of a request with several questions list at most
        {MAX_LISTED_ENTITIES:,} missing grants together.
        """
        caller = (
            caller_of_token(self.request.auth)
            if self.request.auth
            else Caller(
                active_generation().name,
                self.request.user.can_see_all,
                self.request.user.username,
                self.request.user,
            )
        )
        return Response(evaluate_request(caller, _with_explain(self.raw_body(allows_surrogates=False))))


def _with_explain(body: dict) -> dict:
    """Return the body with `explain` set in every context.

    Malformed members are kept, because parsing refuses them.
    """
    body = _set_explain(body, body.get("context", {}))
    if isinstance(items := body.get("evaluations"), list):
        body = body | {
            "evaluations": [
                _set_explain(item, item["context"]) if isinstance(item, dict) and "context" in item else item
                for item in items
            ]
        }
    return body


def _set_explain(item: dict, context: object) -> dict:
    return item | {"context": context | {"explain": True}} if isinstance(context, dict) else item
