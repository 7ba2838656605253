# A TFF worker. Build from the root of the project:
#   docker build -f deploy/worker.Dockerfile -t tff-worker .
FROM python:3.11-slim

# The worker is one binary inside the TFF package with TensorFlow built in, so neither
# TensorFlow nor the other requirements are installed. The versions come from the pinned list,
# because the worker must be of the same TFF version as the client.
COPY requirements.txt /tmp/requirements.txt
RUN grep -E '^(tensorflow-federated|grpcio)==' /tmp/requirements.txt > /tmp/worker.txt \
    && pip install --no-cache-dir --no-deps -r /tmp/worker.txt

COPY tff_partial/__init__.py /app/tff_partial/
COPY tff_partial/cli/__init__.py tff_partial/cli/command_line.py tff_partial/cli/worker.py \
    /app/tff_partial/cli/
COPY tff_partial/core/__init__.py tff_partial/core/checks.py tff_partial/core/deferred.py \
    tff_partial/core/lazy.py \
    /app/tff_partial/core/
COPY tff_partial/runtime/__init__.py tff_partial/runtime/errors.py tff_partial/runtime/worker.py \
    /app/tff_partial/runtime/
COPY tff_partial/runtime/ray/__init__.py tff_partial/runtime/ray/options.py \
    /app/tff_partial/runtime/ray/
COPY tff_partial/runtime/workers/__init__.py tff_partial/runtime/workers/contact.py \
    tff_partial/runtime/workers/process.py /app/tff_partial/runtime/workers/
COPY tff_partial/system/__init__.py tff_partial/system/children.py \
    tff_partial/system/interrupts.py tff_partial/system/temporary.py /app/tff_partial/system/

WORKDIR /app
USER 65534
EXPOSE 8000
ENTRYPOINT ["python", "-m", "tff_partial.runtime.worker"]
CMD ["--port=8000"]
