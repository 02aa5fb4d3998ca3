"""Install what is missing: `.venv`, Java, Redis, and what the tests need (PostgreSQL, Chromium, slapd,
nginx).
"""

import argparse
import os
import sys
from collections.abc import Sequence

from . import ROOT, Refusal, machine
from .environment import ensure_environment, setup_lock
from .machine import Tool
from .packages import install_packages
from .processes import exit_status

JAVA_HINT = "Without Java the console runs, but no analysis does: WITHOUT_JAVA=1 make run"


def tools_for(purpose: str) -> list[Tool]:
    if purpose == "quick":
        return [machine.LDAP_HEADERS, machine.SASL_HEADERS]
    if purpose == "test":
        return [
            machine.LDAP_HEADERS,
            machine.SASL_HEADERS,
            machine.JAVA,
            machine.REDIS,
            machine.POSTGRESQL,
            machine.CHROMIUM,
            machine.SLAPD,
            machine.NGINX,
        ]
    java = [] if os.environ.get("WITHOUT_JAVA") else [machine.JAVA]
    return java if os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE") else [*java, machine.REDIS]


def ensure_tools(tools: Sequence[Tool]) -> None:
    missing = [tool for tool in tools if not tool.find()]
    if not missing:
        return
    hint = f"\n{JAVA_HINT}" if missing == [machine.JAVA] else ""
    try:
        install_packages(missing)
    except Refusal as refusal:
        raise Refusal(f"{refusal}{hint}") from None
    if not_found := [tool.title for tool in missing if not tool.find()]:
        raise Refusal(
            f"The packages are installed, but this is still not found: {', '.join(not_found)}.{hint}"
        )


def setup(purpose: str) -> None:
    """Install what `purpose` needs: `run`, `test`, or `quick` (the tests without Java and servers)."""
    with setup_lock():
        # before the long download, because this fails fast
        ensure_tools(tools_for(purpose))
        ensure_environment("run" if purpose == "run" else "dev")


def spark_environment() -> dict[str, str]:
    """Return JAVA_HOME of the Java that Spark must use; empty if there is none."""
    home = machine.java_home()
    return {"JAVA_HOME": str(home)} if home else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="purpose", choices=("run", "test", "quick"), default="run")
    try:
        setup(parser.parse_args().purpose)
    except KeyboardInterrupt:
        print("Interrupted; the same command continues.", file=sys.stderr)
        raise
    print(f"Setup is complete; the Python packages are in {ROOT / '.venv'}.")


if __name__ == "__main__":
    sys.exit(exit_status(main))
