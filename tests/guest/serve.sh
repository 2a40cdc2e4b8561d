#!/bin/busybox sh
# The product on a machine with cgroup v2 alone: CPU sets, memory nodes and limits of real workers read back from the kernel, isolation by node, kill
# -9 and what it leaves, and everything given back at the end; at the root of the hierarchy, then in a cgroup of its own below a supervisor.
set -u
PATH=/program:/bin:/sbin
GROUPS_ROOT=/sys/fs/cgroup
state=/tmp/state
checks=0
server=0

fail() {
  echo "serve.sh: $*"
  if gone "$server"; then wait "$server"; echo "serve.sh: the server has ended with $?"; fi
  tail -n 15 /tmp/out /tmp/err 2>/dev/null
  dmesg | tail -n 5
  exit 1
}
step() { echo "serve.sh: $* ($(now) s)"; }
check() { # what command...
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || fail "$what"
}
now() { sed 's/\..*//' /proc/uptime; }
within() { # seconds what command...
  local until=$(($(now) + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$(now)" -lt $until ] || fail "not in time: $what"
    sleep 0.2
  done
}
c() { coterie --state $state "$@"; }
trees() { ls -d "$1"/coterie-* 2>/dev/null | wc -l; }
started() { grep -Eq '^(READY|STARTED)' /tmp/out; }
serve() { # CGROUP: where it is to run
  : >/tmp/out
  sh -c "echo \$\$ >$1/cgroup.procs && exec coterie --state $state serve --models /tmp/models --port 0 --admin-port 0 --drain-seconds 2 --log-level info --actuator auto --onnxruntime /program/libonnxruntime.so" >/tmp/out 2>/tmp/err &
  server=$!
  within 120 "the server is ready" started
}
pid_of() { c get "service/$1" -o json 2>/dev/null | tr -d ' ",' | sed -n 's/^pid://p' | head -n 1; }
cpus_of() { c get "service/$1" -o json 2>/dev/null | tr -d ' "' | sed -n 's/^cpus:\(.*\),$/\1/p' | head -n 1; }
group_of() { sed -n 's/^0:://p' "/proc/$1/cgroup"; }
placed() { # service: the kernel has its worker where the status says
  local pid home
  ! gone $server || fail "there is no server"
  pid=$(pid_of "$1")
  home=$(cpus_of "$1")
  [ -n "$pid" ] && [ -n "$home" ] || return 1
  case $(group_of "$pid") in */coterie-*.home) ;; *) return 1 ;; esac
  [ "$(cat "$GROUPS_ROOT$(group_of "$pid")/cpuset.cpus.effective")" = "$home" ]
}
gone() { ! kill -0 "$1" 2>/dev/null; }

service() { # namespace/name spec...
  local name=$1
  shift
  printf -- '---\napiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {namespace: %s, name: %s}\nspec:\n  model: {uri: "file:add_one.onnx"}\n  instances: 1\n' "${name%/*}" "${name#*/}"
  printf '  %s\n' "$@"
}
apply_all() {
  {
    for name in red blue; do
      printf -- '---\napiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: %s}\nspec: {namespaces: [%s]}\n' $name $name
    done
    service red/quiet "minCpus: 1" "isolation: node" "memory: 300Mi"
    service blue/loud "minCpus: 2" "memory: 300Mi"
  } | c apply -f - >/tmp/applied 2>&1 || fail "apply: $(cat /tmp/applied)"
}

story() { # CGROUP
  local group=$1 quiet loud pids
  step "a run in $group"
  rm -rf $state
  serve "$group"
  check "cgroup v2 was chosen: $(grep enforced /tmp/err)" grep -q "CPU sets are enforced by cgroup-v2" /tmp/err
  check "one tree" [ "$(trees "$group")" = 1 ]
  apply_all
  c wait service/red/quiet --timeout 120s >/dev/null || fail "red/quiet: $(c describe service/red/quiet)"
  c wait service/blue/loud --timeout 120s >/dev/null || fail "blue/loud: $(c describe service/blue/loud)"
  within 20 "the isolated worker is where the status says" placed red/quiet
  within 20 "the other worker is where the status says" placed blue/loud
  quiet=$(cpus_of red/quiet) loud=$(cpus_of blue/loud)
  # CPU 0 is Coterie's own.
  check "a node of its own, and the other node for the other: $quiet and $loud" [ "$quiet $loud" = "1-3 4-7" -o "$quiet $loud" = "4-7 1-3" ]
  check "memory of the near node alone" [ "$(cat "$GROUPS_ROOT$(group_of "$(pid_of red/quiet)")/cpuset.mems.effective")" = "$((${quiet%%-*} / 4))" ]
  check "a limit of memory is in force" grep -Eq '^Max data size +[0-9]+' "/proc/$(pid_of red/quiet)/limits"
  c infer red/quiet --input 'INPUT0=[[1, 2, 3]]' >/tmp/answer 2>&1 || fail "infer: $(cat /tmp/answer)"
  check "an answer: $(cat /tmp/answer)" grep -q 4 /tmp/answer

  step "kill -9"
  pids="$(pid_of red/quiet) $(pid_of blue/loud)"
  kill -9 $server
  for pid in $server $pids; do within 5 "process $pid has gone" gone "$pid"; done
  check "what a killed run leaves is there" [ "$(trees "$group")" = 1 ]
  serve "${2:-$group}"
  check "what the killed run left was removed" [ "$(trees "$group")" = 1 ]
  within 60 "the isolated worker again" placed red/quiet
  within 60 "the other worker again" placed blue/loud
  check "the homes of before" [ "$(cpus_of red/quiet) $(cpus_of blue/loud)" = "$quiet $loud" ]

  step "an end as it should be"
  kill $server
  within 60 "the server has ended" gone $server
  check "no tree is left" [ "$(trees "$group")" = 0 ]
}

ifconfig lo 127.0.0.1 up || fail "no loopback"
for tenant in red blue; do
  mkdir -p /tmp/models/$tenant
  coterie_models /tmp/models/$tenant add_one >/dev/null || fail "no model"
done
story $GROUPS_ROOT

# Below a supervisor, as a container or a delegated unit has it: the server's cgroup holds processes of its own.
echo "+cpuset +cpu" >$GROUPS_ROOT/cgroup.subtree_control
unit=$GROUPS_ROOT/unit
mkdir $unit
sleep 100000 &
supervisor=$!
echo $supervisor >$unit/cgroup.procs
story $unit $unit/system
check "the supervisor is back in its cgroup" grep -qx $supervisor $unit/cgroup.procs
check "nothing is left below it" [ -z "$(find $unit -mindepth 1 -type d)" ]
check "nothing is passed on" [ -z "$(cat $unit/cgroup.subtree_control)" ]
kill $supervisor
echo "[  PASSED  ] $checks checks of coterie serve on cgroup v2"
