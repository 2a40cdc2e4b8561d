#!/usr/bin/env bash
# Runs a test program in virtual machines of other shapes than this one: NUMA nodes, SMT, caches, memory-only nodes, CPUs that come and go; on real
# cgroups v2, as root. QEMU emulates the processors in software, so it needs no rights here, and its speed means nothing.
# usage: tools/guest.sh [-x FILE]... [-r] PROGRAM GTEST_FILTER [SHAPE...]     (no SHAPE: all of tests/guest/shapes; called by ./dev guest)
#   PROGRAM   a test, or a script for busybox;  -x FILE  a further program that it needs, beside it;  -r  ONNX Runtime, beside it
# Exit status: 0 all passed, 1 something failed, 77 a package is missing (./dev setup --guest).
set -euo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
. "$ROOT/tools/common.sh"
cache=$COTERIE_CACHE/guest

for tool in qemu-system-x86_64 /bin/busybox cpio depmod; do
  command -v "$tool" >/dev/null || { echo "skipped: guest ($tool is missing: ./dev setup --guest)"; exit 77; }
done
[ -n "$(ls "$cache"/kernel/boot/vmlinuz-* 2>/dev/null)" ] || { echo "skipped: guest (no guest kernel: ./dev setup --guest)"; exit 77; }

further=()
while getopts x:r option; do
  case $option in
    x) further+=("$(readlink -f "$OPTARG")") ;;
    r)
      runtime=$(readlink -f "$COTERIE_CACHE/ort/lib/libonnxruntime.so" || true)
      [ -f "$runtime" ] || { echo "skipped: guest (ONNX Runtime is missing: ./dev setup)"; exit 77; }
      ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
program=$(readlink -f "$1") filter=$2
shift 2
kernel=$(ls "$cache"/kernel/boot/vmlinuz-* | tail -n 1)
version=${kernel##*/vmlinuz-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A file under a name, with the libraries it is linked to at the paths where it looks for them.
pack_program() {
  local library
  cp "$1" "$work/root/program/$2"
  while read -r library; do
    mkdir -p "$work/root$(dirname "$library")"
    cp -L "$library" "$work/root$library"
  done < <(ldd "$1" 2>/dev/null | grep -o '/[^ ]*')
}

pack_root() {
  local root=$work/root file module
  mkdir -p "$root"/{bin,sbin,proc,sys,dev,tmp,run,modules,program}
  cp /bin/busybox "$root/bin/"
  install -m 755 "$ROOT/tests/guest/init" "$root/init"
  pack_program "$program" test
  for file in "${further[@]}"; do pack_program "$file" "$(basename "$file")"; done
  [ -z "${runtime:-}" ] || pack_program "$runtime" libonnxruntime.so
  depmod -b "$cache/kernel" "$version"
  for module in virtio_pci virtio_console; do
    modprobe -d "$cache/kernel" -S "$version" --show-depends "$module" 2>/dev/null | awk '/^insmod/ {print $2}' || true
  done | awk '!seen[$0]++' | while read -r module; do
    cp "$module" "$root/modules/"
    basename "$module" >>"$root/modules/order"
  done
  (cd "$root" && find . | cpio -o -H newc --quiet -R 0:0 | gzip -1) >"$work/initrd"
}

run_shape() { # file of the shape
  local name options append="" machine=q35 cpu=max log=$work/log status
  name=$(basename "$1")
  options=$(grep -v '^#' "$1" | grep -v '^\(append\|machine\|cpu\)=' | tr '\n' ' ')
  append=$(sed -n 's/^append=//p' "$1")
  machine=$(sed -n 's/^machine=//p' "$1"); machine=${machine:-q35}
  cpu=$(sed -n 's/^cpu=//p' "$1"); cpu=${cpu:-max}
  # shellcheck disable=SC2086
  timeout -k 2 "${COTERIE_GUEST_SECONDS:-180}" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -machine "$machine" \
    -accel tcg,thread=multi -cpu "$cpu" -kernel "$kernel" -initrd "$work/initrd" -serial "file:$log" \
    -append "console=ttyS0 quiet panic=-1 psi=1 mitigations=off coterie.filter=$filter $append" $options </dev/null 2>"$work/qemu" || true
  status=$(tr -d '\r' <"$log" | sed -n 's/^GUEST-EXIT \([0-9]*\)$/\1/p' | tail -n 1)
  if [ "$status" = 0 ]; then
    echo "guest $name: $(tr -d '\r' <"$log" | sed -n 's/^\[  PASSED  \] //p' | paste -sd ";" | sed 's/;/; /g'), $(tr -d '\r' <"$log" | sed -n 's/^GUEST-READY //p')"
    tr -d '\r' <"$log" | sed -n 's/^FIGURE /  /p'
    return 0
  fi
  echo "guest $name: FAILED (exit ${status:-none: the guest never finished})"
  head -n 3 "$work/qemu"
  tr -d '\r' <"$log" | tail -n 60
  return 1
}

pack_root
failed=0
[ $# -gt 0 ] || set -- $(cd "$ROOT/tests/guest/shapes" && ls)
for shape in "$@"; do
  [ -f "$ROOT/tests/guest/shapes/$shape" ] || die "no guest shape named $shape" "One of: $(cd "$ROOT/tests/guest/shapes" && ls | tr '\n' ' ')"
  run_shape "$ROOT/tests/guest/shapes/$shape" || failed=1
done
exit $failed
