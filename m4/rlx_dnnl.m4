# RLX_DNNL: oneDNN for contrib/examples/train, in DNNL_LIBS; conditional HAVE_DNNL, have_dnnl=yes or why not.
AC_DEFUN([RLX_DNNL], [
  have_dnnl=no
  AC_CHECK_HEADER([dnnl.h], [AC_CHECK_LIB([dnnl], [dnnl_sgemm], [have_dnnl=yes])])
  AS_IF([test $have_dnnl = yes], [DNNL_LIBS=-ldnnl], [have_dnnl="no: train is not built (apt-get install libdnnl-dev)"])
  AC_SUBST([DNNL_LIBS])
  AM_CONDITIONAL([HAVE_DNNL], [test "x$have_dnnl" = xyes])
])
