//===- StreamOrder.cpp - Order in which streams run -----------------------===//

#include "heddle_rt/stream_order.h"
#include "support/Message.h"

#include <charconv>
#include <cstdlib>

namespace heddle::runtime {

Expected<StreamOrder> parseStreamOrder(std::string_view text) {
  StreamOrder order;
  if (text.empty())
    return order;
  order.kind = StreamOrder::Kind::Earliest;
  if (text == "earliest")
    return order;
  order.kind = StreamOrder::Kind::Latest;
  if (text == "latest")
    return order;
  order.kind = StreamOrder::Kind::Random;
  constexpr std::string_view random = "random:";
  if (text.starts_with(random)) {
    std::string_view seed = text.substr(random.size());
    auto [end, error] =
        std::from_chars(seed.data(), seed.data() + seed.size(), order.seed);
    if (error == std::errc() && end == seed.data() + seed.size())
      return order;
  }
  return errorOf("expected earliest, latest or random:SEED as the order of "
                 "streams, got ",
                 text);
}

Expected<StreamOrder> streamOrderFromEnvironment() {
  const char *text = std::getenv("HEDDLE_RT_STREAM_ORDER");
  Expected<StreamOrder> order = parseStreamOrder(text ? text : "");
  if (!order.ok())
    return Status(order.status()).in("HEDDLE_RT_STREAM_ORDER");
  return order;
}

} // namespace heddle::runtime
