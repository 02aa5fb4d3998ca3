"""Installs Debian packages where the user may; otherwise says which command does it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import Refusal
from .machine import Tool

# another installation at work is waited for, not failed on
APT_GET = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "-qq")
INSTALL = ("install", "-y", "--no-install-recommends")


def privileged() -> tuple[str, ...] | None:
    """What to put before a command so that it runs as root; None when this user may not."""
    if os.geteuid() == 0:
        return ()
    if not shutil.which("sudo"):
        return None
    tried = subprocess.run(["sudo", "-n", "true"], capture_output=True, start_new_session=True)
    return ("sudo", "-n") if tried.returncode == 0 else None


def is_known(package: str) -> bool:
    """Whether the package lists on this machine offer it."""
    said = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    return "Candidate:" in said and "Candidate: (none)" not in said


def packages_for(tools: Sequence[Tool]) -> list[str]:
    """The package of each tool; where none is known, the one that a current list would have."""
    return [next(filter(is_known, tool.packages), tool.packages[0]) for tool in tools]


def command_for(packages: Sequence[str]) -> str:
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get update && {prefix}apt-get {' '.join(INSTALL)} {' '.join(packages)}"


def _run(prefix: tuple[str, ...], *arguments: str) -> bool:
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", *APT_GET, *arguments]
    # a session of its own, out of Ctrl-C's reach: half an installation is the machine's trouble, not only the console's
    apt_get = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)
    try:
        return apt_get.wait() == 0
    except KeyboardInterrupt:
        print("Interrupted; waiting for apt-get to leave its packages in order ...", file=sys.stderr, flush=True)
        apt_get.wait()
        raise


def _keep_stopped(prefix: tuple[str, ...], service: str) -> None:
    """The package starts a server for the whole machine; nobody asked for that one."""
    if Path("/run/systemd/system").is_dir():
        subprocess.run([*prefix, "systemctl", "disable", "--now", service], capture_output=True)
        return
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for command in (["service", service, "stop"], ["update-rc.d", service, "disable"]):
        subprocess.run([*prefix, "env", f"PATH={path}", *command], capture_output=True)


def packages_install(tools: Sequence[Tool]) -> None:
    titles = ", ".join(tool.title for tool in tools)
    if not shutil.which("apt-get"):
        raise Refusal(f"Missing: {titles}. This machine has no apt-get, so install that in its own way.")
    prefix = privileged()
    if prefix is None:
        raise Refusal(f"Missing: {titles}. Only root may install it:\n    {command_for(packages_for(tools))}")
    print(f"Installing {titles} (Debian packages) ...", file=sys.stderr, flush=True)
    if not all(map(is_known, packages_for(tools))):
        _run(prefix, "update")
    # lists that are out of date name files that the mirrors no longer have
    if not (_run(prefix, *INSTALL, *packages_for(tools))
            or _run(prefix, "update") and _run(prefix, *INSTALL, *packages_for(tools))):
        raise Refusal(f"Could not install {titles}; apt-get said why. The command was:\n"
                      f"    {command_for(packages_for(tools))}")
    for tool in tools:
        if tool.service:
            _keep_stopped(prefix, tool.service)
