"""The forms that rename or remove a user or group. Each first shows the effects of the change."""

from collections.abc import Iterator

from django.contrib import messages
from django.contrib.auth.models import Group
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authzconsole.models import ApiToken
from authzconsole.sessions.services import active_sessions
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import NOT_AS_SHOWN, effect_context, refusal_text, shown_effect
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, see_other, show_outcome
from authzconsole.web.shared.stranding_warning import stranding_warning
from entities.models import State
from grants.change_set import RemovePrincipal
from grants.changes import ChangeSet, apply
from grants.errors import GrantError
from grants.models import PlanItem, PlanState, User
from grants.principals.administrator_loss import loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.removal_hooks import name_guard_fault
from grants.principals.renaming import rename_group, rename_user
from grants.roles.capabilities import Capability


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
@recent_authentication_required
def rename_principal(request: HttpRequest, principal: str) -> HttpResponse:
    subject = principal_or_404(principal)
    name = _name(subject)
    new_name = field_text(request.POST, "name") if request.method == "POST" else name
    context = {"name": new_name, "effects": list(_rename_effects(subject)), "fault": _guard_text(subject)}
    if request.method != "POST":
        return _response(request, subject, "rename", context)
    rename = rename_user if isinstance(subject, User) else rename_group
    try:
        outcome = rename(author=_author(request), name=name, new_name=new_name)
    except GrantError as error:
        return _response(request, subject, "rename", context | {"fault": f"{error}."}, status=400)
    show_outcome(request, outcome)
    return see_other(principal_url("person", f"{principal.partition(':')[0]}:{new_name}"))


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
@recent_authentication_required
def remove_principal(request: HttpRequest, principal: str) -> HttpResponse:
    subject = principal_or_404(principal)
    loss = loss_if_removed(subject)
    grants = dict(subject.grants.order_by().values_list("content_object__state").annotate(Count("pk")))
    context = {
        "effects": list(_removal_effects(subject)),
        "fault": _guard_text(subject, is_removal=True),
        "grants": [(state.label.lower(), grants[state]) for state in State if grants.get(state)],
        "total_grants": sum(grants.values()),
        "stranding": stranding_warning(loss, principal=principal) if loss.stranded_count else None,
        "off_board_url": principal_url("person-off-board", principal),
    }
    change_set = ChangeSet.of(RemovePrincipal(principal, request.POST.get("revoke_grants") == "yes"))
    if request.method != "POST":
        return _response(
            request,
            subject,
            "remove",
            context | {"effect": effect_context(request, change_set, has_forecast=True)},
        )
    if loss.stranded_count and request.POST.get("strand") != "yes":
        fault = "Confirm that entities are left with fewer than two administrators."
        effect = effect_context(request, change_set, has_forecast=True)
        return _response(request, subject, "remove", context | {"fault": fault, "effect": effect}, status=400)
    try:
        outcome = apply(change_set, author=_author(request), shown=shown_effect(request))
    except NOT_AS_SHOWN as error:
        fault, status = refusal_text(error)
        effect = effect_context(request, error.preview, has_forecast=True)
        return _response(
            request, subject, "remove", context | {"fault": fault, "effect": effect}, status=status
        )
    except GrantError as error:
        return _response(request, subject, "remove", context | {"fault": f"{error}."}, status=400)
    messages.success(request, f"{outcome.sentence}.")
    return see_other(reverse("people") + ("" if isinstance(subject, User) else "?type=group"))


def _author(request: HttpRequest):
    return request_author(request, request.POST.get("reason", "").strip())


def _name(subject: User | Group) -> str:
    return subject.username if isinstance(subject, User) else subject.name


def _guard_text(subject: User | Group, *, is_removal: bool = False) -> str:
    fault = name_guard_fault(subject, is_removal=is_removal)
    verb = "removed" if is_removal else "renamed"
    return f"{principal_link(subject).name} cannot be {verb}: {fault}." if fault else ""


def _rename_effects(subject: User | Group) -> Iterator[str]:
    """Yield a sentence for each effect of a new name."""
    yield f"{_count(capped_count(subject.grants), 'direct grant')} and {_members(subject)} stay."
    if isinstance(subject, User):
        yield (
            f"{_count(capped_count(ApiToken.objects.active().filter(owner=subject)), 'API token')} and "
            f"{_count(capped_count(active_sessions(subject)), 'session')} keep working. The user signs in with the new name."
        )
    yield from _plan_effects(subject)
    yield "The journal, reports and files keep the old name. A later import that names the old one adds it again."


def _removal_effects(subject: User | Group) -> Iterator[str]:
    """Yield a sentence for each effect of the removal, except the revoked grants."""
    yield f"{_members(subject).capitalize()} end."
    if isinstance(subject, User):
        yield (
            f"{_count(capped_count(ApiToken.objects.active().filter(owner=subject)), 'API token')} and "
            f"{_count(capped_count(active_sessions(subject)), 'session')} end. Second factors and sign-in links are deleted."
        )
    yield from _plan_effects(subject)
    yield "The journal keeps the name. A removal cannot be undone."


def _plan_effects(subject: User | Group) -> Iterator[str]:
    kind = "user" if isinstance(subject, User) else "group"
    items = PlanItem.objects.filter(
        plan__state=PlanState.PROPOSED, principal_type=kind, principal_name=_name(subject)
    )
    if total := items.order_by().values("plan").distinct().count():
        yield f"{_count(total, 'proposed plan')} with this {kind} become{'s' if total == 1 else ''} stale."


def _members(subject: User | Group) -> str:
    rows = subject.groups if isinstance(subject, User) else subject.user_set
    return _count(capped_count(rows), "membership")


def _count(total: int, noun: str) -> str:
    return (
        f"over {MAX_COUNTED:,} {noun}s"
        if total > MAX_COUNTED
        else f"{total:,} {noun}{'' if total == 1 else 's'}"
    )


def _response(
    request: HttpRequest, subject: User | Group, verb: str, context: dict, *, status: int = 200
) -> HttpResponse:
    link = principal_link(subject)
    return render_page(
        request,
        f"people/changes/{verb}.html",
        context
        | {
            "principal": link,
            "is_user": isinstance(subject, User),
            "back": principal_url("person", link.address),
            "url": principal_url(f"person-{verb}", link.address),
            "reason": request.POST.get("reason", ""),
        },
        status=status,
    )
