# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
# For test scripts that need hosts; includes tap.sh. All hosts see the script's folder $work, the source and the build.
#   hosts N                       starts h1 .. hN; skips the whole script, with the reason, where that cannot be
#   with_slurm                    starts Slurm on them, or skips
#   on HOST COMMAND...            runs it there, for a minute at most
#   eventually COMMAND...         waits until it is true, half a minute at most
#   no_process PATTERN            no process on any host has it in its command line
# shellcheck source=test/contrib/tap.sh
. "$RLX_SRCDIR/test/contrib/tap.sh"
rig=$source/test/rig/rig
RIG=$work
export RIG
trap '"$rig" down; rm -rf "$work"' EXIT
cd "$work" || exit 1

or_skip() {
  "$@" >"$work/out" 2>"$work/err"
  status=$?
  [ "$status" -eq 77 ] && { echo "1..0 # SKIP $(cat "$work/err")"; exit 0; }
  [ "$status" -eq 0 ] || { verdict 1 "$*"; all_done; exit 1; }
}
hosts() { or_skip "$rig" up "$1" "$source" "$build"; }
with_slurm() { or_skip "$rig" slurm; }
on() {
  on_host=$1
  shift
  "$rig" exec "$on_host" timeout -k 5 60 "$@"
}
eventually() {
  for _ in $(seq 1 300); do
    "$@" && return
    sleep 0.1
  done
  return 1
}
no_process() { ! "$rig" ps | grep -q -e "$1"; }
