# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
# For test scripts that need hosts; includes tap.sh. All hosts see the script's folder $work, the source and the build.
#   hosts N                       starts h1 .. hN; skips the whole script, with the reason, where that cannot be
#   with_slurm                    starts Slurm on them, or skips
#   on HOST COMMAND...            runs it there, for a minute at most
#   everywhere_quiet PATTERN      no process on any host has it in its command line, nor will within 5 s
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
everywhere_quiet() {
  for _ in $(seq 1 50); do
    "$rig" ps | grep -q -e "$1" || return 0
    sleep 0.1
  done
  "$rig" ps >&2
  return 1
}
