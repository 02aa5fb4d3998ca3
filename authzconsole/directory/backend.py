"""Sign in with a password of the directory (django-auth-ldap).

INVARIANT: the account, its console role and its groups are chosen by
authzconsole.web.accounts.providers.identities, by the same rules as for other sign-in providers. Signing in
never makes an account a principal.
INVARIANT: the password of an account that cannot sign in through the directory is never sent to the
directory.
"""

import logging

import ldap
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.dispatch import receiver
from django.http import HttpRequest
from django_auth_ldap.backend import LDAPBackend, _LDAPUser, ldap_error
from django_auth_ldap.config import (
    LDAPSearch,
    LDAPSettings,
    MemberDNGroupType,
    NestedMemberDNGroupType,
    PosixGroupType,
)

from authzconsole.directory.connection import (
    DirectoryError,
    canonical_dn,
    connection_options,
    describe,
    subject_text,
    uses_start_tls,
)
from authzconsole.settings.user_directory import LDAP_PROVIDER, LdapOptions
from authzconsole.web.accounts.providers.identities import Identity, SignInRefused, sign_in_account
from entities.text import is_storable
from grants.models import User

logger = logging.getLogger(__name__)
UNAVAILABLE = "The directory does not answer, so its passwords cannot be checked. Try again later."


class DirectoryBackend(LDAPBackend):
    """Authenticate by a bind with the DN of the user.

    The sentence of a refusal is stored as `request.sign_in_refusal`.
    """

    @property
    def settings(self) -> LDAPSettings:
        if self._settings is None:
            self._settings = LDAPSettings(self.settings_prefix, _library_settings(settings.LDAP))
        return self._settings

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs
    ):
        if request is None or not username or not password or not _may_use_directory(username):
            return None
        try:
            return super().authenticate(request, username=username, password=password)
        except SignInRefused as refusal:
            logger.warning("sign-in through LDAP refused: %s", refusal)
            request.sign_in_refusal = str(refusal)
        except DirectoryError as error:
            logger.error("sign-in through LDAP failed: %s", error)
            request.sign_in_refusal = UNAVAILABLE
        return None

    def get_or_build_user(self, username: str, ldap_user: _LDAPUser) -> tuple[User, bool]:
        """Return the account of a user with a correct password.

        Raise SignInRefused if the user may not sign in.
        """
        identity = _identity(settings.LDAP, ldap_user)
        return sign_in_account(ldap_user._request, identity).user, False

    def get_user(self, user_id: int) -> User | None:
        return ModelBackend().get_user(user_id)


@receiver(ldap_error, sender=DirectoryBackend)
def note_unavailable(
    sender, request: HttpRequest | None = None, exception: Exception | None = None, **kwargs
) -> None:
    """Log an error of the directory. Wrong names and wrong passwords are not errors of the directory."""
    logger.error(
        "sign-in through LDAP failed: %s",
        describe(exception) if isinstance(exception, ldap.LDAPError) else exception,
    )
    if request is not None:
        request.sign_in_refusal = UNAVAILABLE


def _library_settings(options: LdapOptions) -> dict:
    attributes = [options.name_attribute, options.id_attribute, options.email_attribute]
    if not options.has_dn_members:
        attributes += ["uid", "gidNumber"]
    group_type = (
        PosixGroupType()
        if not options.has_dn_members
        else (NestedMemberDNGroupType if options.nested_groups else MemberDNGroupType)(
            options.group_member_attribute
        )
    )
    return {
        "SERVER_URI": options.uri,
        "START_TLS": uses_start_tls(options),
        "CONNECTION_OPTIONS": connection_options(options),
        "BIND_DN": options.bind_dn,
        "BIND_PASSWORD": options.bind_password,
        "ALWAYS_UPDATE_USER": False,
        "USER_SEARCH": LDAPSearch(
            options.user_search_base, ldap.SCOPE_SUBTREE, options.user_search_filter, attributes
        ),
        # no attributes, because a group can have 100,000 members
        "GROUP_SEARCH": LDAPSearch(
            options.group_search_base, ldap.SCOPE_SUBTREE, options.group_search_filter, ["1.1"]
        ),
        "GROUP_TYPE": group_type,
    }


def _may_use_directory(name: str) -> bool:
    """Return whether the directory may check a password for this name.

    It may not if the account has a password here.
    """
    user = User.objects.filter(username=name).first() if is_storable(name) else None
    if user is None:
        return is_storable(name)
    return (
        user.is_active
        and not user.is_service
        and (settings.LDAP.provider.link_existing == "always" or not user.has_usable_password())
    )


def _identity(options: LdapOptions, ldap_user: _LDAPUser) -> Identity:
    attributes = ldap_user.attrs
    subject = subject_text(next(iter(attributes.get(options.id_attribute, [])), ""))
    if not subject:
        raise SignInRefused(
            f"Your entry in the directory has no `{options.id_attribute}`. Ask a console administrator."
        )
    claims = {
        "name": attributes.get(options.name_attribute, [])[:1],
        "email": attributes.get(options.email_attribute, [])[:1],
    }
    if mapped := {**options.provider.roles, **options.provider.groups}:
        member_of = {canonical_dn(dn) for dn in ldap_user.group_dns}
        claims["groups"] = [dn for dn in mapped if canonical_dn(dn) in member_of]
    return Identity(LDAP_PROVIDER, subject, claims)
