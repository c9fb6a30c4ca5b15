/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A plain MPI program for the tests: `foreign MODE`. Knows nothing of rlx. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void hello(void) {
  int mine = rank + 1, sum = 0, on_node = 0, *universe = NULL, *app = NULL, known = 0;
  MPI_Comm node;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &on_node);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &known);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &known);
  printf("rank %d of %d sum %d node %d universe %d app %d\n", rank, size, sum, on_node,
         universe ? *universe : -1, known ? *app : -1);
}

static void spawn(const char* self) {
  MPI_Comm children;
  int errors[2], value = 77;
  MPI_Comm_spawn(self, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors);
  MPI_Bcast(&value, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
  printf("parent %d spawned\n", rank);
  MPI_Comm_disconnect(&children);
}

/* In a directory of its own; the children say which. */
static void wdir(const char* self) {
  MPI_Comm children;
  MPI_Info info;
  int errors[2], value = 77;
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", "/usr");
  MPI_Comm_spawn(self, MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &children, errors);
  MPI_Bcast(&value, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
  MPI_Comm_disconnect(&children);
}

/* Each rank alone asks for a program that is not there. */
static void missing(void) {
  MPI_Comm children;
  int error, class;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  error = MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                         &children, MPI_ERRCODES_IGNORE);
  MPI_Error_class(error, &class);
  printf("rank %d: %s\n", rank,
         class == MPI_SUCCESS     ? "spawned"
         : class == MPI_ERR_SPAWN ? "spawn error"
                                  : "other error");
}

static void be_child(MPI_Comm parent) {
  int n_parents, value = 0;
  char here[4096];
  MPI_Comm_remote_size(parent, &n_parents);
  MPI_Bcast(&value, 1, MPI_INT, 0, parent);
  printf("child %d of %d parents %d value %d in %s\n", rank, size, n_parents, value,
         getcwd(here, sizeof here));
  MPI_Comm_disconnect(&parent);
}

/* The lower half publishes a port and accepts, the upper half looks it up and connects. */
static void names(void) {
  char port[MPI_MAX_PORT_NAME];
  MPI_Comm half, other;
  int n_others, lower = rank < size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name("rlx-test", MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size / 2) MPI_Lookup_name("rlx-test", MPI_INFO_NULL, port);
  if (lower)
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
  else
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
  MPI_Comm_remote_size(other, &n_others);
  printf("rank %d met %d\n", rank, n_others);
  MPI_Comm_disconnect(&other);
  if (rank == 0) MPI_Unpublish_name("rlx-test", MPI_INFO_NULL, port);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) be_child(parent);
  if (!strcmp(mode, "hello")) hello();
  if (!strcmp(mode, "spawn")) spawn(argv[0]);
  if (!strcmp(mode, "wdir")) wdir(argv[0]);
  if (!strcmp(mode, "missing")) missing();
  if (!strcmp(mode, "names")) names();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    if (!strcmp(mode, "abort")) MPI_Abort(MPI_COMM_WORLD, 42);
    if (!strcmp(mode, "kill")) raise(SIGKILL);
    if (!strcmp(mode, "exit3")) _exit(3);
    if (!strcmp(mode, "exit0")) _exit(0);
  }
  /* These end by rank 1 alone. */
  if (!strcmp(mode, "abort") || !strcmp(mode, "kill") || !strncmp(mode, "exit", 4)) pause();
  MPI_Finalize();
  return 0;
}
