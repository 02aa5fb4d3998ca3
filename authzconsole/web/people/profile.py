"""The principal that a page shows."""

from django.contrib.auth.models import Group

from authzconsole.web.shared.links import principal_link
from entities.frozen import frozen
from grants.models import User
from grants.policies.policy import Generation


@frozen
class Profile:
    """The principal that a page shows. is_own: an account sees its own page, on which it cannot change
    anything.
    """

    principal: User | Group
    url: str
    generation: Generation
    can_change: bool
    is_own: bool = False

    @property
    def address(self) -> str:
        """The principal as text, such as `user:alice`."""
        return principal_link(self.principal).address

    @property
    def is_user(self) -> bool:
        return isinstance(self.principal, User)
