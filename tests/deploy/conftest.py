"""An installation by deploy/install.sh in a temporary folder, and nginx with the configuration of
deploy/nginx/.
"""

import configparser
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import sysconfig
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from authzconsole.ops import machine
from authzconsole.ops.address import ListenAddress, free_port, health_status

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KEY = "k3y-" * 4 + "abcdefghijklmnopqrstuvwxyz0123456789"


def locked_requirements(lock: str) -> list[Requirement]:
    """Return the packages of a lock file that this platform needs."""
    lines = re.findall(r"^([a-z0-9][^\\\n]*?) \\$", (ROOT / "requirements" / lock).read_text(), re.MULTILINE)
    requirements = [Requirement(line) for line in lines]
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate()
    ]


@pytest.fixture(scope="session")
def production_packages(tmp_path_factory):
    """Return a folder with links to the packages of requirements/run.txt only.

    The tests install from this folder, because an installation from the index takes a minute. `make
    deploy-check` does that.
    """
    folder, packages = tmp_path_factory.mktemp("packages"), Path(sysconfig.get_path("purelib"))
    for requirement in locked_requirements("run.txt"):
        found = distribution(requirement.name)
        assert requirement.specifier.contains(found.version), (
            f"{requirement.name} {found.version} is installed"
        )
        for name in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (folder / name).exists():
                (folder / name).symlink_to(packages / name)
    return folder


@dataclass(frozen=True)
class Installation:
    """A console that was installed into a folder, with its environment."""

    prefix: Path
    environment: dict[str, str]
    password: str
    port: int

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.prefix / "bin" / "authzconsole", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
        )


def clean_environment() -> dict[str, str]:
    kept = (
        "PATH",
        "HOME",
        "LANG",
        "JAVA_HOME",
        *(name for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_"))),
    )
    return {name: os.environ[name] for name in kept if name in os.environ}


@pytest.fixture(scope="session")
def installation(tmp_path_factory, request):
    """Install the console into a folder that it cannot change afterwards, and create its database on SQLite."""
    folder, port = tmp_path_factory.mktemp("installation"), free_port()
    prefix, environment = folder / "authzconsole-1", clean_environment() | {"PYTHON": sys.executable}
    if not os.environ.get("CONSOLE_FULL_INSTALL"):
        environment["SITE_PACKAGES"] = str(request.getfixturevalue("production_packages"))
    done = subprocess.run([DEPLOY / "install.sh", prefix], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    settings = folder / "environment"
    (folder / "secret_key").write_text(KEY)
    settings.write_text(
        f"SECRET_KEY_FILE={folder}/secret_key\nJOURNAL_KEYS='{KEY}'\n"
        f"SQLITE_IN_PRODUCTION=true\nSTATE_DIR={folder}/state\nPORT={port}\n"
        "PUBLIC_URL=https://console.example\n"
    )
    environment = clean_environment() | {"CONSOLE_ENVIRONMENT": str(settings)}
    bootstrap = subprocess.run(
        [prefix / "bin" / "authzconsole", "manage", "bootstrap"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert bootstrap.returncode == 0, bootstrap.stdout + bootstrap.stderr
    assert "`authzconsole manage changepassword admin`" in bootstrap.stdout
    password = re.search(r"Sign in as admin with the password (\S+)", bootstrap.stdout)[1]
    return Installation(prefix, environment, password, port)


@pytest.fixture(scope="session")
def installed_console(installation):
    """Run the web server with the command of its systemd unit."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "authzconsole-web.service")
    command = unit["Service"]["ExecStart"].replace("/opt/authzconsole", str(installation.prefix))
    log = installation.prefix.parent / "web.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            shlex.split(command), env=installation.environment, stdout=output, stderr=output
        )
    try:
        address, deadline = (
            ListenAddress("127.0.0.1", installation.port, "https://console.example"),
            time.monotonic() + 90,
        )
        while health_status(address) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield installation
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Return the folder with the secrets and certificates that deploy/secrets.sh creates."""
    folder = tmp_path_factory.mktemp("secrets") / "secrets"
    subprocess.run(
        [DEPLOY / "secrets.sh", "console.example"],
        env=clean_environment() | {"SECRETS": str(folder)},
        check=True,
        capture_output=True,
    )
    return folder


@dataclass(frozen=True)
class Proxy:
    """A running nginx: its ports and the certificate authority that clients trust."""

    http_port: int
    https_port: int
    authority: Path

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority))
        return context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.https_port), timeout=30),
            server_hostname="console.example",
        )

    def request(self, raw: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(raw)
            return receive_answer(connection)


def receive_answer(connection) -> bytes:
    received = b""
    while chunk := connection.recv(1 << 16):
        received += chunk
    return received


def nginx_configuration(
    folder: Path, certificates: Path, upstream: int, http_port: int, https_port: int
) -> Path:
    """Write deploy/nginx/ with the ports and folders of a test."""
    replacements = {
        "/tmp/": f"{folder}/",
        "/etc/nginx/authzconsole": str(folder),
        "/etc/nginx/tls": str(certificates),
        "listen 8080": f"listen 127.0.0.1:{http_port}",
        "listen 8443": f"listen 127.0.0.1:{https_port}",
        "server web:8000": f"server 127.0.0.1:{upstream}",
        "worker_processes auto": "worker_processes 1",
        "client_body_timeout 10s": "client_body_timeout 2s",
    }
    for path in (DEPLOY / "nginx").glob("*.conf"):
        text = path.read_text()
        for old, new in replacements.items():
            text = text.replace(old, new)
        (folder / path.name).write_text(text)
    return folder / "nginx.conf"


@contextmanager
def run_nginx(folder: Path, certificates: Path, upstream: int):
    program = machine.NGINX.find()
    assert program, "nginx is missing; `make test` installs it"
    # only root can change the account of the nginx workers, and other accounts cannot read the folder of the
    # tests
    directives = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"
    http_port, https_port = free_port(), free_port()
    configuration = nginx_configuration(folder, certificates, upstream, http_port, https_port)
    log = folder / "nginx.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, "-c", configuration, "-e", "stderr", "-g", directives], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 10
        while health_status(ListenAddress("127.0.0.1", http_port, "")) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield Proxy(http_port, https_port, certificates / "ca.crt")
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def start_proxy(tmp_path_factory, certificates):
    """Return a function that starts nginx in front of a port."""
    with ExitStack() as cleanup:
        yield lambda upstream: cleanup.enter_context(
            run_nginx(tmp_path_factory.mktemp("nginx"), certificates, upstream)
        )
