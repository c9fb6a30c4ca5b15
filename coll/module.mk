# Sources of coll/.
EXTRA_DIST += coll/shape.h coll/plan.h coll/area.h coll/links.h coll/engine.h coll/algorithm.h coll/select.h coll/collectives.h

# The C interface joins the build with the engine (librlx.la).
EXTRA_DIST += coll/api.h coll/api.cc coll/api_message.cc coll/api_collective.cc coll/api_exact.cc \
  coll/communicator.h coll/communicator.cc coll/world.h coll/world.cc coll/rlx.map
