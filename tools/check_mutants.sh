#!/usr/bin/env bash
# Shows that the random histories bite: each patch in tests/mutants seeds one bug into a scratch copy of src/allocation; the table tests must still pass, the
# histories must fail. Tests that replay plans of generated machines (Shapes) and the random instances of Quality are histories of another kind, not tables. Prints the seed that caught it.
# usage: tools/check_mutants.sh [name...]   $COTERIE_MUTANT_HISTORIES: how many to try (100000)
set -uo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/coterie-mutants.XXXXXX")
trap 'rm -rf "$SCRATCH"' EXIT

mkdir -p "$SCRATCH/src" "$SCRATCH/tools"
cp -r "$ROOT/CMakeLists.txt" "$ROOT/cmake" "$SCRATCH/"
cp "$ROOT/tools/check_layers.py" "$SCRATCH/tools/"
cat >"$SCRATCH/tools/check_mutants.sh" <<<'exit 0'
for folder in base model allocation; do cp -r "$ROOT/src/$folder" "$SCRATCH/src/"; done
mkdir "$SCRATCH/src/testing" # only what these tests use
cp "$ROOT"/src/testing/{machine_generator.h,bench_report.h,bench_report.cc} "$SCRATCH/src/testing/"
echo 'coterie_module(testing DEPS model base LIBS fmt::fmt)' >"$SCRATCH/src/testing/CMakeLists.txt"

log=$SCRATCH/log
build() {
  cmake --build "$SCRATCH/build" --parallel "${COTERIE_JOBS:-2}" --target allocation_test >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    return 1
  }
}
cmake -S "$SCRATCH" -B "$SCRATCH/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1" >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
build || exit 1
test_program=$SCRATCH/build/src/allocation/allocation_test
tables_only="-Histories.*:Shapes.*:Quality.*:LoansOracle.*:Planner.*" # without the random ones, and what compares a planner with itself

failures=0
printf '%-45s %-12s %-10s %s\n' mutant "table tests" "seed" "caught as"
for patch in "$ROOT"/tests/mutants/*.patch; do
  name=$(basename "$patch" .patch)
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  changed=$(grep -c '^+[^+]' "$patch")
  if [ "$changed" -gt 3 ]; then echo "$name changes $changed lines: three at most"; failures=$((failures + 1)); continue; fi
  if ! patch -d "$SCRATCH" -p1 --quiet <"$patch"; then echo "$name no longer applies: make it anew"; failures=$((failures + 1)); continue; fi
  tables=pass seed=- caught=-
  if build; then
    timeout 600 "$test_program" --gtest_filter="$tables_only" >"$log" 2>&1 || tables=FAIL
    if COTERIE_HISTORIES=${COTERIE_MUTANT_HISTORIES:-100000} timeout 1200 "$test_program" --gtest_filter=Histories.* >"$log" 2>&1; then
      caught="NOT CAUGHT"
    else
      seed=$(sed -n 's/.*COTERIE_HISTORY_SEED=\([0-9]*\).*/\1/p' "$log" | head -n 1)
      caught=$(grep -A 1 'COTERIE_HISTORY_SEED=' "$log" | sed -n '2s/ (.*//p;2q')
      caught=${caught:-$(grep -A 1 'COTERIE_HISTORY_SEED=' "$log" | sed -n 2p)}
    fi
  else
    tables="no build"
  fi
  printf '%-45s %-12s %-10s %s\n' "$name" "$tables" "${seed:--}" "$caught"
  if [ "$tables" != pass ] || [ -z "$seed" ] || [ "$seed" = - ]; then failures=$((failures + 1)); fi
  patch -d "$SCRATCH" -p1 --quiet -R <"$patch"
done
[ "$failures" = 0 ] || { echo "$failures of the mutants survived, or were not invisible to the tables"; exit 1; }
