// SPDX-License-Identifier: MIT OR Apache-2.0
#include "failure.h"

namespace train {

void agree(const rlx::Comm& comm, const std::optional<Failure>& failure) {
  const int first = comm.all_reduce(failure ? comm.rank() : comm.size(), rlx::Op::min);
  if (first == comm.size()) return;
  const bool is_mine = first == comm.rank();
  std::string text = is_mine ? failure->text : "";
  const int code = comm.broadcast<int>(is_mine ? failure->exit_code : kExitRuntime, first);
  text.resize(comm.broadcast<std::uint64_t>(text.size(), first));
  comm.broadcast(text, first);
  throw Failure{static_cast<ExitCode>(code), text};
}

}  // namespace train
