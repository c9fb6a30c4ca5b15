# Sources of sched/.
