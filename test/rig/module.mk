# Simulated hosts (test/rig/rig) and what runs on them.
dist_check_SCRIPTS += test/rig/own.sh test/coll/hosts.sh test/pmix_glue/slurm_client.sh test/launcher/ssh_jobs.sh \
  test/launcher/slurm_jobs.sh
EXTRA_DIST += test/rig/rig test/rig/rig.sh test/launcher/README.md
