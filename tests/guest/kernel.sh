#!/bin/busybox sh
# What is proved on a machine of each shape: the adapters' own tests, then the agent's scenes with real processes. Arguments: gtest's.
failed=0
/program/linux_test "$@" || failed=1
/program/guest_scenes "$@" || failed=1
exit $failed
