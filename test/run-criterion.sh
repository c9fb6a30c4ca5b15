#!/bin/sh
# Runs a Criterion program so that each of its tests is one TAP line on standard output.
# One job at a time: tests start processes and the machine may have two cores.
CRITERION_JOBS=${CRITERION_JOBS-1} exec ${TEST_WRAPPER-} "$@" --tap=-
