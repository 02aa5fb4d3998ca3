"""Users and groups that come from a directory: provisioning over SCIM, sign-in and groups of LDAP.

See docs/guides/provisioning.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from .accounts import AUTHENTICATION_BACKENDS as PASSWORD_BACKENDS
from .environment import PRODUCTION, env
from .sign_in import SIGN_IN_PROVIDERS as OTHER_PROVIDERS
from .sign_in import ProviderOptions, provider_values, text_in_file

# whether an identity provider may create and deactivate users over SCIM; see authzconsole/scim/
SCIM_ENABLED = env.bool("SCIM_ENABLED", default=False)

LDAP_PROVIDER = "ldap"
LDAP_BACKEND = "authzconsole.directory.backend.DirectoryBackend"
TRUE_WORDS, FALSE_WORDS = ("1", "on", "true", "yes"), ("", "0", "off", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapOptions:
    """The LDAP server, and where it has users and groups.

    The names of the fields are those of the variables LDAP_*.
    """

    uri: str
    start_tls: bool = True
    allow_plaintext: bool = False
    ca_file: str = ""
    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    timeout_seconds: int = 10
    user_search_base: str = ""
    user_search_filter: str = "(uid=%(user)s)"
    name_attribute: str = "uid"
    id_attribute: str = "entryUUID"
    email_attribute: str = "mail"
    group_search_base: str = ""
    group_search_filter: str = "(objectClass=groupOfNames)"
    group_member_attribute: str = "member"
    nested_groups: bool = False
    max_removed_percent: int = 20
    deactivate_missing: bool = False
    max_deactivated_percent: int = 10
    provider: ProviderOptions

    @property
    def has_dn_members(self) -> bool:
        """Return whether groups name their members by DN; otherwise by user name, as `memberUid` of
        posixGroup does.
        """
        return self.group_member_attribute.lower() != "memberuid"


def ldap_options(environment: Mapping[str, str]) -> LdapOptions | None:
    """Return the options in the environment variables; None without LDAP_URI.

    Raise ImproperlyConfigured for invalid options.
    """
    given = {
        name.removeprefix("LDAP_").lower(): text
        for name, text in environment.items()
        if name.startswith("LDAP_") and text
    }
    if "uri" not in given:
        return None
    if find_spec("django_auth_ldap") is None:
        raise ImproperlyConfigured(
            "LDAP_URI is set, but the packages for LDAP are not installed: install the extra `ldap` "
            "(requirements/extra-ldap.txt)"
        )
    mapped: tuple[str, ...] = ("roles", "groups", "unknown_users", "link_existing", "name")
    mapping = {name: given.pop(name) for name in mapped if name in given}
    values: dict = dict(given)
    if path := values.pop("bind_password_file", ""):
        values["bind_password"] = text_in_file("LDAP_BIND_PASSWORD_FILE", path)
    for name, field_ in LdapOptions.__dataclass_fields__.items():
        if name in values and field_.type is bool:
            values[name] = _boolean(name, values[name])
        elif name in values and field_.type is int:
            values[name] = _integer(name, values[name])
    if unknown := sorted(set(values) - set(LdapOptions.__dataclass_fields__)):
        raise ImproperlyConfigured(f"LDAP_{unknown[0].upper()} is not a setting")
    options = LdapOptions(**values, provider=_provider(mapping))
    _check(options)
    return options


def _provider(mapping: dict[str, str]) -> ProviderOptions:
    claims = {
        claim: "groups"
        for claim, table in (("role_claim", "roles"), ("group_claim", "groups"))
        if table in mapping
    }
    known = ("name", "roles", "groups", "role_claim", "group_claim", "unknown_users", "link_existing")
    values = provider_values("LDAP", LDAP_PROVIDER, mapping | claims, known)
    # the directory assigns its names, so an account of the same name and without a password belongs to the
    # same person
    defaults = {"name": "LDAP", "link_existing": "without-password"}
    return ProviderOptions(protocol=LDAP_PROVIDER, name_claim="name", **defaults | values)


def _check(options: LdapOptions) -> None:
    scheme = urlsplit(options.uri).scheme
    if scheme not in ("ldap", "ldaps", "ldapi"):
        raise ImproperlyConfigured("LDAP_URI must start with ldap://, ldaps:// or ldapi://")
    if scheme == "ldap" and not options.start_tls and not options.allow_plaintext:
        raise ImproperlyConfigured(
            "LDAP_URI is not encrypted: use ldaps:// or LDAP_START_TLS; LDAP_ALLOW_PLAINTEXT=1 permits "
            "passwords in clear text"
        )
    if options.allow_plaintext and PRODUCTION:
        raise ImproperlyConfigured(
            "LDAP_ALLOW_PLAINTEXT is set in PRODUCTION: remove it, and use ldaps:// or LDAP_START_TLS"
        )
    if not options.user_search_base:
        raise ImproperlyConfigured("LDAP_USER_SEARCH_BASE is missing")
    if (
        options.user_search_filter.replace("%%", "").count("%")
        != options.user_search_filter.count("%(user)s")
        or "%(user)s" not in options.user_search_filter
    ):
        raise ImproperlyConfigured(
            "LDAP_USER_SEARCH_FILTER must contain %(user)s, which stands for the user name"
        )
    if (
        options.provider.roles or options.provider.groups or options.nested_groups
    ) and not options.group_search_base:
        raise ImproperlyConfigured(
            "LDAP_ROLES, LDAP_GROUPS and LDAP_NESTED_GROUPS need LDAP_GROUP_SEARCH_BASE"
        )
    if options.nested_groups and not options.has_dn_members:
        raise ImproperlyConfigured("LDAP_NESTED_GROUPS needs groups that name their members by DN")
    for name in ("max_removed_percent", "max_deactivated_percent"):
        if not 0 <= getattr(options, name) <= 100:
            raise ImproperlyConfigured(f"LDAP_{name.upper()} must be between 0 and 100")


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in TRUE_WORDS + FALSE_WORDS:
        raise ImproperlyConfigured(f"LDAP_{name.upper()} must be 1 or 0")
    return text.lower() in TRUE_WORDS


def _integer(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ImproperlyConfigured(f"LDAP_{name.upper()} must be a number")
    return int(text)


LDAP = ldap_options(env.ENVIRON)
AUTHENTICATION_BACKENDS = [*PASSWORD_BACKENDS, *([LDAP_BACKEND] if LDAP else [])]
SIGN_IN_PROVIDERS = OTHER_PROVIDERS | ({LDAP_PROVIDER: LDAP.provider} if LDAP else {})
