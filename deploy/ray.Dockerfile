# A node of a Ray cluster for --runtime=ray (docs/runtimes.md). Build from the root of the project:
#   docker build -f deploy/ray.Dockerfile -t tff-partial-ray .
FROM python:3.11-slim

# Ray's probes and the commands of Kubernetes and Slurm need a shell, nothing else.
WORKDIR /app
COPY requirements.txt requirements-ray.txt ./
RUN pip install --no-cache-dir --no-deps -r requirements.txt -r requirements-ray.txt

# Actors import the package that the run imports: driver and nodes have the same image.
COPY setup.cfg pyproject.toml README.md LICENSE run_experiment.py ./
COPY tff_partial tff_partial
COPY models models
COPY tasks tasks
COPY recipes recipes
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . && useradd --create-home runner \
    && mkdir results && chown runner results
USER runner
# A cluster refuses whoever does not know its token.
ENV RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
