# RLX_CXX20: the flag with which $CXX compiles C++20, in RLX_CXX20_FLAGS.
AC_DEFUN([RLX_CXX20], [
  AC_MSG_CHECKING([how $CXX compiles C++20])
  rlx_save="$CXXFLAGS"
  CXXFLAGS="$CXXFLAGS -std=c++20"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <concepts>
#include <span>
template <std::integral T> T twice(T x) { return 2 * x; }]], [[int a[2] = {1, 2}; return twice(std::span(a)[1]);]])],
    [RLX_CXX20_FLAGS="-std=c++20"],
    [AC_MSG_ERROR([$CXX does not compile C++20; use g++ 12, clang 14 or later])])
  CXXFLAGS="$rlx_save"
  AC_MSG_RESULT([$RLX_CXX20_FLAGS])
])
