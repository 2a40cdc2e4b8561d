#!/usr/bin/env bash
# Formatting, clang-tidy and layering. usage: tools/lint.sh check|format [--all]      (called by ./dev lint and ./dev format)
# Looks at the files changed since COTERIE_LINT_BASE (default: the fork from origin/main, else the commit before the last)
# and at uncommitted ones; --all: at every tracked one. What a missing tool leaves undone is printed.
set -euo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$ROOT"
. tools/common.sh
mode=${1:-check}
all=${2:-}

sources() {
  if [ "$all" = --all ]; then git ls-files
  else
    local base=${COTERIE_LINT_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
    [ -n "$base" ] && [ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
    git diff --name-only --diff-filter=d "$base"
    git ls-files --others --exclude-standard
  fi | sort -u | grep -E '\.(cc|h)$' || true
}

first_of() { local tool; for tool in "$@"; do if command -v "$tool" >/dev/null; then echo "$tool"; return; fi; done; }

mapfile -t files < <(sources)
formatter=$(first_of clang-format-19 clang-format)
if [ "$mode" = format ]; then
  [ -n "$formatter" ] || die "clang-format is missing" "./dev setup --full"
  [ ${#files[@]} = 0 ] || "$formatter" -i "${files[@]}"
  echo "format: ${#files[@]} files"
  exit 0
fi

failed=0
if [ ${#files[@]} = 0 ]; then echo "lint: no C++ file changed"
else
  if [ -n "$formatter" ]; then
    if "$formatter" --dry-run -Werror "${files[@]}"; then echo "clang-format: ${#files[@]} files as they should be"
    else failed=1; echo "clang-format: see above; ./dev format mends it"; fi
  else echo "skipped: clang-format (not installed; ./dev setup --full)"; fi

  tidy=$(first_of clang-tidy-19 clang-tidy)
  mapfile -t units < <(printf '%s\n' "${files[@]}" | grep '\.cc$' || true)
  if [ -z "$tidy" ]; then echo "skipped: clang-tidy (not installed; ./dev setup --full)"
  elif [ ! -f build/dev/compile_commands.json ]; then echo "skipped: clang-tidy (no build/dev/compile_commands.json; ./dev build dev)"
  elif [ ${#units[@]} = 0 ]; then echo "clang-tidy: no .cc file changed"
  else
    # Files that no target compiles are not in the database: clang-tidy would guess their flags.
    mapfile -t units < <(for unit in "${units[@]}"; do grep -qF "/$unit\"" build/dev/compile_commands.json && echo "$unit"; done)
    if printf '%s\0' "${units[@]}" | xargs -0 -r -n 1 -P "$(build_jobs)" "$tidy" -p build/dev --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*'; then
      echo "clang-tidy: ${#units[@]} files clean"
    else failed=1; echo "clang-tidy: see above"; fi
  fi
fi

if [ -f tools/check_layers.py ]; then python3 tools/check_layers.py . && echo "layering: in order" || failed=1
else echo "skipped: layering (tools/check_layers.py is missing)"; fi
exit $failed
