"""Create authors of changes, and read the state of the database to compare it."""

from analytics.models import AnalysisRun
from authzconsole.common.tokens import create_token
from authzconsole.models import ApiToken
from entities.address import Address, parse_address
from entities.models import Entity
from grants.evaluation.engine import check
from grants.journal import Author, current_revision
from grants.models import GroupGrant, JournalLine, Plan, Role, User, UserGrant
from grants.policies.principals import group_text
from grants.policies.question import Question

COMMAND = Author("a command", reason="because")


def account(name: str) -> User:
    return User.objects.get(username=name)


def author_named(name: str, *, token_by: str = "", reason: str = "quarterly close", **fields) -> Author:
    """Return an account as the author, by session or with a token that another account creates."""
    if token_by:
        token = create_token(
            author=author_named(token_by), owner=name, name="t", scopes=["administer"], days=1
        ).token
        fields |= {"token": token.pk, "issuer": token.issued_by}
    return Author(name, reason=reason, user_id=account(name).pk, **fields)


def author_with(role: str, *, active: bool = True) -> Author:
    name = f"{role}-{User.objects.count()}"
    user = User.objects.create(username=name, role=role, is_active=active, is_principal=False)
    return Author(name, reason="quarterly close", request_id="request-1", user_id=user.pk)


def administrator() -> Author:
    return author_with(Role.ADMINISTRATOR)


def lines_after(revision: int) -> list[tuple]:
    """Return (action, principal, entity, privilege, detail) of each later journal line, oldest first."""
    rows = JournalLine.objects.filter(revision__gt=revision)
    return list(rows.values_list("action", "principal", "entity", "privilege", "detail"))


def database_state() -> tuple:
    """Return everything that a refused change must not alter."""
    return (
        current_revision(),
        sorted(Entity.objects.values_list("kind", "key", "state", "description")),
        sorted(UserGrant.objects.values_list("user_id", "content_object_id", "permission_id", "reason")),
        sorted(GroupGrant.objects.values_list("group_id", "content_object_id", "permission_id", "reason")),
        sorted(User.objects.values_list("username", "is_active", "role", "is_principal")),
        sorted(User.groups.through.objects.values_list("user__username", "group__name")),
        list(AnalysisRun.objects.order_by("pk").values_list("pk", "state", "options", "cancel_requested_at")),
        list(Plan.objects.order_by("pk").values_list("pk", "state", "reason", "effect")),
        list(
            ApiToken.objects.order_by("pk").values_list(
                "pk", "owner_id", "digest", "scopes", "expires_at", "revoked_at"
            )
        ),
    )


def entity_states() -> dict[str, str]:
    """Return the state of every entity by address."""
    return {f"{kind}:{key}": state for kind, key, state in Entity.objects.values_list("kind", "key", "state")}


def all_grants() -> set[tuple[str, str, str]]:
    """Return (principal, address, privilege) of every grant."""
    grants = [
        *UserGrant.objects.select_related("user", "content_object"),
        *GroupGrant.objects.select_related("group", "content_object"),
    ]
    return {
        (
            f"user:{g.user.username}" if isinstance(g, UserGrant) else group_text(g.group.name),
            str(g.content_object),
            str(g.privilege),
        )
        for g in grants
    }


def is_permitted(user: str, operation: str, address: Address | str, generation: str = "final") -> bool:
    target = parse_address(address) if isinstance(address, str) else address
    return check(Question("user", user, operation, target, generation)).is_permitted
