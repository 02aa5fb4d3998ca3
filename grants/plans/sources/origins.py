"""What plans are made from inside this package: a chosen set of changes, the grants of somebody else, a deletion's gap."""

from collections.abc import Iterable, Iterator

from django.db.models import Exists, OuterRef

from entities.address import Address
from grants.changes.outcomes import ChangeItem
from grants.changes.services import GrantSpec, validated_items
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.lifecycle.forecast import resolve_generation
from grants.lifecycle.missing_grants import active_user_named, missing_grants_of, missing_grants_to_delete
from grants.models import GRANT_TABLES, NAME_COLUMNS, Plan, PlanBreadth, PlanVerb, privilege_of
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, create_plan, grant_changes
from grants.policies.policy import Generation
from grants.policies.question import Question
from grants.principal_names import format_principal, parse_principal
from grants.principal_rows import principals_by_name

CHANGE_SET, COPY, READINESS, INVERSE = "change-set", "copy", "readiness", "inverse"


def create_plan_from_changes(*, author: Author, grant: Iterable[GrantSpec] = (), revoke: Iterable[GrantSpec] = (),
                             title: str = "", base_revision: int | None = None) -> Plan:
    """Raises ChangeRefused with everything that is wrong with the items, PlanError where there are none.

    base_revision: what the caller chose them by; now unless it is given.
    """
    now = current_revision()
    items, _ = validated_items({"grant": list(grant), "revoke": list(revoke)})
    changes = [(verb, *item) for verb, of_verb in items.items() for item in of_verb]
    return create_plan(author=author, draft=PlanDraft(
        title=title or _changes_title(items), origin=CHANGE_SET, changes=changes,
        base_revision=now if base_revision is None else min(base_revision, now),
        nothing="nothing is to be changed: put items into `grant` or `revoke`"))


def create_plan_from_copy(*, author: Author, source: str, target: str, within: Address | None = None,
                 renewal_of: Plan | None = None) -> Plan:
    """Grant `target` what `source` itself holds and the target itself does not. within: only a namespace, or an application,
    and what lies in it. Raises PlanError."""
    source, target = format_principal(source), format_principal(target)
    revision, known = current_revision(), principals_by_name([source, target])
    for name in (source, target):
        if name not in known:
            raise PlanError(f"{name} is not known here: add it first, or correct the name")
    if source == target:
        raise PlanError(f"{source} is both: name the one to copy from and another one to copy to")
    where = f" in {within}" if within else ""
    return create_plan(author=author, draft=PlanDraft(
        title=f"Copy the grants of {source} to {target}{where}", origin=COPY, base_revision=revision, watches=[source, target],
        changes=grant_changes(target, _lacking(source, target, within)), renewal_of=renewal_of,
        recipe={"source": source, "target": target, "within": str(within or "")},
        nothing=f"{source} holds nothing{where} that {target} does not: there is nothing to copy"))


def create_readiness_plan(*, author: Author, namespace: Address, user: str, generation: Generation | str | None = None,
                      principal: str = "", renewal_of: Plan | None = None) -> Plan:
    """The smallest set of grants after which `user` can delete `namespace`. principal: who receives them: the user, unless a
    group of the user is named. Raises PlanError, LifecycleError, UnknownGeneration."""
    revision, rules = current_revision(), resolve_generation(generation)
    deleter = active_user_named(user)
    receiver = format_principal(principal) if principal else f"user:{user}"
    _check_receiver(receiver, deleter)
    through = "" if receiver == str(deleter) else f" through {receiver}"
    return create_plan(author=author, draft=PlanDraft(
        title=f"Let {deleter} delete {namespace}{through} ({rules.name})", origin=READINESS, base_revision=revision,
        breadth=PlanBreadth.NAMESPACES, watches=[str(deleter)], renewal_of=renewal_of,
        changes=grant_changes(receiver, missing_grants_to_delete(namespace, deleter, rules)),
        recipe={"namespace": str(namespace), "user": user, "generation": rules.name, "principal": receiver},
        nothing=f"nothing is missing: {deleter} can delete {namespace} already (generation `{rules.name}`)"))


def create_plan_from_answer(*, author: Author, question: Question) -> Plan:
    """The fewest grants that turn the denial into a permit. Raises PlanError."""
    # before the answer, so that a change in between makes the plan stale
    revision = current_revision()
    return create_plan(author=author, draft=PlanDraft(
        title=f"Let {question.principal} {question.operation} {question.target} ({question.generation})", origin=CHANGE_SET,
        base_revision=revision, changes=grant_changes(question.principal, missing_grants_of(question, most=MAX_PLAN_ITEMS)),
        nothing="nothing is missing that a grant could give"))


def _check_receiver(receiver: str, deleter) -> None:
    kind, name = parse_principal(receiver)
    if kind == "user" and receiver != str(deleter):
        raise PlanError(f"grants to {receiver} give {deleter} nothing: name {deleter}, or a group that it is in")
    if kind == "group" and not deleter.groups.filter(name=name).exists():
        raise PlanError(f"{deleter} is not in {receiver}, so that grants to it give {deleter} nothing: name {deleter}, or a "
                        f"group that it is in")


def _changes_title(items: dict[str, list[ChangeItem]]) -> str:
    counts = [f"{verb} {len(of_verb):,}" for verb, of_verb in items.items() if of_verb]
    return f"{' and '.join(counts).capitalize()} by hand"


def _lacking(source: str, target: str, within: Address | None) -> Iterator[tuple[Address, object]]:
    """What the source itself holds and the target itself does not, by address."""
    (model, _), name = GRANT_TABLES[parse_principal(source)[0]], parse_principal(source)[1]
    rows = model.objects.filter(**{_name_column(source): name})
    target_model = GRANT_TABLES[parse_principal(target)[0]][0]
    held = target_model.objects.filter(**{_name_column(target): parse_principal(target)[1]},
                                       content_object_id=OuterRef("content_object_id"), permission_id=OuterRef("permission_id"))
    rows = rows.filter(~Exists(held))
    if within is not None:
        if within.kind not in ("namespace", "application"):
            raise PlanError(f"{within} is neither a namespace nor an application: name one of those, or none")
        rows = rows.filter(**{f"{within.kind}__kind": within.kind, f"{within.kind}__key": within.key})
    rows = rows.order_by("content_object__kind", "content_object__key", "permission_id")
    for kind, key, permission in rows.values_list("content_object__kind", "content_object__key", "permission_id").iterator():
        yield Address(kind, key), privilege_of(permission)


def _name_column(principal: str) -> str:
    return NAME_COLUMNS[parse_principal(principal)[0]]


def plan_again(*, author: Author, plan: Plan) -> Plan:
    """The same items against the present data."""
    changes = ((PlanVerb(row.verb).value, row.principal, row.address, row.privilege)
               for row in plan.items.order_by("position").iterator(chunk_size=2_000))
    return create_plan(author=author, draft=PlanDraft(title=plan.title, origin=plan.origin, changes=changes, renewal_of=plan,
                                                recipe=plan.recipe, base_revision=current_revision(), inverse_of=plan.inverse_of))
