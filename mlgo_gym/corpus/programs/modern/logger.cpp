// A logger with levels, a ring of lines, a formatter of an own type, and std::format with checked formats.
#include <array>
#include <cstdint>
#include <cstdio>
#include <format>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace logging {

enum class Level { debug, info, warning, error };

struct Address {
    std::array<std::uint8_t, 4> bytes;
    std::uint16_t port;
};

} // namespace logging

template <> struct std::formatter<logging::Address> : std::formatter<std::string_view> {
    auto format(const logging::Address &address, std::format_context &context) const {
        const auto &[a, b, c, d] = address.bytes;
        return std::format_to(context.out(), "{}.{}.{}.{}:{}", a, b, c, d, address.port);
    }
};

namespace logging {

constexpr std::string_view name(Level level) {
    constexpr std::array names{"debug", "info", "warning", "error"};
    return names[static_cast<std::size_t>(level)];
}

class Logger {
    std::array<std::string, 16> lines_;
    unsigned count_ = 0;
    Level least_;

    void write(Level level, const std::source_location &place, std::string message) {
        auto line = std::format("[{:>7}] {}:{} {}", name(level), place.function_name(), place.line(), message);
        if (level == Level::error) std::fputs(line.c_str(), stderr);
        lines_[count_++ % lines_.size()] = std::move(line);
    }

public:
    explicit Logger(Level least) : least_(least) {}

    template <class... Arguments>
    void log(Level level, const std::source_location &place, std::format_string<Arguments...> format,
             Arguments &&...arguments) {
        if (level >= least_) write(level, place, std::format(format, std::forward<Arguments>(arguments)...));
    }

    std::string_view last() const { return count_ ? std::string_view{lines_[(count_ - 1) % lines_.size()]} : ""; }
};

void connected(Logger &logger, const Address &address, int milliseconds) {
    const auto here = std::source_location::current();
    logger.log(Level::info, here, "connected to {} in {} ms", address, milliseconds);
    if (milliseconds > 500) logger.log(Level::warning, here, "slow: {:.1f} s", milliseconds / 1000.0);
}

void failed(Logger &logger, const Address &address, int code, std::string_view reason) {
    logger.log(Level::error, std::source_location::current(), "{}: {:#06x} {}", address, code, reason);
}

std::string table(const int (&values)[4]) {
    std::string text;
    for (int value : values) std::format_to(std::back_inserter(text), "{:>8}|", value);
    return text;
}

} // namespace logging
