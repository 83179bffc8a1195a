#!/usr/bin/env bash
# A Citus cluster on loopback, for tests and for a first look: a coordinator and some workers, each a PostgreSQL of its own.
# Nothing in it waits for the disk, and anybody on this machine may sign in: put nothing into it that you want to keep.
#
#   tools/citus-cluster.sh up DIR PORT WORKERS     prints CITUS_URL; the coordinator listens on PORT, workers behind it
#   tools/citus-cluster.sh down DIR                stops all of it; the folder stays
#
# BIN is the folder of a PostgreSQL 15 to 17 that has the citus extension. As root the servers run as user postgres.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "$1" >&2; exit 1; }

verb=${1:-}; dir=${2:-}
[ -n "$dir" ] || usage
bin=${BIN:-$(dirname "$(command -v pg_ctl || echo /usr/lib/postgresql/15/bin/pg_ctl)")}
[ -x "$bin/initdb" ] || fail "There is no initdb in $bin; set BIN to the folder of PostgreSQL's programs."
[ -f "$("$bin/pg_config" --sharedir)/extension/citus.control" ] ||
  fail "The PostgreSQL of $bin has no citus extension; install it there (docs/scaling.md says how)."

as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
on() { as "$bin/psql" -XqAt -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$1" -U postgres -d postgres "${@:2}"; }

# The number of a node is its place behind the coordinator, which is 0.
start_node() {
  local node=$dir/node$1 at=$(($2 + $1))
  if [ ! -d "$node" ]; then
    as "$bin/initdb" -D "$node" -A trust -U postgres -E UTF8 --locale=C.UTF-8 >/dev/null
    # Each database with the extension keeps a worker process of its own, and moving shards takes logical decoding.
    as tee -a "$node/postgresql.conf" >/dev/null <<SETTINGS
shared_preload_libraries = 'citus'
listen_addresses = '127.0.0.1'
port = $at
unix_socket_directories = ''
max_connections = 500
max_worker_processes = 100
max_prepared_transactions = 500
max_logical_replication_workers = 16
wal_level = logical
fsync = off
synchronous_commit = off
full_page_writes = off
citus.recover_2pc_interval = '10s'
SETTINGS
  fi
  as "$bin/pg_ctl" -D "$node" status >/dev/null 2>&1 ||
    as "$bin/pg_ctl" -D "$node" -w -l "$dir/node$1.log" start >/dev/null ||
    fail "Node $1 did not start; $dir/node$1.log says why."
  on "$at" -c 'set client_min_messages = warning' -c 'create extension if not exists citus'
}

case $verb in
  up)
    port=${3:-}; workers=${4:-}
    [[ $port =~ ^[0-9]+$ && $workers =~ ^[0-9]+$ ]] || usage
    mkdir -p "$dir"
    if [ "$(id -u)" = 0 ]; then chown postgres "$dir"; fi
    for number in $(seq 0 "$workers"); do start_node "$number" "$port"; done
    # Whoever is given the coordinator reads from it where the workers are.
    on "$port" -c "select citus_set_coordinator_host('127.0.0.1', $port)" >/dev/null
    for number in $(seq 1 "$workers"); do
      on "$port" -c "select citus_add_node('127.0.0.1', $((port + number)))" >/dev/null
    done
    echo "CITUS_URL=postgres://postgres@127.0.0.1:$port/postgres"
    ;;
  down)
    for node in "$dir"/node*/; do
      [ ! -f "$node/postmaster.pid" ] || as "$bin/pg_ctl" -D "$node" -m immediate -w stop >/dev/null
    done
    ;;
  *) usage ;;
esac
