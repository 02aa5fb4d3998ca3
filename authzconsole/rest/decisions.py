"""The REST resource `decisions`: the answers of the AuthZEN endpoints, always with an explanation."""

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.api.evaluation import MAX_EVALUATIONS, STOP_DECISIONS, evaluate_request
from authzconsole.common.api_caller import Caller, caller_of_token
from authzconsole.models import TokenScope
from authzconsole.rest.fixed_openapi import FIXED
from authzconsole.rest.framework.callers import any_account
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from entities.vocabulary import Privilege
from grants.active_generation import active_generation
from grants.evaluation.engine import MAX_LISTED_ENTITIES  # noqa: F401 (a docstring names it)
from grants.policies.catalogue import GENERATIONS


class SubjectSerializer(serializers.Serializer):
    """Who wants to perform the action."""

    type = serializers.CharField(help_text="`user` or `group`.")
    id = serializers.CharField(help_text="The name.")


class ActionSerializer(serializers.Serializer):
    """What the subject wants to do."""

    name = serializers.CharField(help_text=f"An operation of the resource's kind, or {', '.join(Privilege)}.")


class ResourceSerializer(serializers.Serializer):
    """The entity on which the action is performed."""

    type = serializers.CharField(help_text="A kind of entity.")
    id = serializers.CharField(help_text="The address without its kind.")


class ContextSerializer(serializers.Serializer):
    """Further facts about the question. Members that the operation does not use have no effect."""

    generation = serializers.ChoiceField(
        list(GENERATIONS), required=False, help_text="By default the active generation."
    )
    as_of = serializers.CharField(
        required=False,
        help_text="A revision, as a number or a text, or a time in the past with a zone. The answer is about that state.",
    )
    at = serializers.DateTimeField(
        required=False,
        help_text="The time that the question is about; now by default. Grants "
        "and memberships that are valid then count.",
    )
    access_request = serializers.BooleanField(
        required=False, help_text="Whether a denial says how access is requested."
    )
    artifact = serializers.CharField(required=False, help_text="For `deploy`: the address of the artifact.")
    artifact_is_new = serializers.BooleanField(
        required=False, help_text="Whether the artifact is added by the same request."
    )
    dataset_type = serializers.CharField(
        required=False, help_text="For `create` of a dataset: the address of its custom type."
    )
    owner = serializers.CharField(
        required=False, help_text="For `create` and `deploy`: the `kerberosprincipal:` address of the owner."
    )


class EvaluationSerializer(serializers.Serializer):
    """A question. Its members replace the defaults of the request."""

    subject = SubjectSerializer(required=False)
    action = ActionSerializer(required=False)
    resource = ResourceSerializer(required=False)
    context = ContextSerializer(required=False)


class OptionsSerializer(serializers.Serializer):
    """Options for a request with several questions."""

    evaluations_semantic = serializers.ChoiceField(
        list(STOP_DECISIONS),
        required=False,
        help_text="After which decision the other questions are not answered.",
    )


class DecisionsSerializer(EvaluationSerializer):
    """One question, or several questions in `evaluations`.

    The other members are then defaults for all of them.
    """

    evaluations = EvaluationSerializer(many=True, required=False, max_length=MAX_EVALUATIONS)  # type: ignore[call-arg]
    options = OptionsSerializer(required=False)


class ReasonsSerializer(serializers.Serializer):
    as_of = serializers.IntegerField(
        required=False, help_text="The revision of the answer, if the question names one."
    )
    generation = serializers.CharField(required=False)
    sentence = serializers.CharField(required=False)
    state = serializers.ChoiceField(
        ["planned", "deleted", "not registered"], required=False, help_text=FIXED["texts"]["state"]
    )
    attempts = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="The tree of requirements."
    )
    source = serializers.DictField(required=False, help_text="Document, table and row of the policy.")
    missing = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="The smallest set of grants that would turn a denial into a permission.",
    )
    not_in_force = serializers.ListField(
        child=serializers.DictField(), required=False, help_text=FIXED["texts"]["not_in_force"]
    )
    reason = serializers.CharField(required=False)
    evaluation_id = serializers.CharField(required=False, help_text="Binds an access request to this denial.")
    evaluated_at = serializers.DateTimeField(required=False)
    access_request = serializers.DictField(
        required=False, help_text="Where and until when access can be requested."
    )
    error = serializers.DictField(required=False)


class DecisionSerializer(serializers.Serializer):
    decision = serializers.BooleanField()
    context = ReasonsSerializer()


class DecisionAnswerSerializer(serializers.Serializer):
    """`decision` and `context` for one question, or `evaluations`, in the same order, for several questions."""

    decision = serializers.BooleanField(required=False)
    context = ReasonsSerializer(required=False)
    evaluations = DecisionSerializer(many=True, required=False)


class Decisions(Endpoint):
    route, url_name = "decisions", "rest-decisions"
    scopes = {"POST": TokenScope.DECIDE}

    @operation(
        "decisions_ask",
        any_account,
        DecisionAnswerSerializer,
        body=DecisionsSerializer,
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
