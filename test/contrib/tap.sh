# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
# For test scripts: TAP lines, a folder $work of their own that is gone afterwards, and what a command said.
#   expect NAME CODE COMMAND...   runs it: ok if it exits with CODE; its output is in $work/out and $work/err
#   that NAME COMMAND...          ok if the command is true
#   said NAME out|err PATTERN     ok if a line of it matches
# The folders are $source and $build. rlx would warn of RLX_ variables that it does not know.
# shellcheck disable=SC2034
source=$RLX_SRCDIR build=$RLX_BUILDDIR
unset RLX_SRCDIR RLX_BUILDDIR
n_tests=0
work=$(mktemp -d "${TMPDIR:-/tmp}/rlx-test.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

verdict() {  # STATUS NAME
  n_tests=$((n_tests + 1))
  if [ "$1" -eq 0 ]; then echo "ok $n_tests - $2"; return; fi
  echo "not ok $n_tests - $2"
  tail -n 20 "$work/out" "$work/err" 2>/dev/null | sed 's/^/# /'
}
expect() {
  name=$1 code=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  [ "$status" -eq "$code" ] || echo "exit code $status; wanted $code" >>"$work/err"
  verdict "$([ "$status" -eq "$code" ]; echo $?)" "$name"
}
that() {
  name=$1
  shift
  "$@" >/dev/null 2>&1
  verdict $? "$name"
}
said() { that "$1" grep -E -q -e "$3" "$work/$2"; }
all_done() { echo "1..$n_tests"; }
