# The image of all roles: docker build --tag postrider .
# Its processes are no root, and write nothing into it, so that it can be mounted read-only.

FROM node:22-bookworm-slim AS built
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json libraries.build.mjs ./
COPY src src
COPY console console
RUN npm run build && npm prune --omit=dev

FROM node:22-bookworm-slim
ENV NODE_ENV=production PATH=/app/bin:$PATH
WORKDIR /app
COPY --from=built /app/package.json ./
COPY --from=built /app/node_modules node_modules
COPY --from=built /app/dist dist
COPY src/record/migrations src/record/migrations
COPY lua lua
COPY caps caps
COPY docs docs
RUN mkdir bin && chmod +x dist/cli/postrider.js && ln -s ../dist/cli/postrider.js bin/postrider
# the user `node`, as a number: Kubernetes sees only from a number that it is not root
USER 1000:1000
ENTRYPOINT ["postrider"]
CMD ["serve"]
