"""Sign-in providers: OpenID Connect and SAML, and how claims become user names, console roles and groups.

See docs/guides/sign-in.md.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from .environment import env

# the console roles; of several mapped ones, the last counts
ROLES = ("ordinary", "operator", "approver", "auditor", "security-administrator", "administrator")
UNKNOWN_USERS = ("reject", "create")
LINK_EXISTING = ("never", "without-password", "always")
SECOND_FACTOR = ("console", "provider")
ENCRYPTED_ASSERTIONS = ("accepted", "required")
# a provider with such an id would have the same path as another page
RESERVED_IDS = ("second-factor", "passkey")
LOCAL_SIGN_IN_CHOICES = ("all", "break-glass", "none")
IS_SAML_INSTALLED = all(find_spec(package) is not None for package in ("onelogin", "xmlsec"))
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOptions:
    """A sign-in provider, and how its claims are mapped.

    The names of the fields are those of the options in docs/guides/sign-in.md.
    """

    protocol: str
    name: str
    issuer: str = ""
    sso_url: str = ""
    certificate: str = ""
    slo_url: str = ""
    console_certificate: str = ""
    console_key: str = field(default="", repr=False)
    encrypted_assertions: str = "accepted"
    subject_attribute: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    role_claim: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    group_claim: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    unknown_users: str = "reject"
    link_existing: str = "never"
    second_factor: str = "console"


# the options that a mapping consists of, for providers of every protocol
MAPPING_OPTIONS = (
    "name_claim",
    "role_claim",
    "roles",
    "group_claim",
    "groups",
    "unknown_users",
    "link_existing",
    "second_factor",
)
OIDC_OPTIONS = (
    "name",
    "issuer",
    "client_id",
    "client_secret",
    "client_secret_file",
    "scopes",
    *MAPPING_OPTIONS,
)
SAML_OPTIONS = (
    "name",
    "issuer",
    "sso_url",
    "slo_url",
    "certificate",
    "certificate_file",
    "console_certificate",
    "console_certificate_file",
    "console_key",
    "console_key_file",
    "encrypted_assertions",
    "subject_attribute",
    *MAPPING_OPTIONS,
)


def oidc_providers(environment: Mapping[str, str]) -> dict[str, ProviderOptions]:
    """Return the OpenID Connect providers of the environment variables by id. Raise ImproperlyConfigured for
    invalid options.

    OIDC_PROVIDERS has several providers; OIDC_ISSUER and the other variables describe a single one with the
    id `oidc`.
    """
    return {
        provider_id: _oidc_options(provider_id, options)
        for provider_id, options in _provider_options("OIDC", OIDC_OPTIONS, environment).items()
    }


def saml_providers(environment: Mapping[str, str]) -> dict[str, ProviderOptions]:
    """Return the SAML providers of the environment variables by id. Raise ImproperlyConfigured for invalid
    options.

    SAML_PROVIDERS has several providers; SAML_ISSUER and the other variables describe a single one with the
    id `saml`.
    """
    options_by_id = _provider_options("SAML", SAML_OPTIONS, environment)
    if options_by_id and not IS_SAML_INSTALLED:
        raise ImproperlyConfigured(
            "a SAML provider is configured, but the packages for SAML are not installed: install the "
            "extra `saml` (requirements/extra-saml.txt)"
        )
    return {
        provider_id: _saml_options(provider_id, options) for provider_id, options in options_by_id.items()
    }


def _provider_options(kind: str, known: tuple[str, ...], environment: Mapping[str, str]) -> dict:
    """Return the options of each provider of this kind, by provider id. They are not checked yet."""
    options_by_id = _json_object(f"{kind}_PROVIDERS", environment.get(f"{kind}_PROVIDERS", ""))
    single_id = kind.lower()
    if single := {
        option: text for option in known if (text := environment.get(f"{kind}_{option.upper()}", ""))
    }:
        if single_id in options_by_id:
            raise ImproperlyConfigured(
                f"{kind}_PROVIDERS has a provider `{single_id}`, which {kind}_ISSUER and "
                "related variables also describe"
            )
        options_by_id[single_id] = single
    return options_by_id


def _saml_options(provider_id: str, options: object) -> ProviderOptions:
    required = ("issuer", "sso_url", "certificate")
    values = provider_values("SAML", provider_id, options, SAML_OPTIONS, required)
    for option in ("sso_url", "slo_url"):
        if not (values.get(option) or "https://").startswith("https://"):
            raise ImproperlyConfigured(
                f"the {option} of the SAML provider `{provider_id}` must start with https://"
            )
    if fault := _key_fault(values):
        raise ImproperlyConfigured(f"the SAML provider `{provider_id}`: {fault}")
    return ProviderOptions(protocol="saml", **{"name": "Single sign-on", "name_claim": "name_id"} | values)


def _key_fault(values: Mapping[str, str]) -> str:
    """Return why the key pair of the console cannot be used; empty if it can, or if no key pair is needed."""
    key, certificate = values.get("console_key", ""), values.get("console_certificate", "")
    if not key and not certificate:
        needing = ["slo_url"] if values.get("slo_url") else []
        needing += ["encrypted_assertions"] if values.get("encrypted_assertions") == "required" else []
        return f"`{needing[0]}` needs `console_key_file` and `console_certificate_file`" if needing else ""
    if not key or not certificate:
        return "`console_key` and `console_certificate` belong together"
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    try:
        public_key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
        own_key = serialization.load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # the message omits the value
        return "`console_key` must be a private key without a passphrase, and `console_certificate` a certificate, both as PEM"
    if not isinstance(own_key, rsa.RSAPrivateKey) or own_key.public_key() != public_key:
        return "`console_key` must be the RSA key of `console_certificate`"
    return ""


def _oidc_options(provider_id: str, options: object) -> ProviderOptions:
    values = provider_values("OIDC", provider_id, options, OIDC_OPTIONS, ("issuer", "client_id"))
    issuer = urlsplit(values["issuer"])
    if issuer.scheme != "https" and not (issuer.scheme == "http" and issuer.hostname in LOOPBACK_HOSTS):
        raise ImproperlyConfigured(
            f"the issuer of the OIDC provider `{provider_id}` must start with https://"
        )
    return ProviderOptions(protocol="openid_connect", **{"name": "Single sign-on"} | values)


def provider_values(
    kind: str, provider_id: str, options: object, known: tuple[str, ...], required: tuple[str, ...] = ()
) -> dict:
    """Return the checked options of one provider.

    An option is a string, or an object or list, which can be given as JSON. The option NAME_file is the path of
    a file with the value of NAME.
    """
    title = f"the {kind} provider `{provider_id}`"
    if not re.fullmatch(r"[a-z0-9-]{1,50}", provider_id) or provider_id in RESERVED_IDS:
        raise ImproperlyConfigured(
            f"{title}: an id has lower-case letters, digits and hyphens, and is not "
            f"`{'` or `'.join(RESERVED_IDS)}`"
        )
    if not isinstance(options, Mapping):
        raise ImproperlyConfigured(f"{title} must be a JSON object of options")
    if unknown := sorted(set(options) - set(known)):
        raise ImproperlyConfigured(
            f"{title}: `{unknown[0]}` is not an option; the options are {', '.join(known)}"
        )
    values: dict = dict(options)
    for option in ("roles", "groups"):
        if option in values:
            values[option] = _mapping(title, option, values[option])
    if isinstance(scopes := values.get("scopes"), str):
        values["scopes"] = tuple(scopes.split())
    for option, value in values.items():
        if option not in ("roles", "groups", "scopes") and not isinstance(value, str):
            raise ImproperlyConfigured(f"{title}: `{option}` must be a text")
    if wrong := sorted(set(values.get("roles", {}).values()) - set(ROLES)):
        raise ImproperlyConfigured(
            f"{title}: `{wrong[0]}` is not a console role; the roles are {', '.join(ROLES)}"
        )
    for option, choices in (
        ("unknown_users", UNKNOWN_USERS),
        ("link_existing", LINK_EXISTING),
        ("second_factor", SECOND_FACTOR),
        ("encrypted_assertions", ENCRYPTED_ASSERTIONS),
    ):
        if values.get(option, choices[0]) not in choices:
            raise ImproperlyConfigured(f"{title}: `{option}` must be one of: {', '.join(choices)}")
    for claim, table in (("role_claim", "roles"), ("group_claim", "groups")):
        if bool(values.get(claim)) != bool(values.get(table)):
            raise ImproperlyConfigured(f"{title}: `{claim}` and `{table}` belong together")
    for option in [option for option in values if option.endswith("_file")]:
        if path := values.pop(option):
            values[option.removesuffix("_file")] = text_in_file(f"{title}: `{option}`", path)
    for option in required:
        if not values.get(option):
            raise ImproperlyConfigured(f"{title} has no `{option}`")
    return values


def _mapping(title: str, option: str, value: object) -> dict[str, str]:
    table = _json_object(f"{title}: `{option}`", value) if isinstance(value, str) else value
    if not isinstance(table, dict) or not all(isinstance(entry, str) for entry in table.values()):
        raise ImproperlyConfigured(
            f'{title}: `{option}` must be a JSON object of texts, such as {{"admins": "administrator"}}'
        )
    return table


def _json_object(name: str, text: str) -> dict:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        # the message omits the value, which can hold a secret
        raise ImproperlyConfigured(f"{name} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be one JSON object")
    return value


def text_in_file(title: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{title} cannot be read: {error}") from None


def allauth_providers(providers: Mapping[str, ProviderOptions]) -> dict:
    """Return SOCIALACCOUNT_PROVIDERS for these providers."""
    return {
        "openid_connect": {
            "provider_class": "authzconsole.web.accounts.providers.openid_connect.ConsoleProvider",
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": provider_id,
                    "name": options.name,
                    "client_id": options.client_id,
                    "secret": options.client_secret,
                    "settings": {"server_url": options.issuer, "scope": list(options.scopes)},
                }
                for provider_id, options in providers.items()
                if options.protocol == "openid_connect"
            ],
        },
        "saml": {
            "provider_class": "authzconsole.web.accounts.providers.saml.ConsoleSamlProvider",
            "APPS": [
                {"provider_id": provider_id, "name": options.name, "client_id": provider_id, "settings": {}}
                for provider_id, options in providers.items()
                if options.protocol == "saml"
            ],
        },
    }


def check_local_sign_in(choice: str, accounts: list[str], has_other_way: bool) -> None:
    """Raise ImproperlyConfigured if the choice is unknown, or would let no account sign in."""
    if choice not in LOCAL_SIGN_IN_CHOICES:
        raise ImproperlyConfigured(
            f"LOCAL_SIGN_IN is {choice!r}; it must be one of: {', '.join(LOCAL_SIGN_IN_CHOICES)}"
        )
    if choice == "break-glass" and not accounts:
        raise ImproperlyConfigured("LOCAL_SIGN_IN is break-glass: name the accounts in BREAK_GLASS_ACCOUNTS")
    if choice != "all" and not has_other_way:
        raise ImproperlyConfigured(
            f"LOCAL_SIGN_IN is {choice}, but there is no other way to sign in: configure a provider first"
        )


SIGN_IN_PROVIDERS = oidc_providers(env.ENVIRON)
for provider_id, options in saml_providers(env.ENVIRON).items():
    if provider_id in SIGN_IN_PROVIDERS:
        raise ImproperlyConfigured(f"OIDC_PROVIDERS and SAML_PROVIDERS both have a provider `{provider_id}`")
    SIGN_IN_PROVIDERS[provider_id] = options

# django-allauth runs the protocols. Its pages for sign-up, e-mail addresses and passwords have no URL.
SOCIALACCOUNT_PROVIDERS = allauth_providers(SIGN_IN_PROVIDERS)
SOCIALACCOUNT_ADAPTER = "authzconsole.web.accounts.providers.adapters.ProviderAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "authzconsole.web.accounts.providers.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*"]

# which accounts may sign in with a password of the console; see authzconsole/web/accounts/sign_in.py
LOCAL_SIGN_IN = env.str("LOCAL_SIGN_IN", default="all")
BREAK_GLASS_ACCOUNTS = env.list("BREAK_GLASS_ACCOUNTS", default=[])
check_local_sign_in(
    LOCAL_SIGN_IN, BREAK_GLASS_ACCOUNTS, bool(SIGN_IN_PROVIDERS or env.str("LDAP_URI", default=""))
)
