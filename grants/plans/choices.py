"""A choice between several plans for the same purpose, with their effects side by side."""

from entities.frozen import frozen


@frozen
class PlanChoice:
    """One of several plans, which is not created yet. Numbers that are not known are None.

    value: its name, such as the principal that receives the grants.
    title, note: shown to people; empty for the value.
    grants: their number.
    kept, kept_not: permissions of the purpose that are permitted and not permitted afterwards.
    gained, lost: permissions beyond the purpose.
    attached: how many of `gained` come with the grants.
    given, taken: what an activation of a generation after the plan gives and takes.
    fault: why it cannot be chosen; otherwise empty.
    """

    value: str
    title: str = ""
    note: str = ""
    grants: int | None = None
    kept: int | None = None
    kept_not: int | None = None
    gained: int | None = None
    attached: int = 0
    lost: int | None = None
    given: int | None = None
    taken: int | None = None
    fault: str = ""

    @property
    def side_effects(self) -> int | None:
        """The permissions that it gives beyond the purpose and that do not come with the grants."""
        return None if self.gained is None else self.gained - self.attached
