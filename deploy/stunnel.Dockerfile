# stunnel, in front of a TFF worker or of the run. Build from the root of the project:
#   docker build -f deploy/stunnel.Dockerfile -t tff-stunnel .
# Certificates are mounted at /etc/tff (deploy/certificates.sh), readable by user 65534.
FROM debian:12-slim

RUN apt-get update && apt-get install --yes --no-install-recommends stunnel4 \
    && rm -rf /var/lib/apt/lists/*

COPY deploy/stunnel-worker.conf deploy/stunnel-run.conf /etc/stunnel/
# For a worker in a container of its own, which is the only host called "raw" that stunnel can see.
RUN sed 's/127\.0\.0\.1:8000/raw:8000/' /etc/stunnel/stunnel-worker.conf \
    > /etc/stunnel/stunnel-raw.conf

USER 65534
EXPOSE 8443
ENTRYPOINT ["stunnel"]
CMD ["/etc/stunnel/stunnel-worker.conf"]
