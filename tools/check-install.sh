#!/usr/bin/env bash
# Installs Rankledger the two ways a user would, from the registry, and uses both: the repository without development
# packages, and the packed release in an empty folder.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
work=$(mktemp -d)
service=
cleanup() {
  if [ -n "$service" ]; then kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

echo "== npm ci --omit=dev in a clone"
git clone -q . "$work/clone"
(cd "$work/clone" && npm ci --omit=dev --no-audit --no-fund)
[ ! -e "$work/clone/dist" ] || { echo "prepare built something without a compiler"; exit 1; }
if said=$(cd "$work/clone" && npm start --silent 2>&1); then echo "npm start succeeded without dist"; exit 1; fi
echo "$said"
[ "$(echo "$said" | wc -l)" = 1 ] || { echo "npm start said more than one sentence"; exit 1; }

echo "== npm pack, installed in an empty folder"
npm pack --silent --ignore-scripts --pack-destination "$work" >/dev/null
mkdir "$work/app" && cd "$work/app"
npm init -y >/dev/null
npm install --no-audit --no-fund "$work"/rankledger-*.tgz
# A busy machine is slow, and no less right.
export RANKLEDGER_DATA=$work/data PORT=0 PROVIDER_TIMEOUT_MS=60000 DATABASE_CONNECT_TIMEOUT_MS=60000
# Without npx in between, which does not pass the signal on and leaves the database running.
node_modules/.bin/rankledger serve >"$work/log" 2>&1 &
service=$!
for _ in $(seq 1500); do
  grep -q '"event":"service.started"' "$work/log" && break
  kill -0 "$service" 2>/dev/null || { cat "$work/log"; exit 1; }
  sleep 0.2
done
node "$here/tools/use-service.mjs" "$(grep '"event":"service.started"' "$work/log" | grep -o '"port":[0-9]*' | cut -d: -f2)" "$RANKLEDGER_DATA/token"
