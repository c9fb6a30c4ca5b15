# Programs, examples, benchmarks and scripts of contrib/.
dist_check_SCRIPTS += contrib/check-layers.sh
EXTRA_DIST += contrib/layers.txt contrib/packages.txt
