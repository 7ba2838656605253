# A run. Build from the root of the project:
#   docker build -f deploy/run.Dockerfile -t tff-run .
FROM python:3.11-slim

COPY requirements.txt /app/
RUN pip install --no-cache-dir --no-deps -r /app/requirements.txt

COPY run_experiment.py /app/
COPY models /app/models
COPY recipes /app/recipes
COPY tasks /app/tasks
COPY tff_partial /app/tff_partial

WORKDIR /app
ENTRYPOINT ["python", "run_experiment.py"]
CMD ["--task=imdb", "--algo=embracing"]
