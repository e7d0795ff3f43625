#!/bin/sh
# The image of PostgreSQL runs this once, in a new data directory. It creates a login that owns its database and is no
# superuser, with the password of DATABASE_URL.
set -eu
password=$(sed -E 's|^[^:]*://[^:]*:([^@]*)@.*|\1|' /run/secrets/database-url)
psql --set=ON_ERROR_STOP=1 --set=password="$password" --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
create role app login password :'password';
create database app owner app;
revoke connect on database app from public;
SQL
