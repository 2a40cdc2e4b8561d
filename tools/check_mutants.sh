#!/usr/bin/env bash
# Shows that the random histories bite: each patch in tests/mutants seeds one bug into a scratch copy of src/allocation (the planner) or src/agent (the
# controller and what applies its plans); the table tests of that folder must still pass, its histories must fail. Tests that replay plans of generated
# machines (Shapes), random instances (Quality) and random properties are histories of another kind, not tables. Prints the seed that caught it, how many
# histories and steps that took, and what was wrong.
# usage: tools/check_mutants.sh [name...]   $COTERIE_MUTANT_HISTORIES: how many to try (100000)
set -uo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/coterie-mutants.XXXXXX")
trap 'rm -rf "$SCRATCH"' EXIT

mkdir -p "$SCRATCH/src" "$SCRATCH/tools"
cp -r "$ROOT/CMakeLists.txt" "$ROOT/cmake" "$SCRATCH/"
cp "$ROOT/tools/check_layers.py" "$SCRATCH/tools/"
cat >"$SCRATCH/tools/check_mutants.sh" <<<'exit 0'
for folder in base model ports allocation agent; do cp -r "$ROOT/src/$folder" "$SCRATCH/src/"; done
# Of the other folders only what these tests use; what cannot see the planner is not built again with each of its bugs.
mkdir "$SCRATCH/src/testing" "$SCRATCH/src/linux"
for name in machine_generator.h bench_report.h bench_report.cc manual_loop.h manual_loop.cc fake_cpu_controller.h fake_cpu_controller.cc fake_cache_classes.h; do
  cp "$ROOT/src/testing/$name" "$SCRATCH/src/testing/"
done
cp "$ROOT"/src/linux/{execute_write,files}.{h,cc} "$SCRATCH/src/linux/"
echo 'coterie_module(testing DEPS ports model base LIBS fmt::fmt)' >"$SCRATCH/src/testing/CMakeLists.txt"
echo 'coterie_module(linux DEPS ports model base)' >"$SCRATCH/src/linux/CMakeLists.txt"
rm "$SCRATCH/src/agent/realtime_applier_test.cc" # real threads on real controllers

log=$SCRATCH/log
export CCACHE_BASEDIR=$SCRATCH CCACHE_NOHASHDIR=1
build() {
  cmake --build "$SCRATCH/build" --parallel "${COTERIE_JOBS:-2}" --target "$@" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    return 1
  }
}
cmake -S "$SCRATCH" -B "$SCRATCH/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1" >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
declare -A histories=([allocation]='Histories.*' [agent]='DrcHistories.*')
declare -A tables=( # without the random ones, and what compares a planner with itself
  [allocation]='-Histories.*:Shapes.*:Quality.*:LoansOracle.*:Planner.*'
  [agent]='-DrcHistories.*:ApplyBatch.ThreadsTogether*:Demand.NeverNegativeAndMonotone:*EveryCut*')

failures=0
tried=0
printf '%-48s %-11s %-7s %-9s %-9s %s\n' mutant "table tests" seed histories steps "caught as"
for patch in "$ROOT"/tests/mutants/*.patch; do
  name=$(basename "$patch" .patch)
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  tried=$((tried + 1))
  changed=$(grep -c '^+[^+]' "$patch")
  removed=$(grep -c '^-[^-]' "$patch")
  if [ "$changed" -gt 3 ] || [ "$removed" -gt 3 ]; then echo "$name changes more than three lines"; failures=$((failures + 1)); continue; fi
  folder=$(sed -n 's,^+++ b/src/\([a-z]*\)/.*,\1,p' "$patch" | head -n 1)
  if ! patch -d "$SCRATCH" -p1 --quiet <"$patch"; then echo "$name no longer applies: make it anew"; failures=$((failures + 1)); continue; fi
  seen=pass seed=- count=- steps=- caught=-
  if build "${folder}_test"; then
    test_program=$SCRATCH/build/src/$folder/${folder}_test
    timeout 600 "$test_program" --gtest_filter="${tables[$folder]}" >"$log" 2>&1 || seen=FAIL
    if COTERIE_HISTORIES=${COTERIE_MUTANT_HISTORIES:-100000} timeout 1200 "$test_program" --gtest_filter="${histories[$folder]}" >"$log" 2>&1; then
      caught="NOT CAUGHT"
    else
      said=$(grep -a -m 1 -A 1 'COTERIE_HISTORY_SEED=' "$log")
      seed=$(sed -n 's/.*COTERIE_HISTORY_SEED=\([0-9]*\).*/\1/p' <<<"$said")
      steps=$(sed -n 's/.*after \([0-9]*\) steps.*/\1/p' <<<"$said")
      caught=$(sed -n '2s/ (.*//p' <<<"$said")
      caught=${caught:-$(sed -n 2p <<<"$said")}
      [ -n "$seed" ] && count=$((seed + 1)) || { seed=- caught="no seed: $(grep -a -m 1 -v '^\[' "$log")"; }
    fi
  else
    seen="no build"
  fi
  printf '%-48s %-11s %-7s %-9s %-9s %s\n' "$name" "$seen" "$seed" "$count" "$steps" "$caught"
  if [ "$seen" != pass ] || [ "$seed" = - ]; then failures=$((failures + 1)); fi
  patch -d "$SCRATCH" -p1 --quiet -R <"$patch"
done
[ "$failures" = 0 ] || { echo "$failures of $tried mutants survived, or were not invisible to the tables"; exit 1; }
echo "$tried mutants: each invisible to the tables, each caught"
