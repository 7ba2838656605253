#!/bin/bash
# A Ray cluster on the nodes of a Slurm job, and a run on it (docs/runtimes.md):
#   sbatch --nodes=4 --cpus-per-task=16 deploy/ray-slurm.sh --task=cifar10 --algo=fedavg
# Submit from the root of the project, whose folder and .venv all nodes must see (`make ray`).
# For GPUs add --gpus-per-node=4 here and --ray_gpus_per_actor=1 to the flags of the run.
#SBATCH --job-name=tff-partial
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
export PATH="$PWD/.venv/bin:$PATH" RAY_USAGE_STATS_ENABLED=0

# Others on the machines reach the ports, but do not know the token.
umask 077
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$PWD/.ray-token-$SLURM_JOB_ID"
python -c "import secrets; print(secrets.token_hex(32), end='')" > "$RAY_AUTH_TOKEN_PATH"
trap 'rm -f "$RAY_AUTH_TOKEN_PATH"' EXIT

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
# The first address of the head, as other nodes see it.
ip=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | cut -d' ' -f1)
port=$((10000 + SLURM_JOB_ID % 20000))
cpus=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}
common=(--num-cpus="$cpus" --disable-usage-stats --block)
if [ -n "${SLURM_GPUS_ON_NODE:-}" ]; then common+=(--num-gpus="$SLURM_GPUS_ON_NODE"); fi

srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
  ray start --head --node-ip-address="$ip" --port="$port" --include-dashboard=false \
  "${common[@]}" &
until srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
  ray health-check --address="$ip:$port" 2> /dev/null; do sleep 2; done
if [ "${#nodes[@]}" -gt 1 ]; then
  others=$(IFS=,; echo "${nodes[*]:1}")
  srun --nodes=$((${#nodes[@]} - 1)) --ntasks-per-node=1 --overlap --nodelist="$others" \
    ray start --address="$ip:$port" "${common[@]}" &
fi

# Nodes that are late are used from the round after they have joined.
srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
  python run_experiment.py --runtime=ray --ray_address="$ip:$port" "$@"
