# docker build -t rowhouse .
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && npm pack && mkdir /app && tar -xzf rowhouse-*.tgz -C /app --strip-components=1

# Without development packages and the embedded PostgreSQL.
WORKDIR /app
RUN cp /src/package-lock.json . && npm ci --omit=dev --omit=optional --no-audit --no-fund
# Packages of providers that need one. The default is for files in S3.
ARG PACKAGES="@aws-sdk/client-s3@3.1169.0 @aws-sdk/lib-storage@3.1169.0 @aws-sdk/s3-request-presigner@3.1162.0"
RUN if [ -n "$PACKAGES" ]; then npm install --no-save --save-prod --omit=dev --omit=optional --no-audit --no-fund $PACKAGES; fi

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production ROWHOUSE_HOST=0.0.0.0 ROWHOUSE_DATA_DIR=/var/lib/rowhouse
# The memory of long bodies and answers goes back to the system.
ENV MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
COPY --from=build /app /app
# Plugins beside the configuration can import rowhouse by name.
RUN chmod +x /app/dist/core/cli.js \
  && ln -s /app/dist/core/cli.js /usr/local/bin/rowhouse \
  && mkdir -p /srv/rowhouse/node_modules \
  && ln -s /app /srv/rowhouse/node_modules/rowhouse \
  && install -d -o node -g node /var/lib/rowhouse
# Holds rowhouse.config.js or .json, if there is one.
WORKDIR /srv/rowhouse
VOLUME /var/lib/rowhouse
# The account node by its number, so that Kubernetes can tell that it is not root.
USER 1000:1000
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.ROWHOUSE_PORT || 8080}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# No shell and no npm: SIGTERM reaches the server.
ENTRYPOINT ["rowhouse"]
CMD ["start"]
