#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The simulated hosts themselves: what they share, what they do not, what their network does, and that they go.
# shellcheck source=test/rig/rig.sh
. "$RLX_SRCDIR/test/rig/rig.sh"
links_before=$(ip -o link)
hosts 3

for way in 'h1 h2' 'h2 h3' 'h3 h1'; do
  expect "ssh $way" 0 on "${way% *}" ssh "${way#* }" hostname
  said 'is on the other host' out "^${way#* }\$"
done
expect 'a file in /tmp' 0 on h1 touch /tmp/mine /dev/shm/mine ~root/mine
expect 'is on its host only' 0 on h2 test ! -e /tmp/mine -a ! -e /dev/shm/mine -a ! -e ~root/mine
that 'not even here' test ! -e /tmp/mine
expect 'a file in the shared folder' 0 on h1 touch shared
expect 'is on all hosts' 0 on h2 test -e "$work/shared"

on h2 /usr/sbin/sshd -f "$work/.rig/sshd_config" -p 2222 -o PidFile=/run/second
reach() { on h1 ssh -o ConnectTimeout=1 "$@" h2 true; }
expect 'any port is open' 0 reach -p 2222
if command -v nft >/dev/null; then
  expect 'firewall' 0 "$rig" net firewall h2 h3
  expect 'drops what is new' 255 reach -p 2222
  said 'without an answer' err 'timed out'
  expect 'but ssh' 0 reach
  "$rig" net open h2 h3
  expect 'opens again' 0 reach -p 2222
fi
if "$rig" net shape h2 100mbit; then
  on h2 tc qdisc show dev eth0 >out
  said 'shapes a link' out 'tbf .*rate 100Mbit'
  expect 'which still works' 0 reach
  "$rig" net open h2
fi
"$rig" net decoy
for host in h1 h3; do
  expect "docker0 of $host" 0 on "$host" ip -br addr show dev docker0
  said 'has the address of all' out '^docker0 *UP *172.17.0.1/16'
done
"$rig" net cut h2
expect 'a host that is cut off does not answer' 255 reach
"$rig" net join h2
expect 'and is there again' 0 reach

or_skip "$rig" slurm
# shellcheck disable=SC2016
expect 'Slurm runs tasks on all hosts' 0 on h1 srun -N3 -n3 --ntasks-per-node=1 --gres=gpu:1 \
  sh -c 'echo "$(hostname) $CUDA_VISIBLE_DEVICES"'
that 'one on each, with a GPU' test "$(sort -u "$work/out")" = "$(printf 'h1 0\nh2 0\nh3 0')"

"$rig" kill h3
expect 'a host that is powered off does not answer' 255 on h1 ssh -o ConnectTimeout=1 h3 true
expect 'the others live' 0 reach

# Nothing is left, not even when the one who started the hosts is killed.
left() { grep -l -e "$1" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; }
second=$work/second
RIG=$second sh -c '"$0" up 1 && ls "$RIG/.rig/h1.pid" && kill -9 $$' "$rig" >"$work/out" 2>"$work/err"
said 'a second rig beside the first' out h1.pid
for _ in $(seq 1 100); do
  [ -e "$second" ] || break
  sleep 0.1
done
that 'is gone after its starter was killed, with its folder' test ! -e "$second"
that 'and its processes' test -z "$(left "$second")"
ps_count=$("$rig" ps | wc -l)
that 'while the first is there' test "$ps_count" -ge 2
cd / && "$rig" down
that 'down leaves no process and no folder' test -z "$(left "$work/.rig")" -a ! -e "$work"
that 'and has not touched the network of this machine' test "$(ip -o link)" = "$links_before"
all_done
