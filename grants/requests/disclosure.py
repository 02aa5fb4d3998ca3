"""Which parts of a request an account may see, and what it may do with the request."""

from entities.frozen import frozen
from grants.models import AccessRequest, AccessRequestPart, RequestState, User
from grants.requests.approvers import ApproverScope, approver_scope, is_own


@frozen
class RequestView:
    """A request as one account sees it.

    parts: those that the account may see. hidden_count: the number of others; 0 for the requester, who must
    not learn it.
    decidable: the pending parts about which it may decide.
    """

    request: AccessRequest
    scope: ApproverScope
    parts: tuple[AccessRequestPart, ...]
    hidden_count: int
    decidable: tuple[AccessRequestPart, ...]

    @property
    def is_own(self) -> bool:
        return is_own(self.request, self.scope.account)

    @property
    def can_decide(self) -> bool:
        """Whether the account may deny or ask back."""
        is_empty = self.scope.decides_all and not self.is_own and not self.parts
        return self.request.is_pending and (bool(self.decidable) or is_empty)

    @property
    def can_approve(self) -> bool:
        return self.request.is_pending and bool(self.decidable)

    @property
    def can_withdraw(self) -> bool:
        return self.is_own and self.request.is_pending

    @property
    def can_answer(self) -> bool:
        return self.can_withdraw and self.request.waits_for_answer


def listed_parts(request: AccessRequest, scope: ApproverScope) -> list[AccessRequestPart]:
    """Return the parts that a row of a list names. Runs no query for prefetched parts.

    For a delegate, `view_of` can return more parts, because it runs a query for each part.
    """
    parts = sorted(request.parts.all(), key=lambda part: part.position)
    if is_own(request, scope.account):
        return _parts_for_requester(parts)
    if scope.account.can_see_all:
        return parts
    return [part for part in parts if not part.is_hidden and part.namespace in scope.namespaces]


def view_of(request: AccessRequest, account: User) -> RequestView:
    """Return the request as this account sees it.

    The caller has checked that it sees the request (`visible_requests`).
    """
    scope = approver_scope(account)
    parts = list(request.parts.order_by("position"))
    decidable = tuple(
        part for part in parts if request.is_pending and part.is_pending and scope.can_decide(request, part)
    )
    if is_own(request, account):
        return RequestView(request, scope, tuple(_parts_for_requester(parts)), 0, decidable)
    visible = parts if account.can_see_all else [part for part in parts if scope.can_decide(request, part)]
    return RequestView(request, scope, tuple(visible), len(parts) - len(visible), decidable)


def _parts_for_requester(parts: list[AccessRequestPart]) -> list[AccessRequestPart]:
    """Return the parts that the requester may see: of the access of a colleague, only the approved ones."""
    return [part for part in parts if not part.is_hidden or part.state == RequestState.APPROVED]
