#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# train as jobs: it learns, its weights do not depend on the number of ranks, it goes on after a crash, and it says
# what is wrong.
# shellcheck source=test/contrib/tap.sh
. "$RLX_SRCDIR/test/contrib/tap.sh"
run="$build/rlxrun -q --oversubscribe"
train="$build/train"
[ -x "$train" ] || { echo '1..0 # SKIP train is not built: no oneDNN'; exit 0; }
text="$work/text"
find "$source" -path "$source/build*" -prune -o -name '*.cc' -print | sort | xargs cat >"$text"
cd "$work" || exit 1

job() {  # NAME CODE RANKS OPTIONS...
  name=$1 code=$2 n=$3
  shift 3
  # shellcheck disable=SC2086
  expect "$name" "$code" timeout 120 $run -np "$n" "$train" --data "$text" "$@"
}
weights() { sed -n 's/^weights \([0-9a-f]*\) after.*/\1/p' "$work/out"; }
lines() { [ "$(grep -c '^train: ' "$work/err")" -eq 1 ] && [ "$(sed -n '/^train: /,$p' "$work/err" | wc -l)" -le 4 ]; }

job 'trains with two ranks' 0 2 --steps 300 --batch 128 --checkpoint none
# The untrained model says 8; knowing how frequent each byte is gives about 5.
# shellcheck disable=SC2016
that 'learns: below 4 bits a byte' awk '/^held-out/ { found = 1; exit !($3 < 4) } END { if (!found) exit 1 }' out
said 'shows progress and a sample' out '^--- a sample ---'

for n in 1 2 4 8; do
  job "trains exactly with $n ranks" 0 "$n" --exact --steps 5 --batch 64 --checkpoint none
  weights >>hashes
done
that 'has the same weights, to the last bit, for 1, 2, 4 and 8 ranks' \
  test "$(sort -u hashes | grep -c .) $(grep -c . hashes)" = '1 4'

job 'trains exactly without a break' 0 2 --exact --steps 9 --batch 64 --checkpoint whole
weights >whole.hash
expect 'fails when a rank dies' 137 timeout 120 "$build/rlxrun" -q --oversubscribe -np 4 "$train" --data "$text" \
  --exact --steps 9 --batch 64 --checkpoint part --every 3 --crash-at 8
job 'resumes with another number of ranks' 0 1 --exact --steps 9 --checkpoint part --resume
weights >part.hash
that 'ends with the weights of the run without a break' cmp whole.hash part.hash
that 'writes the same checkpoint as the run without a break' cmp whole part
that 'leaves no temporary file' test -z "$(find . -name '*.tmp.*')"
expect 'goes on after a crash where the job is started again' 0 timeout 120 "$build/rlxrun" -q --oversubscribe -np 2 \
  --max-restarts 1 "$train" --data "$text" --steps 6 --batch 64 --checkpoint again --every 2 --crash-at 4
RLX_RESTART_COUNT=1
export RLX_RESTART_COUNT
job 'resumes by itself in a restarted job' 0 2 --exact --steps 10 --checkpoint part
said 'says that it resumed' out 'resumed'
job 'starts anew in a restarted job without a checkpoint' 0 1 --steps 1 --batch 8 --checkpoint none
unset RLX_RESTART_COUNT

byte=$(dd if=part bs=1 skip=5000 count=1 2>/dev/null | od -An -tu1)
# shellcheck disable=SC2059
printf "\\$(printf %o $((byte ^ 1)))" | dd of=part bs=1 seek=5000 conv=notrunc 2>/dev/null
job 'refuses a damaged checkpoint' 4 2 --resume --checkpoint part
that 'says so once, in at most three lines' lines
job 'refuses a checkpoint of another batch' 4 2 --resume --checkpoint whole --batch 128
job 'refuses a missing checkpoint' 4 2 --resume --checkpoint nowhere
job 'refuses a folder that does not exist before it trains' 5 2 --checkpoint none/x --steps 100000
that 'says so once, in at most three lines' lines
job 'refuses a folder as the checkpoint before it trains' 5 2 --checkpoint "$work" --steps 100000
that 'says so once, in at most three lines' lines
job 'refuses a rate that is no number' 2 2 --lr nan
said 'says what was wanted' err '^train: --lr nan: wanted a number from 1e-09 to 10$'
text=$work/none
job 'refuses a missing text' 3 2 --checkpoint none
that 'says so once, in at most three lines' lines
text=$work/small
echo small >"$text"
job 'refuses a text that is too small' 3 2 --checkpoint none
job 'refuses an unknown option' 2 2 --stepz 3
that 'says so once, in at most three lines' lines
job 'shows its help' 0 1 --help
all_done
