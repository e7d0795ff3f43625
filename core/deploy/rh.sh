#!/bin/sh
# Runs the command rowhouse as rowhouse.service does: its user, folder, settings and data directory.
# A DATABASE_URL in the environment takes precedence over that of the service.
exec systemd-run --pipe --wait --collect --quiet \
  -p User=rowhouse -p Group=rowhouse -p UMask=0077 \
  -p EnvironmentFile=/etc/rowhouse/rowhouse.env -p WorkingDirectory=/etc/rowhouse \
  -p StateDirectory=rowhouse -p StateDirectoryMode=0750 \
  /usr/bin/env ${DATABASE_URL:+"DATABASE_URL=$DATABASE_URL"} /usr/local/bin/rowhouse "$@"
