#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Jobs over three hosts, started by other people's launchers: results, awkward networks, and what is said when a rank
# or a host dies.
# shellcheck source=test/rig/rig.sh
. "$RLX_SRCDIR/test/rig/rig.sh"
hosts 3
with_slurm
cd "$build" || exit 1
api_check=test/coll/api_check fail_check=test/coll/fail_check
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=rsh
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_plm
by_slurm() {  # HOSTS RANKS COMMAND...: more ranks on the first hosts, if it does not come out even
  n_hosts=$1 n_ranks=$2
  shift 2
  on h1 srun -Q --mpi=pmix -N "$n_hosts" -n "$n_ranks" "$@"
}
by_mpirun() { on h1 mpirun.openmpi --host h1:2,h2:1,h3:1 -np 4 ${LSAN_OPTIONS:+-x LSAN_OPTIONS} "$@"; }

# Nobody can be reached: it takes a while until that is sure. Meanwhile, the rest.
for host in h1 h2 h3; do
  on "$host" nft -f - <<'END' || exit
table inet closed {
  chain in {
    type filter hook input priority 0
    tcp dport 20000-20999 drop
  }
}
END
done
RLX_TCP_PORT_RANGE=20000-20999 by_slurm 3 3 -s $api_check >"$work/closed" 2>&1 &
closed=$!

expect 'srun, four ranks on one host' 0 by_slurm 1 4 -s $api_check
said 'are a world of four' out 'api_check ok 4'
expect 'srun, six ranks on three hosts' 0 by_slurm 3 6 -s $api_check
said 'are a world of six' out 'api_check ok 6'
expect 'mpirun over ssh' 0 by_mpirun $api_check
said 'is a world of four' out 'api_check ok 4'

find "$source" -path "$source/build*" -prune -o -name '*.cc' -print | sort | xargs cat >"$work/text"
train="./train --data $work/text --exact --steps 5 --batch 64 --checkpoint none"
weights() { sed -n 's/^weights \([0-9a-f]*\) after.*/\1/p' "$work/out" >>"$work/hashes"; }
if [ -x train ]; then
  # shellcheck disable=SC2086
  {
    expect 'train on this host' 0 ./rlxrun -q --oversubscribe -np 2 $train; weights
    expect 'train by srun' 0 by_slurm 3 3 -s $train; weights
    expect 'train by mpirun' 0 by_mpirun $train; weights
  }
  that 'has the same weights everywhere' test "$(grep -c . "$work/hashes") $(sort -u "$work/hashes" | grep -c .)" = '3 1'
fi

"$rig" net decoy
expect 'an interface with the same address on every host does not hinder' 0 by_slurm 3 3 -s $api_check
"$rig" net shape h2 200mbit
expect 'a slow link does not hinder' 0 by_slurm 3 3 -s ./rlx-perf --tests all_reduce --sizes 8,256K --seconds 0.1
"$rig" net open h2

# The ranks write to files: srun, which ends such a job by force, may lose their last words.
failing() { by_slurm 3 3 -s sh -c "exec $fail_check $* 2>>$work/words"; }
for how in 'in_collective kill 137' 'in_finalize kill 137'; do
  rm -f "$work/words"
  expect "a rank ends the job: $how" "${how##* }" failing "${how% *}"
  said 'and is named' words 'rank [02] saw peer failed: .*rank 1 \(h2\) is gone'
done
# Slurm ends the step on the way, so whether others still see it is chance.
expect 'a rank aborts the job' 7 failing in_recv abort
expect 'srun without PMIx is refused' 1 on h1 srun --mpi=none -N2 -n2 $api_check
said 'in words' err 'PMIx'

wait $closed
cp "$work/closed" "$work/out"
said 'a firewall is told from a dead rank, with the addresses' out 'no TCP connection to rank .*10.77.0.*no answer.*firewall'

# A rank that has stopped is waited for. When its host vanishes, its silence is noticed after about eleven seconds.
rm -f "$work/words"
failing in_collective stop >"$work/out" 2>"$work/err" &
job=$!
until "$rig" ps | grep -q '^ *[0-9]* T.* in_collective stop'; do sleep 0.1; done
"$rig" kill h2
until grep -q 'is gone' "$work/words" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
said 'a host that vanishes is named' words \
  'rank [02] saw .* all_reduce.*rank 1 \(h2\) is gone: .*10.77.0.2.*nothing acknowledged for 1[0-9] s'
all_done
