#!/usr/bin/env bash
# Certificates for stunnel between a run and its workers (docs/runtimes.md, "Behind stunnel").
#
#   deploy/certificates.sh FOLDER RUN WORKER...
#   deploy/certificates.sh certificates run worker-1 worker-2
#
# FOLDER gets ca.pem and ca.key, and NAME.pem and NAME.key for each name. The run's certificate is
# one of a client, the workers' are those of servers: a worker cannot pose as the run. What is there
# already stays, so that a worker can be added later. DAYS (365) is how long they are valid.
set -euo pipefail
umask 077
if [ $# -lt 3 ]; then
  echo "error: expected FOLDER RUN WORKER... Received: $*" >&2
  exit 2
fi
folder=$1 run=$2 days=${DAYS:-365}
shift
for name in "$@"; do
  if ! [[ $name =~ ^[A-Za-z0-9.-]+$ ]] || [ "$name" = ca ]; then
    echo "error: expected names of hosts, other than ca. Received: $name" >&2
    exit 2
  fi
done
mkdir -p "$folder"
cd "$folder"
key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
if ! [ -e ca.key ]; then
  openssl req -x509 "${key[@]}" -keyout ca.key -out ca.pem -days 3650 -subj "/CN=tff_partial" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null
fi
for name in "$@"; do
  [ -e "$name.pem" ] && continue
  usage=serverAuth
  [ "$name" = "$run" ] && usage=clientAuth
  openssl req "${key[@]}" -keyout "$name.key" -out "$name.csr" -subj "/CN=$name" 2>/dev/null
  printf 'subjectAltName=DNS:%s\nextendedKeyUsage=%s\n' "$name" "$usage" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" \
    -extfile "$name.ext" -out "$name.pem" 2>/dev/null
  rm "$name.csr" "$name.ext"
done
echo "certificates in $folder; keep ca.key away from the workers, and give each host its own pair and ca.pem"
