"""Examples of questions, about grants that the account may see."""

from dataclasses import dataclass

from authzconsole.web.shared.paging import url_with_query
from entities.models import Entity, State
from entities.vocabulary import KINDS
from grants.evaluation.entity_filters import can_see
from grants.models import User, UserGrant
from grants.policies.policy import Generation
from grants.validity import in_force

MAX_EXAMPLES = 3
# the latest grants among which examples are searched; a bound, because a tenant can have millions
MAX_GRANTS_READ = 50
# the operation of an example: the first of these that the kind has
OPERATIONS = ("read", "start", "delete", "deploy", "update", "get")


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    text: str
    url: str


def example_questions(user: User, generation: Generation) -> list[ExampleQuestion]:
    """Return questions about the entities of the latest grants, one for each kind. Ordinary accounts ask
    about their own grants.

    Runs one query for an account that sees everything, and a fixed number for others.
    """
    live = UserGrant.objects.filter(content_object__state=State.LIVE, user__is_active=True, **in_force())
    grants = live.order_by("-pk")
    if not user.can_see_all:
        # without an order, because the database could otherwise read all grants in that order to find a few
        grants = grants.filter(user=user).order_by()
    by_kind: dict[str, UserGrant] = {}
    for grant in grants.select_related("user", "content_object")[:MAX_GRANTS_READ]:
        by_kind.setdefault(grant.content_object.kind, grant)
    rows = [grant for grant in by_kind.values() if KINDS[grant.content_object.kind].operations][:MAX_EXAMPLES]
    visible = [grant for grant in rows if user.can_see_all or can_see(user, grant.content_object, generation)]
    return [_example(user, grant.user.username, grant.content_object) for grant in visible]


def _example(user: User, subject: str, entity: Entity) -> ExampleQuestion:
    operations = KINDS[entity.kind].operations
    operation = next((name for name in OPERATIONS if name in operations), operations[0])
    if not user.can_see_all:
        return ExampleQuestion(
            f"May I {operation} {entity}?", url_with_query("ask", {"operation": operation, "entity": entity})
        )
    query = {"subject": f"user:{subject}", "operation": operation, "entity": entity}
    return ExampleQuestion(f"May user:{subject} {operation} {entity}?", url_with_query("ask", query))
