# RLX_REQUIRE_HEADER(header, debian-package): stops with the package's name if the header is missing.
AC_DEFUN([RLX_REQUIRE_HEADER], [
  rlx_save_require="$CXXFLAGS"
  CXXFLAGS="$CXXFLAGS $RLX_CXX20_FLAGS"
  AC_CHECK_HEADER([$1], [], [AC_MSG_ERROR([$1 is missing: apt-get install $2])])
  CXXFLAGS="$rlx_save_require"
])
