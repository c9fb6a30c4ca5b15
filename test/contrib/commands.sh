#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# contrib/run and contrib/check on a machine that lacks packages, with stand-ins for Debian's and our tools.
# shellcheck source=test/contrib/tap.sh
. "$RLX_SRCDIR/test/contrib/tap.sh"
mkdir -p "$work/tree/contrib" "$work/bin" "$work/tree/build"
cp "$source"/contrib/build "$source"/contrib/run "$source"/contrib/check "$work/tree/contrib"
printf 'libone-dev\nlibtwo-dev\nlibtest-dev # check\n' >"$work/tree/contrib/packages.txt"
cd "$work/tree" || exit 1
log=$work/log
: >"$log"
# stand_in NAME BODY: a program $work/bin/NAME that logs its call and does BODY.
stand_in() {
  printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$log" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
# shellcheck disable=SC2016
stand_in dpkg-query "for p; do :; done; grep -q -x \"\$p\" '$work/installed' 2>/dev/null && printf installed"
stand_in apt-get "for p; do case \$p in lib*) echo \"\$p\" >>'$work/installed' ;; esac; done"
stand_in sudo 'exec "$@"'
stand_in id 'echo 1000'
stand_in autoreconf ': >configure'
stand_in make 'exit 0'
stand_in ccache 'exit 0'
: >build/Makefile
printf '#!/bin/sh\necho "config.status $*" >>"%s"\n' "$log" >build/config.status
chmod +x build/config.status
PATH=$work/bin:$PATH BUILD_DIR=build
export PATH BUILD_DIR
calls() { grep -E "^($1) " "$log"; }
echo libone-dev >"$work/installed"

expect 'run --dry-run' 0 contrib/run --dry-run -np 2 --steps 3
said 'says what is missing' out 'missing Debian packages: libtwo-dev$'
said 'says how it would install it' out 'sudo .*apt-get install .* libtwo-dev$'
said 'says what it would run' out 'rlxrun -np 2 ./train --steps 3'
that 'does none of it' test -z "$(calls 'apt-get|sudo|autoreconf|make')"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$@"\n' >build/rlxrun
chmod +x build/rlxrun
expect 'run' 0 contrib/run
said 'starts four ranks of train' out '^-np 4 ./train$'
that 'installs only what was missing' test "$(calls apt-get | sed -n '$s/.* //p')" = libtwo-dev
: >"$log"
expect 'run again' 0 contrib/run --seconds 1
said 'says that all is there' out 'all Debian packages are installed'
that 'installs and configures nothing' test -z "$(calls 'apt-get|sudo|autoreconf|config.status')"
: >"$log"

mkdir -p build/test/base
make_check() {  # RESULTS...: what the next make check leaves
  stand_in make "case \"\$*\" in *check*) printf ':test-result: %s\\n' $* >build/test/base/x.trs ;; esac"
}
make_check PASS PASS SKIP
expect 'check' 0 contrib/check
that 'installs what checking needs too' test "$(calls apt-get | sed -n '$s/.* //p')" = libtest-dev
that 'lets configure find it' test "$(calls 'apt-get|config.status' | tail -n 2 | sed 's/ .*//' | tr '\n' ' ')" = 'config.status config.status '
that 'ends with the counts' test "$(tail -n 1 "$work/out")" = '2 passed, 0 failed, 1 skipped'
make_check PASS FAIL ERROR
expect 'check with failures' 1 contrib/check
that 'ends with the counts' test "$(tail -n 1 "$work/out")" = '1 passed, 2 failed'
expect 'check with an unknown option' 2 contrib/check --bogus
said 'names those it knows' err 'unknown option --bogus; wanted --dry-run, --help or names of tests'
stand_in make 'exit 2'
rm -f build/test/base/x.trs
expect 'check when the build fails' 1 contrib/check
that 'ends with the counts' test "$(tail -n 1 "$work/out")" = '0 passed, 1 failed'

# A daemon that tests start themselves.
echo 'libdaemon # check, starts onedaemon' >>contrib/packages.txt
for command in install rm update-rc.d; do stand_in $command 'exit 0'; done
expect 'check with a daemon that is missing' 1 contrib/check
calls 'apt-get|install|rm|update-rc.d' >"$work/out"
if [ ! -e /usr/sbin/policy-rc.d ]; then
  said 'keeps it from starting' out '^install .* /usr/sbin/policy-rc.d'
  said 'only meanwhile' out '^rm /usr/sbin/policy-rc.d'
fi
said 'and from starting when the machine boots' out '^update-rc.d onedaemon disable'
/bin/rm "$work/bin/install" "$work/bin/rm"

rm "$work/bin/sudo" "$work/installed"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/sudo-none"
if ! command -v sudo >/dev/null; then
  expect 'run without root and sudo' 1 contrib/run
  said 'says what root should run' err 'run as root: apt-get'
fi
all_done
