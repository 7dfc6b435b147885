# Builds holdfast and runs its tests, clusters of local processes included, in a container:
#   docker build --network host -t holdfast-test -f docker/holdfast.Dockerfile . && docker run --rm holdfast-test
FROM debian:bookworm-slim
COPY scripts/install-deps /src/scripts/
RUN apt-get update && /src/scripts/install-deps --dev && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
ENV HOLDFAST_SKIP_DEPS=1
CMD ["scripts/test"]
