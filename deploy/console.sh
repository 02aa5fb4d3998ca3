#!/bin/sh
# Run one program of an installed console: authzconsole web | worker | light | beat | manage COMMAND ... | healthcheck
#
# The settings come from the environment, and from the file /etc/authzconsole/environment (CONSOLE_ENVIRONMENT names another)
# if this user can read it. docs/guides/deployment.md describes them.
set -eu
umask 0077

prefix=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
settings=${CONSOLE_ENVIRONMENT:-/etc/authzconsole/environment}
if [ -r "$settings" ]; then
    set -a
    . "$settings"
    set +a
fi
export PRODUCTION="${PRODUCTION:-true}"
export STATE_DIR="${STATE_DIR:-/var/lib/authzconsole}"
export STATIC_ROOT="${STATIC_ROOT:-$prefix/static}" DOCS_ROOT="${DOCS_ROOT:-$prefix/docs}"
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

program=${1:-}
[ $# -eq 0 ] || shift
cd "$prefix/app"
python="$prefix/venv/bin/python"
# the options are those of authzconsole/ops/supervisord.conf
case $program in
web)
    exec "$python" -m granian authzconsole.server_worker:application --interface asginl --http 1 --no-ws \
        --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" --workers 2 --runtime-blocking-threads 64 --backlog 4096 \
        --backpressure 4096 --http1-header-read-timeout 15000 --respawn-failed-workers --workers-kill-timeout 4
    ;;
worker)
    exec "$python" -m celery -A authzconsole worker --queues runs --hostname runs@%h --concurrency 1 --pool prefork \
        --without-gossip --without-mingle --loglevel INFO
    ;;
light)
    exec "$python" -m celery -A authzconsole worker --queues light --hostname light@%h --concurrency 4 --pool threads \
        --without-gossip --without-mingle --loglevel INFO
    ;;
beat)
    exec "$python" -m celery -A authzconsole beat --pidfile= --loglevel INFO
    ;;
manage)
    exec "$python" manage.py "$@"
    ;;
healthcheck)
    exec "$python" -c 'import sys
from authzconsole.ops.address import health_status, listen_address
status = health_status(listen_address())
sys.exit(0 if status == 200 else f"/healthz: {status}")'
    ;;
*)
    echo "usage: $0 web | worker | light | beat | manage COMMAND ... | healthcheck" >&2
    exit 2
    ;;
esac
