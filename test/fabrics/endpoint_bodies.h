// SPDX-License-Identifier: MIT OR Apache-2.0
// What ranks do in the endpoint's tests; the same as processes over any wire and as threads.
#pragma once

#include "fabrics/endpoint.h"

namespace rlx::test {

void exchange_all_sizes(Endpoint& ep);
void exchange_in_the_pool(Endpoint& ep);
void match_in_order(Endpoint& ep);
void contexts_are_apart(Endpoint& ep);             // two ranks
void survive_a_flood(Endpoint& ep);                // two ranks
void truncate_on_the_receiver_only(Endpoint& ep);  // two ranks
void cancel_and_probe(Endpoint& ep);               // two ranks
void storm(Endpoint& ep);
void sleep_for_everything(Endpoint& ep);

}  // namespace rlx::test
