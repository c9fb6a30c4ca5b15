# The public face.
pkginclude_HEADERS += include/rlx/rlx.h include/rlx/rlx.hpp include/rlx/types.hpp include/rlx/request.hpp \
  include/rlx/eplb.h include/rlx/eplb.hpp
