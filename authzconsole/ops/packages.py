"""Install Debian packages. If the user lacks the permission, print the command that installs them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import Refusal
from .machine import Tool

# wait for another running installation instead of failing
APT_GET = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "-qq")
INSTALL = ("install", "-y", "--no-install-recommends")


def root_prefix() -> tuple[str, ...] | None:
    """Return the prefix that makes a command run as root; None if this user cannot run commands as root."""
    if os.geteuid() == 0:
        return ()
    if not shutil.which("sudo"):
        return None
    sudo = subprocess.run(["sudo", "-n", "true"], capture_output=True, start_new_session=True)
    return ("sudo", "-n") if sudo.returncode == 0 else None


def is_available(package: str) -> bool:
    """Return whether the package lists on this machine contain the package."""
    output = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    return "Candidate:" in output and "Candidate: (none)" not in output


def packages_for(tools: Sequence[Tool]) -> list[str]:
    """Return the first available package of each tool.

    If none is available, return the first package of the tool, because updated package lists contain it.
    """
    return [next(filter(is_available, tool.packages), tool.packages[0]) for tool in tools]


def install_command(packages: Sequence[str]) -> str:
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get update && {prefix}apt-get {' '.join(INSTALL)} {' '.join(packages)}"


def _run(prefix: tuple[str, ...], *arguments: str) -> bool:
    command = [
        *prefix,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "NEEDRESTART_SUSPEND=1",
        *APT_GET,
        *arguments,
    ]
    # in a separate session, which Ctrl-C does not reach: an interrupted installation would damage the whole
    # machine
    apt_get = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)
    try:
        return apt_get.wait() == 0
    except KeyboardInterrupt:
        print(
            "Interrupted; waiting for apt-get to leave its packages in order ...", file=sys.stderr, flush=True
        )
        apt_get.wait()
        raise


def _keep_stopped(prefix: tuple[str, ...], service: str) -> None:
    """Stop and disable the system-wide server that the package started. The console starts its own."""
    if Path("/run/systemd/system").is_dir():
        subprocess.run([*prefix, "systemctl", "disable", "--now", service], capture_output=True)
        return
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for command in (["service", service, "stop"], ["update-rc.d", service, "disable"]):
        subprocess.run([*prefix, "env", f"PATH={path}", *command], capture_output=True)


def install_packages(tools: Sequence[Tool]) -> None:
    titles = ", ".join(tool.title for tool in tools)
    if not shutil.which("apt-get"):
        raise Refusal(
            f"Missing: {titles}. This machine has no apt-get, so install them with its own package manager."
        )
    prefix = root_prefix()
    if prefix is None:
        raise Refusal(
            f"Missing: {titles}. Only root may install them:\n    {install_command(packages_for(tools))}"
        )
    print(f"Installing {titles} (Debian packages) ...", file=sys.stderr, flush=True)
    if not all(map(is_available, packages_for(tools))):
        _run(prefix, "update")
    # outdated lists contain files that the mirrors no longer have, so try again after an update
    if not (
        _run(prefix, *INSTALL, *packages_for(tools))
        or _run(prefix, "update")
        and _run(prefix, *INSTALL, *packages_for(tools))
    ):
        raise Refusal(
            f"Could not install {titles}; see the messages of apt-get above. The command was:\n"
            f"    {install_command(packages_for(tools))}"
        )
    for tool in tools:
        if tool.service:
            _keep_stopped(prefix, tool.service)
