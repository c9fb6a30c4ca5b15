// SPDX-License-Identifier: MIT OR Apache-2.0
// The wire to ourselves: a ring in private memory, and large messages read in place.
#pragma once

#include <memory>
#include <vector>

#include "base/bootstrap.h"
#include "fabrics/wire.h"

namespace rlx {

class SelfWire final : public Wire {
 public:
  static Result<std::unique_ptr<Wire>> create(const BootstrapFacts& facts);

  std::string_view name() const override { return "self"; }
  std::string address() const override;
  Status connect(Link peer, std::string_view address) override;
  Caps caps(Link peer) const override;
  Posted post(Link peer, const Frame& frame) override;
  int progress(Sink& sink) override;
  Offer offers(Link peer, const void* data, std::uint64_t n_bytes) const override;
  Status read(Link peer, RemoteSpan from, void* to) override;
  void withdraw(Link) override {}
  bool arm() override { return true; }
  void disarm() override {}
  int fd() const override { return -1; }
  bool drained() const override;

 private:
  struct Ring;
  struct FreeRing {
    void operator()(Ring* ring) const;
  };
  SelfWire(Link rank, std::unique_ptr<Ring, FreeRing> ring);
  Link rank_;
  std::unique_ptr<Ring, FreeRing> ring_;
};

}  // namespace rlx
