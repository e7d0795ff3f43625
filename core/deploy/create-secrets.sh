#!/bin/sh
# Writes new random secrets to the folder secrets, and keeps those that exist.
set -eu
mkdir -p -m 700 secrets
cd secrets
secret() {
  [ -e "$1" ] || printf '%s' "$2" >"$1"
  # The containers read them as other users; the folder keeps everybody else out.
  chmod 644 "$1"
}
secret postgres-password "$(openssl rand -hex 32)"
secret database-url "postgresql://app:$(openssl rand -hex 32)@postgres/app"
secret admin-secret "$(openssl rand -hex 32)"
secret s3-access-key "$(openssl rand -hex 10)"
secret s3-secret-key "$(openssl rand -hex 32)"
secret s3.json "{\"identities\": [{\"name\": \"rowhouse\", \"actions\": [\"Admin\", \"Read\", \"Write\", \"List\"],
  \"credentials\": [{\"accessKey\": \"$(cat s3-access-key)\", \"secretKey\": \"$(cat s3-secret-key)\"}]}]}"
