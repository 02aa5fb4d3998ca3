"""The compose file, the container file, the secrets and the systemd units of deploy/."""

import contextlib
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import time

import pytest
import yaml

from authzconsole.ops import machine
from authzconsole.ops.address import free_port
from authzconsole.settings.production import unsafe_settings
from tests.deploy.conftest import DEPLOY, ROOT, clean_environment

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
CONSOLE = ("migrate", "web", "worker", "light", "beat")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def test_the_compose_file_has_every_service():
    assert set(SERVICES) == {"proxy", "database", "redis", "flower", *CONSOLE}
    assert SERVICES["flower"]["profiles"] == ["flower"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_runs_without_root_and_without_privileges(name):
    service = SERVICES[name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert "@sha256:" in service["image"] or not service["image"].endswith(":latest") or name in CONSOLE
    for volume in service.get("volumes", []):
        assert volume.endswith(":ro") or volume.split(":")[0] in COMPOSE["volumes"], volume


def test_only_the_proxy_is_published_and_databases_have_no_way_out():
    published = {name: service["ports"] for name, service in SERVICES.items() if service.get("ports")}
    assert published == {"proxy": ["80:8080", "443:8443"], "flower": ["127.0.0.1:5555:5555"]}
    assert COMPOSE["networks"]["back"]["internal"] and COMPOSE["networks"]["front"]["internal"]
    assert SERVICES["database"]["networks"] == SERVICES["redis"]["networks"] == ["back"]
    # everything on the network of the trusted proxies
    assert {name for name, service in SERVICES.items() if "front" in service["networks"]} == {"proxy", "web"}


def test_no_secret_is_an_environment_variable():
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or not re.search("PASSWORD|SECRET|KEYS", variable), (
                name,
                variable,
            )
            assert not re.search(r"://[^/@]*:[^@]*@", str(value))
    assert all(set(service.get("secrets", [])) <= set(COMPOSE["secrets"]) for service in SERVICES.values())


def test_the_settings_of_the_containers_are_safe(tmp_path):
    from environ import Env

    tmp_path.chmod(0o700)
    settings = SERVICES["web"]["environment"]
    assert settings["PRODUCTION"] == "true" and settings["PUBLIC_URL"].startswith("https://")
    assert {settings[name] for name in settings if name.endswith("_FILE")} == {
        f"/run/secrets/{name}"
        for name in ("secret_key", "journal_keys", "database_password", "redis_password")
    }
    problems = unsafe_settings(
        debug=False,
        secret_key=os.urandom(30).hex(),
        journal_keys=["k"],
        database=Env.db_url_config(settings["DATABASE_URL"]),
        sqlite_is_permitted=False,
        public_url=settings["PUBLIC_URL"],
        allowed_hosts=["console.example"],
        redis_url=settings["REDIS_URL"].replace("://", "://:password@"),
        trusted_proxies=[settings["TRUSTED_PROXIES"]],
        state_folder=tmp_path,
        spark_master=settings.get("SPARK_MASTER", "local[*]"),
        spark_conf={},
    )
    assert problems == []
    assert settings["TRUSTED_PROXIES"] == COMPOSE["networks"]["front"]["ipam"]["config"][0]["subnet"]


def test_the_files_that_the_compose_file_mounts_exist():
    paths = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    files = [path for path in paths if path.startswith("./") and not path.startswith("./secrets/")]
    assert files and all((DEPLOY / path).exists() for path in files)


def test_the_image_has_no_build_tools_and_no_root():
    stages = re.split(r"^FROM ", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    assert len(stages) == 3
    build, final = stages[1:]
    assert "deploy/install.sh /opt/authzconsole" in build and "gcc" in build
    assert not re.search(r"gcc|-dev\b|COPY \. ", final)
    assert "pip uninstall" in final and "USER 10001:10001" in final and "HEALTHCHECK" in final
    user = [line for line in final.splitlines() if line.startswith(("USER", "ENTRYPOINT"))]
    assert [line.split()[0] for line in user] == ["USER", "ENTRYPOINT"]


def test_the_build_receives_what_the_installation_copies_and_nothing_else():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set(re.findall(r'"\$source/([\w./]+)"', (DEPLOY / "install.sh").read_text()))
    assert copied | {"requirements", "deploy/install.sh"} == allowed


def test_the_secrets_of_the_compose_file_are_created_once_and_privately(certificates):
    before = {path.name: path.read_bytes() for path in certificates.iterdir()}
    subprocess.run(
        [DEPLOY / "secrets.sh", "console.example"],
        env=clean_environment() | {"SECRETS": str(certificates)},
        check=True,
        capture_output=True,
    )
    assert {path.name: path.read_bytes() for path in certificates.iterdir()} == before
    secrets = certificates
    assert {COMPOSE["secrets"][name]["file"] for name in COMPOSE["secrets"]} <= {
        f"./secrets/{path.name}" for path in secrets.iterdir()
    }
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert len((secrets / "secret_key").read_text().strip()) >= 50
    assert (secrets / "secret_key").read_text() != (secrets / "journal_keys").read_text()


def test_redis_of_the_compose_file_requires_tls_and_the_password(certificates, tmp_path):
    secrets, port, password = certificates, free_port(), (certificates / "redis_password").read_text().strip()
    text = (DEPLOY / "compose" / "redis.conf").read_text()
    for old, new in {
        "/run/secrets": str(secrets),
        "tls-port 6379": f"tls-port {port}",
        "dir /tmp": f"dir {tmp_path}",
    }.items():
        assert old in text
        text = text.replace(old, new)
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [machine.redis_server(), "-"], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
        )
    server.stdin.write(f"{text}\nbind 127.0.0.1\nrequirepass {password}\n")
    server.stdin.close()
    context = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    try:
        for _ in range(100):
            try:
                raw = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except ConnectionRefusedError:
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
        with context.wrap_socket(raw, server_hostname="redis") as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(100).startswith(b"-NOAUTH")
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            assert connection.recv(100).startswith(b"+OK")
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            contextlib.suppress(ConnectionResetError),
        ):
            plain.sendall(b"PING\r\n")
            assert b"PONG" not in plain.recv(100)
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_confined(unit):
    text = unit.read_text()
    for line in (
        "User=authzconsole",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "CapabilityBoundingSet=",
        "UMask=0077",
        "StateDirectoryMode=0700",
        "SystemCallFilter=@system-service",
    ):
        assert line in text.splitlines(), line
    program = unit.stem.removeprefix("authzconsole-")
    assert f"ExecStart=/opt/authzconsole/bin/authzconsole {program}\n" in text
    assert f"authzconsole-{program}.service" in (DEPLOY / "systemd" / "authzconsole.target").read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path):
    program = shutil.which("true")
    for path in (DEPLOY / "systemd").iterdir():
        (tmp_path / path.name).write_text(
            path.read_text().replace("/opt/authzconsole/bin/authzconsole", program)
        )
    files = sorted(tmp_path.iterdir())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *files], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    for unit in files:
        if unit.suffix == ".service":
            done = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit], capture_output=True
            )
            assert done.returncode == 0, done.stdout.decode()
