# One member of an etcd cluster, from Debian's packages. It is told who it is by etcd's own variables (ETCD_NAME, ...).
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends etcd-server etcd-client iproute2 \
    && rm -rf /var/lib/apt/lists/*
ENV ETCDCTL_API=3 ETCD_DATA_DIR=/data ETCD_LOGGER=zap \
    ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:2379 ETCD_LISTEN_PEER_URLS=http://0.0.0.0:2380
VOLUME /data
EXPOSE 2379
HEALTHCHECK --interval=1s --timeout=3s --retries=60 CMD ["etcdctl", "endpoint", "health"]
CMD ["etcd"]
