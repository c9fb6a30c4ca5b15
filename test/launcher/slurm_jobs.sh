#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# rlxrun in allocations of Slurm, and contrib/slurm's batch scripts. README.md says which complaint about launchers
# each case answers.
# shellcheck source=test/rig/rig.sh
. "$RLX_SRCDIR/test/rig/rig.sh"
hosts 3
with_slurm
cd "$work" || exit 1
PATH=$build:$PATH
export PATH
allocate() { on h1 salloc -Q "$@"; }  # OPTIONS... COMMAND...
hosts_are() { test "$(sort "$work/out" | tr '\n' ' ')" = "$1"; }
quiet() { eventually no_process 'sleep 98765\|rlxru[n]'; }
ranks_up() { test "$(grep -c up "$work/out" 2>/dev/null)" = "$1"; }
# batch OPTIONS... SCRIPT...: true if it ends well. (sbatch --wait looks every few seconds only.)
batch() {
  id=$(on h1 sbatch --parsable --output="$work/batch" "$@") && eventually over && cat "$work/batch" &&
    on h1 scontrol -o show job "$id" | grep -q ' ExitCode=0:0 '
}
over() { on h1 scontrol -o show job "$id" | grep -q ' JobState=\(COMPLETED\|FAILED\|CANCELLED\) '; }

expect 'six tasks on three nodes' 0 allocate -N3 -n6 --ntasks-per-node=2 rlxrun -q hostname
that 'are six ranks' hosts_are 'h1 h1 h2 h2 h3 h3 '
expect 'fewer ranks than slots' 0 allocate -N3 -n6 --ntasks-per-node=2 rlxrun -q -np 3 hostname
that 'fill the nodes in order' hosts_are 'h1 h1 h2 '
expect 'nodes alone' 0 allocate -N2 rlxrun -q hostname
that 'have a rank for each processor' hosts_are 'h1 h2 '
expect 'four processors for one task' 0 allocate -N1 -n1 -c4 rlxrun -q hostname
that 'are one rank' hosts_are 'h1 '
expect 'every call, over three nodes' 0 allocate -N3 -n6 --ntasks-per-node=2 rlxrun -q "$build/test/coll/api_check"
said 'is right' out 'api_check ok 6'
# shellcheck disable=SC2016
expect 'GPUs' 0 batch -N2 -n2 --ntasks-per-node=1 --gres=gpu:1 "$source/contrib/slurm/rlxrun.sbatch" -q sh -c 'echo "$(hostname) $CUDA_VISIBLE_DEVICES"'
that 'are those of the node' hosts_are 'h1 0 h2 0 '
# In a batch script ranks of its node are forked; in a shell of salloc no process has that node's share but by srun.
# shellcheck disable=SC2016
share='echo "$(hostname) $CUDA_VISIBLE_DEVICES"'
expect 'GPUs in a shell of salloc on one of its nodes' 0 allocate -N2 -n2 --gres=gpu:2 rlxrun -q sh -c "$share"
that 'are those of each node' hosts_are 'h1 0,1 h2 0,1 '
expect 'one node alone' 0 allocate -N1 -n1 --gres=gpu:2 rlxrun -q sh -c "$share"
that 'is served by srun too' hosts_are 'h1 0,1 '
expect 'a step of two GPUs' 0 allocate -N2 -n2 --gres=gpu:2 srun -Q -N1 -n1 rlxrun -q sh -c "$share"
that 'and the other node' hosts_are 'h1 0,1 h2 0,1 '
# shellcheck disable=SC2016
tasks='echo $(env | grep -c "^SLURM_\(PROCID\|LOCALID\|NODEID\|GTIDS\|TASK_PID\)=") $SLURM_JOB_NUM_NODES'
expect 'ranks of a salloc shell' 0 allocate -N2 -n4 --ntasks-per-node=2 rlxrun -q sh -c "$tasks"
that 'do not take a task of our step for their own' hosts_are '0 2 0 2 0 2 0 2 '
expect 'ranks of a batch script' 0 batch "$source/contrib/slurm/rlxrun.sbatch" -q sh -c "$tasks"
that 'do not either' hosts_are '0 2 0 2 0 2 0 2 '
expect 'a host outside the allocation' 2 allocate -N2 -n2 rlxrun -q --host h3:1 hostname
said 'is refused by name' err 'h3'
expect 'a shell inside a step' 0 allocate -N2 -n2 srun -Q -N1 -n1 rlxrun -q hostname
that 'has the whole allocation' hosts_are 'h1 h2 '
expect 'rlxrun as a task of srun' 0 on h1 srun -Q --mpi=pmix -N1 -n1 -c2 rlxrun -q --oversubscribe -np 2 "$build/test/coll/api_check"
said 'starts a world of its own' out 'api_check ok 2'
expect 'a heterogeneous job' 1 on h1 env SLURM_JOB_ID=1 SLURM_JOB_NODELIST=h1 SLURM_HET_SIZE=2 rlxrun -q hostname
said 'is refused' err '[Hh]eterogeneous'
expect 'variables of a job that is over' 1 on h1 env SLURM_JOB_ID=1 SLURM_JOB_NODELIST='h[2-3]' SLURM_NTASKS=2 rlxrun -q hostname
said 'are noticed' err 'srun: error: .*job 1'
said 'and there is a way out' err '; --rm none .*Slurm job 1'
expect 'or ignored' 0 on h1 env SLURM_JOB_ID=1 SLURM_JOB_NODELIST='h[2-3]' SLURM_NTASKS=2 rlxrun -q --rm none -np 1 hostname
that 'when told so' hosts_are 'h1 '

find "$source" -path "$source/build*" -prune -o -name '*.cc' -print | sort | xargs cat >"$work/text"
train="$build/train --data $work/text --exact --steps 5 --batch 64 --checkpoint none"
weights() { sed -n 's/^weights \([0-9a-f]*\) after.*/\1/p' "$work/out" >>"$work/hashes"; }
if [ -x "$build/train" ]; then
  # shellcheck disable=SC2086
  {
    expect 'train by rlxrun over ssh' 0 on h1 rlxrun -q --host h1:1,h2:1,h3:1 $train; weights
    expect 'train by rlxrun in an allocation' 0 allocate -N3 -n3 rlxrun -q $train; weights
    expect 'train by srun' 0 on h1 srun -Q --mpi=pmix -N3 -n3 $train; weights
  }
  that 'has the same weights everywhere' test "$(grep -c . hashes) $(sort -u hashes | grep -c .)" = '3 1'
fi

# shellcheck disable=SC2016
expect 'rlxrun.sbatch' 0 batch "$source/contrib/slurm/rlxrun.sbatch" sh -c 'echo "$RLX_RANK of $RLX_SIZE on $(hostname)"'
that 'runs four ranks' test "$(sort "$work/out" | tr '\n' ';')" = '0 of 4 on h1;1 of 4 on h1;2 of 4 on h2;3 of 4 on h2;'
expect 'srun.sbatch' 0 batch "$source/contrib/slurm/srun.sbatch" "$build/test/coll/api_check"
said 'runs four ranks' out 'api_check ok 4'
if [ -x "$build/train" ]; then
  # shellcheck disable=SC2016
  expect 'restart.sbatch' 0 batch "$source/contrib/slurm/restart.sbatch" sh -c \
    'crash=; [ "$RLX_RESTART_COUNT" -gt 0 ] || crash="--crash-at 8"
     exec "$0" --data text --exact --steps 9 --batch 64 --checkpoint ckpt --every 3 $crash' "$build/train"
  said 'goes on where the checkpoint ends' out 'resumed'
fi

# Ends.
# Slurm's SIGTERM comes to all processes at once; rank 1 dies of it, the others take their time.
# shellcheck disable=SC2016
save='[ "$RLX_RANK" = 1 ] || trap "sleep 0.5; : >saved.$RLX_RANK; exit" TERM
  echo up; while :; do sleep 0.05; done; sleep 98765'
saved_are() { test "$(cd "$work" && echo saved.*)" = "$1" && rm "$work"/saved.*; }
rm "$work/out"
on h1 sbatch -Q --output="$work/out" "$source/contrib/slurm/rlxrun.sbatch" sh -c "$save"
eventually ranks_up 4
expect 'scancel' 0 on h1 scancel --name=rlx
that 'leaves nothing on any host' quiet
that 'and ranks the time to save' saved_are 'saved.0 saved.2 saved.3'
: >"$work/out"
# shellcheck disable=SC2016
allocate -N3 -n3 --job-name=shell sh -c 'rlxrun "$@"; echo "code $?" >&2' - sh -c "$save" >"$work/out" 2>"$work/err" &
eventually ranks_up 3
on h1 scancel --name=shell
wait $!
said 'scancel of a shell of salloc blames no rank or host' err '^rlxrun: the job was told to end .SIGTERM'
said 'is a SIGTERM to rlxrun' err '^code 143'
that 'gives ranks the time to save' saved_are 'saved.0 saved.2'
that 'and leaves nothing' quiet
allocate -N3 -n3 rlxrun -q sh -c 'echo up; sleep 98765' >"$work/out" 2>"$work/err" &
eventually ranks_up 3
on h1 pkill -9 -o -x rlxrun
wait $!
that 'nor does SIGKILL of rlxrun' quiet
# srun is two processes; the second, if it is left, has the step killed.
for which in '' '-o'; do
  : >"$work/out"
  allocate -N3 -n3 rlxrun -q sh -c 'echo up; sleep 98765 & sleep 98765' >"$work/out" 2>"$work/err" &
  eventually ranks_up 3
  # shellcheck disable=SC2086
  on h1 pkill -9 $which -x srun
  wait $!
  verdict "$([ $? -eq 1 ]; echo $?)" "SIGKILL of srun${which:+s first process}"
  said 'is a loss that names it' err 'lost host h[1-3] .*srun was killed by signal 9'
  that 'and leaves nothing' quiet
done
# Without a lost host: srun would end the step with its first daemon.
: >"$work/out"
# shellcheck disable=SC2016
allocate -N3 -n3 rlxrun -q --on-failure continue sh -c 'echo up; until [ -e "$0" ]; do sleep 0.05; done; echo on' "$work/go" \
  >"$work/out" 2>"$work/err" &
eventually ranks_up 3
on h2 pkill -9 -o -x rlxrun
eventually grep -q 'lost host h2' "$work/err"
: >"$work/go"
wait $!
that 'with --on-failure continue the other ranks go on' test "$(grep -c on "$work/out")" = 2
expect 'a daemon that does not start' 1 allocate -N3 -n3 rlxrun -q --on-failure continue --prefix "$work/none" true
said 'is known at once' err 'h[1-3]: task [0-2]: Exited with exit code'
that 'none of it leaves anything' quiet
# Slurm may have killed the daemons, and what cleans up after them, before they could.
expect 'directories' 0 allocate -N3 -n3 rlxrun -q true
clean() { for host in h1 h2 h3; do on $host sh -c '! ls -d /tmp/rlx.* /dev/shm/rlx.*' || return; done; }
that 'are gone by the next job' clean
all_done
