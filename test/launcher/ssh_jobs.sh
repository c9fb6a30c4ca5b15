#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# rlxrun over eight hosts by ssh: what reaches the ranks and comes back, awkward hosts and networks, and deaths.
# README.md says which complaint about launchers each case answers.
# shellcheck source=test/rig/rig.sh
. "$RLX_SRCDIR/test/rig/rig.sh"
hosts 8
cd "$work" || exit 1
job() { on h1 "$build/rlxrun" -q "$@"; }
three=h1:2,h2:2,h3:2 eight=h1:1,h2:1,h3:1,h4:1,h5:1,h6:1,h7:1,h8:1
quiet() { eventually no_process 'sleep 98765\|rlxru[n]'; }
all_up() { test "$(grep -c up "$work/out")" -ge "$n"; }
# start ARGUMENTS...: a job beside the test, in $job; returns when all its $n ranks have said "up".
start() {
  : >"$work/out"
  : >"$work/err"
  job "$@" sh -c 'echo up; sleep 98765 & sleep 98765' >"$work/out" 2>"$work/err" &
  job=$!
  eventually all_up
}
ended() {  # NAME CODE: the job that was started
  name=$1 code=$2
  wait $job
  status=$?
  [ $status -eq "$code" ] || echo "exit code $status; wanted $code" >>"$work/err"
  verdict "$([ $status -eq "$code" ]; echo $?)" "$name"
  that 'leaves nothing on any host' quiet
}
# The head is the oldest rlxrun of its host; a guard stands beside it.
kill_head() { on h1 pkill "$1" -o -x rlxrun; }

# --- What reaches the ranks ---
# shellcheck disable=SC2016
expect 'six ranks on three hosts' 0 job --host $three \
  sh -c 'echo "$RLX_RANK of $RLX_SIZE on $(hostname): $RLX_LOCAL_RANK of $RLX_LOCAL_SIZE, $RLX_NODE_RANK of $RLX_NNODES"'
that 'know their place' test "$(sort "$work/out" | tr '\n' ';')" = "0 of 6 on h1: 0 of 2, 0 of 3;1 of 6 on h1: 1 of 2, \
0 of 3;2 of 6 on h2: 0 of 2, 1 of 3;3 of 6 on h2: 1 of 2, 1 of 3;4 of 6 on h3: 0 of 2, 2 of 3;5 of 6 on h3: 1 of 2, 2 of 3;"
expect 'eight hosts, a tree of daemons' 0 job --host $eight --tree-radix 2 hostname
that 'one rank each' test "$(sort "$work/out" | tr '\n' ' ')" = 'h1 h2 h3 h4 h5 h6 h7 h8 '
expect 'every call, two ranks on each of three hosts' 0 job --host $three "$build/test/coll/api_check"
said 'is right' out 'api_check ok 6'
many=$(echo $eight | sed 's/:1/:8/g')
# Whoever sees the death of a rank on another host may end before rlxrun hears of it, and is not to be blamed.
for death in 'in_recv kill 137' 'in_recv exit3 3' 'in_collective exit0 1' 'in_recv abort 7'; do
  # shellcheck disable=SC2086
  set -- $death
  for go_on in kill continue; do
    expect "--on-failure $go_on, rank 1 of three hosts: $1 $2" "$3" \
      job --on-failure $go_on --host h1:1,h2:1,h3:1 "$build/test/coll/fail_check" "$1" "$2"
    said 'is named' err '^rlxrun: rank 1 '
  done
done
expect 'eight ranks on each of eight hosts' 0 job --host "$many" "$build/test/coll/fail_check" no failure

line='a b' quotes='c"d'\''e' newline=$(printf 'f\ng')
# shellcheck disable=SC2016
AWKWARD=$(printf 'x\n"y" $HOME ;`z` (é)')
BIG=$(head -c 100000 /dev/zero | tr '\0' x)
export AWKWARD BIG
# shellcheck disable=SC2016
digest='for word; do printf "%s\n" "$word"; done | sha256sum; printf "%s\n" "$AWKWARD" "$BIG" | sha256sum'
# shellcheck disable=SC2016
set -- "$line" "$quotes" '$0' '' "$newline" é "$BIG" "$BIG"
sh -c "$digest" - "$@" >"$work/wanted"
expect 'awkward and long arguments and variables' 0 job --host h3:1 \
  sh -c "$digest" - "$@"
that 'arrive unchanged' cmp "$work/out" "$work/wanted"
unset BIG AWKWARD

head -c 5000000 /dev/urandom >"$work/input"
from_input() { job --host h2:1,h3:1 sh -c 'sha256sum; hostname' <"$work/input"; }
from_input >"$work/out" 2>"$work/err"
that 'standard input reaches rank 0 on another host' grep -q "$(sha256sum <"$work/input" | cut -c1-64)" "$work/out"
expect 'a terminal for rank 1, on another host' 0 job --host h2:1,h3:1 --pty=1 sh -c 'tty || true'
that 'is there, and rank 0 has none' test "$(sed 's,/[0-9]*.$,,' "$work/out" | sort | tr '\n' ' ')" = '/dev/pts not a tty '
# shellcheck disable=SC2016
lines='for i in $(seq 1 2000); do printf "%s %04d %099d\n" $RLX_RANK $i 0; done'
expect 'six ranks that write 2000 lines each' 0 job --host $three sh -c "$lines"
that 'none is lost, cut or mixed' test "$(grep -c -x -E '[0-5] [0-9]{4} 0{99}' "$work/out") $(sort -u "$work/out" | wc -l)" = '12000 12000'
head_of_job() { job --host $three sh -c "$lines; sleep 98765" | head -n 1; }
expect 'a reader that goes away' 0 head_of_job
that 'ends the job everywhere' quiet

# --- Exit codes: of a remote rank, and of the second program ---
mkdir "$work/folder"
: >"$work/plain"
for way in 'exit 0=0' 'exit 3=3' 'exit 255=255' 'kill -SEGV $$=139' 'kill -KILL $$=137' 'kill -TERM $$=143'; do
  expect "remote: ${way%=*}" "${way#*=}" job --host h2:1 sh -c "${way%=*}"
done
expect 'MPMD: the second program fails' 3 job --host h1:1 -n 1 sleep 98765 : --host h3:1 -n 1 sh -c 'exit 3'
said 'its rank and host are named' err 'rank 1 .*h3.* code 3'
for way in "$work/none=127" "$work/folder=126" "$work/plain=126"; do
  expect "remote: ${way##*/}" "${way#*=}" job --host h2:1 "${way%=*}"
  said 'names host and program' err "h2.*${way%=*}|${way%=*}.*h2"
done
expect 'remote: a directory that is not there' 1 job --host h2:1 --wdir /tmp/no/such hostname
said 'names it and the host' err 'h2.*/tmp/no/such|/tmp/no/such.*h2'
on h3 mkdir /tmp/only-here
expect 'a directory that is on one host only' 1 job --host $three --wdir /tmp/only-here hostname
said 'is missed on both others, in one line' err 'not started on (h1, h2|h2, h1): .*/tmp/only-here'
on h3 rmdir /tmp/only-here

# --- Awkward hosts and networks ---
# shellcheck disable=SC2016
on h2 sh -c 'printf "echo noise\nprintf more\necho noise >&2\n" >~root/.bashrc'
expect 'a noisy start-up file' 0 job --host h2:1,h3:1 hostname
that 'is skipped' test "$(sort "$work/out" | tr '\n' ' ')" = 'h2 h3 '
on h2 sh -c 'rm ~root/.bashrc'
if command -v nft >/dev/null; then
  "$rig" net firewall h1 h2 h3
  expect 'a firewall that lets in ssh alone' 0 job --host $three hostname
  that 'does not hinder the start' test "$(sort -u "$work/out" | tr '\n' ' ')" = 'h1 h2 h3 '
  "$rig" net open h1 h2 h3
fi
printf '#!/bin/sh\nshift\nexec env -i PATH=/usr/bin:/bin /bin/sh -c "$*"\n' >"$work/agent"
chmod +x "$work/agent"
expect 'an agent with a bare environment' 0 job --launch-agent "$work/agent" --host other:1 hostname
expect 'a host without a name' 1 job --host h1:1,nosuch.invalid:1 hostname
said 'is named' err nosuch.invalid
expect 'rlx is not there' 1 job --prefix "$work/none" --host h2:1 hostname
said 'host and path are named' err "h2.*$work/none|$work/none.*h2"
"$rig" net cut h8
expect 'a host that does not answer' 1 job --start-timeout 1 --host h2:1,h8:1 hostname
said 'is named' err h8
"$rig" net join h8
# shellcheck disable=SC2016
expect 'MASTER_ADDR leads every rank to rank 0' 0 job --host h2:1,h3:1,h4:1 sh -c 'ssh $MASTER_ADDR hostname'
that 'from all hosts' test "$(sort "$work/out" | tr '\n' ' ')" = 'h2 h2 h2 '

# shellcheck disable=SC2016
both() {
  job --host h1:1,h2:1 sh -c 'echo $MASTER_PORT' >"$work/port" &
  job --host h1:1,h2:1 sh -c 'echo $MASTER_PORT'
  wait $!
  cat "$work/port"
}
expect 'two jobs at once' 0 both
that 'have a MASTER_PORT each' test "$(sort "$work/out" | uniq -c | awk '{ printf "%s ", $1 }')" = '2 2 '
if command -v mpicc.openmpi >/dev/null; then
  mpicc.openmpi -o "$work/foreign" "$source/test/pmix_glue/foreign.c"
  export OMPI_MCA_btl_tcp_if_include=eth0
  expect 'Open MPI over two hosts' 0 job --host h1:2,h2:2 "$work/foreign" hello
  that 'is a world of four' test "$(grep -c ' of 4 sum 10 node 2 ' "$work/out")" = 4
  expect 'MPI_Comm_spawn over two hosts' 0 job --host h1:3,h2:3 -np 4 "$work/foreign" spawn
  that 'joins parents and children' test "$(grep -c ' of 2 parents 4 value 77' "$work/out")" = 2
fi

# --- Signals and ends ---
n=3
start --host h1:1,h2:1,h3:1
kill_head -TERM
ended 'SIGTERM to rlxrun' 143
start --host h1:1,h2:1,h3:1 --timeout 3
ended 'a job that takes too long' 124
said 'shows where its ranks are' err 'h3'
start --host h1:1,h2:1,h3:1
on h2 pkill -o -x rlxrun
ended 'SIGTERM to a daemon' 143
start --host h1:1,h2:1,h3:1
on h2 pkill -9 -f '^sh -c echo up'
ended 'a rank on another host that is killed' 137
said 'is named' err 'rank 1 .*h2'
start --host h1:1,h2:1,h3:1
kill_head -KILL
ended 'SIGKILL of rlxrun' 137
start --host h1:1,h2:1,h3:1
on h2 pkill -9 -o -x rlxrun
wait $job
said 'a daemon that is killed is named by its host' err h2
that 'nothing is left on any host' quiet
start --host h1:1,h2:1,h3:1 --heartbeat 0.2
on h2 pkill -STOP -o -x rlxrun
ended 'a daemon that is stopped for too long' 1
said 'is named by its host' err 'lost host h2 .*silent'
no_directories() { on "$1" sh -c '! ls -d /tmp/rlx.* /dev/shm/rlx.*'; }
that 'and its directories are gone' eventually no_directories h2
n=2
start --host h2:1,h3:1 "$build/rlxrun" -q -n 1
kill_head -KILL
ended 'SIGKILL of an rlxrun whose ranks are rlxruns' 137
for host in h1 h2 h3; do that "nor directories on $host" eventually no_directories $host; done
n=3
# Ranks that go on without a lost host.
start --host h1:1,h2:1,h3:1 --on-failure continue
on h2 pkill -9 -o -x rlxrun
named() { grep -q h2 "$work/err"; }
that 'with --on-failure continue, a lost daemon is named' eventually named
that 'and ended where it was' eventually on h2 sh -c '! pgrep -x sleep'
that 'the others go on' on h3 pgrep -x sleep
kill_head -TERM
wait $job
that 'and end with the job' quiet
start --host h1:1,h2:1,h3:1 --heartbeat 0.2
"$rig" net cut h2
wait $job
said 'a host that is cut off is named' err h2
that 'and its daemon ends what it has there' quiet
"$rig" net join h2
# shellcheck disable=SC2016
expect 'a job that loses a host' 0 job --host h1:2,h2:1,h7:1 -np 3 --max-restarts 1 sh -c 'hostname
  [ "$RLX_RESTART_COUNT" = 1 ] && exit; [ "$RLX_RANK" = 2 ] && pkill -9 -o -x rlxrun; exec sleep 98765'
said 'starts again without it' err '^rlxrun: the job goes on without h2'
that 'where the others have slots enough' grep -q h7 "$work/out"
start --host h1:1,h2:1,h3:1 --heartbeat 0.2
"$rig" kill h3
wait $job
said 'a host that is powered off is named' err h3
that 'and the others are rid of the job' quiet
all_done
