"""Create plans with the missing grants of a denied question."""

from grants.journal import Author, current_revision
from grants.lifecycle.missing_grants import missing_grants_of
from grants.models import Plan
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, changes_from_grants, create_plan
from grants.policies.question import Question


def create_plan_from_answer(*, author: Author, question: Question) -> Plan:
    """Create a plan of the fewest grants that permit a denied question.

    Raise PlanError if no grants would permit it, or if more than MAX_PLAN_ITEMS grants are missing.
    """
    # read before the missing grants, so that a change in between makes the plan stale
    revision = current_revision()
    missing = missing_grants_of(question, max_grants=MAX_PLAN_ITEMS)
    return create_plan(author=author, draft=PlanDraft(
        title=f"Let {question.principal} {question.operation} {question.target} ({question.generation})",
        origin=PlanOrigin.CHANGE_SET, base_revision=revision, changes=changes_from_grants(question.principal, missing),
        recipe={"subject": question.principal, "operation": question.operation, "entity": str(question.target),
                "generation": question.generation},
        empty_message="nothing is missing that a grant could give"))
