#!/usr/bin/env bash
# Makes this machine able to build and run Coterie: packages by apt, then what apt does not have into the cache.
# usage: tools/setup.sh [--full] [--guest] [--verify] [--quiet]      (called by ./dev setup)
#   --full    also the clang 19 tools, wrk, debootstrap and lstopo, and what --guest brings
#   --guest   also QEMU and a kernel for ./dev guest
#   --verify  hash every cached file instead of only looking at its size
#   --quiet   say nothing when there is nothing to do
# Idempotent: where all is in place it needs neither network nor root. Debian 12 and 13, Ubuntu 24.04; x86-64.
set -euo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
. "$ROOT/tools/common.sh"

full=no guest=no verify=() quiet=no
for option in "$@"; do
  case $option in
    --full) full=yes guest=yes ;;
    --guest) guest=yes ;;
    --verify) verify=(--verify) ;;
    --quiet) quiet=yes ;;
    *) die "unknown option $option" "./dev setup [--full] [--guest] [--verify]" ;;
  esac
done

packages=(
  build-essential g++ cmake ninja-build ccache mold pkg-config git ca-certificates curl python3 python3-venv
  libssl-dev libsqlite3-dev libyaml-cpp-dev rapidjson-dev libcli11-dev libfmt-dev libhwloc-dev
  libgtest-dev libgmock-dev librapidcheck-dev libseccomp-dev zlib1g-dev
)
full_packages=(
  clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 lld-19 wrk debootstrap
)
guest_packages=(qemu-system-x86 busybox-static cpio kmod)
# The packages hwloc and hwloc-nox both have it and exclude each other: whoever has one keeps it.
command -v lstopo-no-graphics >/dev/null || full_packages+=(hwloc-nox)
boost_packages=(libboost1.81-dev libboost1.83-dev) # Beast's coroutine API as used here; Debian's plain libboost-dev is older

# ONNX Runtime's C headers come from Debian (fetch_headers); its signing keys are elsewhere a package of their own.
on_debian() { [ "$(. /etc/os-release && echo "$ID")" = debian ]; }
on_debian || packages+=(debian-archive-keyring)

changed=no
step() { changed=yes; echo "==> $*"; }

installed() { # prints those of the arguments that dpkg has installed
  dpkg-query -W -f='${db:Status-Abbrev} ${binary:Package}\n' "$@" 2>/dev/null | awk '/^ii/ {sub(/:.*/, "", $2); print $2}' || true # dpkg-query fails if it knows none or not all of them
}

fetch_failed() { # what failed, what to do: if the cause is the disk, say so instead
  if [ "$(df -Pk "$COTERIE_CACHE" | awk 'NR == 2 {print $4}')" -lt 20000 ]; then
    die "no space left in $COTERIE_CACHE" "Free about 500 MB, or set COTERIE_CACHE to a folder on a larger disk."
  fi
  die "$@"
}

missing_packages() {
  local wanted=("${packages[@]}") have
  [ "$full" = yes ] && wanted+=("${full_packages[@]}")
  [ "$guest" = yes ] && wanted+=("${guest_packages[@]}")
  have=" $(installed "${wanted[@]}" "${boost_packages[@]}" | tr '\n' ' ') "
  local name
  for name in "${wanted[@]}"; do [[ $have == *" $name "* ]] || echo "$name"; done
  for name in "${boost_packages[@]}"; do [[ $have == *" $name "* ]] && return; done
  echo boost
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

available() { [[ $(apt-cache policy "$1") =~ Candidate:\ [0-9] ]]; }

boost_package() { # which of them this system has; where the package lists are not there yet, by its release
  local name
  for name in "${boost_packages[@]}"; do
    if available "$name"; then echo "$name"; return; fi
  done
  if [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ]; then echo libboost1.81-dev; else echo libboost1.83-dev; fi
}

# apt-get's output in, a few lines as it goes on out. Not awk: Debian's reads a pipe in whole blocks, and this would be silent for minutes.
apt_progress() {
  local line fetched=0 unpacked=0 ready=0
  while IFS= read -r line; do
    case $line in
      "Need to get"* | Fetched*) echo "    $line" ;;
      Get:*) fetched=$((fetched + 1)); [ $((fetched % 25)) != 0 ] || echo "    $fetched packages fetched" ;;
      Unpacking*) unpacked=$((unpacked + 1)); [ $((unpacked % 25)) != 0 ] || echo "    $unpacked packages unpacked" ;;
      "Setting up"*) ready=$((ready + 1)) ;;
    esac
  done
  [ "$ready" = 0 ] || echo "    $ready packages set up"
}

install_packages() {
  local missing log name
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get >/dev/null || die "no apt-get here" "Debian 12, Debian 13 and Ubuntu 24.04 are supported; elsewhere install the equivalents of: ${missing[*]}"
  step "packages: ${missing[*]}"
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
    die "packages are missing, and this is not root nor is there sudo" "As root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]/#boost/$(boost_package)}; then ./dev setup again."
  log=$(mktemp)
  echo "    reading the package lists"
  as_root apt-get -q -o DPkg::Lock::Timeout=600 update >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    die "apt-get update failed" "Is this machine online, and are the sources in /etc/apt right?"
  }
  missing=("${missing[@]/#boost/$(boost_package)}")
  local wanted=()
  for name in "${missing[@]}"; do
    if available "$name"; then wanted+=("$name")
    elif [[ " ${full_packages[*]} ${guest_packages[*]} " == *" $name "* ]]; then echo "    note: $name is not to be had here; what needs it will be skipped"
    elif grep -q '^[EW]: Failed to fetch' "$log"; then # for apt-get that is no failure: it goes on with old lists, or none
      grep '^[EW]: Failed to fetch' "$log" | head -n 2 >&2
      die "the package lists could not be fetched, and those that are here have no $name" "Is this machine online, and are the sources in /etc/apt right?"
    else die "the package sources have no $name" "Debian 12, Debian 13 and Ubuntu 24.04 (with universe) are supported."
    fi
  done
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 "${wanted[@]}" 2>&1 |
    tee "$log" | apt_progress || {
    tail -n 8 "$log" >&2
    die "apt-get install failed" "See the lines above (is this machine online, is there space on its disk?); when the cause is gone, run ./dev setup again (it goes on where it stopped)."
  }
  rm -f "$log"
}

make_venv() {
  local stamp want
  stamp=$COTERIE_CACHE/venv/.made-for
  want="$(sha256sum <"$ROOT/tools/requirements.txt" | cut -c1-64) $(python3 -c 'import sys; print(sys.version_info[:2])')"
  [ -x "$COTERIE_CACHE/venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  step "Python environment for the demo clients"
  rm -rf "$COTERIE_CACHE/venv"
  python3 -m venv "$COTERIE_CACHE/venv" >"$scratch/venv.log" 2>&1 || {
    tail -n 3 "$scratch/venv.log" >&2
    fetch_failed "python3 -m venv failed" "Is python3-venv installed, and is there space in $COTERIE_CACHE?"
  }
  if ! "$COTERIE_CACHE/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    -r "$ROOT/tools/requirements.txt" >"$scratch/pip.log" 2>&1; then
    tail -n 5 "$scratch/pip.log" >&2
    fetch_failed "the Python packages could not be installed" "Is this machine online (pip config list shows the index)? The pins are for Python 3.11 to 3.14 on x86-64."
  fi
  echo "$want" >"$stamp"
}

# ONNX Runtime's C headers (API 21, which newer libraries serve too) are packaged by Debian 13; the .deb is taken through an apt
# configuration of its own, so that this machine's sources stay as they are.
HEADERS_VERSION=1.21.0+dfsg-1
HEADERS_SHA256=14f7d959d5deacbcf1504830d4189f91fc67382b399ed9ae9d3aa9c4050ced08
C_API_SHA256=7783e9664bdb0b1b36145b5c8587dd1bc9a399aa000edf2e3dd03003cafc6882

debian_mirror() { # the one that this machine uses already, where it is a Debian with a plain one
  local found=
  if on_debian; then
    found=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null |
      awk '/^URIs:/ {for (i = 2; i <= NF; i++) print $i} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /:/ && $i !~ /=/) {print $i; break}}' |
      grep -v security | grep '/debian/*$' | head -n 1 || true)
  fi
  echo "${COTERIE_DEBIAN_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

fetch_headers() {
  local include=$COTERIE_CACHE/ort/include mirror keyring apt
  [ -f "$include/onnxruntime_c_api.h" ] && { [ ${#verify[@]} = 0 ] || echo "$C_API_SHA256  $include/onnxruntime_c_api.h" | sha256sum -c --status; } && return
  mirror=$(debian_mirror)
  for keyring in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp ""; do [ -f "$keyring" ] && break; done
  [ -n "$keyring" ] ||
    die "ONNX Runtime's C headers come from Debian 13, and its signing keys are not here" "Install the package debian-archive-keyring, or put onnxruntime_c_api.h (API 21 or newer) into $include; then ./dev setup again."
  step "ONNX Runtime's C headers (10 MB package list, 85 KB package)"
  apt=$scratch/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb [arch=amd64 signed-by=$keyring] $mirror trixie main" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<EOF
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
EOF
  (cd "$apt" && export APT_CONFIG=$apt/apt.conf && apt-get -qq update && apt-get -qq download "libonnxruntime-dev=$HEADERS_VERSION") >"$apt/log" 2>&1 || {
    tail -n 4 "$apt/log" >&2
    fetch_failed "ONNX Runtime's C headers could not be fetched" "Does this machine reach $mirror? COTERIE_DEBIAN_MIRROR=URL names another; or put onnxruntime_c_api.h (API 21 or newer) into $include."
  }
  echo "$HEADERS_SHA256  $(echo "$apt"/*.deb)" | sha256sum -c --status ||
    die "libonnxruntime-dev $HEADERS_VERSION has a wrong checksum" "Do not use it; look at the mirror that the apt sources name."
  dpkg-deb -x "$apt"/*.deb "$apt/tree"
  rm -rf "$include"
  mkdir -p "$COTERIE_CACHE/ort"
  mv "$apt/tree/usr/include/onnxruntime" "$include"
}

# Only promtool is wanted (Debian 12 has it in the package prometheus), and no service: so the package is unpacked, not installed.
fetch_promtool() {
  command -v promtool >/dev/null && return
  local package=prometheus
  available promtool && package=promtool
  step "promtool (unpacked from the package $package, which is not installed)"
  mkdir -p "$scratch/promtool" "$COTERIE_CACHE/bin"
  if (cd "$scratch/promtool" && apt-get -qq download "$package" && dpkg-deb -x ./*.deb tree && mv tree/usr/bin/promtool .) >"$scratch/promtool.log" 2>&1; then
    mv "$scratch/promtool/promtool" "$COTERIE_CACHE/bin/promtool"
  else
    echo "    note: promtool was not fetched ($(tail -n 1 "$scratch/promtool.log")); the check of /metrics will be skipped"
  fi
}

# A small kernel for virtual machines, unpacked and never installed. The newest that this system's release has: apt checks its signature.
fetch_guest_kernel() {
  [ -z "$(ls "$COTERIE_CACHE"/guest/kernel/boot/vmlinuz-* 2>/dev/null)" ] || return 0
  local meta=linux-image-cloud-amd64 package
  available "$meta" || meta=linux-image-kvm
  package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  if [ -z "$package" ]; then
    echo "    note: no kernel package for guests here; ./dev guest will be skipped"
    return 0
  fi
  step "a kernel for guests ($package, unpacked, not installed)"
  mkdir -p "$scratch/kernel" "$COTERIE_CACHE/guest"
  if (cd "$scratch/kernel" && apt-get -qq download "$package" && dpkg-deb -x ./*.deb tree) >"$scratch/kernel.log" 2>&1; then
    rm -rf "$COTERIE_CACHE/guest/kernel"
    mv "$scratch/kernel/tree" "$COTERIE_CACHE/guest/kernel"
  else
    echo "    note: $package was not fetched ($(tail -n 1 "$scratch/kernel.log")); ./dev guest will be skipped"
  fi
}

[ "$(uname -m)" = x86_64 ] || die "this is $(uname -m)" "The pinned binaries are for x86-64."
mkdir -p "$COTERIE_CACHE" 2>/dev/null && [ -w "$COTERIE_CACHE" ] || die "$COTERIE_CACHE cannot be written" "Set COTERIE_CACHE to a folder of your own."
install_packages
exec 9>"$COTERIE_CACHE/.setup.lock"
flock -n 9 || { echo "==> waiting for another ./dev setup"; flock 9; }
scratch=$(mktemp -d) # logs and unpacked packages: a few hundred MB at most, and not on the cache's disk, so that its filling up can be told
trap 'rm -rf "$scratch"' EXIT
make_venv
if [ ${#verify[@]} != 0 ] || ! python3 "$ROOT/tools/artifacts.py" "$COTERIE_CACHE" --check; then
  step "ONNX Runtime and the demo models"
  "$COTERIE_CACHE/venv/bin/python" "$ROOT/tools/artifacts.py" "$COTERIE_CACHE" "${verify[@]}"
fi
fetch_headers
fetch_promtool
[ "$guest" = no ] || fetch_guest_kernel
if [ "$changed" = yes ]; then echo "==> set-up complete: $COTERIE_CACHE"
elif [ "$quiet" = no ]; then echo "set-up is complete: nothing to do ($COTERIE_CACHE)"
fi
