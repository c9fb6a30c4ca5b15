# Sources of fabrics/.
noinst_LTLIBRARIES += libfabricstcp.la
libfabricstcp_la_SOURCES = \
  fabrics/tcp.h fabrics/tcp.cc fabrics/tcp_address.h fabrics/tcp_address.cc fabrics/tcp_interfaces.cc \
  fabrics/tcp_frame.h fabrics/tcp_frame.cc fabrics/tcp_greeting.h fabrics/tcp_greeting.cc \
  fabrics/tcp_lobby.h fabrics/tcp_lobby.cc fabrics/tcp_socket.h fabrics/tcp_socket.cc \
  fabrics/tcp_stream.h fabrics/tcp_stream.cc

noinst_LTLIBRARIES += libfabrics.la
libfabrics_la_SOURCES = \
  fabrics/wire.h fabrics/request.h fabrics/list.h fabrics/copy.h fabrics/wait.h fabrics/wait.cc \
  fabrics/host.h fabrics/host.cc fabrics/self.h fabrics/self.cc \
  fabrics/shm.h fabrics/shm.cc fabrics/shm_area.h fabrics/shm_area.cc fabrics/shm_pool.h fabrics/shm_pool.cc \
  fabrics/shm_ring.h fabrics/shm_segment.h fabrics/shm_segment.cc \
  fabrics/endpoint.h fabrics/endpoint.cc fabrics/endpoint_impl.h fabrics/endpoint_send.cc \
  fabrics/endpoint_recv.cc fabrics/endpoint_failure.cc fabrics/registry.h fabrics/registry.cc
