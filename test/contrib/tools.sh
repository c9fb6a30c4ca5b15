#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What rlx-info and rlx-perf say.
# shellcheck source=test/contrib/tap.sh
. "$RLX_SRCDIR/test/contrib/tap.sh"
info=$build/rlx-info
perf=$build/rlx-perf

expect 'rlx-info shows all of it' 0 "$info"
for part in '^rlx [0-9]' '^  self  *works here' '^  shm ' '^  tcp ' '^  slots  *[1-9]' 'RLX_TIMEOUT_MS .*default' \
  '^  all_reduce  *ring '; do
  said "rlx-info shows: $part" out "$part"
done
expect 'rlx-info knobs' 0 env RLX_TIMEOUT_MS=7 "$info" knobs
said 'shows where a value comes from' out 'RLX_TIMEOUT_MS  *7  *environment'
expect 'rlx-info knobs with a wrong value' 1 env RLX_TIMEOUT_MS=soon "$info" knobs
said 'names it' err 'RLX_TIMEOUT_MS=soon'
expect 'rlx-info explain' 0 "$info" explain all_reduce 1M f32 -np 8
that 'chooses one algorithm' test "$(grep -c 'chosen: the cheapest' "$work/out")" -eq 1
that 'and prices or rejects the others' test "$(grep -c -E '^  [a-z_]+  .*([0-9]\.[0-9]|rejected: )' "$work/out")" -ge 2
printf 'all_reduce ranks=8 -> ring\n' >"$work/rules"
expect 'rlx-info explain with a rules file' 0 env RLX_RULES="$work/rules" "$info" explain all_reduce 8 f32 -np 8 \
  --fabric tcp
said 'says which rule chose' out "ring .*rule at $work/rules:1"
printf 'all_reduce ranks=8 -> rink\n' >"$work/rules"
expect 'rlx-info explain with a wrong rule' 1 env RLX_RULES="$work/rules" "$info" explain all_reduce 8 f32 -np 8
said 'says in which line' err 'rules:1.*rink'
for wrong in 'explain' 'explain all_redude 8 f32' 'explain all_reduce 8Q f32' 'explain all_reduce 8 f31' \
  'explain all_reduce 8 f32 -np 0' 'explain all_reduce 8 f32 -np' 'explain all_reduce 8 f32 --op bxor' \
  'explain gatherv 8 f32' 'knob' 'knobs now'; do
  # shellcheck disable=SC2086
  expect "rlx-info $wrong is a mistake" 2 "$info" $wrong
done
expect 'rlx-info man' 0 "$info" man
that 'the manual page names other pages that exist' test -z \
  "$(sed -n '/SEE ALSO/,$s/^.BR \([^ ]*\) (1).*/\1.1/p' "$work/out" | sed 's/[\]//g' | while read -r page; do
    [ -e "$build/$page" ] || echo "$page"; done)"
that 'is a manual page' sh -c "man --warnings -l '$work/out' >'$work/page' 2>'$work/err' || ! command -v man; ! test -s '$work/err'"

# shellcheck disable=SC2086
rlxrun="timeout 120 $build/rlxrun -q --oversubscribe"
# shellcheck disable=SC2086
expect 'rlx-perf measures every call and verifies it' 0 $rlxrun -np 3 "$perf" --tests all --sizes 8,4K --seconds 0.01
that 'all of them right' test "$(grep -c ' ok$' "$work/out") $(grep -c WRONG "$work/out")" = '21 0'
for options in '--dtype bf16 --mode exact --fresh' '--pool --mode ordered' '--pool --fresh --dtype i32' \
  '--mode exact --values wide' '--mode exact --dtype f64 --values spread6 --fresh' '--dtype f16 --values normal'; do
  # shellcheck disable=SC2086
  expect "rlx-perf $options" 0 $rlxrun -np 2 "$perf" --tests all_reduce,reduce_scatter --sizes 64K --seconds 0.01 $options
done
# shellcheck disable=SC2086
expect 'rlx-perf --json' 0 $rlxrun -np 2 "$perf" --json --tests latency,barrier --sizes 8 --seconds 0.01
that 'writes one object a line' test "$(grep -c '^{.*}$' "$work/out")" -eq 3
said 'with the flag latency' out '"flag_us": [0-9]'
said 'and median and 99th percentile' out '"median_us": [0-9.]*, "p99_us": [0-9.]*'
for wrong in '--tests latenzy' '--sizes 8x' '--dtype f31' '--mode sloppy' '--values odd' '--values wide --dtype i8' '--seconds'; do
  # shellcheck disable=SC2086
  expect "rlx-perf $wrong is a mistake" 2 "$perf" $wrong
done
# A rank that ends first ends the job: the reason is said before that, once.
for n in 1 2 3; do
  # shellcheck disable=SC2086
  expect "rlx-perf refuses an unknown test, with $n ranks" 2 $rlxrun -np "$n" "$perf" --tests bogus
  that 'and says so once' test "$(grep -c 'there is no test bogus' "$work/err")" -eq 1
done
expect 'rlx-perf with an option that is none' 2 "$perf" --test all
said 'names the one that is meant' err 'unknown option --test; did you mean --tests\?'
expect 'rlx-perf with a flag that takes no value' 2 "$perf" --json=3
# shellcheck disable=SC2086
expect 'rlx-perf refuses sizes beyond all memory' 2 $rlxrun -np 2 "$perf" --tests all_reduce --sizes 8,99999999G
said 'and says what they would need' err 'each of 2 ranks here are 4e\+08 GiB'
expect 'rlx-perf refuses a size beyond 64 bits' 2 "$perf" --sizes 1e30G
expect 'rlx-perf alone' 0 "$perf" --tests latency,barrier --seconds 0.01
that 'says once that latency needs two' test "$(grep -c 'latency needs 2 ranks' "$work/err")" -eq 1
all_done
