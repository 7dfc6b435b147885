# One member of a ZooKeeper ensemble, from Debian's packages. ZK_ID says which, ZK_SERVERS who the others are
# ("1=host 2=host 3=host").
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends zookeeper default-jre-headless libslf4j-java iproute2 \
    && rm -rf /var/lib/apt/lists/*
COPY zookeeper-member /usr/local/bin/
VOLUME /data
EXPOSE 2181
HEALTHCHECK --interval=1s --timeout=3s --retries=60 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep -q ^Mode: <&3"]
CMD ["zookeeper-member"]
