# The sources of holdfast with all that they are built with and tested against, from Debian's packages. Run, it builds and
# tests: see docker/test.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git docker.io docker-compose procps
COPY scripts/install-deps /holdfast/scripts/
RUN /holdfast/scripts/install-deps --dev && rm -rf /var/lib/apt/lists/*
WORKDIR /holdfast
COPY . .
ENTRYPOINT ["scripts/test"]
