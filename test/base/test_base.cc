// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>
#include <unistd.h>

#include <cstdlib>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/faster_way.h"
#include "base/file.h"
#include "base/knobs.h"
#include "base/network.h"
#include "base/words.h"

using namespace rlx;

Test(knobs, reads_numbers_with_suffixes_and_words) {
  Knobs knobs;
  std::vector<std::string> unknown;
  const auto status = parse_knobs({"RLX_TIMEOUT_MS=2K", "RLX_LOG=debug", "HOME=/"}, knobs, unknown);
  cr_assert(status.has_value());
  cr_expect_eq(knobs.timeout_ms, 2048);
  cr_expect_eq(knobs.log, 3);
  cr_expect(unknown.empty());
}

Test(knobs, names_variable_value_and_range_of_a_wrong_value) {
  const struct {
    const char* entry;
    const char* wanted;
  } table[] = {{"RLX_TIMEOUT_MS=-1", "0.."},
               {"RLX_TIMEOUT_MS=1x", "0.."},
               {"RLX_TIMEOUT_MS=99999999999999999999", "0.."},
               {"RLX_TIMEOUT_MS=9223372036854775807G", "0.."},
               {"RLX_LOG=loud", "error, warn, info, debug"},
               {"RLX_LOG=", "error"}};
  for (const auto& row : table) {
    Knobs knobs;
    std::vector<std::string> unknown;
    const auto status = parse_knobs({row.entry}, knobs, unknown);
    cr_assert(!status.has_value(), "%s", row.entry);
    cr_expect(status.error().text.find(row.entry) != std::string::npos, "%s",
              status.error().text.c_str());
    cr_expect(status.error().text.find(row.wanted) != std::string::npos, "%s",
              status.error().text.c_str());
  }
}

Test(knobs, reports_variables_that_do_not_exist_and_the_nearest_name) {
  Knobs knobs;
  std::vector<std::string> unknown;
  cr_assert(parse_knobs({"RLX_TIMEOUTMS=5", "RLX_RANK=3"}, knobs, unknown).has_value());
  cr_assert_eq(unknown.size(), 1u);
  cr_expect(nearest_word(unknown[0], {"RLX_LOG", "RLX_TIMEOUT_MS"}) == "RLX_TIMEOUT_MS");
  cr_expect(nearest_word("zzzzzzzz", {"RLX_LOG"}).empty());
}

Test(dtype, names_round_trip_and_operations_apply_where_they_make_sense) {
  for (int d = 0; d < kDtypeCount; ++d)
    cr_expect_eq(static_cast<int>(*dtype_from_name(name_of(static_cast<Dtype>(d)))), d);
  for (int o = 0; o < kOpCount; ++o)
    cr_expect_eq(static_cast<int>(*op_from_name(name_of(static_cast<Op>(o)))), o);
  cr_expect(!dtype_from_name("f8"));
  cr_expect(op_applies(Op::band, Dtype::u8) && !op_applies(Op::bor, Dtype::f32));
}

Test(bytes, read_back_what_was_written_and_stop_at_the_end) {
  ByteWriter writer;
  writer.put(std::uint16_t{7});
  writer.put_string("name");
  writer.put(-1.5);
  const std::string bytes = writer.take();
  ByteReader reader(bytes);
  cr_expect_eq(reader.get<std::uint16_t>(), 7);
  cr_expect(reader.get_string() == "name");
  cr_expect_eq(reader.get<double>(), -1.5);
  cr_expect(reader.at_end());
  // Every truncation is noticed, and a length beyond the end reads nothing.
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    ByteReader cut(std::string_view(bytes).substr(0, n));
    cut.get<std::uint16_t>();
    cut.get_string();
    cut.get<double>();
    cr_expect(!cut.ok(), "%zu", n);
  }
}

Test(file, is_read_whole_or_refused) {
  char path[] = "/tmp/rlx-file-XXXXXX";
  const int fd = mkstemp(path);
  const std::string text(200000, 'x');
  cr_assert_eq(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  cr_expect(read_file(path, text.size()) == text);
  cr_expect(read_file(path) == text);
  const auto cut = read_file(path, text.size() - 1);
  cr_assert(!cut.has_value());
  cr_expect(cut.error().text.find("is larger than 199999 bytes") != std::string::npos);
  cr_expect_eq(ftruncate(fd, 0), 0);
  cr_expect(read_file(path, 0) == std::string());
  close(fd);
  unlink(path);
  const struct {
    const char *path, *word;
  } table[] = {{path, "cannot open"}, {"/tmp", "is a directory"}, {"/dev/zero", "is larger than"}};
  for (const auto& row : table) {
    const auto refused = read_file(row.path, 100);
    cr_assert(!refused.has_value(), "%s", row.path);
    cr_expect(refused.error().text.find(row.word) != std::string::npos, "%s",
              refused.error().text.c_str());
  }
  cr_expect(read_file("/proc/self/status")->starts_with("Name:"));  // says it holds nothing
}

Test(network, addresses_are_parsed_of_both_families_and_only_as_addresses) {
  for (const char* good : {"10.0.0.1", "::1", "fd00::17:1"}) {
    const auto ip = parse_ip(good);
    cr_assert(ip && to_string(*ip) == good && ip->v6 == (good[0] != '1'), "%s", good);
  }
  for (const char* bad : {"", "10.0.0", "10.0.0.256", "[::1]", "n1", "10.0.0.1 ", "fe80::1%eth0"})
    cr_expect(!parse_ip(bad), "%s", bad);
  cr_expect(is_own_address(*parse_ip("127.0.0.1")));
  cr_expect(!is_own_address(*parse_ip("192.0.2.1")));  // in documentation only
}

Test(words, are_plural_as_their_number_is) {
  cr_expect(counted(1, "rank") == "1 rank" && counted(0u, "rank") == "0 ranks");
  cr_expect(counted(std::size_t{2}, "more host") == "2 more hosts");
}

Test(words, text_is_cut_at_separators_with_or_without_what_is_empty) {
  using Parts = std::vector<std::string>;
  cr_expect(split("", ',') == Parts{""} && split("a,,b,", ',') == (Parts{"a", "", "b", ""}));
  cr_expect(words_of("").empty() && words_of(" \t\r\n\f\v").empty());
  cr_expect(words_of(" a\tb\n\nc") == (Parts{"a", "b", "c"}));
  cr_expect(words_of(",-a, b", ",-") == (Parts{"a", " b"}));
  cr_expect(printable("a\033[1m\tb\n\x7f\xc2\x9b\xc3\xa9") ==
            "a\\x1b[1m\\x09b\n\\x7f\\xc2\\x9b\xc3\xa9");
  cr_expect(printable("\xff\x80z\xc3") == "\\xff\\x80z\\xc3");
  cr_expect(excerpt("a\nb") == "a\\x0ab" && excerpt(std::string(80, 'a')) == std::string(80, 'a'));
  cr_expect(excerpt(std::string(79, 'a') + "\xc3\xa9") == std::string(79, 'a') + "...");
  cr_expect(trimmed(" a b\r\n") == "a b" && trimmed(" \n").empty() && trimmed("").empty());
}

Test(faster_way, is_found_kept_and_looked_for_again) {
  enum class Way { kRead, kSent };
  FasterWay<Way> ways;
  // A byte; cold: of a message that came another way than the one before.
  double read_ns = 0.1, cold_read_ns = 0.35, sent_ns = 0.3;
  auto last = Way::kRead;
  const auto message = [&](std::uint64_t n_bytes) {
    const auto way = ways.choose(n_bytes);
    const double ns = way == Way::kSent ? sent_ns : last == way ? read_ns : cold_read_ns;
    ways.took(way, n_bytes, static_cast<std::int64_t>(ns * static_cast<double>(n_bytes)));
    last = way;
    return way;
  };
  const auto share_read = [&](int n_messages) {
    int n = 0;
    for (int i = 0; i < n_messages; ++i) n += message(100 << 10) == Way::kRead;
    return static_cast<double>(n) / n_messages;
  };
  share_read(12);
  cr_expect_eq(share_read(50), 1);
  share_read(3000);
  cr_expect_geq(share_read(8192), 0.97);
  read_ns = cold_read_ns = 1.2;
  share_read(1100);
  cr_expect_leq(share_read(8192), 0.03);
  read_ns = 0.1, cold_read_ns = 0.35;
  share_read(1100);
  cr_expect_geq(share_read(8192), 0.97);
  // What the others took changes nothing. Sizes are apart.
  ways.took(Way::kRead, 100 << 10, std::int64_t{1} << 40);
  cr_expect_geq(share_read(8192), 0.97);
  read_ns = cold_read_ns = 1.2;
  cr_expect(message(64 << 20) == Way::kRead);  // not known yet
}
