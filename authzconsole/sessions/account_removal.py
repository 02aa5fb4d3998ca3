"""Check renames and removals of users and groups against sign-in, provisioning and the directory, and remove
tokens.

Other systems know some principals by name: break-glass accounts and mapped groups are named in the settings,
and the directory and provisioning services compare names. Such principals keep their names.
"""

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import Group

from authzconsole.common.sign_in_methods.factors import factor_title
from authzconsole.common.sign_in_methods.identity_links import link_detail
from authzconsole.models import ApiToken, ProvisionedGroup, ProvisionedUser
from authzconsole.settings.user_directory import LDAP_PROVIDER
from grants.journal import JournalEntry
from grants.models import User


def name_guard(principal: User | Group, is_removal: bool, is_provisioner: bool) -> str:
    """Return why the principal must keep its name, or cannot be removed; empty if there is no reason."""
    if isinstance(principal, Group):
        if principal.name in _mapped_groups():
            return "a setting maps groups of a sign-in provider or of the directory to it; change the setting first"
        if not is_provisioner and ProvisionedGroup.objects.filter(group=principal).exists():
            return "a provisioning service manages it; change it there"
        return ""
    if principal.username in settings.BREAK_GLASS_ACCOUNTS:
        return "BREAK_GLASS_ACCOUNTS names it; change the setting first"
    if not is_provisioner and ProvisionedUser.objects.filter(user=principal, removed_at=None).exists():
        return "a provisioning service manages it; change it there"
    if not is_removal and SocialAccount.objects.filter(user=principal, provider=LDAP_PROVIDER).exists():
        return "the directory knows it by this name"
    return ""


def remove_account_data(user: User) -> list[JournalEntry]:
    """Delete the tokens, second factors and identity links of a user. Return the changes for the journal."""
    name = str(user)
    tokens = list(ApiToken.objects.filter(owner=user).order_by("pk"))
    factors, links = Authenticator.objects.filter(user=user), SocialAccount.objects.filter(user=user)
    changes = [JournalEntry("token-remove", principal=name, detail=str(token)) for token in tokens]
    if titles := sorted(map(factor_title, factors)):
        changes.append(JournalEntry("factor-reset", principal=name, detail=", ".join(titles)))
    changes += [
        JournalEntry("identity-unlink", principal=name, detail=link_detail(link))
        for link in links.order_by("pk")
    ]
    ApiToken.objects.filter(owner=user).delete()
    factors.delete()
    links.delete()
    return changes


def _mapped_groups() -> set[str]:
    return {name for provider in settings.SIGN_IN_PROVIDERS.values() for name in provider.groups.values()}
