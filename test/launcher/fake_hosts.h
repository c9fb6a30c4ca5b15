// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosts that are none: a stand-in for ssh, which drops the name of the host, joins the other words
// with blanks and has a shell read them in an environment of its own.
#pragma once

#include <string>

#include "test/support/command.h"

namespace rlx::test {

class FakeHosts {
 public:
  // `noise`: lines of shell that run before the command, as start-up files of a shell do.
  // `instead`: lines that run in place of all that.
  explicit FakeHosts(const std::string& noise = "", const std::string& instead = "");
  // Options for one rank on each of h0, h1, ...
  std::string options(int n_hosts) const;
  const std::string& agent() const { return agent_; }

 private:
  TempDir dir_;
  std::string agent_;
};

}  // namespace rlx::test
