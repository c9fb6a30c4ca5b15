# Sources of coll/.
EXTRA_DIST += coll/shape.h coll/plan.h coll/area.h coll/links.h coll/engine.h coll/algorithm.h coll/select.h coll/collectives.h
