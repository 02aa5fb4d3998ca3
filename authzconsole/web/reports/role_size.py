"""What the first roles of a `role-mining` report replace, for the slider on its page."""

from itertools import pairwise

from analytics.models import AnalysisRun
from analytics.results.read import result_page
from analytics.role_plans import MAX_ROLES

ROWS_SHOWN = 10


def role_size(run: AnalysisRun, size: int | None) -> dict | None:
    """Return the numbers of the first `size` roles and the first ROWS_SHOWN of them; None for a report without roles.

    size: by default, all roles up to MAX_ROLES. `new` of a row: the direct grants that no role before gives. Raise the
    errors of `result_page`.
    """
    rows = result_page(run, "coverage", max_rows=MAX_ROLES).rows
    if not rows:
        return None
    for before, row in pairwise([{"covered": 0}, *rows]):
        row["new"] = row["covered"] - before["covered"]
    chosen = rows[: max(1, size or MAX_ROLES)]
    last = chosen[-1]
    return {
        "most": len(rows),
        "size": len(chosen),
        "covered": last["covered"],
        "grants": last["grants"],
        "percent": 100 * last["covered"] // last["grants"],
        "memberships": sum(row["users"] for row in chosen),
        "surplus": sum(row["surplus"] for row in chosen),
        "rows": chosen[:ROWS_SHOWN],
    }
