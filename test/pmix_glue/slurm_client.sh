#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Our client under Slurm, on two simulated hosts: srun --mpi=pmix, srun without a PMI, nested launchers, death.
# shellcheck source=test/rig/rig.sh
. "$RLX_SRCDIR/test/rig/rig.sh"
hosts 2
with_slurm
rank=$build/test/pmix_glue/rank
lines() { test "$(grep -c -e "$2" "$work/out")" -eq "$1"; }

expect 'srun --mpi=pmix on two hosts' 0 on h1 srun --mpi=pmix -N2 -n4 "$rank" plain
that 'gives every rank its place' lines 4 ' of 4 source pmix locals '

expect 'srun without a PMI is refused' 9 on h1 srun --mpi=none -N2 -n2 "$rank" plain
said 'and the way to do it is said' err 'srun --mpi=pmix'
expect 'one task is a world of one' 0 on h1 srun --mpi=none -N1 -n1 "$rank" plain
that 'by itself' lines 1 ' of 1 source single'

expect 'rlxrun inside srun --mpi=pmix' 0 \
  on h1 srun --mpi=pmix -N1 -n1 "$build/rlxrun" --rm none --oversubscribe -np 2 "$rank" plain
that 'starts a job of its own' lines 2 ' of 2 source pmix locals 0,1,'

# Slurm would let the others wait.
expect 'a job of which a wire finds a rank gone' 0 on h1 sh -c "! srun --mpi=pmix -N2 -n3 '$rank' widowed"
said 'ends, and says who' err 'rank 1 is gone: no sign of life'
that 'after the others had their last words' lines 2 'finalize: .*rank 1: no sign of life'
all_done
