// SPDX-License-Identifier: MIT OR Apache-2.0
// How ranks of one job find each other. Each source (PMIx, a file, nothing at all) is a Bootstrap:
// every rank puts one blob, all meet in one fence, then any rank's blob can be read.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace rlx {

struct BootstrapFacts {
  int rank = 0;
  int size = 1;
  std::string source;            // "pmix", "single", ... for rlx-info and messages
  std::string job_id;            // the same on all ranks, different for two jobs on one host
  std::string hostname;          // as messages should name this rank's host
  std::vector<int> local_ranks;  // ranks on this host if the source knows, ascending, with ours
};

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual const BootstrapFacts& facts() const = 0;
  // Once, before fence(). `blob` is bytes, at most a few KiB.
  virtual Status put(std::string_view blob) = 0;
  // Returns when every rank has put; a rank that dies first is an error that names it.
  virtual Status fence(Deadline deadline) = 0;
  virtual Result<std::string> get(int rank) = 0;
  // Ends the whole job with `exit_code`, telling the launcher `why`. Does not return.
  [[noreturn]] virtual void abort(int exit_code, std::string_view why) = 0;
  // What the thread that waits in finalize() does meanwhile, every few milliseconds: peers may need
  // answers until they wait there too. A source whose finalize() waits for nobody ignores it.
  virtual void meanwhile(std::function<void()> /*turn*/) {}
  // Meets all ranks again and leaves the job in good order. A rank that leaves without it failed.
  virtual Status finalize(Deadline deadline) = 0;

  // `on_failure(rank, cause)` may be called from another thread as soon as the source learns that a
  // rank is gone (rank -1: the server itself). At most one handler; set before fence(). A source
  // that learns nothing never calls it.
  virtual void watch(std::function<void(int rank, std::string cause)> on_failure) = 0;
  // The other way round: a wire found that a rank is gone. Where nobody else ends a job whose rank
  // has died, this does, a little later, so that programs can say their last words.
  virtual void peer_failed(int rank, const std::string& cause) {
    (void)rank;
    (void)cause;
  }
  // What the source itself says of such a rank, if it does within a moment: it knows the better
  // cause. And who goes on before the source has heard may exit before the dead rank is known to be
  // dead, and be blamed for the end of the job.
  virtual std::optional<std::string> last_word_on(int rank) {
    (void)rank;
    return std::nullopt;
  }
};

}  // namespace rlx
