"""Run a slapd of Debian with a small database, on a free port with a certificate of its own."""

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap

from authzconsole.ops.address import free_port
from authzconsole.ops.machine import SLAPD
from authzconsole.ops.processes import die_with_parent

SUFFIX = "dc=example,dc=org"
PEOPLE, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
BIND_DN, BIND_PASSWORD = f"cn=console,{SUFFIX}", "the password of the console"
PASSWORD = "a directory password"
# a search without pages gets no more entries
MAX_ENTRIES = 5

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {folder}/certificate.pem
TLSCertificateKeyFile {folder}/key.pem
sizelimit size.soft={max_entries} size.hard={max_entries} size.pr=unlimited size.prtotal=unlimited
database mdb
suffix "{suffix}"
rootdn "cn=root,{suffix}"
rootpw root
directory {folder}/data
maxsize 268435456
dbnosync
index objectClass,uid,member eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{bind_dn}" read by * auth
"""


@dataclass(frozen=True)
class Directory:
    """A running slapd."""

    uri: str
    certificate: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a console that uses this directory."""
        return {
            "LDAP_URI": self.uri,
            "LDAP_CA_FILE": str(self.certificate),
            "LDAP_BIND_DN": BIND_DN,
            "LDAP_BIND_PASSWORD": BIND_PASSWORD,
            "LDAP_USER_SEARCH_BASE": PEOPLE,
            "LDAP_GROUP_SEARCH_BASE": GROUPS,
        }

    @contextmanager
    def as_root(self):
        connection = ldap.initialize(self.uri)
        connection.simple_bind_s(f"cn=root,{SUFFIX}", "root")
        yield connection
        connection.unbind_s()

    def set_members(self, group: str, members: Iterable[str]) -> None:
        """Replace the members of a group. members: DNs."""
        with self.as_root() as connection:
            connection.modify_s(
                group_dn(group), [(ldap.MOD_REPLACE, "member", [dn.encode() for dn in members])]
            )


def user_dn(name: str) -> str:
    return f"uid={name},{PEOPLE}"


def group_dn(name: str) -> str:
    return f"cn={name},{GROUPS}"


def user_entry(name: str) -> str:
    return (
        f"dn: {user_dn(name)}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
        f"mail: {name}@example.org\nuserPassword: {PASSWORD}\n\n"
    )


def group_entry(name: str, members: Iterable[str]) -> str:
    lines = "".join(f"member: {dn}\n" for dn in members)
    return f"dn: {group_dn(name)}\nobjectClass: groupOfNames\ncn: {name}\n{lines}\n"


def base_entries() -> str:
    units = "".join(
        f"dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n"
        for name in ("people", "groups")
    )
    return (
        f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n{units}dn: {BIND_DN}\nobjectClass: person\ncn: console\n"
        f"sn: console\nuserPassword: {BIND_PASSWORD}\n\n"
    )


@contextmanager
def run_slapd(folder: Path, entries: str) -> Iterator[Directory]:
    """Run slapd with these entries (LDIF) until the block ends."""
    (folder / "data").mkdir()
    certificate, port = folder / "certificate.pem", free_port()
    _run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        folder / "key.pem",
        "-out",
        certificate,
    )
    configuration = folder / "slapd.conf"
    configuration.write_text(
        CONFIGURATION.format(folder=folder, suffix=SUFFIX, bind_dn=BIND_DN, max_entries=MAX_ENTRIES)
    )
    (folder / "entries.ldif").write_text(base_entries() + entries)
    slapd = SLAPD.find()
    assert slapd is not None, "slapd is not installed: run `make setup`"
    _run(slapd, "-T", "add", "-q", "-f", configuration, "-l", folder / "entries.ldif")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [slapd, "-d", "0", "-f", configuration, "-h", f"ldap://127.0.0.1:{port}"],
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
    try:
        directory = Directory(f"ldap://127.0.0.1:{port}", certificate)
        _wait_until_ready(directory, process, folder / "log")
        yield directory
    finally:
        process.terminate()
        process.wait()


def _run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _wait_until_ready(directory: Directory, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with directory.as_root():
                return
        except ldap.SERVER_DOWN:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
