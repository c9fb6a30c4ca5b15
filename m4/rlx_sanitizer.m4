# RLX_SANITIZER: --enable-sanitizer=address,undefined|thread puts the flags in RLX_SANITIZER_FLAGS.
AC_DEFUN([RLX_SANITIZER], [
  AC_ARG_ENABLE([sanitizer], [AS_HELP_STRING([--enable-sanitizer=LIST],
    [build with sanitizers: address,undefined or thread])], [], [enable_sanitizer=off])
  AS_CASE([$enable_sanitizer],
    [no|off], [RLX_SANITIZER_FLAGS=],
    [yes], [AC_MSG_ERROR([--enable-sanitizer wants a list: address,undefined or thread])],
    [RLX_SANITIZER_FLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer"])
  # Criterion keeps its arena at one address in all its processes, and the thread sanitizer's shadow memory
  # leaves it none unless addresses are not random.
  AS_CASE([$enable_sanitizer], [*thread*], [TEST_WRAPPER="setarch -R"], [TEST_WRAPPER=])
  AC_SUBST([TEST_WRAPPER])
  # A library names all it needs, except a sanitizer's functions, which the program brings.
  AS_IF([test -z "$RLX_SANITIZER_FLAGS"], [RLX_NO_UNDEFINED=-Wl,-z,defs], [RLX_NO_UNDEFINED=])
  AC_SUBST([RLX_NO_UNDEFINED])
])
