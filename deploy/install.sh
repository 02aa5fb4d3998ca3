#!/bin/sh
# Install the console into a new folder: deploy/install.sh /opt/authzconsole-1.1.0
#
# The folder gets the code, a virtual environment with the locked packages of requirements/run.txt, the static files, the
# documentation site, and bin/authzconsole, which runs the programs. The console never writes to it. An upgrade installs into another folder; see
# docs/guides/upgrading.md.
#
# PYTHON: the Python to use (python3). EXTRAS: the optional packages to add, such as "saml ldap" (requirements/extra-NAME.txt).
# PIP_INDEX_URL or UV_DEFAULT_INDEX: a mirror of the package index. SITE_PACKAGES: a folder with the installed packages, which is
# used instead of an index, for a machine that has none.
set -eu
umask 0022

usage() {
    echo "usage: $0 /ABSOLUTE/FOLDER   (it must not exist, or be empty)" >&2
    exit 2
}

[ $# -eq 1 ] || usage
prefix=$1
case $prefix in /*) ;; *) usage ;; esac
if [ -e "$prefix" ] && { [ ! -d "$prefix" ] || [ -n "$(ls -A "$prefix")" ]; }; then
    echo "$prefix exists and is not empty. Install each version into its own folder." >&2
    exit 1
fi

source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-python3}
locks="$source/requirements"
set -- "$locks/run.txt"
for extra in ${EXTRAS:-}; do
    if [ ! -f "$locks/extra-$extra.txt" ]; then
        echo "EXTRAS: there is no $locks/extra-$extra.txt" >&2
        exit 1
    fi
    set -- "$@" "$locks/extra-$extra.txt"
done

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$prefix/app" "$prefix/bin"
"$python" -m venv --without-pip "$prefix/venv"
if [ -n "${SITE_PACKAGES:-}" ]; then
    for folder in "$prefix"/venv/lib/python*/site-packages; do
        printf '%s\n' "$SITE_PACKAGES" >"$folder/packages.pth"
    done
else
    # the installer is not part of the installation
    "$python" -m venv "$tools/venv"
    PIP_USER=0 "$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$locks/uv.txt"
    if [ -n "${PIP_INDEX_URL:-}" ]; then
        UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
        export UV_DEFAULT_INDEX
    fi
    "$tools/venv/bin/uv" pip sync --quiet --python "$prefix/venv/bin/python" --compile-bytecode --require-hashes \
        --require-build-hashes --build-constraints "$locks/build.txt" "$@"
    # Sphinx is not part of the installation either
    "$tools/venv/bin/uv" pip install --quiet --python "$prefix/venv/bin/python" --target "$tools/sphinx" --require-hashes \
        -r "$locks/docs.txt"
fi

cp -R "$source/entities" "$source/grants" "$source/analytics" "$source/authzconsole" "$source/templates" "$source/manage.py" \
    "$source/LICENSE" "$prefix/app/"
find "$prefix/app" -name __pycache__ -type d -prune -exec rm -rf {} +
"$prefix/venv/bin/python" -m compileall -q -j 0 "$prefix/app"
install -m 0755 "$source/deploy/console.sh" "$prefix/bin/authzconsole"

cd "$prefix/app"
# without the environment of the caller, which may have the settings of a console
env -i PATH="$PATH" STATE_DIR="$tools/state" STATIC_ROOT="$prefix/static" "$prefix/venv/bin/python" manage.py collectstatic \
    --noinput --verbosity 0
with_sphinx() {
    env -i PATH="$PATH" PYTHONPATH="$tools/sphinx" PYTHONDONTWRITEBYTECODE=1 "$prefix/venv/bin/python" "$@"
}
mkdir "$prefix/docs"
if [ -n "${SITE_PACKAGES:-}" ] && ! with_sphinx -c 'import furo, myst_parser, sphinx' 2>/dev/null; then
    echo "SITE_PACKAGES has no Sphinx, so the documentation is not built."
else
    with_sphinx -m sphinx --quiet --fail-on-warning --doctree-dir "$tools/doctrees" "$source/docs" "$prefix/docs"
fi
# manage.py creates files that only their owner can read, but the programs run with another account
chmod -R u=rwX,go=rX "$prefix/static" "$prefix/docs"
echo "The console is installed in $prefix."
