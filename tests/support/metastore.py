"""Run the Hive metastore of the PySpark package with a Derby database, on a free port."""

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pymetastore.hive_metastore import ttypes
from pymetastore.hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from authzconsole.ops.address import free_port
from authzconsole.ops.processes import die_with_parent
from grants.bulk_rows import chunks

START_SECONDS, ROWS_PER_CALL = 120, 1_000
SITE = """<configuration>
{properties}
</configuration>
"""
PRINCIPAL_TYPES = {
    "user": ttypes.PrincipalType.USER,
    "role": ttypes.PrincipalType.ROLE,
    "group": ttypes.PrincipalType.GROUP,
}


@dataclass
class Metastore:
    """A running metastore, changed as an administrator of the platform would by hand."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @contextmanager
    def client(self) -> Iterator[Client]:
        transport = TBufferedTransport(TSocket("127.0.0.1", self.port))
        transport.open()
        yield Client(TBinaryProtocolAccelerated(transport))
        transport.close()

    def create(self, database: str, *tables: str) -> None:
        """Create a database with tables."""
        with self.client() as client:
            location = f"{self.folder}/{database}"
            client.create_database(ttypes.Database(database, "", location, {}))
            for table in tables:
                client.create_table(_table(database, table, f"{location}/{table}"))

    def drop(self, database: str) -> None:
        """Drop a database with its tables."""
        with self.client() as client:
            client.drop_database(database, True, True)

    def drop_table(self, database: str, table: str) -> None:
        with self.client() as client:
            client.drop_table(database, table, True)

    def create_role(self, name: str) -> None:
        with self.client() as client:
            client.create_role(ttypes.Role(name, int(time.time()), "hive"))

    def add_to_role(self, principal: str, role: str) -> None:
        principal_type, _, name = principal.partition(":")
        with self.client() as client:
            client.grant_role(
                role, name, PRINCIPAL_TYPES[principal_type], "hive", ttypes.PrincipalType.USER, False
            )

    def remove_from_role(self, principal: str, role: str) -> None:
        principal_type, _, name = principal.partition(":")
        with self.client() as client:
            client.revoke_role(role, name, PRINCIPAL_TYPES[principal_type])

    def grant(self, principal: str, place: str, *privileges: str, grant_option: bool = False) -> None:
        """Grant privileges. place: a database, or `database.table`."""
        self.grant_all(((principal, place, privilege) for privilege in privileges), grant_option=grant_option)

    def grant_all(self, grants: Iterable[tuple[str, str, str]], *, grant_option: bool = False) -> None:
        """Grant privileges, each (principal, place, privilege)."""
        with self.client() as client:
            for batch in chunks(grants, ROWS_PER_CALL):
                client.grant_privileges(
                    ttypes.PrivilegeBag([_privilege(*grant, grant_option) for grant in batch])
                )

    def listing(self) -> set[tuple[str, str, str]]:
        """Return (principal, place, privilege) of everything that the metastore lists on databases and tables."""
        names = {value: name for name, value in PRINCIPAL_TYPES.items()}
        with self.client() as client:
            rows = client.list_privileges(None, None, ttypes.HiveObjectRef())
        return {
            (
                f"{names[row.principalType]}:{row.principalName}",
                ".".join(filter(None, [row.hiveObject.dbName, row.hiveObject.objectName])),
                row.grantInfo.privilege,
            )
            for row in rows
            if row.hiveObject.dbName
        }


@contextmanager
def running_metastore(folder: Path) -> Iterator[Metastore]:
    """Start a metastore, and stop it at the end."""
    port = free_port()
    (folder / "hive-site.xml").write_text(
        SITE.format(
            properties="\n".join(
                f"<property><name>{name}</name><value>{value}</value></property>"
                for name, value in {
                    "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/database;create=true",
                    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
                    "datanucleus.schema.autoCreateAll": "true",
                    # the pool that it uses by default is not in the package
                    "datanucleus.connectionPoolingType": "none",
                    "hive.metastore.schema.verification": "false",
                    "hive.async.log.enabled": "false",
                    "hive.metastore.warehouse.dir": f"{folder}/warehouse",
                }.items()
            )
        )
    )
    jars = Path(pyspark.__file__).parent / "jars"
    with open(folder / "metastore.log", "w") as log:
        process = subprocess.Popen(
            [
                "java",
                *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net")),
                "-cp",
                f"{folder}:{jars}/*",
                "org.apache.hadoop.hive.metastore.HiveMetaStore",
                "-p",
                str(port),
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        metastore = Metastore(port, folder)
        try:
            _wait(metastore, process)
            yield metastore
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _wait(metastore: Metastore, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, (metastore.folder / "metastore.log").read_text()[-2_000:]
        with suppress(TTransportException), metastore.client() as client:
            client.get_all_databases()
            return
        time.sleep(0.5)
    raise AssertionError("the metastore does not answer")


def _table(database: str, name: str, location: str) -> ttypes.Table:
    serde = ttypes.SerDeInfo("serde", "library", {})
    storage = ttypes.StorageDescriptor(
        [ttypes.FieldSchema("id", "int", "")], location, "in", "out", False, 0, serde, [], [], {}
    )
    return ttypes.Table(name, database, "hive", 0, 0, 0, storage, [], {}, None, None, "MANAGED_TABLE")


def _privilege(principal: str, place: str, privilege: str, grant_option: bool) -> ttypes.HiveObjectPrivilege:
    principal_type, _, name = principal.partition(":")
    database, _, table = place.partition(".")
    type_ = ttypes.HiveObjectType.TABLE if table else ttypes.HiveObjectType.DATABASE
    return ttypes.HiveObjectPrivilege(
        ttypes.HiveObjectRef(type_, database, table or None, [], None),
        name,
        PRINCIPAL_TYPES[principal_type],
        ttypes.PrivilegeGrantInfo(
            privilege, int(time.time()), "hive", ttypes.PrincipalType.USER, grant_option
        ),
    )
