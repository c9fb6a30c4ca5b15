#!/bin/sh
# Fails on an include that contrib/layers.txt does not allow. coll/world.cc is the composition root and may
# also include pmix_glue.
cd "${RLX_SRCDIR:-$(dirname "$0")/..}" || exit 1
echo 1..1
# shellcheck disable=SC2046
bad=$(awk -F'[:"/ ]+' '
  FILENAME ~ /layers.txt$/ { if ($1 != "#" && NF) { known[$1] = 1; for (i = 2; i <= NF; i++) ok[$1, $i] = 1 } next }
  /^#include "[a-z_]+\// {
    split(FILENAME, part, "/"); from = part[1]; to = $2
    if (!(to in known) || from == to || (from, to) in ok) next
    if (FILENAME == "coll/world.cc" && to == "pmix_glue") next
    print FILENAME ":" FNR ": " from " may not include " to
  }' contrib/layers.txt $(find base kernels fabrics coll sched moe pmix_glue launcher -name '*.h' -o -name '*.cc' -o -name '*.cu'))
if [ -n "$bad" ]; then echo "$bad" | sed 's/^/# /'; echo 'not ok 1 - folders include only what layers.txt allows'; exit 1; fi
echo 'ok 1 - folders include only what layers.txt allows'
