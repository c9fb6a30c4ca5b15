#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# An installed rlx is enough to build and run programs: pkg-config, headers, library, launcher, examples.
# shellcheck source=test/contrib/tap.sh
. "$RLX_SRCDIR/test/contrib/tap.sh"
case $TEST_CXXFLAGS in *-fsanitize*) echo '1..0 # SKIP sanitizers: programs would need their flags'; exit 0 ;; esac
expect 'installs' 0 make -s -C "$build" install DESTDIR="$work/root"
pc=$(find "$work/root" -name rlx.pc)
[ -n "$pc" ] || { all_done; exit 0; }
prefix=$(sed -n 's/^prefix=//p' "$pc")
PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$work/root LD_LIBRARY_PATH=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
for program in rlxrun rlx-info rlx-perf rlx-eplb; do
  expect "installs $program" 0 "$work/root$prefix/bin/$program" --version
done
that 'installs manual pages and the completion' test \
  "$(find "$work/root" -name 'rlx*.[17]' -o -name rlxrun -path '*completions*' | wc -l)" -eq 4
# The compiler may be two words (ccache g++).
# shellcheck disable=SC2046,SC2086
expect 'compiles a program that calls everything in rlx.hpp' 0 \
  $TEST_CXX -std=c++20 -Wall -Wextra -Werror "$source/test/contrib/face.cc" -o "$work/face" \
  $(pkg-config --cflags --libs rlx)
for n in 1 2 3; do
  expect "runs it with $n ranks" 0 timeout 60 "$work/root$prefix/bin/rlxrun" -q --oversubscribe -np "$n" "$work/face"
done
expect 'runs it without a launcher' 0 "$work/face"
# C programs see no C++.
printf '#include <rlx/rlx.h>\nint main(void) { return rlx_init() || rlx_finalize(); }\n' >"$work/c.c"
# shellcheck disable=SC2046
expect 'compiles a C program' 0 cc -std=c99 -pedantic-errors -Wall -Wextra -Werror "$work/c.c" -o "$work/c" \
  $(pkg-config --cflags --libs rlx)
expect 'runs it' 0 "$work/c"
cp -r "$(dirname "$(find "$work/root" -name hello.cc)")" "$work/examples"
expect 'builds an example with its own Makefile' 0 make -C "$work/examples" CXX="$TEST_CXX" hello
expect 'runs it with four ranks' 0 timeout 60 "$work/root$prefix/bin/rlxrun" -q --oversubscribe -np 4 "$work/examples/hello"
said 'sums over its ranks' out 'add up to 6'
# Symbols of the library are those of rlx.h and carry its version.
nm -D --defined-only "$LD_LIBRARY_PATH/librlx.so" | awk '{ print $3 }' | grep -v '^RLX_' >"$work/out"
that 'exports the functions of rlx.h only, with a version' \
  test "$(grep -c '^rlx_.*@@RLX_' "$work/out") 0" = "$(grep -c . "$work/out") $(grep -c -v '^rlx_' "$work/out")"
sed 's/@.*//' "$work/out" | sort -u >"$work/exported"
functions_of() { cat "$@" | grep -o '\brlx_[a-z0-9_]*(' | tr -d '(' | sort -u; }
functions_of "$source"/include/rlx/rlx.h >"$work/wanted"
functions_of "$source"/include/rlx/*.h >"$work/declared"
that 'exports every function of rlx.h' test -z "$(comm -23 "$work/wanted" "$work/exported")"
that 'exports nothing that no header declares' test -z "$(comm -13 "$work/declared" "$work/exported")"
all_done
