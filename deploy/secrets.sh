#!/bin/sh
# Create the secrets and certificates of deploy/compose.yaml: deploy/secrets.sh console.example.com
#
# They are stored in deploy/secrets/, which only the current user can enter. Existing files are kept, so a second call adds only
# what is missing. The certificates of the database and of Redis are signed by a private authority (ca.crt). Replace console.crt
# and console.key, which browsers do not trust, with a certificate of your organization.
set -eu
umask 0077

if [ $# -ne 1 ]; then
    echo "usage: $0 HOST-NAME-OF-THE-CONSOLE" >&2
    exit 2
fi
host=$1
folder=${SECRETS:-$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/secrets}
days=825
mkdir -p "$folder"
chmod 0700 "$folder"
cd "$folder"

for name in secret_key journal_keys database_password redis_password flower_password; do
    [ -s "$name" ] || openssl rand -hex 40 >"$name"
done

if [ ! -s ca.key ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -keyout ca.key -out ca.crt -days 3650 \
        -subj "/CN=Authorization console private CA" 2>/dev/null
fi

certificate() {
    [ -s "$1.crt" ] && return
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -keyout "$1.key" -out "$1.csr" -subj "/CN=$2" 2>/dev/null
    printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$1.crt" -days "$days" -extfile "$1.ext" \
        2>/dev/null
    rm -f "$1.csr" "$1.ext"
}
certificate database database
certificate redis redis
certificate console "$host"

# the accounts of the containers read the files; on this machine, the mode of the folder protects them
chmod 0444 secret_key journal_keys database_password redis_password flower_password ./*.crt database.key redis.key console.key
chmod 0400 ca.key
echo "The secrets are in $folder. Back up journal_keys and secret_key apart from the database."
