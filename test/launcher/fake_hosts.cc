// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/launcher/fake_hosts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>

namespace rlx::test {

FakeHosts::FakeHosts(const std::string& noise, const std::string& instead)
    : agent_(dir_ / "agent") {
  std::ofstream file(agent_);
  file << "#!/bin/sh\nhost=$1; shift\n" << instead << '\n';
  if (instead.empty())
    file << "exec env -i PATH=/usr/bin:/bin HOME=/ RLX_TEST_MARK=\"$RLX_TEST_MARK\" "
            "${ASAN_OPTIONS+ASAN_OPTIONS=\"$ASAN_OPTIONS\"} "
            "${LSAN_OPTIONS+LSAN_OPTIONS=\"$LSAN_OPTIONS\"} "
            "${TSAN_OPTIONS+TSAN_OPTIONS=\"$TSAN_OPTIONS\"} FAKE_HOST=$host sh -c \""
         << noise << "\n$*\"\n";
  file.close();
  chmod(agent_.c_str(), 0755);
}

std::string FakeHosts::options(int n_hosts) const {
  std::string hosts;
  for (int i = 0; i < n_hosts; ++i) hosts += fmt::format("{}h{}:1", i > 0 ? "," : "", i);
  return fmt::format("--host {} --launch-agent {}", hosts, agent_);
}

}  // namespace rlx::test
