# Sources of fabrics/.
EXTRA_DIST += fabrics/request.h fabrics/wait.h fabrics/wire.h fabrics/shm.h fabrics/endpoint.h fabrics/registry.h

noinst_LTLIBRARIES += libfabricstcp.la
libfabricstcp_la_SOURCES = \
  fabrics/tcp.h fabrics/tcp.cc fabrics/tcp_address.h fabrics/tcp_address.cc fabrics/tcp_interfaces.cc \
  fabrics/tcp_frame.h fabrics/tcp_frame.cc fabrics/tcp_greeting.h fabrics/tcp_greeting.cc \
  fabrics/tcp_lobby.h fabrics/tcp_lobby.cc fabrics/tcp_socket.h fabrics/tcp_socket.cc \
  fabrics/tcp_stream.h fabrics/tcp_stream.cc
libfabricstcp_la_LIBADD = libbase.la $(SODIUM_LIBS)
