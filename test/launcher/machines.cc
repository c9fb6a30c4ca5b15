// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/launcher/machines.h"

#include <fmt/format.h>

#include <sstream>

namespace rlx::test {
namespace {

std::string bus_xml(int package, int n_gpus, const std::string& id) {
  const int bus = 0x10 * (package + 1);
  std::string text = fmt::format(
      "      <object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
      "bridge_pci=\"0000:[{:02x}-{:02x}]\">\n",
      100000 + 100 * package, bus, bus + n_gpus);
  for (int gpu = 0; gpu < n_gpus; ++gpu)
    text += fmt::format(
        "        <object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"0000:{:02x}:00.0\" "
        "pci_type=\"{} [0000:0000] a1\" pci_link_speed=\"0.000000\"/>\n",
        100000 + 100 * package + gpu + 1, bus + gpu, id);
  return text + "      </object>\n";
}

}  // namespace

std::string machine_xml(const std::string& synthetic, int gpus_per_package, const std::string& id) {
  TopologySource source;
  source.synthetic = synthetic;
  std::istringstream lines(Topology::load(source).value().xml().value());
  std::string xml;
  int package = 0;
  for (std::string line; std::getline(lines, line); xml += line + "\n")
    if (line == "    </object>" && gpus_per_package > 0)
      xml += bus_xml(package++, gpus_per_package, id);
  return xml;
}

Topology machine(const std::string& synthetic, int gpus_per_package, const std::string& id) {
  TopologySource source;
  source.xml = machine_xml(synthetic, gpus_per_package, id);
  source.devices = true;
  return Topology::load(source).value();
}

}  // namespace rlx::test
