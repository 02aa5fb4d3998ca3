"""Map each origin of plans to the function that creates such a plan again from the current data."""

from collections.abc import Callable

from grants.journal import Author
from grants.models import Plan
from grants.plans.create import PlanOrigin
from grants.plans.sources import bulk, changes, copy, expired, ghosts, like, off_boarding, readiness, review

# Plans from an analysis cannot be renewed: their source is a report, which may be out of date.
RENEWALS: dict[str, Callable[[Author, Plan], Plan]] = {
    PlanOrigin.CHANGE_SET: changes.renew,
    PlanOrigin.INVERSE: changes.renew,
    PlanOrigin.FILE: changes.renew,
    PlanOrigin.REVIEW: review.renew,
    PlanOrigin.MEMBERS: changes.renew,
    PlanOrigin.COPY: copy.renew,
    PlanOrigin.READINESS: readiness.renew,
    PlanOrigin.SUBTREE: bulk.renew_subtree,
    PlanOrigin.SELECTION: bulk.renew_selection,
    PlanOrigin.GHOSTS: ghosts.renew,
    PlanOrigin.EXPIRED: expired.renew,
    PlanOrigin.LIKE: like.renew,
    PlanOrigin.REQUEST: changes.renew,
    PlanOrigin.OFF_BOARDING: off_boarding.renew,
}
