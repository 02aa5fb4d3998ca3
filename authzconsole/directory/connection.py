"""Connect to the LDAP server, and read entries page by page."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import ldap
import ldap.dn
from ldap.controls.libldap import SimplePagedResultsControl

from authzconsole.settings.user_directory import LdapOptions

ENTRIES_PER_PAGE = 500
Entry = tuple[str, dict[str, list[bytes]]]


class DirectoryError(Exception):
    """The directory does not answer, refuses the request, or contains something unexpected.

    The message is a sentence.
    """


def connection_options(options: LdapOptions) -> dict[int, object]:
    """Return the options of every connection: certificates are verified, and no operation waits forever."""
    tls = {ldap.OPT_X_TLS_CACERTFILE: options.ca_file} if options.ca_file else {}
    return {
        ldap.OPT_PROTOCOL_VERSION: 3,
        ldap.OPT_REFERRALS: 0,
        ldap.OPT_NETWORK_TIMEOUT: options.timeout_seconds,
        ldap.OPT_TIMEOUT: options.timeout_seconds,
        ldap.OPT_X_TLS_REQUIRE_CERT: ldap.OPT_X_TLS_DEMAND,
        **tls,
        # the last one: it applies the others
        ldap.OPT_X_TLS_NEWCTX: 0,
    }


def uses_start_tls(options: LdapOptions) -> bool:
    return options.start_tls and urlsplit(options.uri).scheme == "ldap"


@contextmanager
def directory_connection(options: LdapOptions) -> Iterator["ldap.ldapobject.LDAPObject"]:
    """Yield a connection that is bound with LDAP_BIND_DN.

    Raise DirectoryError for every LDAP error inside.
    """
    connection = None
    try:
        connection = ldap.initialize(options.uri, bytes_mode=False)
        for option, value in connection_options(options).items():
            connection.set_option(option, value)
        if uses_start_tls(options):
            connection.start_tls_s()
        connection.simple_bind_s(options.bind_dn, options.bind_password)
        yield connection
    except ldap.LDAPError as error:
        raise DirectoryError(
            f"the directory {options.uri} answers with an error: {describe(error)}"
        ) from error
    finally:
        if connection is not None:
            connection.unbind_ext_s()


def describe(error: ldap.LDAPError) -> str:
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    return ", ".join(filter(None, [details.get("desc", type(error).__name__), details.get("info", "")]))


def paged_entries(connection, base: str, search_filter: str, attributes: list[str]) -> Iterator[list[Entry]]:
    """Yield pages of the entries below `base`. The server holds at most one page at a time."""
    control = SimplePagedResultsControl(True, size=ENTRIES_PER_PAGE, cookie="")
    while True:
        message = connection.search_ext(
            base, ldap.SCOPE_SUBTREE, search_filter, attributes, serverctrls=[control]
        )
        _, entries, _, controls = connection.result3(message)
        # entries without a DN are referrals
        yield [entry for entry in entries if entry[0]]
        cookies = [
            answer.cookie
            for answer in controls
            if answer.controlType == SimplePagedResultsControl.controlType
        ]
        if not cookies or not cookies[0]:
            return
        control.cookie = cookies[0]


def attribute_values(connection, dn: str, attribute: str) -> Iterator[bytes]:
    """Yield the values of an attribute of one entry. Active Directory returns many values in several ranges.

    Raise DirectoryError if the entry does not exist.
    """
    requested = attribute
    while requested:
        try:
            entries = [
                entry for entry in connection.search_s(dn, ldap.SCOPE_BASE, attrlist=[requested]) if entry[0]
            ]
        except ldap.NO_SUCH_OBJECT:
            entries = []
        if not entries:
            raise DirectoryError(f"the directory has no entry {dn}")
        requested = ""
        for name, values in entries[0][1].items():
            base, _, options = name.lower().partition(";")
            if base == attribute.lower():
                yield from values
                last = options.removeprefix("range=").partition("-")[2]
                if last.isdigit():
                    requested = f"{attribute};range={int(last) + 1}-*"


def subject_text(identifier: str | bytes) -> str:
    """Return the identifier of a user as the link of an account stores it: as text, or else (objectGUID) in
    hexadecimal.
    """
    if isinstance(identifier, str):
        return identifier
    try:
        return identifier.decode()
    except UnicodeDecodeError:
        return identifier.hex()


def canonical_dn(dn: str) -> str:
    """Return a form of a DN that is the same for all its spellings.

    Raise DirectoryError if it is malformed.
    """
    try:
        parts = ldap.dn.str2dn(dn)
    except ldap.LDAPError:
        raise DirectoryError(f"`{dn[:200]}` is not a distinguished name") from None
    return ",".join(
        "+".join(sorted(f"{name.lower()}={' '.join(value.lower().split())!r}" for name, value, _ in part))
        for part in parts
    )


def dn_key(dn: str) -> bytes:
    """Return a short key of a DN, so that 100,000 of them need little memory."""
    return hashlib.blake2b(canonical_dn(dn).encode(), digest_size=16).digest()
