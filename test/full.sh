#!/usr/bin/env bash
# npm run full: everything that must hold before a change lands. Ends with the line "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/node_modules/.bin:$PATH"

fail() {
  wait
  echo "$1"
  echo "0 passed, 1 failed"
  exit 1
}

# On one core, beside the linter: several threads of it check the same declarations anew, and take half as much CPU more.
npm run --silent typecheck -- --singleThreaded &
checking=$!
npm run --silent lint || fail "lint failed"
wait "$checking" || fail "type check failed"
# What `npm test` begins with takes as long as these checks on a clean clone. The type check reads what it writes.
npm run --silent pretest &
building=$!
npm start --silent -- check gateway.yaml || fail "the repository's own gateway.yaml is wrong"
cmp <(npm start --silent -- schema | sed 's,^ *,,') gateway.schema.json || fail "gateway.schema.json is out of date: npm run schema"
wait "$building" || fail "tap could not be built"

output=$(mktemp)
fuzz=$(mktemp)
# Random bytes for each reader, 20 seconds each in a process of its own, two at a time, from the same GATEWAY_TEST_SEED, which
# .ci/run takes from its commit; GATEWAY_TEST_FUZZ_SECONDS=600 before a release is longer, and takes others.
fuzz() {
  for corpus in test/fuzz/corpus/*.jsonl; do basename "$corpus" .jsonl; done |
    nice -n 19 xargs -P 2 -I TARGET bash -c 'npm run --silent fuzz -- TARGET $GATEWAY_TEST_FUZZ_SECONDS &&
      echo "1 passed, 0 failed" || { echo "fuzz TARGET failed"; echo "0 passed, 1 failed"; }'
}
# The real clients: each driver with every protocol behind it. The agents take a minute each, most of it waiting: with their own
# protocol and the one that is least like it; GATEWAY_TEST_AGENTS_BEHIND=all before a release.
drive() {
  node --import ./src/loader/register.js test/drivers/run.ts "$@" --jobs 2
}
clients() {
  nice -n 5 node --import ./src/loader/register.js test/drivers/run.ts --cli --install >"$output.install" || cat "$output.install"
  until [ -e "$output.tested" ] || grep -q "test/wire/" "$output"; do sleep 1; done
  drive claude claude-api-key codex --behind "${GATEWAY_TEST_AGENTS_BEHIND:-gem}" >"$output.agents" &
  agents=$!
  drive --behind all
  drivers=$?
  wait "$agents"
  agents=$?
  cat "$output.agents"
  [ "$drivers" -eq 0 ] && [ "$agents" -eq 0 ]
}
# They wait more than they work, so they run beside the last tests, those of whole folders: some of the others have limits of
# time. Random inputs, where nobody says how many seconds, are tried on what all leave idle of the cores.
beside=()
trap 'for group in "${beside[@]}"; do kill -- "-$group" 2>/dev/null; done; rm -f "$output" "$output".* "$fuzz"' EXIT
# Each with a process group of its own, so that it can be ended whole.
set -m
clients >"$output.clients" 2>&1 &
driving=$!
beside+=("$driving")
if [ -z "${GATEWAY_TEST_FUZZ_SECONDS:-}" ]; then
  (fuzz) >"$fuzz" 2>&1 &
  fuzzing=$!
  beside+=("$fuzzing")
fi
set +m
npm test --silent 2>&1 | tee "$output"
tests=${PIPESTATUS[0]}
touch "$output.tested"
wait "$driving"
clients=$?
tee -a "$output" <"$output.clients"
if [ -n "${GATEWAY_TEST_FUZZ_SECONDS:-}" ]; then
  fuzz 2>&1 | tee -a "$output"
else
  wait "$fuzzing"
  tee -a "$output" <"$fuzz"
fi
# One closing line for the tests, the real clients and these together.
awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 } END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 }' "$output"
closing=$?
[ "$tests" -eq 0 ] && [ "$clients" -eq 0 ] && [ "$closing" -eq 0 ]
