"""Setup: the programs it finds, the packages it installs and its messages. No test installs anything."""

import os
import re
import stat
import subprocess
import sys

import pytest

from authzconsole.ops import Refusal, environment, machine, packages, setup


def program(folder, name, output):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", 7),
        ("initdb (PostgreSQL) 15.12 (Debian 15.12-0+deb12u2)", 15),
        ("nonsense", 0),
    ],
)
def test_the_version_of_a_program_is_read_from_its_output(tmp_path, output, major):
    assert machine.major_version(program(tmp_path, "program", output)) == major


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """Simulate a machine without installed programs and a user without root rights."""
    for name in ("JAVA_HOME", "REDIS_URL", "WITHOUT_JAVA", "CHROMIUM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("HEADERS", "JVM_HOMES", "POSTGRESQL_HOMES", "SERVERS"):
        monkeypatch.setattr(machine, name, tmp_path / "none")
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def debian(bare_machine, monkeypatch):
    program(bare_machine / "bin", "apt-get", "it must not be called")
    monkeypatch.setattr(packages, "is_available", lambda package: True)
    return bare_machine


def test_outdated_programs_are_skipped_and_newer_ones_found(bare_machine, monkeypatch):
    program(bare_machine / "old" / "bin", "java", 'openjdk version "11.0.2"')
    java = program(bare_machine / "jvm" / "java-17" / "bin", "java", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "old"))
    assert machine.java_home() is None
    monkeypatch.setattr(machine, "JVM_HOMES", bare_machine / "jvm")
    assert machine.java_home() / "bin" / "java" == java
    for version, is_found in (("5.0.14", False), ("6.0.0", True)):
        redis = program(bare_machine / "bin", "redis-server", f"Redis server v={version} sha=0")
        assert machine.redis_server() == (redis if is_found else None)


def test_a_user_without_install_rights_gets_the_exact_command(debian):
    with pytest.raises(Refusal) as refusal:
        setup.ensure_tools(setup.tools_for("test"))
    assert (
        "Java 17 or newer, redis-server 6 or newer, the PostgreSQL server, 14 or newer, Chromium, "
        "OpenLDAP's server slapd, nginx"
    ) in str(refusal.value)
    assert (
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends "
        "libldap2-dev libsasl2-dev openjdk-17-jre-headless redis-server postgresql chromium slapd "
        "nginx-light"
    ) in str(refusal.value)
    assert setup.JAVA_HINT not in str(refusal.value)


def test_if_only_java_is_missing_the_message_suggests_to_start_without_it(debian):
    program(debian / "bin", "redis-server", "Redis server v=7.0.0 sha=0")
    with pytest.raises(Refusal, match="WITHOUT_JAVA=1 make run"):
        setup.ensure_tools(setup.tools_for("run"))


def test_a_machine_without_apt_get_gets_the_list_of_programs_to_install(bare_machine):
    with pytest.raises(
        Refusal, match=r"Missing: Java 17 or newer, redis-server 6 or newer\. This machine has no apt-get"
    ):
        setup.ensure_tools(setup.tools_for("run"))


def test_another_java_package_is_selected_if_java_17_is_not_available(monkeypatch):
    monkeypatch.setattr(packages, "is_available", lambda package: package == "default-jre-headless")
    assert packages.packages_for([machine.JAVA, machine.REDIS]) == ["default-jre-headless", "redis-server"]


def test_a_package_that_does_not_contain_its_program_is_reported(debian, monkeypatch):
    monkeypatch.setattr(setup, "install_packages", lambda tools: None)
    with pytest.raises(Refusal, match="still not found: Java 17 or newer, redis-server 6 or newer"):
        setup.ensure_tools(setup.tools_for("run"))


def test_a_run_with_a_shared_redis_and_without_java_needs_no_program(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:6379/0")
    assert setup.tools_for("run") == [machine.JAVA]
    monkeypatch.setenv("WITHOUT_JAVA", "1")
    assert setup.tools_for("run") == []
    # the tests start separate servers
    assert machine.REDIS in setup.tools_for("test")


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    """Create lock files and a .venv in a temporary folder."""
    for name in ("uv", "build", "run", "dev"):
        (tmp_path / f"{name}.txt").write_text(f"{name}==1\n")
    monkeypatch.setattr(environment, "LOCKS", tmp_path)
    monkeypatch.setattr(environment, "VENV_STAMP", tmp_path / "created")
    monkeypatch.setattr(environment, "PACKAGES_STAMP", tmp_path / "installed")
    monkeypatch.setattr(environment, "VENV_PYTHON", sys.executable)
    return tmp_path


def stamp(group):
    environment.PACKAGES_STAMP.write_text(environment._packages_state(group))


def test_the_environment_is_complete_until_a_lock_changes_or_its_interpreter_is_missing(sandbox, monkeypatch):
    assert not environment.is_complete("run")
    for lock in ("uv", "build", "run"):
        stamp("run")
        # the dev packages include the run packages, but not the reverse
        assert environment.is_complete("run") and not environment.is_complete("dev")
        (sandbox / f"{lock}.txt").write_text("another==2\n")
        assert not environment.is_complete("run")
    stamp("dev")
    assert environment.is_complete("run") and environment.is_complete("dev")
    monkeypatch.setattr(environment, "VENV_PYTHON", os.devnull)
    assert not environment.is_complete("run")


def test_a_run_installs_no_test_tools():
    locked = {name: (environment.LOCKS / f"{name}.txt").read_text() for name in ("run", "dev")}
    for tool in ("pytest", "hypothesis", "playwright", "ruff"):
        assert f"\n{tool}==" in locked["dev"] and f"\n{tool}==" not in locked["run"]
    versions = {
        name: {line.split()[0] for line in text.splitlines() if re.match(r"\w\S*==", line)}
        for name, text in locked.items()
    }
    assert versions["run"] < versions["dev"]


@pytest.mark.parametrize("lock", ["uv", "build", "run", "dev"])
def test_a_lock_file_contains_no_url_or_path(lock):
    assert not re.search(
        r"https?:|file:|--(extra-)?index|--find-links", (environment.LOCKS / f"{lock}.txt").read_text()
    )


def fake_uv(sandbox, script):
    path = sandbox / "venv" / "bin" / "uv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def prepared_venv(sandbox, monkeypatch):
    """Create a .venv with a uv that installs nothing."""
    monkeypatch.setattr(environment, "VENV", sandbox / "venv")
    environment.VENV_STAMP.write_text(environment._venv_state())
    fake_uv(sandbox, 'echo "a warning"; echo "$@" > "$0.arguments"')
    return sandbox


def test_an_installation_that_succeeds_prints_one_line(prepared_venv, capfd):
    environment.ensure_environment("dev")
    assert environment.is_complete("dev")
    output = capfd.readouterr()
    assert output.out == "" and output.err.splitlines() == [
        "Installing the Python packages into .venv (a minute or two, the first time) ..."
    ]
    arguments = (prepared_venv / "venv" / "bin" / "uv.arguments").read_text()
    assert (
        arguments.startswith("pip sync")
        and "--require-hashes" in arguments
        and "--require-build-hashes" in arguments
    )
    assert arguments.endswith(f"--build-constraints {prepared_venv}/build.txt {prepared_venv}/dev.txt\n")


def test_an_installation_that_fails_shows_its_output_and_leaves_no_stamp(prepared_venv, capfd):
    environment.PACKAGES_STAMP.write_text("of an older lock")
    fake_uv(prepared_venv, "echo 'hash mismatch for nothing' >&2; exit 1")
    with pytest.raises(Refusal, match="uv could not install the locked packages"):
        environment.ensure_environment("run")
    assert not environment.PACKAGES_STAMP.exists()
    assert "hash mismatch for nothing" in capfd.readouterr().err


def test_a_new_version_of_uv_recreates_the_environment(prepared_venv, monkeypatch):
    steps = []
    monkeypatch.setattr(
        environment, "_run_quietly", lambda command, *others: steps.append([str(part) for part in command])
    )
    (prepared_venv / "uv.txt").write_text("uv==2\n")
    environment.ensure_environment("run")
    assert [command[1:3] for command in steps] == [["-m", "venv"], ["-m", "pip"], ["pip", "sync"]]
    assert "--require-hashes" in steps[1]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_environment_that_is_a_symbolic_link_is_left_alone(sandbox, monkeypatch, is_there):
    elsewhere, link = sandbox / "elsewhere", sandbox / "venv"
    if is_there:
        elsewhere.mkdir()
        (elsewhere / "installed").write_text("of another checkout")
    link.symlink_to(elsewhere)
    monkeypatch.setattr(environment, "VENV", link)
    monkeypatch.setattr(environment, "PACKAGES_STAMP", link / "installed")
    with pytest.raises(Refusal, match=f"{link} is a symbolic link to {elsewhere}, .* Remove the link"):
        environment.ensure_environment("run")
    assert link.is_symlink() and elsewhere.exists() == is_there
    if is_there:
        assert [path.name for path in elsewhere.iterdir()] == ["installed"]
        assert (elsewhere / "installed").read_text() == "of another checkout"
        # a complete environment is used
        (elsewhere / "installed").write_text(environment._packages_state("run"))
        environment.ensure_environment("run")


def test_a_second_setup_of_a_checkout_waits_for_the_first(tmp_path):
    lock = tmp_path / "setup.lock"
    waiting = (
        "import pathlib, sys\nfrom authzconsole.ops.environment import setup_lock\n"
        "with setup_lock(pathlib.Path(sys.argv[1])): print('second', flush=True)"
    )
    with environment.setup_lock(lock):
        second = subprocess.Popen(
            [sys.executable, "-c", waiting, lock], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert "waiting for it" in second.stderr.readline()
        assert second.poll() is None
    with second:
        assert second.communicate()[0] == "second\n"


def test_an_old_python_version_is_refused_with_a_message():
    old = "import sys; sys.version_info = (3, 9); sys.path.insert(0, 'authzconsole'); import ops"
    output = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True)
    assert output.returncode == 1
    assert output.stderr.startswith("The console needs Python 3.11 or newer")
