"""The page on which an administrator unlinks an identity from an account."""

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authzconsole.common.sign_in_methods.identity_links import unlink_identity
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.errors import GrantError
from grants.models import User
from grants.roles.capabilities import Capability


def provider_name(provider: str) -> str:
    """Return the name of a sign-in provider; its identifier if it is no longer configured."""
    options = settings.SIGN_IN_PROVIDERS.get(provider)
    return options.name if options else provider


def identity_rows(user: User) -> list[dict]:
    """Return the identities of an account, oldest first. Runs one query."""
    return [
        {
            "provider": provider_name(link.provider),
            "subject": link.uid,
            "at": link.date_joined,
            "unlink_url": reverse("account-identity-unlink", args=[link.pk]),
        }
        for link in SocialAccount.objects.filter(user=user).order_by("pk")
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def unlink_identity_view(request: HttpRequest, pk: int) -> HttpResponse:
    link = SocialAccount.objects.select_related("user").filter(pk=pk).first()
    if link is None:
        raise Http404("there is no such identity")
    back = principal_url("account", str(link.user))
    if request.method != "POST":
        template = "_unlink_form.html" if requested_section(request) == "dialog" else "unlink.html"
        context = {
            "account": link.user,
            "provider": provider_name(link.provider),
            "subject": link.uid,
            "back": back,
        }
        return render_page(request, f"accounts/identities/{template}", context)
    try:
        outcome = unlink_identity(
            author=request_author(request, request.POST.get("reason", "").strip()), user=link.user, pk=pk
        )
    except GrantError as error:
        messages.error(request, f"{error}.")
    else:
        messages.success(request, f"{outcome.sentence}.")
    return see_other(back)
