# Shared by ./dev, tools/*.sh and .ci/run; sourced, not run. Expects ROOT.
# Coterie's cache holds what is fetched or built once per machine, outside the clone.
export COTERIE_CACHE=${COTERIE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/coterie}
export PATH=$PATH:$COTERIE_CACHE/bin

# ccache hits across clones only with paths made relative to the clone, and a cache outside it.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_DIR=${CCACHE_DIR:-$COTERIE_CACHE/ccache}

die() { # what failed, what to do
  echo "error: $1" >&2
  [ $# -lt 2 ] || echo "  what to do: $2" >&2
  exit 1
}

# As many compilers at once as there are CPUs, but no more than 1.5 GiB of memory each allows.
build_jobs() {
  local cpus memory_gib
  cpus=$(nproc)
  memory_gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  local by_memory=$((memory_gib * 2 / 3))
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $((cpus < by_memory ? cpus : by_memory))
}
