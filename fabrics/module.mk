# Sources of fabrics/.
EXTRA_DIST += fabrics/request.h fabrics/wait.h fabrics/wire.h fabrics/shm.h fabrics/endpoint.h fabrics/registry.h
